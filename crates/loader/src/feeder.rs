//! The task behind one rank's epoch: issues GETs within all bounds, puts what lands in order, and
//! forms batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use feedrate_dataset::Visit;
use feedrate_metrics::units::ByteCount;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::batch::{Arrival, Batch, Held, Landed};
use crate::limits::Limits;
use crate::pipeline::Pipeline;
use crate::preprocessing::Preprocessing;
use crate::ready::Ready;
use crate::source::{LoadError, Read, Source};

/// A visit that was asked for, and is perhaps here.
#[derive(Debug)]
struct Slot {
    visit: Visit,
    /// Counted in [`Held`] until the file lands and its true size is known.
    expected_bytes: u64,
    /// What came.
    landed: Option<Here>,
}

/// What a visit brought, ready to be part of a batch.
#[derive(Debug)]
struct Here {
    arrival: Arrival,
    /// Bytes that were read besides.
    more: u64,
    last_byte: Instant,
    /// When it was ready.
    since: Instant,
}

/// A finished read.
struct Done {
    /// Which visit, counted from the start of the epoch.
    number: u64,
    read: Result<Read, LoadError>,
}

pub(crate) struct Feeder<P> {
    source: Arc<Source>,
    limits: Limits,
    batch_size: u64,
    pipeline: P,
    preprocessing: Option<Preprocessing>,
    ready: Arc<Ready>,
    taken: Arc<Notify>,
    /// Bytes of the rank that are in flight, landed or in batches, also in one that outlives its
    /// epoch.
    held: Arc<Held>,

    /// Visits asked for and not yet in their last batch, by their numbers.
    window: BTreeMap<u64, Slot>,
    /// The number of the visit that the batch being assembled needs next.
    next_needed: u64,
    reads: JoinSet<Done>,
    /// The batch being assembled.
    pieces: Vec<Arc<Landed>>,
    arrived: ByteCount,
    last_byte: Option<Instant>,
    /// When readers are done with what is in it, where they work on samples.
    worked_on: Option<Instant>,
    /// Samples that are in batches, complete or being assembled.
    assembled: u64,
    batches_made: u64,
}

impl<P: Pipeline> Feeder<P> {
    pub(crate) fn new(
        source: Arc<Source>,
        limits: Limits,
        batch_size: u64,
        pipeline: P,
        preprocessing: Option<Preprocessing>,
        (ready, taken): (Arc<Ready>, Arc<Notify>),
        held: Arc<Held>,
    ) -> Self {
        Self {
            source,
            limits,
            batch_size,
            pipeline,
            preprocessing,
            ready,
            taken,
            held,
            window: BTreeMap::new(),
            next_needed: 0,
            reads: JoinSet::new(),
            pieces: Vec::new(),
            arrived: ByteCount(0),
            last_byte: None,
            worked_on: None,
            assembled: 0,
            batches_made: 0,
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
            while let Some((number, visit)) = self.pipeline.next(self.ready.taken()) {
                self.issue(number, visit);
            }
            if self.reads.is_empty() && self.window.is_empty() && self.pipeline.is_at_end() {
                return Ok(());
            }
            tokio::select! {
                Some(done) = self.reads.join_next() => {
                    self.land(done.map_err(|error| LoadError::Stopped(error.to_string()))?)?;
                }
                () = self.taken.notified() => self.pipeline.waited(self.ready.waits()),
                () = self.pipeline.changed() => {}
            }
        }
    }

    fn issue(&mut self, number: u64, visit: Visit) {
        let expected_bytes = self.source.expected_bytes(&visit);
        self.held.add(expected_bytes);
        let turn = self.pipeline.turn(&visit);
        let slot = Slot { visit: visit.clone(), expected_bytes, landed: None };
        self.window.insert(number, slot);
        let source = Arc::clone(&self.source);
        let payload = self.limits.payload;
        self.reads.spawn(async move {
            let read = source.read(&visit, payload, turn).await;
            Done { number, read }
        });
    }

    fn land(&mut self, done: Done) -> Result<(), LoadError> {
        let Read { body, more, latency, last_byte } = done.read?;
        self.pipeline.landed(done.number, latency);
        let held = &self.held;
        if let Some(slot) = self.window.get_mut(&done.number) {
            held.subtract(std::mem::take(&mut slot.expected_bytes));
            let (arrival, since) = (self.source.arrival(body, held), Instant::now());
            slot.landed = Some(Here { arrival, more, last_byte, since });
        }
        Ok(())
    }

    /// Moves landed files, in order, out of the window into batches, as far as the pipeline and the
    /// ready bound let batches be made.
    fn assemble(&mut self) {
        let taken = self.ready.taken();
        let batches = taken + self.limits.ready_batches;
        self.pipeline.go_on(taken, batches);
        if let Some(preprocessing) = &mut self.preprocessing {
            preprocessing.allow(batches);
        }
        while self.batches_made < batches {
            let batch_end = (self.batches_made + 1) * self.batch_size;
            let Some(Slot { visit, landed: Some(here), .. }) = self.window.get(&self.next_needed)
            else {
                return;
            };
            let since = self.pipeline.usable_since(self.next_needed, here.since);
            let Some(since) = since else { return };
            let visit_end = visit.positions().end;
            self.pieces.extend(here.arrival.kept());
            if self.preprocessing.is_some() || self.source.work.is_any() {
                self.last_byte = self.last_byte.max(Some(here.last_byte));
            }
            if visit.first_position >= self.assembled {
                self.arrived += here.arrival.bytes() + ByteCount(here.more);
            }
            let before = std::mem::replace(&mut self.assembled, visit_end.min(batch_end));
            if let Some(preprocessing) = &mut self.preprocessing {
                let samples = self.assembled - before;
                self.worked_on = Some(preprocessing.work(self.batches_made, samples, since));
            }
            if visit_end <= batch_end {
                self.window.remove(&self.next_needed);
                self.pipeline.used(self.next_needed);
                self.next_needed += 1;
            }
            if self.assembled == batch_end {
                self.hand_over();
            }
        }
    }

    fn hand_over(&mut self) {
        self.batches_made += 1;
        let pieces = Vec::with_capacity(self.pieces.len());
        let batch = Batch {
            pieces: std::mem::replace(&mut self.pieces, pieces),
            samples: self.batch_size,
            arrived: std::mem::take(&mut self.arrived),
            last_byte: self.last_byte.take(),
        };
        self.ready.push(batch, self.worked_on.take());
        self.pipeline.batch_made();
    }
}

impl<P> Drop for Feeder<P> {
    /// However it ends, nobody is left waiting for it: what was issued and will never land is no
    /// longer held, and a rank that waits for a batch hears of it.
    fn drop(&mut self) {
        for slot in self.window.values() {
            self.held.subtract(slot.expected_bytes);
        }
        self.ready.fail(LoadError::Stopped("its task was ended".to_owned()));
    }
}
