//! Signing, sending and timing requests: the seam below `object_store`.
//!
//! Requests come unsigned. The transport adds what belongs to the body ([`BodyCheck`]), signs with
//! `SigV4`, and sends over a pooled connection. A success is stamped with the moment it was sent
//! ([`SentAt`]); anything else becomes a [`Cause`], so callers see either a body or a reason.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::ClientConfig;

use super::S3Settings;
use super::connect::Connector;
use super::failure::{self, Failure};
use crate::Cause;

/// One read of the socket, and so the size of the chunks that bodies come in. 64 KiB stay in the
/// core's cache; hyper's adaptive buffers, which grow to 400 KiB, cost 15 % of the throughput.
const READ_BUFFER: usize = 64 * 1024;

/// How long an unused connection is kept. Shorter than what common stores and load balancers allow,
/// so that requests are not sent into a connection that the other side is about to close.
const POOL_IDLE: Duration = Duration::from_secs(15);

const CRC32C: HeaderName = HeaderName::from_static("x-amz-checksum-crc32c");

/// What vouches for the body of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum BodyCheck {
    /// The body is not part of the signature; its CRC-32C is sent in a signed header.
    Crc32c(u32),
    /// Its SHA-256 is part of the signature.
    Sha256([u8; 32]),
}

impl BodyCheck {
    pub(super) fn of(body: &[u8], sign: bool) -> Self {
        if !sign {
            return Self::Crc32c(crc32c::crc32c(body));
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, body);
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(digest.as_ref());
        Self::Sha256(sha256)
    }
}

/// The moment a request was handed to its connection, in the extensions of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentAt(pub(super) Instant);

/// A pool of connections and the keys that sign what goes over them.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client<Connector, HttpRequestBody>,
    signer: Arc<Signer>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Transport {
    pub(super) fn new(settings: &S3Settings, tls: ClientConfig) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http1_read_buf_exact_size(READ_BUFFER)
            .build(Connector::new(tls, settings.connect_timeout));
        Self { client, signer: Arc::new(Signer::new(settings)) }
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.signer.sign(&mut request).map_err(Failure::http)?;
        let sent = Instant::now();
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| Failure::http(failure::of_request(&error)))?;
        if !answer.status().is_success() {
            return Err(Failure::http(failure::of_answer(answer).await));
        }
        let (mut parts, body) = answer.into_parts();
        parts.extensions.insert(SentAt(sent));
        let body = body.map_err(|error| Failure::http(failure::of_body(&error)));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

struct Signer {
    credential: AwsCredential,
    region: String,
}

impl Signer {
    fn new(settings: &S3Settings) -> Self {
        let credentials = &settings.credentials;
        Self {
            credential: AwsCredential {
                key_id: credentials.access_key_id().to_owned(),
                secret_key: credentials.secret_access_key().to_owned(),
                token: credentials.session_token().map(str::to_owned),
            },
            region: settings.region.clone(),
        }
    }

    fn sign(&self, request: &mut HttpRequest) -> Result<(), Cause> {
        let authorizer = AwsAuthorizer::new(&self.credential, "s3", &self.region);
        let signed = match request.extensions().get().copied() {
            None => authorizer.try_authorize(request, None),
            Some(BodyCheck::Sha256(digest)) => authorizer.try_authorize(request, Some(&digest)),
            Some(BodyCheck::Crc32c(checksum)) => {
                let value = HeaderValue::from_str(&BASE64_STANDARD.encode(checksum.to_be_bytes()))
                    .expect("base64 is made of header characters");
                request.headers_mut().insert(CRC32C, value);
                authorizer.with_sign_payload(false).try_authorize(request, None)
            }
        };
        signed.map_err(|error| Cause::Other(format!("cannot sign the request: {error}")))
    }
}

/// A request without a body, which the transport will sign.
pub(super) fn get(url: &str) -> Result<HttpRequest, http::Error> {
    http::Request::get(url).body(HttpRequestBody::from(Bytes::new()))
}
