//! Copying objects within the server.

use std::sync::Arc;
use std::time::SystemTime;

use http_body_util::BodyExt;
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETag,
    MetadataDirective, Range, Timestamp, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Error, S3Request, S3Result, StdError, s3_error};

use super::conditions::source_conditions;
use super::get::checksum_type;
use super::multipart::part_number;
use super::put::attributes;
use super::{Routes, refuse, unsupported};
use crate::checksums::{Algorithm, Checksum, Coverage, Hashing, set_checksum};
use crate::store::{Attributes, Content, ObjectInfo, Store, WriteCondition};
use crate::uploads::{Part, UploadName};

/// The most that S3 copies in one request.
const MAX_COPY_BYTES: u64 = 5 << 30;

/// Copies an object, with what its writer said of it or, if so asked, with what is said now.
pub(super) async fn copy_object<S: Store>(
    routes: &Routes<S>,
    request: S3Request<CopyObjectInput>,
) -> S3Result<CopyObjectOutput> {
    let mut input = request.input;
    refuse!(input, "tags of objects": tagging);
    refuse!(
        input, "encryption with keys of the client":
        sse_customer_algorithm, sse_customer_key, copy_source_sse_customer_key
    );
    let (source, content) = open_source(routes, &input.copy_source).await?;
    source_conditions!(input).check_source(&source)?;
    check_size(source.size)?;
    let directive = input.metadata_directive.as_ref().map(MetadataDirective::as_str);
    let is_replaced = match directive {
        None | Some(MetadataDirective::COPY) => false,
        Some(MetadataDirective::REPLACE) => true,
        Some(other) => {
            return Err(s3_error!(InvalidArgument, "x-amz-metadata-directive is {other}"));
        }
    };
    let is_itself = matches!(&input.copy_source, CopySource::Bucket { bucket, key, .. }
        if **bucket == *input.bucket && **key == *input.key);
    if is_itself && !is_replaced {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without \
             changing the object's metadata"
        ));
    }
    let attributes: Attributes =
        if is_replaced { attributes!(input) } else { source.attributes.clone() };
    let asked =
        input.checksum_algorithm.as_ref().map(|name| algorithm(name.as_str())).transpose()?;
    let checksum = match (asked, &source.attributes.checksum) {
        (Some(asked), _) => Some(checksum_of(&content, 0..source.size, asked).await?),
        (None, Some(kept)) if kept.coverage == Coverage::FullObject => Some(kept.clone()),
        // The copy has no parts.
        (None, _) => None,
    };
    let attributes = Attributes { checksum: checksum.clone(), ..attributes };
    let blob = routes.store.copy(&content, 0..source.size, &input.bucket).await?;
    let condition = WriteCondition::default();
    let object = routes.store.put(&input.bucket, &input.key, blob, attributes, condition).await?;
    let mut result = CopyObjectResult {
        e_tag: Some(ETag::Strong(object.etag.clone())),
        last_modified: Some(Timestamp::from(object.modified)),
        checksum_type: checksum.as_ref().map(|checksum| checksum_type(checksum.coverage)),
        ..Default::default()
    };
    set_checksum!(result, &checksum);
    Ok(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() })
}

/// Makes a part of an upload of an object or a range of it.
pub(super) async fn upload_part_copy<S: Store>(
    routes: &Routes<S>,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<UploadPartCopyOutput> {
    let input = request.input;
    refuse!(
        input, "encryption with keys of the client":
        sse_customer_algorithm, sse_customer_key, copy_source_sse_customer_key
    );
    let number = part_number(input.part_number)?;
    let name = UploadName {
        bucket: input.bucket.clone(),
        key: input.key.clone(),
        id: input.upload_id.clone(),
    };
    let upload = routes.uploads.get(&name)?;
    let (source, content) = open_source(routes, &input.copy_source).await?;
    source_conditions!(input).check_source(&source)?;
    let range = match &input.copy_source_range {
        None => 0..source.size,
        Some(text) => Range::parse(text)
            .ok()
            .and_then(|range| range.check(source.size).ok())
            .filter(|range| !range.is_empty())
            .ok_or_else(|| {
                s3_error!(
                    InvalidRange,
                    "x-amz-copy-source-range is {text}, and the object has {} bytes",
                    source.size
                )
            })?,
    };
    let size = range.end - range.start;
    check_size(size)?;
    let checksum = match upload.checksum {
        Some((algorithm, _)) => Some(checksum_of(&content, range.clone(), algorithm).await?),
        None => None,
    };
    let blob = routes.store.copy(&content, range, &input.bucket).await?;
    let etag = routes.uploads.part_etag(size);
    let modified = SystemTime::now();
    let mut result = CopyPartResult {
        e_tag: Some(ETag::Strong(etag.clone())),
        last_modified: Some(Timestamp::from(modified)),
        ..Default::default()
    };
    set_checksum!(result, &checksum);
    upload.add(number, Part { blob, size, etag, modified, checksum });
    Ok(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() })
}

async fn open_source<S: Store>(
    routes: &Routes<S>,
    source: &CopySource,
) -> S3Result<(Arc<ObjectInfo>, S::Content)> {
    match source {
        CopySource::Bucket { bucket, key, version_id: None } => {
            Ok(routes.store.open(bucket, key).await?)
        }
        CopySource::Bucket { .. } => Err(unsupported("versions")),
        _ => Err(unsupported("access points")),
    }
}

fn check_size(size: u64) -> S3Result {
    if size > MAX_COPY_BYTES {
        return Err(s3_error!(
            InvalidRequest,
            "The most that one request can copy is 5 GiB; copy the object in parts"
        ));
    }
    Ok(())
}

/// The algorithm of this name.
pub(super) fn algorithm(name: &str) -> S3Result<Algorithm> {
    Algorithm::named(name).ok_or_else(|| {
        s3_error!(
            InvalidRequest,
            "The checksum algorithm is {name}; there are CRC32, CRC32C, CRC64NVME, SHA1 and SHA256"
        )
    })
}

/// Reads a range of `content` and computes its checksum.
async fn checksum_of(
    content: &impl Content,
    range: std::ops::Range<u64>,
    algorithm: Algorithm,
) -> S3Result<Checksum> {
    let mut body = content.body(range);
    let mut hashing = Hashing::new([algorithm]);
    while let Some(frame) = body.frame().await {
        let failed = |error: StdError| S3Error::with_source(s3s::S3ErrorCode::InternalError, error);
        if let Some(piece) = frame.map_err(failed)?.data_ref() {
            hashing.update(piece);
        }
    }
    Ok(Checksum::of_full_object(algorithm, hashing.value(algorithm)))
}
