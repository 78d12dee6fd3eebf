//! One trait over S3, local files and memory, with retries, credentials and counters.
//!
//! A [`Store`] holds one data set's bytes: a bucket of an object store, a folder of a file system, or
//! a map in memory. Every operation names an [`ObjectKey`] (no leading slash, `/` between parts) and
//! ends in a [`StoreError`] that says which operation failed on what, where, and after how many
//! attempts. Wrappers compose: [`Retrying`] around a store repeats what may be repeated and counts
//! it; the stores themselves try once.
//!
//! The trait knows nothing of what the bytes mean: formats live in `feedrate-dataset`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

mod error;

pub use error::{Cause, Operation, StoreError};

/// The name of an object inside its store: UTF-8, parts divided by `/`, no leading slash.
///
/// For a bucket this is the decoded key; for a folder it is the path below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Wraps `key`, dropping leading slashes, which no store here gives a meaning.
    pub fn new(key: impl Into<String>) -> Self {
        let key: String = key.into();
        match key.strip_prefix('/') {
            None => Self(key),
            Some(_) => Self(key.trim_start_matches('/').to_owned()),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a finished read tells besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes appended to the caller's buffer.
    pub bytes: u64,
    /// From sending the successful attempt's request to its first body byte (local: the first
    /// `pread` returning).
    pub first_byte: Duration,
    /// From sending the successful attempt's request to its last body byte.
    pub last_byte: Duration,
}

/// One listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key, below the store's root.
    pub key: ObjectKey,
    /// Its size in bytes.
    pub size: u64,
}

/// Storage as the benchmark sees it. All methods are one operation of the store: a call is one
/// attempt unless the store is wrapped in [`Retrying`].
pub trait Store: Send + Sync + fmt::Debug {
    /// Reads the whole object, or the half-open byte `range` of it, and appends it to `into`, whose
    /// capacity is reused. On failure `into` is as long as it was before the call.
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>>;

    /// Writes `body` as the whole object, replacing what was there. Readers see the old object or
    /// the new one, never a part.
    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Lists everything below `prefix` (a folder: it is matched up to a `/`), in pages, handing each
    /// page to `page` as it arrives. An absent folder is an empty list; any failure is an error,
    /// never an empty list.
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Where this store is, for people: `s3://bucket at http://host:9000` or a folder's path.
    fn location(&self) -> String;
}
