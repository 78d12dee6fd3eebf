//! What tests of loading need: a store in memory that notes what it is asked for and answers late, or
//! not at all, on demand; a data set in it; and a runtime whose clock skips the waiting.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use feedrate_dataset::{FileFormat, Layout};
use feedrate_storage::{Fetched, Listed, MemoryStore, ObjectKey, Store, StoreError};
pub use feedrate_workload::testing::workload;
use feedrate_workload::{Decode, Format, RangeSize, Split, Workload};
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{BufferPool, Columns, Known, Source, Work};

/// A delay that does not end.
pub const NEVER: Duration = Duration::MAX;

/// How long a GET of this key takes, with so many in flight, itself among them.
type Delay = Box<dyn Fn(&ObjectKey, usize) -> Duration + Send + Sync>;

/// Whether a GET of this key, asked for so many times by now, fails.
type Fails = Box<dyn Fn(&ObjectKey, usize) -> bool + Send + Sync>;

/// A [`MemoryStore`] that is watched.
#[derive(Default)]
pub struct WatchedStore {
    objects: MemoryStore,
    delay: Option<Delay>,
    fails: Option<Fails>,
    at_get: OnceLock<Box<dyn Fn() + Send + Sync>>,
    seen: Mutex<Seen>,
}

/// What a [`WatchedStore`] saw.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Keys of all GETs, in the order in which they came.
    pub keys: Vec<ObjectKey>,
    /// Their ranges; `None` is the whole object.
    pub ranges: Vec<Option<Range<u64>>>,
    /// GETs in flight now.
    pub in_flight: usize,
    /// The most GETs that were in flight at once.
    pub highest: usize,
}

impl fmt::Debug for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedStore").field("seen", &*self.seen()).finish_non_exhaustive()
    }
}

/// A GET in flight; over when it is dropped, however it ends.
struct InFlight<'a>(&'a WatchedStore);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.seen().in_flight -= 1;
    }
}

impl WatchedStore {
    /// The files of `workload` that a run of it reads, each of which a GET brings at once.
    ///
    /// # Panics
    /// When the workload's files cannot be made.
    pub fn holding(workload: &Workload) -> Self {
        let objects = MemoryStore::new();
        let sets = 1 + usize::from(workload.workflow.evaluates());
        for split in [Split::Train, Split::Valid].into_iter().take(sets) {
            let (layout, format) = names_and_contents(workload, split);
            for file in 0..format.files() {
                let mut bytes = Vec::new();
                format.write(file, &mut bytes);
                let put = async { objects.put(&layout.key(file), Bytes::from(bytes)).await };
                futures::executor::block_on(put).expect("memory takes everything");
            }
        }
        Self { objects, ..Self::default() }
    }

    /// Delays each GET by what `delay` says, on tokio's clock.
    #[must_use]
    pub fn delayed(
        mut self,
        delay: impl Fn(&ObjectKey, usize) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.delay = Some(Box::new(delay));
        self
    }

    /// Finds nothing at a key, after the delay, when `fails` says so of the key and of how many times
    /// it was asked for by then.
    #[must_use]
    pub fn failing(
        mut self,
        fails: impl Fn(&ObjectKey, usize) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.fails = Some(Box::new(fails));
        self
    }

    /// Calls `hook` at the beginning of each GET from now on.
    ///
    /// # Panics
    /// When it is called twice.
    pub fn at_each_get(&self, hook: impl Fn() + Send + Sync + 'static) {
        assert!(self.at_get.set(Box::new(hook)).is_ok(), "there is a hook already");
    }

    /// What it saw until now.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often each key was asked for.
    pub fn asked(&self) -> BTreeMap<ObjectKey, usize> {
        let mut asked = BTreeMap::new();
        for key in &self.seen().keys {
            *asked.entry(key.clone()).or_default() += 1;
        }
        asked
    }

    fn begin(&self, key: &ObjectKey, range: Option<Range<u64>>) -> (InFlight<'_>, usize) {
        let in_flight = {
            let mut seen = self.seen();
            seen.keys.push(key.clone());
            seen.ranges.push(range);
            seen.in_flight += 1;
            seen.highest = seen.highest.max(seen.in_flight);
            seen.in_flight
        };
        (InFlight(self), in_flight)
    }
}

impl Store for WatchedStore {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let (_in_flight, count) = self.begin(key, range.clone());
            if let Some(hook) = self.at_get.get() {
                hook();
            }
            match self.delay.as_ref().map(|delay| delay(key, count)) {
                None | Some(Duration::ZERO) => {}
                Some(NEVER) => std::future::pending().await,
                Some(delay) => tokio::time::sleep(delay).await,
            }
            let times = || self.seen().keys.iter().filter(|asked| *asked == key).count();
            if self.fails.as_ref().is_some_and(|fails| fails(key, times())) {
                let nowhere = MemoryStore::new();
                return nowhere.get(key, range, into).await;
            }
            self.objects.get(key, range, into).await
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.objects.put(key, body)
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.objects.size(key)
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        self.objects.delete(key)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.objects.list(prefix, page)
    }

    fn location(&self) -> String {
        self.objects.location()
    }
}

/// `workload`'s files of a set in `store`.
///
/// # Panics
/// When the workload's files cannot be made.
pub fn source(
    workload: &Workload,
    split: Split,
    store: &Arc<WatchedStore>,
    verify: bool,
) -> Arc<Source> {
    let (layout, format) = names_and_contents(workload, split);
    let by_columns = workload.dataset.format == Format::Parquet;
    let columns = by_columns.then(|| Columns::new(&workload.dataset, &workload.storage));
    let store: Arc<dyn Store> = Arc::<WatchedStore>::clone(store);
    let cut = format.cut();
    Arc::new(Source {
        store,
        layout,
        format,
        known: Known::AsMade,
        cut,
        columns,
        wanted_bytes_per_sample: None,
        range_bytes: match workload.storage.range_size {
            RangeSize::Bytes(bytes) => Some(bytes),
            RangeSize::Auto | RangeSize::Never => None,
        },
        work: Work::new(verify, workload.reader.decode == Decode::Full, Arc::default(), 2),
        pool: BufferPool::new(),
    })
}

fn names_and_contents(workload: &Workload, split: Split) -> (Layout, FileFormat) {
    let dataset = &workload.dataset;
    let format = FileFormat::new(dataset, split).unwrap_or_else(|error| panic!("{error}"));
    (Layout::new(dataset, split, "", dataset.files(split)), format)
}

/// A runtime of one thread, so that what is spawned first runs first. Its clock jumps to the next
/// timer when there is nothing else to do, so delays take no time but keep their order.
#[derive(Debug)]
pub struct PausedRuntime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl PausedRuntime {
    /// Starts it.
    ///
    /// # Panics
    /// When the machine has no thread for it.
    pub fn start() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime for tests");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        Self { handle, stop: Some(stop), thread: Some(thread) }
    }

    /// Where to spawn.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns when `span` has passed on this clock: when everything that is due by then is done.
    pub fn pass(&self, span: Duration) {
        self.handle.block_on(async { tokio::time::sleep(span).await });
    }
}

impl Drop for PausedRuntime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
