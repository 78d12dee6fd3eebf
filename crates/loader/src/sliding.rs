//! The sliding pipeline: a file that is used makes room for the next.
//!
//! Visits are asked for in the order in which batches need them, and any reader's window may take any
//! of them, so the bound of all is readers × window. It shares with the other ranks of the process:
//! first batches go first, and GETs that read ahead take turns ([`Turns`]).

use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_dataset::Visit;
use tokio::sync::oneshot;

use crate::first_batches::Gate;
use crate::loader::Visits;
use crate::pipeline::{Pipeline, Room};
use crate::turns::{Turn, Turns};

pub(crate) struct Sliding {
    visits: Peekable<Visits>,
    asked: u64,
    used: u64,
    /// Files in flight or landed but not yet in a batch.
    window: u64,
    room: Room,
    turns: Arc<Turns>,
    gate: Gate,
    has_first_batch: bool,
    waits: u64,
}

impl Sliding {
    /// For the epoch with this number, from 1, counted by the loaders.
    pub(crate) fn new(
        visits: Visits,
        window: u64,
        room: Room,
        turns: Arc<Turns>,
        epoch: u64,
    ) -> Self {
        Self {
            visits: visits.peekable(),
            asked: 0,
            used: 0,
            window,
            room,
            gate: turns.gate(epoch),
            turns,
            has_first_batch: false,
            waits: 0,
        }
    }
}

impl Pipeline for Sliding {
    type Turn = oneshot::Receiver<Turn>;

    fn next(&mut self, taken: u64) -> Option<(u64, Visit)> {
        let visit = self.visits.peek()?;
        let may_ask = self.asked - self.used < self.window
            && self.room.has_place_for(visit, taken)
            && (self.room.batch(visit) == 0 || self.gate.is_open());
        let visit = self.visits.next_if(|_| may_ask)?;
        self.asked += 1;
        Some((self.asked - 1, visit))
    }

    fn turn(&mut self, visit: &Visit) -> Self::Turn {
        self.turns.ask(self.room.batch(visit))
    }

    fn landed(&mut self, _: u64, latency: Duration) {
        self.turns.landed(latency);
    }

    fn go_on(&mut self, _: u64, _: u64) {}

    fn usable_since(&self, _: u64, landed: Instant) -> Option<Instant> {
        Some(landed)
    }

    fn used(&mut self, _: u64) {
        self.used += 1;
    }

    fn batch_made(&mut self) {
        if !std::mem::replace(&mut self.has_first_batch, true) {
            self.turns.first_batch_complete();
        }
    }

    /// A rank that had to wait wants more in flight.
    fn waited(&mut self, waits: u64) {
        if waits > self.waits {
            self.turns.fell_short();
        }
        self.waits = waits;
    }

    fn is_at_end(&mut self) -> bool {
        self.visits.peek().is_none()
    }

    async fn changed(&mut self) {
        self.gate.changed().await;
    }
}

impl Drop for Sliding {
    /// However the epoch ends, other ranks' gates open.
    fn drop(&mut self) {
        self.batch_made();
    }
}
