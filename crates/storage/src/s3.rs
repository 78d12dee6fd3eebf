//! A bucket of an S3 store.
//!
//! `object_store` makes the requests for reading and writing, with its own retries off; what lies
//! below is ours ([`transport`]): it signs, sends over a pool of HTTP/1.1 connections ([`connect`],
//! [`tls`]), times, and turns every failure, error statuses included, into a [`Cause`]
//! ([`failure`]). Listing is made here over the same transport ([`listing`]), because
//! `object_store`'s loses the slash that tells a directory marker from an object, and fails on keys
//! that it finds odd.
//!
//! One [`Store`] call is one request and nothing else: no HEAD, no look-up of the bucket, no metadata
//! address. (A listing is one request for each 1,000 keys.)

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, PutOptions, RetryConfig};

use crate::key::folder;
use crate::{Cause, Fetched, Listed, ObjectKey, Operation, Store, StoreError};
use failure::cause_of;
use transport::{BodyCheck, SentAt, Transport};

pub use settings::{OpenError, S3Settings};

mod connect;
mod failure;
mod listing;
mod settings;
mod tls;
mod transport;

/// One bucket, seen through one pool of connections, which live on the tokio runtime that its
/// operations run on.
#[derive(Debug)]
pub struct S3Store {
    objects: AmazonS3,
    transport: Transport,
    bucket_url: String,
    endpoint: String,
    location: String,
    settings: S3Settings,
}

impl S3Store {
    /// Checks `settings` and makes the client. The only I/O is reading certificate authorities,
    /// those of the machine only for an `https` endpoint; no connection is made.
    ///
    /// # Errors
    ///
    /// Names the setting that cannot be right, and why.
    pub fn new(settings: S3Settings) -> Result<Self, OpenError> {
        let endpoint = settings.check()?;
        let tls = tls::client_config(settings.ca_bundle.as_deref(), endpoint.is_https)?;
        let transport = Transport::new(&settings, tls);
        let objects = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            // "Virtual hosted" makes object_store take this URL, bucket and all, as it is.
            .with_endpoint(&endpoint.bucket_url)
            .with_virtual_hosted_style_request(true)
            .with_region(&settings.region)
            // The transport signs. With keys given, no other source of them is set up either.
            .with_skip_signature(true)
            .with_access_key_id(settings.credentials.access_key_id())
            .with_secret_access_key(settings.credentials.secret_access_key())
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(transport.clone())
            .build()
            .map_err(|error| OpenError::Client { reason: error.to_string() })?;
        Ok(Self {
            objects,
            transport,
            bucket_url: endpoint.bucket_url,
            location: format!("s3://{} at {}", settings.bucket, endpoint.shown),
            endpoint: endpoint.shown,
            settings,
        })
    }

    /// Runs one attempt within the time it may take, and says what its failure means.
    async fn attempt<T>(
        &self,
        operation: Operation,
        target: &str,
        attempt: impl Future<Output = Result<T, Cause>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let limit = match operation {
            Operation::List => self.settings.list_timeout,
            Operation::Get | Operation::Put => self.settings.attempt_timeout,
        };
        let outcome = tokio::time::timeout(limit, attempt).await;
        outcome.unwrap_or(Err(Cause::Timeout { limit })).map_err(|cause| {
            let cause = self.naming_the_key(cause);
            StoreError::of_attempt(operation, target, self.location.clone(), began, cause)
        })
    }

    /// Adds to a refusal which key signed the request and where that key came from.
    fn naming_the_key(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Status { status: status @ (401 | 403), code, message, retry_after } => {
                let signed = format!("signed with {}", self.settings.credentials);
                let message = Some(match message {
                    Some(message) => format!("{message} ({signed})"),
                    None => signed,
                });
                Cause::Status { status, code, message, retry_after }
            }
            other => other,
        }
    }

    /// Appends the body to `into`, or counts its bytes and lets them go.
    async fn read(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        mut into: Option<&mut Vec<u8>>,
    ) -> Result<Fetched, Cause> {
        let asked = range.as_ref().map(|range| range.end.saturating_sub(range.start));
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let answer = self.objects.get_opts(&path(key)?, options).await.map_err(cause_of)?;
        let SentAt(sent) = *answer.extensions.get().expect("the transport stamps every answer");
        let promised = answer.range.end - answer.range.start;
        if let Some(into) = &mut into {
            into.try_reserve(promised as usize).map_err(|error| {
                Cause::Other(format!("no memory for {promised} bytes: {error}"))
            })?;
        }

        let mut received = 0;
        let mut first_byte = None;
        let mut body = answer.into_stream();
        while let Some(chunk) = body.next().await {
            match chunk.map_err(cause_of) {
                Ok(chunk) => {
                    first_byte.get_or_insert_with(|| sent.elapsed());
                    received += chunk.len() as u64;
                    if let Some(into) = &mut into {
                        into.extend_from_slice(&chunk);
                    }
                }
                Err(Cause::Truncated { .. }) => {
                    return Err(Cause::Truncated { expected: promised, received });
                }
                Err(other) => return Err(other),
            }
        }
        let last_byte = sent.elapsed();
        let expected = asked.unwrap_or(promised);
        if received != expected {
            return Err(Cause::Truncated { expected, received });
        }
        Ok(Fetched { bytes: received, first_byte: first_byte.unwrap_or(last_byte), last_byte })
    }

    async fn write(&self, key: &ObjectKey, body: Bytes) -> Result<(), Cause> {
        let mut options = PutOptions::default();
        options.extensions.insert(BodyCheck::of(&body, self.settings.sign_payload));
        self.objects.put_opts(&path(key)?, body.into(), options).await.map_err(cause_of)?;
        Ok(())
    }

    async fn pages(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        page: &mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> Result<(), StoreError> {
        let folder = folder(prefix);
        let mut token = None;
        loop {
            let request = listing::Request {
                bucket_url: &self.bucket_url,
                folder: &folder,
                after: after.map(ObjectKey::as_str),
                token: token.as_deref(),
            };
            let request = request.send(&self.transport);
            let listed = self.attempt(Operation::List, prefix, request).await?;
            if !listed.objects.is_empty() {
                page(listed.objects);
            }
            token = listed.next;
            if token.is_none() {
                return Ok(());
            }
        }
    }
}

impl Store for S3Store {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let before = into.len();
            let reading = self.read(key, range, Some(&mut *into));
            let outcome = self.attempt(Operation::Get, key.as_str(), reading).await;
            if outcome.is_err() {
                into.truncate(before);
            }
            outcome
        })
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let reading = self.read(key, range, None);
        Box::pin(self.attempt(Operation::Get, key.as_str(), reading))
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.attempt(Operation::Put, key.as_str(), self.write(key, body)))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.pages(prefix, None, page))
    }

    fn list_after<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a ObjectKey,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.pages(prefix, Some(after), page))
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn endpoint(&self) -> Option<&str> {
        Some(&self.endpoint)
    }
}

/// `key` as `object_store`'s path, which sends it unchanged: `Path::parse` keeps the text where
/// `Path::from` would encode it a second time. It refuses empty, `.` and `..` parts and control
/// characters, which URLs do not carry unharmed, and would drop a trailing slash.
fn path(key: &ObjectKey) -> Result<Path, Cause> {
    match Path::parse(key.as_str()) {
        Ok(path) if path.as_ref() == key.as_str() => Ok(path),
        _ => Err(Cause::Other(
            "the key has an empty part, a part `.` or `..`, a control character, or ends in `/`; \
             such keys cannot be addressed"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
