//! Reading an object, or what is known of it.

use std::ops;
use std::sync::Arc;

use s3s::dto::{
    ChecksumMode, ChecksumType, ETag, GetObjectInput, GetObjectOutput, HeadObjectInput,
    HeadObjectOutput, Range, StreamingBlob, Timestamp,
};
use s3s::{S3Request, S3Result, s3_error};

use super::conditions::read_conditions;
use super::{Routes, refuse};
use crate::checksums::{Checksum, Coverage, set_checksum};
use crate::store::{Attributes, Content, ObjectInfo, Store};

/// What is told of an object with and without its content: the fields that both outputs have.
macro_rules! describe {
    ($output:ident, $object:expr, $part:expr, $checksum:expr) => {{
        let (object, part): (&ObjectInfo, &Part) = ($object, $part);
        let attributes = &object.attributes;
        let mut output = $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(part.range.end - part.range.start).ok(),
            content_range: part.content_range.clone(),
            content_type: Some(content_type(attributes)),
            content_encoding: attributes.content_encoding.clone(),
            content_language: attributes.content_language.clone(),
            content_disposition: attributes.content_disposition.clone(),
            cache_control: attributes.cache_control.clone(),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            last_modified: Some(Timestamp::from(object.modified)),
            metadata: attributes.metadata.clone(),
            ..Default::default()
        };
        let checksum: Option<&Checksum> = $checksum;
        set_checksum!(output, checksum);
        output.checksum_type = checksum.map(|checksum| checksum_type(checksum.coverage));
        output
    }};
}

/// The object, or the range of it that was asked for.
pub(super) async fn get_object<S: Store>(
    routes: &Routes<S>,
    request: S3Request<GetObjectInput>,
) -> S3Result<GetObjectOutput> {
    let input = request.input;
    refuse!(input, "versions": version_id);
    refuse!(input, "reading by part number": part_number);
    refuse!(input, "encryption with keys of the client": sse_customer_algorithm, sse_customer_key);
    let (object, content) = routes.store.open(&input.bucket, &input.key).await?;
    read_conditions!(input).check(&object)?;
    let part = Part::of(&object, input.range)?;
    let checksum = asked_checksum(&object, input.checksum_mode.as_ref(), &part);
    let mut output = describe!(GetObjectOutput, &object, &part, checksum);
    output.body = Some(StreamingBlob::from(content.body(part.range)));
    Ok(output)
}

/// The same without the content.
pub(super) async fn head_object<S: Store>(
    routes: &Routes<S>,
    request: S3Request<HeadObjectInput>,
) -> S3Result<HeadObjectOutput> {
    let input = request.input;
    refuse!(input, "versions": version_id);
    refuse!(input, "reading by part number": part_number);
    refuse!(input, "encryption with keys of the client": sse_customer_algorithm, sse_customer_key);
    let (object, _) = routes.store.open(&input.bucket, &input.key).await?;
    read_conditions!(input).check(&object)?;
    let part = Part::of(&object, input.range)?;
    let checksum = asked_checksum(&object, input.checksum_mode.as_ref(), &part);
    Ok(describe!(HeadObjectOutput, &object, &part, checksum))
}

/// The checksum of the object, if it was asked for and is one of what is sent.
fn asked_checksum<'a>(
    object: &'a Arc<ObjectInfo>,
    mode: Option<&ChecksumMode>,
    part: &Part,
) -> Option<&'a Checksum> {
    let is_asked = mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED);
    let is_whole = part.range == (0..object.size);
    object.attributes.checksum.as_ref().filter(|_| is_asked && is_whole)
}

/// What S3 says of an object whose writer did not say what it is.
const CONTENT_TYPE: &str = "binary/octet-stream";

fn content_type(attributes: &Attributes) -> String {
    attributes.content_type.as_deref().unwrap_or(CONTENT_TYPE).to_owned()
}

pub(super) fn checksum_type(coverage: Coverage) -> ChecksumType {
    ChecksumType::from_static(match coverage {
        Coverage::FullObject => ChecksumType::FULL_OBJECT,
        Coverage::Composite => ChecksumType::COMPOSITE,
    })
}

/// The part of an object that is asked for.
struct Part {
    range: ops::Range<u64>,
    /// Makes the answer a 206.
    content_range: Option<String>,
}

impl Part {
    fn of(object: &ObjectInfo, range: Option<Range>) -> S3Result<Self> {
        let size = object.size;
        let Some(range) = range else { return Ok(Self { range: 0..size, content_range: None }) };
        let range = range
            .check(size)
            .ok()
            .filter(|range| !range.is_empty())
            .ok_or_else(|| s3_error!(InvalidRange, "The requested range is not satisfiable"))?;
        let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        Ok(Self { range, content_range: Some(content_range) })
    }
}
