//! How to wait for something that must be asked for: MPI moves its messages only when it is called.
//!
//! A rank that waits in a barrier must neither sleep through the arrival of the last one nor take the
//! CPU from those it waits for, as there may be more processes than CPUs. So it first asks without a
//! pause, then lets others run in between, and then sleeps for a fixed share of what it has waited:
//! the wait gets longer by that share at most, up to [`LONGEST_SLEEP`].

use std::thread;
use std::time::{Duration, Instant};

/// Asking without a pause: what a message takes between two processes that both run.
const SPIN: Duration = Duration::from_micros(3);
/// Letting others run in between: what it takes until those have run that had their data already.
const YIELD: Duration = Duration::from_micros(50);
/// A sleep lasts this share of the wait so far.
const SHARE: u32 = 4;
/// Ten thousand questions a second of a microsecond each are about 2 % of a CPU.
const LONGEST_SLEEP: Duration = Duration::from_micros(100);

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
        Pause::Sleep((waited / SHARE).min(LONGEST_SLEEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_gets_longer_by_a_share_at_most_and_never_by_more_than_the_longest_sleep() {
        for micros in 0..5_000 {
            let waited = Duration::from_micros(micros);
            if let Pause::Sleep(time) = pause_after(waited) {
                assert!(time <= waited / SHARE && time <= LONGEST_SLEEP, "{time:?} at {waited:?}");
            }
        }
        assert_eq!(pause_after(Duration::ZERO), Pause::None);
        assert_eq!(pause_after(Duration::from_secs(9)), Pause::Sleep(LONGEST_SLEEP));
    }
}
