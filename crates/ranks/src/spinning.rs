//! The ends of short waits: a thread that spins goes on at once, one that sleeps has to be woken first,
//! which takes some 10 to 50 µs.
//!
//! Spinning takes CPUs that others may need more: readers, a server on the same host, ranks that have
//! something to do. So somebody who looks at the CPUs has to [allow](Spinning::allow) it, for all ranks of
//! a process or none: they wait for each other, so that those who are not woken in time keep the rest.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest time that a wait spins, at its end or until it sleeps.
pub const LONGEST_SPIN: Duration = Duration::from_micros(80);

/// Whether the ranks of a process may spin. At first they may not.
#[derive(Debug, Default)]
pub struct Spinning {
    allowed: AtomicBool,
    /// Spent in it until now, in ns.
    spent: AtomicU64,
}

impl Spinning {
    /// From now on waits may end in spinning, or not. Who does already ends it by itself.
    pub fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Whether they may.
    pub fn is_allowed(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }

    /// The time that all threads together have spun until now.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// Spins until `is_over`, or until this has taken [`LONGEST_SPIN`]. Tells whether it was over.
    pub fn until(&self, mut is_over: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        loop {
            let over = is_over();
            let spent = began.elapsed();
            if over || spent >= LONGEST_SPIN {
                self.spent.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
                return over;
            }
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_spins_before_somebody_allows_it() {
        let spinning = Spinning::default();
        assert!(!spinning.is_allowed());
        spinning.allow(true);
        assert!(spinning.is_allowed());
    }

    #[test]
    fn a_spin_ends_when_its_wait_is_over_or_when_it_took_too_long_and_is_counted() {
        let spinning = Spinning::default();
        let mut looks = 0;
        let over = spinning.until(|| {
            looks += 1;
            looks == 3
        });
        assert!(over && looks == 3);
        let before = spinning.spent();
        assert!(!spinning.until(|| false));
        assert!(spinning.spent() >= before + LONGEST_SPIN);
    }
}
