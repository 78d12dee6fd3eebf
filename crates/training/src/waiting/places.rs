//! How many ranks may spin at the ends of short waits: as many as there were CPUs lately that nobody
//! needed, and never all of them.
//!
//! What runs at a moment says little, as the work for a step comes in bursts; over some time CPUs that
//! are idle are CPUs to spare. Ranks that spin make them busy, but would leave them to anybody else, so
//! their time counts as idle. A guess that is wrong costs 80 µs of one CPU a step, and not for long.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_ranks::spinning::Spinning;

use super::cpus::{Cpus, own_used};

/// How far back it looks. The kernel tells times in steps of 10 ms for each CPU, so a shorter time would
/// be a guess.
pub(super) const LATELY: Duration = Duration::from_millis(200);

/// Looks at the CPUs, and allows ranks to spin by what it sees.
#[derive(Debug)]
pub(super) struct Places {
    cpus: Cpus,
    spinning: Arc<Spinning>,
    last: Option<Reading>,
}

/// Times until a moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    idle: Duration,
    /// Where a quota rations CPUs: what this process used.
    used: Option<Duration>,
    spun: Duration,
}

impl Places {
    pub(super) fn new(cpus: Cpus, spinning: Arc<Spinning>) -> Self {
        Self { cpus, spinning, last: None }
    }

    /// To be called every [`LATELY`].
    pub(super) fn look(&mut self) {
        let now = self.read().ok();
        let free = self.last.zip(now).map(|(last, now)| now.free_since(&last, self.cpus.count));
        self.spinning.allow(places(self.cpus.count, free.unwrap_or(0.0)));
        self.last = now;
    }

    fn read(&self) -> io::Result<Reading> {
        Ok(Reading {
            at: Instant::now(),
            idle: self.cpus.idle()?,
            used: if self.cpus.are_rationed() { Some(own_used()?) } else { None },
            spun: self.spinning.spent(),
        })
    }
}

impl Drop for Places {
    /// Nobody looks any more.
    fn drop(&mut self) {
        self.spinning.allow(0);
    }
}

impl Reading {
    /// CPUs, of `count`, that nobody needed.
    fn free_since(&self, earlier: &Self, count: u32) -> f64 {
        let elapsed = self.at - earlier.at;
        let idle = self.idle.saturating_sub(earlier.idle);
        let left = self
            .used
            .zip(earlier.used)
            .map(|(now, then)| (elapsed * count).saturating_sub(now.saturating_sub(then)));
        let free =
            left.map_or(idle, |left| idle.min(left)) + self.spun.saturating_sub(earlier.spun);
        free.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
    }
}

/// Of `cpus` CPUs so many were `free`, on average.
fn places(cpus: u32, free: f64) -> u32 {
    (free as u32).min(cpus - 1)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_cpu_is_never_spun_on_and_those_with_work_neither() {
        assert_eq!(places(1, 1.0), 0);
        assert_eq!((places(2, 2.0), places(2, 1.0), places(2, 0.9)), (1, 1, 0));
        assert_eq!((places(64, 64.0), places(64, 10.5), places(64, 0.0)), (63, 10, 0));
    }

    #[test]
    fn time_that_ranks_spin_is_time_to_spare() {
        let start = Instant::now();
        let reading = |at, idle, spun| Reading { at: start + at, idle, used: None, spun };
        let before = reading(Duration::ZERO, 7 * SECOND, SECOND);
        let after = reading(2 * SECOND, 8 * SECOND, 2 * SECOND);
        assert!((after.free_since(&before, 2) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn of_a_quota_what_this_process_used_is_gone_however_idle_the_host_is() {
        let start = Instant::now();
        let reading = |at, idle, used| Reading {
            at: start + at,
            idle,
            used: Some(used),
            spun: Duration::ZERO,
        };
        let before = reading(Duration::ZERO, Duration::ZERO, SECOND);
        let idle_host = reading(SECOND, 60 * SECOND, 2 * SECOND);
        assert!((idle_host.free_since(&before, 4) - 3.0).abs() < 1e-9);
        let busy_host = reading(SECOND, SECOND, 2 * SECOND);
        assert!((busy_host.free_since(&before, 4) - 1.0).abs() < 1e-9);
        let overspent = reading(SECOND, 60 * SECOND, 7 * SECOND);
        assert!(overspent.free_since(&before, 4) < 1e-9);
    }

    #[test]
    fn where_all_cpus_have_work_nobody_spins() {
        let (cpus, spinning) = (Cpus::of_this_process(), Arc::new(Spinning::default()));
        spinning.allow(cpus.count);
        let mut places = Places::new(cpus, Arc::clone(&spinning));
        thread::scope(|scope| {
            let stop = Instant::now() + 3 * LATELY;
            for _ in 0..cpus.count {
                scope.spawn(move || while Instant::now() < stop {});
            }
            places.look();
            assert_eq!(spinning.allowed(), 0, "nothing is known yet");
            thread::sleep(2 * LATELY);
            places.look();
            assert_eq!(spinning.allowed(), 0);
        });
        spinning.allow(1);
        drop(places);
        assert_eq!(spinning.allowed(), 0);
    }
}
