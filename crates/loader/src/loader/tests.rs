mod chunked;
mod discard;
mod pieces;
mod preprocessing;
mod turns;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use feedrate_dataset::Plan;
use feedrate_storage::{ObjectKey, Store};
use feedrate_workload::{Schedule, Shuffle, Split, Window, Workload};
use proptest::prelude::*;

use super::*;
use crate::ramp::Demand;
use crate::testing::{NEVER, PausedRuntime, WatchedStore, source, workload};

const MILLI: Duration = Duration::from_millis(1);
/// Longer than all delays of a test together.
const SETTLED: Duration = Duration::from_hours(1);
const AMPLE: ByteCount = ByteCount(1 << 28);

/// A data set in a watched store, and what loaders need to read it.
struct Rig {
    runtime: PausedRuntime,
    store: Arc<WatchedStore>,
    source: Arc<Source>,
    workload: Workload,
    schedule: Schedule,
    turns: Arc<Turns>,
    process_budget: ByteCount,
}

impl Rig {
    fn new(options: &[&str], ranks: u32) -> Self {
        Self::with_store(options, ranks, |store| store)
    }

    fn with_store(
        options: &[&str],
        ranks: u32,
        watch: impl FnOnce(WatchedStore) -> WatchedStore,
    ) -> Self {
        let workload = workload(options);
        let store = Arc::new(watch(WatchedStore::holding(&workload)));
        Self {
            runtime: PausedRuntime::start(),
            source: source(&workload, Split::Train, &store, false),
            store,
            schedule: Schedule::new(&workload, ranks).unwrap(),
            turns: turns(&workload, ranks),
            workload,
            process_budget: AMPLE,
        }
    }

    fn limits(&self) -> Limits {
        let pieces = self.source.piece_sizes(self.workload.reader.sample_shuffle != Shuffle::Off);
        let (budget, ranks) = (self.process_budget, self.schedule.ranks);
        Limits::new(&self.workload, Split::Train, &pieces, budget, ranks)
    }

    fn loader(&self) -> Loader {
        Loader::new(
            Arc::clone(&self.source),
            self.limits(),
            self.schedule.batch_size,
            Preprocess::new(&self.workload, Split::Train, 0),
            Arc::clone(&self.turns),
            self.runtime.handle().clone(),
        )
    }

    fn plan(&self) -> Plan {
        Plan::new(&self.workload, &self.schedule, &self.source.cut, 1, 0)
    }

    fn start(&self, loader: &mut Loader, rank: u32) {
        loader.start_epoch(self.plan().visits(rank));
    }

    /// The files of a rank's visits, in order.
    fn visited(&self, rank: u32) -> Vec<u64> {
        self.plan().visits(rank).map(|visit| visit.file).collect()
    }

    fn asked_for(&self) -> Vec<ObjectKey> {
        self.store.seen().keys.clone()
    }

    fn keys(&self, files: impl IntoIterator<Item = u64>) -> Vec<ObjectKey> {
        files.into_iter().map(|file| self.source.layout.key(file)).collect()
    }

    fn file_bytes(&self) -> u64 {
        self.source.format.file_len(0)
    }

    /// Notes the most bytes that `loader` ever holds.
    fn highest_held(&self, loader: &Loader) -> Arc<AtomicU64> {
        let (held, highest) = (Arc::clone(&loader.held), Arc::new(AtomicU64::new(0)));
        let noted = Arc::clone(&highest);
        self.store.at_each_get(move || {
            noted.fetch_max(held.bytes(), Ordering::Relaxed);
        });
        highest
    }

    /// Takes all batches of an epoch and checks every byte that is kept of them. Returns the bytes that
    /// arrived.
    fn take_all(&self, loader: &mut Loader, rank: u32) -> u64 {
        let plan = self.plan();
        let mut arrived = 0;
        for step in 0..self.schedule.steps {
            let batch = loader.next_batch().unwrap();
            assert_eq!(batch.samples(), self.schedule.batch_size);
            let positions = step * batch.samples()..(step + 1) * batch.samples();
            let expected = plan.visits(rank).filter(|visit| {
                let served = visit.positions();
                served.start < positions.end && positions.start < served.end
            });
            let mut found = batch.buffers();
            if self.workload.reader.payload == Payload::Land {
                for Visit { file, samples, .. } in expected {
                    let found = found.next().unwrap();
                    assert_eq!(self.source.format.verify(file, samples, found), Ok(()));
                }
            }
            assert_eq!(found.next(), None);
            arrived += batch.arrived().0;
        }
        arrived
    }

    /// By the clock of the runtime.
    fn now(&self) -> tokio::time::Instant {
        self.runtime.handle().block_on(async { tokio::time::Instant::now() })
    }

    fn held(&self, loader: &Loader) -> u64 {
        self.runtime.pass(MILLI);
        loader.held.bytes()
    }
}

fn turns(workload: &Workload, ranks: u32) -> Arc<Turns> {
    let Workload { reader, storage, .. } = workload;
    let window = (reader.read_threads * storage.prefetch_window).max(1);
    let demand = Demand::endless((window * ranks) as usize);
    match reader.window {
        Window::Auto => Turns::auto(ranks, demand),
        Window::Fixed => Turns::fixed(demand),
    }
}

fn index(key: &ObjectKey) -> u64 {
    let digits = key.as_str().split('_').nth(1).unwrap();
    digits.parse().unwrap()
}

const IN_ORDER: [&str; 2] = ["reader.file_shuffle=off", "reader.sample_shuffle=off"];

fn in_order<'a>(options: &[&'a str]) -> Vec<&'a str> {
    IN_ORDER.iter().chain(options).copied().collect()
}

#[test]
fn batches_come_in_the_order_of_the_plan_whatever_order_their_files_land_in() {
    let options = ["dataset.num_files_train=48", "reader.batch_size=4", "reader.read_threads=4"];
    let rig = Rig::with_store(&options, 1, |store| {
        store.delayed(|key, _| MILLI * (100 - index(key) as u32))
    });
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    assert_eq!(rig.take_all(&mut loader, 0), 48 * rig.file_bytes());
    assert!(matches!(loader.next_batch(), Err(LoadError::Exhausted)));
    assert!(matches!(loader.next_batch(), Err(LoadError::Exhausted)));
    assert_eq!(rig.held(&loader), 0);
}

#[test]
fn files_are_asked_for_in_the_order_in_which_batches_need_them() {
    let options = ["dataset.num_files_train=48", "reader.batch_size=4"];
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.take_all(&mut loader, 0);
    assert_eq!(rig.asked_for(), rig.keys(rig.visited(0)));
}

#[test]
fn the_windows_of_all_readers_are_never_exceeded() {
    for (readers, window, expected) in [(4, 2, 8), (1, 3, 3), (1, 1, 1), (4, 1, 4)] {
        let readers = format!("reader.read_threads={readers}");
        let window = format!("storage.storage_options.prefetch_window={window}");
        let options = ["dataset.num_files_train=48", "reader.batch_size=4", &readers, &window];
        let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        rig.take_all(&mut loader, 0);
        assert_eq!(rig.store.seen().highest, expected, "{readers}, {window}");
    }
}

#[test]
fn without_readers_the_ranks_own_thread_reads_one_file_at_a_time() {
    let options = ["dataset.num_files_train=16", "reader.batch_size=4", "reader.read_threads=0"];
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    let threads = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&threads);
    rig.store.at_each_get(move || {
        noted.lock().unwrap().insert(format!("{:?}", thread::current().id()));
    });
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(SETTLED);
    assert_eq!(rig.asked_for(), []);
    assert_eq!(rig.take_all(&mut loader, 0), 16 * rig.file_bytes());
    assert_eq!(rig.store.seen().highest, 1);
    assert_eq!(rig.asked_for(), rig.keys(rig.visited(0)));
    let own = format!("{:?}", thread::current().id());
    assert_eq!(*threads.lock().unwrap(), BTreeSet::from([own]));
    assert!(matches!(loader.next_batch(), Err(LoadError::Exhausted)));
    assert_eq!(rig.held(&loader), 0);
}

#[test]
fn nothing_is_read_beyond_the_ready_batches_and_the_window() {
    let options = [
        "dataset.num_files_train=80",
        "reader.batch_size=4",
        "reader.read_threads=2",
        "reader.prefetch_size=2",
        "storage.storage_options.prefetch_window=3",
    ];
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    for taken in 0..4 {
        rig.runtime.pass(SETTLED);
        assert_eq!(rig.asked_for().len(), taken * 4 + 2 * 4 + 2 * 3);
        loader.next_batch().unwrap();
    }
}

#[test]
fn a_slow_consumer_never_makes_the_loader_hold_more_than_its_budget() {
    let options = [
        "dataset.num_files_train=96",
        "dataset.record_length_bytes=262144",
        "reader.batch_size=4",
        "reader.read_threads=2",
    ];
    let mut rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    rig.process_budget = ByteCount(20 * rig.file_bytes() + 1);
    let mut loader = rig.loader();
    let highest = rig.highest_held(&loader);
    rig.start(&mut loader, 0);
    for _ in 0..rig.schedule.steps {
        let batch = loader.next_batch().unwrap();
        rig.runtime.pass(SETTLED);
        drop(batch);
    }
    assert_eq!(highest.load(Ordering::Relaxed), 20 * rig.file_bytes());
    assert_eq!(rig.held(&loader), 0);
    let idle = rig.source.pool.idle();
    // Each has room for a byte more than its file.
    let most = rig.process_budget + ByteCount(20);
    assert!(idle <= most, "{idle} of buffers for {}", rig.process_budget);
    assert!(idle.0 >= 20 * rig.file_bytes(), "{idle} of buffers came back");
}

#[test]
fn a_budget_below_two_batches_is_raised_to_them_and_kept() {
    let shapes = [(1, 4, "off"), (4, 6, "off"), (4, 3, "seed"), (7, 2, "off")];
    let pipelines = ["reader.pipeline=sliding", "reader.pipeline=chunked"];
    for ((per_file, batch, shuffle), pipeline) in
        shapes.into_iter().flat_map(|shape| pipelines.map(|pipeline| (shape, pipeline)))
    {
        let per_file = format!("dataset.num_samples_per_file={per_file}");
        let batch = format!("reader.batch_size={batch}");
        let shuffle = format!("reader.sample_shuffle={shuffle}");
        let options = ["dataset.num_files_train=24", &per_file, &batch, &shuffle, pipeline];
        let mut rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        rig.process_budget = ByteCount(0);
        let budget = rig.limits().byte_budget.0;
        let mut loader = rig.loader();
        let highest = rig.highest_held(&loader);
        rig.start(&mut loader, 0);
        for _ in 0..rig.schedule.steps {
            let batch = loader.next_batch().unwrap();
            rig.runtime.pass(SETTLED);
            drop(batch);
        }
        let highest = highest.load(Ordering::Relaxed);
        assert!(highest <= budget, "{highest} of {budget} with {options:?}");
        assert!(highest > 0 && rig.held(&loader) == 0);
    }
}

#[test]
fn no_rank_reads_ahead_before_all_have_their_first_batch() {
    let options = in_order(&["dataset.num_files_train=64", "reader.batch_size=4"]);
    // Rank 1's files are slow.
    let rig = Rig::with_store(&options, 2, |store| {
        store.delayed(|key, _| if index(key) < 32 { MILLI } else { MILLI * 100 })
    });
    let mut loaders = [rig.loader(), rig.loader()];
    let first_batches: BTreeSet<_> = rig.keys((0..4).chain(32..36)).into_iter().collect();
    for epoch in 0..3 {
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.start(loader, rank);
        }
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.take_all(loader, rank);
        }
        let keys = rig.asked_for();
        let of_epoch = &keys[epoch * 64..];
        assert_eq!(of_epoch.len(), 64);
        assert_eq!(of_epoch[..8].iter().cloned().collect::<BTreeSet<_>>(), first_batches);
    }
}

#[test]
fn a_file_that_serves_several_batches_is_read_and_counted_once() {
    let options = in_order(&[
        "dataset.num_files_train=8",
        "dataset.num_samples_per_file=4",
        "reader.batch_size=2",
    ]);
    for readers in ["reader.read_threads=2", "reader.read_threads=0"] {
        let rig = Rig::new(&[&options[..], &[readers]].concat(), 1);
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        let arrived: Vec<_> =
            (0..16).map(|_| loader.next_batch().unwrap().arrived().0 / rig.file_bytes()).collect();
        assert_eq!(arrived, [1, 0].repeat(8), "{readers}");
        assert_eq!(rig.asked_for(), rig.keys(0..8), "{readers}");
        assert_eq!(rig.held(&loader), 0);
    }
}

#[test]
fn an_error_comes_behind_the_batches_before_it_and_ends_the_epoch() {
    let options = in_order(&[
        "dataset.num_files_train=40",
        "reader.batch_size=4",
        "storage.storage_options.prefetch_window=1",
    ]);
    for readers in ["reader.read_threads=1", "reader.read_threads=0"] {
        let key = ObjectKey::new("train/img_09_of_40.npz");
        let missing = key.clone();
        let options = [&options[..], &[readers, "dataset.file_prefix=img"]].concat();
        let rig =
            Rig::with_store(&options, 1, |store| store.failing(move |key, _| *key == missing));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        loader.next_batch().unwrap();
        loader.next_batch().unwrap();
        let error = loader.next_batch().unwrap_err();
        assert!(matches!(error, LoadError::Store(_)), "{error:?}");
        assert!(error.to_string().contains(key.as_str()), "{error}");
        assert!(matches!(loader.next_batch(), Err(LoadError::Exhausted)));
        assert_eq!(rig.asked_for(), rig.keys(0..10));
        assert_eq!(rig.held(&loader), 0);
    }
}

#[test]
fn bytes_that_were_not_generated_are_an_error_that_names_the_file() {
    for readers in ["reader.read_threads=2", "reader.read_threads=0"] {
        let options = in_order(&["dataset.num_files_train=16", "reader.batch_size=4", readers]);
        let mut rig = Rig::new(&options, 1);
        rig.source = source(&rig.workload, Split::Train, &rig.store, true);
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        rig.take_all(&mut loader, 0);

        let key = rig.source.layout.key(5);
        let mut wrong = Vec::new();
        rig.source.format.write(5, &mut wrong);
        wrong[2000] ^= 1;
        rig.runtime.handle().block_on(rig.store.put(&key, Bytes::from(wrong))).unwrap();
        rig.start(&mut loader, 0);
        let error = (0..4).find_map(|_| loader.next_batch().err()).unwrap();
        assert!(matches!(&error, LoadError::Mismatch { key: named, .. } if *named == key));
        for part in [key.as_str(), "2000"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(rig.held(&loader), 0);
    }
}

#[test]
fn dropping_the_loader_cancels_its_reads() {
    let options = ["dataset.num_files_train=64", "reader.batch_size=4"];
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| NEVER));
    let mut loader = rig.loader();
    let held = Arc::clone(&loader.held);
    rig.start(&mut loader, 0);
    rig.runtime.pass(MILLI);
    assert_eq!(rig.store.seen().in_flight, 32);
    assert_eq!(held.bytes(), 64 * rig.file_bytes());
    drop(loader);
    rig.runtime.pass(MILLI);
    assert_eq!(rig.store.seen().in_flight, 0);
    assert_eq!(held.bytes(), 0);
}

#[test]
fn an_epoch_that_is_left_in_the_middle_holds_nothing_and_blocks_no_later_one() {
    let options = ["dataset.num_files_train=64", "reader.batch_size=4"];
    for taken in [0, 1, 3] {
        let rig = Rig::with_store(&options, 2, |store| store.delayed(|_, _| MILLI));
        let mut loaders = [rig.loader(), rig.loader()];
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.start(loader, rank);
            for _ in 0..taken.min(rank + 1) {
                loader.next_batch().unwrap();
            }
        }
        for loader in &mut loaders {
            loader.end_epoch();
            assert_eq!(rig.held(loader), 0);
        }
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.start(loader, rank);
        }
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.take_all(loader, rank);
            assert_eq!(rig.held(loader), 0);
        }
    }
}

#[test]
fn a_rank_that_waits_hears_of_a_runtime_that_ends() {
    let options = ["dataset.num_files_train=8", "reader.batch_size=4"];
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| NEVER));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(MILLI);
    let rank = thread::spawn(move || loader.next_batch().unwrap_err());
    drop(rig);
    let error = rank.join().unwrap();
    assert!(matches!(error, LoadError::Stopped(_)), "{error:?}");
}

#[derive(Debug)]
struct Shape {
    files: u64,
    per_file: u64,
    batch: u64,
    readers: u32,
    window: u32,
    prefetch: u32,
    budget: u64,
    ranks: u32,
    shuffle: &'static str,
    stdev: u32,
    pipeline: &'static str,
    payload: &'static str,
    stagger: bool,
    delays: u64,
}

prop_compose! {
    fn shape()(
        files in 8_u64..30,
        per_file in 1_u64..6,
        batch in 1_u64..5,
        readers in 0_u32..4,
        window in 1_u32..5,
        prefetch in 0_u32..4,
        budget in 0_u64..200_000,
        ranks in 1_u32..3,
        shuffle in prop_oneof![Just("off"), Just("seed")],
        stdev in prop_oneof![Just(0), Just(2000)],
        pipeline in prop_oneof![Just("sliding"), Just("chunked")],
        payload in prop_oneof![3 => Just("land"), 1 => Just("discard")],
        stagger: bool,
        delays: u64,
    ) -> Shape {
        Shape {
            files, per_file, batch, readers, window, prefetch, budget, ranks, shuffle, stdev,
            pipeline, payload, stagger, delays,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No mix of bounds, however tight, lets an epoch hang, loses a byte, or keeps or holds too many.
    #[test]
    fn every_epoch_comes_to_its_end(shape in shape()) {
        let options = [
            format!("dataset.num_files_train={}", shape.files),
            format!("dataset.num_samples_per_file={}", shape.per_file),
            format!("reader.batch_size={}", shape.batch),
            format!("reader.read_threads={}", shape.readers),
            format!("reader.prefetch_size={}", shape.prefetch),
            format!("reader.sample_shuffle={}", shape.shuffle),
            format!("storage.storage_options.prefetch_window={}", shape.window),
            format!("dataset.record_length_bytes_stdev={}", shape.stdev),
            format!("reader.pipeline={}", shape.pipeline),
            format!("reader.payload={}", shape.payload),
            format!("storage.storage_options.stagger_workers={}", shape.stagger),
            "train.computation_time=0.005".to_owned(),
        ];
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let delays = shape.delays;
        let mut rig = Rig::with_store(&options, shape.ranks, |store| {
            store.delayed(move |key, _| MILLI * ((delays >> (index(key) * 2)) % 4) as u32)
        });
        rig.process_budget = ByteCount(shape.budget);
        let mut loaders: Vec<_> = (0..shape.ranks).map(|_| rig.loader()).collect();
        let highest = rig.highest_held(&loaders[0]);
        for _ in 0..2 {
            for (loader, rank) in loaders.iter_mut().zip(0..) {
                rig.start(loader, rank);
            }
            for (loader, rank) in loaders.iter_mut().zip(0..) {
                let visited = rig.visited(rank).into_iter();
                let expected: u64 = visited.map(|file| rig.source.format.file_len(file)).sum();
                prop_assert_eq!(rig.take_all(loader, rank), expected);
                prop_assert_eq!(rig.held(loader), 0);
            }
        }
        let budget = loaders[0].limits.byte_budget.0;
        prop_assert!(highest.load(Ordering::Relaxed) <= budget);
        let bound = (shape.readers * shape.window).max(1) * shape.ranks;
        prop_assert!(rig.store.seen().highest <= bound as usize);
    }
}
