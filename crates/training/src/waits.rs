//! How a rank waits for the end of a computation.

use std::sync::Arc;

use feedrate_metrics::units::Seconds;
use feedrate_ranks::World;
use feedrate_ranks::spinning::{LONGEST_SPIN, Spinning};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock::Moment;

/// The longest wait that may end in spinning.
pub(crate) const SHORT: Seconds = Seconds(1e-3);

/// The waits of one rank, which it makes on its own thread.
#[derive(Debug)]
pub(crate) struct Waits {
    spinning: Arc<Spinning>,
    /// Where it spins, and where it may be otherwise; `None` where that makes no difference.
    places: Option<Places>,
    /// Whether it is where it spins.
    keeps_to_one: bool,
}

#[derive(Debug)]
struct Places {
    /// One CPU.
    own: CpuSet,
    all: CpuSet,
}

impl Waits {
    /// For the calling thread, which is that of a rank of `world`.
    pub(crate) fn new(world: &dyn World) -> Self {
        let places = sched_getaffinity(None).ok().filter(|_| world.size() > 1).and_then(|all| {
            let number = world.rank() as usize % all.count().max(1) as usize;
            let cpu = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).nth(number)?;
            let mut own = CpuSet::new();
            own.set(cpu);
            Some(Places { own, all })
        });
        Self { spinning: Arc::clone(world.spinning()), places, keeps_to_one: false }
    }

    /// Waits until `moment`, which is `ahead` by so much, or has passed. A wait that is [`SHORT`] ends in
    /// spinning where that is allowed: waking up would take a part of it that counts.
    pub(crate) fn until(&mut self, moment: Moment, ahead: Seconds) {
        let spins = self.spinning.is_allowed();
        if spins != self.keeps_to_one {
            self.keep_to_one(spins);
        }
        if spins && ahead <= SHORT {
            let spin = Seconds::from(LONGEST_SPIN);
            if ahead > spin {
                moment.after(Seconds(-spin.0)).sleep_until();
            }
            if self.spinning.until(|| Moment::now() >= moment) {
                return;
            }
        }
        moment.sleep_until();
    }

    /// Ranks that spin have a CPU each, as two that wake up on one and the same need not be parted by the
    /// kernel: one would spin and the other wait for that to end.
    fn keep_to_one(&mut self, keep: bool) {
        self.keeps_to_one = keep;
        if let Some(Places { own, all }) = &self.places {
            // Where that is refused, ranks are late now and then, which the records show.
            let _ = sched_setaffinity(None, if keep { own } else { all });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use feedrate_ranks::in_process;

    use super::*;
    use crate::clock::wake_exactly;

    #[test]
    fn a_wait_never_ends_early_whether_it_ends_in_spinning_or_not() {
        wake_exactly();
        let world = &in_process::world(1)[0];
        let spinning = world.spinning();
        let mut waits = Waits::new(world);
        for allowed in [false, true, false] {
            spinning.allow(allowed);
            for micros in [0, 5, 79, 81, 375, 1_000, 1_001, 3_000] {
                let ahead = Seconds(f64::from(micros) / 1e6);
                let moment = Moment::now().after(ahead);
                let before = spinning.spent();
                waits.until(moment, ahead);
                assert!(Moment::now() >= moment, "{micros} µs");
                let spins = allowed && micros <= 1_000;
                assert_eq!(spinning.spent() > before, spins, "{micros} µs, {allowed}");
            }
        }
        assert!(spinning.spent() < Duration::from_secs(1));
    }

    #[test]
    fn ranks_that_spin_have_a_cpu_each_and_all_cpus_again_when_they_stop() {
        let all = sched_getaffinity(None).unwrap();
        let ranks = all.count();
        let worlds = in_process::world(ranks);
        let mut cpus = CpuSet::new();
        for world in &worlds {
            let mut waits = Waits::new(world);
            world.spinning().allow(true);
            waits.until(Moment::now(), Seconds(0.0));
            let own = sched_getaffinity(None).unwrap();
            assert_eq!(own.count(), 1);
            let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| own.is_set(cpu)).unwrap();
            assert!(all.is_set(cpu) && !cpus.is_set(cpu));
            cpus.set(cpu);
            world.spinning().allow(false);
            waits.until(Moment::now(), Seconds(0.0));
            assert_eq!(sched_getaffinity(None).unwrap(), all);
        }
    }

    #[test]
    fn a_rank_that_is_alone_spins_wherever_it_is() {
        let all = sched_getaffinity(None).unwrap();
        let world = &in_process::world(1)[0];
        world.spinning().allow(true);
        Waits::new(world).until(Moment::now(), Seconds(0.0));
        assert_eq!(sched_getaffinity(None).unwrap(), all);
    }
}
