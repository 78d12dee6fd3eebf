//! Signing and sending requests.
//!
//! A [`Request`] says what is asked of the bucket. The transport writes its head, with what vouches for
//! the body and the signature, into the buffer of the connection that it goes over. A success is an
//! [`Answer`]; anything else becomes a [`Cause`], so callers see either a body or a reason.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use url::Url;

use super::failure;
use super::settings::{Endpoint, OpenError, S3Settings};
use super::sign::{Canonical, EMPTY_SHA256, Fields, Hex, Signer};
use crate::engine::{Answer, Client, Origin};
use crate::{Cause, ObjectKey};

/// What `SigV4` wants escaped: everything but the unreserved characters of RFC 3986.
pub(super) const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is escaped of a key in a URL.
const PATH: &AsciiSet = &ESCAPED.remove(b'/');

/// Who asks, as stores write it into their logs.
const USER_AGENT: &str = concat!("feedrate/", env!("CARGO_PKG_VERSION"));

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

/// What of an object is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// Half-open and not empty.
    Range(Range<u64>),
    /// So many bytes at its end, at least one.
    Tail(u64),
}

impl Part {
    /// The value of the `Range` field, in `text`.
    fn field<'a>(&self, text: &'a mut [u8; 64]) -> Option<&'a str> {
        let mut rest = &mut text[..];
        let written = match self {
            Self::Whole => return None,
            Self::Range(range) => {
                write!(rest, "bytes={}-{}", range.start, range.end.saturating_sub(1))
            }
            Self::Tail(most) => write!(rest, "bytes=-{most}"),
        };
        written.expect("two numbers are shorter than that");
        let left = rest.len();
        Some(std::str::from_utf8(&text[..64 - left]).expect("digits"))
    }
}

/// A request to a bucket.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    /// In capitals.
    pub(super) method: &'static str,
    /// The object; `None` is the bucket itself.
    pub(super) key: Option<&'a ObjectKey>,
    /// `name=value` pairs, escaped, sorted by name and joined by `&`.
    pub(super) query: &'a str,
    /// What of the object is wanted.
    pub(super) part: Part,
    /// One more field.
    pub(super) field: Option<(&'static str, &'static str)>,
    pub(super) body: Bytes,
    pub(super) check: Option<BodyCheck>,
}

impl<'a> Request<'a> {
    /// Without a body.
    pub(super) fn new(method: &'static str, key: Option<&'a ObjectKey>, query: &'a str) -> Self {
        let body = Bytes::new();
        Self { method, key, query, part: Part::Whole, field: None, body, check: None }
    }

    /// With a body and what vouches for it.
    pub(super) fn with_body(self, body: Bytes, check: BodyCheck) -> Self {
        Self { body, check: Some(check), ..self }
    }
}

/// The connections to a bucket's server, and the keys that sign what goes over them.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: Client,
    bucket: Arc<Bucket>,
}

/// What all requests have in common.
#[derive(Debug)]
struct Bucket {
    /// The value of the `Host` field.
    host: String,
    /// The bucket's path, without a slash at its end.
    path: String,
    signer: Signer,
}

impl Transport {
    pub(super) fn new(
        settings: &S3Settings,
        endpoint: &Endpoint,
        tls: ClientConfig,
    ) -> Result<Self, OpenError> {
        let url = Url::parse(&endpoint.bucket_url).ok();
        let parsed = url.as_ref().and_then(|url| Some((Origin::of(url)?, url.path())));
        let (origin, path) = parsed.ok_or_else(|| OpenError::Client {
            reason: format!("{} is no address of a server", endpoint.bucket_url),
        })?;
        let bucket = Bucket {
            host: origin.authority().to_owned(),
            path: path.trim_end_matches('/').to_owned(),
            signer: Signer::new(settings),
        };
        let client = Client::new(origin, tls, settings.connect_timeout);
        Ok(Self { client, bucket: Arc::new(bucket) })
    }

    /// Sends `request`, signed. Anything but a success is a cause.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Answer, Cause> {
        let write_head = |head: &mut Vec<u8>| self.bucket.write_head(request, head);
        let is_head = request.method == "HEAD";
        let answer = self.client.send(write_head, is_head, request.body.clone()).await?;
        if answer.status() / 100 != 2 {
            return Err(failure::of_answer(answer).await);
        }
        Ok(answer)
    }
}

impl Bucket {
    fn write_head(&self, request: &Request<'_>, head: &mut Vec<u8>) {
        let Request { method, key, query, part, field, body, check } = request;
        head.extend_from_slice(method.as_bytes());
        head.push(b' ');
        let path_begins = head.len();
        head.extend_from_slice(self.path.as_bytes());
        if let Some(key) = key {
            head.push(b'/');
            for piece in utf8_percent_encode(key.as_str(), PATH) {
                head.extend_from_slice(piece.as_bytes());
            }
        }
        if head.len() == path_begins {
            head.push(b'/');
        }
        let path = (path_begins, head.len());
        if !query.is_empty() {
            head.push(b'?');
            head.extend_from_slice(query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        head.extend_from_slice(b"user-agent: ");
        head.extend_from_slice(USER_AGENT.as_bytes());
        head.extend_from_slice(b"\r\n");
        if check.is_some() {
            let mut number = itoa::Buffer::new();
            head.extend_from_slice(b"content-length: ");
            head.extend_from_slice(number.format(body.len()).as_bytes());
            head.extend_from_slice(b"\r\n");
        }

        let (mut range, checksum, sha256);
        range = [0; 64];
        let mut fields = Fields::default();
        fields.add("host", &self.host);
        if let Some(range) = part.field(&mut range) {
            fields.add("range", range);
        }
        if let Some((name, value)) = *field {
            fields.add(name, value);
        }
        let payload = match check {
            None => EMPTY_SHA256,
            Some(BodyCheck::Sha256(digest)) => {
                sha256 = Hex::of(digest);
                sha256.as_str()
            }
            Some(BodyCheck::Crc32c(crc32c)) => {
                checksum = BASE64_STANDARD.encode(crc32c.to_be_bytes());
                fields.add("x-amz-checksum-crc32c", &checksum);
                "UNSIGNED-PAYLOAD"
            }
        };
        let canonical = Canonical { method, path, query, payload };
        self.signer.sign(head, &canonical, fields);
        head.extend_from_slice(b"\r\n");
    }
}
