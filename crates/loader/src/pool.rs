//! Buffers that files land in, used again and again so that steady state allocates nothing and
//! touches memory that is still in cache where it can.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedrate_metrics::units::ByteCount;

/// Free buffers, shared by the ranks of a process, those of about one size together: what is read of a
/// file may be a few KiB or many MiB, and a large buffer must not be taken for little.
///
/// Free buffers and those in use never take more memory than buffers in use once did, which the
/// loaders' byte budgets bound.
#[derive(Debug, Default)]
pub struct BufferPool(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the power of two that their capacity reaches.
    free: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Their capacity together.
    idle: usize,
    /// The capacity of those in use.
    used: usize,
    /// The most that ever was in use.
    most: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An empty buffer with room for `capacity` bytes: of those of this size the one given back last,
    /// or a new one in its place when that is too small.
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let last = {
            let mut state = self.lock();
            let last = state.take(size(capacity));
            // A new one has just as much as is asked for.
            state.lend(last.as_ref().map_or(0, Vec::capacity).max(capacity));
            last
        };
        last.filter(|buffer| buffer.capacity() >= capacity)
            .unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Gives `buffer` back.
    pub fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let unwanted = self.lock().put(buffer);
        // Memory goes back to the system when nobody waits for the pool.
        drop(unwanted);
    }

    /// Capacity of the buffers that nobody uses now.
    pub fn idle(&self) -> ByteCount {
        ByteCount(self.lock().idle as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, size: u32) -> Option<Vec<u8>> {
        let buffer = self.free.get_mut(&size)?.pop()?;
        self.idle -= buffer.capacity();
        Some(buffer)
    }

    fn lend(&mut self, capacity: usize) {
        self.used += capacity;
        self.most = self.most.max(self.used);
    }

    /// Keeps `buffer`, and hands back what there is more than was ever needed: buffers of other sizes,
    /// which nobody wants any more, or this one.
    fn put(&mut self, buffer: Vec<u8>) -> Vec<Vec<u8>> {
        let capacity = buffer.capacity();
        // A buffer may have grown.
        self.used = self.used.saturating_sub(capacity);
        if capacity == 0 {
            return Vec::new();
        }
        let own = size(capacity);
        self.free.entry(own).or_default().push(buffer);
        self.idle += capacity;
        let mut unwanted = Vec::new();
        while self.idle + self.used > self.most {
            let others = self.free.iter().filter(|(size, free)| **size != own && !free.is_empty());
            let size = others.map(|(size, _)| *size).next().unwrap_or(own);
            let Some(buffer) = self.take(size) else { break };
            unwanted.push(buffer);
        }
        unwanted
    }
}

/// The power of two that `capacity` reaches.
fn size(capacity: usize) -> u32 {
    capacity.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that has buffers of these capacities.
    fn pool(capacities: &[usize]) -> Arc<BufferPool> {
        let pool = BufferPool::new();
        let taken: Vec<_> = capacities.iter().map(|&capacity| pool.take(capacity)).collect();
        for buffer in taken {
            pool.put(buffer);
        }
        pool
    }

    #[test]
    fn the_buffer_given_back_last_is_used_again_and_empty() {
        let pool = BufferPool::new();
        let (first, mut last) = (pool.take(100), pool.take(100));
        pool.put(first);
        last.extend_from_slice(b"left over");
        let address = last.as_ptr();
        pool.put(last);
        let again = pool.take(100);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert_eq!(pool.idle(), ByteCount(100));
    }

    #[test]
    fn a_buffer_that_is_too_small_makes_way_for_one_of_the_right_size() {
        let pool = pool(&[100]);
        assert_eq!(pool.take(120).capacity(), 120);
        assert_eq!(pool.idle(), ByteCount(0));
    }

    #[test]
    fn a_large_buffer_is_not_taken_for_little() {
        let pool = pool(&[1 << 20]);
        assert_eq!(pool.take(5000).capacity(), 5000);
        assert_eq!(pool.idle(), ByteCount(1 << 20));
        assert_eq!(pool.take(1 << 20).capacity(), 1 << 20);
        assert_eq!(pool.idle(), ByteCount(0));
    }

    #[test]
    fn no_more_is_kept_than_was_ever_in_use() {
        let pool = BufferPool::new();
        for size in [1000, 10_000, 100_000, 1000, 50_000] {
            for _ in 0..3 {
                pool.put(pool.take(size));
            }
        }
        // The last size is there, and no more than the largest ever took.
        assert_eq!(pool.take(50_000).capacity(), 50_000);
        assert!(pool.idle() <= ByteCount(50_000));
        // Buffers of another origin are no reason to keep more.
        pool.put(Vec::with_capacity(100_000));
        assert!(pool.idle() <= ByteCount(100_000));
    }
}
