//! The rank's side: start an epoch, take batches.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use feedrate_dataset::Visit;
use feedrate_metrics::record::WaitParts;
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_workload::Payload;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::batch::{Arrival, Batch, Course, Held};
use crate::chunked::Chunked;
use crate::feeder::Feeder;
use crate::limits::{Limits, ReadAhead};
use crate::pipeline::{Pipeline, Room};
use crate::preprocessing::{Preprocess, Preprocessing};
use crate::ready::Ready;
use crate::sliding::Sliding;
use crate::source::{LoadError, Source};
use crate::times::Times;
use crate::turns::Turns;

/// The visits of one rank's epoch, in the order in which its batches need them.
pub(crate) type Visits = Box<dyn Iterator<Item = Visit> + Send>;

/// One rank's loader.
#[derive(Debug)]
pub struct Loader {
    source: Arc<Source>,
    limits: Limits,
    batch_size: u64,
    preprocess: Option<Preprocess>,
    turns: Arc<Turns>,
    runtime: Handle,
    epochs_started: u64,
    held: Arc<Held>,
    state: State,
}

enum State {
    Idle,
    Feeding { ready: Arc<Ready>, feeder: JoinHandle<()> },
    Alone(Box<Alone>),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "Idle",
            Self::Feeding { .. } => "Feeding",
            Self::Alone(_) => "Alone",
        })
    }
}

impl Loader {
    /// A loader that is idle until its first epoch starts. Its readers do to each sample what
    /// `preprocess` says, if anything; its reads run on `runtime`.
    pub fn new(
        source: Arc<Source>,
        limits: Limits,
        batch_size: u64,
        preprocess: Option<Preprocess>,
        turns: Arc<Turns>,
        runtime: Handle,
    ) -> Self {
        Self {
            held: Held::new(&source.pool),
            source,
            limits,
            batch_size,
            preprocess,
            turns,
            runtime,
            epochs_started: 0,
            state: State::Idle,
        }
    }

    /// Starts an epoch with an empty pipeline; from here on files are read.
    pub fn start_epoch(&mut self, visits: impl Iterator<Item = Visit> + Send + 'static) {
        self.end_epoch();
        self.epochs_started += 1;
        let visits: Visits = Box::new(visits);
        if self.limits.readers == 0 {
            let held = Arc::clone(&self.held);
            let payload = self.limits.payload;
            let times = self.preprocess.map(|preprocess| preprocess.times(self.epochs_started, 0));
            let alone = Alone { visits, payload, times, last: None, next_position: 0, held };
            self.state = State::Alone(Box::new(alone));
            return;
        }
        match self.limits.read_ahead {
            ReadAhead::Sliding { window } => {
                let turns = Arc::clone(&self.turns);
                let room = self.room(0);
                self.feed(Sliding::new(visits, window, room, turns, self.epochs_started));
            }
            ReadAhead::Chunked { chunk, stagger } => {
                let room = self.room(self.limits.two_batches.0);
                // The clock that readers start by is the runtime's.
                let inside = self.runtime.enter();
                let turns = Arc::clone(&self.turns);
                let readers = self.limits.readers;
                let chunked = Chunked::new(visits, readers, chunk, stagger, room, turns);
                drop(inside);
                self.feed(chunked);
            }
        }
    }

    fn room(&self, kept_free: u64) -> Room {
        Room::new(&self.source, &self.held, &self.limits, self.batch_size, kept_free)
    }

    /// Starts the task that feeds this epoch.
    fn feed(&mut self, pipeline: impl Pipeline) {
        let ready = Arc::new(Ready::default());
        let feeder = Feeder::new(
            Arc::clone(&self.source),
            self.limits,
            self.batch_size,
            pipeline,
            self.preprocess.map(|preprocess| {
                Preprocessing::new(&preprocess, self.epochs_started, self.limits.readers)
            }),
            Arc::clone(&ready),
            Arc::clone(&self.held),
        );
        let feeder = self.runtime.spawn(feeder.run());
        self.state = State::Feeding { ready, feeder };
    }

    /// The next batch, every byte of it received, and in memory unless bytes are discarded. Blocks
    /// until it is complete.
    ///
    /// An error ends the epoch. Batches that were complete before it come first.
    pub fn next_batch(&mut self) -> Result<Batch, LoadError> {
        let batch = self.take_batch();
        self.read_on();
        batch
    }

    /// As [`next_batch`](Self::next_batch), but readers do not hear of it before [`read_on`](Self::read_on)
    /// is called.
    pub fn take_batch(&mut self) -> Result<Batch, LoadError> {
        let batch = match &mut self.state {
            State::Idle => Err(LoadError::Exhausted),
            State::Alone(alone) => alone.next_batch(&self.source, self.batch_size, &self.runtime),
            State::Feeding { ready, .. } => ready.take(),
        };
        if batch.is_err() {
            self.end_epoch();
        }
        batch
    }

    /// Lets readers go on behind the batch that was taken last. To wake them takes a rank some time, which
    /// is nothing lost when the moment is noted from which it computes.
    pub fn read_on(&self) {
        if let State::Feeding { ready, .. } = &self.state {
            ready.tell_feeder();
        }
    }

    /// Takes back a batch that the rank has used, whose memory is for the batches to come. It is taken
    /// apart beside the reads and not by the rank, for which others wait at the barrier.
    pub fn give_back(&self, batch: Batch) {
        match &self.state {
            State::Feeding { ready, .. } => ready.give_back(batch),
            State::Idle | State::Alone(_) => drop(batch),
        }
    }

    /// Drops the pipeline and cancels what is in flight.
    pub fn end_epoch(&mut self) {
        if let State::Feeding { feeder, .. } = std::mem::replace(&mut self.state, State::Idle) {
            feeder.abort();
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.end_epoch();
    }
}

/// `read_threads: 0`: the rank's own thread reads its batch, one file at a time, nothing overlaps.
struct Alone {
    visits: Visits,
    payload: Payload,
    /// How long it works on each sample, if that takes time.
    times: Option<Times>,
    /// What was read last and the position behind its last sample: it may serve the next batch too.
    last: Option<(Arrival, u64)>,
    next_position: u64,
    held: Arc<Held>,
}

impl Alone {
    fn next_batch(
        &mut self,
        source: &Arc<Source>,
        batch_size: u64,
        runtime: &Handle,
    ) -> Result<Batch, LoadError> {
        let end = self.next_position + batch_size;
        let mut arrivals = Vec::new();
        let mut covered = self.next_position;
        if let Some((arrival, behind)) = &mut self.last {
            arrivals.extend(arrival.share().kept());
            covered = *behind;
        }
        let mut arrived = ByteCount(0);
        let mut parts = WaitParts::default();
        // Nothing overlaps, so work on one sample moves the reads of the next ones.
        parts.work += self.work_on(self.next_position..covered.min(end));
        while covered < end {
            let visit = self.visits.next().ok_or(LoadError::Exhausted)?;
            let read = runtime.block_on(source.read(&visit, self.payload, ()))?;
            parts += read.timeline.cut(read.timeline.asked, read.timeline.done);
            let mut arrival = Arrival::new(read.body, &self.held);
            arrived += arrival.bytes() + ByteCount(read.more);
            let before = covered;
            covered = visit.positions().end;
            parts.work += self.work_on(before..covered.min(end));
            if covered > end {
                arrivals.extend(arrival.share().kept());
                self.last = Some((arrival, covered));
            } else {
                arrivals.extend(arrival.kept());
            }
        }
        if covered == end {
            self.last = None;
        }
        self.next_position = end;
        // As if all the work had been done behind the last byte.
        let worked = Duration::try_from_secs_f64(parts.work.0).unwrap_or_default();
        let last_byte = (!worked.is_zero()).then(|| Instant::now().checked_sub(worked)).flatten();
        let course = Course::All(parts);
        Ok(Batch { arrivals, samples: batch_size, arrived, last_byte, course })
    }

    /// Works on the samples at `positions`, which are read, and tells how long.
    fn work_on(&mut self, positions: Range<u64>) -> Seconds {
        let Some(times) = &mut self.times else { return Seconds(0.0) };
        let time = times.sum(positions.end - positions.start);
        thread::sleep(time);
        Seconds::from(time)
    }
}
