//! A whole training: ranks as threads, epochs one after the other, records gathered on rank 0.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use feedrate_loader::{Limits, LoadError, NothingToVerify, Source, check_payload};
use feedrate_metrics::process::ProcessUsage;
use feedrate_metrics::record::{EpochRecord, RankEpoch, RunRecord, Stamp};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_ranks::{Aborted, World, in_process};
use feedrate_workload::{Schedule, Workload};
use tokio::runtime::Handle;

use crate::clock::{Moment, wake_exactly};
use crate::epoch::{self, Stopped};
use crate::page_cache::PageCache;
use crate::phase::{Phase, limits};
use crate::progress::Progress;
use crate::waiting::{Sampler, Waiting};

/// How long the other ranks get to end by themselves once one has failed. A rank that sleeps through
/// a long step is left behind: the process is about to end.
const GRACE: Duration = Duration::from_millis(300);

/// Everything a training needs, evaluations included.
#[derive(Debug)]
pub struct Job {
    /// What to train.
    pub workload: Workload,
    /// Its steps on this many ranks.
    pub schedule: Schedule,
    /// Where its files come from.
    pub source: Arc<Source>,
    /// What is evaluated behind the epochs in which the workload wants that; `None` is nothing.
    pub evaluation: Option<EvaluationSet>,
    /// The counters that the sources' stores write.
    pub requests: Arc<RequestStats>,
    /// Bytes that the loaders of this process may hold together.
    pub byte_budget: ByteCount,
    /// The store's server works on this host's CPUs.
    pub co_located: bool,
    /// Where reads run.
    pub runtime: Handle,
}

/// What an evaluation goes through.
#[derive(Debug)]
pub struct EvaluationSet {
    /// Its steps, on as many ranks as the training's.
    pub schedule: Schedule,
    /// Where its files come from. With the training's pool of buffers its memory is the training's.
    pub source: Arc<Source>,
}

/// Who is told of a run's course, always on rank 0's thread and never inside an epoch's clock.
pub trait Observer: Send + Sync {
    /// An epoch of `steps` steps is about to start; epochs count from 1.
    fn epoch_starts(&self, epoch: u32, steps: u64);

    /// The training of `epoch` is over, and its evaluation of `steps` steps is about to start. How that
    /// ends is in the record of the epoch.
    fn evaluation_starts(&self, epoch: u32, steps: u64);

    /// Something is not as it should be, and the run goes on.
    fn warned(&self, text: &str);

    /// An epoch is over; `record` holds it and all before it. The next one starts when this returns.
    /// An error (results that cannot be written) ends the run.
    fn epoch_ended(&self, record: &RunRecord) -> Result<(), String>;
}

/// Why a run ended before its last epoch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A rank could not load a batch.
    #[error("rank {rank}")]
    Load {
        /// Which rank.
        rank: u32,
        /// Its error.
        source: LoadError,
    },
    /// Verification was asked for, but the workload discards all bytes.
    #[error(transparent)]
    Verify(#[from] NothingToVerify),
    /// The results of an epoch could not be written.
    #[error("{0}")]
    Observer(String),
    /// A rank ended in a way it never should.
    #[error("rank {rank} ended unexpectedly: {reason}")]
    Unexpected {
        /// Which rank.
        rank: u32,
        /// What is known.
        reason: String,
    },
}

impl RunError {
    /// What the other ranks are told.
    fn cause(&self) -> String {
        match self {
            Self::Load { source, .. } => source.to_string(),
            Self::Verify(_) | Self::Observer(_) | Self::Unexpected { .. } => self.to_string(),
        }
    }
}

impl Job {
    /// The limits of each rank's loader in training.
    pub fn limits(&self) -> Limits {
        limits(self, &self.schedule, &self.source)
    }

    /// The most bytes that the loaders of this process hold together, in training or evaluation: the
    /// budget, or two batches of each rank where those are larger.
    pub fn most_held(&self) -> ByteCount {
        let evaluation = self
            .evaluation
            .as_ref()
            .map(|set| limits(self, &set.schedule, &set.source).byte_budget);
        let a_rank = evaluation.map_or(0, |bytes| bytes.0).max(self.limits().byte_budget.0);
        ByteCount(a_rank.saturating_mul(u64::from(self.schedule.ranks)))
    }
}

/// Runs all epochs on ranks that are threads of this process, and returns what was measured.
///
/// # Errors
/// What the workload discards cannot be verified: nothing was started. Otherwise the first failing
/// rank's error; the others are ended at once. Epochs that the observer was told of are safe with it.
pub fn run(
    job: Job,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
) -> Result<RunRecord, RunError> {
    let page_cache = PageCache::new(&job.workload);
    run_with(job, observer, progress, page_cache)
}

fn run_with(
    job: Job,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
    page_cache: PageCache,
) -> Result<RunRecord, RunError> {
    let verify = job.source.verify || job.evaluation.as_ref().is_some_and(|set| set.source.verify);
    check_payload(job.workload.reader.payload, verify)?;
    let waiting = Arc::new(Waiting::default());
    let shared = Arc::new(Shared {
        training: Phase::new(&job, job.schedule, &job.source),
        evaluation: job.evaluation.as_ref().map(|set| Phase::new(&job, set.schedule, &set.source)),
        page_cache: Mutex::new(page_cache),
        sampler: Sampler::start(Arc::clone(&waiting), job.co_located),
        waiting,
        observer,
        progress,
        job,
    });
    let (results, finished) = mpsc::channel();
    let worlds = in_process::world(shared.job.schedule.ranks);
    for world in &worlds {
        let rank = world.rank();
        let body = rank_thread(Arc::clone(&shared), world.clone(), results.clone());
        thread::Builder::new().name(format!("rank-{rank}")).spawn(body).map_err(|error| {
            let error = RunError::Unexpected { rank, reason: format!("no thread for it: {error}") };
            // Those that have started must not wait for those that will not.
            world.abort(error.cause());
            error
        })?;
    }
    drop(results);
    collect(&finished, shared.job.schedule.ranks)
}

/// What a rank's thread runs. However it ends, the other ranks and `results` hear of it.
fn rank_thread(
    shared: Arc<Shared>,
    world: in_process::Rank,
    results: mpsc::Sender<RankOutcome>,
) -> impl FnOnce() {
    move || {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| rank_main(&shared, &world)))
            .unwrap_or_else(|_| {
                Err(RankError::Failed(RunError::Unexpected {
                    rank: world.rank(),
                    reason: "its thread panicked".to_owned(),
                }))
            });
        if let Err(RankError::Failed(error)) = &outcome {
            world.abort(error.cause());
        }
        // The receiver is gone only when the run has been given up.
        let _ = results.send(outcome);
    }
}

/// Waits for all ranks, or for the first failure and then a little for the others.
fn collect(finished: &mpsc::Receiver<RankOutcome>, ranks: u32) -> Result<RunRecord, RunError> {
    let mut record = None;
    let mut failure = None;
    let mut deadline = None;
    for _ in 0..ranks {
        let outcome = match deadline {
            None => finished.recv().ok(),
            Some(deadline) => {
                let left: Duration = Instant::saturating_duration_since(&deadline, Instant::now());
                finished.recv_timeout(left).ok()
            }
        };
        match outcome {
            Some(Ok(own)) => record = record.or(own),
            Some(Err(RankError::Failed(error))) => {
                failure.get_or_insert(error);
                deadline.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Some(Err(RankError::Aborted)) => {}
            None => break,
        }
    }
    match (failure, record) {
        (Some(error), _) => Err(error),
        (None, Some(record)) => Ok(record),
        (None, None) => {
            Err(RunError::Unexpected { rank: 0, reason: "no rank reported a result".to_owned() })
        }
    }
}

struct Shared {
    job: Job,
    training: Phase,
    evaluation: Option<Phase>,
    page_cache: Mutex<PageCache>,
    waiting: Arc<Waiting>,
    sampler: Sampler,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
}

/// How a rank ended; rank 0 brings the record of the run.
type RankOutcome = Result<Option<RunRecord>, RankError>;

enum RankError {
    Failed(RunError),
    /// Another rank failed; it says itself why.
    Aborted,
}

impl From<Aborted> for RankError {
    fn from(_: Aborted) -> Self {
        Self::Aborted
    }
}

/// One rank's life: all epochs.
fn rank_main(shared: &Shared, world: &dyn World) -> RankOutcome {
    let Job { workload, runtime, .. } = &shared.job;
    let (rank, speaks) = (world.rank(), world.rank() == 0);
    wake_exactly();
    let entropy = agree_on_entropy(world)?;
    let accelerator = |phase: &Phase| phase.accelerator(workload, runtime, rank);
    let mut training = accelerator(&shared.training);
    let mut evaluation = shared.evaluation.as_ref().map(|phase| (phase, accelerator(phase)));
    let mut run = speaks.then(|| shared.new_record());
    let failed = |source| RankError::Failed(RunError::Load { rank, source });

    for number in 1..=workload.train.epochs {
        if let Some(run) = &mut run {
            shared.empty_page_cache(run);
            shared.observer.epoch_starts(number, training.steps);
            shared.progress.epoch_started(number);
        }
        let visits = shared.training.visits(workload, number, entropy, rank);
        let mut finished = epoch::train(world, &mut training, visits, &shared.waiting, |step| {
            if speaks {
                shared.progress.step_done(step);
            }
        })
        .map_err(|stopped| match stopped {
            Stopped::Load(source) => failed(source),
            Stopped::Aborted => RankError::Aborted,
        })?;
        if speaks {
            shared.progress.training_ended();
        }
        if let Some((phase, accelerator)) = &mut evaluation
            && workload.evaluation.is_due(number)
        {
            if speaks {
                shared.observer.evaluation_starts(number, accelerator.steps);
                shared.progress.evaluation_started();
            }
            let visits = phase.visits(workload, number, entropy, rank);
            let evaluated = epoch::evaluate(accelerator, visits, &shared.waiting, |_| {
                if speaks {
                    shared.progress.evaluation_step_done();
                }
            });
            finished.record.evaluation = Some(evaluated.map_err(failed)?);
            finished.record.over = Stamp::now();
        }
        let ranks = gather(world, &finished.record)?;
        if let (Some(run), Some(ranks)) = (&mut run, ranks) {
            run.epochs.push(EpochRecord { epoch: number, ranks });
            shared.bring_up_to_date(run, finished.first_step_over);
            shared
                .observer
                .epoch_ended(run)
                .map_err(|reason| RankError::Failed(RunError::Observer(reason)))?;
        }
    }
    world.barrier()?;
    Ok(run)
}

/// Fresh entropy for `random` shuffles: drawn on rank 0, the same on all.
fn agree_on_entropy(world: &dyn World) -> Result<u64, Aborted> {
    let drawn: u64 = rand::random();
    let bytes = world.broadcast(drawn.to_le_bytes().to_vec())?;
    Ok(bytes.try_into().map_or(drawn, u64::from_le_bytes))
}

fn gather(world: &dyn World, record: &RankEpoch) -> Result<Option<Vec<RankEpoch>>, RankError> {
    let unexpected = |error: serde_json::Error| {
        RankError::Failed(RunError::Unexpected { rank: world.rank(), reason: error.to_string() })
    };
    let payload = serde_json::to_vec(record).map_err(unexpected)?;
    let Some(payloads) = world.gather(payload)? else { return Ok(None) };
    payloads
        .iter()
        .map(|payload| serde_json::from_slice(payload).map_err(unexpected))
        .collect::<Result<_, _>>()
        .map(Some)
}

impl Shared {
    fn new_record(&self) -> RunRecord {
        let Job { workload, schedule, source, requests, evaluation, .. } = &self.job;
        let dataset = &workload.dataset;
        let mean_file = source.format.total_bytes() / source.format.files().max(1);
        let held = self.training.limits.most_files_held(
            schedule.batch_size,
            dataset.num_samples_per_file,
            mean_file,
        );
        RunRecord {
            start: Stamp::now(),
            end: Stamp::now(),
            steps_per_epoch: schedule.steps,
            evaluation_steps: evaluation.as_ref().map_or(0, |set| set.schedule.steps),
            cache_drops: self.page_cache().drops().clone(),
            time_to_first_step: None,
            epochs: Vec::new(),
            requests: requests.summary(),
            process: ProcessUsage::default(),
            waiting_cpu: self.sampler.sums(),
            window_share_of_epoch: held as f64 * f64::from(schedule.ranks)
                / dataset.num_files_train as f64,
            byte_budget: self.job.most_held(),
        }
    }

    /// Outside every epoch's clock; the other ranks wait in the barrier before it.
    fn empty_page_cache(&self, run: &mut RunRecord) {
        let warning = self.page_cache().empty();
        run.cache_drops = self.page_cache().drops().clone();
        if let Some(warning) = warning {
            self.observer.warned(&warning);
        }
    }

    fn page_cache(&self) -> MutexGuard<'_, PageCache> {
        self.page_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bring_up_to_date(&self, run: &mut RunRecord, first_step_over: Option<Moment>) {
        run.end = Stamp::now();
        run.requests = self.job.requests.summary();
        run.waiting_cpu = self.sampler.sums();
        let Ok(usage) = ProcessUsage::current() else { return };
        run.process = usage;
        if let (None, Some(moment)) = (run.time_to_first_step, first_step_over) {
            let since = Moment::now() - moment;
            run.time_to_first_step = Some(Seconds((usage.age - since).0.max(0.0)));
        }
    }
}
