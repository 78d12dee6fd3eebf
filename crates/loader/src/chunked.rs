//! The chunked pipeline: each reader fetches its files chunk by chunk, as the loader of DLIO's S3
//! readers does that the scaling table was measured with.
//!
//! ```text
//!  reader k   ask for chunk 0 │ use chunk 0        │ use chunk 1        │ …
//!                             │ ask for chunk 1    │ ask for chunk 2    │
//! ```
//!
//! A reader makes whole batches, as a worker of `PyTorch`'s loader does over an iterable data set,
//! and batches are taken from the readers in turn: reader k of W makes batches k, k + W, k + 2 W … So
//! the first batch needs the first reader alone, and readers that start later hold nobody up. A file
//! whose samples reach over the end of a batch belongs to the reader that makes the batch in which
//! they begin; where a file fills several batches the readers take the files in turn.
//!
//! - A chunk is used when **all of it has landed**, and when its use begins the next one is asked
//!   for: the store rests when that one lands before the other is used up, and the rank waits for a
//!   whole chunk when it does not. Never more than one chunk is asked for in advance.
//! - A reader has at most [`CHUNKED_GETS_IN_FLIGHT`] GETs in flight, and at most a chunk.
//! - A reader uses its files as its batches are made, and makes one when it is less than the ready
//!   bound ahead of the rank, whether or not the batches of the other readers before it are complete.
//! - The readers start one after the other, `stagger` apart, in each epoch.
//! - Where the byte budget has no room for a whole chunk, its use begins with what has landed when
//!   there is no room for more, and the rest follows as room allows; the files that are needed first
//!   get it. Two batches of the budget are kept free for the files of the next batch, which are asked
//!   for in any case.
//!
//! Each reader is on its own: nothing waits for other ranks' first batches or turns, and turns are
//! [`fixed`](Turns::fixed).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use feedrate_dataset::Visit;
use feedrate_workload::CHUNKED_GETS_IN_FLIGHT;
use tokio::time::{Instant, sleep_until};

use crate::loader::Visits;
use crate::pipeline::{Pipeline, Room};
use crate::turns::{Place, Turns};

pub(crate) struct Chunked {
    dealer: Dealer,
    readers: Vec<Reader>,
    chunk: u64,
    room: Room,
    /// Notes what is in flight.
    turns: Arc<Turns>,
    /// Visits that readers have used and that are not yet in their last batch, and since when.
    in_use: BTreeMap<u64, std::time::Instant>,
}

impl Chunked {
    /// `readers` readers, at least one, of which the first starts now and each other `stagger` after
    /// the one before.
    pub(crate) fn new(
        visits: Visits,
        readers: u32,
        chunk: u64,
        stagger: Duration,
        room: Room,
        turns: Arc<Turns>,
    ) -> Self {
        let now = Instant::now();
        let reader = |place| Reader::new(now + stagger.saturating_mul(place));
        Self {
            dealer: Dealer { visits, next: 0, turn: None },
            readers: (0..readers).map(reader).collect(),
            chunk,
            room,
            turns,
            in_use: BTreeMap::new(),
        }
    }

    /// The next visit that `reader` has to ask for.
    fn peek(&mut self, reader: usize) -> Option<(u64, Visit)> {
        while self.readers[reader].to_ask.is_empty() {
            let (whose, number, visit) = self.dealer.deal(&self.room)?;
            let whose = whose as usize % self.readers.len();
            self.readers[whose].to_ask.push_back((number, visit));
        }
        self.readers[reader].to_ask.front().cloned()
    }

    /// Whether nothing more of the chunk that `reader` uses next can land before some of it is used.
    fn has_landed(&mut self, reader: usize, taken: u64) -> bool {
        let Reader { in_flight, asked, chunks_begun, .. } = self.readers[reader];
        in_flight == 0
            && (asked == (chunks_begun + 1) * self.chunk
                || self
                    .peek(reader)
                    .is_none_or(|(_, visit)| !self.room.has_place_for(&visit, taken)))
    }
}

impl Pipeline for Chunked {
    type Turn = Place;

    fn next(&mut self, taken: u64) -> Option<(u64, Visit)> {
        let now = Instant::now();
        let most = self.chunk.min(u64::from(CHUNKED_GETS_IN_FLIGHT));
        let mut first: Option<(u64, Visit, usize)> = None;
        for place in 0..self.readers.len() {
            let reader = &mut self.readers[place];
            reader.is_awake = reader.is_awake || reader.starts <= now;
            let may_ask = reader.is_awake
                && reader.in_flight < most
                && reader.asked < (reader.chunks_begun + 1) * self.chunk;
            if let Some((number, visit)) = may_ask.then(|| self.peek(place)).flatten()
                && first.as_ref().is_none_or(|(earliest, ..)| number < *earliest)
                && self.room.has_place_for(&visit, taken)
            {
                first = Some((number, visit, place));
            }
        }
        let (number, visit, place) = first?;
        let batch = self.room.batch(&visit);
        let reader = &mut self.readers[place];
        reader.to_ask.pop_front();
        reader.asked += 1;
        reader.in_flight += 1;
        reader.to_use.push_back(Asked { number, batch, has_landed: false });
        Some((number, visit))
    }

    fn turn(&mut self, visit: &Visit) -> Self::Turn {
        self.turns.ask(self.room.batch(visit))
    }

    fn landed(&mut self, number: u64, _: Duration) {
        for reader in &mut self.readers {
            if let Ok(place) = reader.to_use.binary_search_by_key(&number, |asked| asked.number) {
                reader.to_use[place].has_landed = true;
                reader.in_flight -= 1;
            }
        }
    }

    fn go_on(&mut self, taken: u64, batches: u64) {
        let now = std::time::Instant::now();
        for place in 0..self.readers.len() {
            while let Some(&Asked { number, batch, has_landed }) =
                self.readers[place].to_use.front()
                && has_landed
                && batch < batches
            {
                let Reader { used, chunks_begun, .. } = self.readers[place];
                if used == chunks_begun * self.chunk {
                    if !self.has_landed(place, taken) {
                        break;
                    }
                    self.readers[place].chunks_begun += 1;
                }
                self.readers[place].to_use.pop_front();
                self.readers[place].used += 1;
                self.in_use.insert(number, now);
            }
        }
    }

    fn usable_since(&self, number: u64, _: std::time::Instant) -> Option<std::time::Instant> {
        self.in_use.get(&number).copied()
    }

    fn used(&mut self, number: u64) {
        self.in_use.remove(&number);
    }

    fn is_at_end(&mut self) -> bool {
        (0..self.readers.len()).all(|reader| self.peek(reader).is_none())
    }

    /// The next reader starts.
    async fn changed(&mut self) {
        let asleep = self.readers.iter().filter(|reader| !reader.is_awake);
        match asleep.map(|reader| reader.starts).min() {
            Some(start) => sleep_until(start).await,
            None => std::future::pending().await,
        }
    }
}

/// One reader of the rank. All counts are of visits, from the start of the epoch.
#[derive(Debug)]
struct Reader {
    starts: Instant,
    is_awake: bool,
    /// Dealt to it; not all there are, see [`Chunked::peek`].
    to_ask: VecDeque<(u64, Visit)>,
    /// Asked for, perhaps landed, and not yet used, in order.
    to_use: VecDeque<Asked>,
    asked: u64,
    in_flight: u64,
    used: u64,
    /// Chunks whose use has begun.
    chunks_begun: u64,
}

impl Reader {
    fn new(starts: Instant) -> Self {
        Self {
            starts,
            is_awake: false,
            to_ask: VecDeque::new(),
            to_use: VecDeque::new(),
            asked: 0,
            in_flight: 0,
            used: 0,
            chunks_begun: 0,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    number: u64,
    /// The first batch that needs it.
    batch: u64,
    has_landed: bool,
}

/// Says whose turn each visit is.
struct Dealer {
    visits: Visits,
    next: u64,
    /// The turn and the batch that its visits begin in.
    turn: Option<(u64, u64)>,
}

impl Dealer {
    /// The next visit with its number and turn. A turn ends where a visit begins in a later batch.
    fn deal(&mut self, room: &Room) -> Option<(u64, u64, Visit)> {
        let visit = self.visits.next()?;
        let batch = room.batch(&visit);
        let turn = match self.turn {
            None => 0,
            Some((turn, of)) if of == batch => turn,
            Some((turn, _)) => turn + 1,
        };
        self.turn = Some((turn, batch));
        self.next += 1;
        Some((turn, self.next - 1, visit))
    }
}
