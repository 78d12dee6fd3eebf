//! Signing, sending and timing requests.
//!
//! Requests come unsigned. The transport adds what belongs to the body ([`BodyCheck`]), signs with
//! `SigV4`, and sends over a pooled connection. A success is an [`Answer`], which knows when it was
//! asked for; anything else becomes a [`Cause`], so callers see either a body or a reason.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use rustls::ClientConfig;

use super::S3Settings;
use super::connect::Connector;
use super::failure;
use crate::Cause;

/// One read of the socket, and so the size of the chunks that bodies come in. 64 KiB stay in the
/// core's cache; hyper's adaptive buffers, which grow to 400 KiB, cost 15 % of the throughput.
const READ_BUFFER: usize = 64 * 1024;

/// How long an unused connection is kept. Shorter than what common stores and load balancers allow,
/// so that requests are not sent into a connection that the other side is about to close.
const POOL_IDLE: Duration = Duration::from_secs(15);

/// What `SigV4` wants escaped: everything but the unreserved characters of RFC 3986.
pub(super) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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

impl Transport {
    /// Sends `request`, signed, with what vouches for its body if it has one. Anything but a success
    /// is a cause.
    pub(super) async fn send(
        &self,
        mut request: HttpRequest,
        check: Option<BodyCheck>,
    ) -> Result<Answer, Cause> {
        self.signer.sign(&mut request, check)?;
        let sent = Instant::now();
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| failure::of_request(&error))?;
        if !answer.status().is_success() {
            return Err(failure::of_answer(answer).await);
        }
        let (Parts { status, headers, .. }, body) = answer.into_parts();
        Ok(Answer { status, headers, sent, body, received: 0 })
    }
}

/// A success.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// When the request was handed to its connection.
    pub(super) sent: Instant,
    body: Incoming,
    /// Bytes of the body so far.
    pub(super) received: u64,
}

impl Answer {
    /// The number that a header holds.
    pub(super) fn number(&self, header: HeaderName) -> Option<u64> {
        self.headers.get(header)?.to_str().ok()?.trim().parse().ok()
    }

    /// Bytes that the body will have. One in chunks does not say so beforehand, but tells its end.
    pub(super) fn promised(&self) -> Option<u64> {
        self.number(CONTENT_LENGTH)
    }

    /// The next bytes of the body, or `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Cause> {
        while let Some(frame) = self.body.frame().await {
            let frame =
                frame.map_err(|error| failure::of_body(&error, self.promised(), self.received))?;
            // Trailers, the other kind of frame, say nothing that is of use here.
            if let Ok(data) = frame.into_data() {
                self.received += data.len() as u64;
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body.
    pub(super) async fn body(mut self) -> Result<Vec<u8>, Cause> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
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

    fn sign(&self, request: &mut HttpRequest, check: Option<BodyCheck>) -> Result<(), Cause> {
        let authorizer = AwsAuthorizer::new(&self.credential, "s3", &self.region);
        let signed = match check {
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

/// A request for `url`, which the transport will sign.
pub(super) fn request(method: Method, url: &str, body: Bytes) -> Result<HttpRequest, Cause> {
    let request = http::Request::builder().method(method).uri(url).body(body.into());
    request.map_err(|error| Cause::Other(format!("no request can be made of {url}: {error}")))
}
