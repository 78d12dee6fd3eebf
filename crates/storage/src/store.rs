//! The trait that all storage is seen through.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{ObjectKey, StoreError};

/// The most objects in a page of a listing.
pub(crate) const PAGE: usize = 1_000;

/// What a finished read tells besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes that arrived: appended to the caller's buffer, or counted and let go.
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
/// attempt unless the store is wrapped in [`Retrying`](crate::Retrying).
pub trait Store: Send + Sync + fmt::Debug {
    /// Reads the whole object, or the half-open byte `range` of it, and appends it to `into`, whose
    /// capacity is reused. On failure `into` is as long as it was before the call. A range that is
    /// empty or reaches beyond the object's end is a failure. A call that is dropped before it ends
    /// may leave `into` empty and without its capacity.
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>>;

    /// As [`get`](Self::get), but the bytes are received, counted and let go, so that a store may be
    /// faster than this host's memory. Unless a store can do better, they pass through a buffer that
    /// holds all of them.
    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move { self.get(key, range, &mut Vec::new()).await })
    }

    /// Writes `body` as the whole object, replacing what was there. Readers see the old object or
    /// the new one, never a part.
    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Tells the object's size in bytes without reading it.
    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Removes the object. One that is not there is removed already, so the call may be repeated; a
    /// success does not tell which of the two it was.
    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes `folder` and then those that it is in, each if nothing is in it, up to the store's
    /// root, which stays. One that cannot be removed is left. A store whose folders are but parts
    /// of names has nothing to do.
    fn tidy<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, ()> {
        let _ = folder;
        Box::pin(async {})
    }

    /// Lists everything below `prefix` (a folder: it is matched up to a `/`), in pages of at most
    /// 1,000 objects sorted by key, handing each page to `page` as it arrives. An absent folder is
    /// an empty list; any failure is an error, never an empty list.
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// As [`list`](Self::list), but only what sorts behind `after`: how a listing goes on that broke
    /// off after some pages. Unless a store can do better, it lists everything again.
    fn list_after<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a ObjectKey,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut behind = |mut objects: Vec<Listed>| {
                objects.retain(|object| object.key > *after);
                if !objects.is_empty() {
                    page(objects);
                }
            };
            self.list(prefix, &mut behind).await
        })
    }

    /// Where this store is, for people: `s3://bucket at http://host:9000` or a folder's path.
    fn location(&self) -> String;

    /// The URL under which this store's requests are counted; `None` for a store without one, such as
    /// a folder.
    fn endpoint(&self) -> Option<&str> {
        None
    }
}
