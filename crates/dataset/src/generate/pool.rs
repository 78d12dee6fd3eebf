//! The memory of generation: buffers that go round, and permits that bound how many there are.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Permits to hold a buffer in memory, and the buffers.
pub(super) struct Pool {
    state: Mutex<PoolState>,
    permit_back: Condvar,
    most: usize,
}

struct PoolState {
    permits: usize,
    free: Vec<Vec<u8>>,
    closed: bool,
}

/// Permission to hold one buffer in memory, given back on drop.
pub(super) struct Permit(Arc<Pool>);

/// A buffer that goes back to the pool on drop.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(permits: usize) -> Self {
        let state = PoolState { permits, free: Vec::new(), closed: false };
        Self { state: Mutex::new(state), permit_back: Condvar::new(), most: permits }
    }

    /// The state stays whole whatever panics beside it.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. `None` once the pool is closed.
    pub(super) fn permit(self: &Arc<Self>) -> Option<Permit> {
        let wanting = |state: &mut PoolState| state.permits == 0 && !state.closed;
        let waited = self.permit_back.wait_while(self.state(), wanting);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.permits -= 1;
        Some(Permit(Arc::clone(self)))
    }

    /// An empty buffer: a used one, or a new one if none came back.
    pub(super) fn buffer(self: &Arc<Self>) -> Buffer {
        let mut bytes = self.state().free.pop().unwrap_or_default();
        bytes.clear();
        Buffer { bytes, pool: Arc::clone(self) }
    }

    /// Whether nobody gets a permit any more.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Gives no more permits.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.permit_back.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().permits += 1;
        self.0.permit_back.notify_one();
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.pool.state();
        // A store that kept many and lets go of them all at once must not fill the pool.
        if state.free.len() < self.pool.most {
            state.free.push(bytes);
        }
    }
}
