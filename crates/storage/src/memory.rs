//! A store in memory: for tests, and to learn what the tool costs before blaming a store.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::key::folder;
use crate::store::PAGE;
use crate::{
    Cause, Fetched, Listed, ObjectKey, Operation, PartPlace, PartTag, Store, StoreError, UploadId,
    UploadedPart,
};

/// Objects in a map. Reading copies out of it, as a read from anywhere would.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: RwLock<BTreeMap<String, Bytes>>,
    uploads: Mutex<Uploads>,
}

/// Those under way.
#[derive(Debug, Default)]
struct Uploads {
    begun: u64,
    /// Their parts, by number, by the upload's id.
    parts: BTreeMap<String, BTreeMap<u32, Bytes>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Bytes, Cause> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let object = objects.get(key.as_str()).ok_or(Cause::NotFound { code: None })?;
        let Some(range) = range else { return Ok(object.clone()) };
        if range.is_empty() {
            return Err(Cause::Other(format!("the range {range:?} is empty")));
        }
        let length = object.len() as u64;
        if range.end > length {
            return Err(Cause::Truncated {
                expected: Some(range.end - range.start),
                received: length.saturating_sub(range.start),
            });
        }
        Ok(object.slice(range.start as usize..range.end as usize))
    }

    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object that the parts of an upload make.
    fn joined(&self, id: &UploadId, named: &[UploadedPart]) -> Result<Bytes, Cause> {
        let uploads = self.uploads();
        let parts = uploads.parts.get(id.as_str()).ok_or(Cause::NotFound { code: None })?;
        let mut object = Vec::new();
        for named in named {
            let part = parts
                .get(&named.number)
                .filter(|part| part.len() as u64 == named.bytes)
                .ok_or_else(|| Cause::Other(format!("part {} is not there", named.number)))?;
            object.extend_from_slice(part);
        }
        Ok(object.into())
    }

    fn failed(
        &self,
        operation: Operation,
        target: impl Into<String>,
        began: Instant,
        cause: Cause,
    ) -> StoreError {
        StoreError::of_attempt(operation, target, self.location(), began, cause)
    }

    /// Up to a page of the objects below `folder` that sort behind `after`.
    fn page(&self, folder: &str, after: Option<&ObjectKey>) -> Vec<Listed> {
        let start = match after {
            Some(after) if after.as_str() >= folder => Bound::Excluded(after.as_str()),
            _ => Bound::Included(folder),
        };
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(folder))
            .take(PAGE)
            .map(|(key, body)| Listed {
                key: ObjectKey::new(key.as_str()),
                size: body.len() as u64,
            })
            .collect()
    }
}

impl Store for MemoryStore {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let bytes = self
                .read(key, range)
                .map_err(|cause| self.failed(Operation::Get, key.as_str(), began, cause))?;
            Ok(append(&bytes, into, began))
        })
    }

    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let object = self
                .read(key, None)
                .map_err(|cause| self.failed(Operation::Get, key.as_str(), began, cause))?;
            let size = object.len() as u64;
            let tail = object.slice(size.saturating_sub(most) as usize..);
            Ok((append(&tail, into, began), size))
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            objects.insert(key.as_str().to_owned(), body);
            Ok(())
        })
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            self.read(key, None)
                .map(|object| object.len() as u64)
                .map_err(|cause| self.failed(Operation::Head, key.as_str(), began, cause))
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(key.as_str());
            Ok(())
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let folder = folder(prefix);
            let mut last = None;
            loop {
                let objects = self.page(&folder, last.as_ref());
                let Some(object) = objects.last() else { return Ok(()) };
                last = Some(object.key.clone());
                page(objects);
            }
        })
    }

    fn begin_upload<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        Box::pin(async move {
            let mut uploads = self.uploads();
            uploads.begun += 1;
            let id = uploads.begun.to_string();
            uploads.parts.insert(id.clone(), BTreeMap::new());
            Ok(UploadId::new(id))
        })
    }

    fn put_part<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        place: PartPlace,
        body: Bytes,
    ) -> BoxFuture<'a, Result<PartTag, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let mut uploads = self.uploads();
            let Some(parts) = uploads.parts.get_mut(id.as_str()) else {
                let (target, cause) = (place.target(key, id), Cause::NotFound { code: None });
                return Err(self.failed(Operation::PutPart, target, began, cause));
            };
            parts.insert(place.number, body);
            Ok(PartTag::default())
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        parts: &'a [UploadedPart],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let object = self.joined(id, parts).map_err(|cause| {
                self.failed(Operation::CompleteUpload, id.target(key), began, cause)
            })?;
            self.put(key, object).await?;
            self.abandon_upload(key, id);
            Ok(())
        })
    }

    fn abort_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.abandon_upload(key, id);
            Ok(())
        })
    }

    fn abandon_upload(&self, _: &ObjectKey, id: &UploadId) {
        self.uploads().parts.remove(id.as_str());
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

/// Hands over what a read that was `asked` for then has found at once.
fn append(bytes: &[u8], into: &mut Vec<u8>, asked: Instant) -> Fetched {
    let first_byte = asked.elapsed();
    into.extend_from_slice(bytes);
    Fetched { bytes: bytes.len() as u64, first_byte, last_byte: asked.elapsed() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn memory_keeps_the_contract() {
        crate::contract::check(Arc::new(MemoryStore::new())).await;
    }
}
