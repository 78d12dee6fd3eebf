//! `object_store`'s client as it comes: over `reqwest`, with the library's own settings. The engine of the
//! S3 store has another client below the library, so that its failures can be told; this shows that it
//! does not make the library slower than it is.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use feedrate_storage::{Cause, Fetched, Listed, ObjectKey, Operation, Store, StoreError};
use futures::StreamExt;
use futures::future::BoxFuture;
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;

use crate::server::{BUCKET, keys};
use crate::store::retrying;

/// A client of the embedded server.
pub(crate) fn store(server: SocketAddr) -> Arc<dyn Store> {
    // The library makes a client for https in any case, and is given no cipher with these features.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let keys = keys();
    let client = AmazonS3Builder::new()
        .with_endpoint(format!("http://{server}"))
        .with_allow_http(true)
        .with_bucket_name(BUCKET)
        .with_region("us-east-1")
        .with_access_key_id(keys.access_key_id)
        .with_secret_access_key(keys.secret_access_key)
        .build();
    retrying(OverReqwest(client.expect("the settings fit")))
}

/// What a reader needs of a store.
#[derive(Debug)]
struct OverReqwest(AmazonS3);

impl OverReqwest {
    async fn read(
        &self,
        key: &ObjectKey,
        mut into: Option<&mut Vec<u8>>,
    ) -> object_store::Result<Fetched> {
        let began = Instant::now();
        let answer = self.0.get(&Path::from(key.as_str())).await?;
        if let Some(into) = &mut into {
            into.reserve(answer.meta.size as usize);
        }
        let (mut bytes, mut first_byte) = (0, None);
        let mut body = answer.into_stream();
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            first_byte.get_or_insert_with(|| began.elapsed());
            bytes += chunk.len() as u64;
            if let Some(into) = &mut into {
                into.extend_from_slice(&chunk);
            }
        }
        let last_byte = began.elapsed();
        Ok(Fetched { bytes, first_byte: first_byte.unwrap_or(last_byte), last_byte })
    }
}

fn failed(operation: Operation, target: &str, cause: &dyn std::fmt::Display) -> StoreError {
    StoreError {
        operation,
        target: target.to_owned(),
        location: BUCKET.to_owned(),
        attempts: 1,
        elapsed: std::time::Duration::ZERO,
        cause: Box::new(Cause::Other(cause.to_string())),
    }
}

fn refused<'a, T>(operation: Operation, target: &str) -> BoxFuture<'a, Result<T, StoreError>> {
    let error = failed(operation, target, &"this bench only reads");
    Box::pin(async { Err(error) })
}

impl Store for OverReqwest {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        _: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let read = self.read(key, Some(into));
        Box::pin(async { read.await.map_err(|error| failed(Operation::Get, key.as_str(), &error)) })
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        _: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let read = self.read(key, None);
        Box::pin(async { read.await.map_err(|error| failed(Operation::Get, key.as_str(), &error)) })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, _: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        refused(Operation::Put, key.as_str())
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        refused(Operation::Head, key.as_str())
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        refused(Operation::Delete, key.as_str())
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        _: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        refused(Operation::List, prefix)
    }

    fn location(&self) -> String {
        BUCKET.to_owned()
    }
}
