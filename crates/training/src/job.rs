//! A whole training, as one process takes part in it: its ranks as threads, epochs one after the other,
//! records gathered on rank 0.
//!
//! Records take memory, each step of each rank its part: 40 bytes where it runs, until the epoch is over;
//! some 80 to 120 bytes as the JSON by which it then goes to rank 0, until that has read it; and up to
//! 64 bytes in the record of the run, which stays on rank 0 with all epochs. An observer that writes
//! that record needs what it makes of it beside this. So 10 million steps in an epoch (a large set in
//! batches of one sample) over all ranks are 0.6 GB of rank 0's memory for each epoch, and 1.5 GB more
//! behind one.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use feedrate_loader::{LoadError, NothingToVerify, Source, check_payload};
use feedrate_metrics::decode::DecodeSummary;
use feedrate_metrics::process::{ProcessUsage, WaitingCpu};
use feedrate_metrics::record::{
    CacheDrops, EpochRecord, ProcessRecord, RankEpoch, RunRecord, Stamp,
};
use feedrate_metrics::requests::{RequestStats, RequestSummary};
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_ranks::{Aborted, World};
use feedrate_workload::{Schedule, Split, Workload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::clock::{Moment, wake_exactly};
use crate::cpu::{CpuMeter, Stage};
use crate::epoch::{self, Stopped};
use crate::page_cache::{self, OnHost, PageCache};
use crate::phase::{Phase, limits, piece_sizes};
use crate::progress::Progress;
use crate::report::{ProcessShare, RankReport, add_up};
use crate::waiting::{Others, Sampler, Waiting};
use crate::waits::{SHORT, Waits};

/// How long the other ranks get to end by themselves once one has failed. A rank that sleeps through
/// a long step is left behind: the process is about to end.
const GRACE: Duration = Duration::from_millis(300);

/// Everything a training needs, evaluations included. Where ranks are in several processes, each
/// process has one: workload and schedules are the same in all, the rest is its own.
#[derive(Debug)]
pub struct Job {
    /// What to train.
    pub workload: Workload,
    /// Its steps on this many ranks, those of other processes included.
    pub schedule: Schedule,
    /// Where its files come from.
    pub source: Arc<Source>,
    /// What is evaluated behind the epochs in which the workload wants that; `None` is nothing.
    pub evaluation: Option<EvaluationSet>,
    /// The counters that the sources' stores in this process write.
    pub requests: Arc<RequestStats>,
    /// Bytes that the loaders of this process may hold together.
    pub byte_budget: ByteCount,
    /// The store's server works on this host's CPUs.
    pub co_located: bool,
    /// What this host is called in the records.
    pub host: String,
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

/// Who is told of a run's course, always on rank 0's thread and never inside an epoch's clock. In a
/// process without rank 0 nobody is told.
pub trait Observer: Send + Sync {
    /// An epoch of `steps` steps is about to start; epochs count from 1.
    fn epoch_starts(&self, epoch: u32, steps: u64);

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
    /// A rank of another process failed, or this process was told to end.
    #[error(transparent)]
    Elsewhere(Aborted),
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
            Self::Elsewhere(_) | Self::Verify(_) | Self::Observer(_) | Self::Unexpected { .. } => {
                self.to_string()
            }
        }
    }
}

impl Job {
    /// Whether its steps are so short that they may end in spinning.
    fn is_of_short_steps(&self) -> bool {
        let mean = |split| self.workload.step_time(split).mean();
        let evaluation = self.evaluation.as_ref().map(|_| mean(Split::Valid));
        [Some(mean(Split::Train)), evaluation].into_iter().flatten().any(|mean| mean <= SHORT.0)
    }

    /// The most bytes that the loaders of this process hold together, in training or evaluation, when
    /// it has `ranks_here` ranks: the budget, or two batches of each rank where those are larger.
    pub fn most_held(&self, ranks_here: u32) -> ByteCount {
        let of_a_rank = |schedule, source| limits(self, schedule, source, ranks_here).byte_budget.0;
        let training = of_a_rank(&self.schedule, &self.source);
        let evaluation = self.evaluation.as_ref().map(|set| of_a_rank(&set.schedule, &set.source));
        let most = evaluation.map_or(training, |bytes| bytes.max(training));
        ByteCount(most.saturating_mul(u64::from(ranks_here)))
    }
}

/// Runs all epochs on the ranks of this process, each of which is a thread, together with the
/// processes that have the others. `worlds` are this process's views of the job, of which there are
/// as many as the schedule has ranks. Returns what was measured by all of them in the process that has
/// rank 0, and `None` in others.
///
/// # Errors
/// What the workload discards cannot be verified: nothing was started. Otherwise the first failing
/// rank's error; the others are ended at once. When that rank is in another process, this is
/// [`RunError::Elsewhere`]; ranks hear of it in their next barrier, so a process in the middle of a
/// long step returns only then. Epochs that the observer was told of are safe with it.
pub fn run<W: World + 'static>(
    job: Job,
    worlds: Vec<W>,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
) -> Result<Option<RunRecord>, RunError> {
    let page_cache = PageCache::new(&job.workload);
    run_with(job, worlds, observer, progress, page_cache)
}

fn run_with<W: World + 'static>(
    job: Job,
    worlds: Vec<W>,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
    page_cache: PageCache,
) -> Result<Option<RunRecord>, RunError> {
    let verify =
        job.source.work.verify || job.evaluation.as_ref().is_some_and(|set| set.source.work.verify);
    let verifiable = check_payload(job.workload.reader.payload, verify);
    let Some(first) = worlds.first() else { return Ok(None) };
    if let Err(error) = verifiable {
        // Other processes may have got something else to do, and must not wait for this one.
        let error = RunError::from(error);
        first.abort(error.cause());
        return Err(error);
    }
    let here = Here { first: first.rank(), ranks: worlds.len() as u32 };
    let others = if job.co_located {
        Some(Others::Server)
    } else {
        (here.ranks < first.size()).then_some(Others::Processes)
    };
    let phase = |schedule, source: &Arc<Source>| Phase::new(&job, schedule, source, here.ranks);
    let waiting = Arc::new(Waiting::default());
    let spinning = job.is_of_short_steps().then(|| (first.size(), Arc::clone(first.spinning())));
    let shared = Arc::new(Shared {
        here,
        training: phase(job.schedule, &job.source),
        evaluation: job.evaluation.as_ref().map(|set| phase(set.schedule, &set.source)),
        page_cache: Mutex::new(page_cache),
        sampler: Sampler::start(Arc::clone(&waiting), others, spinning),
        waiting,
        cpu: Mutex::new(CpuMeter::new()),
        observer,
        progress,
        job,
    });
    let (results, finished) = mpsc::channel();
    let worlds: Vec<Arc<W>> = worlds.into_iter().map(Arc::new).collect();
    for world in &worlds {
        let rank = world.rank();
        let body = rank_thread(Arc::clone(&shared), Arc::clone(world), results.clone());
        thread::Builder::new().name(format!("rank-{rank}")).spawn(body).map_err(|error| {
            let error = RunError::Unexpected { rank, reason: format!("no thread for it: {error}") };
            // Those that have started must not wait for those that will not.
            world.abort(error.cause());
            error
        })?;
    }
    drop(results);
    collect(&finished, here.ranks)
}

/// What a rank's thread runs. However it ends, the other ranks and `results` hear of it.
fn rank_thread<W: World>(
    shared: Arc<Shared>,
    world: Arc<W>,
    results: mpsc::Sender<RankOutcome>,
) -> impl FnOnce() {
    move || {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| rank_main(&shared, &*world)))
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

/// Waits for all ranks of this process, or for the first that fails or hears of a failure and then a
/// little for the others. A failure here tells more than what others heard of it.
fn collect(
    finished: &mpsc::Receiver<RankOutcome>,
    ranks_here: u32,
) -> Result<Option<RunRecord>, RunError> {
    let mut record = None;
    let (mut failure, mut elsewhere) = (None, None);
    let mut deadline = None;
    for _ in 0..ranks_here {
        let outcome = match deadline {
            None => finished.recv().ok(),
            Some(deadline) => {
                let left: Duration = Instant::saturating_duration_since(&deadline, Instant::now());
                finished.recv_timeout(left).ok()
            }
        };
        match outcome {
            Some(Ok(own)) => record = record.or(own),
            Some(Err(error)) => {
                match error {
                    RankError::Failed(error) => failure = failure.or(Some(error)),
                    RankError::Aborted(aborted) => elsewhere = elsewhere.or(Some(aborted)),
                }
                deadline.get_or_insert_with(|| Instant::now() + GRACE);
            }
            None => break,
        }
    }
    match failure.or(elsewhere.map(RunError::Elsewhere)) {
        Some(error) => Err(error),
        None => Ok(record),
    }
}

/// The ranks of this process.
#[derive(Debug, Clone, Copy)]
struct Here {
    first: u32,
    ranks: u32,
}

struct Shared {
    job: Job,
    here: Here,
    training: Phase,
    evaluation: Option<Phase>,
    page_cache: Mutex<PageCache>,
    waiting: Arc<Waiting>,
    sampler: Sampler,
    cpu: Mutex<CpuMeter>,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
}

/// How a rank ended; rank 0 brings the record of the run.
type RankOutcome = Result<Option<RunRecord>, RankError>;

enum RankError {
    Failed(RunError),
    /// Another rank failed, in this process or elsewhere.
    Aborted(Aborted),
}

impl From<Aborted> for RankError {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(aborted)
    }
}

/// One rank's life: all epochs.
fn rank_main(shared: &Shared, world: &dyn World) -> RankOutcome {
    let Job { workload, runtime, .. } = &shared.job;
    let (rank, speaks) = (world.rank(), world.rank() == 0);
    wake_exactly();
    let entropy = agree_on_entropy(world)?;
    let mut waits = Waits::new(world);
    let accelerator = |phase: &Phase| phase.accelerator(workload, runtime, rank);
    let mut training = accelerator(&shared.training);
    let mut evaluation = shared.evaluation.as_ref().map(|phase| (phase, accelerator(phase)));
    let mut run = speaks.then(|| shared.new_record());
    let stopped = |stopped| match stopped {
        Stopped::Load(source) => RankError::Failed(RunError::Load { rank, source }),
        Stopped::Aborted(aborted) => RankError::Aborted(aborted),
    };

    for number in 1..=workload.train.epochs {
        shared.empty_page_cache(world, run.as_mut())?;
        if speaks {
            shared.observer.epoch_starts(number, training.steps);
            shared.progress.epoch_started(number);
        }
        let visits = shared.training.visits(workload, number, entropy, rank);
        shared.enter(Stage::Training, rank);
        let host = &shared.job.host;
        let mut finished =
            epoch::train(world, host, &mut training, visits, &shared.waiting, &mut waits, |step| {
                if speaks {
                    shared.progress.step_done(step);
                }
            })
            .map_err(stopped)?;
        shared.enter(Stage::Between, rank);
        if speaks {
            shared.progress.training_ended();
        }
        if let Some((phase, accelerator)) = &mut evaluation
            && workload.evaluation.is_due(number)
        {
            let visits = phase.visits(workload, number, entropy, rank);
            shared.enter(Stage::Evaluation, rank);
            let evaluated = epoch::evaluate(accelerator, visits, &mut waits);
            finished.record.evaluation = Some(evaluated.map_err(stopped)?);
            finished.record.over = Stamp::now();
        }
        // Nobody of a process reads any more when its share is taken: evaluations end apart.
        world.barrier()?;
        shared.enter(Stage::Between, rank);
        let process = (rank == shared.here.first).then(|| shared.process_share());
        let reports = gather(world, &RankReport { epoch: finished.record, process })?;
        if let (Some(run), Some(reports)) = (&mut run, reports) {
            shared.bring_up_to_date(run, number, reports, finished.first_step_over);
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

/// Brings what each rank has to rank 0, in the order of ranks.
fn gather<T: Serialize + DeserializeOwned>(
    world: &dyn World,
    own: &T,
) -> Result<Option<Vec<T>>, RankError> {
    let unexpected = |error: serde_json::Error| {
        RankError::Failed(RunError::Unexpected { rank: world.rank(), reason: error.to_string() })
    };
    let payload = serde_json::to_vec(own).map_err(unexpected)?;
    let Some(payloads) = world.gather(payload)? else { return Ok(None) };
    payloads
        .iter()
        .map(|payload| serde_json::from_slice(payload).map_err(unexpected))
        .collect::<Result<_, _>>()
        .map(Some)
}

impl Shared {
    /// What is known before the first epoch is over.
    fn new_record(&self) -> RunRecord {
        let Job { schedule, evaluation, .. } = &self.job;
        RunRecord {
            start: Stamp::now(),
            end: Stamp::now(),
            steps_per_epoch: schedule.steps,
            evaluation_steps: evaluation.as_ref().map_or(0, |set| set.schedule.steps),
            cache_drops: CacheDrops::default(),
            time_to_first_step: None,
            epochs: Vec::new(),
            requests: RequestSummary::default(),
            decoded: DecodeSummary::default(),
            process: ProcessUsage::default(),
            processes: Vec::new(),
            waiting_cpu: WaitingCpu::default(),
            window_share_of_epoch: 0.0,
            byte_budget: ByteCount::default(),
        }
    }

    /// On every node at once, outside every epoch's clock; the other ranks wait. Rank 0, which has the
    /// `run`'s record, hears from all.
    fn empty_page_cache(
        &self,
        world: &dyn World,
        run: Option<&mut RunRecord>,
    ) -> Result<(), RankError> {
        let own: Option<OnHost> =
            world.leads_node().then(|| (self.job.host.clone(), self.page_cache().empty()));
        if let (Some(nodes), Some(run)) = (gather(world, &own)?, run) {
            let nodes: Vec<OnHost> = nodes.into_iter().flatten().collect();
            page_cache::count(&mut run.cache_drops, &nodes);
            for warning in page_cache::warnings(&nodes) {
                self.observer.warned(&warning);
            }
        }
        Ok(())
    }

    fn page_cache(&self) -> MutexGuard<'_, PageCache> {
        self.page_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage begins, of which the first rank of a process takes note.
    fn enter(&self, stage: Stage, rank: u32) {
        if rank == self.here.first {
            self.cpu().enter(stage);
        }
    }

    fn cpu(&self) -> MutexGuard<'_, CpuMeter> {
        self.cpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process has until now.
    fn process_share(&self) -> ProcessShare {
        let Job { workload, schedule, source, requests, host, .. } = &self.job;
        let pieces = piece_sizes(workload, source);
        let of_a_rank = self.training.limits.most_pieces_held(schedule.batch_size, &pieces);
        let Here { first, ranks } = self.here;
        ProcessShare {
            record: ProcessRecord {
                first_rank: first,
                ranks,
                host: host.clone(),
                usage: ProcessUsage {
                    phases: Some(self.cpu().used()),
                    ..ProcessUsage::current().unwrap_or_default()
                },
                in_flight: self.training.in_flight(),
            },
            requests: requests.snapshot(),
            decoded: source.work.stats.summary(),
            waiting_cpu: self.sampler.sums(),
            most_samples: of_a_rank as f64 * pieces.mean_samples * f64::from(ranks),
            byte_budget: self.job.most_held(ranks),
        }
    }

    /// Adds an epoch and what all processes have until now.
    fn bring_up_to_date(
        &self,
        run: &mut RunRecord,
        epoch: u32,
        reports: Vec<RankReport>,
        first_step_over: Option<Moment>,
    ) {
        run.end = Stamp::now();
        let (ranks, shares): (Vec<RankEpoch>, Vec<_>) =
            reports.into_iter().map(|report| (report.epoch, report.process)).unzip();
        run.epochs.push(EpochRecord { epoch, ranks });
        let samples = self.job.schedule.samples;
        add_up(run, shares.into_iter().flatten().collect(), samples);
        if let (None, Some(moment), Ok(usage)) =
            (run.time_to_first_step, first_step_over, ProcessUsage::current())
        {
            let since = Moment::now() - moment;
            run.time_to_first_step = Some(Seconds((usage.age - since).0.max(0.0)));
        }
    }
}
