//! A workload's sets of files in a store: whether they can be made and read at all, making them,
//! finding them, removing them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use feedrate_dataset::{
    FileFormat, FileSet, GenerateOptions, GenerateProgress, GenerateSummary, Layout, discover,
    generate, remove, trusted,
};
use feedrate_loader::{BufferPool, Source};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, GIB};
use feedrate_storage::Store;
use feedrate_workload::{Schedule, Split, Target, Workload};
use tokio::runtime::Handle;

use crate::output::note;
use crate::progress;
use crate::store::{Access, simulated};

/// The sets that `workload` has; the training set even when it is empty.
fn splits(workload: &Workload) -> impl Iterator<Item = Split> {
    let files = workload.dataset.num_files_eval;
    [Split::Train].into_iter().chain((files > 0).then_some(Split::Valid))
}

/// Refuses what cannot be done yet and what makes no sense on `ranks` ranks, before anything is
/// contacted or made.
pub(crate) fn check(workload: &Workload, ranks: u32) -> anyhow::Result<()> {
    let workflow = workload.workflow;
    if workflow.checkpoints_only() {
        return Err(anyhow!(
            "workflow.checkpoint without workflow.train is a run of checkpoints alone, which is not \
             supported yet"
        ));
    }
    for split in splits(workload) {
        FileFormat::new(&workload.dataset, split)?;
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
    splits(workload)
        .map(|split| {
            let layout = Layout::new(dataset, split, access.prefix(), dataset.files(split));
            Ok(FileSet { layout, format: FileFormat::new(dataset, split)? })
        })
        .collect()
}

/// Generates `workload`'s files in the store behind `access`; returns where that is.
///
/// The store is asked first for a listing of what cannot be there, so that a wrong endpoint, bucket or
/// key is told by one quick request and not by as many uploads as go out at once.
pub(crate) fn generate_into(
    access: &Access,
    workload: &Workload,
    runtime: &Handle,
    quiet: bool,
) -> anyhow::Result<(GenerateSummary, String)> {
    let sets = sets(access, workload)?;
    let folder = sets[0].layout.folder();
    let requests = Arc::new(RequestStats::new());
    let store = access.open(Arc::clone(&requests))?;
    let location = format!("{folder} of {}", store.location());
    let nothing = format!("{folder}/.feedrate-preflight");
    runtime.block_on(store.list(&nothing, &mut |_| ()))?;
    let done = Arc::new(GenerateProgress::new(&sets));
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
    let options = GenerateOptions { threads, ..usual };
    let outcome = runtime.block_on(generate(store, sets, options, &done));
    shower.abort();
    bar.finish_and_clear();
    let summary = outcome?;
    let retries = requests.summary().retries;
    if !retries.is_empty() {
        note(quiet, format_args!("uploads that were repeated, by reason: {retries:?}"));
    }
    Ok((summary, location))
}

/// A finished generation in words.
pub(crate) fn told(summary: &GenerateSummary) -> String {
    let seconds = summary.elapsed.as_secs_f64();
    format!(
        "generated {} files, {}, in {seconds:.1} s ({:.2} GiB/s)",
        summary.files,
        ByteCount(summary.bytes),
        summary.bytes as f64 / GIB / seconds.max(1e-9),
    )
}

/// Waits as long as `storage.post_generation_settle_seconds` says, where the files are objects.
pub(crate) fn settle(workload: &Workload, runtime: &Handle, quiet: bool) {
    let seconds = workload.storage.post_generation_settle_seconds;
    if seconds > 0.0 && matches!(workload.storage.target, Target::S3 { .. }) {
        note(quiet, format_args!("the store gets {seconds} s to settle"));
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs_f64(seconds)).await });
    }
}

/// Removes `workload`'s files, and nothing else, from the store behind `access`.
pub(crate) fn remove_from(
    access: &Access,
    workload: &Workload,
    runtime: &Handle,
) -> anyhow::Result<u64> {
    let store = access.open(Arc::new(RequestStats::new()))?;
    let sets = sets(access, workload)?;
    let layouts: Vec<_> = sets.iter().map(|set| set.layout.clone()).collect();
    Ok(runtime.block_on(remove(&*store, &layouts))?)
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
        let requests = Arc::new(RequestStats::new());
        let pool = BufferPool::new();
        let real =
            if workload.reads_storage() { Some(access.open(Arc::clone(&requests))?) } else { None };
        let source = |split| -> anyhow::Result<Source> {
            let format = FileFormat::new(&workload.dataset, split)?;
            let store = if let Some(store) = &real {
                Arc::clone(store)
            } else {
                let mean = format.total_bytes() / format.files().max(1);
                simulated(mean, Arc::clone(&requests))
            };
            let layout = runtime.block_on(find(&*store, workload, split, access.prefix()))?;
            Ok(Source { store, layout, format, verify, pool: Arc::clone(&pool) })
        };
        let training = source(Split::Train)?;
        let evaluates = workload.workflow.evaluates();
        let evaluation = evaluates.then(|| source(Split::Valid)).transpose()?;
        Ok(Self { training, evaluation, requests })
    }
}

/// The names of a set's files in `store`.
async fn find(
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
