//! Where the threads of one process wait for each other.
//!
//! They meet at a word of memory that the kernel can wait on (a futex): whoever comes last changes
//! it and wakes the others, who then run without taking a lock, so that no rank that is slow to get a
//! CPU back holds up the rest.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::Aborted;

/// Set in the word once a rank has failed.
const ABORTED: u32 = 1;
/// What a completed meeting adds to the word, above that bit. It may wrap around: nobody is ever more
/// than one meeting behind.
const MEETING: u32 = 2;

/// A barrier of the threads of one process that a failure can end.
#[derive(Debug)]
pub(crate) struct Meeting {
    size: u32,
    /// Threads that have come to the meeting that is going on.
    arrived: AtomicU32,
    /// How many meetings are over, and whether a rank has failed.
    word: AtomicU32,
    /// Set before the word says so.
    aborted: OnceLock<Aborted>,
}

impl Meeting {
    /// # Panics
    /// When `size` is 0.
    pub(crate) fn new(size: u32) -> Self {
        assert!(size > 0, "a world has at least one rank");
        Self { size, arrived: AtomicU32::new(0), word: AtomicU32::new(0), aborted: OnceLock::new() }
    }

    /// How many threads meet.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Waits until all threads are here and the last one to come has done `work`. When `work` fails,
    /// the meeting is over for ever.
    pub(crate) fn meet(&self, work: impl FnOnce() -> Result<(), Aborted>) -> Result<(), Aborted> {
        let before = self.word.load(Ordering::Acquire);
        self.check(before)?;
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            if let Err(aborted) = work() {
                self.abort(aborted.clone());
                return Err(aborted);
            }
            // In this order: whoever sees the new word may come to the next meeting at once.
            self.arrived.store(0, Ordering::Relaxed);
            self.word.fetch_add(MEETING, Ordering::AcqRel);
            self.wake_all();
            return Ok(());
        }
        loop {
            let now = self.word.load(Ordering::Acquire);
            if (now ^ before) & !ABORTED != 0 {
                return Ok(());
            }
            self.check(now)?;
            // Returns at once when the word is not `now` any more; any other early return is as good.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, now, None);
        }
    }

    fn check(&self, word: u32) -> Result<(), Aborted> {
        match self.aborted.get() {
            Some(aborted) if word & ABORTED != 0 => Err(aborted.clone()),
            _ => Ok(()),
        }
    }

    /// Ends this and every later meeting with `aborted`. Only the first call counts.
    pub(crate) fn abort(&self, aborted: Aborted) {
        let _ = self.aborted.set(aborted);
        self.word.fetch_or(ABORTED, Ordering::AcqRel);
        self.wake_all();
    }

    fn wake_all(&self) {
        // The word is valid memory, so this cannot fail.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}
