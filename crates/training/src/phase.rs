//! What the ranks go through in an epoch: the training set, and behind it perhaps the evaluation's.

use std::sync::Arc;

use feedrate_dataset::{Plan, Visit};
use feedrate_loader::{Limits, Loader, PieceSizes, Preprocess, Source, Stream, Times, Turns};
use feedrate_workload::{Schedule, Shuffle, Workload};
use tokio::runtime::Handle;

use crate::Job;
use crate::epoch::Accelerator;

/// A set, the way all ranks go through it, and the order that the readers of this process's keep.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) schedule: Schedule,
    source: Arc<Source>,
    pub(crate) limits: Limits,
    turns: Arc<Turns>,
}

impl Phase {
    /// `ranks_here` of the schedule's ranks are in this process and share its memory and its turns.
    pub(crate) fn new(
        job: &Job,
        schedule: Schedule,
        source: &Arc<Source>,
        ranks_here: u32,
    ) -> Self {
        let limits = limits(job, &schedule, source, ranks_here);
        let pieces = piece_sizes(&job.workload, source);
        let turns = turns(&job.workload, &schedule, &pieces, &limits, ranks_here);
        Self { schedule, source: Arc::clone(source), limits, turns }
    }

    /// The accelerator of `rank`; it is idle until an epoch starts.
    pub(crate) fn accelerator(
        &self,
        workload: &Workload,
        runtime: &Handle,
        rank: u32,
    ) -> Accelerator {
        let Schedule { split, batch_size, steps, .. } = self.schedule;
        let loader = Loader::new(
            Arc::clone(&self.source),
            self.limits,
            batch_size,
            Preprocess::new(workload, split, rank),
            Arc::clone(&self.turns),
            runtime.clone(),
        );
        let stream = Stream::Steps { split, rank };
        let times = Times::new(workload.step_time(split), workload.train.seed, stream);
        Accelerator { steps, loader, times }
    }

    /// What `rank` reads in `epoch`.
    pub(crate) fn visits(
        &self,
        workload: &Workload,
        epoch: u32,
        entropy: u64,
        rank: u32,
    ) -> impl Iterator<Item = Visit> + Send + 'static {
        Plan::new(workload, &self.schedule, &self.source.cut, epoch, entropy).visits(rank)
    }
}

/// The limits of the loader of each of this process's ranks as it goes through a set. Sets are gone
/// through one after the other, so the memory for batches serves each in turn.
pub(crate) fn limits(job: &Job, schedule: &Schedule, source: &Source, ranks_here: u32) -> Limits {
    let pieces = piece_sizes(&job.workload, source);
    Limits::new(&job.workload, schedule.split, &pieces, job.byte_budget, ranks_here)
}

/// The pieces that the ranks read of `source`.
pub(crate) fn piece_sizes(workload: &Workload, source: &Source) -> PieceSizes {
    source.piece_sizes(workload.reader.sample_shuffle != Shuffle::Off)
}

/// The order of GETs among the ranks of this process, from what their accelerators consume.
fn turns(
    workload: &Workload,
    schedule: &Schedule,
    pieces: &PieceSizes,
    limits: &Limits,
    ranks_here: u32,
) -> Arc<Turns> {
    let samples_per_step = schedule.batch_size as f64 * f64::from(ranks_here);
    let pieces_per_step = samples_per_step / pieces.mean_samples;
    let seconds_per_step = workload.step_time(schedule.split).mean().abs();
    let most = limits.most_pieces_ahead().saturating_mul(u64::from(ranks_here));
    Turns::new(ranks_here, pieces_per_step / seconds_per_step, most as usize)
}
