//! `mpirun` in a place, and the processes that come of it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Call, Place, Process, Running, Said, processes};

/// `mpirun`, called in `place`; what it is to start is still to be added. The user may be root, and the
/// machine may have fewer CPUs than there are processes.
pub(crate) fn launcher(place: &Place) -> Call {
    place.call("mpirun").env("TMPDIR", place.home()).args("--allow-run-as-root --oversubscribe")
}

/// `mpirun` of so many processes of a program, called in `place`.
pub(crate) fn mpirun(place: &Place, processes: u32, program: &str, line: &str) -> Call {
    launcher(place).args(&format!("-n {processes}")).arg(program).args(line)
}

/// A launcher under way with all that it started: nothing of it outlives the test.
pub(crate) struct Job {
    running: Option<Running>,
    /// What is in the environment of its processes and of no others.
    mark: String,
}

impl Job {
    /// Starts `call` of a launcher in `place`.
    pub(crate) fn start(place: &Place, call: Call) -> Self {
        Self { running: Some(call.start()), mark: format!("TMPDIR={}", place.home().display()) }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(Running::is_running)
    }

    /// The process of a rank, where each has one.
    #[track_caller]
    pub(crate) fn process_of(&self, rank: u32) -> Process {
        let variable = format!("OMPI_COMM_WORLD_RANK={rank} ");
        let mut of_rank =
            self.processes().into_iter().filter(|process| process.told.contains(&variable));
        of_rank.next().unwrap_or_else(|| panic!("there is no rank {rank}"))
    }

    /// Sends `signal` to the process of a rank.
    #[track_caller]
    pub(crate) fn signal(&self, rank: u32, signal: Signal) {
        let pid = Pid::from_raw(self.process_of(rank).pid.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends `signal` to the launcher, as a terminal does.
    pub(crate) fn signal_launcher(&self, signal: Signal) {
        self.running.as_ref().unwrap().signal_group(signal);
    }

    /// Waits until `path` is there.
    #[track_caller]
    pub(crate) fn until_exists(&mut self, path: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !path.exists() {
            assert!(self.is_running() && Instant::now() < deadline, "no {}", path.display());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the launcher has ended, and soon after it all that it started.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Said {
        let said = self.running.take().unwrap().ends();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.processes();
            if left.is_empty() {
                return said;
            }
            assert!(Instant::now() < deadline, "processes are left: {left:#?} after {said:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn processes(&self) -> Vec<Process> {
        let all = processes().into_iter();
        all.filter(|process| process.told.contains(&self.mark)).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for process in self.processes() {
            if let Some(pid) = Pid::from_raw(process.pid.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
