//! Writing an object.

use std::time::SystemTime;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, StatusCode};
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::{Checksum, ETag, PutObjectInput, PutObjectOutput, StreamingBlob};
use s3s::stream::ByteStream;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, StdError, s3_error};

use super::unsupported;
use crate::store::{Bucket, Object, Store};

/// The most that S3 takes in one PUT.
const MAX_OBJECT_BYTES: usize = 5 << 30;

/// Writes the object once its whole body has arrived and agrees with its length and its checksums.
pub(super) async fn put_object(
    store: &Store,
    bucket: &Bucket,
    request: S3Request<PutObjectInput>,
) -> S3Result<PutObjectOutput> {
    let input = request.input;
    if input.if_match.is_some()
        || input.if_none_match.is_some()
        || input.write_offset_bytes.is_some()
    {
        return Err(unsupported());
    }
    if input.content_md5.is_some() {
        return Err(s3_error!(
            NotImplemented,
            "This server does not check Content-MD5; use x-amz-checksum-crc32c"
        ));
    }

    let announced = Announced::of(&request.headers);
    let mut hasher = announced.hasher();
    let content = collect(input.body, input.content_length, &mut hasher).await?;
    let checksum = hasher.finalize();
    let trailers = request.trailing_headers.and_then(|trailers| trailers.take());
    announced.verify(&checksum, trailers.as_ref())?;

    let etag = store.new_etag(content.len());
    let object = Object {
        content,
        etag: etag.clone(),
        modified: SystemTime::now(),
        content_type: input.content_type,
        metadata: input.metadata,
    };
    bucket.put(input.key, object);
    Ok(PutObjectOutput {
        e_tag: Some(ETag::Strong(etag)),
        checksum_crc32: checksum.checksum_crc32,
        checksum_crc32c: checksum.checksum_crc32c,
        checksum_crc64nvme: checksum.checksum_crc64nvme,
        checksum_sha1: checksum.checksum_sha1,
        checksum_sha256: checksum.checksum_sha256,
        ..Default::default()
    })
}

/// Copies the body into one buffer of its exact size, and hashes it on the way.
async fn collect(
    body: Option<StreamingBlob>,
    content_length: Option<i64>,
    hasher: &mut ChecksumHasher,
) -> S3Result<Bytes> {
    let Some(mut body) = body else { return Ok(Bytes::new()) };
    let declared = body
        .remaining_length()
        .exact()
        .or_else(|| content_length.and_then(|length| usize::try_from(length).ok()))
        .ok_or_else(|| {
            s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header.")
        })?;
    if declared > MAX_OBJECT_BYTES {
        return Err(s3_error!(EntityTooLarge, "The most that one PUT can write is 5 GiB"));
    }
    let mut content = Vec::new();
    content
        .try_reserve_exact(declared)
        .map_err(|_| s3_error!(InternalError, "No memory for an object of {declared} bytes"))?;
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(body_error)?;
        if chunk.len() > declared - content.len() {
            return Err(s3_error!(
                IncompleteBody,
                "The body is longer than the {declared} bytes announced"
            ));
        }
        hasher.update(&chunk);
        content.extend_from_slice(&chunk);
    }
    if content.len() < declared {
        let received = content.len();
        return Err(s3_error!(
            IncompleteBody,
            "The body ended after {received} of the {declared} bytes announced"
        ));
    }
    Ok(Bytes::from(content))
}

/// Names the failure of a body as S3 does. The types of `s3s`'s stream errors are private, so their
/// text is all there is to go by.
fn body_error(error: StdError) -> S3Error {
    let text = error.to_string();
    let mut named = if text.contains("Sha256Mismatch") {
        bad_request(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.".into(),
        )
    } else if text.contains("SignatureMismatch") {
        s3_error!(SignatureDoesNotMatch, "The signature of a chunk does not match")
    } else {
        s3_error!(IncompleteBody, "The body could not be read to its end: {text}")
    };
    named.set_source(error);
    named
}

/// An error with a code that `s3s` does not know, which goes with status 400.
fn bad_request(code: &'static str, message: String) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(StatusCode::BAD_REQUEST);
    error
}

/// A checksum that S3 knows: its header, how its hasher is switched on, and where its value ends up.
struct Algorithm {
    header: &'static str,
    enable: fn(&mut ChecksumHasher),
    computed: fn(&Checksum) -> Option<&String>,
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm {
        header: "x-amz-checksum-crc32",
        enable: |hasher| hasher.crc32 = Some(Crc32::new()),
        computed: |checksum| checksum.checksum_crc32.as_ref(),
    },
    Algorithm {
        header: "x-amz-checksum-crc32c",
        enable: |hasher| hasher.crc32c = Some(Crc32c::new()),
        computed: |checksum| checksum.checksum_crc32c.as_ref(),
    },
    Algorithm {
        header: "x-amz-checksum-crc64nvme",
        enable: |hasher| hasher.crc64nvme = Some(Crc64Nvme::new()),
        computed: |checksum| checksum.checksum_crc64nvme.as_ref(),
    },
    Algorithm {
        header: "x-amz-checksum-sha1",
        enable: |hasher| hasher.sha1 = Some(Sha1::new()),
        computed: |checksum| checksum.checksum_sha1.as_ref(),
    },
    Algorithm {
        header: "x-amz-checksum-sha256",
        enable: |hasher| hasher.sha256 = Some(Sha256::new()),
        computed: |checksum| checksum.checksum_sha256.as_ref(),
    },
];

/// The checksums that a request brings: in headers, with their value, or in trailers (`None`), which
/// come behind the body. `s3s` parses both and verifies neither.
struct Announced(Vec<(&'static Algorithm, Option<String>)>);

impl Announced {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let trailers = text("x-amz-trailer").unwrap_or_default();
        Self(
            ALGORITHMS
                .iter()
                .filter_map(|algorithm| match text(algorithm.header) {
                    Some(value) => Some((algorithm, Some(value.to_owned()))),
                    None => trailers
                        .split(',')
                        .any(|name| name.trim().eq_ignore_ascii_case(algorithm.header))
                        .then_some((algorithm, None)),
                })
                .collect(),
        )
    }

    fn hasher(&self) -> ChecksumHasher {
        let mut hasher = ChecksumHasher::default();
        for (algorithm, _) in &self.0 {
            (algorithm.enable)(&mut hasher);
        }
        hasher
    }

    fn verify(&self, computed: &Checksum, trailers: Option<&HeaderMap>) -> S3Result {
        for (algorithm, value) in &self.0 {
            let header = algorithm.header;
            let sent = value
                .as_deref()
                .or_else(|| trailers?.get(header)?.to_str().ok())
                .ok_or_else(|| {
                    bad_request("MalformedTrailerError", format!("The trailer {header} is missing"))
                })?;
            let computed = (algorithm.computed)(computed).map_or("", String::as_str);
            if sent != computed {
                return Err(s3_error!(
                    BadDigest,
                    "{header} is {sent}, but the body that arrived has {computed}"
                ));
            }
        }
        Ok(())
    }
}
