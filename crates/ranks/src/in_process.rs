//! Ranks as threads of one process.
//!
//! They meet at a word of memory that the kernel can wait on (a futex): whoever comes last changes
//! it and wakes the others, who then run without taking a lock, so that no rank that is slow to get a
//! CPU back holds up the rest.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::thread::futex;

use crate::{Aborted, World};

/// Makes a world of `size` ranks, one handle each, to be moved into their threads.
///
/// # Panics
/// When `size` is 0.
pub fn world(size: u32) -> Vec<Rank> {
    assert!(size > 0, "a world has at least one rank");
    let meeting = Arc::new(Meeting {
        size,
        arrived: AtomicU32::new(0),
        word: AtomicU32::new(0),
        aborted: OnceLock::new(),
        payloads: Mutex::new(vec![Vec::new(); size as usize]),
    });
    (0..size).map(|rank| Rank { rank, meeting: Arc::clone(&meeting) }).collect()
}

/// One rank of an in-process world.
#[derive(Debug, Clone)]
pub struct Rank {
    rank: u32,
    meeting: Arc<Meeting>,
}

/// Set in the word once a rank has failed.
const ABORTED: u32 = 1;
/// What a completed meeting adds to the word, above that bit. It may wrap around: nobody is ever more
/// than one meeting behind.
const MEETING: u32 = 2;

/// Where the ranks meet.
#[derive(Debug)]
struct Meeting {
    size: u32,
    /// Ranks that have come to the meeting that is going on.
    arrived: AtomicU32,
    /// How many meetings are over, and whether a rank has failed.
    word: AtomicU32,
    /// Set before the word says so.
    aborted: OnceLock<Aborted>,
    payloads: Mutex<Vec<Vec<u8>>>,
}

impl Meeting {
    /// Waits until all ranks are here.
    fn meet(&self) -> Result<(), Aborted> {
        let before = self.word.load(Ordering::Acquire);
        self.check(before)?;
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
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

    fn abort(&self, aborted: Aborted) {
        // Only the first counts.
        let _ = self.aborted.set(aborted);
        self.word.fetch_or(ABORTED, Ordering::AcqRel);
        self.wake_all();
    }

    fn wake_all(&self) {
        // The word is valid memory, so this cannot fail.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }

    /// A rank that panicked left no half-made change: every change under the lock is one assignment.
    fn payloads(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.payloads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World for Rank {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.meeting.size
    }

    fn barrier(&self) -> Result<(), Aborted> {
        self.meeting.meet()
    }

    fn gather(&self, payload: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        self.meeting.payloads()[self.rank as usize] = payload;
        self.barrier()?;
        let gathered = (self.rank == 0)
            .then(|| self.meeting.payloads().iter_mut().map(std::mem::take).collect());
        // Nobody may put a new payload before rank 0 has taken these.
        self.barrier()?;
        Ok(gathered)
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        if self.rank == 0 {
            self.meeting.payloads()[0] = payload;
        }
        self.barrier()?;
        let received = self.meeting.payloads()[0].clone();
        // Rank 0 may not put another one before all have this one.
        self.barrier()?;
        Ok(received)
    }

    fn abort(&self, cause: String) {
        self.meeting.abort(Aborted { rank: self.rank, cause });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn on_all<T: Send>(size: u32, body: impl Fn(Rank) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                world(size).into_iter().map(|rank| scope.spawn(|| body(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn nobody_leaves_a_barrier_before_all_have_come() {
        let come = AtomicU32::new(0);
        on_all(4, |rank| {
            for round in 1..=200 {
                come.fetch_add(1, Ordering::SeqCst);
                rank.barrier().unwrap();
                assert!(come.load(Ordering::SeqCst) >= 4 * round);
                rank.barrier().unwrap();
            }
        });
    }

    #[test]
    fn gather_brings_payloads_in_rank_order_to_rank_0_alone() {
        let gathered = on_all(3, |rank| {
            let first = rank.gather(vec![rank.rank() as u8]).unwrap();
            let second = rank.gather(vec![10 + rank.rank() as u8]).unwrap();
            (first, second)
        });
        let expected = |base: u8| Some(vec![vec![base], vec![base + 1], vec![base + 2]]);
        assert_eq!(gathered[0], (expected(0), expected(10)));
        assert_eq!(gathered[1], (None, None));
    }

    #[test]
    fn broadcast_gives_every_rank_the_payload_of_rank_0() {
        let received = on_all(3, |rank| {
            let first = rank.broadcast(vec![7 + rank.rank() as u8]).unwrap();
            let second = rank.broadcast(vec![9 + rank.rank() as u8]).unwrap();
            (first, second)
        });
        assert!(received.iter().all(|pair| *pair == (vec![7], vec![9])));
    }

    #[test]
    fn a_failing_rank_ends_the_others_with_its_own_error() {
        let ends = on_all(3, |rank| {
            if rank.rank() == 1 {
                thread::sleep(Duration::from_millis(20));
                rank.abort("disk on fire".to_owned());
                rank.abort("a later error".to_owned());
                return rank.barrier();
            }
            rank.barrier()
        });
        let expected = Err(Aborted { rank: 1, cause: "disk on fire".to_owned() });
        assert!(ends.iter().all(|end| *end == expected));
    }
}
