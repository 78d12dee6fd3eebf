//! The monotonic clock, and sleeping exactly.

use std::ops::Sub;

use feedrate_metrics::units::Seconds;
use rustix::io::Errno;
use rustix::thread::ClockId;
use rustix::time::{Timespec, clock_gettime};

/// A moment on `CLOCK_MONOTONIC`, in ns. `std::time::Instant` reads the same clock but cannot be
/// slept to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        Self(time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }

    pub(crate) fn after(self, span: Seconds) -> Self {
        Self(self.0 + (span.0 * 1e9).round() as i64)
    }

    /// Sleeps to this moment; returns at once when it has passed.
    pub(crate) fn sleep_until(self) {
        let deadline = Timespec { tv_sec: self.0 / 1_000_000_000, tv_nsec: self.0 % 1_000_000_000 };
        while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline)
            == Err(Errno::INTR)
        {}
    }
}

impl Sub for Moment {
    type Output = Seconds;
    fn sub(self, earlier: Self) -> Seconds {
        Seconds((self.0 - earlier.0) as f64 / 1e9)
    }
}

/// Lets the kernel wake the calling thread as exactly as it can: the default slack of 50 µs would be
/// half of the error of a step (spec/measurements.md, "Sleeping 47.55 ms"). Where that is forbidden
/// the sleeps are a little longer, which the records show.
pub(crate) fn wake_exactly() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_never_ends_early() {
        wake_exactly();
        for millis in [0, 1, 5] {
            let start = Moment::now();
            start.after(Seconds(f64::from(millis) / 1e3)).sleep_until();
            assert!(Moment::now() >= start.after(Seconds(f64::from(millis) / 1e3)));
        }
    }

    #[test]
    fn a_deadline_that_has_passed_is_no_sleep() {
        let start = Moment::now();
        start.after(Seconds(-10.0)).sleep_until();
        assert!((Moment::now() - start).0 < 1.0);
    }
}
