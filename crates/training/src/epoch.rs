//! One epoch of one rank: the step loop and nothing else (spec/dlio.md 6.2).

use feedrate_loader::{LoadError, Loader};
use feedrate_metrics::process::{hostname, meminfo};
use feedrate_metrics::record::{BlockRecord, RankEpoch, Stamp, StepRecord};
use feedrate_metrics::units::ByteCount;
use feedrate_ranks::{Aborted, World};

use crate::accelerator::Accelerator;
use crate::clock::Moment;
use crate::waiting::Waiting;

/// Steps that memory is reserved for before the clock starts; more would be far beyond any real run.
const MOST_STEPS_RESERVED: u64 = 1 << 20;

/// Why a rank's epoch did not finish.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// This rank could not load a batch.
    Load(LoadError),
    /// Another rank failed; it says itself why.
    Aborted,
}

impl From<LoadError> for Stopped {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Aborted> for Stopped {
    fn from(_: Aborted) -> Self {
        Self::Aborted
    }
}

/// A finished epoch, and when its first step was over.
pub(crate) struct Finished {
    pub(crate) record: RankEpoch,
    pub(crate) first_step_over: Option<Moment>,
}

/// Runs `steps` steps. The clock starts behind a barrier, before `start_loader` lets the first file
/// be asked for.
pub(crate) fn run(
    world: &dyn World,
    steps: u64,
    loader: &mut Loader,
    start_loader: impl FnOnce(&mut Loader),
    accelerator: &mut Accelerator,
    waiting: &Waiting,
    mut step_done: impl FnMut(&StepRecord),
) -> Result<Finished, Stopped> {
    let mut records = Vec::with_capacity(steps.min(MOST_STEPS_RESERVED) as usize);
    let (mut samples, mut bytes) = (0, ByteCount(0));
    let mut first_step_over = None;

    world.barrier()?;
    let (start, started) = (Stamp::now(), Moment::now());
    start_loader(loader);
    let mut asked = started;
    for _ in 0..steps {
        let batch = waiting.during(|| loader.next_batch())?;
        let taken = Moment::now();
        let drawn = accelerator.draw();
        let computed = if drawn.0 > 0.0 {
            taken.after(drawn).sleep_until();
            Moment::now()
        } else {
            taken
        };
        samples += batch.samples();
        bytes += batch.arrived();
        drop(batch);
        world.barrier()?;
        let met = Moment::now();
        let step = StepRecord {
            wait: taken - asked,
            compute: computed - taken,
            drawn,
            barrier: met - computed,
        };
        step_done(&step);
        records.push(step);
        first_step_over.get_or_insert(met);
        asked = Moment::now();
    }
    let (block_end, block_ended) = (Stamp::now(), Moment::now());
    world.barrier()?;
    let (end, ended) = (Stamp::now(), Moment::now());
    loader.end_epoch();

    let block = BlockRecord {
        number: 1,
        start,
        end: block_end,
        duration: block_ended - started,
        steps: records,
    };
    let record = RankEpoch {
        rank: world.rank(),
        host: hostname().unwrap_or_default(),
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
