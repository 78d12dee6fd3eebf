//! How busy the CPUs were while ranks waited: what tells a slow store from a busy client.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use feedrate_metrics::process::{WaitingCpu, host_cpu_time, own_cpu_time};
use feedrate_metrics::units::Seconds;

/// The kernel counts CPU time in ticks of 10 ms, so looking more often would see nothing more.
const INTERVAL: Duration = Duration::from_millis(10);

/// Ranks that wait for a batch now.
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

/// A thread that samples until it is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    sums: Arc<Mutex<WaitingCpu>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Samples the CPU time of the whole host when the store is `co_located` (its server works on
    /// the same CPUs), else that of this process.
    pub(crate) fn start(waiting: Arc<Waiting>, co_located: bool) -> Self {
        let cpus = thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let sums = Arc::new(Mutex::new(WaitingCpu { cpus, ..WaitingCpu::default() }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (sums, stop) = (Arc::clone(&sums), Arc::clone(&stop));
            let cpu_time = if co_located { host_cpu_time } else { own_cpu_time };
            // Looks at the CPUs only while a rank waits: reading `/proc` takes CPU time itself.
            let look = move || {
                let cpu = if waiting.any() { cpu_time().ok() } else { None };
                cpu.map(|cpu| (Instant::now(), cpu))
            };
            let sample = move || {
                let mut before = look();
                while !stop.load(Ordering::Relaxed) {
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
