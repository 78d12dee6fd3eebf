//! Ranks as threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Aborted, World};

/// Makes a world of `size` ranks, one handle each, to be moved into their threads.
///
/// # Panics
/// When `size` is 0.
pub fn world(size: u32) -> Vec<Rank> {
    assert!(size > 0, "a world has at least one rank");
    let meeting = Arc::new(Meeting {
        size,
        state: Mutex::new(State {
            arrived: 0,
            generation: 0,
            aborted: None,
            payloads: vec![Vec::new(); size as usize],
        }),
        all_arrived: Condvar::new(),
    });
    (0..size).map(|rank| Rank { rank, meeting: Arc::clone(&meeting) }).collect()
}

/// One rank of an in-process world.
#[derive(Debug, Clone)]
pub struct Rank {
    rank: u32,
    meeting: Arc<Meeting>,
}

/// Where the ranks meet. `generation` counts completed meetings, so that a fast rank that is already
/// in the next one is not taken for a late one of this.
#[derive(Debug)]
struct Meeting {
    size: u32,
    state: Mutex<State>,
    all_arrived: Condvar,
}

#[derive(Debug)]
struct State {
    arrived: u32,
    generation: u64,
    aborted: Option<Aborted>,
    payloads: Vec<Vec<u8>>,
}

impl Meeting {
    /// A rank that panicked left no half-made change: every change under the lock is one assignment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all ranks are here. `arrive` runs under the lock when this rank comes.
    fn meet(&self, arrive: impl FnOnce(&mut State)) -> Result<MutexGuard<'_, State>, Aborted> {
        let mut state = self.lock();
        if let Some(aborted) = &state.aborted {
            return Err(aborted.clone());
        }
        arrive(&mut state);
        state.arrived += 1;
        if state.arrived == self.size {
            state.arrived = 0;
            state.generation += 1;
            self.all_arrived.notify_all();
            return Ok(state);
        }
        let generation = state.generation;
        while state.generation == generation {
            if let Some(aborted) = &state.aborted {
                return Err(aborted.clone());
            }
            state = self.all_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
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
        self.meeting.meet(|_| ()).map(drop)
    }

    fn gather(&self, payload: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        let rank = self.rank as usize;
        let mut state = self.meeting.meet(|state| state.payloads[rank] = payload)?;
        let gathered = (rank == 0).then(|| state.payloads.iter_mut().map(std::mem::take).collect());
        drop(state);
        // Nobody may put a new payload before rank 0 has taken these.
        self.barrier()?;
        Ok(gathered)
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        let mut state = self.meeting.meet(|state| {
            if self.rank == 0 {
                state.payloads[0] = payload;
            }
        })?;
        let received = state.payloads[0].clone();
        drop(state);
        self.barrier()?;
        if self.rank == 0 {
            state = self.meeting.lock();
            state.payloads[0].clear();
        }
        Ok(received)
    }

    fn abort(&self, cause: String) {
        let mut state = self.meeting.lock();
        state.aborted.get_or_insert(Aborted { rank: self.rank, cause });
        self.meeting.all_arrived.notify_all();
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
