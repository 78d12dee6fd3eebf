use super::*;

/// Files of batch 2 in ascending order, read in chunks.
fn chunked<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let pipeline = ["reader.pipeline=chunked", "reader.batch_size=2"];
    in_order(&[&pipeline[..], options].concat())
}

const ALL_AT_ONCE: &str = "storage.storage_options.stagger_workers=false";

impl Rig {
    /// Notes when each file is asked for, from now on.
    fn times(&self) -> Arc<Mutex<Vec<(u64, Duration)>>> {
        let (begun, times) = (self.now(), Arc::new(Mutex::new(Vec::new())));
        let (store, noted) = (Arc::downgrade(&self.store), Arc::clone(&times));
        self.store.at_each_get(move || {
            let file = store.upgrade().map(|store| index(store.seen().keys.last().unwrap()));
            noted.lock().unwrap().push((file.unwrap(), begun.elapsed()));
        });
        times
    }
}

#[test]
fn a_reader_has_a_chunk_in_flight_but_never_more_than_64() {
    for (readers, window, expected) in [(1, 5, 5), (1, 64, 64), (1, 256, 64), (2, 100, 128)] {
        let readers = format!("reader.read_threads={readers}");
        let window = format!("storage.storage_options.prefetch_window={window}");
        let options = chunked(&["dataset.num_files_train=600", &readers, &window, ALL_AT_ONCE]);
        let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        rig.take_all(&mut loader, 0);
        assert_eq!(rig.store.seen().highest, expected, "{readers}, {window}");
    }
}

#[test]
fn the_next_chunk_is_asked_for_when_the_use_of_one_begins_and_never_one_more() {
    let options = chunked(&[
        "dataset.num_files_train=20",
        "reader.read_threads=1",
        "reader.prefetch_size=1",
        "storage.storage_options.prefetch_window=4",
    ]);
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    // One batch may wait, so a chunk of two is in use until the rank has taken its first.
    for (taken, asked) in [8, 8, 12, 12, 16, 16, 20, 20, 20].into_iter().enumerate() {
        rig.runtime.pass(SETTLED);
        assert_eq!(rig.asked_for(), rig.keys(0..asked), "{taken} batches taken");
        loader.next_batch().unwrap();
    }
}

#[test]
fn no_file_of_a_chunk_is_used_before_all_of_it_has_landed() {
    let options = chunked(&[
        "dataset.num_files_train=24",
        "reader.read_threads=1",
        "storage.storage_options.prefetch_window=8",
    ]);
    let stuck = |key: &ObjectKey| if index(key) == 7 { NEVER } else { MILLI };
    let rig = Rig::with_store(&options, 1, |store| store.delayed(move |key, _| stuck(key)));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(SETTLED);
    // Its use would begin with asking for the next.
    assert_eq!(rig.asked_for(), rig.keys(0..8));
    assert_eq!(rig.store.seen().in_flight, 1);
}

#[test]
fn readers_make_batches_in_turn_and_take_chunks_of_their_own_files() {
    let options = chunked(&[
        "dataset.num_files_train=48",
        "reader.read_threads=3",
        "reader.prefetch_size=1",
        "storage.storage_options.prefetch_window=4",
        ALL_AT_ONCE,
    ]);
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| NEVER));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(SETTLED);
    // Batches 0 and 3 are the first reader's first chunk, 1 and 4 the second's, 2 and 5 the third's.
    assert_eq!(rig.asked_for(), rig.keys(0..12));
}

#[test]
fn a_reader_that_is_ahead_goes_on_although_batches_of_others_are_missing() {
    let options = chunked(&[
        "dataset.num_files_train=48",
        "reader.read_threads=2",
        "reader.prefetch_size=2",
        "storage.storage_options.prefetch_window=2",
        ALL_AT_ONCE,
    ]);
    let stuck = |key: &ObjectKey| if index(key) == 0 { NEVER } else { MILLI };
    let rig = Rig::with_store(&options, 1, |store| store.delayed(move |key, _| stuck(key)));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(SETTLED);
    // The second reader has made batch 1, its share of the ready bound, and has batch 3 at hand.
    assert_eq!(rig.asked_for(), rig.keys([0, 1, 2, 3, 6, 7]));
}

#[test]
fn readers_start_one_computation_after_the_other_in_every_epoch() {
    let options = [
        "dataset.num_files_train=48",
        "reader.read_threads=3",
        "storage.storage_options.prefetch_window=4",
        "train.computation_time=0.05",
    ];
    let first_asked = |more: &[&str]| {
        let options = chunked(&[&options[..], more].concat());
        let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        let mut loader = rig.loader();
        let times = rig.times();
        let mut epochs = Vec::new();
        for _ in 0..2 {
            let begun = rig.now();
            rig.start(&mut loader, 0);
            rig.runtime.pass(SETTLED);
            loader.end_epoch();
            let asked = std::mem::take(&mut *times.lock().unwrap());
            let at = |file| asked.iter().find(|(asked, _)| *asked == file).unwrap().1.as_millis();
            epochs.push([0, 2, 4, 12].map(|file| at(file) - asked[0].1.as_millis()));
            assert!(rig.now() - begun >= SETTLED);
        }
        epochs
    };
    // File 12 begins the second chunk of the first reader: it has made its first batch by then,
    // whether or not others have started.
    for [first, second, third, next_chunk] in first_asked(&[]) {
        assert_eq!((first, second, third), (0, 50, 100));
        assert!(next_chunk < 10, "{next_chunk} ms");
    }
    for [first, second, third, _] in first_asked(&[ALL_AT_ONCE]) {
        assert_eq!((first, second, third), (0, 0, 0));
    }
}

#[test]
fn nobody_waits_for_other_ranks_first_batches() {
    let options = chunked(&["dataset.num_files_train=64", "reader.read_threads=2", ALL_AT_ONCE]);
    // Rank 1's files do not come.
    let rig = Rig::with_store(&options, 2, |store| {
        store.delayed(|key, _| if index(key) < 32 { MILLI } else { NEVER })
    });
    let mut loaders = [rig.loader(), rig.loader()];
    for (loader, rank) in loaders.iter_mut().zip(0..) {
        rig.start(loader, rank);
    }
    rig.take_all(&mut loaders[0], 0);
}

#[test]
fn both_pipelines_make_the_same_batches_of_the_same_samples() {
    let read = |pipeline: &str| {
        let options = ["dataset.num_files_train=145", "reader.batch_size=16", pipeline];
        let rig = Rig::with_store(&options, 3, |store| store.delayed(|_, _| MILLI));
        assert_eq!(rig.schedule.steps, 3);
        let mut loaders = [rig.loader(), rig.loader(), rig.loader()];
        for (loader, rank) in loaders.iter_mut().zip(0..) {
            rig.start(loader, rank);
        }
        let batches: Vec<Vec<Vec<u8>>> = loaders
            .iter_mut()
            .flat_map(|loader| std::iter::from_fn(move || loader.next_batch().ok()))
            .map(|batch| batch.buffers().map(<[u8]>::to_vec).collect())
            .collect();
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 144);
        (batches, rig.store.asked())
    };
    let sliding = read("reader.pipeline=sliding");
    let chunked = read("reader.pipeline=chunked");
    assert_eq!(sliding.0.len(), 9);
    assert!(sliding.0 == chunked.0, "the same batches in the same order");
    assert_eq!(sliding.1, chunked.1);
    assert!(chunked.1.values().all(|&times| times == 1));
}

#[test]
fn a_chunk_beyond_the_budget_is_fetched_as_room_allows() {
    let options = chunked(&[
        "dataset.num_files_train=96",
        "dataset.record_length_bytes=262144",
        "reader.read_threads=2",
        ALL_AT_ONCE,
    ]);
    for files in [0, 5, 8, 20] {
        let mut rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        rig.process_budget = ByteCount(files * rig.file_bytes());
        let mut loader = rig.loader();
        let highest = rig.highest_held(&loader);
        rig.start(&mut loader, 0);
        for _ in 0..rig.schedule.steps {
            let batch = loader.next_batch().unwrap();
            rig.runtime.pass(SETTLED);
            drop(batch);
        }
        let highest = highest.load(Ordering::Relaxed) / rig.file_bytes();
        assert!((4..=files.max(4)).contains(&highest), "{highest} with room for {files}");
        assert!(files < 20 || highest >= 16, "{highest} with room for {files}");
        assert_eq!(rig.held(&loader), 0);
        let asked_for = rig.asked_for();
        for reader in 0..2 {
            let own = asked_for.iter().map(index).filter(|file| file / 2 % 2 == reader);
            assert!(own.is_sorted(), "in order with room for {files} files");
        }
    }
}
