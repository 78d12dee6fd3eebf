//! Making a data set: threads fill buffers while others are on their way to the store.
//!
//! A thread takes a permit and a buffer from the [`pool`], makes the next file in it and hands it over;
//! a task uploads it. A file that is too large for that goes in [`parts`]: the thread that makes it
//! hands over buffer after buffer, so it passes through bounded memory whatever its size. The permits
//! bound the memory: there are as many as uploads in flight and threads, less if buffers are big. A
//! buffer comes back when the store lets go of it, so once the first round is made nothing is
//! allocated. A store in memory never lets go: then each file has a new one, as it must.
//!
//! Files that stand beside others are stored before them, so that where a file is its companions are, too.
//! Files that are there already, whole, are passed over where a set says so ([`Present`]).
//!
//! Whichever thread makes a file, its bytes are the same. Several processes make a data set together,
//! each its own [`Part`] of the files, without a word between them. At the first error nothing more is started,
//! and what is in flight is given up; the same happens when the future is dropped.

mod parts;
mod pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use bytes::Bytes;
use feedrate_storage::{ObjectKey, Store, StoreError, part_bytes};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::format::out::{Counted, Later, Out, Stopped};
use crate::resume::Present;
use crate::{FileFormat, Layout, Length, Side};
use parts::{Sender, most_bytes};
use pool::{Permit, Pool};

/// Files longer than this are uploaded in parts.
const IN_PARTS_FROM: u64 = 16 << 20;

/// How long makers may take to clean up when generation ends early.
const CLEAN_UP: Duration = Duration::from_secs(3);

/// Files to make: their names and contents.
#[derive(Debug)]
pub struct FileSet {
    /// The names.
    pub layout: Layout,
    /// The contents, and how many there are.
    pub format: FileFormat,
    /// Those that need not be made.
    pub present: Present,
}

impl FileSet {
    /// All files of a set.
    pub fn new(layout: Layout, format: FileFormat) -> Self {
        Self { layout, format, present: Present::default() }
    }
}

/// How much is done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Threads that make files, at least 1.
    pub threads: usize,
    /// Uploads at a time, at least 1.
    pub in_flight: usize,
    /// Bytes that files being made or uploaded may take; one file is always allowed.
    pub buffer_bytes: u64,
    /// Which of the files are made.
    pub part: Part,
}

impl Default for GenerateOptions {
    /// A thread per CPU, 16 uploads, 512 MiB, all files.
    fn default() -> Self {
        Self {
            threads: thread::available_parallelism().map_or(1, usize::from),
            in_flight: 16,
            buffer_bytes: 512 << 20,
            part: Part::default(),
        }
    }
}

/// A process's share of the files of all sets put together: those whose index there, divided by `of`,
/// leaves `number` (spec/dlio.md 3.5). The parts 0 to `of` - 1 together are all files, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// From 0, less than `of`.
    pub number: u64,
    /// Parts in all, at least 1.
    pub of: u64,
}

impl Default for Part {
    /// All files.
    fn default() -> Self {
        Self { number: 0, of: 1 }
    }
}

impl Part {
    /// The index among all files of the part's own file `own`.
    fn index(self, own: u64) -> u64 {
        own.saturating_mul(self.of.max(1)).saturating_add(self.number)
    }

    /// How many of the first `files` files are the part's.
    fn count(self, files: u64) -> u64 {
        files.saturating_sub(self.number).div_ceil(self.of.max(1))
    }

    /// The part's files in each of the `sets`: how many, and their bytes.
    fn shares(self, sets: &[FileSet]) -> impl Iterator<Item = (u64, u64)> {
        sets.iter().scan(0, move |before, set| {
            let own = self.count(*before);
            let first = self.index(own) - *before;
            *before += set.format.files();
            let count = self.count(*before) - own;
            Some((count, set.format.bytes_of(first, self.of.max(1), count)))
        })
    }
}

/// How far generation is, to be read by others while it runs.
#[derive(Debug)]
pub struct GenerateProgress {
    files: AtomicU64,
    skipped: AtomicU64,
    skipped_bytes: AtomicU64,
    bytes: AtomicU64,
    total_files: u64,
    total_bytes: u64,
}

impl GenerateProgress {
    /// Nothing of this `part` of the `sets` is done.
    pub fn new(sets: &[FileSet], part: Part) -> Self {
        let shares = part.shares(sets);
        let (total_files, total_bytes) = shares
            .fold((0, 0), |(files, bytes): (u64, u64), share| {
                (files + share.0, bytes.saturating_add(share.1))
            });
        Self {
            files: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            skipped_bytes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            total_files,
            total_bytes,
        }
    }

    /// Files that are stored by now, those included that were there before.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Files that were there before.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Bytes of the files that were there before, as far as they are known.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes.load(Ordering::Relaxed)
    }

    /// Bytes stored so far, of parts of files and of files beside them, too.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files to store, of the part alone.
    pub fn total_files(&self) -> u64 {
        self.total_files
    }

    /// Bytes to store, of the part alone, as far as they are known beforehand.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    fn skip_file(&self, bytes: u64) {
        self.add_file();
        self.skipped_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateSummary {
    /// Files stored, those included that were there before.
    pub files: u64,
    /// Files that were there before.
    pub skipped: u64,
    /// Bytes stored, those of files beside others included.
    pub bytes: u64,
    /// From the start to the last file being stored.
    pub elapsed: Duration,
}

/// Why generation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A file could not be stored, after what retries the store makes.
    #[error("data generation stopped, {done} of {files} files are stored")]
    Put {
        /// Files that were stored before.
        done: u64,
        /// Files to store.
        files: u64,
        /// What failed, on which key, where and why.
        source: StoreError,
    },
    /// The system gave no thread.
    #[error("cannot start a thread to generate data")]
    Thread(#[from] io::Error),
}

/// Makes the files of the `sets` that are of the part asked for, one set after the other, and stores
/// them in `store`, replacing what is there; `progress` is of the same part. Runs on the caller's tokio
/// runtime, which should have several threads. Dropping the future stops it.
pub async fn generate(
    store: Arc<dyn Store>,
    sets: Arc<[FileSet]>,
    options: GenerateOptions,
    progress: &Arc<GenerateProgress>,
) -> Result<GenerateSummary, GenerateError> {
    let start = Instant::now();
    let (mut made, makers) = start_makers(&store, &sets, options, progress)?;
    let outcome = store_all(&store, &mut made, &makers.in_flight, progress).await;
    if let Err(source) = outcome {
        makers.clean_up().await;
        let (done, files) = (progress.files(), progress.total_files());
        return Err(GenerateError::Put { done, files, source });
    }
    makers.finish();
    Ok(GenerateSummary {
        files: progress.files(),
        skipped: progress.skipped(),
        bytes: progress.bytes(),
        elapsed: start.elapsed(),
    })
}

/// Uploads what is `made`, up to the first failure.
async fn store_all(
    store: &Arc<dyn Store>,
    made: &mut mpsc::UnboundedReceiver<Made>,
    in_flight: &Arc<Semaphore>,
    progress: &Arc<GenerateProgress>,
) -> Result<(), StoreError> {
    let mut puts = JoinSet::new();
    // Dropped before the uploads are, so that none takes the turn of one that is given up.
    let _closing = Closing(in_flight);
    let mut making = true;
    while making || !puts.is_empty() {
        tokio::select! {
            Some(ended) = puts.join_next() => match ended {
                Ok(stored) => stored?,
                Err(ended) => panic::resume_unwind(ended.into_panic()),
            },
            next = made.recv(), if making => match next {
                Some(Made::Whole { objects, permit }) => {
                    let (store, in_flight) = (Arc::clone(store), Arc::clone(in_flight));
                    let progress = Arc::clone(progress);
                    puts.spawn(async move {
                        let storing = in_turn(&in_flight, async {
                            for (key, body) in objects {
                                let bytes = body.len() as u64;
                                store.put(&key, body).await?;
                                progress.add_bytes(bytes);
                            }
                            drop(permit);
                            Ok(())
                        });
                        if storing.await?.is_some() {
                            progress.add_file();
                        }
                        Ok(())
                    });
                }
                Some(Made::Failed(error)) => return Err(error),
                None => making = false,
            },
        }
    }
    Ok(())
}

/// Does `work` when there is a turn for it, and lets nobody have one any more if it fails. `None` if
/// something has failed before: then nothing more is started.
async fn in_turn<T>(
    in_flight: &Semaphore,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<Option<T>, StoreError> {
    let Ok(_turn) = in_flight.acquire().await else { return Ok(None) };
    work.await.map(Some).inspect_err(|_| in_flight.close())
}

/// Gives nobody a turn any more when it is dropped.
struct Closing<'a>(&'a Semaphore);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a maker hands over.
enum Made {
    /// A file, behind what stands beside it.
    Whole { objects: Vec<(ObjectKey, Bytes)>, permit: Permit },
    /// A file that went in parts, which the store did not take.
    Failed(StoreError),
}

/// The threads that make files; they stop when this is dropped.
struct Makers {
    pool: Arc<Pool>,
    in_flight: Arc<Semaphore>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Makers {
    /// Waits for threads that have run out of files, and passes on the panic of one that has not.
    fn finish(mut self) {
        for thread in self.threads.drain(..) {
            if let Err(cause) = thread.join() {
                panic::resume_unwind(cause);
            }
        }
    }

    /// Stops the threads, and waits a little for those that have to take back parts of a file.
    async fn clean_up(mut self) {
        self.pool.close();
        let threads = std::mem::take(&mut self.threads);
        let ended = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // What it was about is told already.
                let _ = thread.join();
            }
        });
        let _ = tokio::time::timeout(CLEAN_UP, ended).await;
    }
}

impl Drop for Makers {
    fn drop(&mut self) {
        self.pool.close();
    }
}

fn start_makers(
    store: &Arc<dyn Store>,
    sets: &Arc<[FileSet]>,
    options: GenerateOptions,
    progress: &Arc<GenerateProgress>,
) -> Result<(mpsc::UnboundedReceiver<Made>, Makers), io::Error> {
    let longest = objects(sets).map(Length::bytes).max().unwrap_or(0);
    let in_flight = options.in_flight.max(1);
    let mut threads = options.threads.max(1);
    let (buffer, least) = if longest > IN_PARTS_FROM {
        let longest = objects(sets).map(most_bytes).max().unwrap_or(0);
        // A maker keeps a first part back while it fills another, and a third can be on its way.
        (part_bytes(longest).max(IN_PARTS_FROM), 3)
    } else {
        (longest, 1)
    };
    // A permit is for a file with all that stands beside it.
    let beside = sets.iter().map(|set| set.format.sides().len() as u64).max().unwrap_or(0);
    let affordable = (options.buffer_bytes / (buffer.max(1) * (1 + beside))).max(least) as usize;
    threads = threads.min(affordable.div_ceil(least as usize));
    let pool = Arc::new(Pool::new((in_flight + threads).max(least as usize).min(affordable)));
    // Permits bound what is in the channel.
    let (sender, receiver) = mpsc::unbounded_channel();
    let own = Arc::new(AtomicU64::new(0));
    let in_flight = Arc::new(Semaphore::new(in_flight));
    let mut makers =
        Makers { pool, in_flight: Arc::clone(&in_flight), threads: Vec::with_capacity(threads) };
    for number in 0..threads {
        let own = Arc::clone(&own);
        let maker = Maker {
            store: Arc::clone(store),
            sets: Arc::clone(sets),
            pool: Arc::clone(&makers.pool),
            made: sender.clone(),
            in_flight: Arc::clone(&in_flight),
            runtime: Handle::current(),
            progress: Arc::clone(progress),
        };
        let next = move || options.part.index(own.fetch_add(1, Ordering::Relaxed));
        let thread = thread::Builder::new().name(format!("generate-{number}"));
        makers.threads.push(thread.spawn(move || maker.run(next))?);
    }
    Ok((receiver, makers))
}

/// The lengths of the longest object of each kind.
fn objects(sets: &[FileSet]) -> impl Iterator<Item = Length> {
    sets.iter().filter(|set| set.format.files() > 0).flat_map(|FileSet { format, .. }| {
        let sides = format.sides().iter().map(|side| format.side_length(*side));
        let largest = match format.length(0) {
            Length::Exact(_) => Length::Exact(format.largest_file()),
            Length::About(_) => Length::About(format.largest_file()),
        };
        sides.chain([largest])
    })
}

/// One thread that makes files.
struct Maker {
    store: Arc<dyn Store>,
    sets: Arc<[FileSet]>,
    pool: Arc<Pool>,
    made: mpsc::UnboundedSender<Made>,
    in_flight: Arc<Semaphore>,
    runtime: Handle,
    progress: Arc<GenerateProgress>,
}

/// One object to make: a file, or one that stands beside it.
struct Object<'a> {
    set: &'a FileSet,
    file: u64,
    side: Option<Side>,
}

impl Object<'_> {
    fn key(&self) -> ObjectKey {
        match self.side {
            None => self.set.layout.key(self.file),
            Some(side) => self.set.layout.side_key(self.file, side),
        }
    }

    fn length(&self) -> Length {
        match self.side {
            None => self.set.format.length(self.file),
            Some(side) => self.set.format.side_length(side),
        }
    }

    fn write(&self, out: &mut dyn Out) -> Result<(), Stopped> {
        match self.side {
            None => self.set.format.write_to(self.file, out),
            Some(side) => self.set.format.write_side(self.file, side, out),
        }
    }
}

impl Maker {
    fn run(&self, next: impl Fn() -> u64) {
        while let Some((set, file)) = nth(&self.sets, next()) {
            let made = self.make_file(set, file);
            if made.is_err() || self.pool.is_closed() {
                return;
            }
        }
    }

    /// Makes what stands beside a file, and the file: it is stored when they are.
    fn make_file(&self, set: &FileSet, file: u64) -> Result<(), Stopped> {
        if set.present.has(file, || self.true_length(set, file)) {
            self.progress.skip_file(set.format.file_len(file));
            return Ok(());
        }
        let sides = set.format.sides().iter().map(|&side| Object { set, file, side: Some(side) });
        let objects = || sides.clone().chain([Object { set, file, side: None }]);
        if objects().any(|object| object.length().bytes() > IN_PARTS_FROM) {
            return objects().try_for_each(|object| self.store_now(&object));
        }
        let permit = self.pool.permit().ok_or(Stopped)?;
        let made: Result<_, Stopped> = objects().map(|object| self.make(&object)).collect();
        self.made.send(Made::Whole { objects: made?, permit }).map_err(|_| Stopped)
    }

    /// Makes an object and returns when it is stored.
    fn store_now(&self, object: &Object<'_>) -> Result<(), Stopped> {
        let stored = if object.length().bytes() > IN_PARTS_FROM {
            self.put_in_parts(object)
        } else {
            let permit = self.pool.permit().ok_or(Stopped)?;
            let (key, body) = self.make(object)?;
            let bytes = body.len() as u64;
            let put = self.runtime.block_on(in_turn(&self.in_flight, self.store.put(&key, body)));
            drop(permit);
            put.inspect(|stored| {
                if stored.is_some() {
                    self.progress.add_bytes(bytes);
                }
            })
        };
        match stored {
            Ok(Some(())) => {
                if object.side.is_none() {
                    self.progress.add_file();
                }
                Ok(())
            }
            Ok(None) => Err(Stopped),
            Err(error) => {
                let _ = self.made.send(Made::Failed(error));
                Err(Stopped)
            }
        }
    }

    /// The length of a file, by making it where that is the only way to know. Something else if makers are
    /// to stop meanwhile.
    fn true_length(&self, set: &FileSet, file: u64) -> u64 {
        set.format.length(file).exact().unwrap_or_else(|| {
            let mut measure = Measure { counted: Counted::default(), pool: &self.pool };
            let _ = set.format.write_to(file, &mut measure);
            measure.counted.0
        })
    }

    fn make(&self, object: &Object<'_>) -> Result<(ObjectKey, Bytes), Stopped> {
        let mut buffer = self.pool.buffer();
        buffer.bytes.reserve(object.length().bytes() as usize);
        object.write(&mut buffer.bytes)?;
        Ok((object.key(), Bytes::from_owner(buffer)))
    }

    /// Makes an object part by part; `None` if it was given up because of another.
    fn put_in_parts(&self, object: &Object<'_>) -> Result<Option<()>, StoreError> {
        let mut sender = Sender::begin(self, object.key(), object.length())?;
        match object.write(&mut sender) {
            Ok(()) => sender.finish(),
            Err(Stopped) => sender.give_up().map(|()| None),
        }
    }
}

/// Counts what is written, until makers are to stop.
struct Measure<'a> {
    counted: Counted,
    pool: &'a Pool,
}

impl Measure<'_> {
    fn go_on(&self) -> Result<(), Stopped> {
        if self.pool.is_closed() { Err(Stopped) } else { Ok(()) }
    }
}

impl Out for Measure<'_> {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.go_on()?;
        self.counted.framing(bytes)
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.framing(bytes)
    }

    fn later(&mut self, len: usize) -> Result<Later, Stopped> {
        self.counted.later(len)
    }

    fn fill_in(&mut self, place: Later, bytes: &[u8]) {
        self.counted.fill_in(place, bytes);
    }
}

/// The file with the index `nth` of all sets put together: its set and its index there.
fn nth(sets: &[FileSet], mut nth: u64) -> Option<(&FileSet, u64)> {
    sets.iter().find_map(|set| {
        let files = set.format.files();
        if nth < files {
            return Some((set, nth));
        }
        nth -= files;
        None
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use feedrate_storage::{Cause, Fetched, Listed, MemoryStore, Operation};
    use feedrate_workload::{Dataset, Format, Split};
    use futures::future::BoxFuture;

    use super::*;
    use crate::testing::{dataset, files};

    /// A store that forgets what is put, refuses puts from one on, and counts.
    #[derive(Debug, Default)]
    struct Puts {
        refused_from: Option<usize>,
        /// What the keys that are refused end with.
        refused: Option<&'static str>,
        stored: Mutex<Vec<String>>,
        takes: Duration,
        started: AtomicUsize,
        now: AtomicUsize,
        most: AtomicUsize,
        buffers: Mutex<BTreeSet<usize>>,
    }

    impl Puts {
        async fn store(&self, key: &ObjectKey, body: Bytes) -> Result<(), StoreError> {
            let number = self.started.fetch_add(1, Ordering::SeqCst);
            let now = 1 + self.now.fetch_add(1, Ordering::SeqCst);
            self.most.fetch_max(now, Ordering::SeqCst);
            self.buffers.lock().unwrap().insert(body.as_ptr() as usize);
            tokio::time::sleep(self.takes).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            let refused = self.refused.is_some_and(|end| key.as_str().ends_with(end));
            if refused || self.refused_from.is_some_and(|from| number >= from) {
                return Err(StoreError {
                    operation: Operation::Put,
                    target: key.to_string(),
                    location: self.location(),
                    attempts: 1,
                    elapsed: Duration::ZERO,
                    cause: Box::new(Cause::Status {
                        status: 403,
                        code: Some("AccessDenied".to_owned()),
                        message: None,
                        retry_after: None,
                    }),
                });
            }
            self.stored.lock().unwrap().push(key.to_string());
            Ok(())
        }
    }

    impl Store for Puts {
        fn get<'a>(
            &'a self,
            _: &'a ObjectKey,
            _: Option<Range<u64>>,
            _: &'a mut Vec<u8>,
        ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
            unreachable!("generation only writes")
        }

        fn put<'a>(
            &'a self,
            key: &'a ObjectKey,
            body: Bytes,
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            Box::pin(self.store(key, body))
        }

        fn size<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
            unreachable!("generation only writes")
        }

        fn delete<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
            unreachable!("generation only writes")
        }

        fn list<'a>(
            &'a self,
            _: &'a str,
            _: &'a mut (dyn FnMut(Vec<Listed>) + Send),
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            unreachable!("generation only writes")
        }

        fn location(&self) -> String {
            "s3://mlp at http://127.0.0.1:9000".to_owned()
        }
    }

    fn options(threads: usize, in_flight: usize) -> GenerateOptions {
        GenerateOptions { threads, in_flight, ..GenerateOptions::default() }
    }

    fn file_set(set: &Dataset, split: Split) -> FileSet {
        FileSet::new(Layout::new(set, split, "data/t0", set.files(split)), files(set, split))
    }

    async fn generated(
        store: Arc<dyn Store>,
        set: &Dataset,
        options: GenerateOptions,
    ) -> Result<GenerateSummary, GenerateError> {
        let sets: Arc<[_]> = [Split::Train, Split::Valid].map(|split| file_set(set, split)).into();
        let progress = Arc::new(GenerateProgress::new(&sets, options.part));
        let result = generate(store, sets, options, &progress).await;
        if let Ok(summary) = &result {
            assert_eq!(summary.files, progress.total_files());
            let beside = summary.bytes - progress.total_bytes();
            assert_eq!(beside > 0, !Side::of(set.format).is_empty());
        }
        result
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_file_is_stored_and_the_threads_do_not_matter() {
        let set = Dataset {
            record_length_bytes_stdev: 1000.0,
            num_files_eval: 7,
            num_subfolders_train: 10,
            ..dataset(Format::Npz, 100, 4096.0)
        };
        for (threads, in_flight) in [(1, 1), (4, 8)] {
            // It keeps the bodies themselves, so no buffer ever comes back.
            let store = Arc::new(MemoryStore::new());
            let summary =
                generated(store.clone(), &set, options(threads, in_flight)).await.unwrap();
            let mut all_bytes = 0;
            for split in [Split::Train, Split::Valid] {
                let FileSet { layout, format, .. } = file_set(&set, split);
                for file in 0..set.files(split) {
                    let mut bytes = Vec::new();
                    store.get(&layout.key(file), None, &mut bytes).await.unwrap();
                    assert_eq!(format.verify(file, 0..1, &bytes), Ok(()));
                }
                let bytes = format.total_bytes();
                all_bytes += bytes;
                let stored =
                    crate::discover(&*store, &set, &format, split, "data/t0").await.unwrap();
                let odd = crate::Odd { looked_at: set.files(split), ..crate::Odd::default() };
                assert_eq!(stored, crate::Stored { layout, bytes, odd });
            }
            assert_eq!((summary.files, summary.bytes), (107, all_bytes));
        }
    }

    #[test]
    fn the_sets_come_one_after_the_other() {
        let set = Dataset { num_files_eval: 2, ..dataset(Format::Npz, 3, 4096.0) };
        let sets = [Split::Train, Split::Valid].map(|split| file_set(&set, split));
        let keys: Vec<_> =
            (0..).map_while(|at| nth(&sets, at).map(|(set, file)| set.layout.path(file))).collect();
        let [train, valid] =
            [3, 2].map(|of| (0..of).map(move |at| format!("img_{at}_of_{of}.npz")));
        assert_eq!(keys, train.chain(valid).collect::<Vec<_>>());
        assert_eq!(GenerateProgress::new(&sets, Part::default()).total_files(), 5);
    }

    #[test]
    fn ranks_take_turns_in_the_list_of_both_sets() {
        let set = Dataset { num_files_eval: 4, ..dataset(Format::Npz, 5, 4096.0) };
        let sets = [Split::Train, Split::Valid].map(|split| file_set(&set, split));
        let files = |number, of| {
            let part = Part { number, of };
            let keys = (0..).map_while(|own| {
                nth(&sets, part.index(own)).map(|(set, file)| set.layout.path(file))
            });
            let keys: Vec<_> = keys.collect();
            assert_eq!(GenerateProgress::new(&sets, part).total_files(), keys.len() as u64);
            keys
        };
        assert_eq!(files(1, 3), ["img_1_of_5.npz", "img_4_of_5.npz", "img_2_of_4.npz"]);
        assert_eq!(files(8, 10), ["img_3_of_4.npz"]);
        assert_eq!(files(9, 10), [""; 0]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parts_together_make_each_file_once() {
        let set = Dataset {
            record_length_bytes_stdev: 1000.0,
            num_files_eval: 7,
            ..dataset(Format::Npz, 16, 4096.0)
        };
        let together = Arc::new(MemoryStore::new());
        let mut whole = (0, 0);
        let mut before = BTreeSet::new();
        for number in 0..3 {
            let options = GenerateOptions { part: Part { number, of: 3 }, ..options(2, 4) };
            let alone = Arc::new(MemoryStore::new());
            let made = generated(alone.clone(), &set, options).await.unwrap();
            whole = (whole.0 + made.files, whole.1 + made.bytes);
            let mut listed = BTreeSet::new();
            alone
                .list("data/t0", &mut |page| listed.extend(page.into_iter().map(|file| file.key)))
                .await
                .unwrap();
            assert_eq!(listed.len() as u64, made.files);
            assert!(before.is_disjoint(&listed), "part {number} makes what another made");
            before.extend(listed);
            generated(together.clone(), &set, options).await.unwrap();
        }
        let sets = [Split::Train, Split::Valid].map(|split| file_set(&set, split));
        let bytes = sets.iter().map(|set| set.format.total_bytes()).sum();
        assert_eq!((before.len(), whole), (23, (23, bytes)));
        for (split, FileSet { layout, format, .. }) in
            [Split::Train, Split::Valid].into_iter().zip(sets)
        {
            let stored =
                crate::discover(&*together, &set, &format, split, "data/t0").await.unwrap();
            let bytes = format.total_bytes();
            let odd = crate::Odd { looked_at: format.files(), ..crate::Odd::default() };
            assert_eq!(stored, crate::Stored { layout, bytes, odd });
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn buffers_are_reused_and_uploads_bounded() {
        let store = Arc::new(Puts { takes: Duration::from_millis(2), ..Puts::default() });
        generated(store.clone(), &dataset(Format::Npz, 200, 4096.0), options(2, 4)).await.unwrap();
        let most = store.most.load(Ordering::SeqCst);
        assert!(most <= 4, "{most} puts at a time");
        assert!(store.buffers.lock().unwrap().len() <= 6, "more buffers than permits");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn big_files_are_held_in_smaller_numbers() {
        let store = Arc::new(Puts { takes: Duration::from_millis(5), ..Puts::default() });
        let tight = GenerateOptions { buffer_bytes: 2_500_000, ..options(2, 8) };
        generated(store.clone(), &dataset(Format::Npz, 20, 1_000_000.0), tight).await.unwrap();
        let most = store.most.load(Ordering::SeqCst);
        assert!(most <= 2, "{most} puts at a time");
        let tight = GenerateOptions { buffer_bytes: 1, ..options(2, 8) };
        let store = Arc::new(Puts::default());
        generated(store.clone(), &dataset(Format::Npz, 20, 1_000_000.0), tight).await.unwrap();
        assert_eq!(store.most.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_refusal_nothing_more_is_started() {
        let takes = Duration::from_millis(5);
        let store = Arc::new(Puts { refused_from: Some(4), takes, ..Puts::default() });
        let set = dataset(Format::Npz, 100, 4096.0);
        let error = generated(store.clone(), &set, options(2, 4)).await.expect_err("a refusal");
        assert!(matches!(error, GenerateError::Put { done: 0..=4, .. }), "{error}");
        let cause = std::error::Error::source(&error).unwrap();
        let text = format!("{error}: {cause}");
        for part in ["of 100 files", "PUT data/t0/train/img_0", "403 AccessDenied", "s3://mlp"] {
            assert!(text.contains(part), "{text}");
        }
        let started = store.started.load(Ordering::SeqCst);
        assert!(started <= 4 + 4, "{started} puts");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(store.started.load(Ordering::SeqCst), started);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_is_stored_when_all_that_stands_beside_it_is() {
        let set = dataset(Format::IndexedBinary, 20, 4096.0);
        let store = Arc::new(Puts { takes: Duration::from_millis(1), ..Puts::default() });
        generated(store.clone(), &set, options(2, 8)).await.unwrap();
        let stored = store.stored.lock().unwrap().clone();
        assert_eq!(stored.len(), 60);
        for file in stored.iter().filter(|key| key.ends_with("_binary")) {
            let place = |key: &str| stored.iter().position(|stored| stored == key).unwrap();
            for beside in [".off.idx", ".sz.idx"] {
                assert!(place(&format!("{file}{beside}")) < place(file), "{stored:?}");
            }
        }
        let store = Arc::new(Puts { refused: Some(".sz.idx"), ..Puts::default() });
        generated(store.clone(), &set, options(2, 8)).await.expect_err("a refusal");
        let stored = store.stored.lock().unwrap().clone();
        assert!(stored.iter().all(|key| key.ends_with(".off.idx")), "{stored:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dropping_the_future_stops_uploads_and_threads() {
        let store = Arc::new(Puts { takes: Duration::from_mins(10), ..Puts::default() });
        let set = dataset(Format::Npz, 100, 4096.0);
        let work = generated(store.clone(), &set, options(2, 4));
        let begun = async {
            while store.started.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = work => panic!("puts hang"),
            () = begun => {}
        }
        assert!((1..=4).contains(&store.started.load(Ordering::SeqCst)));
        // The tasks held the store: with them gone, only this test does.
        for _ in 0..200 {
            if Arc::strong_count(&store) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("an upload still runs");
    }
}
