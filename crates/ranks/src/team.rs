//! The ranks of one process, and what they need of the other processes.
//!
//! In every collective the ranks of a process meet, the last one to come does the part that other
//! processes have to do with ([`Outside`]), and then all go on: other processes see one partner,
//! whatever the number of ranks. What a collective brings lies in a slot that only the last one to
//! come writes. It cannot be overwritten too early: the next collective's last one comes after
//! everybody has left this one with what it needs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::meeting::Meeting;
use crate::spinning::Spinning;
use crate::{Aborted, World};

/// The other processes of the job, as the ranks of one process see them. Its calls are collective
/// over the processes and never made by two ranks at once.
pub(crate) trait Outside: Send + Sync + fmt::Debug {
    /// Returns when all processes have called it.
    fn barrier(&self) -> Result<(), Aborted>;

    /// Brings the payloads of all ranks, in the order of ranks, to the process of rank 0. Each process
    /// gives those of its own ranks.
    fn gather(&self, payloads: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>, Aborted>;

    /// Gives every process the payload of the process of rank 0.
    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted>;

    /// Tells the other processes of a failure; may be called at any time. Returns the failure that
    /// counts, which is an earlier one if there was one.
    fn abort(&self, rank: u32, cause: String) -> Aborted;
}

/// What a team is made from.
#[derive(Debug)]
pub(crate) struct Team {
    /// The rank of the process's first thread.
    pub(crate) first: u32,
    /// Whether no process of its node has lower ranks than this one.
    pub(crate) leads_node: bool,
    /// Ranks of the whole job.
    pub(crate) size: u32,
    /// Where the ranks of this process meet.
    pub(crate) meeting: Arc<Meeting>,
    pub(crate) outside: Box<dyn Outside>,
}

impl Team {
    /// One handle for each rank of this process.
    pub(crate) fn ranks(self) -> Vec<Rank> {
        let local = self.meeting.size();
        let slots = Slots { given: vec![Vec::new(); local as usize], ..Slots::default() };
        let room = Arc::new(Room { team: self, slots: Mutex::new(slots) });
        (0..local).map(|local| Rank { local, room: Arc::clone(&room) }).collect()
    }
}

/// One rank: a thread of this process.
#[derive(Debug, Clone)]
pub struct Rank {
    /// Its number in this process.
    local: u32,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    team: Team,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// What each rank of this process brings.
    given: Vec<Vec<u8>>,
    gathered: Option<Vec<Vec<u8>>>,
    received: Vec<u8>,
}

impl Room {
    /// A rank that panicked left no half-made change: every change under the lock is one assignment.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_given(&self) -> Vec<Vec<u8>> {
        self.slots().given.iter_mut().map(std::mem::take).collect()
    }
}

impl World for Rank {
    fn rank(&self) -> u32 {
        self.room.team.first + self.local
    }

    fn size(&self) -> u32 {
        self.room.team.size
    }

    fn leads_node(&self) -> bool {
        self.local == 0 && self.room.team.leads_node
    }

    fn spinning(&self) -> &Arc<Spinning> {
        self.room.team.meeting.spinning()
    }

    fn barrier(&self) -> Result<(), Aborted> {
        let Team { meeting, outside, .. } = &self.room.team;
        meeting.meet(|| outside.barrier())
    }

    fn gather(&self, payload: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        let Team { meeting, outside, .. } = &self.room.team;
        self.room.slots().given[self.local as usize] = payload;
        meeting.meet(|| {
            let given = self.room.take_given();
            let gathered = outside.gather(given)?;
            self.room.slots().gathered = gathered;
            Ok(())
        })?;
        Ok(if self.rank() == 0 { self.room.slots().gathered.take() } else { None })
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        let Team { meeting, outside, .. } = &self.room.team;
        if self.local == 0 {
            self.room.slots().given[0] = payload;
        }
        meeting.meet(|| {
            let given = std::mem::take(&mut self.room.slots().given[0]);
            let received = outside.broadcast(given)?;
            self.room.slots().received = received;
            Ok(())
        })?;
        Ok(self.room.slots().received.clone())
    }

    fn abort(&self, cause: String) {
        let Team { meeting, outside, .. } = &self.room.team;
        meeting.abort(outside.abort(self.rank(), cause));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::in_process;

    /// What a "process" sees of the others, for each of which one rank of a world stands.
    #[derive(Debug)]
    struct Joined(Rank);

    impl Outside for Joined {
        fn barrier(&self) -> Result<(), Aborted> {
            self.0.barrier()
        }

        fn gather(&self, payloads: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
            // All payloads of these tests are one byte long.
            let gathered = self.0.gather(payloads.concat())?;
            Ok(gathered.map(|all| all.concat().into_iter().map(|byte| vec![byte]).collect()))
        }

        fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
            self.0.broadcast(payload)
        }

        fn abort(&self, rank: u32, cause: String) -> Aborted {
            self.0.abort(cause.clone());
            Aborted { rank, host: None, cause }
        }
    }

    /// Runs `body` on 3 "processes" of 2 ranks each.
    fn on_all<T: Send>(body: impl Fn(Rank) -> T + Sync) -> Vec<T> {
        let processes = in_process::world(3).into_iter().map(|outside| {
            let first = 2 * outside.rank();
            let meeting = Arc::new(Meeting::new(2));
            Team {
                first,
                size: 6,
                leads_node: first == 0,
                meeting,
                outside: Box::new(Joined(outside)),
            }
            .ranks()
        });
        let ranks: Vec<Rank> = processes.flatten().collect();
        thread::scope(|scope| {
            let threads: Vec<_> =
                ranks.into_iter().map(|rank| scope.spawn(|| body(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_are_numbered_through_all_processes() {
        assert_eq!(on_all(|rank| (rank.rank(), rank.size())), [0, 1, 2, 3, 4, 5].map(|n| (n, 6)));
    }

    #[test]
    fn collectives_go_over_all_ranks_of_all_processes() {
        let ends = on_all(|rank| {
            let mut ends = Vec::new();
            for round in 0..50 {
                rank.barrier().unwrap();
                let gathered = rank.gather(vec![rank.rank() as u8 + round]).unwrap();
                ends.push((gathered, rank.broadcast(vec![rank.rank() as u8 + round]).unwrap()));
            }
            ends
        });
        for (rank, rounds) in ends.into_iter().enumerate() {
            for (round, (gathered, received)) in (0..).zip(rounds) {
                let all: Vec<Vec<u8>> = (0..6).map(|rank| vec![rank + round]).collect();
                assert_eq!(gathered, (rank == 0).then_some(all));
                assert_eq!(received, [round]);
            }
        }
    }

    #[test]
    fn a_failure_ends_the_ranks_of_every_process() {
        let ends = on_all(|rank| {
            rank.barrier().unwrap();
            if rank.rank() == 3 {
                rank.abort("disk on fire".to_owned());
            }
            rank.barrier()
        });
        assert!(ends.iter().all(|end| end.as_ref().unwrap_err().cause == "disk on fire"));
    }
}
