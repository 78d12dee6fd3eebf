//! A workload's sets of files in a store: whether they can be made and read at all, making them,
//! finding them, removing them.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use anyhow::{Context, anyhow};
use feedrate_dataset::{
    Cut, Difference, DiscoverError, FileFormat, FileSet, GenerateOptions, GenerateProgress,
    GenerateSummary, Layout, MadeSet, Manifest, Odd, Part, Present, Stored, TrustError, discover,
    generate, remove, trusted,
};
use feedrate_loader::{BufferPool, Columns, Known, RowGroups, Source, Work};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, GIB};
use feedrate_storage::Store;
use feedrate_workload::{
    Decode, Format, ParquetColumn, RangeSize, Schedule, Split, Target, Workload,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::exit::usage;
use crate::output::note;
use crate::progress;
use crate::store::{Access, simulated};

/// The ranges by which large objects come where nothing else is asked for. UNet3D's 140 MiB from a store
/// on the same host come half as fast again by these as by one GET each, and no slower than by larger or
/// smaller ones (docs/performance.md); the S3 clients of AWS use as much.
const AUTOMATIC_RANGE: u64 = 8 << 20;

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
fn sets(access: &Access, workload: &Workload) -> anyhow::Result<Vec<FileSet>> {
    let dataset = &workload.dataset;
    let formats = FileFormat::both(dataset)?;
    let set = |(split, format)| {
        let layout = Layout::new(dataset, split, access.prefix(), dataset.files(split));
        FileSet::new(layout, format)
    };
    Ok(splits(workload).zip(formats).map(set).collect())
}

/// The making of a workload's files in the store behind an access, alone or by several processes.
pub(crate) struct Generation<'a> {
    pub(crate) access: &'a Access,
    pub(crate) workload: &'a Workload,
    /// Files that are there already with the right size are not made again.
    pub(crate) resume: bool,
    pub(crate) runtime: &'a Handle,
    pub(crate) quiet: bool,
}

impl Generation<'_> {
    /// Makes everything in this process.
    pub(crate) fn alone(&self) -> anyhow::Result<Generated> {
        self.prepare()?;
        let generated = self.make(Part::default())?;
        self.conclude()?;
        Ok(generated)
    }

    /// What one process does before all of them make files.
    ///
    /// The store is asked first for a listing of what cannot be there, so that a wrong endpoint, bucket
    /// or key is told by one quick request and not by as many uploads as go out at once. Then what the
    /// manifest says of the sets is taken out of it: it would not be true of files that are half made.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        let (access, workload) = (self.access, self.workload);
        let store = access.open(Arc::default())?;
        let sets = sets(access, workload)?;
        let nothing = format!("{}/.feedrate-preflight", sets[0].layout.folder());
        self.runtime.block_on(store.list(&nothing, &mut |_| ()))?;
        let found = Manifest::read_to_write(&*store, access.prefix());
        let mut manifest = self.runtime.block_on(found)?;
        let mut forgotten = false;
        for (split, set) in splits(workload).zip(&*sets) {
            let made = manifest.find(&set.layout, split).filter(|_| self.resume);
            let differences = made.map_or(Vec::new(), |made| made.differences(&workload.dataset));
            if !differences.is_empty() {
                return Err(anyhow!(
                    "the data set in {} was made otherwise: {}. It cannot be resumed: leave --resume out \
                     to make it anew",
                    place(&set.layout, &*store),
                    listed(&differences)
                ));
            }
            forgotten |= manifest.forget(&set.layout, split);
        }
        if forgotten {
            self.runtime.block_on(manifest.write(&*store, access.prefix()))?;
        }
        Ok(())
    }

    /// Makes this process's `part` of the files.
    pub(crate) fn make(&self, part: Part) -> anyhow::Result<Generated> {
        let Self { access, workload, runtime, quiet, .. } = *self;
        let requests = Arc::new(RequestStats::new());
        let store = access.open(Arc::clone(&requests))?;
        let mut sets = sets(access, workload)?;
        let location = place(&sets[0].layout, &*store);
        if self.resume {
            for set in &mut sets {
                let found = Present::find(&*store, &set.layout, &set.format);
                set.present = runtime.block_on(found)?;
            }
        }
        let sets: Arc<[FileSet]> = sets.into();
        let done = Arc::new(GenerateProgress::new(&sets, part));
        let bar = progress::generation(done.total_bytes(), quiet);
        let shower = runtime.spawn({
            let (bar, done, began) = (bar.clone(), Arc::clone(&done), Instant::now());
            async move {
                loop {
                    let files = done.files() - done.skipped();
                    let rate = files as f64 / began.elapsed().as_secs_f64().max(1e-3);
                    bar.set_position(done.bytes() + done.skipped_bytes());
                    bar.set_message(format!(
                        "{}/{} files  {rate:.0} files/s",
                        done.files(),
                        done.total_files()
                    ));
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        });
        let usual = GenerateOptions::default();
        let threads = workload.reader.write_threads;
        let threads = threads.map_or(usual.threads, |threads| threads as usize);
        let options = GenerateOptions { threads, part, ..usual };
        let outcome = runtime.block_on(generate(store, sets, options, &done));
        shower.abort();
        bar.finish_and_clear();
        let summary = outcome?;
        let retries = requests.summary().retries;
        if !retries.is_empty() {
            note(quiet, format_args!("uploads that were repeated, by reason: {retries:?}"));
        }
        let GenerateSummary { files, skipped, bytes, elapsed } = summary;
        Ok(Generated { files, skipped, bytes, seconds: elapsed.as_secs_f64(), location })
    }

    /// What one process does when all files are made: notes in the manifest what they are.
    pub(crate) fn conclude(&self) -> anyhow::Result<()> {
        let (access, workload) = (self.access, self.workload);
        let store = access.open(Arc::default())?;
        let write = async {
            let mut manifest = Manifest::read_to_write(&*store, access.prefix()).await?;
            for (split, set) in splits(workload).zip(&sets(access, workload)?) {
                let bytes = set.format.total_bytes();
                manifest.note(&workload.dataset, &set.layout, split, bytes);
            }
            Ok(manifest.write(&*store, access.prefix()).await?)
        };
        self.runtime.block_on(write)
    }
}

/// Where a set is, for people.
fn place(layout: &Layout, store: &dyn Store) -> String {
    format!("{} of {}", layout.folder(), store.location())
}

fn listed(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// What was generated, and where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Generated {
    /// Those that were there before included.
    pub(crate) files: u64,
    pub(crate) skipped: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) location: String,
}

impl Generated {
    /// Together with what another process generated at the same time.
    pub(crate) fn and(self, Self { files, skipped, bytes, seconds, .. }: Self) -> Self {
        Self {
            files: self.files + files,
            skipped: self.skipped + skipped,
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
            self.files - self.skipped,
            ByteCount(self.bytes),
            self.seconds,
            self.bytes as f64 / GIB / self.seconds.max(1e-9),
            self.location,
        )?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, "; {skipped} were there already"),
        }
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
    /// What is to be said of the files.
    pub(crate) notes: Vec<String>,
}

/// What is known of a set in a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FoundSet {
    pub(crate) layout: Layout,
    pub(crate) known: Known,
    pub(crate) cut: Cut,
    /// Bytes of the wanted columns of a sample, where not all of a file is read.
    pub(crate) wanted_bytes_per_sample: Option<f64>,
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
        let mut notes = Vec::new();
        let mut manifest = None;
        let input = Self::with(access, workload, verify, |store, split, format, columns| {
            let look = find(store, workload, format, split, access.prefix());
            let (layout, odd) = runtime.block_on(look)?;
            // Behind the look at the files, which tells best what is wrong with a store or a folder, and
            // by a client of its own: results count what samples cost.
            if manifest.is_none() && workload.reads_storage() {
                let store = access.open(Arc::default())?;
                let read = runtime.block_on(Manifest::read(&*store, access.prefix()));
                let read = read.or_else(|error| {
                    if !error.is_forbidden() {
                        return Err(error);
                    }
                    // To who may not list, S3 says so of keys that are not there.
                    notes.push(format!("nothing is known of how the data set was made: {error}"));
                    Ok(None)
                });
                manifest = Some(read?.unwrap_or_default());
            }
            let made = manifest.as_ref().and_then(|manifest| manifest.find(&layout, split));
            if let Some(made) = made {
                check_made(made, workload, verify, &layout, store)?;
            }
            let known = match made {
                _ if !workload.reads_storage() => Known::Simulated,
                // A file that is not as it was made is told when it is read, unless all were replaced.
                Some(_) if odd.files < odd.looked_at.max(1) => Known::AsMade,
                None if odd.files == 0 && odd.looked_at > 0 => Known::AsMade,
                _ => Known::Different,
            };
            notes.extend(odd.example.map(|(index, size, expected)| {
                format!(
                    "{} of {} files in {} have other sizes than this workload gives them, such as {} \
                     ({size} bytes, not {expected}): results show the bytes that were read",
                    odd.files,
                    format.files(),
                    place(&layout, store),
                    layout.key(index),
                )
            }));
            let Some(columns) = columns else {
                let wanted_bytes_per_sample = wanted_bytes(workload);
                let cut = known.cut(format);
                return Ok(FoundSet { layout, known, cut, wanted_bytes_per_sample });
            };
            // How the files are made up is told by the first one.
            let groups = runtime.block_on(columns.look(store, &layout.key(0), 0))?;
            let RowGroups { cut, bytes_per_sample } = groups;
            Ok(FoundSet { layout, known, cut, wanted_bytes_per_sample: Some(bytes_per_sample) })
        })?;
        Ok(Self { notes, ..input })
    }

    /// Opens the store for sets that another process has found.
    pub(crate) fn of(
        access: &Access,
        workload: &Workload,
        verify: bool,
        found: Vec<FoundSet>,
    ) -> anyhow::Result<Self> {
        let mut found = found.into_iter();
        Self::with(access, workload, verify, |_, split, _, _| {
            found
                .next()
                .with_context(|| format!("nobody has found the files of {}", split.folder()))
        })
    }

    fn with(
        access: &Access,
        workload: &Workload,
        verify: bool,
        mut find: impl FnMut(
            &dyn Store,
            Split,
            &FileFormat,
            Option<&Columns>,
        ) -> anyhow::Result<FoundSet>,
    ) -> anyhow::Result<Self> {
        let requests = Arc::new(RequestStats::new());
        let pool = BufferPool::new();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let decode = workload.reader.decode == Decode::Full && workload.reads_storage();
        let work = Work::new(verify, decode, Arc::default(), threads);
        let real =
            if workload.reads_storage() { Some(access.open(Arc::clone(&requests))?) } else { None };
        let mut source = |split, format: FileFormat| -> anyhow::Result<Source> {
            let store = match &real {
                Some(store) => Arc::clone(store),
                None => simulated(format.largest_file(), Arc::clone(&requests)),
            };
            let by_columns = workload.dataset.format == Format::Parquet && real.is_some();
            let columns = by_columns.then(|| Columns::new(&workload.dataset, &workload.storage));
            let FoundSet { layout, known, cut, wanted_bytes_per_sample } =
                find(&*store, split, &format, columns.as_ref())?;
            Ok(Source {
                store,
                layout,
                format,
                known,
                cut,
                columns,
                wanted_bytes_per_sample,
                range_bytes: range_bytes(workload),
                work: Arc::clone(&work),
                pool: Arc::clone(&pool),
            })
        };
        let [train, valid] = FileFormat::both(&workload.dataset)?;
        let training = source(Split::Train, train)?;
        let valid = Some(valid).filter(|_| workload.workflow.evaluates());
        let evaluation = valid.map(|format| source(Split::Valid, format)).transpose()?;
        Ok(Self { training, evaluation, requests, notes: Vec::new() })
    }

    /// What was found, as [`Input::of`] takes it.
    pub(crate) fn found_sets(&self) -> Vec<FoundSet> {
        let sources = [&self.training].into_iter().chain(&self.evaluation);
        let found = |source: &Source| FoundSet {
            layout: source.layout.clone(),
            known: source.known,
            cut: source.cut.clone(),
            wanted_bytes_per_sample: source.wanted_bytes_per_sample,
        };
        sources.map(found).collect()
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
        let sets = splits(workload).map(|split| (split, layout(split))).collect();
        Found { store, prefix: access.prefix().to_owned(), sets }
    }
}

/// The files of a workload in a store.
pub(crate) struct Found {
    store: Arc<dyn Store>,
    prefix: String,
    sets: Vec<(Split, Layout)>,
}

impl Found {
    /// Removes them, all of each set that was found, what the manifest says of them, and nothing else.
    pub(crate) fn remove(&self, runtime: &Handle) -> anyhow::Result<u64> {
        let Self { store, prefix, sets } = self;
        let layouts: Vec<Layout> = sets.iter().map(|(_, layout)| layout.clone()).collect();
        runtime.block_on(async {
            let mut manifest = Manifest::read_to_write(&**store, prefix).await?;
            for (split, layout) in sets {
                manifest.forget(layout, *split);
            }
            manifest.write(&**store, prefix).await?;
            Ok(remove(&**store, &layouts).await?)
        })
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

/// The names of a set's files in `store`, and those that are not as long as `format` makes them.
pub(crate) async fn find(
    store: &dyn Store,
    workload: &Workload,
    format: &FileFormat,
    split: Split,
    prefix: &str,
) -> anyhow::Result<(Layout, Odd)> {
    let dataset = &workload.dataset;
    if !workload.reads_storage() {
        // A store that is not there has no list.
        return Ok((Layout::new(dataset, split, prefix, dataset.files(split)), Odd::default()));
    }
    if dataset.skip_listing {
        return Ok(trusted(store, dataset, format, split, prefix).await?);
    }
    let Stored { layout, odd, .. } = discover(store, dataset, format, split, prefix).await?;
    Ok((layout, odd))
}

/// Refuses a set that was made with other settings than `workload` has, where that makes a difference
/// for who reads it or, with `verify`, for what must be in it.
pub(crate) fn check_made(
    made: &MadeSet,
    workload: &Workload,
    verify: bool,
    layout: &Layout,
    store: &dyn Store,
) -> anyhow::Result<()> {
    let differences = made.differences(&workload.dataset);
    if differences.iter().any(|difference| verify || difference.matters()) {
        return Err(anyhow!(
            "the data set in {} was made with other settings: {}. Set them alike, or generate the data \
             set again",
            place(layout, store),
            listed(&differences)
        ));
    }
    Ok(())
}

/// Bytes of a sample in the columns that are wanted, by the configuration, where not all are.
fn wanted_bytes(workload: &Workload) -> Option<f64> {
    let wanted = workload.storage.columns.as_ref()?;
    let columns = workload.dataset.parquet.columns.iter();
    let bytes = columns.filter(|column| wanted.contains(&column.name)).map(ParquetColumn::bytes);
    Some(bytes.sum::<u64>() as f64).filter(|&bytes| bytes > 0.0)
}

/// The size of the ranges that large pieces come by.
fn range_bytes(workload: &Workload) -> Option<u64> {
    match (workload.storage.range_size, &workload.storage.target) {
        (RangeSize::Bytes(bytes), _) => Some(bytes),
        (RangeSize::Auto, Target::S3 { .. }) => Some(AUTOMATIC_RANGE),
        (RangeSize::Auto, Target::Local { .. }) | (RangeSize::Never, _) => None,
    }
}
