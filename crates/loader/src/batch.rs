//! A complete batch, and what has landed that it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use feedrate_metrics::record::WaitParts;
use feedrate_metrics::units::{ByteCount, Seconds};

use crate::pool::BufferPool;
use crate::source::{Body, Pieces};
use crate::timeline::Timeline;

/// What a rank holds: bytes in flight, landed, or in a batch not yet dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: AtomicU64,
    /// Where the buffers are from.
    pool: Arc<BufferPool>,
}

impl Held {
    /// Nothing yet; buffers are those of `pool`.
    pub(crate) fn new(pool: &Arc<BufferPool>) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), pool: Arc::clone(pool) })
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What a visit brought, every byte in memory. Dropping it gives its buffers back to the pool.
#[derive(Debug)]
pub(crate) struct Landed {
    pieces: Pieces,
    held: Arc<Held>,
}

impl Drop for Landed {
    fn drop(&mut self) {
        self.held.subtract(self.pieces.bytes());
        let pieces = std::mem::replace(&mut self.pieces, Pieces::One(Vec::new()));
        pieces.into_buffers().for_each(|buffer| self.held.pool.put(buffer));
    }
}

/// What a finished read leaves.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The bytes, in memory.
    Kept(Landed),
    /// The same, in several batches.
    Shared(Arc<Landed>),
    /// How many bytes came; they are gone.
    Counted(u64),
}

impl Arrival {
    /// What `body` keeps counts in `held` from here on.
    pub(crate) fn new(body: Body<Pieces>, held: &Arc<Held>) -> Self {
        match body {
            Body::Kept(pieces) => {
                held.add(pieces.bytes());
                Self::Kept(Landed { pieces, held: Arc::clone(held) })
            }
            Body::Counted(bytes) => Self::Counted(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount(match self {
            Self::Counted(bytes) => *bytes,
            kept => kept.pieces().map_or(0, Pieces::bytes),
        })
    }

    /// The same for a batch, while there is another one that needs it.
    pub(crate) fn share(&mut self) -> Self {
        let landed = match std::mem::replace(self, Self::Counted(0)) {
            Self::Kept(landed) => Arc::new(landed),
            Self::Shared(landed) => landed,
            Self::Counted(bytes) => {
                *self = Self::Counted(bytes);
                return Self::Counted(bytes);
            }
        };
        *self = Self::Shared(Arc::clone(&landed));
        Self::Shared(landed)
    }

    /// Itself, unless there is nothing to keep.
    pub(crate) fn kept(self) -> Option<Self> {
        self.pieces().is_some().then_some(self)
    }

    /// The bytes, unless they were only counted.
    fn pieces(&self) -> Option<&Pieces> {
        match self {
            Self::Kept(landed) => Some(&landed.pieces),
            Self::Shared(landed) => Some(&landed.pieces),
            Self::Counted(_) => None,
        }
    }
}

/// How a batch came together, as one that waited for it sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Course {
    /// Its pieces came side by side, the last one this way.
    Last(Timeline),
    /// They came one after the other.
    All(WaitParts),
}

/// The samples of one step, all in memory, or with `reader.payload` `discard` what is known of them.
#[derive(Debug)]
pub struct Batch {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) samples: u64,
    pub(crate) arrived: ByteCount,
    pub(crate) last_byte: Option<Instant>,
    pub(crate) course: Course,
}

impl Batch {
    /// How many samples it holds.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Bytes of the visits that begin in this batch: summed over an epoch's batches, every byte that
    /// was read counts once even where a file serves several batches.
    pub fn arrived(&self) -> ByteCount {
        self.arrived
    }

    /// When the last of its bytes was there, if readers work on samples behind that: what a rank waits
    /// longer is their work.
    pub fn last_byte(&self) -> Option<Instant> {
        self.last_byte
    }

    /// The bytes of the visits that its samples are of, in the order of the samples, in the buffers
    /// that they landed in: one for each GET. None where bytes are discarded.
    pub fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let pieces = self.arrivals.iter().filter_map(Arrival::pieces);
        pieces.flat_map(Pieces::buffers).map(Vec::as_slice)
    }

    /// What a wait for it of this length went by, which is over now: its parts, which add up to it.
    pub fn waited(&self, wait: Seconds) -> WaitParts {
        match self.course {
            Course::Last(timeline) => {
                let ended = Instant::now();
                let length = Duration::try_from_secs_f64(wait.0).unwrap_or_default();
                timeline.cut(ended.checked_sub(length).unwrap_or(ended), ended)
            }
            Course::All(parts) => {
                let handover = (wait - parts.total()).0.max(0.0);
                WaitParts { handover: Seconds(handover), ..parts }
            }
        }
    }
}
