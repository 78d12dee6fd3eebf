//! Uploads in parts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload,
    Part as ListedPart, Timestamp, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Request, S3Result, s3_error};

use super::copy::algorithm;
use super::get::checksum_type;
use super::list::{Encoding, page_size};
use super::put::attributes;
use super::receive::Incoming;
use super::{Routes, refuse};
use crate::checksums::{Algorithm, Checksum, Coverage, checksums_in, set_checksum};
use crate::store::{Attributes, Store, WriteCondition, bad_request};
use crate::uploads::{PART_NUMBERS, Part, Upload, UploadName};

/// The least that every part but the last must have.
const MIN_PART_BYTES: u64 = 5 << 20;

/// The part number of a request, if there can be such a part.
pub(super) fn part_number(number: i32) -> S3Result<i32> {
    if PART_NUMBERS.contains(&number) {
        return Ok(number);
    }
    Err(s3_error!(
        InvalidArgument,
        "Part number must be an integer between 1 and 10000, inclusive; it is {number}"
    ))
}

pub(super) async fn create_multipart_upload<S: Store>(
    routes: &Routes<S>,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let mut input = request.input;
    refuse!(input, "tags of objects": tagging);
    refuse!(input, "encryption with keys of the client": sse_customer_algorithm, sse_customer_key);
    routes.store.check_bucket(&input.bucket).await?;
    let checksum =
        wanted_checksum(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let attributes: Attributes = attributes!(input);
    let id = routes.uploads.begin(&input.bucket, &input.key, attributes, checksum);
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: checksum.map(|(algorithm, _)| named(algorithm)),
        checksum_type: checksum.map(|(_, coverage)| checksum_type(coverage)),
        ..Default::default()
    })
}

fn named(algorithm: Algorithm) -> ChecksumAlgorithm {
    ChecksumAlgorithm::from_static(algorithm.name())
}

/// The checksum that an upload is to have.
fn wanted_checksum(
    name: Option<&ChecksumAlgorithm>,
    coverage: Option<&ChecksumType>,
) -> S3Result<Option<(Algorithm, Coverage)>> {
    let coverage = coverage
        .map(|coverage| match coverage.as_str() {
            ChecksumType::FULL_OBJECT => Ok(Coverage::FullObject),
            ChecksumType::COMPOSITE => Ok(Coverage::Composite),
            other => Err(s3_error!(InvalidRequest, "x-amz-checksum-type is {other}")),
        })
        .transpose()?;
    let Some(name) = name else {
        return match coverage {
            None => Ok(None),
            Some(_) => Err(s3_error!(
                InvalidRequest,
                "x-amz-checksum-type needs an x-amz-checksum-algorithm"
            )),
        };
    };
    let algorithm = algorithm(name.as_str())?;
    let coverage = coverage.unwrap_or(algorithm.default_coverage());
    if !algorithm.has(coverage) {
        return Err(s3_error!(
            InvalidRequest,
            "{} has no checksum of this x-amz-checksum-type",
            algorithm.name()
        ));
    }
    Ok(Some((algorithm, coverage)))
}

pub(super) async fn upload_part<S: Store>(
    routes: &Routes<S>,
    request: S3Request<UploadPartInput>,
) -> S3Result<UploadPartOutput> {
    let input = request.input;
    refuse!(input, "encryption with keys of the client": sse_customer_algorithm, sse_customer_key);
    let number = part_number(input.part_number)?;
    let name = UploadName { bucket: input.bucket, key: input.key, id: input.upload_id };
    let upload = routes.uploads.get(&name)?;
    let incoming = Incoming {
        body: input.body,
        content_length: input.content_length,
        headers: &request.headers,
        trailers: request.trailing_headers,
        wanted: upload.checksum.map(|(algorithm, _)| algorithm),
    };
    let received = incoming.receive(&routes.store, &name.bucket).await?;
    let etag = routes.uploads.part_etag(received.size);
    let mut output =
        UploadPartOutput { e_tag: Some(ETag::Strong(etag.clone())), ..Default::default() };
    set_checksum!(output, &received.checksum);
    upload.add(
        number,
        Part {
            blob: received.blob,
            size: received.size,
            etag,
            modified: SystemTime::now(),
            checksum: received.checksum,
        },
    );
    Ok(output)
}

/// Makes an object of the parts that the client names.
pub(super) async fn complete_multipart_upload<S: Store>(
    routes: &Routes<S>,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let mut input = request.input;
    let named = input.multipart_upload.take().and_then(|upload| upload.parts).unwrap_or_default();
    let name = UploadName { bucket: input.bucket, key: input.key, id: input.upload_id };
    let upload = routes.uploads.get(&name)?;
    let parts =
        chosen_parts(&named, &upload.parts(), upload.checksum.map(|(algorithm, _)| algorithm))?;
    let size: u64 = parts.iter().map(|part| part.size).sum();
    if let Some(announced) = input.mpu_object_size
        && u64::try_from(announced) != Ok(size)
    {
        return Err(s3_error!(
            InvalidRequest,
            "x-amz-mp-object-size is {announced}, but the parts have {size} bytes together"
        ));
    }
    let checksum = whole_checksum(&upload, &parts)?;
    for (algorithm, sent) in checksums_in!(input) {
        let fits = checksum.as_ref().is_some_and(|checksum| {
            // The number of parts behind a composite one may be left out.
            let bare = checksum.value.split('-').next();
            checksum.algorithm == algorithm && (checksum.value == sent || bare == Some(sent))
        });
        if !fits {
            return Err(s3_error!(
                BadDigest,
                "The {} checksum you specified, {sent}, is not that of the object: {}",
                algorithm.name(),
                checksum.map_or_else(|| "it has none".to_owned(), |checksum| checksum.value)
            ));
        }
    }

    let blobs: Vec<&S::Blob> = parts.iter().map(|part| &part.blob).collect();
    let blob = routes.store.join(&blobs, &name.bucket).await?;
    let attributes = Attributes { checksum: checksum.clone(), ..upload.attributes.clone() };
    let condition = WriteCondition { if_match: input.if_match, if_none_match: input.if_none_match };
    let object = routes.store.put(&name.bucket, &name.key, blob, attributes, condition).await?;
    // Another request may have ended it meanwhile; the object is there all the same.
    let _ = routes.uploads.end(&name);

    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", name.bucket, name.key)),
        bucket: Some(name.bucket),
        key: Some(name.key),
        e_tag: Some(ETag::Strong(object.etag.clone())),
        checksum_type: checksum.as_ref().map(|checksum| checksum_type(checksum.coverage)),
        ..Default::default()
    };
    set_checksum!(output, &checksum);
    Ok(output)
}

/// The parts of an upload that a client names, in its order, if they can be made an object.
fn chosen_parts<B>(
    named: &[CompletedPart],
    uploaded: &BTreeMap<i32, Arc<Part<B>>>,
    algorithm: Option<Algorithm>,
) -> S3Result<Vec<Arc<Part<B>>>> {
    if named.is_empty() {
        return Err(s3_error!(MalformedXML, "You must specify at least one part"));
    }
    let number_of = |part: &CompletedPart| part.part_number.unwrap_or_default();
    if let Some([one, next]) = named.array_windows().find(|[a, b]| number_of(a) >= number_of(b)) {
        return Err(s3_error!(
            InvalidPartOrder,
            "The list of parts was not in ascending order: {} behind {}",
            number_of(next),
            number_of(one)
        ));
    }
    let mut chosen = Vec::with_capacity(named.len());
    for (index, part) in named.iter().enumerate() {
        let number = number_of(part);
        let found = uploaded
            .get(&number)
            .filter(|found| part.e_tag.as_ref().is_some_and(|etag| etag.value() == found.etag))
            .filter(|found| {
                checksums_in!(part).all(|(named, value)| {
                    let checksum = found.checksum.as_ref();
                    checksum.is_some_and(|has| has.algorithm == named && has.value == value)
                        || algorithm.is_some_and(|algorithm| algorithm != named)
                })
            })
            .ok_or_else(|| {
                s3_error!(
                    InvalidPart,
                    "Part {number} could not be found: it was not uploaded, or has another entity \
                     tag or checksum"
                )
            })?;
        if found.size < MIN_PART_BYTES && index + 1 < named.len() {
            return Err(bad_request(
                "EntityTooSmall",
                format!(
                    "Part {number} has {} bytes; every part but the last must have 5 MiB",
                    found.size
                ),
            ));
        }
        chosen.push(Arc::clone(found));
    }
    Ok(chosen)
}

/// The checksum of the object, if its upload was begun with one.
fn whole_checksum<B>(upload: &Upload<B>, parts: &[Arc<Part<B>>]) -> S3Result<Option<Checksum>> {
    let Some((algorithm, coverage)) = upload.checksum else { return Ok(None) };
    let of_parts = parts.iter().map(|part| {
        let value = part.checksum.as_ref().map_or("", |checksum| checksum.value.as_str());
        (value, part.size)
    });
    let checksum = Checksum::of_parts(algorithm, coverage, of_parts);
    checksum.map(Some).ok_or_else(|| s3_error!(InternalError, "The checksums do not add up"))
}

pub(super) async fn abort_multipart_upload<S: Store>(
    routes: &Routes<S>,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<AbortMultipartUploadOutput> {
    let input = request.input;
    refuse!(input, "conditions on aborting": if_match_initiated_time);
    let name = UploadName { bucket: input.bucket, key: input.key, id: input.upload_id };
    routes.uploads.end(&name)?;
    Ok(AbortMultipartUploadOutput::default())
}

pub(super) async fn list_parts<S: Store>(
    routes: &Routes<S>,
    request: S3Request<ListPartsInput>,
) -> S3Result<ListPartsOutput> {
    let input = request.input;
    let (max_parts, max) = page_size("max-parts", input.max_parts)?;
    let name = UploadName { bucket: input.bucket, key: input.key, id: input.upload_id };
    let upload = routes.uploads.get(&name)?;
    let parts = upload.parts();
    let after = input.part_number_marker.unwrap_or_default();
    let mut behind = parts.iter().filter(|(number, _)| **number > after);
    let listed: Vec<ListedPart> = behind
        .by_ref()
        .take(max)
        .map(|(number, part)| {
            let mut listed = ListedPart {
                part_number: Some(*number),
                e_tag: Some(ETag::Strong(part.etag.clone())),
                size: i64::try_from(part.size).ok(),
                last_modified: Some(Timestamp::from(part.modified)),
                ..Default::default()
            };
            set_checksum!(listed, &part.checksum);
            listed
        })
        .collect();
    let is_truncated = max > 0 && behind.next().is_some();
    let last = listed.last().and_then(|part| part.part_number);
    Ok(ListPartsOutput {
        bucket: Some(name.bucket),
        key: Some(name.key),
        upload_id: Some(name.id),
        part_number_marker: Some(after),
        next_part_number_marker: last.filter(|_| is_truncated),
        max_parts: Some(max_parts),
        is_truncated: Some(is_truncated),
        checksum_algorithm: upload.checksum.map(|(algorithm, _)| named(algorithm)),
        checksum_type: upload.checksum.map(|(_, coverage)| checksum_type(coverage)),
        parts: Some(listed),
        ..Default::default()
    })
}

pub(super) async fn list_multipart_uploads<S: Store>(
    routes: &Routes<S>,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<ListMultipartUploadsOutput> {
    let input = request.input;
    refuse!(input, "lists of uploads with a delimiter": delimiter);
    let (max_uploads, max) = page_size("max-uploads", input.max_uploads)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    routes.store.check_bucket(&input.bucket).await?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let key_marker = input.key_marker.clone().unwrap_or_default();
    // Without an id, the marker stands behind all uploads of its key.
    let id_marker = match input.upload_id_marker.as_deref() {
        Some(id) if !id.is_empty() => id,
        _ if key_marker.is_empty() => "",
        _ => "\u{10ffff}",
    };
    let page = routes.uploads.list(&input.bucket, &prefix, (&key_marker, id_marker), max);
    let is_truncated = page.more;
    let last = page.uploads.last().map(|(name, _)| name.clone()).filter(|_| is_truncated);
    let uploads = page.uploads.into_iter().map(|(name, upload)| MultipartUpload {
        key: Some(encoding.encode(name.key)),
        upload_id: Some(name.id),
        initiated: Some(Timestamp::from(upload.initiated)),
        checksum_algorithm: upload.checksum.map(|(algorithm, _)| named(algorithm)),
        checksum_type: upload.checksum.map(|(_, coverage)| checksum_type(coverage)),
        ..Default::default()
    });
    Ok(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        uploads: Some(uploads.collect()),
        max_uploads: Some(max_uploads),
        is_truncated: Some(is_truncated),
        prefix: input.prefix.map(|prefix| encoding.encode(prefix)),
        key_marker: Some(encoding.encode(key_marker)),
        upload_id_marker: input.upload_id_marker,
        next_key_marker: last.as_ref().map(|name| encoding.encode(name.key.clone())),
        next_upload_id_marker: last.map(|name| name.id),
        encoding_type: input.encoding_type,
        ..Default::default()
    })
}
