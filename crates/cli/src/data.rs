//! A workload's sets of files in a store: whether they can be made and read at all, making them,
//! finding them, removing them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use feedrate_dataset::{
    DiscoverError, FileFormat, FileSet, GenerateOptions, GenerateProgress, GenerateSummary, Layout,
    Part, TrustError, discover, generate, remove, trusted,
};
use feedrate_loader::{BufferPool, Source};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, GIB};
use feedrate_storage::Store;
use feedrate_workload::{Schedule, Split, Target, Workload};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::exit::usage;
use crate::output::note;
use crate::progress;
use crate::store::{Access, simulated};

/// The sets that `workload` has; the training set even when it is empty.
pub(crate) fn splits(workload: &Workload) -> impl Iterator<Item = Split> {
    let files = workload.dataset.num_files_eval;
    [Split::Train].into_iter().chain((files > 0).then_some(Split::Valid))
}

/// Refuses what cannot be done yet and what makes no sense on `ranks` ranks, before anything is
/// contacted or made.
pub(crate) fn check(workload: &Workload, ranks: u32) -> anyhow::Result<()> {
    let workflow = workload.workflow;
    if !workflow.train && !workflow.generate_data && !workflow.checkpoint {
        return Err(usage(
            "nothing to do: workflow.train, workflow.generate_data and workflow.checkpoint are all \
             false. Set one of them to true",
        ));
    }
    if workflow.checkpoints_only() {
        return Err(anyhow!(
            "workflow.checkpoint without workflow.train is a run of checkpoints alone, which is not \
             supported yet"
        ));
    }
    FileFormat::both(&workload.dataset)?;
    let stored = workload.dataset.num_files_stored.filter(|_| workflow.generate_data);
    if let Some(stored) = stored.filter(|&stored| stored != workload.dataset.num_files_train) {
        return Err(anyhow!(
            "dataset.num_files_stored is {stored}, but workflow.generate_data makes a set of {} files: \
             leave one of the two out",
            workload.dataset.num_files_train
        ));
    }
    if workflow.train {
        Schedule::new(workload, ranks)?;
        Schedule::evaluation(workload, ranks)?;
    }
    Ok(())
}

/// What is to be said of a workload before it runs.
pub(crate) fn caveat(workload: &Workload) -> Option<&'static str> {
    (workload.workflow.train && workload.workflow.checkpoint).then_some(
        "workflow.checkpoint: checkpoints are not written yet; the run goes on without them, and its \
         results say checkpoint: skipped",
    )
}

/// The sets of `workload` in the store behind `access`, under the names that it gives them.
fn sets(access: &Access, workload: &Workload) -> anyhow::Result<Arc<[FileSet]>> {
    let dataset = &workload.dataset;
    let formats = FileFormat::both(dataset)?;
    let set = |(split, format)| {
        let layout = Layout::new(dataset, split, access.prefix(), dataset.files(split));
        FileSet { layout, format }
    };
    Ok(splits(workload).zip(formats).map(set).collect())
}

/// Generates `workload`'s files, or this process's `part` of them, in the store behind `access`.
///
/// The store is asked first for a listing of what cannot be there, so that a wrong endpoint, bucket or
/// key is told by one quick request and not by as many uploads as go out at once.
pub(crate) fn generate_into(
    access: &Access,
    workload: &Workload,
    part: Part,
    runtime: &Handle,
    quiet: bool,
) -> anyhow::Result<Generated> {
    let sets = sets(access, workload)?;
    let folder = sets[0].layout.folder();
    let requests = Arc::new(RequestStats::new());
    let store = access.open(Arc::clone(&requests))?;
    let location = format!("{folder} of {}", store.location());
    let nothing = format!("{folder}/.feedrate-preflight");
    runtime.block_on(store.list(&nothing, &mut |_| ()))?;
    let done = Arc::new(GenerateProgress::new(&sets, part));
    let bar = progress::generation(done.total_bytes(), quiet);
    let shower = runtime.spawn({
        let (bar, done) = (bar.clone(), Arc::clone(&done));
        async move {
            loop {
                bar.set_position(done.bytes());
                bar.set_message(format!("{}/{} files", done.files(), done.total_files()));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    });
    let usual = GenerateOptions::default();
    let threads = workload.reader.write_threads.map_or(usual.threads, |threads| threads as usize);
    let options = GenerateOptions { threads, part, ..usual };
    let outcome = runtime.block_on(generate(store, sets, options, &done));
    shower.abort();
    bar.finish_and_clear();
    let summary = outcome?;
    let retries = requests.summary().retries;
    if !retries.is_empty() {
        note(quiet, format_args!("uploads that were repeated, by reason: {retries:?}"));
    }
    let GenerateSummary { files, bytes, elapsed } = summary;
    Ok(Generated { files, bytes, seconds: elapsed.as_secs_f64(), location })
}

/// What was generated, and where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Generated {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) location: String,
}

impl Generated {
    /// Together with what another process generated at the same time.
    pub(crate) fn and(self, Self { files, bytes, seconds, .. }: Self) -> Self {
        Self {
            files: self.files + files,
            bytes: self.bytes + bytes,
            seconds: self.seconds.max(seconds),
            location: self.location,
        }
    }
}

impl fmt::Display for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "generated {} files, {}, in {:.1} s ({:.2} GiB/s) in {}",
            self.files,
            ByteCount(self.bytes),
            self.seconds,
            self.bytes as f64 / GIB / self.seconds.max(1e-9),
            self.location,
        )
    }
}

/// Waits as long as `storage.post_generation_settle_seconds` says, where the files are objects.
pub(crate) fn settle(workload: &Workload, runtime: &Handle, quiet: bool) {
    let seconds = workload.storage.post_generation_settle_seconds;
    if seconds > 0.0 && matches!(workload.storage.target, Target::S3 { .. }) {
        note(quiet, format_args!("the store gets {seconds} s to settle"));
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs_f64(seconds)).await });
    }
}

/// What a training reads from: opened, and found to hold its files.
pub(crate) struct Input {
    pub(crate) training: Source,
    /// The files of evaluations, where the workload has any.
    pub(crate) evaluation: Option<Source>,
    pub(crate) requests: Arc<RequestStats>,
}

impl Input {
    /// Opens the store and finds the sets: by one listing each, by looking for some of their files, or
    /// not at all where nothing is read.
    pub(crate) fn open(
        access: &Access,
        workload: &Workload,
        verify: bool,
        runtime: &Handle,
    ) -> anyhow::Result<Self> {
        Self::with(access, workload, verify, |store, split| {
            runtime.block_on(find(store, workload, split, access.prefix()))
        })
    }

    /// Opens the store for sets that another process has found.
    pub(crate) fn of(
        access: &Access,
        workload: &Workload,
        verify: bool,
        layouts: Vec<Layout>,
    ) -> anyhow::Result<Self> {
        let mut layouts = layouts.into_iter();
        Self::with(access, workload, verify, |_, split| {
            layouts
                .next()
                .with_context(|| format!("nobody has found the files of {}", split.folder()))
        })
    }

    fn with(
        access: &Access,
        workload: &Workload,
        verify: bool,
        mut layout: impl FnMut(&dyn Store, Split) -> anyhow::Result<Layout>,
    ) -> anyhow::Result<Self> {
        let requests = Arc::new(RequestStats::new());
        let pool = BufferPool::new();
        let real =
            if workload.reads_storage() { Some(access.open(Arc::clone(&requests))?) } else { None };
        let mut source = |split, format: FileFormat| -> anyhow::Result<Source> {
            let store = if let Some(store) = &real {
                Arc::clone(store)
            } else {
                let mean = format.total_bytes() / format.files().max(1);
                simulated(mean, Arc::clone(&requests))
            };
            let layout = layout(&*store, split)?;
            Ok(Source { store, layout, format, verify, pool: Arc::clone(&pool) })
        };
        let [train, valid] = FileFormat::both(&workload.dataset)?;
        let training = source(Split::Train, train)?;
        let valid = Some(valid).filter(|_| workload.workflow.evaluates());
        let evaluation = valid.map(|format| source(Split::Valid, format)).transpose()?;
        Ok(Self { training, evaluation, requests })
    }

    /// The names of the files, as [`Input::of`] takes them.
    pub(crate) fn layouts(&self) -> Vec<Layout> {
        let sources = [&self.training].into_iter().chain(&self.evaluation);
        sources.map(|source| source.layout.clone()).collect()
    }

    /// The sets of `workload`: under the names that were found, and one that nobody has looked for under
    /// those that generating gives it.
    pub(crate) fn found(&self, workload: &Workload, access: &Access) -> Found {
        let layout = |split| {
            let opened = match split {
                Split::Train => Some(&self.training),
                Split::Valid => self.evaluation.as_ref(),
            };
            let dataset = &workload.dataset;
            let named = || Layout::new(dataset, split, access.prefix(), dataset.files(split));
            opened.map_or_else(named, |source| source.layout.clone())
        };
        let store = Arc::clone(&self.training.store);
        Found { store, layouts: splits(workload).map(layout).collect() }
    }
}

/// The files of a workload in a store.
pub(crate) struct Found {
    store: Arc<dyn Store>,
    layouts: Vec<Layout>,
}

impl Found {
    /// Removes them, all of each set that was found, and nothing else.
    pub(crate) fn remove(&self, runtime: &Handle) -> anyhow::Result<u64> {
        Ok(runtime.block_on(remove(&*self.store, &self.layouts))?)
    }
}

/// Whether `error` says that files of a set are not there, and not that nobody could look.
pub(crate) fn is_missing(error: &anyhow::Error) -> bool {
    let listed = error.downcast_ref::<DiscoverError>();
    listed.is_some_and(|error| !matches!(error, DiscoverError::List(_)))
        || matches!(error.downcast_ref::<TrustError>(), Some(TrustError::Missing { .. }))
}

/// Tells with files that are missing how to make them: `how` goes on where the error ends.
pub(crate) fn with_hint(error: anyhow::Error, how: impl FnOnce() -> String) -> anyhow::Error {
    if is_missing(&error) { anyhow!("{error}{}", how()) } else { error }
}

/// The names of a set's files in `store`.
pub(crate) async fn find(
    store: &dyn Store,
    workload: &Workload,
    split: Split,
    prefix: &str,
) -> anyhow::Result<Layout> {
    let dataset = &workload.dataset;
    if dataset.skip_listing {
        return Ok(trusted(store, dataset, split, prefix).await?);
    }
    if !workload.reads_storage() {
        // A store that is not there has no list.
        return Ok(Layout::new(dataset, split, prefix, dataset.files(split)));
    }
    Ok(discover(store, dataset, split, prefix).await?.layout)
}
