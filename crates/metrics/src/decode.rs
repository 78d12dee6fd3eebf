//! What decoding took, apart from reading.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{ByteCount, Seconds};

/// Counts what is decoded. Safe to share between threads.
#[derive(Debug, Default)]
pub struct DecodeStats {
    pieces: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl DecodeStats {
    /// Counts a piece of a file of `bytes` that took `time` to decode.
    pub fn decoded(&self, bytes: u64, time: Duration) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// What was counted until now.
    pub fn summary(&self) -> DecodeSummary {
        DecodeSummary {
            pieces: self.pieces.load(Ordering::Relaxed),
            bytes: ByteCount(self.bytes.load(Ordering::Relaxed)),
            time: Seconds(self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9),
        }
    }
}

/// What was decoded, and how long that took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeSummary {
    /// Files, or pieces of files that were read for themselves.
    pub pieces: u64,
    /// Their bytes, as they were read.
    pub bytes: ByteCount,
    /// Time of all threads that decoded, together.
    pub time: Seconds,
}

impl DecodeSummary {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            pieces: self.pieces + other.pieces,
            bytes: self.bytes + other.bytes,
            time: self.time + other.time,
        }
    }
}
