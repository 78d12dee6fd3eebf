//! How busy the CPUs were while ranks waited in trainings: what tells a slow store from a busy client. And
//! whether they have time to spare for ranks that wait only a moment.

mod cpus;
mod spare;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use feedrate_metrics::process::WaitingCpu;
use feedrate_metrics::units::Seconds;
use feedrate_ranks::spinning::Spinning;

use self::cpus::Cpus;
use self::spare::{LATELY, Spare};

/// The kernel counts CPU time in ticks of 10 ms, so looking more often would see nothing more.
const INTERVAL: Duration = Duration::from_millis(10);

/// Ranks that wait for a batch of a training now.
#[derive(Debug, Default)]
pub(crate) struct Waiting(AtomicU32);

impl Waiting {
    /// Counts the calling rank as waiting while `wait` runs.
    pub(crate) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = wait();
        self.0.fetch_sub(1, Ordering::Relaxed);
        result
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Who may use the same CPUs as this process and belongs to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Other processes with ranks. Under a quota of a control group, as containers have one, who else is
    /// on the CPUs says little, and this process's own CPU time counts. Of several processes under one
    /// quota each then sees its own part alone, so that they seem less busy than they are.
    Processes,
    /// The store's server.
    Server,
}

/// A thread that samples until it is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    sums: Arc<Mutex<WaitingCpu>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Samples the CPUs that this process may use: its own CPU time, or with `others` (who may use them,
    /// too) everything that runs on them. Where there are waits short enough for `spinning`, it says
    /// whether they may end so, given with all ranks that may be on the same CPUs.
    pub(crate) fn start(
        waiting: Arc<Waiting>,
        others: Option<Others>,
        spinning: Option<(u32, Arc<Spinning>)>,
    ) -> Self {
        let cpus = Cpus::of_this_process();
        let sums = WaitingCpu { cpus: f64::from(cpus.count), ..WaitingCpu::default() };
        let sums = Arc::new(Mutex::new(sums));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (sums, stop) = (Arc::clone(&sums), Arc::clone(&stop));
            let spent = spinning.as_ref().map(|(_, spinning)| Arc::clone(spinning));
            let mut spare = spinning.map(|(ranks, spinning)| Spare::new(cpus, ranks, spinning));
            // Looks at the CPUs only while a rank waits: reading `/proc` takes CPU time itself. What is
            // spun is nothing that anybody waits for.
            let look = move || {
                let cpu = if waiting.any() { cpus.used(others).ok() } else { None };
                let spun = spent.as_ref().map_or(Duration::ZERO, |spinning| spinning.spent());
                cpu.map(|cpu| (Instant::now(), cpu.saturating_sub(spun)))
            };
            let sample = move || {
                let mut before = look();
                let mut looked = None;
                while !stop.load(Ordering::Relaxed) {
                    if let Some(spare) = &mut spare
                        && looked.is_none_or(|looked: Instant| looked.elapsed() >= LATELY)
                    {
                        looked = Some(Instant::now());
                        spare.look();
                    }
                    thread::sleep(INTERVAL);
                    let now = look();
                    if let (Some((then, cpu_then)), Some((now, cpu_now))) = (before, now) {
                        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                        sums.waited += Seconds::from(now - then);
                        sums.cpu += Seconds::from(cpu_now.saturating_sub(cpu_then));
                    }
                    before = now;
                }
            };
            thread::Builder::new().name("cpu-sampler".to_owned()).spawn(sample).ok()
        };
        Self { sums, stop, thread }
    }

    pub(crate) fn sums(&self) -> WaitingCpu {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn cpus_that_others_may_use_are_busy_by_what_others_do() {
        let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let waiting = Arc::new(Waiting::default());
        let sampler = Sampler::start(Arc::clone(&waiting), Some(Others::Server), None);
        waiting.during(|| thread::sleep(Duration::from_millis(500)));
        let sums = sampler.sums();
        other.kill().unwrap();
        other.wait().unwrap();
        // This process itself only looks, and the kernel may count some ticks late.
        assert!(sums.cpu.0 > 0.2, "{sums:?}");
        assert!(sums.cpu.0 <= sums.waited.0 * sums.cpus + 0.1, "{sums:?}");
    }
}
