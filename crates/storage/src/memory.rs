//! A store in memory: for tests, and to learn what the tool costs before blaming a store.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::key::folder;
use crate::store::PAGE;
use crate::{Cause, Fetched, Listed, ObjectKey, Operation, Store, StoreError};

/// Objects in a map. Reading copies out of it, as a read from anywhere would.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: RwLock<BTreeMap<String, Bytes>>,
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
            let bytes = self.read(key, range).map_err(|cause| {
                let location = self.location();
                StoreError::of_attempt(Operation::Get, key.as_str(), location, began, cause)
            })?;
            let first_byte = began.elapsed();
            into.extend_from_slice(&bytes);
            Ok(Fetched { bytes: bytes.len() as u64, first_byte, last_byte: began.elapsed() })
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
            self.read(key, None).map(|object| object.len() as u64).map_err(|cause| {
                let location = self.location();
                StoreError::of_attempt(Operation::Head, key.as_str(), location, began, cause)
            })
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

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_keeps_the_contract() {
        crate::contract::check(&MemoryStore::new()).await;
    }
}
