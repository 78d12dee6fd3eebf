//! Writing an object in parts, so that one of any size passes through bounded memory.
//!
//! A [`Store`] knows four operations for it, none of which remembers anything: an upload is begun,
//! takes parts in any order and many at a time, and is completed or aborted; its [`UploadId`] ties
//! them together. So each of them may be repeated, and at another endpoint of the store, like any
//! other operation. [`Upload`] is what callers use: it cuts objects into parts that every store takes
//! and keeps what the store said of each. Only a completed upload is an object, and only then an older
//! object of that key is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use crate::{Cause, ObjectKey, Operation, Store, StoreError};

/// The most parts that S3 takes.
const MOST_PARTS: u64 = 10_000;

/// The least size of a part but the last. S3 asks for 5 MiB; larger ones are fewer requests.
const LEAST_PART_BYTES: u64 = 8 << 20;

/// How large an object may become whose size nobody knew when its upload began, in bytes.
const UNKNOWN_BYTES: u64 = 160 << 30;

/// A store's name for an upload under way, unique together with the object's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadId(String);

impl UploadId {
    /// The name as the store gave it.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Names the upload in errors.
    pub(crate) fn target(&self, key: &ObjectKey) -> String {
        format!("{key}, upload {}", self.0)
    }
}

/// Where a part belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlace {
    /// Its number, from 1 to 10,000, by which object stores put parts in order.
    pub number: u32,
    /// Where in the object it begins, in bytes.
    pub offset: u64,
}

impl PartPlace {
    /// Names the part in errors.
    pub(crate) fn target(self, key: &ObjectKey, id: &UploadId) -> String {
        format!("{key}, part {} of upload {}", self.number, id.0)
    }
}

/// What a store says of a part that it took, and is told again when the upload is completed. Empty for
/// stores that know their parts without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartTag {
    /// The entity tag, with its quotes.
    pub etag: String,
    /// The CRC-32C of the part, if it was sent along.
    pub crc32c: Option<u32>,
}

/// A part that the store has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedPart {
    /// As in [`PartPlace`].
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// What the store said of it.
    pub tag: PartTag,
}

/// An object that is being written in parts.
///
/// One that is dropped without [`complete`](Self::complete) or [`abort`](Self::abort) takes its parts
/// away as well as that can be done without waiting: a store of files removes its temporary file, an
/// object store is sent one request, if a runtime is there and lives long enough to send it. Parts that
/// stay behind are invisible as objects, but take room until the bucket's rules for unfinished uploads
/// remove them; whoever can wait calls `abort`.
pub struct Upload {
    store: Arc<dyn Store>,
    key: ObjectKey,
    id: UploadId,
    part_bytes: u64,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// By number.
    parts: BTreeMap<u32, UploadedPart>,
    /// Completed or aborted.
    ended: bool,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("part_bytes", &self.part_bytes)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// Begins to write the object of `key`. The parts' size follows from `bytes`, that of the whole
    /// object, and allows for 160 GiB where that is not known yet.
    ///
    /// # Errors
    ///
    /// The store does not take it.
    pub async fn begin(
        store: Arc<dyn Store>,
        key: ObjectKey,
        bytes: Option<u64>,
    ) -> Result<Self, StoreError> {
        let id = store.begin_upload(&key).await?;
        let part_bytes = part_bytes(bytes.unwrap_or(UNKNOWN_BYTES));
        Ok(Self { store, key, id, part_bytes, progress: Mutex::default() })
    }

    /// The store's name for it.
    pub fn id(&self) -> &UploadId {
        &self.id
    }

    /// What every part but the last has, in bytes: whole MiB, at least 8.
    pub fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// Writes the part that begins at `offset`, a multiple of [`part_bytes`](Self::part_bytes). Parts
    /// may come in any order and several at a time. One that is sent again replaces what it was.
    ///
    /// # Errors
    ///
    /// The store did not take it: it may be sent again. A part that lies across others, is too long,
    /// is empty, or is more than the 10,000th is refused, as is any once the upload has ended.
    pub async fn part(&self, offset: u64, body: Bytes) -> Result<(), StoreError> {
        let began = Instant::now();
        let bytes = body.len() as u64;
        let number = offset / self.part_bytes + 1;
        let place = PartPlace { number: u32::try_from(number).unwrap_or(u32::MAX), offset };
        if let Some(problem) = self.misplaced(place, bytes) {
            let target = place.target(&self.key, &self.id);
            return Err(self.refused(Operation::PutPart, target, began, problem));
        }
        let tag = self.store.put_part(&self.key, &self.id, place, body).await?;
        let part = UploadedPart { number: place.number, bytes, tag };
        self.progress().parts.insert(place.number, part);
        Ok(())
    }

    /// Makes an object of the parts, all `bytes` of it, in place of any older one.
    ///
    /// # Errors
    ///
    /// Parts are missing or too short, or the store does not make an object of them. Nothing has
    /// changed then: parts may be sent and the call made again.
    pub async fn complete(&self, bytes: u64) -> Result<(), StoreError> {
        let began = Instant::now();
        if bytes == 0 && self.progress().parts.is_empty() {
            // No store makes an object of no part.
            self.part(0, Bytes::new()).await?;
        }
        let parts = self.whole(bytes).map_err(|problem| {
            let target = self.id.target(&self.key);
            self.refused(Operation::CompleteUpload, target, began, problem)
        })?;
        self.store.complete_upload(&self.key, &self.id, &parts).await?;
        self.progress().ended = true;
        Ok(())
    }

    /// Takes away what was written, and ends the upload. Parts that are under way meanwhile may stay
    /// behind at an object store: wait for them first.
    ///
    /// # Errors
    ///
    /// The store did not answer, or refused. The parts may still be there, and are not tried again.
    pub async fn abort(&self) -> Result<(), StoreError> {
        self.progress().ended = true;
        self.store.abort_upload(&self.key, &self.id).await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a part of so many bytes cannot be there.
    fn misplaced(&self, place: PartPlace, bytes: u64) -> Option<String> {
        let part_bytes = self.part_bytes;
        if self.progress().ended {
            return Some("the upload has ended".to_owned());
        }
        if !place.offset.is_multiple_of(part_bytes) {
            let offset = place.offset;
            return Some(format!(
                "offset {offset} is no multiple of the parts' {part_bytes} bytes"
            ));
        }
        if u64::from(place.number) > MOST_PARTS {
            return Some(format!(
                "an object has at most {MOST_PARTS} parts, here of {part_bytes} bytes; say how large \
                 it will be when its upload begins, so that its parts are larger"
            ));
        }
        if bytes > part_bytes || (bytes == 0 && place.offset > 0) {
            return Some(format!("it has {bytes} bytes; parts have 1 to {part_bytes}"));
        }
        None
    }

    /// The parts, if they make an object of `bytes`.
    fn whole(&self, bytes: u64) -> Result<Vec<UploadedPart>, String> {
        let progress = self.progress();
        if progress.ended {
            return Err("the upload has ended".to_owned());
        }
        let mut end = 0;
        for (number, part) in (1..).zip(progress.parts.values()) {
            if part.number != number {
                return Err(format!("part {number} is missing"));
            }
            if end != u64::from(number - 1) * self.part_bytes {
                let short = number - 1;
                return Err(format!("part {short} is short, but not the last: it ends at {end}"));
            }
            end += part.bytes;
        }
        if end != bytes {
            return Err(format!("its parts have {end} of {bytes} bytes"));
        }
        Ok(progress.parts.values().cloned().collect())
    }

    fn refused(
        &self,
        operation: Operation,
        target: String,
        began: Instant,
        problem: String,
    ) -> StoreError {
        let location = self.store.location();
        StoreError::of_attempt(operation, target, location, began, Cause::Other(problem))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.progress().ended {
            self.store.abandon_upload(&self.key, &self.id);
        }
    }
}

/// The size of the parts of an object of `bytes`, as an [`Upload`] takes them: whole MiB, so that they
/// begin where pages do.
pub fn part_bytes(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    let least = bytes.div_ceil(MOST_PARTS).div_ceil(MIB).saturating_mul(MIB);
    least.max(LEAST_PART_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn objects_of_any_size_have_parts_enough() {
        for (bytes, mib) in [
            (0, 8),
            (140 << 20, 8),
            (80_000 << 20, 8),
            ((80_000 << 20) + 1, 9),
            (UNKNOWN_BYTES, 17),
            (5 << 40, 525),
        ] {
            let part = part_bytes(bytes);
            assert_eq!(part, mib << 20, "{bytes}");
            assert!(bytes.div_ceil(part) <= MOST_PARTS, "{bytes}");
        }
    }

    #[tokio::test]
    async fn parts_that_no_store_would_take_are_refused_with_the_reason() {
        let store = Arc::new(MemoryStore::new());
        let upload = Upload::begin(store, ObjectKey::new("key"), Some(1)).await.unwrap();
        let size = upload.part_bytes();
        for (offset, bytes, problem) in [
            (1, 1, "offset 1 is no multiple of the parts' 8388608 bytes"),
            (size * 10_000, 1, "an object has at most 10000 parts"),
            (u64::MAX / size * size, 1, "an object has at most 10000 parts"),
            (0, size + 1, "it has 8388609 bytes; parts have 1 to 8388608"),
            (size, 0, "it has 0 bytes"),
        ] {
            let body = Bytes::from(vec![0; bytes as usize]);
            let error = upload.part(offset, body).await.unwrap_err().to_string();
            assert!(error.starts_with("PUT PART key, part "), "{error}");
            assert!(error.contains(problem), "{error}");
        }
        upload.part(size * 9_999, Bytes::from_static(b"x")).await.unwrap();
    }
}
