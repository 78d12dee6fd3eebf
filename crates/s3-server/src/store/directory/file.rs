//! A file as an object: what is known of it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use super::attributes;
use crate::store::{ObjectInfo, StoreError, StoreResult};

/// Opens the object that is the file at `path`; `None` when there is none, or something else is
/// there.
pub(super) fn open(path: &Path) -> StoreResult<Option<(File, ObjectInfo)>> {
    // Without the flag, opening a named pipe would wait for somebody to write into it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = match opened {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other.map_err(|error| StoreError::io(path, error))?,
    };
    let metadata = file.metadata().map_err(|error| StoreError::io(path, error))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut info = describe(&metadata);
    info.attributes = attributes::read(&file, &info.etag);
    Ok(Some((file, info)))
}

/// What `metadata` tells of an object: all but its attributes.
pub(super) fn describe(metadata: &Metadata) -> ObjectInfo {
    ObjectInfo {
        size: metadata.len(),
        etag: etag(metadata),
        modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        attributes: crate::store::Attributes::default(),
    }
}

/// A tag that stays the same as long as the file does, over restarts too, and is another one when the
/// file is written or replaced. Its form is that of an object written in parts, so that nobody takes
/// it for an MD5.
fn etag(metadata: &Metadata) -> String {
    let nanos = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let place = metadata.ino().rotate_left(40) ^ metadata.len();
    format!("{:016x}{place:016x}-1", nanos as u64)
}

/// Whether the error says that there is no such file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}
