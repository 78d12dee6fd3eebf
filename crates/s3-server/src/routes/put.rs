//! Writing an object.

use s3s::dto::{ETag, PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Result};

use super::get::checksum_type;
use super::receive::Incoming;
use super::{Routes, refuse};
use crate::checksums::set_checksum;
use crate::store::{Attributes, Store, WriteCondition};

/// What a client says of an object that it writes, from the fields of an input of `s3s`.
macro_rules! attributes {
    ($input:expr) => {
        $crate::store::Attributes {
            content_type: $input.content_type.take(),
            content_encoding: $crate::routes::put::content_encoding($input.content_encoding.take()),
            content_language: $input.content_language.take(),
            content_disposition: $input.content_disposition.take(),
            cache_control: $input.cache_control.take(),
            metadata: $input.metadata.take().filter(|metadata| !metadata.is_empty()),
            checksum: None,
        }
    };
}
pub(super) use attributes;

/// Writes the object once its whole body has arrived and agrees with its length and its checksums.
pub(super) async fn put_object<S: Store>(
    routes: &Routes<S>,
    request: S3Request<PutObjectInput>,
) -> S3Result<PutObjectOutput> {
    let mut input = request.input;
    refuse!(input, "writing at an offset": write_offset_bytes);
    refuse!(input, "tags of objects": tagging);
    refuse!(input, "encryption with keys of the client": sse_customer_algorithm, sse_customer_key);
    let attributes: Attributes = attributes!(input);
    let condition = WriteCondition { if_match: input.if_match, if_none_match: input.if_none_match };
    let incoming = Incoming {
        body: input.body,
        content_length: input.content_length,
        headers: &request.headers,
        trailers: request.trailing_headers,
        wanted: None,
    };
    let received = incoming.receive(&routes.store, &input.bucket).await?;
    let attributes = Attributes { checksum: received.checksum.clone(), ..attributes };
    let object =
        routes.store.put(&input.bucket, &input.key, received.blob, attributes, condition).await?;
    let mut output = PutObjectOutput {
        e_tag: Some(ETag::Strong(object.etag.clone())),
        checksum_type: received.checksum.as_ref().map(|checksum| checksum_type(checksum.coverage)),
        ..Default::default()
    };
    set_checksum!(output, &received.checksum);
    Ok(output)
}

/// The encoding of the object: `aws-chunked` is only that of the request.
pub(super) fn content_encoding(header: Option<String>) -> Option<String> {
    let header = header?;
    let codings = header.split(',').map(str::trim);
    let kept: Vec<&str> =
        codings.filter(|coding| !coding.is_empty() && *coding != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coding_of_the_request_is_not_kept() {
        let kept = |header: &str| content_encoding(Some(header.to_owned()));
        assert_eq!(kept("aws-chunked"), None);
        assert_eq!(kept("aws-chunked,gzip").as_deref(), Some("gzip"));
        assert_eq!(kept("gzip, br").as_deref(), Some("gzip, br"));
        assert_eq!(content_encoding(None), None);
    }
}
