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
