//! `profiling.profiler: iostat`: sysstat's program beside a run, its output in the results' folder
//! (spec/dlio.md 8.1).

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use feedrate_workload::{Profiler, Workload};
use rustix::process::{Pid, Signal, kill_process};

/// The file that it fills.
const FILE_NAME: &str = "iostat.json";
/// How long it gets to write its last line.
const PATIENCE: Duration = Duration::from_secs(3);

/// `iostat` at work. It ends when this is dropped, or at its next line when this process dies: its
/// output goes through a pipe that nobody reads then.
pub(crate) struct Iostat {
    child: Child,
    copying: Option<JoinHandle<io::Result<u64>>>,
}

impl Iostat {
    /// Starts it if `workload` asks for it; a line a second about the devices it names, or all.
    pub(crate) fn start(workload: &Workload, folder: &Path) -> anyhow::Result<Option<Self>> {
        let wanted = workload.workflow.profiling && workload.profiling.profiler == Profiler::Iostat;
        if !wanted {
            return Ok(None);
        }
        let path = folder.join(FILE_NAME);
        let mut file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut child = Command::new("iostat")
            .args(["-mdxtcy", "-o", "JSON"])
            .args(&workload.profiling.iostat_devices)
            .arg("1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => anyhow!(
                    "workflow.profiling asks for iostat, and there is none in PATH: install sysstat, \
                     or set profiling.profiler=none"
                ),
                _ => anyhow!(error).context("cannot start iostat"),
            })?;
        let output = child.stdout.take();
        let copying =
            output.map(|mut output| thread::spawn(move || io::copy(&mut output, &mut file)));
        Ok(Some(Self { child, copying }))
    }
}

impl Drop for Iostat {
    fn drop(&mut self) {
        // On SIGINT it closes the lists of its JSON. One that has ended by itself is not there.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(copying) = self.copying.take() {
            let _ = copying.join();
        }
    }
}
