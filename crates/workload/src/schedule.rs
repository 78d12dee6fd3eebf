//! How many steps an epoch has: one function for the printed number, the loop and the metric window.
//!
//! Every rank makes the same number of steps, so that no barrier waits for a rank that has ended. The
//! samples that do not fill a step of all ranks are left out of the epoch. A share is counted in
//! samples, so neither files nor samples need to divide by the ranks.

use crate::{Split, Workload};

/// The shape of an epoch, or of an evaluation, for a number of ranks (spec/dlio.md 5.1, NEW).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Which set is gone through.
    pub split: Split,
    /// Ranks, N.
    pub ranks: u32,
    /// Samples per step and rank, B.
    pub batch_size: u64,
    /// Samples of the set, M = samples per file × files.
    pub samples: u64,
    /// Steps of each rank: floor(M / (B N)), or `train.total_training_steps` when training.
    pub steps: u64,
}

/// Why no epoch can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The set is smaller than one step of all ranks.
    #[error(
        "0 steps{0}: the set has {samples} samples, one step needs {batch_size} x {ranks} \
         ({1} x ranks). Use fewer ranks, a smaller {1} or a larger {2}",
        match split { Split::Train => "", Split::Valid => " of evaluation" },
        split.batch_key(),
        split.files_key()
    )]
    NoStep {
        /// The set.
        split: Split,
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
    /// The schedule of `workload`'s training on `ranks` ranks, at least 1. Nothing here overflows:
    /// resolving a workload bounds its samples to 2^63 and its batch to 32 bits.
    pub fn new(workload: &Workload, ranks: u32) -> Result<Self, ScheduleError> {
        let all = Self::of(workload, ranks, Split::Train)?;
        let Some(wanted) = workload.train.total_training_steps else { return Ok(all) };
        if wanted > all.steps {
            return Err(ScheduleError::TooManySteps {
                wanted,
                available: all.steps,
                samples: all.samples,
                batch_size: all.batch_size,
                ranks,
            });
        }
        Ok(Self { steps: wanted, ..all })
    }

    /// The schedule of an evaluation; `None` when `workload` has none.
    pub fn evaluation(workload: &Workload, ranks: u32) -> Result<Option<Self>, ScheduleError> {
        if !workload.workflow.evaluates() {
            return Ok(None);
        }
        Self::of(workload, ranks, Split::Valid).map(Some)
    }

    fn of(workload: &Workload, ranks: u32, split: Split) -> Result<Self, ScheduleError> {
        let samples = workload.dataset.files(split) * workload.dataset.num_samples_per_file;
        let batch_size = workload.reader.batch(split);
        let steps = samples / (batch_size * u64::from(ranks));
        if steps == 0 {
            return Err(ScheduleError::NoStep { split, samples, batch_size, ranks });
        }
        Ok(Self { split, ranks, batch_size, samples, steps })
    }

    /// Samples each rank takes.
    pub fn samples_per_rank(&self) -> u64 {
        self.steps * self.batch_size
    }

    /// Samples of the set that no rank takes.
    pub fn dropped(&self) -> u64 {
        self.samples - self.samples_per_rank() * u64::from(self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Override, Request, resolve};

    fn schedule(options: &[(&str, u64)], ranks: u32) -> Result<Schedule, ScheduleError> {
        let mut overrides = vec![Override::set("dataset.format=npz")];
        overrides.extend(options.iter().map(|(key, value)| Override::flag("--x", key, *value)));
        let request =
            Request { workload: "retinanet_b200".into(), overrides, ..Request::default() };
        Schedule::new(&resolve(&request).unwrap().workload, ranks)
    }

    fn files(files: u64, per_file: u64, batch: u64, ranks: u32) -> Result<Schedule, ScheduleError> {
        let options = [
            ("dataset.num_files_train", files),
            ("dataset.num_samples_per_file", per_file),
            ("reader.batch_size", batch),
        ];
        schedule(&options, ranks)
    }

    #[test]
    fn every_rank_has_the_same_steps_and_the_rest_is_dropped() {
        for (set, steps, dropped) in [
            ((145, 1, 16, 3), 3, 1),
            ((100, 1, 3, 7), 4, 16),
            ((8, 4, 4, 1), 8, 0),
            ((100, 1251, 400, 8), 39, 300),
            ((16, 1, 4, 1), 4, 0),
        ] {
            let schedule = files(set.0, set.1, set.2, set.3).unwrap();
            assert_eq!((schedule.steps, schedule.dropped()), (steps, dropped), "{set:?}");
            assert_eq!(schedule.samples_per_rank(), steps * set.2);
        }
    }

    #[test]
    fn a_batch_larger_than_the_set_gives_no_step() {
        let message = files(3, 1, 4, 1).unwrap_err().to_string();
        for part in ["0 steps:", "3 samples", "4 x 1", "a smaller reader.batch_size or a larger"] {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
    }

    #[test]
    fn total_training_steps_limits_each_epoch_and_asks_for_no_more_than_it_has() {
        let limited = |steps| {
            schedule(
                &[
                    ("dataset.num_files_train", 16),
                    ("reader.batch_size", 2),
                    ("train.total_training_steps", steps),
                ],
                1,
            )
        };
        assert_eq!(limited(3).unwrap().steps, 3);
        assert_eq!(limited(8).unwrap().steps, 8);
        assert_eq!(
            limited(9),
            Err(ScheduleError::TooManySteps {
                wanted: 9,
                available: 8,
                samples: 16,
                batch_size: 2,
                ranks: 1
            })
        );
        let message = limited(9).unwrap_err().to_string();
        assert!(message.contains("is 9") && message.contains("has 8 steps"), "{message}");
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let largest = u64::from(u32::MAX);
        assert!(files(1_000_000_000_000, 1, largest, u32::MAX).is_err());
    }
}
