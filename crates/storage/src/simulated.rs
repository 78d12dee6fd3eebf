//! No store at all: every read is answered at once, so that a run shows what everything but the
//! storage costs.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{Cause, Fetched, Listed, ObjectKey, Operation, Store, StoreError, UploadId};

/// Answers every read at once with zeros, whatever the key. Nothing is stored: listings are empty,
/// and writing and removing are refused.
#[derive(Debug)]
pub struct SimulatedStore {
    length: u64,
}

impl SimulatedStore {
    /// Every object has `length` bytes.
    pub fn new(length: u64) -> Self {
        Self { length }
    }

    /// Bytes of the object, or of a range of it.
    fn bytes(&self, range: Option<Range<u64>>) -> Result<u64, Cause> {
        match range {
            None => Ok(self.length),
            Some(range) if range.is_empty() => {
                Err(Cause::Other(format!("the range {range:?} is empty")))
            }
            Some(range) if range.end > self.length => Err(Cause::Truncated {
                expected: Some(range.end - range.start),
                received: self.length.saturating_sub(range.start),
            }),
            Some(range) => Ok(range.end - range.start),
        }
    }

    fn failed(&self, operation: Operation, key: &ObjectKey, cause: Cause) -> StoreError {
        StoreError::of_attempt(operation, key.as_str(), self.location(), Instant::now(), cause)
    }

    fn refused(&self, operation: Operation, key: &ObjectKey) -> StoreError {
        let reason = "I/O is simulated for reading only, there is nothing to write to: name a store, \
                      or do not simulate";
        self.failed(operation, key, Cause::Other(reason.to_owned()))
    }
}

impl Store for SimulatedStore {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let failed = |cause| self.failed(Operation::Get, key, cause);
            let bytes = self.bytes(range).map_err(failed)?;
            into.try_reserve(bytes as usize).map_err(|error| {
                failed(Cause::Other(format!("no memory for {bytes} bytes: {error}")))
            })?;
            // Setting memory is the least that makes bytes be there.
            into.resize(into.len() + bytes as usize, 0);
            Ok(Fetched { bytes, first_byte: Duration::ZERO, last_byte: began.elapsed() })
        })
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let bytes =
                self.bytes(range).map_err(|cause| self.failed(Operation::Get, key, cause))?;
            Ok(Fetched { bytes, first_byte: Duration::ZERO, last_byte: Duration::ZERO })
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, _: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { Err(self.refused(Operation::Put, key)) })
    }

    fn size<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.length) })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { Err(self.refused(Operation::Delete, key)) })
    }

    fn list<'a>(
        &'a self,
        _: &'a str,
        _: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn begin_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        Box::pin(async move { Err(self.refused(Operation::BeginUpload, key)) })
    }

    fn location(&self) -> String {
        "simulated I/O".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn what_is_there_is_read_as_from_any_store() {
        let store = SimulatedStore::new(10);
        let key = ObjectKey::new("train/img_0_of_1.npz");
        contract::an_object_of_ten_bytes(&store, &key).await;
        let mut buffer = b"before".to_vec();
        store.get(&key, None, &mut buffer).await.unwrap();
        assert_eq!(buffer, b"before\0\0\0\0\0\0\0\0\0\0");
        store.list("train", &mut |_| panic!("nothing is stored")).await.unwrap();
    }

    #[tokio::test]
    async fn a_buffer_is_used_again() {
        let store = SimulatedStore::new(100_000);
        let mut buffer = Vec::with_capacity(100_000);
        let place = buffer.as_ptr();
        store.get(&ObjectKey::new("x"), None, &mut buffer).await.unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr()), (100_000, place));
    }

    #[tokio::test]
    async fn writing_is_refused_with_the_reason() {
        let store = SimulatedStore::new(10);
        let key = ObjectKey::new("x");
        let put = store.put(&key, Bytes::new()).await.unwrap_err().to_string();
        let delete = store.delete(&key).await.unwrap_err().to_string();
        let upload = store.begin_upload(&key).await.unwrap_err().to_string();
        for (error, operation) in
            [(put, "PUT x at"), (delete, "DELETE x at"), (upload, "BEGIN UPLOAD x at")]
        {
            assert!(error.starts_with(operation), "{error}");
            assert!(error.contains("simulated for reading only"), "{error}");
        }
    }
}
