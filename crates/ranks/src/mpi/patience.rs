//! How to wait for something that must be asked for: MPI moves its messages only when it is called.
//!
//! A rank that waits in a barrier must neither sleep through the arrival of the last one nor take the
//! CPU from those it waits for, as there may be more processes than CPUs. So it first asks without a
//! pause, then lets others run in between, and then sleeps for a share of what it has waited so far,
//! which is how much longer the wait gets at most.

use std::thread;
use std::time::{Duration, Instant};

/// Asking without a pause: what a message takes between two processes that both run.
const SPIN: Duration = Duration::from_micros(3);
/// Letting others run in between: what it takes until those have run that had their data already.
const YIELD: Duration = Duration::from_micros(50);
/// A sleep lasts this share of the wait so far, up to [`SHORT_SLEEP`]. Ten thousand questions a second
/// cost about a tenth of a CPU.
const SHARE: u32 = 16;
const SHORT_SLEEP: Duration = Duration::from_micros(100);
/// Or it lasts this share, which is the longer time when the wait is one for a straggler or for the
/// end of another process's work, up to [`LONG_SLEEP`].
const SMALL_SHARE: u32 = 1000;
const LONG_SLEEP: Duration = Duration::from_millis(2);

/// The pauses of one wait.
#[derive(Debug)]
pub(crate) struct Patience {
    since: Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// Waits until it is time to ask again.
    pub(crate) fn pause(&mut self) {
        match pause_after(self.since.elapsed()) {
            Pause::None => std::hint::spin_loop(),
            Pause::Yield => thread::yield_now(),
            Pause::Sleep(time) => thread::sleep(time),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Pause {
    None,
    Yield,
    Sleep(Duration),
}

fn pause_after(waited: Duration) -> Pause {
    if waited < SPIN {
        Pause::None
    } else if waited < YIELD {
        Pause::Yield
    } else {
        let short = (waited / SHARE).min(SHORT_SLEEP);
        Pause::Sleep(short.max(waited / SMALL_SHARE).min(LONG_SLEEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_gets_longer_by_a_share_at_most() {
        let sleep = |micros| match pause_after(Duration::from_micros(micros)) {
            Pause::Sleep(time) => time.as_micros(),
            Pause::None | Pause::Yield => 0,
        };
        assert_eq!(pause_after(Duration::ZERO), Pause::None);
        assert_eq!([10, 160, 1_600].map(sleep), [0, 10, 100]);
        assert_eq!([50_000, 500_000, 9_000_000].map(sleep), [100, 500, 2_000]);
    }
}
