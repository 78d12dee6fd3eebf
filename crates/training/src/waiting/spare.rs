//! Whether CPUs have time to spare, so that ranks may spin at the ends of short waits.
//!
//! What runs at a moment says little, as the work for a step comes in bursts; over some time CPUs that
//! are idle are CPUs to spare. Ranks that spin make them busy, but would leave them to anybody else, so
//! their time counts as idle. A guess that is wrong costs each rank 80 µs of a CPU a step, and not for
//! long.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_ranks::spinning::Spinning;

use super::cpus::{Cpus, own_used};

/// How far back it looks. The kernel tells times in steps of 10 ms for each CPU, so a shorter time would
/// be a guess.
pub(super) const LATELY: Duration = Duration::from_millis(200);

/// CPUs of which this share is idle have time for others beside ranks that spin on all of them, which
/// they do a part of the time.
const MOSTLY_IDLE: f64 = 0.75;

/// Looks at the CPUs, and lets ranks spin by what it sees.
#[derive(Debug)]
pub(super) struct Spare {
    cpus: Cpus,
    /// All that may be on them.
    ranks: u32,
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

impl Spare {
    pub(super) fn new(cpus: Cpus, ranks: u32, spinning: Arc<Spinning>) -> Self {
        Self { cpus, ranks, spinning, last: None }
    }

    /// To be called every [`LATELY`].
    pub(super) fn look(&mut self) {
        let now = self.read().ok();
        let free = self.last.zip(now).map(|(last, now)| now.free_since(&last, self.cpus.count));
        self.spinning.allow(free.is_some_and(|free| may_spin(self.ranks, self.cpus.count, free)));
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

impl Drop for Spare {
    /// Nobody looks any more.
    fn drop(&mut self) {
        self.spinning.allow(false);
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
        let spun = self.spun.saturating_sub(earlier.spun);
        let free = left.map_or(idle, |left| idle.min(left)) + spun;
        free.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
    }
}

/// Whether `ranks` may spin on `cpus` CPUs, of which so many were `free` on average: each must find one,
/// and either nobody else needs those or all are mostly idle. A single CPU is needed by others.
fn may_spin(ranks: u32, cpus: u32, free: f64) -> bool {
    let needed = f64::from(ranks).min(MOSTLY_IDLE * f64::from(cpus));
    cpus > 1 && ranks <= cpus && free >= needed
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ranks_spin_on_cpus_that_nobody_needs() {
        assert!(may_spin(1, 2, 1.0) && !may_spin(1, 2, 0.9));
        assert!(may_spin(10, 64, 10.0) && !may_spin(10, 64, 9.9));
    }

    #[test]
    fn as_many_ranks_as_cpus_spin_where_these_are_mostly_idle() {
        assert!(may_spin(2, 2, 1.5) && !may_spin(2, 2, 1.4));
        assert!(may_spin(64, 64, 48.0) && !may_spin(64, 64, 47.0));
    }

    #[test]
    fn more_ranks_than_cpus_never_spin_nor_does_one_on_a_single_cpu() {
        assert!(!may_spin(3, 2, 2.0));
        assert!(!may_spin(1, 1, 1.0));
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
        spinning.allow(true);
        let mut spare = Spare::new(cpus, 1, Arc::clone(&spinning));
        thread::scope(|scope| {
            let stop = Instant::now() + 3 * LATELY;
            for _ in 0..cpus.count {
                scope.spawn(move || while Instant::now() < stop {});
            }
            spare.look();
            assert!(!spinning.is_allowed(), "nothing is known yet");
            thread::sleep(2 * LATELY);
            spare.look();
            assert!(!spinning.is_allowed());
        });
        spinning.allow(true);
        drop(spare);
        assert!(!spinning.is_allowed());
    }
}
