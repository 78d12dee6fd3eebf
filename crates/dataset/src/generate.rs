//! Making a data set: threads fill buffers while others are on their way to the store.
//!
//! A thread takes a [`Permit`] and a buffer, makes the next file in it and hands it over; a task
//! uploads it. The permits bound the memory: there are as many as uploads in flight and threads, less
//! if files are big. The buffer comes back when the store lets go of it, so once the first round is
//! made nothing is allocated. A store in memory never lets go: then each file has a new one, as it
//! must.
//!
//! Whichever thread makes a file, its bytes are the same. Several processes make a data set together,
//! each its own [`Part`] of the files, without a word between them. At the first error nothing more is started,
//! and what is in flight is given up; the same happens when the future is dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use bytes::Bytes;
use feedrate_storage::{ObjectKey, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{FileFormat, Layout};

/// Files to make: their names and contents.
#[derive(Debug)]
pub struct FileSet {
    /// The names.
    pub layout: Layout,
    /// The contents, and how many there are.
    pub format: FileFormat,
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
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { files, bytes, total_files, total_bytes }
    }

    /// Files stored so far.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes stored so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files to store, of the part alone.
    pub fn total_files(&self) -> u64 {
        self.total_files
    }

    /// Bytes to store, of the part alone.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn add(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateSummary {
    /// Files stored.
    pub files: u64,
    /// Bytes stored.
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
/// them in `store`, replacing what is there; `progress` is of the same part. Runs on the caller's tokio runtime, which should have several threads. Dropping the
/// future stops it.
pub async fn generate(
    store: Arc<dyn Store>,
    sets: Arc<[FileSet]>,
    options: GenerateOptions,
    progress: &GenerateProgress,
) -> Result<GenerateSummary, GenerateError> {
    let start = Instant::now();
    let in_flight = options.in_flight.max(1);
    let (mut made, makers) = start_makers(&sets, options)?;
    let mut puts = JoinSet::new();
    let mut making = true;
    while making || !puts.is_empty() {
        tokio::select! {
            Some(ended) = puts.join_next() => match ended {
                Ok(Ok(bytes)) => progress.add(bytes),
                Ok(Err(source)) => {
                    let (done, files) = (progress.files(), progress.total_files());
                    return Err(GenerateError::Put { done, files, source });
                }
                Err(ended) => panic::resume_unwind(ended.into_panic()),
            },
            next = made.recv(), if making && puts.len() < in_flight => match next {
                Some(Made { key, body, permit }) => {
                    let store = Arc::clone(&store);
                    let bytes = body.len() as u64;
                    puts.spawn(async move {
                        let stored = store.put(&key, body).await;
                        drop(permit);
                        stored.map(|()| bytes)
                    });
                }
                None => making = false,
            },
        }
    }
    makers.finish();
    let (files, bytes) = (progress.files(), progress.bytes());
    Ok(GenerateSummary { files, bytes, elapsed: start.elapsed() })
}

/// A file on its way.
struct Made {
    key: ObjectKey,
    body: Bytes,
    permit: Permit,
}

/// The threads that make files; they stop when this is dropped.
struct Makers {
    pool: Arc<Pool>,
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
}

impl Drop for Makers {
    fn drop(&mut self) {
        self.pool.close();
    }
}

fn start_makers(
    sets: &Arc<[FileSet]>,
    options: GenerateOptions,
) -> Result<(mpsc::UnboundedReceiver<Made>, Makers), io::Error> {
    let threads = options.threads.max(1);
    let largest = sets.iter().map(|set| set.format.largest_file()).max().unwrap_or(0);
    let affordable = options.buffer_bytes / largest.max(1);
    let permits = (options.in_flight.max(1) + threads).min(affordable.max(1) as usize);
    let pool = Arc::new(Pool::new(permits));
    // Permits bound what is in the channel.
    let (sender, receiver) = mpsc::unbounded_channel();
    let own = Arc::new(AtomicU64::new(0));
    let mut makers = Makers { pool, threads: Vec::with_capacity(threads) };
    for number in 0..threads {
        let (sets, pool) = (Arc::clone(sets), Arc::clone(&makers.pool));
        let (own, sender) = (Arc::clone(&own), sender.clone());
        let next = move || options.part.index(own.fetch_add(1, Ordering::Relaxed));
        let thread = thread::Builder::new().name(format!("generate-{number}"));
        makers.threads.push(thread.spawn(move || make_files(&sets, &pool, next, &sender))?);
    }
    Ok((receiver, makers))
}

fn make_files(
    sets: &[FileSet],
    pool: &Arc<Pool>,
    next: impl Fn() -> u64,
    sender: &mpsc::UnboundedSender<Made>,
) {
    while let Some(permit) = pool.permit() {
        let Some((set, file)) = nth(sets, next()) else { return };
        let mut buffer = pool.buffer();
        set.format.write(file, &mut buffer.bytes);
        let key = set.layout.key(file);
        let made = Made { key, body: Bytes::from_owner(buffer), permit };
        if sender.send(made).is_err() {
            return;
        }
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

/// Permits to hold a file in memory, and the buffers that files are made in.
struct Pool {
    state: Mutex<PoolState>,
    permit_back: Condvar,
    most: usize,
}

struct PoolState {
    permits: usize,
    free: Vec<Vec<u8>>,
    closed: bool,
}

/// Permission to hold one file in memory, given back on drop.
struct Permit(Arc<Pool>);

/// A buffer that goes back to the pool on drop.
struct Buffer {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    fn new(permits: usize) -> Self {
        let state = PoolState { permits, free: Vec::new(), closed: false };
        Self { state: Mutex::new(state), permit_back: Condvar::new(), most: permits }
    }

    /// The state stays whole whatever panics beside it.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. `None` once the pool is closed.
    fn permit(self: &Arc<Self>) -> Option<Permit> {
        let wanting = |state: &mut PoolState| state.permits == 0 && !state.closed;
        let waited = self.permit_back.wait_while(self.state(), wanting);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.permits -= 1;
        Some(Permit(Arc::clone(self)))
    }

    /// A used buffer, or a new one if none came back.
    fn buffer(self: &Arc<Self>) -> Buffer {
        let bytes = self.state().free.pop().unwrap_or_default();
        Buffer { bytes, pool: Arc::clone(self) }
    }

    fn close(&self) {
        self.state().closed = true;
        self.permit_back.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().permits += 1;
        self.0.permit_back.notify_one();
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.pool.state();
        // A store that kept many and lets go of them all at once must not fill the pool.
        if state.free.len() < self.pool.most {
            state.free.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::atomic::AtomicUsize;

    use feedrate_storage::{Cause, Fetched, Listed, MemoryStore, Operation};
    use feedrate_workload::{Dataset, Format, Split};
    use futures::future::BoxFuture;

    use super::*;
    use crate::testing::dataset;

    /// A store that forgets what is put, refuses puts from one on, and counts.
    #[derive(Debug, Default)]
    struct Puts {
        refused_from: Option<usize>,
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
            if self.refused_from.is_some_and(|from| number >= from) {
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
        let format = FileFormat::new(set, split).expect("the set can be made");
        FileSet { layout: Layout::new(set, split, "data/t0", set.files(split)), format }
    }

    async fn generated(
        store: Arc<dyn Store>,
        set: &Dataset,
        options: GenerateOptions,
    ) -> Result<GenerateSummary, GenerateError> {
        let sets: Arc<[_]> = [Split::Train, Split::Valid].map(|split| file_set(set, split)).into();
        let progress = GenerateProgress::new(&sets, options.part);
        let result = generate(store, sets, options, &progress).await;
        if let Ok(summary) = &result {
            assert_eq!(summary.files, progress.total_files());
            assert_eq!(summary.bytes, progress.total_bytes());
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
                let FileSet { layout, format } = file_set(&set, split);
                for file in 0..set.files(split) {
                    let mut bytes = Vec::new();
                    store.get(&layout.key(file), None, &mut bytes).await.unwrap();
                    assert_eq!(format.verify(file, 0..1, &bytes), Ok(()));
                }
                let bytes = format.total_bytes();
                all_bytes += bytes;
                let stored = crate::discover(&*store, &set, split, "data/t0").await.unwrap();
                assert_eq!(stored, crate::Stored { layout, bytes });
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
        for (split, FileSet { layout, format }) in
            [Split::Train, Split::Valid].into_iter().zip(sets)
        {
            let stored = crate::discover(&*together, &set, split, "data/t0").await.unwrap();
            assert_eq!(stored, crate::Stored { layout, bytes: format.total_bytes() });
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
    async fn dropping_the_future_stops_uploads_and_threads() {
        let store = Arc::new(Puts { takes: Duration::from_mins(10), ..Puts::default() });
        let set = dataset(Format::Npz, 100, 4096.0);
        let work = generated(store.clone(), &set, options(2, 4));
        tokio::time::timeout(Duration::from_millis(100), work).await.expect_err("puts hang");
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
