//! What the ranks go through in an epoch: the training set, and behind it perhaps the evaluation's.

use std::sync::Arc;

use feedrate_dataset::{Plan, Visit};
use feedrate_loader::{
    Demand, Limits, Loader, PieceSizes, Preprocess, Source, Stream, Times, Turns,
};
use feedrate_metrics::in_flight::InFlight;
use feedrate_metrics::units::Seconds;
use feedrate_workload::{Schedule, Shuffle, Window, Workload};
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
        let turns = turns(&job.workload, &schedule, source, &limits, ranks_here);
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

    /// What this process has in flight; `None` where its ranks read one file at a time.
    pub(crate) fn in_flight(&self) -> Option<InFlight> {
        (self.limits.readers > 0).then(|| self.turns.in_flight())
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

/// The order of reads among the ranks of this process, from what their accelerators consume.
fn turns(
    workload: &Workload,
    schedule: &Schedule,
    source: &Source,
    limits: &Limits,
    ranks_here: u32,
) -> Arc<Turns> {
    let Schedule { split, batch_size, .. } = *schedule;
    let pieces = piece_sizes(workload, source);
    let pieces_per_step = batch_size as f64 * f64::from(ranks_here) / pieces.mean_samples;
    let seconds_per_step = workload.step_time(split).mean().abs();
    let work = workload.reader.preprocess_time.mean().abs() * batch_size as f64;
    let demand = Demand {
        pieces_per_second: pieces_per_step / seconds_per_step,
        gets_per_piece: source.gets_per_piece(&pieces),
        most: limits.most_in_flight().saturating_mul(u64::from(ranks_here)) as usize,
        step: Seconds(seconds_per_step),
        work: Seconds(work),
    };
    match workload.reader.window {
        Window::Auto => Turns::auto(ranks_here, demand),
        Window::Fixed => Turns::fixed(demand),
    }
}
