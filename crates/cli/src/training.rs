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
use feedrate_metrics::process::hostname;
use feedrate_metrics::record::RunRecord;
use feedrate_metrics::units::ByteCount;
use feedrate_report::dlio::write_results;
use feedrate_report::folders::remove_results;
use feedrate_report::log::{DlioLog, Event};
use feedrate_report::{
    ConfiguredValue, HostFacts, NodeFacts, Nodes, Origin, ReportError, RunReport,
};
use feedrate_training::{EvaluationSet, Job, Observer, Progress, ProgressNow};
use feedrate_workload::{Schedule, Workload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::commands::settle;
use crate::crew::{Crew, CrewOptions};
use crate::data::{self, Generated, Generation, Input};
use crate::environment::Environment;
use crate::exit::{Outcome, logged};
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
    nodes: Nodes,
    log: DlioLog,
    finished_epochs: AtomicU32,
    tell: Box<dyn Fn(Message) + Send + Sync>,
}

impl Results {
    /// Begins the log in the task's folder. `tell` hears of what happens, perhaps from another thread.
    pub(crate) fn begin(
        task: Task,
        nodes: Nodes,
        tell: impl Fn(Message) + Send + Sync + 'static,
    ) -> anyhow::Result<Arc<Self>> {
        let output = &task.workload.output;
        let log = DlioLog::create(&task.folder.join(&output.log_file), output.log_level)?;
        let log = if task.log_on_stderr { log.also_on_stderr() } else { log };
        let (finished_epochs, tell) = (AtomicU32::new(0), Box::new(tell));
        let results = Self { task, nodes, log, finished_epochs, tell };
        let Task { workload, np, .. } = &results.task;
        results.log.event(&Event::Running { workflow: workload.workflow, processes: *np })?;
        if let Some(caveat) = data::caveat(workload) {
            results.warn(caveat)?;
        }
        Ok(Arc::new(results))
    }

    /// Notes in the log why the run failed, but not on stderr, where whoever called says it.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        // What cannot be written now could not be told any better.
        let _ = self.log.error(&format!("{error:#}"));
    }

    /// Logs what the training will be, and takes away what an earlier run left: what fails from here on
    /// must not leave its results to pass for its own; what failed before has not touched them.
    fn expect(&self, schedule: &Schedule, evaluation: Option<&Schedule>) -> anyhow::Result<()> {
        let workload = &self.task.workload;
        remove_results(&self.task.folder)?;
        self.log.event(&Event::MaxSteps { workload, schedule: *schedule })?;
        if let Some(steps) = workload.train.total_training_steps {
            let epochs = workload.train.epochs;
            self.log.event(&Event::TotalTrainingSteps { steps, epochs })?;
        }
        self.warn_of_dropped(schedule)?;
        if let Some(schedule) = evaluation {
            self.log.event(&Event::StepsPerEvaluation { workload, schedule: *schedule })?;
            self.warn_of_dropped(schedule)?;
        }
        Ok(())
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
        let Task { origin, workload, access, configuration, .. } = &self.task;
        let mut report = RunReport::new(
            origin.clone(),
            workload.clone(),
            self.nodes.clone(),
            access.shown.clone(),
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

/// Facts about the nodes of a job with so many `ranks`; only in the first process.
pub(crate) fn nodes(crew: &Crew, ranks: u32) -> anyhow::Result<Option<Nodes>> {
    let mut facts = crew.collect(|| {
        let mut facts = HostFacts::read()?;
        if let Some(name) = crew.node_name() {
            name.clone_into(&mut facts.hostname);
        }
        Ok(facts)
    })?;
    if !crew.is_first() {
        return Ok(None);
    }
    let own = std::thread::available_parallelism().map_or(1, usize::from);
    let all = facts.first().map_or(0, |facts| facts.logical_cpus) as usize;
    if crew.processes() > 1 && own < all {
        note(
            false,
            format_args!(
                "warning: the launcher binds this process to {own} of {all} CPUs, which its readers and \
                 ranks share; with Open MPI --bind-to none leaves them all"
            ),
        );
    }
    // From behind, so that what is taken does not move what is still to be taken.
    let mut nodes: Vec<NodeFacts> = crew
        .nodes(ranks)
        .into_iter()
        .rev()
        .map(|(process, ranks)| NodeFacts { host: facts.remove(process), ranks })
        .collect();
    nodes.reverse();
    Ok(Some(Nodes::try_from(nodes)?))
}

/// What came of a run, in its first process; nothing in the others.
pub(crate) struct Played {
    /// What was generated, if the workflow asks for that.
    pub(crate) generated: Option<Generated>,
    /// What was measured, unless nothing but data was made.
    pub(crate) report: Option<RunReport>,
}

/// One run, as one of its processes plays it. The first process has the results.
pub(crate) struct Play<'a> {
    pub(crate) crew: &'a Crew,
    pub(crate) task: &'a Task,
    pub(crate) results: Option<&'a Arc<Results>>,
    pub(crate) runtime: &'a Handle,
    pub(crate) quiet: bool,
}

impl Play<'_> {
    /// Does everything that the task's workflow asks for. The first process may have opened its `input`
    /// before; else it is opened after generating.
    pub(crate) fn everything(&self, input: Option<Input>) -> anyhow::Result<Played> {
        let Task { workload, access, .. } = self.task;
        let generated = if workload.workflow.generate_data { self.generate()? } else { None };
        if !workload.workflow.train {
            return Ok(Played { generated, report: None });
        }
        let input = self.open(input)?;
        let found = input.found(workload, access);
        let report = self.train(input)?;
        if self.crew.is_first() && !workload.dataset.keep_files && workload.reads_storage() {
            let removed = found.remove(self.runtime)?;
            self.tell(format!("removed the {removed} files of the data set"));
        }
        Ok(Played { generated, report })
    }

    fn generate(&self) -> anyhow::Result<Option<Generated>> {
        let Task { workload, access, .. } = self.task;
        self.log(&Event::GenerationStarting)?;
        let quiet = self.quiet || !self.crew.is_first();
        let runtime = self.runtime;
        let generation = Generation { access, workload, resume: false, runtime, quiet };
        self.crew.share(|| generation.prepare())?;
        let parts = self.crew.collect(|| generation.make(self.crew.part()))?;
        let all = parts.into_iter().reduce(Generated::and);
        if let Some(all) = &all {
            generation.conclude()?;
            self.log(&Event::GenerationDone)?;
            self.tell(all.to_string());
            if workload.workflow.train {
                data::settle(workload, self.runtime, self.quiet);
            }
        }
        Ok(all)
    }

    /// Opens the store in every process; the first one finds the files for all.
    fn open(&self, input: Option<Input>) -> anyhow::Result<Input> {
        let Task { workload, access, verify, .. } = self.task;
        let mut own = input;
        let found = self.crew.share(|| {
            let input = match own.take() {
                Some(input) => input,
                None => Input::open(access, workload, *verify, self.runtime)?,
            };
            let found = input.found_sets();
            own = Some(input);
            Ok(found)
        })?;
        match own {
            Some(input) => Ok(input),
            None => Input::of(access, workload, *verify, found),
        }
    }

    /// Trains, and leaves the report in the first process.
    pub(crate) fn train(&self, input: Input) -> anyhow::Result<Option<RunReport>> {
        let Task { workload, np, access, byte_budget, .. } = self.task;
        let schedule = Schedule::new(workload, *np)?;
        let evaluated = Schedule::evaluation(workload, *np)?;
        if let Some(results) = self.results {
            results.expect(&schedule, evaluated.as_ref())?;
            for text in &input.notes {
                results.warn(text)?;
            }
        }
        let evaluation = evaluated
            .zip(input.evaluation)
            .map(|(schedule, source)| EvaluationSet { schedule, source: Arc::new(source) });
        let host = match self.crew.node_name() {
            Some(name) => name.to_owned(),
            None => hostname().context("cannot tell the name of this host")?,
        };
        let worlds = self.crew.worlds(*np)?;
        let job = Job {
            workload: workload.clone(),
            schedule,
            source: Arc::new(input.training),
            evaluation,
            requests: input.requests,
            byte_budget: *byte_budget,
            co_located: access.shown.co_located,
            host,
            runtime: self.runtime.clone(),
        };
        let Some(results) = self.results else {
            feedrate_training::run(job, worlds, Arc::new(Nobody), Arc::default())?;
            return Ok(None);
        };
        let ranks_here = worlds.len() as u32;
        let most = job.most_held(ranks_here);
        let each = ByteCount(most.0 / u64::from(ranks_here));
        let of_each = match self.crew.processes() {
            1 => String::new(),
            processes => format!(" in each of {processes} processes"),
        };
        self.tell(format!(
            "batches and files read ahead take at most {most} ({ranks_here} x {each}){of_each}"
        ));
        let profiler = Iostat::start(workload, &self.task.folder)?;
        let progress = Arc::new(Progress::default());
        let teller = self.runtime.spawn({
            let (progress, results) = (Arc::clone(&progress), Arc::clone(results));
            async move {
                loop {
                    tokio::time::sleep(TELL_EVERY).await;
                    results.tell(progress.now().into());
                }
            }
        });
        let observer: Arc<dyn Observer> = Arc::<Results>::clone(results);
        let outcome = feedrate_training::run(job, worlds, observer, progress);
        teller.abort();
        let complaint = profiler.and_then(Iostat::finish);
        let record = outcome.map_err(|error| anyhow!(error).context(results.what_is_kept()))?;
        if let Some(complaint) = complaint {
            results.warn(&complaint)?;
        }
        let record = record.context("the run ended without a record")?;
        results.finish(&record).map(Some)
    }

    fn log(&self, event: &Event<'_>) -> anyhow::Result<()> {
        self.results.map_or(Ok(()), |results| Ok(results.log.event(event)?))
    }

    fn tell(&self, text: String) {
        if let Some(results) = self.results {
            results.tell(Message::Note(text));
        }
    }
}

/// The observer of a process that has no results.
struct Nobody;

impl Observer for Nobody {
    fn epoch_starts(&self, _: u32, _: u64) {}

    fn warned(&self, _: &str) {}

    fn epoch_ended(&self, _: &RunRecord) -> Result<(), String> {
        Ok(())
    }
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

/// The side of a sweep's training that its child is, or the several processes that a launcher made of it.
pub(crate) fn train_task(options: CrewOptions) -> anyhow::Result<Outcome> {
    use std::io::{BufRead, Write, stdin, stdout};

    let environment = Environment::capture()?;
    let crew = Crew::join(&environment, options)?;
    let tell = |message: Message| {
        if let Ok(line) = serde_json::to_string(&message) {
            let _ = writeln!(stdout().lock(), "{line}");
        }
    };
    let read = || {
        let mut line = String::new();
        stdin().lock().read_line(&mut line)?;
        let mut task: Task = serde_json::from_str(&line)
            .context("train-task is started by `feedrate sweep` alone")?;
        // The sweep does not know which hosts its launcher takes.
        settle(&mut task.workload, crew.most_on_a_node(task.np));
        // The parent never writes a second line: reading ends when it does, and so does this process.
        let leave = crew.leave_without_parent();
        std::thread::spawn(|| {
            let mut rest = String::new();
            let _ = stdin().lock().read_line(&mut rest);
            leave();
        });
        Ok(task)
    };
    let runtime = crate::commands::runtime()?;
    let train = || {
        let task = crew.share(read)?;
        crew.watch_signals(runtime.handle(), "epochs that were finished are kept");
        let nodes = nodes(&crew, task.np)?;
        let results = nodes.map(|nodes| Results::begin(task.clone(), nodes, tell)).transpose()?;
        let results = results.as_ref();
        let play =
            Play { crew: &crew, task: &task, results, runtime: runtime.handle(), quiet: true };
        let outcome = play.open(None).and_then(|input| play.train(input));
        if let (Err(error), Some(results)) = (&outcome, results) {
            results.failed(error);
        }
        outcome
    };
    let outcome = train().map_err(|error| {
        if !crew.is_first() {
            return error;
        }
        // What is kept, and where, the sweep says itself.
        let causes = error.chain().skip(usize::from(error.is::<Kept>()));
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        tell(Message::Failed(causes.join(": ")));
        logged(error)
    });
    let failed = crew.close(outcome.map(|_| Outcome::Finished)).is_err();
    // Whatever a failed rank left running ends here.
    runtime.shutdown_background();
    std::process::exit(i32::from(failed))
}
