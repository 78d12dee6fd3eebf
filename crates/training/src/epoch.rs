//! One epoch of one rank: the step loops of training and evaluation, and nothing else
//! (spec/dlio.md 6.2, 6.6).

use feedrate_dataset::Visit;
use feedrate_loader::{LoadError, Loader, Times};
use feedrate_metrics::process::meminfo;
use feedrate_metrics::record::{BlockRecord, Evaluation, RankEpoch, Stamp, StepRecord};
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_ranks::{Aborted, World};

use crate::clock::Moment;
use crate::waiting::Waiting;

/// Steps that memory is reserved for before the clock starts; more would be far beyond any real run.
const MOST_STEPS_RESERVED: u64 = 1 << 20;

/// Why a rank's epoch did not finish.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// This rank could not load a batch.
    Load(LoadError),
    /// Another rank failed.
    Aborted(Aborted),
}

impl From<LoadError> for Stopped {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Aborted> for Stopped {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(aborted)
    }
}

/// One rank's accelerator as it goes through a set, epoch after epoch: where its batches come from and
/// how long it computes on each.
#[derive(Debug)]
pub(crate) struct Accelerator {
    /// Of each epoch.
    pub(crate) steps: u64,
    pub(crate) loader: Loader,
    pub(crate) times: Times,
}

/// A batch that was waited for and computed on.
struct Computed {
    taken: Moment,
    drawn: Seconds,
    ended: Moment,
    samples: u64,
    bytes: ByteCount,
}

impl Accelerator {
    fn compute(&mut self, waiting: &Waiting) -> Result<Computed, LoadError> {
        let batch = waiting.during(|| self.loader.next_batch())?;
        let taken = Moment::now();
        let drawn = self.times.draw();
        let ended = if drawn.0 > 0.0 {
            taken.after(drawn).sleep_until();
            Moment::now()
        } else {
            taken
        };
        Ok(Computed { taken, drawn, ended, samples: batch.samples(), bytes: batch.arrived() })
    }

    /// Room for the records of an epoch.
    fn records(&self) -> Vec<StepRecord> {
        Vec::with_capacity(self.steps.min(MOST_STEPS_RESERVED) as usize)
    }
}

/// A finished training of an epoch, and when its first step was over.
pub(crate) struct Finished {
    pub(crate) record: RankEpoch,
    pub(crate) first_step_over: Option<Moment>,
}

/// Trains one epoch on the host of this name. The clock starts behind a barrier, before the first file
/// is asked for.
pub(crate) fn train(
    world: &dyn World,
    host: &str,
    accelerator: &mut Accelerator,
    visits: impl Iterator<Item = Visit> + Send + 'static,
    waiting: &Waiting,
    mut step_done: impl FnMut(&StepRecord),
) -> Result<Finished, Stopped> {
    let mut records = accelerator.records();
    let (mut samples, mut bytes) = (0, ByteCount(0));
    let mut first_step_over = None;

    world.barrier()?;
    let (start, started) = (Stamp::now(), Moment::now());
    accelerator.loader.start_epoch(visits);
    let mut asked = started;
    for _ in 0..accelerator.steps {
        let computed = accelerator.compute(waiting)?;
        samples += computed.samples;
        bytes += computed.bytes;
        world.barrier()?;
        let met = Moment::now();
        let step = StepRecord {
            wait: computed.taken - asked,
            compute: computed.ended - computed.taken,
            drawn: computed.drawn,
            barrier: met - computed.ended,
        };
        step_done(&step);
        records.push(step);
        first_step_over.get_or_insert(met);
        asked = Moment::now();
    }
    let (block_end, block_ended) = (Stamp::now(), Moment::now());
    world.barrier()?;
    let (end, ended) = (Stamp::now(), Moment::now());
    accelerator.loader.end_epoch();

    let block = BlockRecord {
        number: 1,
        start,
        end: block_end,
        duration: block_ended - started,
        steps: records,
    };
    let record = RankEpoch {
        rank: world.rank(),
        host: host.to_owned(),
        start,
        end,
        duration: ended - started,
        blocks: vec![block],
        samples,
        bytes,
        evaluation: None,
        over: end,
        host_meminfo: meminfo().unwrap_or_default(),
    };
    Ok(Finished { record, first_step_over })
}

/// Evaluates once: load and compute, no barrier. The clock starts before the first file is asked for.
pub(crate) fn evaluate(
    accelerator: &mut Accelerator,
    visits: impl Iterator<Item = Visit> + Send + 'static,
    waiting: &Waiting,
    mut step_done: impl FnMut(&StepRecord),
) -> Result<Evaluation, LoadError> {
    let mut steps = accelerator.records();
    let (mut samples, mut bytes) = (0, ByteCount(0));

    let (start, started) = (Stamp::now(), Moment::now());
    accelerator.loader.start_epoch(visits);
    let mut asked = started;
    for _ in 0..accelerator.steps {
        let computed = accelerator.compute(waiting)?;
        samples += computed.samples;
        bytes += computed.bytes;
        let step = StepRecord {
            wait: computed.taken - asked,
            compute: computed.ended - computed.taken,
            drawn: computed.drawn,
            barrier: Seconds(0.0),
        };
        step_done(&step);
        steps.push(step);
        asked = Moment::now();
    }
    let (end, ended) = (Stamp::now(), Moment::now());
    accelerator.loader.end_epoch();
    Ok(Evaluation { start, end, duration: ended - started, steps, samples, bytes })
}
