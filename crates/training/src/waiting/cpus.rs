//! The CPUs that this process may use.

use std::io;
use std::thread;
use std::time::Duration;

use feedrate_metrics::process::{busy_time, idle_time, own_cpu_time};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::Others;

/// Which they are, and how many of them at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpus {
    /// By affinity and by the quota of the control group; at least 1.
    pub(super) count: u32,
    affinity: Option<CpuSet>,
}

impl Cpus {
    pub(super) fn of_this_process() -> Self {
        let count = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        Self { count, affinity: sched_getaffinity(None).ok() }
    }

    /// Whether a quota allows fewer than there are.
    pub(super) fn are_rationed(&self) -> bool {
        self.affinity.is_some_and(|set| self.count < set.count())
    }

    fn has(&self, cpu: usize) -> bool {
        self.affinity.is_none_or(|set| cpu < CpuSet::MAX_CPU && set.is_set(cpu))
    }

    /// CPU time that the job used until now: that of this process, or with `others` (who may use the
    /// same CPUs) of everything that runs on them.
    pub(super) fn used(&self, others: Option<Others>) -> io::Result<Duration> {
        let own = match others {
            None => true,
            Some(Others::Processes) => self.are_rationed(),
            Some(Others::Server) => false,
        };
        if own { own_used() } else { busy_time(|cpu| self.has(cpu)) }
    }

    /// Time that they have been idle until now, all together.
    pub(super) fn idle(&self) -> io::Result<Duration> {
        idle_time(|cpu| self.has(cpu))
    }
}

/// User and system time of this process until now.
pub(super) fn own_used() -> io::Result<Duration> {
    Ok(Duration::from_secs_f64(own_cpu_time()?.sum().0))
}
