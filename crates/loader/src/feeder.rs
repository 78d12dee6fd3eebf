//! The task behind one rank's epoch: issues GETs within all bounds, puts what lands in order, and
//! forms batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use feedrate_dataset::Visit;
use feedrate_metrics::units::ByteCount;

use crate::batch::{Arrival, Batch, Course, Held};
use crate::limits::{Limits, ReadAhead};
use crate::pipeline::Pipeline;
use crate::preprocessing::Preprocessing;
use crate::readers::Readers;
use crate::ready::Ready;
use crate::source::{LoadError, Read, Source};
use crate::timeline::{Bound, Timeline};

/// A visit that was asked for, and is perhaps here.
#[derive(Debug)]
struct Slot {
    visit: Visit,
    /// Counted in [`Held`] until the file lands and its true size is known.
    expected_bytes: u64,
    /// When it was asked for, and what kept it from being asked for earlier.
    asked: Instant,
    held_back_by: Bound,
    /// What came.
    landed: Option<Here>,
}

/// What a visit brought, ready to be part of a batch.
#[derive(Debug)]
struct Here {
    arrival: Arrival,
    /// Bytes that were read besides.
    more: u64,
    timeline: Timeline,
    /// When it was ready.
    since: Instant,
}

pub(crate) struct Feeder<P: Pipeline> {
    source: Arc<Source>,
    limits: Limits,
    batch_size: u64,
    pipeline: P,
    preprocessing: Option<Preprocessing>,
    ready: Arc<Ready>,
    /// Bytes of the rank that are in flight, landed or in batches, also in one that outlives its
    /// epoch.
    held: Arc<Held>,

    readers: Readers<P::Turn>,
    /// Visits asked for and not yet in their last batch, from the one on that the batch being assembled
    /// needs next. None where a later one was asked for first.
    window: VecDeque<Option<Slot>>,
    /// The number of that visit.
    next_needed: u64,
    /// What keeps the next visit from being asked for.
    held_back_by: Bound,
    /// The way of what landed last.
    landed_last: Option<Timeline>,
    /// The batch being assembled.
    arrivals: Vec<Arrival>,
    arrived: ByteCount,
    last_byte: Option<Instant>,
    /// The way of the piece in it that was there last.
    last: Option<Timeline>,
    /// When readers are done with what is in it, where they work on samples.
    worked_on: Option<Instant>,
    /// Samples that are in batches, complete or being assembled.
    assembled: u64,
    batches_made: u64,
    /// Always empty: where the rank's used batches are put to be taken apart.
    used: Vec<Batch>,
}

impl<P: Pipeline> Feeder<P> {
    pub(crate) fn new(
        source: Arc<Source>,
        limits: Limits,
        batch_size: u64,
        pipeline: P,
        preprocessing: Option<Preprocessing>,
        ready: Arc<Ready>,
        held: Arc<Held>,
    ) -> Self {
        Self {
            readers: Readers::new(&source, limits.payload),
            source,
            limits,
            batch_size,
            pipeline,
            preprocessing,
            ready,
            held,
            window: VecDeque::new(),
            next_needed: 0,
            held_back_by: Bound::Window,
            landed_last: None,
            arrivals: Vec::new(),
            arrived: ByteCount(0),
            last_byte: None,
            last: None,
            worked_on: None,
            assembled: 0,
            batches_made: 0,
            used: Vec::new(),
        }
    }

    /// Runs until every batch of the epoch is made, or one cannot be.
    pub(crate) async fn run(mut self) {
        let end = self.feed().await.err().unwrap_or(LoadError::Exhausted);
        self.ready.fail(end);
    }

    async fn feed(&mut self) -> Result<(), LoadError> {
        let mut taken = 0;
        loop {
            self.assemble(taken);
            self.issue(taken);
            if self.window.is_empty() && self.readers.are_idle() && self.pipeline.is_at_end() {
                return Ok(());
            }
            tokio::select! {
                biased;
                read = self.readers.next() => self.land(read?),
                () = self.ready.more_taken(taken) => {
                    taken = self.ready.taken();
                    self.ready.take_apart(&mut self.used);
                    self.pipeline.waited(self.ready.waits());
                }
                () = self.pipeline.changed() => {}
            }
        }
    }

    /// Asks for what may be asked for.
    fn issue(&mut self, taken: u64) {
        let mut now = None;
        while let Some((number, visit)) = self.pipeline.next(taken) {
            let expected_bytes = self.source.expected_bytes(&visit);
            self.held.add(expected_bytes);
            let turn = self.pipeline.turn(&visit);
            let place = (number - self.next_needed) as usize;
            if self.window.len() <= place {
                self.window.resize_with(place + 1, || None);
            }
            self.window[place] = Some(Slot {
                visit: visit.clone(),
                expected_bytes,
                asked: *now.get_or_insert_with(|| tokio::time::Instant::now().into_std()),
                held_back_by: self.held_back_by,
                landed: None,
            });
            self.readers.read(number, visit, turn);
        }
        self.held_back_by = match self.limits.read_ahead {
            ReadAhead::Sliding { window } if (self.window.len() as u64) < window => Bound::Turns,
            ReadAhead::Sliding { .. } | ReadAhead::Chunked { .. } => Bound::Window,
        };
    }

    fn land(&mut self, (number, read): (u64, Read)) {
        let Read { body, more, latency, mut timeline } = read;
        self.pipeline.landed(number, latency);
        let place = (number - self.next_needed) as usize;
        if let Some(Some(slot)) = self.window.get_mut(place) {
            self.held.subtract(std::mem::take(&mut slot.expected_bytes));
            timeline.asked = slot.asked;
            timeline.held_back_by = slot.held_back_by;
            let arrival = Arrival::new(body, &self.held);
            slot.landed = Some(Here { arrival, more, timeline, since: Instant::now() });
            self.landed_last = Some(timeline);
        }
    }

    /// Moves landed files, in order, out of the window into batches, as far as the pipeline and the
    /// ready bound let batches be made.
    fn assemble(&mut self, taken: u64) {
        let batches = taken + self.limits.ready_batches;
        self.pipeline.go_on(taken, batches);
        if let Some(preprocessing) = &mut self.preprocessing {
            preprocessing.allow(batches);
        }
        while self.batches_made < batches {
            let batch_end = (self.batches_made + 1) * self.batch_size;
            let Some(Some(Slot { visit, landed: Some(here), .. })) = self.window.front_mut() else {
                return;
            };
            let since = self.pipeline.usable_since(self.next_needed, here.since);
            let Some(since) = since else { return };
            if self.preprocessing.is_some() || self.source.work.is_any() {
                self.last_byte = self.last_byte.max(Some(here.timeline.last_byte()));
            }
            // What was here and could not be used had to wait for another.
            let waited_for =
                self.landed_last.filter(|_| since > here.since).unwrap_or(here.timeline);
            if self.last.is_none_or(|last| last.done < waited_for.done) {
                self.last = Some(waited_for);
            }
            if visit.first_position >= self.assembled {
                self.arrived += here.arrival.bytes() + ByteCount(here.more);
            }
            let positions = visit.positions();
            let before = std::mem::replace(&mut self.assembled, positions.end.min(batch_end));
            if let Some(preprocessing) = &mut self.preprocessing {
                let samples = self.assembled - before;
                self.worked_on = Some(preprocessing.work(self.batches_made, samples, since));
            }
            let is_used = positions.end <= batch_end;
            let arrival = if is_used {
                std::mem::replace(&mut here.arrival, Arrival::Counted(0))
            } else {
                here.arrival.share()
            };
            self.arrivals.extend(arrival.kept());
            if is_used {
                self.window.pop_front();
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
        let Some(mut last) = self.last.take() else { return };
        let worked_on = self.worked_on.take();
        last.done = last.done.max(worked_on.unwrap_or(last.done));
        let arrivals = Vec::with_capacity(self.arrivals.len());
        let batch = Batch {
            arrivals: std::mem::replace(&mut self.arrivals, arrivals),
            samples: self.batch_size,
            arrived: std::mem::take(&mut self.arrived),
            last_byte: self.last_byte.take(),
            course: Course::Last(last),
        };
        self.ready.push(batch, worked_on);
        self.pipeline.batch_made();
    }
}

impl<P: Pipeline> Drop for Feeder<P> {
    /// However it ends, nobody is left waiting for it: what was issued and will never land is no
    /// longer held, and a rank that waits for a batch hears of it.
    fn drop(&mut self) {
        for slot in self.window.iter().flatten() {
            self.held.subtract(slot.expected_bytes);
        }
        self.ready.fail(LoadError::Stopped("its task was ended".to_owned()));
    }
}
