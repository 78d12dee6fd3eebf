//! GETs by `object_store`'s own S3 client, to hold ours against.
//!
//! It is that library as other programs use it: its addresses, its signatures, its checks and its
//! stream of a body, over hyper's usual client with the settings that it has below `reqwest`, which
//! the library brings along elsewhere. Left out is what a [`Store`](crate::Store) does not do: it
//! tries once, with given keys, and looks at no environment and no metadata address.
//!
//! The library has errors of its own, which say less than a [`Cause`]. So the [`Service`] below it
//! says what failed, and [`cause`] finds that again in the library's error.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};
use rustls::ClientConfig;

use super::connect::Connector;
use super::settings::Endpoint;
use super::{OpenError, S3Settings, check_addressable, failure};
use crate::{Cause, Fetched, ObjectKey};

/// One bucket, seen through `object_store`.
pub(super) struct Reference(AmazonS3);

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}

impl Reference {
    pub(super) fn new(
        settings: &S3Settings,
        endpoint: &Endpoint,
        tls: ClientConfig,
    ) -> Result<Self, OpenError> {
        let once =
            RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() };
        let credentials = &settings.credentials;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            // Of a "virtual host" the address is taken as it is, with the bucket where we have it.
            .with_endpoint(&endpoint.bucket_url)
            .with_virtual_hosted_style_request(true)
            .with_client_options(ClientOptions::new().with_allow_http(!endpoint.is_https))
            .with_access_key_id(credentials.access_key_id())
            .with_secret_access_key(credentials.secret_access_key())
            .with_retry(once)
            .with_http_connector(Service::new(Connector::new(tls, settings.connect_timeout)));
        if let Some(token) = credentials.session_token() {
            builder = builder.with_token(token);
        }
        let client = builder.build();
        client.map(Self).map_err(|error| OpenError::Client { reason: error.to_string() })
    }

    /// Appends the body to `into`, or counts its bytes and lets them go.
    pub(super) async fn read(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        into: Option<&mut Vec<u8>>,
    ) -> Result<Fetched, Cause> {
        let asked = range.as_ref().map(|range| range.end.saturating_sub(range.start));
        let (fetched, _) = self.receive(key, range.map(GetRange::Bounded), asked, into).await?;
        Ok(fetched)
    }

    /// Appends the last `most` bytes to `into`, at least one, and tells the object's size.
    pub(super) async fn read_tail(
        &self,
        key: &ObjectKey,
        most: u64,
        into: &mut Vec<u8>,
    ) -> Result<(Fetched, u64), Cause> {
        let tail = Some(GetRange::Suffix(most));
        match self.receive(key, tail, None, Some(&mut *into)).await {
            // Nothing is a tail of an empty object.
            Err(Cause::Status { status: 416, .. }) => {
                self.receive(key, None, None, Some(into)).await
            }
            other => other,
        }
    }

    /// What came and how large the object is. `asked` is how many bytes there have to be, where it is
    /// not the answer that says it.
    async fn receive(
        &self,
        key: &ObjectKey,
        range: Option<GetRange>,
        asked: Option<u64>,
        mut into: Option<&mut Vec<u8>>,
    ) -> Result<(Fetched, u64), Cause> {
        let options = GetOptions { range, ..GetOptions::default() };
        let answer = self.0.get_opts(&path(key)?, options).await;
        let answer = answer.map_err(|error| cause(error, None, 0))?;
        let sent = answer.extensions.get::<Sent>().map_or_else(Instant::now, |sent| sent.0);
        // The library has made sure that this is what was asked for, as far as there is so much.
        let promised = answer.range.end - answer.range.start;
        let size = answer.meta.size;
        if let Some(into) = &mut into {
            into.try_reserve(promised as usize).map_err(|error| {
                Cause::Other(format!("no memory for {promised} bytes: {error}"))
            })?;
        }

        let mut first_byte = None;
        let mut received = 0;
        let mut body = answer.into_stream();
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| cause(error, Some(promised), received))?;
            first_byte.get_or_insert_with(|| sent.elapsed());
            received += chunk.len() as u64;
            if let Some(into) = &mut into {
                into.extend_from_slice(&chunk);
            }
        }
        let last_byte = sent.elapsed();
        let expected = asked.unwrap_or(promised);
        if expected != received {
            return Err(Cause::Truncated { expected: Some(expected), received });
        }
        let first_byte = first_byte.unwrap_or(last_byte);
        Ok((Fetched { bytes: received, first_byte, last_byte }, size))
    }
}

/// The library's name for `key`, which is to be no other key's.
fn path(key: &ObjectKey) -> Result<Path, Cause> {
    check_addressable(key)?;
    let path = Path::parse(key.as_str()).ok();
    path.filter(|path| path.as_ref() == key.as_str()).ok_or_else(|| {
        Cause::Other(
            "object_store has no name for this key, since a part of it is empty (//); use \
             storage.storage_options.get_engine: feedrate"
                .to_owned(),
        )
    })
}

/// What an error of the library means, of which the [`Service`] knows more. So much of a body was
/// `promised` and `received`.
fn cause(error: object_store::Error, promised: Option<u64>, received: u64) -> Cause {
    let first: &(dyn Error + 'static) = &error;
    for link in std::iter::successors(Some(first), |&link| link.source()) {
        if let Some(failed) = link.downcast_ref::<Failed>()
            && let Some(cause) = failed.take()
        {
            return cause;
        }
        if let Some(hyper) = link.downcast_ref::<hyper::Error>() {
            return failure::of_body(hyper, promised, received);
        }
    }
    // An answer that the library does not take: the library's own words, without its "Generic S3
    // error" before them.
    let reason = match error {
        object_store::Error::Generic { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    Cause::Other(format!("object_store cannot use the answer: {reason}"))
}

/// When a request was handed to its connection, told beside its answer.
#[derive(Debug, Clone, Copy)]
struct Sent(Instant);

/// Hyper's client below the library. Anything but a success is an error, which holds its [`Cause`].
#[derive(Clone)]
struct Service(Client<Connector, HttpRequestBody>);

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// As `reqwest` makes it: buffers that grow with what is read, and connections that are kept for
    /// as long as hyper wants to.
    fn new(connector: Connector) -> Self {
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self(client)
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Cause> {
        let sent = Sent(Instant::now());
        let answer = self.0.request(request).await;
        let answer = answer.map_err(|error| failure::of_request(&error))?;
        if !answer.status().is_success() {
            return Err(failure::of_foreign_answer(answer).await);
        }
        let (mut head, body) = answer.into_parts();
        head.extensions.insert(sent);
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

impl HttpConnector for Service {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Service {
    // As `async_trait` writes it.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = self.send(request).await;
            answer.map_err(|cause| HttpError::new(HttpErrorKind::Unknown, Failed::new(cause)))
        })
    }
}

/// A cause on its way through the library, which lends its errors but does not give them back.
#[derive(Debug, thiserror::Error)]
#[error("the request failed")]
struct Failed(Mutex<Option<Cause>>);

impl Failed {
    fn new(cause: Cause) -> Self {
        Self(Mutex::new(Some(cause)))
    }

    fn take(&self) -> Option<Cause> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
