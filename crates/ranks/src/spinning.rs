//! The ends of short waits: a thread that spins goes on at once, one that sleeps has to be woken first,
//! which takes some 10 to 50 µs.
//!
//! Spinning takes a CPU that others may need more: readers, a server on the same host, ranks that have
//! something to do. So there are places for it, as many as somebody who looks at the CPUs
//! [allows](Spinning::allow); at first there are none.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest time that a wait spins, at its end or until it sleeps.
pub const LONGEST_SPIN: Duration = Duration::from_micros(80);

/// The places where threads of a process may spin.
#[derive(Debug, Default)]
pub struct Spinning {
    allowed: AtomicU32,
    taken: AtomicU32,
    /// Spent in places until now, in ns.
    spent: AtomicU64,
}

impl Spinning {
    /// From now on as many threads may spin at once. Those that do already end it by themselves.
    pub fn allow(&self, threads: u32) {
        self.allowed.store(threads, Ordering::Relaxed);
    }

    /// How many may.
    pub fn allowed(&self) -> u32 {
        self.allowed.load(Ordering::Relaxed)
    }

    /// The time that all threads together have spun until now.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// A place, if one is free. It may be taken some time before it is needed.
    pub fn place(&self) -> Option<Place<'_>> {
        let next = |taken| (taken < self.allowed()).then_some(taken + 1);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.taken.fetch_update(success, failure, next).ok().map(|_| Place(self))
    }
}

/// The right of one thread to spin; given back when dropped.
#[derive(Debug)]
pub struct Place<'a>(&'a Spinning);

impl Place<'_> {
    /// Spins until `is_over`, or until this has taken [`LONGEST_SPIN`]. Tells whether it was over.
    pub fn spin_until(self, mut is_over: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        loop {
            let over = is_over();
            let spent = began.elapsed();
            if over || spent >= LONGEST_SPIN {
                self.0.spent.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
                return over;
            }
            hint::spin_loop();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_spins_before_somebody_allows_it() {
        assert!(Spinning::default().place().is_none());
    }

    #[test]
    fn as_many_spin_at_once_as_are_allowed() {
        let spinning = Spinning::default();
        spinning.allow(2);
        let first = spinning.place();
        let second = spinning.place();
        assert!(first.is_some() && second.is_some() && spinning.place().is_none());
        drop(first);
        assert!(spinning.place().is_some());
        spinning.allow(1);
        assert!(spinning.place().is_none(), "the second still has the only place");
        drop(second);
        assert!(spinning.place().is_some());
    }

    #[test]
    fn a_spin_ends_when_its_wait_is_over_or_when_it_took_too_long_and_is_counted() {
        let spinning = Spinning::default();
        spinning.allow(1);
        let mut looks = 0;
        let over = spinning.place().unwrap().spin_until(|| {
            looks += 1;
            looks == 3
        });
        assert!(over && looks == 3);
        let before = spinning.spent();
        assert!(!spinning.place().unwrap().spin_until(|| false));
        assert!(spinning.spent() >= before + LONGEST_SPIN);
        assert!(spinning.place().is_some(), "places are given back");
    }
}
