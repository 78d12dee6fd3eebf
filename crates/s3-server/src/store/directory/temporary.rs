//! Files that are no objects yet.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use bytes::Bytes;

use super::{UPLOADS, attributes, file};
use crate::store::{Attributes, ObjectInfo, StoreError, StoreResult};

/// A file in the hidden folder of a bucket. It is removed when this is dropped before it was renamed
/// to the place of an object.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
    renamed: bool,
}

impl TemporaryFile {
    /// An empty file in the hidden folder of the bucket whose folder is `bucket`.
    pub(super) fn new(bucket: &Path) -> StoreResult<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = bucket.join(UPLOADS);
        let failed = |error| StoreError::io(&folder, error);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = folder.join(format!("{}-{:x}-{number}", std::process::id(), nanos.as_nanos()));
        let create = || OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&folder).map_err(failed)?;
                create().map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        Ok(Self { file: Arc::new(file), path, len: 0, renamed: false })
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The open file, which outlives its name.
    pub(super) fn share(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Appends `pieces`.
    pub(super) fn write(&mut self, pieces: &[Bytes]) -> StoreResult<()> {
        for piece in pieces {
            let written = self.file.write_all_at(piece, self.len);
            written.map_err(|error| StoreError::io(&self.path, error))?;
            self.len += piece.len() as u64;
        }
        Ok(())
    }

    /// Appends the bytes of `range` of `source`, inside the kernel, and where the file system can do
    /// that, without copying them.
    pub(super) fn append(&mut self, source: &File, range: Range<u64>) -> StoreResult<()> {
        let failed = |error: io::Error| StoreError::io(&self.path, error);
        let mut target = &*self.file;
        target.seek(io::SeekFrom::Start(self.len)).map_err(failed)?;
        let mut from = range.start;
        while from < range.end {
            let left = usize::try_from(range.end - from).unwrap_or(usize::MAX);
            let copied = rustix::fs::copy_file_range(source, Some(&mut from), target, None, left);
            match copied {
                Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(
                    rustix::io::Errno::XDEV
                    | rustix::io::Errno::INVAL
                    | rustix::io::Errno::NOSYS
                    | rustix::io::Errno::OPNOTSUPP,
                ) => {
                    copy_by_hand(source, &mut from, range.end, target).map_err(failed)?;
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        self.len += range.end.saturating_sub(range.start);
        Ok(())
    }

    /// Gives the file its time and its attributes: from now on it is the object that it will be.
    pub(super) fn seal(
        &self,
        modified: SystemTime,
        attributes: Attributes,
    ) -> StoreResult<ObjectInfo> {
        let failed = |error| StoreError::io(&self.path, error);
        self.file.set_modified(modified).map_err(failed)?;
        let mut info = file::describe(&self.file.metadata().map_err(failed)?);
        attributes::write(&self.file, &info.etag, &attributes).map_err(failed)?;
        info.attributes = attributes;
        Ok(info)
    }

    /// Renames it to `path`, in the place of what is there.
    pub(super) fn rename_to(&self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)
    }

    /// Says that the file was renamed and has to stay.
    pub(super) fn keep(mut self) {
        self.renamed = true;
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing more can be done; the next start removes what is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Copies up to `end` where the kernel cannot, for example between two file systems.
fn copy_by_hand(source: &File, from: &mut u64, end: u64, mut target: &File) -> io::Result<()> {
    use std::io::Write;
    let mut buffer = vec![0; 256 << 10];
    while *from < end {
        let most = buffer.len().min(usize::try_from(end - *from).unwrap_or(usize::MAX));
        let read = source.read_at(&mut buffer[..most], *from)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.write_all(&buffer[..read])?;
        *from += read as u64;
    }
    Ok(())
}

/// Removes what a server that was killed left in the bucket's hidden folder. What cannot be removed
/// stays: nothing but room is lost.
pub(super) fn remove_stale(bucket: &Path) {
    let folder = bucket.join(UPLOADS);
    let Ok(entries) = fs::read_dir(&folder) else { return };
    for entry in entries.flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(&folder);
}
