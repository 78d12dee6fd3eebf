//! How often, and for how many bytes, this process asks for memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Requests for memory, of all threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allocations<N> {
    /// How many; making a block larger or smaller is one.
    pub(crate) count: N,
    /// Bytes asked for.
    pub(crate) bytes: N,
}

impl Allocations<usize> {
    /// What `work` returns, and what was allocated meanwhile.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let now = || Self { count: COUNT.load(Relaxed), bytes: BYTES.load(Relaxed) };
        let before = now();
        COUNTING.store(true, Relaxed);
        let worked = work();
        COUNTING.store(false, Relaxed);
        let after = now();
        (worked, Self { count: after.count - before.count, bytes: after.bytes - before.bytes })
    }

    /// The average of `many`.
    pub(crate) fn per(self, many: usize) -> Allocations<f64> {
        Allocations {
            count: self.count as f64 / many as f64,
            bytes: self.bytes as f64 / many as f64,
        }
    }
}

/// The system's allocator. It counts only while it is asked to, since counters that all threads share
/// would cost a client that allocates often some of its speed.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

fn note(bytes: usize) {
    if COUNTING.load(Relaxed) {
        COUNT.fetch_add(1, Relaxed);
        BYTES.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps this method's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
