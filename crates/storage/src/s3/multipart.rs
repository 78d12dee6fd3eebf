//! Uploads in parts: `CreateMultipartUpload`, `UploadPart`, `CompleteMultipartUpload` and
//! `AbortMultipartUpload`, one request each.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use percent_encoding::utf8_percent_encode;
use quick_xml::SeError;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::S3Store;
use super::failure::S3Error;
use super::transport::{BodyCheck, ESCAPED, Request, Transport};
use crate::{Cause, ObjectKey, PartTag, UploadId, UploadedPart};

/// Says when an upload begins which checksum its parts will have; a store that is not told refuses
/// parts with one.
const CRC32C_PARTS: (&str, &str) = ("x-amz-checksum-algorithm", "CRC32C");

impl S3Store {
    pub(super) async fn begin(&self, key: &ObjectKey) -> Result<UploadId, Cause> {
        let request = Request {
            query: "uploads=",
            field: (!self.settings.sign_payload).then_some(CRC32C_PARTS),
            // No body, but a length of 0, without which some servers refuse a POST.
            check: Some(BodyCheck::of(&[], true)),
            ..Self::request("POST", key)?
        };
        let body = self.transport.send(&request).await?.body().await?;
        begun(&body).map_err(|problem| {
            Cause::Other(format!("the answer is no CreateMultipartUpload result: {problem}"))
        })
    }

    pub(super) async fn write_part(
        &self,
        key: &ObjectKey,
        id: &UploadId,
        number: u32,
        body: Bytes,
    ) -> Result<PartTag, Cause> {
        let check = BodyCheck::of(&body, self.settings.sign_payload);
        let query = format!("partNumber={number}&{}", upload_query(id));
        let request = Request { query: &query, ..Self::request("PUT", key)? };
        let answer = self.transport.send(&request.with_body(body, check)).await?;
        let etag = answer.field("etag").map(str::to_owned).ok_or_else(|| {
            Cause::Other("the answer has no ETag, without which no object can be made".to_owned())
        })?;
        answer.body().await?;
        let crc32c = match check {
            BodyCheck::Crc32c(checksum) => Some(checksum),
            BodyCheck::Sha256(_) => None,
        };
        Ok(PartTag { etag, crc32c })
    }

    pub(super) async fn complete(
        &self,
        key: &ObjectKey,
        id: &UploadId,
        parts: &[UploadedPart],
    ) -> Result<(), Cause> {
        let body = list_of(parts)
            .map_err(|error| Cause::Other(format!("the parts cannot be listed: {error}")))?;
        // A checksum in the header would have to be the object's, not that of the list.
        let check = BodyCheck::of(body.as_bytes(), true);
        let query = upload_query(id);
        let request = Request { query: &query, ..Self::request("POST", key)? };
        let answer = self.transport.send(&request.with_body(body.into(), check)).await?;
        completed(&answer.body().await?)
    }

    pub(super) async fn abort(&self, key: &ObjectKey, id: &UploadId) -> Result<(), Cause> {
        send_abort(&self.transport, key, id).await
    }

    /// Sends an abort for which nobody waits, if there is a runtime to send it.
    pub(super) fn abort_later(&self, key: &ObjectKey, id: &UploadId) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (transport, limit) = (self.transport.clone(), self.settings.list_timeout);
        let (key, id) = (key.clone(), id.clone());
        runtime.spawn(async move {
            // What became of it, nobody is there to hear.
            let _ = tokio::time::timeout(limit, send_abort(&transport, &key, &id)).await;
        });
    }
}

async fn send_abort(transport: &Transport, key: &ObjectKey, id: &UploadId) -> Result<(), Cause> {
    let query = upload_query(id);
    let request = Request { query: &query, ..S3Store::request("DELETE", key)? };
    match transport.send(&request).await {
        Ok(answer) => answer.body().await.map(drop),
        Err(Cause::NotFound { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

fn upload_query(id: &UploadId) -> String {
    format!("uploadId={}", utf8_percent_encode(id.as_str(), ESCAPED))
}

/// An enum, as that of a listing, so that no other document passes for it.
#[derive(Debug, Deserialize)]
enum Begun {
    InitiateMultipartUploadResult(Initiated),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Initiated {
    upload_id: String,
}

fn begun(body: &[u8]) -> Result<UploadId, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let answer = quick_xml::de::from_str(text).map_err(|error| error.to_string())?;
    let Begun::InitiateMultipartUploadResult(Initiated { upload_id }) = answer;
    if upload_id.is_empty() {
        return Err("its upload has no id".to_owned());
    }
    Ok(UploadId::new(upload_id))
}

#[derive(Debug, Serialize)]
#[serde(rename = "CompleteMultipartUpload")]
struct PartList {
    #[serde(rename = "@xmlns")]
    namespace: &'static str,
    #[serde(rename = "Part")]
    parts: Vec<ListedPart>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ListedPart {
    part_number: u32,
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "ChecksumCRC32C", skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
}

/// The document that says what an object is made of.
fn list_of(parts: &[UploadedPart]) -> Result<String, SeError> {
    let listed = |part: &UploadedPart| ListedPart {
        part_number: part.number,
        etag: part.tag.etag.clone(),
        crc32c: part.tag.crc32c.map(|checksum| BASE64_STANDARD.encode(checksum.to_be_bytes())),
    };
    quick_xml::se::to_string(&PartList {
        namespace: "http://s3.amazonaws.com/doc/2006-03-01/",
        parts: parts.iter().map(listed).collect(),
    })
}

#[derive(Debug, Deserialize)]
enum Completed {
    CompleteMultipartUploadResult {},
    Error(S3Error),
}

/// What a 200 says. A store that is long in making the object sends that head beforehand, and only the
/// body tells how it ended.
fn completed(body: &[u8]) -> Result<(), Cause> {
    let unreadable = |problem: String| {
        Cause::Other(format!("the answer is no CompleteMultipartUpload result: {problem}"))
    };
    let text = std::str::from_utf8(body).map_err(|error| unreadable(error.to_string()))?;
    match quick_xml::de::from_str(text).map_err(|error| unreadable(error.to_string()))? {
        Completed::CompleteMultipartUploadResult {} => Ok(()),
        Completed::Error(error) => Err(error.behind_a_200()),
    }
}
