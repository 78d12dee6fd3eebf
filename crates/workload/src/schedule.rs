//! How many steps an epoch has: one function for the printed number, the loop and the metric window.

use crate::Workload;

/// The shape of an epoch for a number of ranks (spec/dlio.md 5.1, NEW).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Ranks, N.
    pub ranks: u32,
    /// Samples per step and rank, B.
    pub batch_size: u64,
    /// Samples of the set, M = samples per file × files.
    pub samples: u64,
    /// Steps of each rank in each epoch: floor(M / (B N)), or `train.total_training_steps`.
    pub steps: u64,
}

/// Why no epoch can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The set is smaller than one step of all ranks.
    #[error(
        "0 steps: the set has {samples} samples, one step needs {batch_size} x {ranks} \
         (reader.batch_size x ranks). Use fewer ranks, a smaller reader.batch_size or a larger \
         dataset.num_files_train"
    )]
    NoStep {
        /// M
        samples: u64,
        /// B
        batch_size: u64,
        /// N
        ranks: u32,
    },
    /// `train.total_training_steps` asks for more than an epoch has.
    #[error(
        "train.total_training_steps is {wanted}, but an epoch has {available} steps ({samples} \
         samples / {batch_size} / {ranks} ranks). Lower it or raise dataset.num_files_train"
    )]
    TooManySteps {
        /// The configured number.
        wanted: u64,
        /// floor(M / (B N))
        available: u64,
        /// M
        samples: u64,
        /// B
        batch_size: u64,
        /// N
        ranks: u32,
    },
}

impl Schedule {
    /// The schedule of `workload` on `ranks` ranks.
    pub fn new(workload: &Workload, ranks: u32) -> Result<Self, ScheduleError> {
        let samples = workload.dataset.num_files_train * workload.dataset.num_samples_per_file;
        let batch_size = workload.reader.batch_size;
        let available = samples / (batch_size * u64::from(ranks));
        if available == 0 {
            return Err(ScheduleError::NoStep { samples, batch_size, ranks });
        }
        let steps = match workload.train.total_training_steps {
            Some(wanted) if wanted > available => {
                return Err(ScheduleError::TooManySteps {
                    wanted,
                    available,
                    samples,
                    batch_size,
                    ranks,
                });
            }
            Some(wanted) => wanted,
            None => available,
        };
        Ok(Self { ranks, batch_size, samples, steps })
    }

    /// Samples each rank trains on in an epoch.
    pub fn samples_per_rank(&self) -> u64 {
        self.steps * self.batch_size
    }

    /// Samples of the set that no rank takes in an epoch.
    pub fn dropped(&self) -> u64 {
        self.samples - self.samples_per_rank() * u64::from(self.ranks)
    }
}
