//! How far a run is, for whoever shows it: counters that rank 0 writes and a progress display reads
//! whenever it likes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use feedrate_metrics::record::StepRecord;

/// Written by rank 0 once per training step, which takes no lock.
#[derive(Debug, Default)]
pub struct Progress {
    epoch: Mutex<Epoch>,
    /// Training steps of the epoch. One thread writes; whoever reads may see it a step ahead of the
    /// other.
    steps: AtomicU64,
    /// Their drawn compute time in seconds, as the bits of a float.
    drawn_seconds: AtomicU64,
}

#[derive(Debug, Default)]
struct Epoch {
    number: u32,
    started: Option<Instant>,
    /// How long its training took, once that is over.
    trained: Option<Duration>,
}

/// [`Progress`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgressNow {
    /// The epoch that runs, from 1; 0 before the first.
    pub epoch: u32,
    /// Training steps of it that rank 0 has finished.
    pub steps: u64,
    /// Wall AU of the epoch's training so far in percent: drawn compute time over elapsed time.
    pub wall_au_percent: Option<f64>,
}

impl Progress {
    pub(crate) fn epoch_started(&self, number: u32) {
        let mut epoch = self.epoch();
        *epoch = Epoch { number, started: Some(Instant::now()), trained: None };
        self.steps.store(0, Ordering::Relaxed);
        self.drawn_seconds.store(0, Ordering::Relaxed);
    }

    pub(crate) fn step_done(&self, step: &StepRecord) {
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        let drawn_seconds = self.drawn_seconds() + step.drawn.0;
        self.steps.store(steps, Ordering::Relaxed);
        self.drawn_seconds.store(drawn_seconds.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn training_ended(&self) {
        let mut epoch = self.epoch();
        epoch.trained = epoch.started.map(|start| start.elapsed());
    }

    /// How far it is now.
    pub fn now(&self) -> ProgressNow {
        let epoch = self.epoch();
        let steps = self.steps.load(Ordering::Relaxed);
        let elapsed = epoch
            .trained
            .or_else(|| Some(epoch.started?.elapsed()))
            .map_or(0.0, |elapsed| elapsed.as_secs_f64());
        ProgressNow {
            epoch: epoch.number,
            steps,
            wall_au_percent: (steps > 0 && elapsed > 0.0)
                .then(|| 100.0 * self.drawn_seconds() / elapsed),
        }
    }

    fn drawn_seconds(&self) -> f64 {
        f64::from_bits(self.drawn_seconds.load(Ordering::Relaxed))
    }

    fn epoch(&self) -> MutexGuard<'_, Epoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::units::Seconds;

    use super::*;

    #[test]
    fn it_counts_the_steps_of_the_epoch_that_runs() {
        let progress = Progress::default();
        let nothing = ProgressNow { epoch: 0, steps: 0, wall_au_percent: None };
        assert_eq!(progress.now(), nothing);
        let step = StepRecord {
            wait: Seconds(0.0),
            compute: Seconds(0.02),
            drawn: Seconds(0.01),
            barrier: Seconds(0.0),
            work: Seconds(0.0),
        };
        for epoch in [1, 2] {
            progress.epoch_started(epoch);
            assert_eq!(progress.now(), ProgressNow { epoch, ..nothing });
            progress.step_done(&step);
            progress.step_done(&step);
            progress.training_ended();
            let over = progress.now();
            assert_eq!((over.epoch, over.steps), (epoch, 2));
            assert_eq!(progress.now(), over, "the clock stands");
            let trained = progress.epoch().trained.unwrap().as_secs_f64();
            let au = over.wall_au_percent.unwrap();
            assert!((au - 2.0 / trained).abs() < 1e-6 * au, "{au} % of {trained} s");
        }
    }
}
