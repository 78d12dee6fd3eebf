//! The task behind one rank's epoch: issues GETs within all bounds, puts what lands in order, and
//! forms batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use feedrate_dataset::Visit;
use feedrate_metrics::units::ByteCount;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::batch::{Batch, Held, Landed};
use crate::first_batches::Gate;
use crate::limits::Limits;
use crate::loader::{LoadError, Source, Visits};
use crate::ready::Ready;
use crate::turns::Turns;

/// A visit in the window: issued, and perhaps landed.
#[derive(Debug)]
struct Slot {
    visit: Visit,
    /// Counted in [`Held`] until the file lands and its true size is known.
    expected_bytes: u64,
    landed: Option<Arc<Landed>>,
}

/// A finished GET.
struct Done {
    /// Which visit, counted from the start of the epoch.
    number: u64,
    /// The file, and how long the store took.
    read: Result<(Vec<u8>, Duration), LoadError>,
}

pub(crate) struct Feeder {
    source: Arc<Source>,
    limits: Limits,
    batch_size: u64,
    visits: std::iter::Peekable<Visits>,
    turns: Arc<Turns>,
    gate: Gate,
    ready: Arc<Ready>,
    taken: Arc<Notify>,
    /// Bytes of the rank that are in flight, landed or in batches, also in one that outlives its
    /// epoch.
    held: Arc<Held>,

    /// The window: visits issued and not yet part of a batch, in order. The first has this number.
    window: VecDeque<Slot>,
    window_start: u64,
    gets: JoinSet<Done>,
    /// The batch being assembled.
    files: Vec<Arc<Landed>>,
    arrived: ByteCount,
    /// Samples that are in batches, complete or being assembled.
    assembled: u64,
    batches_made: u64,
    waits_seen: u64,
}

impl Feeder {
    pub(crate) fn new(
        source: Arc<Source>,
        limits: Limits,
        batch_size: u64,
        visits: Visits,
        (turns, gate): (Arc<Turns>, Gate),
        (ready, taken): (Arc<Ready>, Arc<Notify>),
        held: Arc<Held>,
    ) -> Self {
        Self {
            source,
            limits,
            batch_size,
            visits: visits.peekable(),
            turns,
            gate,
            ready,
            taken,
            held,
            window: VecDeque::new(),
            window_start: 0,
            gets: JoinSet::new(),
            files: Vec::new(),
            arrived: ByteCount(0),
            assembled: 0,
            batches_made: 0,
            waits_seen: 0,
        }
    }

    /// Runs until every batch of the epoch is made, or one cannot be.
    pub(crate) async fn run(mut self) {
        let end = self.feed().await.err().unwrap_or(LoadError::Exhausted);
        self.ready.fail(end);
    }

    async fn feed(&mut self) -> Result<(), LoadError> {
        loop {
            self.assemble();
            while self.may_issue() {
                self.issue();
            }
            if self.gets.is_empty() && self.window.is_empty() && self.visits.peek().is_none() {
                return Ok(());
            }
            tokio::select! {
                Some(done) = self.gets.join_next() => {
                    self.land(done.map_err(|error| LoadError::Stopped(error.to_string()))?)?;
                }
                () = self.taken.notified() => self.learn_from_waits(),
                () = self.gate.changed() => {}
            }
        }
    }

    fn may_issue(&mut self) -> bool {
        let Some(visit) = self.visits.peek() else { return false };
        let behind_next_batch = (self.ready.taken() + 1) * self.batch_size;
        let needed_next = visit.first_position < behind_next_batch;
        let held = self.held.bytes() + self.source.format.file_len(visit.file);
        self.window.len() < self.limits.window
            && (needed_next || held <= self.limits.byte_budget.0)
            && (visit.first_position < self.batch_size || self.gate.is_open())
    }

    fn issue(&mut self) {
        let Some(visit) = self.visits.next() else { return };
        let number = self.window_start + self.window.len() as u64;
        let expected_bytes = self.source.format.file_len(visit.file);
        self.held.add(expected_bytes);
        self.window.push_back(Slot { visit, expected_bytes, landed: None });
        let turn = self.turns.ask(visit.first_position / self.batch_size);
        let source = Arc::clone(&self.source);
        self.gets.spawn(async move {
            let turn = turn.await;
            let read = source.read(visit.file).await;
            drop(turn);
            Done { number, read }
        });
    }

    fn land(&mut self, done: Done) -> Result<(), LoadError> {
        let (bytes, latency) = done.read?;
        self.turns.landed(latency);
        let held = &self.held;
        let slot = &mut self.window[(done.number - self.window_start) as usize];
        held.subtract(std::mem::take(&mut slot.expected_bytes));
        slot.landed = Some(Arc::new(Landed::new(bytes, &self.source.pool, held)));
        Ok(())
    }

    /// Moves landed files, in order, out of the window into batches, as far as the ready bound lets
    /// batches be made.
    fn assemble(&mut self) {
        while self.batches_made < self.ready.taken() + self.limits.ready_batches {
            let batch_end = (self.batches_made + 1) * self.batch_size;
            let Some(Slot { visit, landed: Some(landed), .. }) = self.window.front() else {
                return;
            };
            let visit_end = visit.first_position + visit.samples;
            self.files.push(Arc::clone(landed));
            if visit.first_position >= self.assembled {
                self.arrived += ByteCount(landed.bytes.len() as u64);
            }
            self.assembled = visit_end.min(batch_end);
            if visit_end <= batch_end {
                self.window.pop_front();
                self.window_start += 1;
            }
            if self.assembled == batch_end {
                self.hand_over();
            }
        }
    }

    fn hand_over(&mut self) {
        self.batches_made += 1;
        let files = Vec::with_capacity(self.files.len());
        self.ready.push(Batch {
            files: std::mem::replace(&mut self.files, files),
            samples: self.batch_size,
            arrived: std::mem::take(&mut self.arrived),
        });
        if self.batches_made == 1 {
            self.turns.first_batch_complete();
        }
    }

    /// A rank that had to wait wants more in flight.
    fn learn_from_waits(&mut self) {
        let waits = self.ready.waits();
        if waits > self.waits_seen {
            self.turns.fell_short();
        }
        self.waits_seen = waits;
    }
}

impl Drop for Feeder {
    /// However it ends, nobody is left waiting for it: what was issued and will never land is no
    /// longer held, other ranks' gates open, and a rank that waits for a batch hears of it.
    fn drop(&mut self) {
        for slot in &self.window {
            self.held.subtract(slot.expected_bytes);
        }
        if self.batches_made == 0 {
            self.turns.first_batch_complete();
        }
        self.ready.fail(LoadError::Stopped("its task was ended".to_owned()));
    }
}
