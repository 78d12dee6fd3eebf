//! CPU time apart by what a run did in it.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::units::Seconds;

/// CPU time of a process, apart by where it was used. The kernel tells it in steps of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In the program.
    pub user: Seconds,
    /// In the kernel, for the program.
    pub system: Seconds,
}

impl CpuTime {
    /// Both.
    pub fn sum(self) -> Seconds {
        self.user + self.system
    }
}

impl Add for CpuTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { user: self.user + other.user, system: self.system + other.system }
    }
}

impl Sub for CpuTime {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// Where the CPU time of a run's processes went, from their start on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuByPhase {
    /// Until the clock of the first epoch starts: opening the store, listing, making the data set where
    /// the same processes do that.
    pub start: CpuTime,
    /// While an epoch's training is timed.
    pub training: CpuTime,
    /// In evaluations, until all ranks are done with them.
    pub evaluation: CpuTime,
    /// Behind an epoch and before the next one: bringing records together, writing results, emptying
    /// page caches.
    pub between: CpuTime,
}

impl CpuByPhase {
    /// What two processes used together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            start: self.start + other.start,
            training: self.training + other.training,
            evaluation: self.evaluation + other.evaluation,
            between: self.between + other.between,
        }
    }

    /// In all phases.
    pub fn sum(self) -> CpuTime {
        self.start + self.training + self.evaluation + self.between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_processes_add_up_each_for_itself() {
        let time = |user| CpuTime { user: Seconds(user), system: Seconds(user / 4.0) };
        let one = CpuByPhase {
            start: time(1.0),
            training: time(8.0),
            evaluation: time(2.0),
            between: time(4.0),
        };
        let both = one.and(CpuByPhase { training: time(16.0), ..CpuByPhase::default() });
        assert_eq!(both, CpuByPhase { training: time(24.0), ..one });
        assert_eq!(both.sum(), time(31.0));
        assert_eq!(both.sum().sum(), Seconds(38.75));
        assert_eq!(both.sum() - one.sum(), time(16.0));
    }
}
