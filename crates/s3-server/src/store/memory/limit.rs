//! How much content the store may hold.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use feedrate_metrics::units::ByteCount;

use crate::store::{StoreError, StoreResult};

/// The most bytes of content that a memory store holds. Written as a whole number with its unit:
/// `512MiB`, `4GiB`; `B`, `KiB`, `MiB`, `GiB` and `TiB` are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub ByteCount);

/// Why a text is no [`MemoryLimit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is no size: write a whole number with its unit, B, KiB, MiB, GiB or TiB, such as 4GiB"
)]
pub struct MemoryLimitError {
    /// The text.
    pub text: String,
}

impl FromStr for MemoryLimit {
    type Err = MemoryLimitError;

    fn from_str(text: &str) -> Result<Self, MemoryLimitError> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let power = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|name| *name == unit.trim());
        let bytes = number
            .parse::<u64>()
            .ok()
            .zip(power)
            .and_then(|(number, power)| number.checked_mul(1 << (10 * power)));
        let bytes = bytes.filter(|bytes| *bytes > 0);
        bytes
            .map(|bytes| Self(ByteCount(bytes)))
            .ok_or_else(|| MemoryLimitError { text: text.to_owned() })
    }
}

/// The memory that content may take, and how much of it is taken.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    used: AtomicU64,
}

impl Memory {
    pub(super) fn new(limit: Option<MemoryLimit>) -> Self {
        let limit = limit.map_or(u64::MAX, |limit| limit.0.0);
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Sets `wanted` bytes aside until the room is dropped.
    pub(super) fn take(self: &Arc<Self>, wanted: ByteCount) -> StoreResult<Room> {
        let more = |used: u64| used.checked_add(wanted.0).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, more).map_err(|used| StoreError::MemoryLimit {
            wanted,
            used: ByteCount(used),
            limit: ByteCount(self.limit),
        })?;
        Ok(Room { memory: Arc::clone(self), bytes: wanted.0 })
    }
}

/// Memory set aside. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Room {
    /// `content` as shared memory that keeps this room until the last share of it is gone.
    pub(super) fn hold(self, content: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held { content, _room: self })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Relaxed);
    }
}

struct Held {
    content: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let bytes = |text: &str| text.parse::<MemoryLimit>().map(|limit| limit.0.0);
        assert_eq!(bytes("1B"), Ok(1));
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("4 GiB"), Ok(4 << 30));
        for wrong in ["", "4", "GiB", "4GB", "-1B", "0MiB", "1.5GiB", "99999999TiB"] {
            assert_eq!(bytes(wrong).unwrap_err().text, wrong);
        }
    }
}
