//! The monotonic clock, and sleeping exactly.

use std::ops::Sub;
use std::time::Duration;

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

/// Lets the kernel wake the calling thread as exactly as it can. A rank's thread stands for hardware
/// of its own: it needs next to no CPU, but gets it at once, also when readers and a co-located
/// server keep all CPUs busy.
///
/// - Timer slack 1 ns: the default of 50 µs would be half of the error of a step
///   (spec/measurements.md, "Sleeping 47.55 ms").
/// - Time slices of [`SLICE`]: among threads of one priority the scheduler lets those with short
///   slices go first, so a wake-up need not wait until another's slice of some ms is over. Kernels
///   before 6.12 ignore it.
///
/// Neither takes a privilege. Where one is refused the steps take a little longer, which the records
/// show.
pub(crate) fn wake_exactly() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        nice: rustix::process::getpriority_process(None).unwrap_or(0),
        runtime: SLICE.as_nanos() as u64,
        ..SchedulingAttributes::default()
    };
    let (calling_thread, no_flags) = (0, 0);
    // SAFETY: the kernel reads `size` bytes behind the pointer, which are the struct, and keeps
    // nothing of it.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            calling_thread,
            std::ptr::from_ref(&attributes),
            no_flags,
        )
    };
}

/// The shortest slice that the kernel grants.
const SLICE: Duration = Duration::from_micros(100);

/// `struct sched_attr` of `sched_setattr(2)` in its first version; zeros are the normal policy.
#[derive(Default)]
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For the normal policy: the slice, in ns.
    runtime: u64,
    deadline: u64,
    period: u64,
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
