//! Reading an object, or what is known of it.

use std::ops;
use std::sync::Arc;

use s3s::dto::{
    ETag, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Range, StreamingBlob,
    Timestamp,
};
use s3s::{Body, S3Result, s3_error};

use super::unsupported;
use crate::store::{Bucket, Object};

/// The object, or the range of it that was asked for, as one piece of shared memory.
pub(super) fn get_object(bucket: &Bucket, input: &GetObjectInput) -> S3Result<GetObjectOutput> {
    let conditional = input.if_match.is_some()
        || input.if_none_match.is_some()
        || input.if_modified_since.is_some()
        || input.if_unmodified_since.is_some();
    if conditional || input.part_number.is_some() || input.version_id.is_some() {
        return Err(unsupported());
    }
    let object = object(bucket, &input.key)?;
    let (range, content_range) = range_of(&object, input.range)?;
    Ok(GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(range.len()).ok(),
        content_range,
        content_type: object.content_type.clone(),
        e_tag: Some(ETag::Strong(object.etag.clone())),
        last_modified: Some(Timestamp::from(object.modified)),
        metadata: object.metadata.clone(),
        body: Some(StreamingBlob::from(Body::from(object.content.slice(range)))),
        ..Default::default()
    })
}

/// The same without the content.
pub(super) fn head_object(bucket: &Bucket, input: &HeadObjectInput) -> S3Result<HeadObjectOutput> {
    let conditional = input.if_match.is_some()
        || input.if_none_match.is_some()
        || input.if_modified_since.is_some()
        || input.if_unmodified_since.is_some();
    if conditional || input.part_number.is_some() || input.version_id.is_some() {
        return Err(unsupported());
    }
    let object = object(bucket, &input.key)?;
    let (range, content_range) = range_of(&object, input.range)?;
    Ok(HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: i64::try_from(range.len()).ok(),
        content_range,
        content_type: object.content_type.clone(),
        e_tag: Some(ETag::Strong(object.etag.clone())),
        last_modified: Some(Timestamp::from(object.modified)),
        metadata: object.metadata.clone(),
        ..Default::default()
    })
}

fn object(bucket: &Bucket, key: &str) -> S3Result<Arc<Object>> {
    bucket.get(key).ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
}

/// The part of the object that `range` asks for, and its `Content-Range`, which makes the answer a
/// 206.
fn range_of(
    object: &Object,
    range: Option<Range>,
) -> S3Result<(ops::Range<usize>, Option<String>)> {
    let len = object.content.len();
    let Some(range) = range else { return Ok((0..len, None)) };
    let part = range
        .check(len as u64)
        .ok()
        .filter(|part| !part.is_empty())
        .ok_or_else(|| s3_error!(InvalidRange, "The requested range is not satisfiable"))?;
    let content_range = format!("bytes {}-{}/{len}", part.start, part.end - 1);
    Ok((part.start as usize..part.end as usize, Some(content_range)))
}
