//! Where the threads of one process wait for each other.
//!
//! They meet at a word of memory that the kernel can wait on (a futex): whoever comes last changes
//! it and wakes the others, who then run without taking a lock, so that no rank that is slow to get a
//! CPU back holds up the rest. The kernel is asked only where somebody sleeps: where CPUs are idle,
//! those that wait look at the word for a while before they do ([`Spinning`]).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::thread::futex;

use crate::Aborted;
use crate::spinning::Spinning;

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
    /// Threads that sleep, or are about to look at the word for the last time before they do.
    asleep: AtomicU32,
    spinning: Arc<Spinning>,
    /// Set before the word says so.
    aborted: OnceLock<Aborted>,
}

impl Meeting {
    /// # Panics
    /// When `size` is 0.
    pub(crate) fn new(size: u32) -> Self {
        assert!(size > 0, "a world has at least one rank");
        Self {
            size,
            arrived: AtomicU32::new(0),
            word: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            spinning: Arc::default(),
            aborted: OnceLock::new(),
        }
    }

    /// How many threads meet.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Whether they may spin.
    pub(crate) fn spinning(&self) -> &Arc<Spinning> {
        &self.spinning
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
            self.word.fetch_add(MEETING, Ordering::SeqCst);
            self.wake_all();
            return Ok(());
        }
        if self.spinning.is_allowed() {
            self.spinning.until(|| self.word.load(Ordering::Acquire) != before);
        }
        loop {
            let now = self.word.load(Ordering::Acquire);
            if (now ^ before) & !ABORTED != 0 {
                return Ok(());
            }
            self.check(now)?;
            // Whoever changes the word behind this sees it, or the kernel sees the change.
            self.asleep.fetch_add(1, Ordering::SeqCst);
            // Returns at once when the word is not `now` any more; any other early return is as good.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, now, None);
            self.asleep.fetch_sub(1, Ordering::Relaxed);
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
        self.word.fetch_or(ABORTED, Ordering::SeqCst);
        self.wake_all();
    }

    /// Behind a change of the word.
    fn wake_all(&self) {
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return;
        }
        // The word is valid memory, so this cannot fail.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const NOTHING: fn() -> Result<(), Aborted> = || Ok(());

    /// A meeting of `size` threads that may spin or not.
    fn meeting(size: u32, spins: bool) -> Meeting {
        let meeting = Meeting::new(size);
        meeting.spinning.allow(spins);
        meeting
    }

    fn meet_often(meeting: &Meeting, rounds: u32) {
        let come = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..meeting.size {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        come.fetch_add(1, Ordering::SeqCst);
                        meeting.meet(NOTHING).unwrap();
                        assert!(come.load(Ordering::SeqCst) >= meeting.size * round);
                        meeting.meet(NOTHING).unwrap();
                    }
                });
            }
        });
        assert_eq!(meeting.asleep.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn nobody_leaves_before_all_have_come_whether_they_spin_or_sleep() {
        for (size, spins) in [(1, true), (2, false), (2, true), (5, false), (5, true)] {
            let meeting = meeting(size, spins);
            meet_often(&meeting, 300);
            assert_eq!(meeting.spinning.spent() > Duration::ZERO, spins && size > 1);
        }
    }

    #[test]
    fn a_failure_ends_those_who_spin_and_those_who_sleep() {
        let milli = Duration::from_millis(5);
        for (spins, delay) in [(true, Duration::ZERO), (true, milli), (false, milli)] {
            let meeting = meeting(2, spins);
            let failure = Aborted { rank: 1, host: None, cause: "disk on fire".to_owned() };
            thread::scope(|scope| {
                let waiter = scope.spawn(|| meeting.meet(NOTHING));
                while meeting.arrived.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                thread::sleep(delay);
                let aborted = Instant::now();
                meeting.abort(failure.clone());
                assert_eq!(waiter.join().unwrap(), Err(failure.clone()));
                assert!(aborted.elapsed() < Duration::from_secs(5));
            });
            assert_eq!(meeting.meet(NOTHING), Err(failure));
        }
    }
}
