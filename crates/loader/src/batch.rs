//! A complete batch, and the landed files it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use feedrate_metrics::units::ByteCount;

use crate::pool::BufferPool;

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

/// A file whose every byte is in memory. Dropping it gives its buffer back to the pool.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) bytes: Vec<u8>,
    pool: Arc<BufferPool>,
    held: Arc<Held>,
}

impl Landed {
    pub(crate) fn new(bytes: Vec<u8>, pool: &Arc<BufferPool>, held: &Arc<Held>) -> Self {
        held.add(bytes.len() as u64);
        Self { bytes, pool: Arc::clone(pool), held: Arc::clone(held) }
    }
}

impl Drop for Landed {
    fn drop(&mut self) {
        self.held.subtract(self.bytes.len() as u64);
        self.pool.put(std::mem::take(&mut self.bytes));
    }
}

/// What a finished read leaves.
#[derive(Debug, Clone)]
pub(crate) enum Arrival {
    /// The file, in memory.
    Kept(Arc<Landed>),
    /// How many bytes came; they are gone.
    Counted(u64),
}

impl Arrival {
    pub(crate) fn bytes(&self) -> ByteCount {
        match self {
            Self::Kept(landed) => ByteCount(landed.bytes.len() as u64),
            Self::Counted(bytes) => ByteCount(*bytes),
        }
    }

    /// The file, unless its bytes were only counted.
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
    pub(crate) files: Vec<Arc<Landed>>,
    pub(crate) samples: u64,
    pub(crate) arrived: ByteCount,
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

    /// The whole files that its samples are in, in the order of the samples. None where bytes are
    /// discarded.
    pub fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(|landed| landed.bytes.as_slice())
    }
}
