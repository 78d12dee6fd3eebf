//! What loading costs beside the reads themselves: allocations for each GET in steady state, counted,
//! and time, printed.
//!
//!     cargo nextest run --release -p feedrate-loader --test allocations --no-capture
//!
//! The store answers at once and writes nothing, so what is left is the loader's. Each of its GETs
//! takes one allocation, the box of its future, which is not counted here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use feedrate_dataset::{FileFormat, Plan};
use feedrate_loader::{BufferPool, Columns, Demand, Known, Limits, Loader, Source, Turns, Work};
use feedrate_metrics::units::ByteCount;
use feedrate_storage::{Fetched, Listed, MemoryStore, ObjectKey, Store, StoreError};
use feedrate_workload::testing::workload;
use feedrate_workload::{Format, Schedule, Split, Workload};
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};

/// The system's allocator, which counts what it is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for it, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises hold for it, too.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for it, too.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Answers each GET at once, with as many zeros as are asked for, and counts them; tails are those of
/// real files.
#[derive(Debug)]
struct Instantly {
    files: MemoryStore,
    file_bytes: u64,
    gets: AtomicU64,
    /// Where the buffers lie that it was given, once that is asked for.
    buffers: Mutex<Option<BTreeSet<usize>>>,
}

impl Instantly {
    fn answer(&self, range: Option<Range<u64>>) -> Fetched {
        self.gets.fetch_add(1, Ordering::Relaxed);
        let bytes = range.map_or(self.file_bytes, |range| range.end - range.start);
        Fetched { bytes, first_byte: Duration::ZERO, last_byte: Duration::ZERO }
    }
}

impl Store for Instantly {
    fn get<'a>(
        &'a self,
        _: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let fetched = self.answer(range);
            into.resize(fetched.bytes as usize, 0);
            if let Some(buffers) = &mut *self.buffers.lock().unwrap() {
                buffers.insert(into.as_ptr().addr());
            }
            Ok(fetched)
        })
    }

    fn get_discarding<'a>(
        &'a self,
        _: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move { Ok(self.answer(range)) })
    }

    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        // All of a footer at once: what is asked for besides would be answered with zeros.
        self.files.get_tail(key, most.max(4 << 20), into)
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.files.put(key, body)
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.files.size(key)
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        self.files.delete(key)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.files.list(prefix, page)
    }

    fn location(&self) -> String {
        "nowhere".to_owned()
    }
}

/// A data set whose reads are answered at once.
struct Rig {
    workload: Workload,
    store: Arc<Instantly>,
    source: Arc<Source>,
    runtime: Runtime,
}

impl Rig {
    fn new(options: &[&str]) -> Self {
        // What is read ahead is a small part of an epoch.
        let small = ["storage.storage_options.prefetch_window=8"];
        let workload = workload(&[options, &small].concat());
        let dataset = &workload.dataset;
        let format = FileFormat::new(dataset, Split::Train).unwrap();
        let layout = feedrate_dataset::Layout::new(dataset, Split::Train, "", format.files());
        let by_columns = dataset.format == Format::Parquet;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let files = MemoryStore::new();
        for file in 0..if by_columns { format.files() } else { 0 } {
            let mut bytes = Vec::new();
            format.write(file, &mut bytes);
            runtime.block_on(files.put(&layout.key(file), Bytes::from(bytes))).unwrap();
        }
        let file_bytes = format.file_len(0);
        let store = Arc::new(Instantly {
            files,
            file_bytes,
            gets: AtomicU64::new(0),
            buffers: Mutex::default(),
        });
        let cut = format.cut();
        let source = Arc::new(Source {
            store: Arc::<Instantly>::clone(&store),
            layout,
            format,
            known: Known::AsMade,
            cut,
            columns: by_columns.then(|| Columns::new(dataset, &workload.storage)),
            wanted_bytes_per_sample: None,
            range_bytes: None,
            work: Work::none(),
            pool: BufferPool::new(),
        });
        Self { workload, store, source, runtime }
    }

    /// Of a loader in steady state: allocations and time for each GET, without what the store takes, and
    /// how many buffers it goes on with and how many pieces it can hold.
    fn steady_state(&self) -> (f64, Duration, usize, u64) {
        let schedule = Schedule::new(&self.workload, 1).unwrap();
        let pieces = self.source.piece_sizes(true);
        let limits = Limits::new(&self.workload, Split::Train, &pieces, ByteCount(1 << 28), 1);
        let turns = Turns::auto(1, Demand::endless(limits.most_pieces_ahead() as usize));
        let runtime = self.runtime.handle().clone();
        let batch = schedule.batch_size;
        let mut loader = Loader::new(Arc::clone(&self.source), limits, batch, None, turns, runtime);
        let plan = Plan::new(&self.workload, &schedule, &self.source.cut, 1, 0);
        loader.start_epoch(plan.visits(0));
        let mut take = |batches: u64| {
            let gets = || self.store.gets.load(Ordering::Relaxed);
            let (gets_before, began) = (gets(), Instant::now());
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..batches {
                drop(loader.next_batch().unwrap());
            }
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
            let gets = gets() - gets_before;
            (allocations as f64 / gets as f64 - 1.0, began.elapsed() / gets as u32)
        };
        // Until the buffers are there, and the files' footers.
        take(schedule.steps / 2);
        let (allocations, time) = take(schedule.steps / 4);
        *self.store.buffers.lock().unwrap() = Some(BTreeSet::new());
        take(schedule.steps / 8);
        let buffers = self.store.buffers.lock().unwrap().take().map_or(0, |buffers| buffers.len());
        (allocations, time, buffers, limits.most_pieces_held(batch, &pieces))
    }
}

/// One test, as a second one would allocate at the same time.
#[test]
fn a_get_in_steady_state_takes_few_allocations() {
    let files = ["dataset.num_files_train=48000", "reader.file_shuffle=off"];
    let names: Vec<_> = (0..34).map(|column| format!("c{column:02}")).collect();
    // Two columns that lie apart, 34 times.
    let columns: Vec<_> = names
        .iter()
        .map(|name| format!("{{name: {name}, dtype: int8}}, {{name: not_{name}, dtype: int8}}"))
        .collect();
    let all = format!("dataset.parquet.columns=[{}]", columns.join(", "));
    let wanted = format!("storage.storage_options.columns=[{}]", names.join(", "));
    let groups = [
        "dataset.format=parquet",
        "dataset.num_files_train=16",
        "dataset.num_samples_per_file=64000",
        "dataset.parquet.row_group_size=640",
        "reader.batch_size=1700",
        &all,
        &wanted,
    ];
    // Its key, its turn where that does not come at once, and a part of what a batch takes; of a piece
    // that comes by many ranges each takes a part of all that.
    for (what, options, most, gets_a_piece) in
        [("file", &files[..], 3.0, 1), ("range of a row group", &groups[..], 0.5, 34)]
    {
        for payload in ["land", "discard"] {
            let payload_option = format!("reader.payload={payload}");
            let rig = Rig::new(&[options, &[&payload_option]].concat());
            let (allocations, time, buffers, pieces) = rig.steady_state();
            println!(
                "{what}, {payload}: {allocations:.2} allocations, {time:?}; {buffers} buffers"
            );
            assert!(allocations < most, "{allocations} for each {what} with payload {payload}");
            // The batch that the rank holds is none that waits for it.
            let in_use = (pieces + rig.workload.reader.batch_size) * gets_a_piece;
            assert!(buffers as u64 <= in_use, "{buffers} buffers, {in_use} in use at most");
        }
    }
}
