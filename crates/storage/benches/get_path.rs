//! What a GET costs: objects of 315 KiB through the whole client (signing, HTTP, retries, counters) from
//! the embedded server in this process, beside a store in memory and files in the page cache.
//!
//! Client and server share the CPUs, so the figures are to be compared with each other in one run, not
//! with a network's.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use feedrate_metrics::requests::RequestStats;
use feedrate_s3_server::{KeyPair, Options, Server};
use feedrate_storage::{
    Credentials, LocalStore, MemoryStore, ObjectKey, RetryPolicy, Retrying, S3Settings, S3Store,
    Store,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const OBJECTS: usize = 512;
/// RetinaNet's record length.
const BYTES: usize = 322_957;
const BUCKET: &str = "bench";

fn key(object: usize) -> ObjectKey {
    ObjectKey::new(format!("train/img_{object:03}.jpeg"))
}

/// The embedded server on a free port, and a client of it.
fn s3(runtime: &Runtime) -> S3Store {
    let keys = KeyPair {
        access_key_id: "BENCHBENCHBENCH".to_owned(),
        secret_access_key: "of no value".to_owned(),
    };
    let credentials =
        Credentials::new(&keys.access_key_id, &keys.secret_access_key, None, "the bench");
    let options = Options {
        buckets: vec![BUCKET.to_owned()],
        ..Options::in_memory(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), keys)
    };
    let server = runtime.block_on(Server::bind(options)).expect("a port is free");
    let endpoint = format!("http://{}", server.local_addr());
    runtime.spawn(server.serve(std::future::pending()));
    S3Store::new(S3Settings::new(Some(endpoint), BUCKET, credentials)).expect("the settings fit")
}

/// `store` with all objects in it, and with what is around every store.
fn filled(store: impl Store + 'static, runtime: &Runtime) -> Arc<dyn Store> {
    let store = Retrying::new(store, RetryPolicy::default(), Arc::new(RequestStats::new()));
    for object in 0..OBJECTS {
        // Distinct contents, so that no two objects share memory by chance.
        let body = vec![object as u8; BYTES];
        runtime.block_on(store.put(&key(object), Bytes::from(body))).expect("it can be written");
    }
    Arc::new(store)
}

/// Gets `count` objects with `in_flight` at a time, each reader into a buffer of its own.
async fn get_all(store: &Arc<dyn Store>, count: usize, in_flight: usize) {
    let mut readers = JoinSet::new();
    for reader in 0..in_flight {
        let store = Arc::clone(store);
        readers.spawn(async move {
            let mut buffer = Vec::with_capacity(BYTES);
            for object in (reader..count).step_by(in_flight) {
                buffer.clear();
                store.get(&key(object % OBJECTS), None, &mut buffer).await.expect("it is there");
                black_box(&buffer);
            }
        });
    }
    while let Some(ended) = readers.join_next().await {
        ended.expect("no reader panics");
    }
}

fn get_path(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("threads can be started");
    let folder = tempfile::tempdir().expect("there is a place for files");
    let stores = [
        ("memory", filled(MemoryStore::new(), &runtime)),
        ("files", filled(LocalStore::new(folder.path()).expect("a thread"), &runtime)),
        ("s3", filled(s3(&runtime), &runtime)),
    ];
    let mut group = criterion.benchmark_group("get an object");
    group.throughput(Throughput::Bytes(BYTES as u64));
    for (name, store) in &stores {
        for in_flight in [1, 16, 64] {
            group.bench_function(BenchmarkId::new(*name, in_flight), |bencher| {
                bencher.iter_custom(|count| {
                    let started = Instant::now();
                    runtime.block_on(get_all(store, count as usize, in_flight));
                    started.elapsed()
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = get_path
}
criterion_main!(benches);
