//! A call of the program, and what came of it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use super::Server;

/// No call of a test takes this long; one that does hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program under test.
pub(crate) const FEEDRATE: &str = env!("CARGO_BIN_EXE_feedrate");
/// What stands where DLIO stood.
pub(crate) const DLIO: &str = env!("CARGO_BIN_EXE_dlio_benchmark");
pub(crate) const DLIO_QUERY: &str = env!("CARGO_BIN_EXE_dlio_benchmark_query");
pub(crate) const DLIO_POSTPROCESSOR: &str = env!("CARGO_BIN_EXE_dlio_postprocessor");

/// A call that is being put together. It leads a process group of its own, as under a shell.
#[must_use]
pub(crate) struct Call {
    command: Command,
}

impl Call {
    /// A call with nothing in its environment but `PATH`, and the wish to leave the page cache of the
    /// machine alone, which others use.
    pub(super) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).process_group(0);
        command.env("FEEDRATE_DROP_CACHES", "never");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        Self { command }
    }

    /// Adds the words of `line`.
    pub(crate) fn args(mut self, line: &str) -> Self {
        self.command.args(line.split_whitespace());
        self
    }

    /// Adds one argument, blanks and all.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds `--set` for each of `overrides`.
    pub(crate) fn set(mut self, overrides: &[&str]) -> Self {
        for key_and_value in overrides {
            self.command.args(["--set", key_and_value]);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.command.current_dir(path.into());
        self
    }

    /// With endpoint and keys of `server` in the environment.
    pub(crate) fn on(mut self, server: &Server) -> Self {
        self.command.envs(server.environment());
        self
    }

    /// Starts it. Its output goes to files: a child that outlives the call keeps them open, and must
    /// not keep the test waiting.
    pub(crate) fn start(mut self) -> Running {
        let output = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::File::create(output.path().join(name)).unwrap();
        self.command.stdout(file("stdout")).stderr(file("stderr"));
        let begun = Instant::now();
        let child = self.command.spawn().unwrap();
        Running { child, output, begun }
    }

    pub(crate) fn ends(self) -> Said {
        self.start().ends()
    }

    /// Runs it and asserts that it exits with 0.
    pub(crate) fn succeeds(self) -> Said {
        self.ends().with_code(0)
    }

    /// Runs it and asserts that it exits with `code`.
    pub(crate) fn fails(self, code: i32) -> Said {
        self.ends().with_code(code)
    }
}

/// A call under way; killed if a test gives up on it.
pub(crate) struct Running {
    child: Child,
    output: TempDir,
    begun: Instant,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends `signal` to the program alone.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.as_pid(), signal).unwrap();
    }

    /// Sends `signal` to the program and its children, as a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.as_pid(), signal).unwrap();
    }

    fn as_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn ends(mut self) -> Said {
        while self.is_running() {
            assert!(self.begun.elapsed() < PATIENCE, "still running: {}", self.read("stderr"));
            thread::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait().unwrap();
        Said {
            code: status.code().unwrap_or_else(|| -status.signal().unwrap_or_default()),
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
            elapsed: self.begun.elapsed(),
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.output.path().join(name)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _: io::Result<()> = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a call said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

impl Said {
    /// The exit code; less than 0 is a signal.
    pub(crate) fn code(&self) -> i32 {
        self.code
    }

    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Asserts that stderr has all of `texts`, and that no panic reached the user.
    #[track_caller]
    pub(crate) fn telling(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Asserts that `text` is in neither output.
    #[track_caller]
    pub(crate) fn keeping_quiet_about(self, text: &str) -> Self {
        assert!(!self.stdout.contains(text) && !self.stderr.contains(text), "{text}: {self:#?}");
        self
    }

    /// Asserts that it took less than `seconds`.
    #[track_caller]
    pub(crate) fn in_less_than(self, seconds: u64) -> Self {
        assert!(self.elapsed < Duration::from_secs(seconds), "{self:#?}");
        self
    }

    /// Its standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}
