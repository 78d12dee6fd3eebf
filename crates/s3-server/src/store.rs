//! What the routes need of a place that keeps objects, and the words in which they speak with it.
//!
//! A [`Store`] knows buckets, objects and blobs. A blob is content that has arrived and is no object
//! yet: the body of a PUT before it takes its place, or a part of a multipart upload. Receiving a
//! body ([`Store::receive`]) and putting it in its place ([`Store::put`]) are two steps, so that an
//! object appears whole or not at all: whatever ends a request in between drops the blob, and with it
//! everything that was received.
//!
//! What is opened for reading stays the version that it is, whatever is put or deleted meanwhile.

mod directory;
mod error;
mod listing;
mod memory;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use s3s::Body;
use s3s::dto::{ETagCondition, Metadata};
use serde::{Deserialize, Serialize};

pub(crate) use directory::DirectoryStore;
pub(crate) use error::{StoreError, bad_request};
pub(crate) use listing::{ListItem, ListPage, ListQuery, ListStart};
pub(crate) use memory::MemoryStore;
pub use memory::{MemoryLimit, MemoryLimitError};

use crate::checksums::Checksum;

pub(crate) type StoreResult<T> = Result<T, StoreError>;

/// A place that keeps objects. Where a bucket is named that does not exist, the answer is
/// [`StoreError::NoSuchBucket`].
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    /// Received content that is no object yet. Dropping it gives back its room.
    type Blob: fmt::Debug + Send + Sync + 'static;
    /// Content on its way in.
    type Receiver: Receiver<Blob = Self::Blob>;
    /// The content of one version of an object.
    type Content: Content;

    /// Creates an empty bucket of a valid name.
    fn create_bucket(&self, name: &str) -> impl Future<Output = StoreResult<()>> + Send;

    /// Removes a bucket that holds no object.
    fn delete_bucket(&self, name: &str) -> impl Future<Output = StoreResult<()>> + Send;

    /// Fails when there is no such bucket.
    fn check_bucket(&self, name: &str) -> impl Future<Output = StoreResult<()>> + Send;

    /// All buckets and when they were made, by name.
    fn buckets(&self) -> impl Future<Output = StoreResult<Vec<(String, SystemTime)>>> + Send;

    /// One version of an object, ready to be read.
    fn open(
        &self,
        bucket: &str,
        key: &str,
    ) -> impl Future<Output = StoreResult<(Arc<ObjectInfo>, Self::Content)>> + Send;

    /// Makes room for a body of `size` bytes.
    fn receive(
        &self,
        bucket: &str,
        size: u64,
    ) -> impl Future<Output = StoreResult<Self::Receiver>> + Send;

    /// A blob with the bytes of `range` of an object, to be put into `bucket`.
    fn copy(
        &self,
        content: &Self::Content,
        range: Range<u64>,
        bucket: &str,
    ) -> impl Future<Output = StoreResult<Self::Blob>> + Send;

    /// A blob with the bytes of all parts, one behind the other. The parts stay as they are.
    fn join(
        &self,
        parts: &[&Self::Blob],
        bucket: &str,
    ) -> impl Future<Output = StoreResult<Self::Blob>> + Send;

    /// Makes `blob` the object under `key`, in the place of the one that is there, if `condition`
    /// holds of that one at this moment.
    fn put(
        &self,
        bucket: &str,
        key: &str,
        blob: Self::Blob,
        attributes: Attributes,
        condition: WriteCondition,
    ) -> impl Future<Output = StoreResult<Arc<ObjectInfo>>> + Send;

    /// Removes the object under `key`, if `condition` holds. Nothing happens when there is none.
    fn delete(
        &self,
        bucket: &str,
        key: &str,
        condition: WriteCondition,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// One page of a bucket's keys and common prefixes.
    fn list(
        &self,
        bucket: &str,
        query: ListQuery,
    ) -> impl Future<Output = StoreResult<ListPage>> + Send;
}

/// Takes a body piece by piece. Dropping it leaves nothing behind.
pub(crate) trait Receiver: Send {
    type Blob;

    /// Appends `piece`. Together the pieces must not exceed the size that room was made for.
    fn write(&mut self, piece: Bytes) -> impl Future<Output = StoreResult<()>> + Send;

    /// What was received.
    fn finish(self) -> impl Future<Output = StoreResult<Self::Blob>> + Send;
}

/// Content that can be read.
pub(crate) trait Content: Send + Sync + 'static {
    /// An HTTP body of the bytes of `range`, which must lie within the content.
    fn body(&self, range: Range<u64>) -> Body;
}

/// What is known of one version of an object besides its content.
#[derive(Debug, Clone)]
pub(crate) struct ObjectInfo {
    /// Bytes.
    pub(crate) size: u64,
    /// Unquoted.
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    pub(crate) attributes: Attributes,
}

/// What a client said about an object when it wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attributes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_encoding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_disposition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<String>,
    /// The `x-amz-meta-…` headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Metadata>,
    /// A checksum of the content that was verified when it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<Checksum>,
}

/// What must hold of the object in whose place another one is put, or that is deleted.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteCondition {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
}

impl WriteCondition {
    /// Whether anything is asked.
    pub(crate) fn is_any(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }

    /// Whether it holds of the object that is there now: [`StoreError::NoSuchKey`] when one with a
    /// certain tag is asked for and there is none, else [`StoreError::Precondition`].
    pub(crate) fn check(&self, current: Option<&ObjectInfo>) -> StoreResult<()> {
        if let Some(wanted) = &self.if_match {
            let current = current.ok_or(StoreError::NoSuchKey)?;
            if !etag_fits(wanted, &current.etag) {
                return Err(StoreError::Precondition { header: "If-Match" });
            }
        }
        if let (Some(unwanted), Some(current)) = (&self.if_none_match, current)
            && etag_fits(unwanted, &current.etag)
        {
            return Err(StoreError::Precondition { header: "If-None-Match" });
        }
        Ok(())
    }
}

/// Whether an object's `etag` is the one that `condition` names, or any.
pub(crate) fn etag_fits(condition: &ETagCondition, etag: &str) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(named) => named.value() == etag,
    }
}

#[cfg(test)]
mod contract;
