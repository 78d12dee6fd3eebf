//! The queue between the feeder and the rank's thread: complete batches, in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Instant;

use futures::task::AtomicWaker;

use crate::batch::Batch;
use crate::source::LoadError;

/// Batches that wait for the rank. The feeder bounds them, see [`crate::Limits::ready_batches`].
#[derive(Debug, Default)]
pub(crate) struct Ready {
    state: Mutex<State>,
    changed: Condvar,
    /// Batches that the rank has taken, and who is told when it takes one.
    taken: AtomicU64,
    feeder: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the moment from which it is ready, where that is not at once.
    batches: VecDeque<(Batch, Option<Instant>)>,
    /// What the rank has given back.
    used: Vec<Batch>,
    waits: u64,
    failed: Option<LoadError>,
}

impl Ready {
    /// `ready` is the moment from which the batch may be taken, if not at once.
    pub(crate) fn push(&self, batch: Batch, ready: Option<Instant>) {
        self.lock().batches.push_back((batch, ready));
        self.changed.notify_one();
    }

    /// Ends the epoch for the rank: what is ready is still handed out, then the error.
    pub(crate) fn fail(&self, error: LoadError) {
        self.lock().failed.get_or_insert(error);
        self.changed.notify_one();
    }

    /// Leaves a batch that the rank has used to the feeder, to be taken apart when the next one is
    /// taken.
    pub(crate) fn give_back(&self, batch: Batch) {
        self.lock().used.push(batch);
    }

    /// Takes apart what was given back. `emptied` is empty, and is kept by the caller so that its memory
    /// serves the next ones.
    pub(crate) fn take_apart(&self, emptied: &mut Vec<Batch>) {
        std::mem::swap(&mut self.lock().used, emptied);
        emptied.clear();
    }

    /// The next batch; blocks until there is one.
    pub(crate) fn take(&self) -> Result<Batch, LoadError> {
        let mut state = self.lock();
        if state.batches.is_empty() {
            state.waits += u64::from(self.taken() > 0);
            // The rank has time, and what it gave back may be what keeps the next batch waiting.
            let mut used = std::mem::take(&mut state.used);
            drop(state);
            used.clear();
            self.tell_feeder();
            state = self.lock();
            state.used = used;
        }
        loop {
            if let Some((batch, ready)) = state.batches.pop_front() {
                let left = ready.map(|ready| ready.saturating_duration_since(Instant::now()));
                if let Some(left) = left.filter(|left| !left.is_zero()) {
                    // There is one rank, so nobody else can take the batches behind this one.
                    drop(state);
                    thread::sleep(left);
                }
                self.taken.fetch_add(1, Ordering::Release);
                return Ok(batch);
            }
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the feeder see what was taken and given back. To wake it takes time, and perhaps the CPU, so
    /// this is for when the rank has nothing better to do.
    pub(crate) fn tell_feeder(&self) {
        self.feeder.wake();
    }

    /// Batches that the rank has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Returns when the rank has taken more than `taken` batches and told so. One task may wait at a time.
    pub(crate) async fn more_taken(&self, taken: u64) {
        poll_fn(|context| {
            self.feeder.register(context.waker());
            if self.taken() > taken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// How often the rank found no batch ready. Its first one it always waits for, so that does not
    /// count.
    pub(crate) fn waits(&self) -> u64 {
        self.lock().waits
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
