//! Multipart uploads that are neither completed nor aborted.
//!
//! A part is a blob of the store, with what its upload needs to know of it. Uploads live as long as
//! the server: they are not there any more after a restart, and neither are their parts.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use s3s::{S3Result, s3_error};

use crate::checksums::{Algorithm, Checksum, Coverage};
use crate::store::Attributes;

/// The numbers that a part can have.
pub(crate) const PART_NUMBERS: std::ops::RangeInclusive<i32> = 1..=10_000;

/// Which upload: uploads are listed in the order of their keys, and for one key as they began.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UploadName {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) id: String,
}

/// The uploads of a server, with parts that are blobs of type `B`.
#[derive(Debug)]
pub(crate) struct Uploads<B> {
    under_way: Mutex<BTreeMap<UploadName, Arc<Upload<B>>>>,
    /// Makes the tags of parts and the ids of uploads unique.
    number: AtomicU64,
}

impl<B> Default for Uploads<B> {
    fn default() -> Self {
        Self { under_way: Mutex::default(), number: AtomicU64::new(0) }
    }
}

/// Some uploads, sorted, and whether there are more behind them.
pub(crate) struct UploadPage<B> {
    pub(crate) uploads: Vec<(UploadName, Arc<Upload<B>>)>,
    pub(crate) more: bool,
}

/// One upload.
#[derive(Debug)]
pub(crate) struct Upload<B> {
    pub(crate) attributes: Attributes,
    /// The checksum that its parts and its object have.
    pub(crate) checksum: Option<(Algorithm, Coverage)>,
    pub(crate) initiated: SystemTime,
    parts: Mutex<BTreeMap<i32, Arc<Part<B>>>>,
}

/// One part; a second one of the same number takes its place.
#[derive(Debug)]
pub(crate) struct Part<B> {
    pub(crate) blob: B,
    /// Bytes.
    pub(crate) size: u64,
    /// Unquoted.
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    pub(crate) checksum: Option<Checksum>,
}

impl<B> Uploads<B> {
    /// Begins an upload; the answer is its id.
    pub(crate) fn begin(
        &self,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        checksum: Option<(Algorithm, Coverage)>,
    ) -> String {
        let initiated = SystemTime::now();
        let nanos = initiated.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        // Time first: an id of before a restart is not given again, and ids sort by age.
        let id = format!("{:016x}{:08x}", nanos as u64, self.number.fetch_add(1, Relaxed) as u32);
        let name = UploadName { bucket: bucket.to_owned(), key: key.to_owned(), id: id.clone() };
        let upload = Upload { attributes, checksum, initiated, parts: Mutex::default() };
        self.lock().insert(name, Arc::new(upload));
        id
    }

    /// The upload of this name.
    pub(crate) fn get(&self, name: &UploadName) -> S3Result<Arc<Upload<B>>> {
        self.lock().get(name).cloned().ok_or_else(no_such_upload)
    }

    /// Ends an upload. Its parts are given back with the last request that uses them.
    pub(crate) fn end(&self, name: &UploadName) -> S3Result<()> {
        let ended = self.lock().remove(name);
        ended.map(drop).ok_or_else(no_such_upload)
    }

    /// At most `max` uploads of a bucket behind the one that `after` names (key, id).
    pub(crate) fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: (&str, &str),
        max: usize,
    ) -> UploadPage<B> {
        let start = UploadName {
            bucket: bucket.to_owned(),
            key: after.0.to_owned(),
            id: after.1.to_owned(),
        };
        let uploads = self.lock();
        let mut wanted = uploads
            .range((Bound::Excluded(start), Bound::Unbounded))
            .take_while(|(name, _)| name.bucket == bucket)
            .filter(|(name, _)| name.key.starts_with(prefix));
        let page = wanted.by_ref().take(max);
        let page = page.map(|(name, upload)| (name.clone(), Arc::clone(upload))).collect();
        UploadPage { uploads: page, more: max > 0 && wanted.next().is_some() }
    }

    /// A tag for a part of `size` bytes that no other part has.
    pub(crate) fn part_etag(&self, size: u64) -> String {
        format!("{:016x}{size:016x}-0", self.number.fetch_add(1, Relaxed))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<UploadName, Arc<Upload<B>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> Upload<B> {
    /// Adds a part, in the place of an earlier one of this number.
    pub(crate) fn add(&self, number: i32, part: Part<B>) {
        let replaced = self.lock().insert(number, Arc::new(part));
        drop(replaced);
    }

    /// Its parts by number, as they are now.
    pub(crate) fn parts(&self) -> BTreeMap<i32, Arc<Part<B>>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Arc<Part<B>>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_upload() -> s3s::S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, the upload may have been \
         aborted or completed, or the server was restarted since"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_listed_by_key_and_age_in_pages() {
        let uploads = Uploads::<()>::default();
        let begin =
            |bucket: &str, key: &str| uploads.begin(bucket, key, Attributes::default(), None);
        let second = begin("one", "b");
        let first = begin("one", "a");
        let third = begin("one", "b");
        begin("two", "a");
        let mut after = (String::new(), String::new());
        let mut seen = Vec::new();
        loop {
            let page = uploads.list("one", "", (&after.0, &after.1), 1);
            let (name, _) = &page.uploads[0];
            after = (name.key.clone(), name.id.clone());
            seen.push(name.id.clone());
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, [first, second, third]);
        assert_eq!(uploads.list("one", "b", ("", ""), 10).uploads.len(), 2);
        assert!(uploads.list("one", "", ("", ""), 0).uploads.is_empty());
    }

    #[test]
    fn an_ended_upload_is_gone() {
        let uploads = Uploads::<()>::default();
        let id = uploads.begin("one", "a", Attributes::default(), None);
        let name = UploadName { bucket: "one".into(), key: "a".into(), id };
        assert!(uploads.get(&UploadName { key: "b".into(), ..name.clone() }).is_err());
        assert!(uploads.get(&name).is_ok());
        uploads.end(&name).unwrap();
        assert!(uploads.get(&name).is_err() && uploads.end(&name).is_err());
    }
}
