//! The trait that all storage is seen through.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{Cause, ObjectKey, Operation, PartPlace, PartTag, StoreError, UploadId, UploadedPart};

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

impl Fetched {
    /// A read that had nothing to bring, and knew after `elapsed`.
    pub(crate) fn nothing(elapsed: Duration) -> Self {
        Self { bytes: 0, first_byte: elapsed, last_byte: elapsed }
    }
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

    /// Appends the last `most` bytes of the object to `into`, all of one that has fewer, and tells the
    /// size of the whole, in bytes. On failure `into` is as long as it was before the call. Unless a
    /// store can do better, it asks for the size first.
    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        Box::pin(async move {
            let asked = Instant::now();
            let size = self.size(key).await?;
            let tail = size.saturating_sub(most)..size;
            let fetched = if tail.is_empty() {
                Fetched::nothing(asked.elapsed())
            } else {
                self.get(key, Some(tail), into).await?
            };
            Ok((fetched, size))
        })
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

    /// Begins to write an object in parts; see [`Upload`](crate::Upload), which does all that follows.
    /// Nothing is visible of it before it is completed. By default a store refuses.
    fn begin_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        let error = in_parts_refused(self.location(), Operation::BeginUpload, key);
        Box::pin(async { Err(error) })
    }

    /// Writes one part, in place of any that was there under its number.
    fn put_part<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        place: PartPlace,
        body: Bytes,
    ) -> BoxFuture<'a, Result<PartTag, StoreError>> {
        let _ = (id, place, body);
        let error = in_parts_refused(self.location(), Operation::PutPart, key);
        Box::pin(async { Err(error) })
    }

    /// Makes an object of `parts`, in place of any older one: all parts of the upload, in the order of
    /// their numbers, without a gap. The upload is over then.
    fn complete_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        parts: &'a [UploadedPart],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = (id, parts);
        let error = in_parts_refused(self.location(), Operation::CompleteUpload, key);
        Box::pin(async { Err(error) })
    }

    /// Takes the parts of an upload away. One that is over already is no failure.
    fn abort_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = id;
        let error = in_parts_refused(self.location(), Operation::AbortUpload, key);
        Box::pin(async { Err(error) })
    }

    /// As [`abort_upload`](Self::abort_upload), but what can be done at once or left to others, as
    /// there is nobody to wait for it or to hear of a failure. By default nothing.
    fn abandon_upload(&self, key: &ObjectKey, id: &UploadId) {
        let _ = (key, id);
    }

    /// Where this store is, for people: `s3://bucket at http://host:9000` or a folder's path.
    fn location(&self) -> String;

    /// The URL under which this store's requests are counted; `None` for a store without one, such as
    /// a folder.
    fn endpoint(&self) -> Option<&str> {
        None
    }
}

fn in_parts_refused(location: String, operation: Operation, key: &ObjectKey) -> StoreError {
    let cause = Cause::Other("this store does not write objects in parts".to_owned());
    StoreError::of_attempt(operation, key.as_str(), location, Instant::now(), cause)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{MemoryStore, Upload};

    /// A store that does only what it must.
    #[derive(Debug)]
    struct Least(MemoryStore);

    impl Store for Least {
        fn get<'a>(
            &'a self,
            key: &'a ObjectKey,
            range: Option<Range<u64>>,
            into: &'a mut Vec<u8>,
        ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
            self.0.get(key, range, into)
        }

        fn put<'a>(
            &'a self,
            key: &'a ObjectKey,
            body: Bytes,
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            self.0.put(key, body)
        }

        fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
            self.0.size(key)
        }

        fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
            self.0.delete(key)
        }

        fn list<'a>(
            &'a self,
            prefix: &'a str,
            page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            self.0.list(prefix, page)
        }

        fn location(&self) -> String {
            self.0.location()
        }
    }

    #[tokio::test]
    async fn tails_are_read_from_a_store_that_knows_only_ranges() {
        crate::contract::tails_are_read_without_knowing_the_size(&Least(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn a_store_without_uploads_in_parts_says_so() {
        let store = Arc::new(Least(MemoryStore::new()));
        let begun = Upload::begin(store, ObjectKey::new("key"), None).await;
        let error = begun.unwrap_err().to_string();
        assert!(error.starts_with("BEGIN UPLOAD key at memory"), "{error}");
        assert!(error.ends_with("this store does not write objects in parts"), "{error}");
    }
}
