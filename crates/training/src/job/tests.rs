mod evaluation;
mod processes;

use std::collections::BTreeSet;
use std::sync::Mutex;

use feedrate_loader::testing::{NEVER, WatchedStore, source, workload};
use feedrate_metrics::process::own_cpu_time;
use feedrate_metrics::record::{CacheDrops, StepRecord};
use feedrate_metrics::utilization::{MetricWindow, epoch_au_percent, epoch_wall_au_percent};
use feedrate_ranks::in_process;
use feedrate_storage::ObjectKey;
use feedrate_workload::Split;
use tokio::runtime::Runtime;

use super::*;
use crate::page_cache::tests::scripted;
use crate::progress::ProgressNow;

const MILLI: Duration = Duration::from_millis(1);
const PIPELINES: [[&str; 2]; 4] = [
    ["reader.pipeline=sliding", "reader.payload=land"],
    ["reader.pipeline=sliding", "reader.payload=discard"],
    ["reader.pipeline=chunked", "reader.payload=land"],
    ["reader.pipeline=chunked", "reader.payload=discard"],
];
const IN_ORDER: [&str; 2] = ["reader.file_shuffle=off", "reader.sample_shuffle=off"];

/// Writes down what it is told, and says no at the end of one epoch.
#[derive(Default)]
struct Notes {
    told: Mutex<Vec<String>>,
    records: Mutex<Vec<RunRecord>>,
    refuses: Option<u32>,
}

impl Notes {
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

impl Observer for Notes {
    fn epoch_starts(&self, epoch: u32, steps: u64) {
        self.told.lock().unwrap().push(format!("epoch {epoch} of {steps} steps"));
    }

    fn warned(&self, text: &str) {
        self.told.lock().unwrap().push(format!("warning: {text}"));
    }

    fn epoch_ended(&self, record: &RunRecord) -> Result<(), String> {
        let epoch = record.epochs.last().unwrap().epoch;
        self.told.lock().unwrap().push(format!("{epoch} over"));
        self.records.lock().unwrap().push(record.clone());
        if self.refuses == Some(epoch) { Err("the disk is full".to_owned()) } else { Ok(()) }
    }
}

struct Played {
    store: Arc<WatchedStore>,
    source: Arc<Source>,
    notes: Arc<Notes>,
    progress: ProgressNow,
    elapsed: Duration,
    result: Result<RunRecord, RunError>,
    // Behind the result: reads of ranks that were left behind end with it.
    _runtime: Runtime,
}

impl Played {
    fn record(&self) -> &RunRecord {
        self.result.as_ref().unwrap()
    }

    fn error(&self) -> String {
        let error = self.result.as_ref().unwrap_err();
        match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.store.seen().keys.clone()
    }

    fn window(&self) -> MetricWindow {
        let expected_steps = self.record().steps_per_epoch;
        MetricWindow { exclude_start: 1, exclude_end: 0, expected_steps }
    }
}

/// A training of small files that computes nothing, unless `options` say otherwise.
fn play(options: &[&str], ranks: u32) -> Played {
    play_on(options, ranks, Notes::default(), |store| store)
}

fn play_on(
    options: &[&str],
    ranks: u32,
    notes: Notes,
    watch: impl FnOnce(WatchedStore) -> WatchedStore,
) -> Played {
    let runtime = runtime();
    let (job, store) = job(options, ranks, &runtime, watch);
    let source = Arc::clone(&job.source);
    let (notes, progress) = (Arc::new(notes), Arc::new(Progress::default()));
    let observer: Arc<dyn Observer> = Arc::<Notes>::clone(&notes);
    let start = Instant::now();
    let result = run_here(job, observer, Arc::clone(&progress));
    let (elapsed, progress) = (start.elapsed(), progress.now());
    Played { store, source, notes, progress, elapsed, result, _runtime: runtime }
}

/// Runs `job` with all its ranks in this process.
fn run_here(
    job: Job,
    observer: Arc<dyn Observer>,
    progress: Arc<Progress>,
) -> Result<RunRecord, RunError> {
    let worlds = in_process::world(job.schedule.ranks);
    run(job, worlds, observer, progress).map(Option::unwrap)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

fn job(
    options: &[&str],
    ranks: u32,
    runtime: &Runtime,
    watch: impl FnOnce(WatchedStore) -> WatchedStore,
) -> (Job, Arc<WatchedStore>) {
    let quick = ["train.computation_time=0", "train.epochs=1", "storage.drop_caches=never"];
    let workload = workload(&[&quick[..], options].concat());
    let store = Arc::new(watch(WatchedStore::holding(&workload)));
    let job = Job {
        schedule: Schedule::new(&workload, ranks).unwrap(),
        source: source(&workload, Split::Train, &store, false),
        evaluation: Schedule::evaluation(&workload, ranks).unwrap().map(|schedule| EvaluationSet {
            schedule,
            source: source(&workload, Split::Valid, &store, false),
        }),
        requests: Arc::new(RequestStats::new()),
        byte_budget: ByteCount(1 << 24),
        co_located: false,
        host: "vm".to_owned(),
        runtime: runtime.handle().clone(),
        workload,
    };
    (job, store)
}

fn steps(rank: &RankEpoch) -> &[StepRecord] {
    &rank.blocks[0].steps
}

/// The key of a file of a set in which `train/img_<file>_of_<files>.npz` is the name.
fn key(file: u64, files: u64) -> ObjectKey {
    let width = files.to_string().len();
    ObjectKey::new(format!("train/img_{file:0width$}_of_{files}.npz"))
}

#[test]
fn files_that_do_not_divide_by_the_ranks_end_in_the_same_steps_on_each() {
    let asked = PIPELINES.map(|[pipeline, payload]| {
        let options = ["dataset.num_files_train=145", "reader.batch_size=16", pipeline, payload];
        let played = play(&options, 3);
        let record = played.record();
        assert_eq!((record.steps_per_epoch, record.epochs.len()), (3, 1));
        let file = played.source.format.file_len(0);
        for (rank, number) in record.epochs[0].ranks.iter().zip(0..) {
            assert_eq!(rank.rank, number);
            assert_eq!((steps(rank).len(), rank.samples), (3, 48));
            assert_eq!(rank.bytes.0, 48 * file, "{pipeline}, {payload}");
        }
        assert_eq!(played.keys().len(), 144);
        assert_eq!((played.progress.epoch, played.progress.steps), (1, 3));
        played.store.asked()
    });
    assert!(asked[0].values().all(|&times| times == 1));
    assert!(asked.iter().all(|asked_for| *asked_for == asked[0]), "the same samples");
}

#[test]
fn a_step_takes_the_memory_that_the_story_of_this_module_tells() {
    assert_eq!(size_of::<StepRecord>(), 40);
    for drawn in [0.05, 0.050_012_345_678_901_234] {
        let step = StepRecord {
            wait: Seconds(0.000_012_345),
            compute: Seconds(0.050_061_234),
            drawn: Seconds(drawn),
            barrier: Seconds(0.000_123_456),
            work: Seconds(0.0),
        };
        let json = serde_json::to_string(&step).unwrap();
        assert!((75..=120).contains(&json.len()), "{json}");
    }
}

#[test]
fn work_on_samples_is_told_apart_from_waiting_for_the_store() {
    let options = [
        "dataset.num_files_train=8",
        "reader.batch_size=2",
        "reader.read_threads=0",
        "reader.preprocess_time=0.002",
        "train.computation_time=0.06",
    ];
    let slow = |store: WatchedStore| store.delayed(|_, _| Duration::from_millis(25));
    let played = play_on(&options, 1, Notes::default(), slow);
    for step in steps(&played.record().epochs[0].ranks[0]) {
        assert!(step.wait.0 >= 0.054, "{step:?}");
        assert!((0.004..step.wait.0 / 2.0).contains(&step.work.0), "{step:?}");
    }
}

#[test]
fn the_bytes_of_an_epoch_are_those_of_its_files() {
    let options = [
        "dataset.num_files_train=12",
        "dataset.num_samples_per_file=4",
        "reader.batch_size=2",
        "reader.file_shuffle=off",
        "reader.sample_shuffle=off",
    ];
    let played = play(&options, 2);
    let bytes: u64 = played.record().epochs[0].ranks.iter().map(|rank| rank.bytes.0).sum();
    let dataset = workload(&options).dataset;
    let format = feedrate_dataset::FileFormat::new(&dataset, Split::Train).unwrap();
    assert_eq!(bytes, format.total_bytes());
    assert_eq!(played.keys().len(), 12);
}

#[test]
fn without_readers_known_delays_give_half_the_accelerator() {
    let options = [
        "dataset.num_files_train=11",
        "reader.batch_size=1",
        "reader.read_threads=0",
        "train.computation_time=0.05",
    ];
    let played = play_on(&options, 1, Notes::default(), |store| store.delayed(|_, _| 50 * MILLI));
    let epoch = &played.record().epochs[0];
    let au = epoch_au_percent(epoch, &played.window()).unwrap();
    assert!((42.0..=58.0).contains(&au), "AU {au}");
    let wall = epoch_wall_au_percent(epoch).unwrap();
    assert!((35.0..=50.1).contains(&wall), "wall AU {wall}");
    for step in steps(&epoch.ranks[0]) {
        assert_eq!(step.drawn, Seconds(0.05));
        assert!(step.wait.0 >= 0.049 && step.compute.0 >= 0.05, "{step:?}");
    }
}

#[test]
fn with_readers_the_same_delays_cost_only_the_first_step() {
    let options = [
        "dataset.num_files_train=30",
        "reader.batch_size=1",
        "reader.read_threads=4",
        "train.computation_time=0.05",
    ];
    let played = play_on(&options, 1, Notes::default(), |store| store.delayed(|_, _| 50 * MILLI));
    let epoch = &played.record().epochs[0];
    let au = epoch_au_percent(epoch, &played.window()).unwrap();
    assert!((80.0..=100.0).contains(&au), "AU {au}");
    assert!(steps(&epoch.ranks[0])[0].wait.0 >= 0.049);
}

#[test]
fn waits_computations_and_barriers_add_up_to_the_block() {
    let options = [
        "dataset.num_files_train=60",
        "reader.batch_size=2",
        "reader.read_threads=1",
        "train.computation_time=0.01",
    ];
    let played = play_on(&options, 3, Notes::default(), |store| store.delayed(|_, _| 5 * MILLI));
    for rank in &played.record().epochs[0].ranks {
        let sum: Seconds =
            steps(rank).iter().map(|step| step.wait + step.compute + step.barrier).sum();
        let block = rank.blocks[0].duration;
        assert!(sum <= block && sum.0 > 0.9 * block.0, "{sum:?} of {block:?}");
        assert!(block <= rank.duration);
    }
}

#[test]
fn a_slow_rank_makes_the_others_wait_in_the_barrier() {
    let options = [
        "dataset.num_files_train=20",
        "reader.batch_size=1",
        "reader.read_threads=0",
        IN_ORDER[0],
        IN_ORDER[1],
    ];
    let rank_1: BTreeSet<_> = (10..20).map(|file| key(file, 20)).collect();
    let played = play_on(&options, 2, Notes::default(), |store| {
        store.delayed(move |key, _| if rank_1.contains(key) { 20 * MILLI } else { Duration::ZERO })
    });
    let [fast, slow] = &played.record().epochs[0].ranks[..] else { panic!("two ranks") };
    let sum = |rank, of: fn(&StepRecord) -> Seconds| steps(rank).iter().map(of).sum::<Seconds>().0;
    assert!(sum(fast, |step| step.barrier) > 0.15);
    assert!(sum(slow, |step| step.wait) > 0.15);
    assert!(sum(fast, |step| step.barrier) > 2.0 * sum(fast, |step| step.wait));
    assert!(sum(slow, |step| step.wait) > 2.0 * sum(slow, |step| step.barrier));
}

/// Two ranks of 20 files each, in order; rank 1's first file is missing.
fn rank_1_fails(readers: &str, computation: &str, rank_0s_delay: Duration) -> Played {
    let options = [
        "dataset.num_files_train=40",
        "reader.batch_size=2",
        "train.epochs=3",
        readers,
        computation,
        IN_ORDER[0],
        IN_ORDER[1],
    ];
    let missing = key(20, 40);
    play_on(&options, 2, Notes::default(), |store| {
        let failing = missing.clone();
        // Late enough for rank 0 to be where the test wants it.
        let delay =
            move |key: &ObjectKey| if *key == missing { 100 * MILLI } else { rank_0s_delay };
        store.failing(move |key, _| *key == failing).delayed(move |key, _| delay(key))
    })
}

fn assert_rank_1_is_to_blame(played: &Played) {
    let error = played.error();
    for part in ["rank 1", key(20, 40).as_str(), "does not exist"] {
        assert!(error.contains(part), "no {part:?} in {error}");
    }
    assert!(played.elapsed < Duration::from_secs(5), "{:?}", played.elapsed);
    assert_eq!(played.notes.told(), ["epoch 1 of 10 steps"]);
}

#[test]
fn a_failed_read_ends_ranks_that_wait_in_the_barrier() {
    for readers in ["reader.read_threads=2", "reader.read_threads=0"] {
        let played = rank_1_fails(readers, "train.computation_time=0", Duration::ZERO);
        assert_rank_1_is_to_blame(&played);
    }
}

#[test]
fn a_failed_read_ends_a_run_whose_other_ranks_sleep() {
    let played = rank_1_fails("reader.read_threads=2", "train.computation_time=60", Duration::ZERO);
    assert_rank_1_is_to_blame(&played);
}

#[test]
fn a_failed_read_ends_a_run_whose_other_ranks_wait_for_a_store_that_hangs() {
    let played = rank_1_fails("reader.read_threads=2", "train.computation_time=0", NEVER);
    assert_rank_1_is_to_blame(&played);
}

#[test]
fn a_rank_that_fails_in_the_middle_of_the_second_epoch_leaves_the_first() {
    let options = [
        "dataset.num_files_train=40",
        "reader.batch_size=2",
        "train.epochs=3",
        "reader.file_shuffle=off",
    ];
    let played = play_on(&options, 2, Notes::default(), |store| {
        store.failing(|file, times| times == 2 && *file == key(13, 40))
    });
    assert!(played.error().contains("does not exist"), "{}", played.error());
    let expected = ["epoch 1 of 10 steps", "1 over", "epoch 2 of 10 steps"];
    assert_eq!(played.notes.told(), expected);
}

#[test]
fn the_observer_is_told_of_each_epoch_in_order_and_of_all_before_it() {
    let options = ["dataset.num_files_train=24", "reader.batch_size=4", "train.epochs=3"];
    let played = play(&options, 2);
    let expected = [
        "epoch 1 of 3 steps",
        "1 over",
        "epoch 2 of 3 steps",
        "2 over",
        "epoch 3 of 3 steps",
        "3 over",
    ];
    assert_eq!(played.notes.told(), expected);
    let records = played.notes.records.lock().unwrap();
    for (record, epochs) in records.iter().zip(1..) {
        let numbers: Vec<_> = record.epochs.iter().map(|epoch| epoch.epoch).collect();
        assert_eq!(numbers, (1..=epochs).collect::<Vec<_>>());
        assert!(
            record.epochs.iter().all(|epoch| { epoch.ranks.iter().map(|rank| rank.rank).eq(0..2) })
        );
    }
    assert_eq!(records.last().unwrap().epochs, played.record().epochs);
}

#[test]
fn an_observer_that_says_no_ends_the_run_with_its_reason() {
    let options = ["dataset.num_files_train=24", "reader.batch_size=4", "train.epochs=3"];
    let notes = Notes { refuses: Some(2), ..Notes::default() };
    let played = play_on(&options, 3, notes, |store| store);
    assert!(matches!(&played.result, Err(RunError::Observer(_))), "{:?}", played.result);
    assert_eq!(played.error(), "the disk is full");
    assert_eq!(played.notes.told().last().unwrap(), "2 over");
    assert_eq!(played.keys().len(), 2 * 24);
}

#[test]
fn the_time_to_the_first_step_is_set_once() {
    let options = [
        "dataset.num_files_train=8",
        "reader.batch_size=4",
        "train.epochs=2",
        "train.computation_time=0.05",
    ];
    let played = play(&options, 1);
    let records = played.notes.records.lock().unwrap();
    let first = records[0].time_to_first_step.unwrap();
    assert_eq!(records[1].time_to_first_step, Some(first));
    assert!(first.0 > 0.0 && first < records[0].process.age, "{first:?}");
}

#[test]
fn a_random_order_is_the_same_on_all_ranks_and_another_in_each_run() {
    let options = [
        "dataset.num_files_train=60",
        "reader.batch_size=4",
        "reader.file_shuffle=random",
        "reader.sample_shuffle=random",
        "reader.read_threads=0",
    ];
    let played = play(&options, 3);
    assert_eq!(played.keys().len(), 60);
    assert_eq!(played.store.asked().len(), 60);
    assert_ne!(play(&options, 1).keys(), play(&options, 1).keys());
}

#[test]
fn two_runs_with_one_seed_read_the_same_files_in_the_same_order() {
    for reading in [
        ["reader.read_threads=0", "reader.prefetch_size=2"],
        ["reader.read_threads=1", "storage.storage_options.prefetch_window=1"],
    ] {
        let options = [
            &reading[..],
            &["dataset.num_files_train=40", "reader.batch_size=4", "train.epochs=2"],
            &["reader.file_shuffle=seed", "reader.sample_shuffle=seed"],
        ]
        .concat();
        let once = play(&options, 1);
        assert_eq!(once.keys(), play(&options, 1).keys(), "{reading:?}");
        assert_eq!(once.store.seen().highest, 1, "{reading:?}");
        let keys = once.keys();
        assert_ne!(keys[..40], keys[40..], "the epochs differ");
    }
}

#[test]
fn cpus_are_looked_at_while_ranks_wait_and_only_then() {
    let options = ["dataset.num_files_train=8", "reader.batch_size=1", "reader.read_threads=0"];
    let waits = play_on(&options, 1, Notes::default(), |store| store.delayed(|_, _| 80 * MILLI));
    let cpu = waits.record().waiting_cpu;
    assert!(cpu.cpus >= 1.0);
    assert!(cpu.waited.0 > 0.2 && cpu.waited.0 <= waits.elapsed.as_secs_f64(), "{cpu:?}");
    // The kernel's ticks of 10 ms may round up.
    assert!(cpu.cpu.0 >= 0.0 && cpu.cpu.0 <= cpu.waited.0 * cpu.cpus + 0.05, "{cpu:?}");

    let options = [&options[..], &["train.computation_time=0.05"]].concat();
    let computes = play(&options, 1);
    assert!(computes.record().waiting_cpu.waited.0 < 0.2, "{:?}", computes.record().waiting_cpu);
}

#[test]
fn cpu_time_is_told_apart_by_what_the_run_did() {
    let options = [
        "dataset.num_files_train=16",
        "dataset.num_files_eval=8",
        "workflow.evaluation=True",
        "reader.batch_size=2",
        "reader.batch_size_eval=2",
        "train.epochs=2",
    ];
    let runtime = runtime();
    let (job, store) = job(&options, 2, &runtime, |store| store);
    store.at_each_get(|| {
        let used = || own_cpu_time().unwrap().sum();
        let before = used();
        while (used() - before).0 < 0.01 {}
    });
    let record = run_here(job, Arc::new(Notes::default()), Arc::default()).unwrap();
    let phases = record.process.phases.unwrap();
    // Two threads read, and each sees the time of both.
    let (training, evaluation) = (phases.training.sum().0, phases.evaluation.sum().0);
    assert!(training >= 0.15 && evaluation >= 0.07, "{phases:?}");
    assert!((phases.sum().sum() - record.process.cpu).0.abs() < 0.05, "{phases:?}");
}

#[test]
fn only_steps_of_at_most_a_millisecond_may_end_in_spinning() {
    let runtime = runtime();
    let short = |options: &[&str]| {
        let files = [
            "dataset.num_files_train=8",
            "dataset.num_files_eval=8",
            "reader.batch_size=4",
            "reader.batch_size_eval=4",
        ];
        job(&[&files[..], options].concat(), 1, &runtime, |store| store).0.is_of_short_steps()
    };
    assert!(short(&["train.computation_time=0.000375"]));
    assert!(!short(&["train.computation_time=0.04755"]));
    let evaluated = ["train.computation_time=0.04755", "evaluation.eval_time=0.0005"];
    assert!(!short(&evaluated));
    assert!(short(&[&evaluated[..], &["workflow.evaluation=True"]].concat()));
}

#[test]
fn the_record_tells_the_bounds_that_were_in_force() {
    let options = [
        "dataset.num_files_train=400",
        "reader.batch_size=2",
        "reader.read_threads=2",
        "reader.prefetch_size=2",
        "storage.storage_options.prefetch_window=4",
    ];
    // 2 readers x 4 files, or 2 chunks of them, and 2 batches of 2, on 4 ranks.
    for ([pipeline, payload], files) in PIPELINES.into_iter().zip([48.0, 48.0, 80.0, 80.0]) {
        let played = play(&[&options[..], &[pipeline, payload]].concat(), 4);
        let share = played.record().window_share_of_epoch;
        assert!((share - files / 400.0).abs() < 1e-9, "{share} with {pipeline}, {payload}");
        assert_eq!(played.record().byte_budget, ByteCount(1 << 24));
    }
}

#[test]
fn what_is_discarded_cannot_be_verified_and_is_not_read() {
    let runtime = runtime();
    let options = ["dataset.num_files_train=8", "reader.batch_size=4", "reader.payload=discard"];
    let (mut job, store) = job(&options, 1, &runtime, |store| store);
    job.source = source(&job.workload, Split::Train, &store, true);
    let error = run_here(job, Arc::new(Notes::default()), Arc::default()).unwrap_err();
    assert!(matches!(error, RunError::Verify(_)), "{error:?}");
    assert!(error.to_string().contains("reader.payload is discard"), "{error}");
    assert_eq!(store.seen().keys, []);
}

#[test]
fn a_rank_of_chunks_waits_where_a_chunk_takes_longer_than_the_batches_made_of_it() {
    let options = [
        "dataset.num_files_train=64",
        "reader.batch_size=4",
        "reader.read_threads=1",
        "reader.pipeline=chunked",
        "storage.storage_options.prefetch_window=16",
        "train.computation_time=0.01",
    ];
    // Four batches take 40 ms of computing; the next chunk takes 200 ms from when the first begins.
    let played = play_on(&options, 1, Notes::default(), |store| store.delayed(|_, _| 200 * MILLI));
    let steps = steps(&played.record().epochs[0].ranks[0]);
    let waits: Vec<_> = steps.iter().map(|step| step.wait.0 > 0.1).collect();
    let one_in_four: Vec<_> = (0..16).map(|step| step % 4 == 0).collect();
    assert_eq!(waits, one_in_four);
}

#[test]
fn total_training_steps_ends_each_epoch_after_as_many() {
    let options = [
        "dataset.num_files_train=64",
        "reader.batch_size=2",
        "train.epochs=2",
        "train.total_training_steps=3",
    ];
    let played = play(&options, 2);
    let record = played.record();
    assert_eq!(record.steps_per_epoch, 3);
    for rank in record.epochs.iter().flat_map(|epoch| &epoch.ranks) {
        assert_eq!((steps(rank).len(), rank.samples), (3, 6));
    }
    assert_eq!(played.keys().len(), 2 * 2 * 6, "nothing beyond them is read");
}

#[test]
fn the_page_cache_is_emptied_before_each_epoch_reads_anything() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = ["dataset.num_files_train=8", "reader.batch_size=2", "train.epochs=3"];
    let (job, store) = job(&options, 2, &runtime, |store| store);
    let emptied = Arc::new(Mutex::new(Vec::new()));
    let (seen, read_log) = (Arc::clone(&emptied), log.clone());
    store.at_each_get(move || {
        let times = std::fs::read_to_string(&read_log).unwrap_or_default().lines().count();
        seen.lock().unwrap().push(times);
    });
    let drop = format!("sleep 0.1; echo dropped >> {}", log.display());
    let cache = scripted("true", &drop, Duration::from_secs(20));
    let notes = Arc::new(Notes::default());
    let observer: Arc<dyn Observer> = Arc::<Notes>::clone(&notes);
    let worlds = in_process::world(job.schedule.ranks);
    let record = run_with(job, worlds, observer, Arc::default(), cache).unwrap().unwrap();
    assert_eq!(*emptied.lock().unwrap(), [[1; 8], [2; 8], [3; 8]].concat());
    assert_eq!(record.cache_drops, CacheDrops { dropped: 3, ..CacheDrops::default() });
    assert_eq!(notes.records.lock().unwrap()[0].cache_drops.dropped, 1);
    assert_eq!(notes.told().len(), 6, "nothing to warn of");
}

#[test]
fn a_page_cache_that_stays_full_is_told_once_and_recorded() {
    let runtime = runtime();
    let options = ["dataset.num_files_train=8", "reader.batch_size=2", "train.epochs=2"];
    let (job, _) = job(&options, 1, &runtime, |store| store);
    let cache = scripted("true", "echo 'no such right' >&2; exit 1", Duration::from_secs(20));
    let notes = Arc::new(Notes::default());
    let observer: Arc<dyn Observer> = Arc::<Notes>::clone(&notes);
    let worlds = in_process::world(job.schedule.ranks);
    let record = run_with(job, worlds, observer, Arc::default(), cache).unwrap().unwrap();
    let told = notes.told();
    assert!(told[0].starts_with("warning: ") && told[0].contains("no such right"), "{told:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("warning")).count(), 1);
    let why = Some("no such right".to_owned());
    assert_eq!(record.cache_drops, CacheDrops { not_dropped: why, ..CacheDrops::default() });
}

#[test]
fn a_rank_that_panics_ends_the_others() {
    struct Panics;

    impl Observer for Panics {
        fn epoch_starts(&self, _: u32, _: u64) {
            panic!("on purpose");
        }

        fn warned(&self, _: &str) {}

        fn epoch_ended(&self, _: &RunRecord) -> Result<(), String> {
            Ok(())
        }
    }

    let runtime = runtime();
    let options = ["dataset.num_files_train=24", "reader.batch_size=4"];
    let (job, _) = job(&options, 3, &runtime, |store| store);
    let error = run_here(job, Arc::new(Panics), Arc::default()).unwrap_err();
    assert!(matches!(error, RunError::Unexpected { rank: 0, .. }), "{error:?}");
}
