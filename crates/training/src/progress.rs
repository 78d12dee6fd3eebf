//! How far a run is, for whoever shows it: counters that rank 0 writes and a progress display reads
//! whenever it likes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use feedrate_metrics::record::StepRecord;

/// Written by rank 0 once per training step.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    epoch: u32,
    steps: u64,
    drawn_seconds: f64,
    epoch_started: Option<Instant>,
    /// How long the training of the epoch took, once it is over.
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
    pub(crate) fn epoch_started(&self, epoch: u32) {
        let epoch_started = Some(Instant::now());
        *self.lock() = Counters { epoch, epoch_started, ..Counters::default() };
    }

    pub(crate) fn step_done(&self, step: &StepRecord) {
        let mut counters = self.lock();
        counters.steps += 1;
        counters.drawn_seconds += step.drawn.0;
    }

    pub(crate) fn training_ended(&self) {
        let mut counters = self.lock();
        counters.trained = counters.epoch_started.map(|start| start.elapsed());
    }

    /// How far it is now.
    pub fn now(&self) -> ProgressNow {
        let counters = self.lock();
        let elapsed = counters
            .trained
            .or_else(|| Some(counters.epoch_started?.elapsed()))
            .map_or(0.0, |elapsed| elapsed.as_secs_f64());
        ProgressNow {
            epoch: counters.epoch,
            steps: counters.steps,
            wall_au_percent: (counters.steps > 0 && elapsed > 0.0)
                .then(|| 100.0 * counters.drawn_seconds / elapsed),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
