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

    /// An empty buffer: the one given back last, or a new one with room for `capacity` bytes.
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let reused = self.lock().pop();
        match reused {
            Some(mut buffer) => {
                buffer.reserve(capacity);
                buffer
            }
            None => Vec::with_capacity(capacity),
        }
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
