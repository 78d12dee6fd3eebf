use feedrate_metrics::record::WaitParts;
use feedrate_storage::{Fetched, Listed, StoreError};
use futures::future::BoxFuture;
use tokio::time::sleep;

use super::*;
use crate::batch::Course;

/// What passes before an attempt succeeds, then before its first byte, then before its last.
type Delays = [Duration; 3];

/// The files of another store, which come by these delays and tell of them.
#[derive(Debug)]
struct Slow {
    files: Arc<WatchedStore>,
    delays: fn(&ObjectKey) -> Delays,
}

impl Store for Slow {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let [before, first_byte, transfer] = (self.delays)(key);
            sleep(before).await;
            let sent = tokio::time::Instant::now();
            sleep(first_byte).await;
            let first_byte = sent.elapsed();
            let fetched = self.files.get(key, range, into).await?;
            sleep(transfer).await;
            Ok(Fetched { first_byte, last_byte: sent.elapsed(), ..fetched })
        })
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
        self.files.location()
    }
}

const DELAYS: Delays =
    [Duration::from_millis(30), Duration::from_millis(40), Duration::from_millis(50)];

/// Files in ascending order behind these delays.
fn slow(options: &[&str], delays: fn(&ObjectKey) -> Delays) -> Rig {
    let mut rig = Rig::new(&in_order(options), 1);
    let files = Arc::clone(&rig.store);
    Arc::get_mut(&mut rig.source).unwrap().store = Arc::new(Slow { files, delays });
    rig
}

/// The parts of a wait for the next batch that began with the epoch, by the clock of the runtime, up to
/// the moment at which the batch was there. In ms: queued for the window and for a turn, retries, first
/// byte, transfer.
fn first_wait(rig: &Rig) -> [i64; 5] {
    let began = rig.now().into_std();
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    match loader.next_batch().unwrap().course {
        Course::Last(timeline) => in_millis(&timeline.cut(began, timeline.done)),
        Course::All(parts) => in_millis(&parts),
    }
}

fn in_millis(parts: &WaitParts) -> [i64; 5] {
    let WaitParts { queued_for_window, queued_for_turn, retries, first_byte, transfer, .. } =
        *parts;
    [queued_for_window, queued_for_turn, retries, first_byte, transfer]
        .map(|part| part.millis().round() as i64)
}

#[test]
fn of_files_that_come_side_by_side_the_last_one_tells_the_wait() {
    let delays =
        |key: &ObjectKey| if index(key) == 2 { DELAYS.map(|delay| 2 * delay) } else { DELAYS };
    let rig = slow(&["dataset.num_files_train=8", "reader.batch_size=4"], delays);
    assert_eq!(first_wait(&rig), [0, 0, 60, 80, 100]);
}

#[test]
fn a_file_that_waits_for_a_place_in_the_window_is_queued() {
    let options = [
        "dataset.num_files_train=8",
        "reader.batch_size=4",
        "reader.read_threads=1",
        "storage.storage_options.prefetch_window=1",
    ];
    assert_eq!(first_wait(&slow(&options, |_| DELAYS)), [3 * 120, 0, 30, 40, 50]);
}

#[test]
fn a_file_that_waits_for_its_turn_is_queued() {
    let options = ["dataset.num_files_train=8", "reader.batch_size=4"];
    let mut rig = slow(&options, |_| DELAYS);
    // Two at a time, once first batches are there.
    rig.turns = Turns::auto(1, Demand::endless(2));
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    let first = loader.next_batch().unwrap().course;
    let second = loader.next_batch().unwrap().course;
    let (Course::Last(first), Course::Last(second)) = (first, second) else {
        panic!("they came side by side")
    };
    let parts = second.cut(first.done, second.done);
    assert_eq!(in_millis(&parts), [0, 120, 30, 40, 50]);
}

#[test]
fn files_that_come_one_after_the_other_all_count() {
    let options = ["dataset.num_files_train=8", "reader.batch_size=4", "reader.read_threads=0"];
    let rig = slow(&options, |_| DELAYS);
    assert_eq!(first_wait(&rig), [0, 0, 4 * 30, 4 * 40, 4 * 50]);
}

#[test]
fn of_a_piece_that_comes_by_ranges_those_count_that_the_last_one_waited_for() {
    let options = [
        "dataset.num_files_train=2",
        "dataset.record_length_bytes=1000000",
        "storage.storage_options.range_size=100000",
        "reader.batch_size=1",
    ];
    // Ten of them and a little, eight at a time.
    assert_eq!(first_wait(&slow(&options, |_| DELAYS)), [0, 0, 60, 80, 100]);
}

#[test]
fn a_file_that_waits_for_the_rest_of_its_chunk_waits_for_the_store() {
    let options = [
        "dataset.num_files_train=8",
        "reader.batch_size=1",
        "reader.read_threads=1",
        "reader.pipeline=chunked",
        "storage.storage_options.prefetch_window=4",
    ];
    let delays = |key: &ObjectKey| if index(key) == 3 { DELAYS } else { [Duration::ZERO; 3] };
    assert_eq!(first_wait(&slow(&options, delays)), [0, 0, 30, 40, 50]);
}

#[test]
fn what_readers_do_with_samples_is_work_and_all_parts_add_up() {
    for readers in [0, 2] {
        let readers = format!("reader.read_threads={readers}");
        let options = ["dataset.num_files_train=8", "reader.batch_size=4", &readers];
        let rig = Rig::new(&[&options[..], &["reader.preprocess_time=0.02"]].concat(), 1);
        let mut loader = rig.loader();
        let began = Instant::now();
        rig.start(&mut loader, 0);
        let batch = loader.next_batch().unwrap();
        let wait = Seconds::from(began.elapsed());
        let parts = batch.waited(wait);
        assert!(parts.work.0 >= 0.08 * 0.99, "{parts:?} of {wait:?}");
        assert!((parts.total() - wait).0.abs() < 1e-9, "{parts:?} of {wait:?}");
    }
}
