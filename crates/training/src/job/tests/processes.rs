//! Ranks in several processes: calls of [`run`] side by side that share one world.

use feedrate_metrics::utilization::epoch_wall_au_percent;
use feedrate_ranks::spinning::Spinning;

use super::*;

/// A rank of a world in this process that is told whether it leads its node.
#[derive(Debug)]
struct Placed {
    rank: in_process::Rank,
    leads_node: bool,
}

impl World for Placed {
    fn rank(&self) -> u32 {
        self.rank.rank()
    }

    fn size(&self) -> u32 {
        self.rank.size()
    }

    fn leads_node(&self) -> bool {
        self.leads_node
    }

    fn spinning(&self) -> &Arc<Spinning> {
        self.rank.spinning()
    }

    fn barrier(&self) -> Result<(), Aborted> {
        self.rank.barrier()
    }

    fn gather(&self, payload: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        self.rank.gather(payload)
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        self.rank.broadcast(payload)
    }

    fn abort(&self, cause: String) {
        self.rank.abort(cause);
    }
}

/// One call of [`run`] of several.
struct Part {
    store: Arc<WatchedStore>,
    notes: Arc<Notes>,
    result: Result<Option<RunRecord>, RunError>,
}

/// How the parts differ from the usual; the number is the part's.
struct Setting<'a> {
    options: &'a [&'a str],
    watch: &'a dyn Fn(WatchedStore, usize) -> WatchedStore,
    budget_in_files: Option<u64>,
    page_cache: &'a dyn Fn(&Job, usize) -> PageCache,
    one_node: bool,
    refuses: Option<u32>,
}

impl<'a> Setting<'a> {
    fn new(options: &'a [&'a str]) -> Self {
        Self {
            options,
            watch: &|store, _| store,
            budget_in_files: None,
            page_cache: &|job, _| PageCache::new(&job.workload),
            one_node: false,
            refuses: None,
        }
    }

    /// Plays a training on parts of this many ranks each, on hosts `host-0`, `host-1` and so on. Every
    /// GET is counted as one of a byte and some latency.
    fn play(&self, parts: &[u32]) -> Vec<Part> {
        let runtime = runtime();
        let mut worlds = in_process::world(parts.iter().sum()).into_iter();
        let calls = parts.iter().enumerate().map(|(number, &ranks)| {
            let watch = |store| (self.watch)(store, number);
            let (mut job, store) = job(self.options, parts.iter().sum(), &runtime, watch);
            job.host = format!("host-{number}");
            if let Some(files) = self.budget_in_files {
                job.byte_budget = ByteCount(files * job.source.format.file_len(0));
            }
            let requests = Arc::clone(&job.requests);
            store.at_each_get(move || requests.get_done(1, MILLI, 2 * MILLI));
            let leads_node = |rank| if self.one_node { rank == 0 } else { true };
            let placed = worlds.by_ref().take(ranks as usize).enumerate().map(|(local, rank)| {
                Placed { leads_node: local == 0 && leads_node(rank.rank()), rank }
            });
            let notes = Arc::new(Notes { refuses: self.refuses, ..Notes::default() });
            (placed.collect::<Vec<_>>(), (self.page_cache)(&job, number), job, store, notes)
        });
        let calls: Vec<_> = calls.collect();
        thread::scope(|scope| {
            let calls = calls.into_iter().map(|(worlds, cache, job, store, notes)| {
                let observer: Arc<dyn Observer> = Arc::<Notes>::clone(&notes);
                let call = move || run_with(job, worlds, observer, Arc::default(), cache);
                (scope.spawn(call), store, notes)
            });
            let calls: Vec<_> = calls.collect();
            calls
                .into_iter()
                .map(|(call, store, notes)| Part { store, notes, result: call.join().unwrap() })
                .collect()
        })
    }
}

/// The record of the first part, which has rank 0; the others have none and were told nothing.
fn record(parts: &[Part]) -> &RunRecord {
    for part in &parts[1..] {
        assert_eq!(part.result.as_ref().unwrap(), &None);
        assert_eq!(part.notes.told(), [""; 0]);
    }
    parts[0].result.as_ref().unwrap().as_ref().unwrap()
}

fn keys(parts: &[Part]) -> Vec<ObjectKey> {
    let mut keys: Vec<_> = parts.iter().flat_map(|part| part.store.seen().keys.clone()).collect();
    keys.sort();
    keys
}

#[test]
fn however_ranks_are_put_into_processes_they_read_the_same_and_count_the_same() {
    let options = [
        "dataset.num_files_train=48",
        "dataset.num_files_eval=8",
        "reader.batch_size=2",
        "reader.batch_size_eval=1",
        "reader.file_shuffle=seed",
        "train.epochs=2",
        "workflow.evaluation=true",
        "evaluation.eval_time=0",
    ];
    let setting = Setting::new(&options);
    let alone = setting.play(&[4]);
    for layout in [&[2, 2][..], &[1, 1, 1, 1], &[1, 3]] {
        let parts = setting.play(layout);
        assert_eq!(keys(&parts), keys(&alone), "{layout:?}");
        let (run, whole) = (record(&parts), record(&alone));
        assert_eq!(run.requests.gets, 2 * (48 + 8));
        assert_eq!(run.requests, whole.requests);
        for (epoch, of_whole) in run.epochs.iter().zip(&whole.epochs) {
            for (rank, of_whole) in epoch.ranks.iter().zip(&of_whole.ranks) {
                assert_eq!((rank.rank, rank.bytes), (of_whole.rank, of_whole.bytes));
                let evaluated = rank.evaluation.as_ref().unwrap().samples;
                assert_eq!((rank.samples, evaluated), (12, 2));
            }
            assert!(epoch_wall_au_percent(epoch).is_some());
        }
        assert_eq!(run.epochs[1].ranks.len(), 4);
        assert_eq!(parts[0].notes.told(), alone[0].notes.told());
    }
}

#[test]
fn processes_agree_on_a_random_order() {
    let options = [
        "dataset.num_files_train=64",
        "reader.batch_size=2",
        "reader.file_shuffle=random",
        "reader.sample_shuffle=random",
    ];
    let parts = Setting::new(&options).play(&[2, 2]);
    record(&parts);
    let mut once = keys(&parts);
    once.dedup();
    assert_eq!((once.len(), keys(&parts).len()), (64, 64));
}

#[test]
fn the_record_names_the_processes_and_adds_up_what_they_used() {
    let parts = Setting::new(&["dataset.num_files_train=24", "reader.batch_size=2"]).play(&[1, 2]);
    let run = record(&parts);
    let processes: Vec<_> = run
        .processes
        .iter()
        .map(|process| (process.first_rank, process.ranks, process.host.as_str()))
        .collect();
    assert_eq!(processes, [(0, 1, "host-0"), (1, 2, "host-1")]);
    let [one, other] = &run.processes[..] else { panic!("two processes") };
    assert!(one.usage.peak_rss.0 > 0);
    assert_eq!(run.process, one.usage.and(other.usage));
    let hosts: Vec<_> = run.epochs[0].ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert_eq!(hosts, ["host-0", "host-1", "host-1"]);
}

#[test]
fn each_process_has_a_budget_that_its_own_ranks_share() {
    let options = [
        "dataset.num_files_train=400",
        "reader.batch_size=2",
        "reader.read_threads=2",
        "reader.prefetch_size=2",
        "storage.storage_options.prefetch_window=4",
    ];
    // Windows and ready batches hold 12 files of a rank at most.
    for (layout, files) in [(&[4][..], 4 * 5), (&[2, 2], 4 * 10), (&[1, 3], 12 + 3 * 6)] {
        let setting = Setting { budget_in_files: Some(20), ..Setting::new(&options) };
        let parts = setting.play(layout);
        let share = record(&parts).window_share_of_epoch;
        assert!((share - f64::from(files) / 400.0).abs() < 1e-9, "{share} with {layout:?}");
    }
}

#[test]
fn a_failed_read_ends_the_other_processes_with_its_cause() {
    let options = [
        "dataset.num_files_train=40",
        "reader.batch_size=2",
        "train.computation_time=0.02",
        IN_ORDER[0],
        IN_ORDER[1],
    ];
    let missing = key(30, 40);
    let failing = |store: WatchedStore, _| {
        let missing = missing.clone();
        store.failing(move |key, _| *key == missing).delayed(|_, _| 20 * MILLI)
    };
    let start = Instant::now();
    let parts = Setting { watch: &failing, ..Setting::new(&options) }.play(&[2, 2]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let error = parts[0].result.as_ref().unwrap_err();
    let RunError::Elsewhere(aborted) = error else { panic!("{error:?}") };
    assert_eq!(aborted.rank, 3);
    for part in ["rank 3", missing.as_str(), "does not exist"] {
        assert!(error.to_string().contains(part), "no {part:?} in {error}");
    }
    let own = parts[1].result.as_ref().unwrap_err();
    assert!(matches!(own, RunError::Load { rank: 3, .. }), "{own:?}");
}

#[test]
fn results_that_cannot_be_written_end_the_processes_that_write_none() {
    let options = ["dataset.num_files_train=24", "reader.batch_size=2", "train.epochs=3"];
    let parts = Setting { refuses: Some(2), ..Setting::new(&options) }.play(&[1, 2]);
    assert!(matches!(parts[0].result, Err(RunError::Observer(_))), "{:?}", parts[0].result);
    let error = parts[1].result.as_ref().unwrap_err().to_string();
    assert_eq!(error, "rank 0 failed: the disk is full");
    assert_eq!(keys(&parts).len(), 2 * 24);
}

#[test]
fn the_page_cache_of_every_node_is_emptied_and_one_that_stays_full_is_named() {
    let options = ["dataset.num_files_train=24", "reader.batch_size=2", "train.epochs=2"];
    let caches = |_: &Job, number| {
        let drop = if number == 0 { "true" } else { "echo 'no such right' >&2; exit 1" };
        scripted("true", drop, Duration::from_secs(20))
    };
    let setting = Setting { page_cache: &caches, ..Setting::new(&options) };
    let parts = setting.play(&[2, 2]);
    let not_dropped = Some("on host-1: no such right".to_owned());
    let expected = CacheDrops { not_dropped, ..CacheDrops::default() };
    assert_eq!(record(&parts).cache_drops, expected);
    let warnings: Vec<_> =
        parts[0].notes.told().into_iter().filter(|line| line.starts_with("warning")).collect();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("warning: on host-1: the page cache is not dropped"), "{warning}");

    let parts = Setting { one_node: true, ..setting }.play(&[2, 2]);
    let expected = CacheDrops { dropped: 2, ..CacheDrops::default() };
    assert_eq!(record(&parts).cache_drops, expected);
}

#[test]
fn reads_of_the_last_rank_to_evaluate_are_counted_in_the_same_epoch() {
    let options = [
        "dataset.num_files_train=8",
        "dataset.num_files_eval=8",
        "reader.batch_size=2",
        "reader.batch_size_eval=1",
        "reader.read_threads=0",
        "workflow.evaluation=true",
        "evaluation.eval_time=0",
        IN_ORDER[0],
        IN_ORDER[1],
    ];
    let last = |store: WatchedStore, _| {
        let late: BTreeSet<_> =
            (4..8).map(|file| ObjectKey::new(format!("valid/img_{file}_of_8.npz"))).collect();
        store.delayed(move |key, _| if late.contains(key) { 20 * MILLI } else { Duration::ZERO })
    };
    let parts = Setting { watch: &last, ..Setting::new(&options) }.play(&[2]);
    assert_eq!(record(&parts).requests.gets, 16);
}
