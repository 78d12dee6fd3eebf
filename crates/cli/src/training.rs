//! One training: in this process for `run`, in a child process for each NP of a sweep.
//!
//! A [`Task`] is everything a training needs; a sweep's child reads it as one line of JSON from its
//! standard input, secrets included, and answers on its standard output with one [`Message`] a line.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use feedrate_dataset::{FileFormat, discover};
use feedrate_loader::{BufferPool, Source};
use feedrate_metrics::record::RunRecord;
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::ByteCount;
use feedrate_report::dlio::{write_results, write_snapshot};
use feedrate_report::folders::remove_results;
use feedrate_report::log::{DlioLog, Event};
use feedrate_report::{HostFacts, Origin, RunReport};
use feedrate_training::{Job, Observer, Progress, ProgressNow};
use feedrate_workload::{Schedule, Split, Workload};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::exit::Outcome;
use crate::store::Access;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Everything that one training needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) workload: Workload,
    pub(crate) np: u32,
    pub(crate) access: Access,
    pub(crate) origin: Origin,
    /// Compare every byte read with what was generated.
    pub(crate) verify: bool,
    pub(crate) byte_budget: ByteCount,
    /// The composed configuration and the overrides as typed, for the snapshot.
    pub(crate) config: Value,
    pub(crate) overrides: Vec<String>,
    /// Where its results go; exists.
    pub(crate) folder: PathBuf,
}

/// What a training tells while it runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// How far it is.
    Progress { epoch: u32, steps: u64, wall_au_percent: Option<f64> },
    /// Something to tell the user.
    Note(String),
    /// It failed, and why. The last message.
    Failed(String),
}

impl From<ProgressNow> for Message {
    fn from(now: ProgressNow) -> Self {
        Self::Progress { epoch: now.epoch, steps: now.steps, wall_au_percent: now.wall_au_percent }
    }
}

/// What a training reads from: opened, and found to hold its files.
pub(crate) struct Input {
    source: Source,
    requests: Arc<RequestStats>,
}

impl Input {
    /// Opens the store and lists the data set, once.
    pub(crate) fn open(
        access: &Access,
        workload: &Workload,
        verify: bool,
        runtime: &Handle,
    ) -> anyhow::Result<Self> {
        let dataset = &workload.dataset;
        let format = FileFormat::new(dataset, Split::Train)?;
        let requests = Arc::new(RequestStats::new());
        let store = access.open(Arc::clone(&requests))?;
        let stored =
            runtime.block_on(discover(&*store, dataset, Split::Train, access.prefix()))?;
        let source =
            Source { layout: stored.layout, format, store, verify, pool: BufferPool::new() };
        Ok(Self { source, requests })
    }
}

/// Runs `task` on `input` and returns its report, which is also saved in the task's folder after
/// every epoch. `tell` hears of its progress, from another thread.
pub(crate) fn execute(
    task: &Task,
    input: Input,
    runtime: &Handle,
    tell: impl Fn(Message) + Send + Sync + 'static,
) -> anyhow::Result<RunReport> {
    let Task { workload, np, access, .. } = task;
    let schedule = Schedule::new(workload, *np)?;
    let results = Arc::new(Results::new(task, schedule, HostFacts::read()?)?);
    if schedule.dropped() > 0 {
        let note = format!(
            "{} of {} samples are dropped in each epoch: {} steps x {} x {np} ranks take {}",
            schedule.dropped(),
            schedule.samples,
            schedule.steps,
            schedule.batch_size,
            schedule.samples - schedule.dropped(),
        );
        results.warn(&note)?;
        tell(Message::Note(note));
    }

    let job = Job {
        workload: workload.clone(),
        schedule,
        source: Arc::new(input.source),
        requests: input.requests,
        byte_budget: task.byte_budget,
        co_located: access.shown.co_located,
        runtime: runtime.clone(),
    };
    tell(Message::Note(bounds(&job)));
    let progress = Arc::new(Progress::default());
    let teller = runtime.spawn({
        let progress = Arc::clone(&progress);
        async move {
            loop {
                tokio::time::sleep(TELL_EVERY).await;
                tell(progress.now().into());
            }
        }
    });
    let observer: Arc<dyn Observer> = Arc::<Results>::clone(&results);
    let outcome = feedrate_training::run(job, observer, progress);
    teller.abort();
    let record = outcome.map_err(|error| anyhow!(error).context(results.what_is_kept()))?;
    results.finish(&record)
}

/// What a run that failed has left, as the context of its error.
#[derive(Debug)]
struct Kept(String);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the loaders may hold, for the user.
fn bounds(job: &Job) -> String {
    let limits = job.limits();
    let ranks = job.schedule.ranks;
    format!(
        "batches and files read ahead take at most {} ({ranks} x {})",
        ByteCount(limits.byte_budget.0.saturating_mul(u64::from(ranks))),
        limits.byte_budget
    )
}

/// Puts results on disk as they come.
struct Results {
    task: Task,
    host: HostFacts,
    log: DlioLog,
    finished_epochs: AtomicU32,
}

impl Results {
    fn new(task: &Task, schedule: Schedule, host: HostFacts) -> anyhow::Result<Self> {
        let folder = &task.folder;
        remove_results(folder)?;
        write_snapshot(folder, &task.config, &task.overrides, &task.origin.workload_name)?;
        let output = &task.workload.output;
        let log = DlioLog::create(&folder.join(&output.log_file), output.log_level)?;
        log.event(&Event::Running { workflow: task.workload.workflow, processes: task.np })?;
        log.event(&Event::MaxSteps { workload: &task.workload, schedule })?;
        if let Some(steps) = task.workload.train.total_training_steps {
            let epochs = task.workload.train.epochs;
            log.event(&Event::TotalTrainingSteps { steps, epochs })?;
        }
        if let Some(schedule) = Schedule::evaluation(&task.workload, task.np)? {
            log.event(&Event::StepsPerEvaluation { workload: &task.workload, schedule })?;
        }
        Ok(Self { task: task.clone(), host, log, finished_epochs: AtomicU32::new(0) })
    }

    fn warn(&self, text: &str) -> anyhow::Result<()> {
        Ok(self.log.warning(text)?)
    }

    fn report(&self, record: &RunRecord) -> RunReport {
        let Task { origin, workload, access, np, .. } = &self.task;
        RunReport::new(
            origin.clone(),
            workload.clone(),
            self.host.clone(),
            access.shown.clone(),
            *np,
            record.clone(),
        )
    }

    fn save(&self, record: &RunRecord) -> Result<(), feedrate_report::ReportError> {
        let report = self.report(record);
        write_results(&self.task.folder, &report)?;
        report.save(&self.task.folder)?;
        self.log.epoch(&report)
    }

    fn finish(&self, record: &RunRecord) -> anyhow::Result<RunReport> {
        let report = self.report(record);
        self.log.event(&Event::SavedOutputs { folder: &self.task.folder })?;
        self.log.event(&Event::SavedRankOutputs)?;
        self.log.averages(&report)?;
        report.save_page(&self.task.folder)?;
        Ok(report)
    }

    fn what_is_kept(&self) -> Kept {
        let finished = self.finished_epochs.load(Ordering::Relaxed);
        let of = self.task.workload.train.epochs;
        let folder = self.task.folder.display();
        Kept(match finished {
            0 => format!("the run failed before its first epoch was over; its log is in {folder}"),
            _ => format!(
                "the run failed after {finished} of {of} epochs, which are kept in {folder}"
            ),
        })
    }
}

impl Observer for Results {
    fn epoch_starts(&self, epoch: u32, steps: u64) {
        let overridden = self.task.workload.train.total_training_steps.is_some();
        // A log that cannot be written is reported at the end of the epoch, with its results.
        let _ = self.log.event(&Event::EpochStarting { epoch, steps, overridden });
        let _ = self.log.event(&Event::BlockStarting { block: 1 });
    }

    fn epoch_ended(&self, record: &RunRecord) -> Result<(), String> {
        self.save(record).map_err(|error| format!("{:#}", anyhow!(error)))?;
        self.finished_epochs.store(record.epochs.len() as u32, Ordering::Relaxed);
        Ok(())
    }
}

/// The child's side of a sweep's training.
pub(crate) fn train_task() -> anyhow::Result<Outcome> {
    use std::io::{BufRead, Write, stdin, stdout};

    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    let task: Task =
        serde_json::from_str(&line).context("train-task is started by `feedrate sweep` alone")?;
    // The parent never writes a second line: reading ends when it does, and so does this process.
    std::thread::spawn(|| {
        let mut rest = String::new();
        let _ = stdin().lock().read_line(&mut rest);
        std::process::exit(i32::from(crate::exit::INTERRUPTED));
    });
    let tell = |message: Message| {
        if let Ok(line) = serde_json::to_string(&message) {
            let _ = writeln!(stdout().lock(), "{line}");
        }
    };
    let runtime = crate::commands::runtime()?;
    let outcome = Input::open(&task.access, &task.workload, task.verify, runtime.handle())
        .and_then(|input| execute(&task, input, runtime.handle(), tell));
    if let Err(error) = &outcome {
        // What is kept, and where, the sweep says itself.
        let causes = error.chain().skip(usize::from(error.is::<Kept>()));
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        tell(Message::Failed(causes.join(": ")));
    }
    // Whatever a failed rank left running ends here.
    runtime.shutdown_background();
    std::process::exit(i32::from(outcome.is_err()))
}
