//! One epoch of one rank: the loop over the steps of a training or an evaluation, and nothing else
//! (spec/dlio.md 6.2, 6.6).

use feedrate_dataset::Visit;
use feedrate_loader::{Batch, LoadError, Loader, Times};
use feedrate_metrics::process::meminfo;
use feedrate_metrics::record::{BlockRecord, Evaluation, RankEpoch, Stamp, StepRecord, WaitParts};
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_ranks::{Aborted, World};

use crate::clock::Moment;
use crate::waiting::Waiting;
use crate::waits::Waits;

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

/// One way through a set, from when the clock started.
struct Pass {
    start: Stamp,
    started: Moment,
    end: Stamp,
    ended: Moment,
    steps: Vec<StepRecord>,
    first_step_over: Option<Moment>,
    samples: u64,
    bytes: ByteCount,
    waited: WaitParts,
}

impl Accelerator {
    /// Goes through the set of `visits`. Before the clock starts, and when a step has computed,
    /// `meet_others` is called with that moment; it returns the moment from which on the rank goes on.
    /// The clock starts before the first file is asked for. When it has stopped, the loader's epoch has
    /// yet to be ended.
    fn pass(
        &mut self,
        visits: impl Iterator<Item = Visit> + Send + 'static,
        waits: &mut Waits,
        mut next_batch: impl FnMut(&mut Loader) -> Result<Batch, LoadError>,
        mut meet_others: impl FnMut(Moment) -> Result<Moment, Aborted>,
        mut step_done: impl FnMut(&StepRecord),
    ) -> Result<Pass, Stopped> {
        let mut steps = Vec::with_capacity(self.steps.min(MOST_STEPS_RESERVED) as usize);
        let (mut samples, mut bytes) = (0, ByteCount(0));
        let mut waited = WaitParts::default();
        let mut first_step_over = None;

        let started = meet_others(Moment::now())?;
        let start = Stamp::now();
        self.loader.start_epoch(visits);
        let mut asked = started;
        for _ in 0..self.steps {
            let batch = next_batch(&mut self.loader)?;
            let taken = Moment::now();
            let wait = taken - asked;
            waited += batch.waited(wait);
            let worked = batch.last_byte().map_or(0.0, |last| last.elapsed().as_secs_f64());
            self.loader.read_on();
            let (drawn, computed) = self.compute(taken, waits);
            samples += batch.samples();
            bytes += batch.arrived();
            self.loader.give_back(batch);
            let met = meet_others(computed)?;
            let step = StepRecord {
                wait,
                compute: computed - taken,
                drawn,
                barrier: met - computed,
                work: Seconds(worked.min(wait.0)),
            };
            step_done(&step);
            steps.push(step);
            first_step_over.get_or_insert(met);
            asked = Moment::now();
        }
        let (end, ended) = (Stamp::now(), Moment::now());
        Ok(Pass { start, started, end, ended, steps, first_step_over, samples, bytes, waited })
    }

    /// Computes from `taken` on. Returns the drawn time and when it was over.
    fn compute(&mut self, taken: Moment, waits: &mut Waits) -> (Seconds, Moment) {
        let drawn = self.times.draw();
        if drawn.0 <= 0.0 {
            return (drawn, taken);
        }
        waits.until(taken.after(drawn), drawn);
        (drawn, Moment::now())
    }
}

/// A finished training of an epoch, and when its first step was over.
pub(crate) struct Finished {
    pub(crate) record: RankEpoch,
    pub(crate) first_step_over: Option<Moment>,
}

/// Trains one epoch on the host of this name. The ranks meet before the clock starts, in each step, and
/// before it stops.
pub(crate) fn train(
    world: &dyn World,
    host: &str,
    accelerator: &mut Accelerator,
    visits: impl Iterator<Item = Visit> + Send + 'static,
    waiting: &Waiting,
    waits: &mut Waits,
    step_done: impl FnMut(&StepRecord),
) -> Result<Finished, Stopped> {
    let next_batch = |loader: &mut Loader| waiting.during(|| loader.take_batch());
    let meet = |_| world.barrier().map(|()| Moment::now());
    let pass = accelerator.pass(visits, waits, next_batch, meet, step_done)?;
    world.barrier()?;
    let (end, ended) = (Stamp::now(), Moment::now());
    accelerator.loader.end_epoch();

    let block = BlockRecord {
        number: 1,
        start: pass.start,
        end: pass.end,
        duration: pass.ended - pass.started,
        steps: pass.steps,
    };
    let record = RankEpoch {
        rank: world.rank(),
        host: host.to_owned(),
        start: pass.start,
        end,
        duration: ended - pass.started,
        blocks: vec![block],
        samples: pass.samples,
        bytes: pass.bytes,
        waited: pass.waited,
        evaluation: None,
        over: end,
        host_meminfo: meminfo().unwrap_or_default(),
    };
    Ok(Finished { record, first_step_over: pass.first_step_over })
}

/// Evaluates once: load and compute, and meet nobody. What limits a run is asked of its training alone,
/// so nobody counts as waiting here.
pub(crate) fn evaluate(
    accelerator: &mut Accelerator,
    visits: impl Iterator<Item = Visit> + Send + 'static,
    waits: &mut Waits,
) -> Result<Evaluation, Stopped> {
    let Pass { start, started, end, ended, steps, samples, bytes, .. } =
        accelerator.pass(visits, waits, Loader::take_batch, Ok, |_| {})?;
    accelerator.loader.end_epoch();
    Ok(Evaluation { start, end, duration: ended - started, steps, samples, bytes })
}
