//! A folder of a file system as a store.
//!
//! Files are read with `pread` by a small pool of threads ([`pool`]), straight into the caller's
//! buffer, which travels to the thread and back: on files in the page cache this costs a quarter of
//! the CPU that `tokio::fs` takes. A write goes to a hidden temporary file in the target's folder and
//! is renamed into place; it is not synced to the disk, which is the kernel's business as it is for
//! the frameworks whose I/O is replayed. An upload in parts is such a temporary file, whose name is the
//! upload's id: parts are written at their offsets, and completing it is the rename. Listing walks the
//! tree ([`walk`]).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::{
    Cause, Fetched, Listed, ObjectKey, Operation, PartPlace, PartTag, Store, StoreError, UploadId,
    UploadedPart,
};
use pool::Pool;

mod pool;
mod walk;

/// Files below a folder.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    pool: Pool,
}

impl LocalStore {
    /// The most threads that read and write at once unless told otherwise. Files in the page cache
    /// need no more threads than CPUs; disks and network file systems gain from more in flight.
    /// Threads start only when all that run are busy.
    pub const DEFAULT_THREADS: usize = 32;

    /// A store of the files below `root`, which need not exist yet: writing creates it.
    ///
    /// # Errors
    ///
    /// No thread could be started.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        Self::with_threads(root, Self::DEFAULT_THREADS)
    }

    /// As [`new`](Self::new), with at most `threads` threads (at least one).
    ///
    /// # Errors
    ///
    /// No thread could be started.
    pub fn with_threads(root: impl Into<PathBuf>, threads: usize) -> io::Result<Self> {
        Ok(Self { root: root.into(), pool: Pool::new(threads)? })
    }

    /// The file of `key` (or the folder of a prefix), which is below the root.
    fn path(&self, key: &str) -> Result<PathBuf, Cause> {
        let mut path = self.root.clone();
        for part in Path::new(key).components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::CurDir | Component::RootDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    let reason = format!("`{key}` leads out of the folder; write it without `..`");
                    return Err(Cause::Other(reason));
                }
            }
        }
        Ok(path)
    }

    /// The error of an operation on `key`, which is named by its full path.
    fn failed(&self, operation: Operation, key: &str, began: Instant, cause: Cause) -> StoreError {
        let target = self.root.join(key.trim_start_matches('/')).display().to_string();
        StoreError::of_attempt(operation, target, self.location(), began, cause)
    }

    async fn read(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        into: &mut Vec<u8>,
        asked: Instant,
    ) -> Result<Fetched, Cause> {
        let path = self.path(key.as_str())?;
        self.lending(into, move |buffer| read(&path, range, Some(buffer), asked)).await
    }

    async fn read_tail(
        &self,
        key: &ObjectKey,
        most: u64,
        into: &mut Vec<u8>,
        asked: Instant,
    ) -> Result<(Fetched, u64), Cause> {
        let path = self.path(key.as_str())?;
        self.lending(into, move |buffer| read_tail(&path, most, buffer, asked)).await
    }

    /// Has `read` append to a buffer on one of the pool's threads. If it fails, the buffer stays as it
    /// was.
    async fn lending<T: Send + 'static>(
        &self,
        into: &mut Vec<u8>,
        read: impl FnOnce(&mut Vec<u8>) -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, Cause> {
        let mut buffer = std::mem::take(into);
        let reading = self.pool.run(move || {
            let before = buffer.len();
            let outcome = read(&mut buffer);
            if outcome.is_err() {
                buffer.truncate(before);
            }
            (buffer, outcome)
        });
        let (buffer, outcome) = reading.await?;
        *into = buffer;
        outcome
    }

    async fn read_discarding(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        asked: Instant,
    ) -> Result<Fetched, Cause> {
        let path = self.path(key.as_str())?;
        self.pool.run(move || read(&path, range, None, asked)).await?
    }

    async fn write(&self, key: &ObjectKey, body: Bytes) -> Result<(), Cause> {
        let path = self.path(key.as_str())?;
        Ok(self.pool.run(move || write(&path, &body)).await??)
    }

    async fn begin(&self, key: &ObjectKey) -> Result<UploadId, Cause> {
        let path = self.path(key.as_str())?;
        let (temporary, _) = self.pool.run(move || create_beside(&path)).await??;
        let name = temporary.file_name().unwrap_or_default().to_string_lossy();
        Ok(UploadId::new(name))
    }

    /// The file of `key` and the temporary one that will become it.
    fn upload_paths(&self, key: &ObjectKey, id: &UploadId) -> Result<(PathBuf, PathBuf), Cause> {
        let path = self.path(key.as_str())?;
        let temporary = path.with_file_name(id.as_str());
        Ok((path, temporary))
    }

    async fn write_part(
        &self,
        key: &ObjectKey,
        id: &UploadId,
        offset: u64,
        body: Bytes,
    ) -> Result<PartTag, Cause> {
        let (_, temporary) = self.upload_paths(key, id)?;
        let writing = self.pool.run(move || {
            let file = File::options().write(true).open(&temporary).map_err(not_found)?;
            Ok::<_, Cause>(file.write_all_at(&body, offset)?)
        });
        writing.await??;
        Ok(PartTag::default())
    }

    async fn complete(
        &self,
        key: &ObjectKey,
        id: &UploadId,
        parts: &[UploadedPart],
    ) -> Result<(), Cause> {
        let (path, temporary) = self.upload_paths(key, id)?;
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.pool.run(move || put_in_place(&temporary, bytes, &path)).await?
    }

    async fn remove_upload(&self, key: &ObjectKey, id: &UploadId) -> Result<(), Cause> {
        let (_, temporary) = self.upload_paths(key, id)?;
        Ok(self.pool.run(move || remove(&temporary)).await??)
    }

    async fn look_at(&self, key: &ObjectKey) -> Result<u64, Cause> {
        let path = self.path(key.as_str())?;
        self.pool.run(move || size(&path)).await?
    }

    async fn remove(&self, key: &ObjectKey) -> Result<(), Cause> {
        let path = self.path(key.as_str())?;
        Ok(self.pool.run(move || remove(&path)).await??)
    }

    async fn walk(
        &self,
        prefix: &str,
        page: &mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> Result<(), Cause> {
        self.path(prefix)?;
        let (root, prefix) = (self.root.clone(), prefix.to_owned());
        // Two pages under way: the walk goes on while the caller takes one.
        let (pages, mut arriving) = mpsc::channel(2);
        let walking = self.pool.run(move || {
            walk::walk(&root, &prefix, &mut |objects| pages.blocking_send(objects).is_ok())
        });
        let receiving = async {
            while let Some(objects) = arriving.recv().await {
                page(objects);
            }
        };
        let (outcome, ()) = futures::join!(walking, receiving);
        Ok(outcome??)
    }
}

impl Store for LocalStore {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.read(key, range, into, began).await;
            outcome.map_err(|cause| self.failed(Operation::Get, key.as_str(), began, cause))
        })
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.read_discarding(key, range, began).await;
            outcome.map_err(|cause| self.failed(Operation::Get, key.as_str(), began, cause))
        })
    }

    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.read_tail(key, most, into, began).await;
            outcome.map_err(|cause| self.failed(Operation::Get, key.as_str(), began, cause))
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.write(key, body).await;
            outcome.map_err(|cause| self.failed(Operation::Put, key.as_str(), began, cause))
        })
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.look_at(key).await;
            outcome.map_err(|cause| self.failed(Operation::Head, key.as_str(), began, cause))
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.remove(key).await;
            outcome.map_err(|cause| self.failed(Operation::Delete, key.as_str(), began, cause))
        })
    }

    fn tidy<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(path) = self.path(folder) else { return };
            let root = self.root.clone();
            // That a folder stays is no failure.
            let _ = self.pool.run(move || tidy(&path, &root)).await;
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.walk(prefix, page).await;
            outcome.map_err(|cause| self.failed(Operation::List, prefix, began, cause))
        })
    }

    fn begin_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.begin(key).await;
            outcome.map_err(|cause| self.failed(Operation::BeginUpload, key.as_str(), began, cause))
        })
    }

    fn put_part<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        place: PartPlace,
        body: Bytes,
    ) -> BoxFuture<'a, Result<PartTag, StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.write_part(key, id, place.offset, body).await;
            let target = || place.target(key, id);
            outcome.map_err(|cause| self.failed(Operation::PutPart, &target(), began, cause))
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        parts: &'a [UploadedPart],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.complete(key, id, parts).await;
            let target = || id.target(key);
            outcome.map_err(|cause| self.failed(Operation::CompleteUpload, &target(), began, cause))
        })
    }

    fn abort_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.remove_upload(key, id).await;
            let target = || id.target(key);
            outcome.map_err(|cause| self.failed(Operation::AbortUpload, &target(), began, cause))
        })
    }

    fn abandon_upload(&self, key: &ObjectKey, id: &UploadId) {
        if let Ok((_, temporary)) = self.upload_paths(key, id) {
            // Done even so, and failures are nobody's.
            drop(self.pool.run(move || remove(&temporary)));
        }
    }

    fn location(&self) -> String {
        self.root.display().to_string()
    }
}

/// Appends the file, or the `range` of it, to `buffer`, or reads it and lets it go; times count from
/// `asked`.
fn read(
    path: &Path,
    range: Option<Range<u64>>,
    buffer: Option<&mut Vec<u8>>,
    asked: Instant,
) -> Result<Fetched, Cause> {
    let file = File::open(path).map_err(not_found)?;
    // The size by the open handle: no second look-up of the path, no race with a rename.
    let range = match range {
        Some(range) if range.is_empty() => {
            return Err(Cause::Other(format!("the range {range:?} is empty")));
        }
        Some(range) => range,
        None => 0..file.metadata()?.len(),
    };
    read_range(&file, range, buffer, asked)
}

/// As [`read`], but the last `most` bytes, with the file's size.
fn read_tail(
    path: &Path,
    most: u64,
    buffer: &mut Vec<u8>,
    asked: Instant,
) -> Result<(Fetched, u64), Cause> {
    let file = File::open(path).map_err(not_found)?;
    let size = file.metadata()?.len();
    let fetched = read_range(&file, size.saturating_sub(most)..size, Some(buffer), asked)?;
    Ok((fetched, size))
}

/// As [`read`], of an open file.
fn read_range(
    file: &File,
    range: Range<u64>,
    mut buffer: Option<&mut Vec<u8>>,
    asked: Instant,
) -> Result<Fetched, Cause> {
    let expected = range.end - range.start;
    if let Some(buffer) = &mut buffer {
        buffer
            .try_reserve(expected as usize)
            .map_err(|error| Cause::Other(format!("no memory for {expected} bytes: {error}")))?;
    }

    let mut received = 0;
    let mut first_byte = None;
    while received < expected {
        let (at, left) = (range.start + received, (expected - received) as usize);
        let read = match &mut buffer {
            Some(buffer) => append(file, at, left, buffer)?,
            None => pass_over(file, at, left)?,
        };
        first_byte.get_or_insert_with(|| asked.elapsed());
        if read == 0 {
            return Err(Cause::Truncated { expected: Some(expected), received });
        }
        received += read as u64;
    }
    let last_byte = asked.elapsed();
    Ok(Fetched { bytes: received, first_byte: first_byte.unwrap_or(last_byte), last_byte })
}

/// One `pread` of up to `length` bytes at `offset` to the end of `buffer`, whose spare capacity holds
/// as much and is not cleared first.
fn append(file: &File, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let read = read_at(file, offset, &mut buffer.spare_capacity_mut()[..length])?;
    // SAFETY: `pread` has initialised the first `read` bytes behind the buffer's end, which lie
    // within its capacity.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(read)
}

/// One `pread` of up to `length` bytes at `offset` whose bytes nobody wants: they land in a buffer of
/// the thread, again and again, so that they need no memory beyond its caches.
fn pass_over(file: &File, offset: u64, length: usize) -> io::Result<usize> {
    const AT_ONCE: usize = 128 << 10;
    thread_local! {
        static UNWANTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    UNWANTED.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.reserve(AT_ONCE);
        read_at(file, offset, &mut buffer.spare_capacity_mut()[..length.min(AT_ONCE)])
    })
}

/// One `pread` at `offset` to the beginning of `into`: how many bytes it brought.
fn read_at(file: &File, offset: u64, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, &mut *into, offset) {
            Ok((filled, _)) => return Ok(filled.len()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes `body` beside `path` under a hidden name and renames it into place.
fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = create_beside(path)?;
    let outcome = file.write_all(body).and_then(|()| std::fs::rename(&temporary, path));
    if outcome.is_err() {
        // The first error is the one to tell; a leftover is hidden from listings.
        let _ = std::fs::remove_file(&temporary);
    }
    outcome
}

/// Makes a file beside `path` under a hidden name of its own, and folders on the way where they are
/// missing.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let temporary = path.with_file_name(walk::temporary_name());
    let file = match File::create_new(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            File::create_new(&temporary)?
        }
        other => other?,
    };
    Ok((temporary, file))
}

/// Makes the file at `temporary`, to which `bytes` were written, the one at `path`.
fn put_in_place(temporary: &Path, bytes: u64, path: &Path) -> Result<(), Cause> {
    let length = std::fs::metadata(temporary).map_err(not_found)?.len();
    if length < bytes {
        return Err(Cause::Other(format!("only {length} of {bytes} bytes are in the file")));
    }
    if length > bytes {
        // The last part was sent again, and shorter.
        File::options().write(true).open(temporary)?.set_len(bytes)?;
    }
    Ok(std::fs::rename(temporary, path)?)
}

/// What it means that a path cannot be opened.
fn not_found(error: io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::NotFound => Cause::NotFound { code: None },
        _ => Cause::Io(error),
    }
}

/// The size of the file at `path`.
fn size(path: &Path) -> Result<u64, Cause> {
    let metadata = std::fs::metadata(path).map_err(not_found)?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    Ok(metadata.len())
}

/// Removes the file at `path`, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if walk::is_no_folder(&error) => Ok(()),
        other => other,
    }
}

/// Removes `folder` and those above it, up to the first that holds something or is a link to
/// elsewhere, but never `root`.
fn tidy(folder: &Path, root: &Path) {
    for folder in folder.ancestors().take_while(|folder| *folder != root) {
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => break,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
