//! Objects in memory: a sorted map per bucket.
//!
//! Content is immutable shared memory: a GET hands out the buffer itself, a PUT copies the body once,
//! into a buffer of its exact size. The parts of a multipart upload are never copied together: the
//! object is the sequence of their buffers, and a copy of an object shares them.

mod limit;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::{Bound, Range};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use feedrate_metrics::units::ByteCount;
use hyper::body::{Frame, SizeHint};
use s3s::Body;

use super::listing::Keys;
use super::{
    Attributes, Content, ListPage, ListQuery, ObjectInfo, Receiver, Store, StoreError, StoreResult,
    WriteCondition,
};
use limit::Memory;
pub use limit::{MemoryLimit, MemoryLimitError};

/// All buckets of a server.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    memory: Arc<Memory>,
    writes: AtomicU64,
}

#[derive(Debug)]
struct Bucket {
    created: SystemTime,
    objects: RwLock<Objects>,
}

type Objects = BTreeMap<String, Arc<Object>>;

/// One version of an object: a PUT puts another one in its place.
#[derive(Debug)]
struct Object {
    info: Arc<ObjectInfo>,
    content: Buffers,
}

impl MemoryStore {
    /// An empty store that holds at most `limit` bytes of content, parts of uploads included.
    pub(crate) fn new(limit: Option<MemoryLimit>) -> Self {
        let memory = Arc::new(Memory::new(limit));
        Self { buckets: RwLock::default(), memory, writes: AtomicU64::new(0) }
    }

    fn bucket(&self, name: &str) -> StoreResult<Arc<Bucket>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).cloned().ok_or(StoreError::NoSuchBucket)
    }

    /// An `ETag` for content of `len` bytes that no other object of this server has.
    ///
    /// S3 uses the MD5 of the content. MD5 runs at some 0.6 GiB/s, so at the rate of this server it
    /// would take more than all of one core. Clients that compare the MD5 do so when the tag looks like
    /// one; the `-1` makes it look like the tag of an object that was written in parts, which is none.
    fn new_etag(&self, len: u64) -> String {
        format!("{:016x}{len:016x}-1", self.writes.fetch_add(1, Relaxed))
    }
}

impl Store for MemoryStore {
    type Blob = Buffers;
    type Receiver = Filling;
    type Content = Buffers;

    async fn create_bucket(&self, name: &str) -> StoreResult<()> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(StoreError::BucketExists);
        }
        let bucket = Bucket { created: SystemTime::now(), objects: RwLock::default() };
        buckets.insert(name.to_owned(), Arc::new(bucket));
        Ok(())
    }

    async fn delete_bucket(&self, name: &str) -> StoreResult<()> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(name).ok_or(StoreError::NoSuchBucket)?;
        if !bucket.objects.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Err(StoreError::BucketNotEmpty);
        }
        buckets.remove(name);
        Ok(())
    }

    async fn check_bucket(&self, name: &str) -> StoreResult<()> {
        self.bucket(name).map(drop)
    }

    async fn buckets(&self) -> StoreResult<Vec<(String, SystemTime)>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> =
            buckets.iter().map(|(name, bucket)| (name.clone(), bucket.created)).collect();
        found.sort_unstable();
        Ok(found)
    }

    async fn open(&self, bucket: &str, key: &str) -> StoreResult<(Arc<ObjectInfo>, Buffers)> {
        let bucket = self.bucket(bucket)?;
        let objects = bucket.objects.read().unwrap_or_else(PoisonError::into_inner);
        let object = objects.get(key).ok_or(StoreError::NoSuchKey)?;
        Ok((Arc::clone(&object.info), object.content.clone()))
    }

    async fn receive(&self, _bucket: &str, size: u64) -> StoreResult<Filling> {
        let wanted = ByteCount(size);
        let room = self.memory.take(wanted)?;
        let mut content = Vec::new();
        content
            .try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX))
            .map_err(|_| StoreError::OutOfMemory { wanted })?;
        Ok(Filling { content, room })
    }

    async fn copy(
        &self,
        content: &Buffers,
        range: Range<u64>,
        _bucket: &str,
    ) -> StoreResult<Buffers> {
        Ok(content.slices(range).collect())
    }

    async fn join(&self, parts: &[&Buffers], _bucket: &str) -> StoreResult<Buffers> {
        Ok(parts.iter().flat_map(|part| part.0.iter().cloned()).collect())
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        blob: Buffers,
        attributes: Attributes,
        condition: WriteCondition,
    ) -> StoreResult<Arc<ObjectInfo>> {
        let bucket = self.bucket(bucket)?;
        let size = blob.len();
        let etag = self.new_etag(size);
        let info = Arc::new(ObjectInfo { size, etag, modified: SystemTime::now(), attributes });
        let object = Arc::new(Object { info: Arc::clone(&info), content: blob });
        let mut objects = bucket.objects.write().unwrap_or_else(PoisonError::into_inner);
        condition.check(objects.get(key).map(|object| &*object.info))?;
        let replaced = objects.insert(key.to_owned(), object);
        // Giving back a large buffer takes time that others should not wait for.
        drop(objects);
        drop(replaced);
        Ok(info)
    }

    async fn delete(&self, bucket: &str, key: &str, condition: WriteCondition) -> StoreResult<()> {
        let bucket = self.bucket(bucket)?;
        let mut objects = bucket.objects.write().unwrap_or_else(PoisonError::into_inner);
        condition.check(objects.get(key).map(|object| &*object.info))?;
        let removed = objects.remove(key);
        drop(objects);
        drop(removed);
        Ok(())
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> StoreResult<ListPage> {
        let bucket = self.bucket(bucket)?;
        let objects = bucket.objects.read().unwrap_or_else(PoisonError::into_inner);
        query.page(|start| {
            let walk = objects.range::<str, _>((start, Bound::Unbounded));
            Ok(Walk { walk, prefix: &query.prefix })
        })
    }
}

/// The keys of a bucket with a prefix, from the first key that has it.
struct Walk<'a, W> {
    walk: W,
    prefix: &'a str,
}

impl<'a, W: Iterator<Item = (&'a String, &'a Arc<Object>)>> Keys for Walk<'_, W> {
    fn next(&mut self) -> StoreResult<Option<(String, Arc<ObjectInfo>)>> {
        let next = self.walk.next().filter(|(key, _)| key.starts_with(self.prefix));
        Ok(next.map(|(key, object)| (key.clone(), Arc::clone(&object.info))))
    }
}

/// A buffer of the exact size that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    content: Vec<u8>,
    room: limit::Room,
}

impl Receiver for Filling {
    type Blob = Buffers;

    async fn write(&mut self, piece: Bytes) -> StoreResult<()> {
        self.content.extend_from_slice(&piece);
        Ok(())
    }

    async fn finish(self) -> StoreResult<Buffers> {
        let Self { content, room } = self;
        Ok([room.hold(content)].into_iter().collect())
    }
}

/// Content as a sequence of shared buffers, none of them empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers(Arc<[Bytes]>);

impl FromIterator<Bytes> for Buffers {
    fn from_iter<I: IntoIterator<Item = Bytes>>(buffers: I) -> Self {
        Self(buffers.into_iter().filter(|buffer| !buffer.is_empty()).collect())
    }
}

impl Buffers {
    fn len(&self) -> u64 {
        self.0.iter().map(|buffer| buffer.len() as u64).sum()
    }

    /// The bytes of `range`, which share the same memory, in as many buffers as they lie in.
    fn slices(&self, range: Range<u64>) -> impl Iterator<Item = Bytes> {
        let mut offset = 0;
        let slices = self.0.iter().map(move |buffer| {
            let len = buffer.len() as u64;
            let within = |at: u64| at.saturating_sub(offset).min(len) as usize;
            let slice = buffer.slice(within(range.start)..within(range.end));
            offset += len;
            slice
        });
        slices.filter(|slice| !slice.is_empty())
    }
}

impl Content for Buffers {
    fn body(&self, range: Range<u64>) -> Body {
        let mut slices = self.slices(range);
        match (slices.next(), slices.next()) {
            (None, _) => Body::empty(),
            (Some(only), None) => Body::from(only),
            (Some(first), Some(second)) => {
                let slices = [first, second].into_iter().chain(slices);
                Body::http_body(BuffersBody(slices.collect()))
            }
        }
    }
}

/// Sends one buffer a frame.
struct BuffersBody(VecDeque<Bytes>);

impl hyper::body::Body for BuffersBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|buffer| Ok(Frame::data(buffer))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|buffer| buffer.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn buffers(texts: &[&'static str]) -> Buffers {
        texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
    }

    #[tokio::test]
    async fn a_body_of_many_buffers_has_every_byte_of_its_range_once() {
        let whole = buffers(&["abc", "", "d", "efgh"]);
        assert_eq!(whole.len(), 8);
        for start in 0..=8 {
            for end in start..=8 {
                let body = whole.body(start..end);
                assert_eq!(hyper::body::Body::size_hint(&body).exact(), Some(end - start));
                let bytes = body.collect().await.unwrap().to_bytes();
                assert_eq!(bytes, b"abcdefgh"[start as usize..end as usize]);
            }
        }
    }

    #[test]
    fn a_slice_shares_its_memory() {
        let whole = buffers(&["abc", "def"]);
        let slices: Vec<_> = whole.slices(4..5).collect();
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].as_ptr(), whole.0[1][1..].as_ptr());
    }

    #[tokio::test]
    async fn room_is_given_back_when_the_last_reader_is_done() {
        let store = MemoryStore::new(Some("10B".parse().unwrap()));
        store.create_bucket("bbb").await.unwrap();
        let put = async |key: &str, size: u64| {
            let mut receiver = store.receive("bbb", size).await?;
            receiver.write(vec![7; size as usize].into()).await?;
            let blob = receiver.finish().await?;
            store.put("bbb", key, blob, Attributes::default(), WriteCondition::default()).await
        };
        put("a", 8).await.unwrap();
        let error = put("b", 3).await.unwrap_err().to_string();
        for named in ["3 B", "8 B", "10 B", "--max-memory"] {
            assert!(error.contains(named), "{error}");
        }
        let (_, reading) = store.open("bbb", "a").await.unwrap();
        store.delete("bbb", "a", WriteCondition::default()).await.unwrap();
        assert!(put("b", 3).await.is_err(), "the content is still being read");
        drop(reading);
        put("b", 10).await.unwrap();
        assert!(store.receive("bbb", u64::MAX).await.is_err());
    }
}
