//! `profiling.profiler: iostat`: sysstat's program beside a run, its output in the results' folder
//! (spec/dlio.md 8.1).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use feedrate_report::postprocess::IOSTAT_FILE;
use feedrate_workload::{Profiler, Workload};
use rustix::process::{Pid, Signal, kill_process};

/// The most of its complaints that is shown, in bytes.
const MOST_COMPLAINTS: u64 = 1_000;
/// How long it gets to write its last line.
const PATIENCE: Duration = Duration::from_secs(3);

/// `iostat` at work. It ends when this is dropped, or at its next line when this process dies: its
/// output goes through a pipe that nobody reads then.
pub(crate) struct Iostat {
    child: Child,
    /// Into the file; how many bytes in the end.
    copying: Option<JoinHandle<io::Result<u64>>>,
    /// What it complains of.
    complaining: Option<JoinHandle<String>>,
}

impl Iostat {
    /// Starts it if `workload` asks for it; a line a second about the devices it names, or all.
    pub(crate) fn start(workload: &Workload, folder: &Path) -> anyhow::Result<Option<Self>> {
        let wanted = workload.workflow.profiling && workload.profiling.profiler == Profiler::Iostat;
        if !wanted {
            return Ok(None);
        }
        let path = folder.join(IOSTAT_FILE);
        let mut file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut child = Command::new("iostat")
            .args(["-mdxtcy", "-o", "JSON"])
            .args(&workload.profiling.iostat_devices)
            .arg("1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => anyhow!(
                    "workflow.profiling asks for iostat, and there is none in PATH: install sysstat, \
                     or set profiling.profiler=none"
                ),
                _ => anyhow!(error).context("cannot start iostat"),
            })?;
        let (output, complaints) = (child.stdout.take(), child.stderr.take());
        let mut this = Self { child, copying: None, complaining: None };
        if let (Some(mut output), Some(complaints)) = (output, complaints) {
            let thread = || thread::Builder::new().name("iostat".to_owned());
            let no_thread = "no thread to read what iostat says";
            let copy = move || io::copy(&mut output, &mut file);
            this.copying = Some(thread().spawn(copy).context(no_thread)?);
            let read = move || {
                let mut text = String::new();
                let _ = complaints.take(MOST_COMPLAINTS).read_to_string(&mut text);
                text
            };
            this.complaining = Some(thread().spawn(read).context(no_thread)?);
        }
        Ok(Some(this))
    }

    /// Ends it. What there is to say if it did not work the whole time.
    pub(crate) fn finish(mut self) -> Option<String> {
        let early = self.child.try_wait().ok().flatten();
        self.end();
        let copied = self.copying.take().and_then(|copying| copying.join().ok());
        let complaints = self.complaining.take().and_then(|reading| reading.join().ok());
        let complaints = complaints.unwrap_or_default();
        let said = complaints.trim();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        match (early, copied) {
            (Some(status), _) => Some(format!(
                "iostat ended before the run did ({status}){said}; {IOSTAT_FILE} is not whole"
            )),
            (None, Some(Err(error))) => Some(format!("{IOSTAT_FILE} is not whole: {error}")),
            (None, _) => None,
        }
    }

    fn end(&mut self) {
        // On SIGINT it closes the lists of its JSON. One that has ended by itself is not there.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Iostat {
    fn drop(&mut self) {
        self.end();
    }
}
