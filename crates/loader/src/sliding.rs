//! The sliding pipeline: a file that is used makes room for the next.
//!
//! Visits are asked for in the order in which batches need them, and any reader's window may take any
//! of them, so the bound of all is readers × window. With `reader.window` `auto` it shares with the
//! other ranks of the process: first batches go first, reads take turns, and none is asked for further
//! ahead than is needed ([`Turns`]).

use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_dataset::Visit;

use crate::first_batches::Gate;
use crate::loader::Visits;
use crate::pipeline::{Pipeline, Room};
use crate::turns::{Place, Turns};

pub(crate) struct Sliding {
    visits: Peekable<Visits>,
    asked: u64,
    used: u64,
    /// Files in flight or landed but not yet in a batch.
    window: u64,
    room: Room,
    turns: Arc<Turns>,
    gate: Option<Gate>,
    has_asked_for_first: bool,
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
            has_asked_for_first: false,
            waits: 0,
        }
    }

    fn first_batch_asked(&mut self) {
        if !std::mem::replace(&mut self.has_asked_for_first, true) {
            self.turns.first_batch_asked();
        }
    }
}

impl Pipeline for Sliding {
    type Turn = Place;

    fn next(&mut self, taken: u64) -> Option<(u64, Visit)> {
        let Some(visit) = self.visits.peek() else {
            self.first_batch_asked();
            return None;
        };
        let has_room =
            self.asked - self.used < self.window && self.room.has_place_for(visit, taken);
        let batch = self.room.batch(visit);
        let is_near = batch < taken.saturating_add(self.turns.batches_ahead());
        if batch > 0 {
            self.first_batch_asked();
        }
        let is_open = batch == 0 || self.gate.as_mut().is_none_or(Gate::is_open);
        let visit = self.visits.next_if(|_| has_room && is_open && is_near)?;
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

    /// A rank that had to wait wants more in flight, or further ahead.
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
        match &mut self.gate {
            Some(gate) => gate.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Sliding {
    /// However the epoch ends, other ranks' gates open.
    fn drop(&mut self) {
        self.first_batch_asked();
    }
}
