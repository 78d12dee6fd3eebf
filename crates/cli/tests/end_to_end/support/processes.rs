//! Processes of this machine, by what `/proc` says of them.

use std::fs;

/// A process that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Its arguments and environment, as text.
    pub(crate) told: String,
}

impl Process {
    fn see(pid: u32) -> Option<Self> {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
        let bytes = [read("cmdline")?, read("environ")?].concat();
        Some(Self { pid, told: String::from_utf8_lossy(&bytes).replace('\0', " ") })
    }

    /// Whether it still runs; one that only waits to be reaped does not.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(state, _)| state != 'Z')
    }
}

/// All processes that run.
pub(crate) fn processes() -> Vec<Process> {
    running(|_| true)
}

/// The processes that `parent` started and that run.
pub(crate) fn children_of(parent: u32) -> Vec<Process> {
    running(|of| of == parent)
}

/// The processes that run and have a parent as wanted.
fn running(wanted: impl Fn(u32) -> bool) -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat(pid).is_some_and(|(state, parent)| state != 'Z' && wanted(parent)))
        .filter_map(Process::see)
        .collect()
}

/// State and parent; the name before them may hold anything, but no `)` comes after it.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
