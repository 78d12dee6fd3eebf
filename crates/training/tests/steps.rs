//! What a step of a training costs the thread of its rank.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

use feedrate_loader::testing::{WatchedStore, source, workload};
use feedrate_metrics::record::RunRecord;
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::ByteCount;
use feedrate_ranks::spinning::Spinning;
use feedrate_ranks::{Aborted, World, in_process};
use feedrate_training::{Job, Observer, Progress, run};
use feedrate_workload::{Schedule, Split};

/// The system's, which counts for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has none any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A rank that notes in each barrier how often its thread has allocated until then.
#[derive(Debug)]
struct Watched {
    rank: in_process::Rank,
    allocations: Arc<Mutex<Vec<u64>>>,
}

impl World for Watched {
    fn rank(&self) -> u32 {
        self.rank.rank()
    }

    fn size(&self) -> u32 {
        self.rank.size()
    }

    fn leads_node(&self) -> bool {
        self.rank.leads_node()
    }

    fn spinning(&self) -> &Arc<Spinning> {
        self.rank.spinning()
    }

    fn barrier(&self) -> Result<(), Aborted> {
        self.allocations.lock().unwrap().push(ALLOCATIONS.get());
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

struct Nobody;

impl Observer for Nobody {
    fn epoch_starts(&self, _: u32, _: u64) {}

    fn warned(&self, _: &str) {}

    fn epoch_ended(&self, _: &RunRecord) -> Result<(), String> {
        Ok(())
    }
}

/// How often each of two ranks allocates from one barrier to the next, in an epoch of 200 steps.
fn allocations_of_steps(payload: &str) -> Vec<Vec<u64>> {
    let workload = workload(&[
        "dataset.num_files_train=1600",
        "reader.batch_size=4",
        "reader.read_threads=2",
        "train.computation_time=0.0005",
        "train.epochs=1",
        "storage.drop_caches=never",
        payload,
    ]);
    let store = Arc::new(WatchedStore::holding(&workload));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let job = Job {
        schedule: Schedule::new(&workload, 2).unwrap(),
        source: source(&workload, Split::Train, &store, false),
        evaluation: None,
        requests: Arc::new(RequestStats::new()),
        byte_budget: ByteCount(1 << 26),
        co_located: false,
        host: "vm".to_owned(),
        runtime: runtime.handle().clone(),
        workload,
    };
    let notes: Vec<_> = (0..2).map(|_| Arc::new(Mutex::new(Vec::with_capacity(1024)))).collect();
    let worlds = in_process::world(2)
        .into_iter()
        .zip(&notes)
        .map(|(rank, notes)| Watched { rank, allocations: Arc::clone(notes) })
        .collect();
    run(job, worlds, Arc::new(Nobody), Arc::new(Progress::default())).unwrap();
    let steps = |notes: &Arc<Mutex<Vec<u64>>>| {
        let notes = notes.lock().unwrap();
        // The first barrier is that before the clock starts; then there is one in each step.
        assert!(notes.len() > 201, "{}", notes.len());
        notes[..201].windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    notes.iter().map(steps).collect()
}

#[test]
fn a_step_allocates_nothing() {
    // The first ones may find the loader's lists still growing.
    let later = |steps: Vec<u64>| steps[20..].to_vec();
    for steps in allocations_of_steps("reader.payload=discard").into_iter().map(later) {
        assert!(steps.iter().all(|allocations| *allocations == 0), "{steps:?}");
    }
    // Buffers that come back at once may be more than ever did, so the list of them still grows.
    for steps in allocations_of_steps("reader.payload=land").into_iter().map(later) {
        let without = steps.iter().filter(|allocations| **allocations == 0).count();
        assert!(10 * without > 9 * steps.len(), "{steps:?}");
    }
}
