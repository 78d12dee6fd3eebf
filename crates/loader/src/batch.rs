//! A complete batch, and what has landed that it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use feedrate_metrics::units::ByteCount;

use crate::pool::BufferPool;
use crate::source::Pieces;

/// Bytes that a rank holds: in flight, landed, or in a batch not yet dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a visit brought, every byte in memory. Dropping it gives its buffers back to the pool.
#[derive(Debug)]
pub(crate) struct Landed {
    pieces: Pieces,
    pool: Arc<BufferPool>,
    held: Arc<Held>,
}

impl Landed {
    pub(crate) fn new(pieces: Pieces, pool: &Arc<BufferPool>, held: &Arc<Held>) -> Self {
        held.add(pieces.bytes());
        Self { pieces, pool: Arc::clone(pool), held: Arc::clone(held) }
    }
}

impl Drop for Landed {
    fn drop(&mut self) {
        self.held.subtract(self.pieces.bytes());
        let pieces = std::mem::replace(&mut self.pieces, Pieces::One(Vec::new()));
        pieces.into_buffers().for_each(|buffer| self.pool.put(buffer));
    }
}

/// What a finished read leaves.
#[derive(Debug, Clone)]
pub(crate) enum Arrival {
    /// The bytes, in memory.
    Kept(Arc<Landed>),
    /// How many bytes came; they are gone.
    Counted(u64),
}

impl Arrival {
    pub(crate) fn bytes(&self) -> ByteCount {
        match self {
            Self::Kept(landed) => ByteCount(landed.pieces.bytes()),
            Self::Counted(bytes) => ByteCount(*bytes),
        }
    }

    /// The bytes, unless they were only counted.
    pub(crate) fn kept(&self) -> Option<Arc<Landed>> {
        match self {
            Self::Kept(landed) => Some(Arc::clone(landed)),
            Self::Counted(_) => None,
        }
    }
}

/// The samples of one step, all in memory, or with `reader.payload` `discard` what is known of them.
#[derive(Debug)]
pub struct Batch {
    pub(crate) pieces: Vec<Arc<Landed>>,
    pub(crate) samples: u64,
    pub(crate) arrived: ByteCount,
    pub(crate) last_byte: Option<Instant>,
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
        self.pieces.iter().flat_map(|landed| landed.pieces.buffers()).map(Vec::as_slice)
    }
}
