//! Receiving a body: the content of an object or of a part.

use futures::StreamExt;
use http::HeaderMap;
use s3s::dto::StreamingBlob;

use s3s::stream::ByteStream;
use s3s::{S3Error, S3Result, StdError, TrailingHeaders, s3_error};

use crate::checksums::{Algorithm, Announced, Checksum};
use crate::store::{Receiver, Store, bad_request};

/// The most that S3 takes in one body.
const MAX_BODY_BYTES: u64 = 5 << 30;

/// A body that has arrived and agrees with its length and its checksums.
pub(super) struct Received<B> {
    pub(super) blob: B,
    /// Bytes.
    pub(super) size: u64,
    /// The checksum that is kept with it.
    pub(super) checksum: Option<Checksum>,
}

/// A body that is about to be received.
pub(super) struct Incoming<'a> {
    pub(super) body: Option<StreamingBlob>,
    pub(super) content_length: Option<i64>,
    pub(super) headers: &'a HeaderMap,
    pub(super) trailers: Option<TrailingHeaders>,
    /// A checksum to compute even when the client does not send it.
    pub(super) wanted: Option<Algorithm>,
}

impl Incoming<'_> {
    /// Receives the body into `store`. When anything is wrong with it, nothing is left of it.
    pub(super) async fn receive<S: Store>(
        self,
        store: &S,
        bucket: &str,
    ) -> S3Result<Received<S::Blob>> {
        let size = self.size()?;
        let mut announced = Announced::of(self.headers, self.wanted);
        let mut receiver = store.receive(bucket, size).await?;
        let mut arrived = 0;
        let mut body = self.body;
        while let Some(piece) = match &mut body {
            Some(body) => body.next().await,
            None => None,
        } {
            let piece = piece.map_err(body_error)?;
            arrived += piece.len() as u64;
            if arrived > size {
                return Err(s3_error!(
                    IncompleteBody,
                    "The body is longer than the {size} bytes announced"
                ));
            }
            announced.update(&piece);
            receiver.write(piece).await?;
        }
        if arrived < size {
            return Err(s3_error!(
                IncompleteBody,
                "The body ended after {arrived} of the {size} bytes announced"
            ));
        }
        let trailers = self.trailers.and_then(|trailers| trailers.take());
        let checksum = announced.verify(trailers.as_ref())?;
        Ok(Received { blob: receiver.finish().await?, size, checksum })
    }

    /// How many bytes will come.
    fn size(&self) -> S3Result<u64> {
        let Some(body) = &self.body else { return Ok(0) };
        let remaining = body.remaining_length().exact().map(|length| length as u64);
        let size = remaining
            .or_else(|| self.content_length.and_then(|length| u64::try_from(length).ok()))
            .ok_or_else(|| {
                s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header.")
            })?;
        if size > MAX_BODY_BYTES {
            return Err(s3_error!(
                EntityTooLarge,
                "The most that one request can write is 5 GiB; upload the object in parts"
            ));
        }
        Ok(size)
    }
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
