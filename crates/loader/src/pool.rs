//! Buffers that files land in, used again and again so that steady state allocates nothing and
//! touches memory that is still in cache where it can.

use std::sync::{Arc, Mutex, PoisonError};

use feedrate_metrics::units::ByteCount;

/// A free list of buffers, shared by the ranks of a process.
///
/// It holds no more buffers than were ever in use at once, which the loaders' byte budgets bound.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An empty buffer with room for `capacity` bytes: the one given back last, or a new one in its
    /// place when that is too small.
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let last = self.lock().pop();
        last.filter(|buffer| buffer.capacity() >= capacity)
            .unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Gives `buffer` back.
    pub fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.lock().push(buffer);
    }

    /// Capacity of the buffers that nobody uses now.
    pub fn idle(&self) -> ByteCount {
        ByteCount(self.lock().iter().map(|buffer| buffer.capacity() as u64).sum())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_given_back_last_is_used_again_and_empty() {
        let pool = BufferPool::new();
        pool.put(Vec::with_capacity(100));
        let mut last = Vec::with_capacity(100);
        last.extend_from_slice(b"left over");
        let address = last.as_ptr();
        pool.put(last);
        let again = pool.take(100);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert_eq!(pool.idle(), ByteCount(100));
    }

    #[test]
    fn a_buffer_that_is_too_small_makes_way_for_one_of_the_right_size() {
        let pool = BufferPool::new();
        pool.put(Vec::with_capacity(100));
        assert_eq!(pool.take(150).capacity(), 150);
        assert_eq!(pool.idle(), ByteCount(0));
    }
}
