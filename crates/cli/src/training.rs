//! One training: in this process for a single run, in a child process for each NP of a sweep.
//!
//! A [`Task`] is everything a training needs; a sweep's child reads it as one line of JSON from its
//! standard input, secrets included, and answers on its standard output with one [`Message`] a line.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use feedrate_metrics::record::RunRecord;
use feedrate_metrics::units::ByteCount;
use feedrate_ranks::in_process;
use feedrate_report::dlio::write_results;
use feedrate_report::folders::remove_results;
use feedrate_report::log::{DlioLog, Event};
use feedrate_report::{ConfiguredValue, HostFacts, Origin, ReportError, RunReport};
use feedrate_training::{EvaluationSet, Job, Observer, Progress, ProgressNow};
use feedrate_workload::{Schedule, Workload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::data::{self, Input};
use crate::exit::Outcome;
use crate::output::note;
use crate::profiler::Iostat;
use crate::store::Access;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Everything that one training needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) workload: Workload,
    /// How each key came to its value.
    pub(crate) configuration: Vec<ConfiguredValue>,
    pub(crate) np: u32,
    pub(crate) access: Access,
    pub(crate) origin: Origin,
    /// Compare every byte read with what was generated.
    pub(crate) verify: bool,
    pub(crate) byte_budget: ByteCount,
    /// Where its results go; exists.
    pub(crate) folder: PathBuf,
    /// Show the log on stderr, too, as DLIO does.
    pub(crate) log_on_stderr: bool,
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

/// What a run that failed has left, as the context of its error.
#[derive(Debug)]
struct Kept(String);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Puts a task's log and results on disk as they come.
pub(crate) struct Results {
    task: Task,
    host: HostFacts,
    log: DlioLog,
    finished_epochs: AtomicU32,
    tell: Box<dyn Fn(Message) + Send + Sync>,
}

impl Results {
    /// Begins the log in the task's folder. `tell` hears of what happens, perhaps from another thread.
    pub(crate) fn begin(
        task: Task,
        tell: impl Fn(Message) + Send + Sync + 'static,
    ) -> anyhow::Result<Arc<Self>> {
        let output = &task.workload.output;
        let log = DlioLog::create(&task.folder.join(&output.log_file), output.log_level)?;
        let log = if task.log_on_stderr { log.also_on_stderr() } else { log };
        let (finished_epochs, tell) = (AtomicU32::new(0), Box::new(tell));
        let results = Self { host: HostFacts::read()?, task, log, finished_epochs, tell };
        let Task { workload, np, .. } = &results.task;
        results.log.event(&Event::Running { workflow: workload.workflow, processes: *np })?;
        if let Some(caveat) = data::caveat(workload) {
            results.warn(caveat)?;
        }
        Ok(Arc::new(results))
    }

    /// Does everything that the task's workflow asks for. `input` is opened after generating, or was
    /// before. A run that only generates has no report.
    pub(crate) fn play(
        self: &Arc<Self>,
        input: Option<Input>,
        runtime: &Handle,
        quiet: bool,
    ) -> anyhow::Result<Option<RunReport>> {
        let Task { workload, access, verify, .. } = &self.task;
        if workload.workflow.generate_data {
            self.log.event(&Event::GenerationStarting)?;
            let (summary, location) = data::generate_into(access, workload, runtime, quiet)?;
            self.log.event(&Event::GenerationDone)?;
            self.tell(Message::Note(format!("{} in {location}", data::told(&summary))));
        }
        if !workload.workflow.train {
            return Ok(None);
        }
        if workload.workflow.generate_data {
            data::settle(workload, runtime, quiet);
        }
        let input = match input {
            Some(input) => input,
            None => Input::open(access, workload, *verify, runtime)?,
        };
        let found = input.found(workload, access);
        let report = self.train(input, runtime)?;
        if !workload.dataset.keep_files && workload.reads_storage() {
            let removed = found.remove(runtime)?;
            self.tell(Message::Note(format!("removed the {removed} files of the data set")));
        }
        Ok(Some(report))
    }

    /// Notes in the log why the run failed, but not on stderr, where whoever called says it.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        // What cannot be written now could not be told any better.
        let _ = self.log.error(&format!("{error:#}"));
    }

    fn train(self: &Arc<Self>, input: Input, runtime: &Handle) -> anyhow::Result<RunReport> {
        let Task { workload, np, access, byte_budget, folder, .. } = &self.task;
        let schedule = Schedule::new(workload, *np)?;
        // What fails from here on must not leave an earlier run's results to pass for its own. What
        // failed before has not touched them.
        remove_results(folder)?;
        let profiler = Iostat::start(workload, folder)?;
        self.log.event(&Event::MaxSteps { workload, schedule })?;
        if let Some(steps) = workload.train.total_training_steps {
            let epochs = workload.train.epochs;
            self.log.event(&Event::TotalTrainingSteps { steps, epochs })?;
        }
        self.warn_of_dropped(&schedule)?;
        let evaluation = match (Schedule::evaluation(workload, *np)?, input.evaluation) {
            (Some(schedule), Some(source)) => {
                self.log.event(&Event::StepsPerEvaluation { workload, schedule })?;
                self.warn_of_dropped(&schedule)?;
                Some(EvaluationSet { schedule, source: Arc::new(source) })
            }
            _ => None,
        };
        let job = Job {
            workload: workload.clone(),
            schedule,
            source: Arc::new(input.training),
            evaluation,
            requests: input.requests,
            byte_budget: *byte_budget,
            co_located: access.shown.co_located,
            host: self.host.hostname.clone(),
            runtime: runtime.clone(),
        };
        self.tell(Message::Note(bounds(&job)));
        let progress = Arc::new(Progress::default());
        let teller = runtime.spawn({
            let (progress, results) = (Arc::clone(&progress), Arc::clone(self));
            async move {
                loop {
                    tokio::time::sleep(TELL_EVERY).await;
                    results.tell(progress.now().into());
                }
            }
        });
        let observer: Arc<dyn Observer> = Arc::<Self>::clone(self);
        let outcome = feedrate_training::run(job, in_process::world(*np), observer, progress);
        teller.abort();
        if let Some(complaint) = profiler.and_then(Iostat::finish) {
            self.warn(&complaint)?;
        }
        let record = outcome.map_err(|error| anyhow!(error).context(self.what_is_kept()))?;
        self.finish(&record.context("all ranks are in this process, rank 0 among them")?)
    }

    fn warn_of_dropped(&self, schedule: &Schedule) -> anyhow::Result<()> {
        if schedule.dropped() == 0 {
            return Ok(());
        }
        let Schedule { samples, steps, batch_size, ranks, split } = schedule;
        let taken = samples - schedule.dropped();
        let when = match split {
            feedrate_workload::Split::Train => "epoch",
            feedrate_workload::Split::Valid => "evaluation",
        };
        self.warn(&format!(
            "{} of {samples} samples are dropped in each {when}: {steps} steps x {batch_size} x \
             {ranks} ranks take {taken}",
            schedule.dropped(),
        ))
    }

    /// A warning for the log and the user.
    fn warn(&self, text: &str) -> anyhow::Result<()> {
        self.log.warning(text)?;
        // The log is the user's console as well.
        if !self.task.log_on_stderr {
            self.tell(Message::Note(text.to_owned()));
        }
        Ok(())
    }

    fn tell(&self, message: Message) {
        (self.tell)(message);
    }

    fn report(&self, record: &RunRecord) -> RunReport {
        let Task { origin, workload, access, np, configuration, .. } = &self.task;
        let mut report = RunReport::new(
            origin.clone(),
            workload.clone(),
            self.host.clone(),
            access.shown.clone(),
            *np,
            record.clone(),
        );
        report.configuration.clone_from(configuration);
        report
    }

    fn save(&self, record: &RunRecord) -> Result<(), ReportError> {
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

/// What the loaders may hold, for the user.
fn bounds(job: &Job) -> String {
    let ranks = job.schedule.ranks;
    let most = job.most_held(ranks);
    format!(
        "batches and files read ahead take at most {most} ({ranks} x {})",
        ByteCount(most.0 / u64::from(ranks))
    )
}

impl Observer for Results {
    fn epoch_starts(&self, epoch: u32, steps: u64) {
        let overridden = self.task.workload.train.total_training_steps.is_some();
        // A log that cannot be written is reported at the end of the epoch, with its results.
        let _ = self.log.event(&Event::EpochStarting { epoch, steps, overridden });
        let _ = self.log.event(&Event::BlockStarting { block: 1 });
    }

    fn warned(&self, text: &str) {
        let _ = self.warn(text);
    }

    fn epoch_ended(&self, record: &RunRecord) -> Result<(), String> {
        self.save(record).map_err(|error| format!("{:#}", anyhow!(error)))?;
        self.finished_epochs.store(record.epochs.len() as u32, Ordering::Relaxed);
        Ok(())
    }
}

/// Shows what a training tells.
pub(crate) fn show(bar: &indicatif::ProgressBar, steps: u64, quiet: bool, message: Message) {
    match message {
        Message::Progress { epoch, steps: done, wall_au_percent } => {
            bar.set_position(u64::from(epoch.saturating_sub(1)) * steps + done);
            let au = wall_au_percent.map_or_else(String::new, |au| format!("  AU {au:.1} %"));
            bar.set_message(format!("epoch {epoch}{au}"));
        }
        Message::Note(text) => bar.suspend(|| note(quiet, text)),
        Message::Failed(_) => {}
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
        .and_then(|input| Results::begin(task, tell)?.train(input, runtime.handle()));
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
