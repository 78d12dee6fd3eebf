//! Clients that are stores, behind the trait that the rest of Feedrate sees.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use feedrate_metrics::requests::RequestStats;
use feedrate_storage::{
    Credentials, GetEngine, ObjectKey, RetryPolicy, Retrying, S3Settings, S3Store, Store,
};
use futures::StreamExt;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::OBJECT_BYTES;
use crate::server::{BUCKET, keys};

/// PUTs in flight while a store is filled.
const WRITERS: usize = 4;

/// All objects, handed to readers in turn.
pub(crate) struct Objects {
    keys: Vec<ObjectKey>,
    next: AtomicUsize,
}

impl Objects {
    pub(crate) fn new(count: usize) -> Self {
        let key = |object| ObjectKey::new(format!("train/img_{object:07}.jpeg"));
        Self { keys: (0..count).map(key).collect(), next: AtomicUsize::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The next one, and its number.
    fn next(&self) -> (usize, &ObjectKey) {
        let object = self.next.fetch_add(1, Relaxed) % self.keys.len();
        (object, &self.keys[object])
    }
}

/// What becomes of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// They end up in the reader's buffer.
    Landing,
    /// They are let go as they arrive.
    Discarding,
}

impl Payload {
    pub(crate) const BOTH: [Self; 2] = [Self::Landing, Self::Discarding];
}

/// A client of the embedded server.
pub(crate) fn s3(server: SocketAddr, get_engine: GetEngine) -> Arc<dyn Store> {
    let keys = keys();
    let credentials =
        Credentials::new(&keys.access_key_id, &keys.secret_access_key, None, "the bench");
    let endpoint = Some(format!("http://{server}"));
    let settings = S3Settings { get_engine, ..S3Settings::new(endpoint, BUCKET, credentials) };
    retrying(S3Store::new(settings).expect("the settings fit"))
}

/// `store` with what is around every store.
pub(crate) fn retrying(store: impl Store + 'static) -> Arc<dyn Store> {
    Arc::new(Retrying::new(store, RetryPolicy::default(), Arc::new(RequestStats::new())))
}

/// Puts all objects.
pub(crate) fn fill(store: &dyn Store, objects: &Objects, runtime: &Runtime) {
    let puts = futures::stream::iter(objects.keys.iter().enumerate());
    runtime.block_on(puts.for_each_concurrent(WRITERS, async |(object, key)| {
        // Each in memory of its own.
        let body = Bytes::from(vec![object as u8; OBJECT_BYTES]);
        store.put(key, body).await.expect("it can be written");
    }));
}

/// Readers of a store, each a task with a buffer of its own.
pub(crate) struct Client<'a> {
    store: Arc<dyn Store>,
    payload: Payload,
    objects: Arc<Objects>,
    runtime: &'a Runtime,
    buffers: Vec<Vec<u8>>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        payload: Payload,
        objects: &Arc<Objects>,
        runtime: &'a Runtime,
    ) -> Self {
        Self { store, payload, objects: Arc::clone(objects), runtime, buffers: Vec::new() }
    }
}

impl crate::Client for Client<'_> {
    fn get_until(&mut self, end: Instant, in_flight: usize) -> usize {
        let mut readers = JoinSet::new();
        for _ in 0..in_flight {
            // With room for one byte more, a reader sees that the object ends where it should.
            let buffer = self.buffers.pop();
            let mut buffer = buffer.unwrap_or_else(|| Vec::with_capacity(OBJECT_BYTES + 1));
            let (store, objects) = (Arc::clone(&self.store), Arc::clone(&self.objects));
            let payload = self.payload;
            let reader = async move {
                let mut gets = 0;
                while Instant::now() < end {
                    let (object, key) = objects.next();
                    match payload {
                        Payload::Landing => land(&*store, object, key, &mut buffer).await,
                        Payload::Discarding => discard(&*store, key).await,
                    }
                    gets += 1;
                }
                (gets, buffer)
            };
            readers.spawn_on(reader, self.runtime.handle());
        }
        self.runtime.block_on(async {
            let mut gets = 0;
            while let Some(ended) = readers.join_next().await {
                let (own, buffer) = ended.expect("no reader panics");
                gets += own;
                self.buffers.push(buffer);
            }
            gets
        })
    }
}

async fn land(store: &dyn Store, object: usize, key: &ObjectKey, buffer: &mut Vec<u8>) {
    buffer.clear();
    store.get(key, None, buffer).await.expect("it is there");
    assert_eq!(buffer.len(), OBJECT_BYTES, "all of it came");
    assert_eq!(buffer.last(), Some(&(object as u8)), "another object came");
    black_box(buffer);
}

async fn discard(store: &dyn Store, key: &ObjectKey) {
    let fetched = store.get_discarding(key, None).await.expect("it is there");
    assert_eq!(fetched.bytes, OBJECT_BYTES as u64, "all of it came");
}
