//! Objects as plain files: a data set that lies in a folder is served as it lies.
//!
//! The root holds a folder per bucket, and below it the path of a file is its key. Nothing else is
//! needed to serve a file, and a file that another program wrote is an object like any other. A
//! folder whose name no bucket can have is not seen, nor are files whose names are not UTF-8.
//!
//! What arrives goes to a hidden folder of its bucket first, [`UPLOADS`], and is renamed to its
//! place when it is complete: at no moment can half an object be seen, and a file that is being read
//! stays the version it was. What a client said about an object is kept beside its content, in an
//! extended attribute of the file, where the file system has those.
//!
//! All file I/O runs on tokio's threads for blocking work, a piece at a time.

mod attributes;
mod body;
mod file;
mod key;
mod receive;
mod temporary;
mod walk;

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use super::{
    Attributes, ListPage, ListQuery, ObjectInfo, Store, StoreError, StoreResult, WriteCondition,
};
pub(crate) use body::FileContent;
pub(crate) use receive::FileReceiver;
pub(crate) use temporary::TemporaryFile;
use walk::Folders;

/// The folder of a bucket in which content waits to become an object.
const UPLOADS: &str = ".feedrate-uploads.tmp";

/// How often a rename is tried while others remove the empty folder that it goes to.
const RENAME_ATTEMPTS: usize = 20;

/// The buckets below one folder.
#[derive(Debug)]
pub(crate) struct DirectoryStore(Arc<Shared>);

/// A write's hold on the store: alone, or beside others.
struct Commit<'a> {
    _alone: Option<RwLockWriteGuard<'a, ()>>,
    _shared: Option<RwLockReadGuard<'a, ()>>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    /// Conditional writes hold it alone: nothing may change between their check and their rename.
    commits: RwLock<()>,
    folders: Folders,
    /// The latest modification time that was given to a file, in ns since 1970.
    clock: AtomicU64,
    /// Locked as long as this server runs.
    _lock: File,
}

impl DirectoryStore {
    /// Serves the folder `root`, which must exist, and removes what a server that was killed left in
    /// the hidden folders. Several servers may serve one folder; the first one cleans up.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        // Reads the folder once, so that what cannot be served is told at the start.
        let buckets = buckets_of(&root)?;
        let lock = File::open(&root)?;
        if lock.try_lock().is_ok() {
            for (name, _) in &buckets {
                temporary::remove_stale(&root.join(name));
            }
        }
        // A file system without locks serves as well.
        let _ = lock.lock_shared();
        Ok(Self(Arc::new(Shared {
            root,
            commits: RwLock::default(),
            folders: Folders::default(),
            clock: AtomicU64::new(0),
            _lock: lock,
        })))
    }

    /// Runs `work` on a thread that may block.
    async fn blocking<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Shared) -> StoreResult<T> + Send + 'static,
    {
        let shared = Arc::clone(&self.0);
        blocking(move || work(&shared)).await
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T, W>(work: W) -> StoreResult<T>
where
    T: Send + 'static,
    W: FnOnce() -> StoreResult<T> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Broken(error.to_string())))
}

impl Store for DirectoryStore {
    type Blob = TemporaryFile;
    type Receiver = FileReceiver;
    type Content = FileContent;

    async fn create_bucket(&self, name: &str) -> StoreResult<()> {
        let path = self.0.root.join(name);
        blocking(move || match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StoreError::BucketExists)
            }
            other => other.map_err(|error| StoreError::io(&path, error)),
        })
        .await
    }

    async fn delete_bucket(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.blocking(move |shared| shared.delete_bucket(&name)).await
    }

    async fn check_bucket(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.blocking(move |shared| shared.bucket(&name).map(drop)).await
    }

    async fn buckets(&self) -> StoreResult<Vec<(String, SystemTime)>> {
        self.blocking(|shared| {
            buckets_of(&shared.root).map_err(|error| StoreError::io(&shared.root, error))
        })
        .await
    }

    async fn open(&self, bucket: &str, key: &str) -> StoreResult<(Arc<ObjectInfo>, FileContent)> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| shared.open(&bucket, &key)).await
    }

    async fn receive(&self, bucket: &str, _size: u64) -> StoreResult<FileReceiver> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| shared.temporary(&bucket)).await.map(FileReceiver::new)
    }

    async fn copy(
        &self,
        content: &FileContent,
        range: Range<u64>,
        bucket: &str,
    ) -> StoreResult<TemporaryFile> {
        let (content, bucket) = (content.clone(), bucket.to_owned());
        self.blocking(move |shared| {
            let mut copy = shared.temporary(&bucket)?;
            copy.append(content.file(), range)?;
            Ok(copy)
        })
        .await
    }

    async fn join(&self, parts: &[&TemporaryFile], bucket: &str) -> StoreResult<TemporaryFile> {
        let bucket = bucket.to_owned();
        let parts: Vec<_> = parts.iter().map(|part| (part.share(), part.len())).collect();
        self.blocking(move |shared| {
            let mut whole = shared.temporary(&bucket)?;
            for (file, len) in parts {
                whole.append(&file, 0..len)?;
            }
            Ok(whole)
        })
        .await
    }

    async fn put(
        &self,
        bucket: &str,
        key: &str,
        blob: TemporaryFile,
        attributes: Attributes,
        condition: WriteCondition,
    ) -> StoreResult<Arc<ObjectInfo>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| shared.put(&bucket, &key, blob, attributes, &condition)).await
    }

    async fn delete(&self, bucket: &str, key: &str, condition: WriteCondition) -> StoreResult<()> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.blocking(move |shared| shared.delete(&bucket, &key, &condition)).await
    }

    async fn list(&self, bucket: &str, query: ListQuery) -> StoreResult<ListPage> {
        let bucket = bucket.to_owned();
        self.blocking(move |shared| {
            let folder = shared.bucket(&bucket)?;
            query.page(|start| walk::walk(&shared.folders, &folder, &query.prefix, start))
        })
        .await
    }
}

impl Drop for Shared {
    /// Leaves a data set as it was found: without the hidden folders, if nothing is in them.
    fn drop(&mut self) {
        for (name, _) in buckets_of(&self.root).unwrap_or_default() {
            let _ = fs::remove_dir(self.root.join(name).join(UPLOADS));
        }
    }
}

impl Shared {
    /// Lets a write of `path` go on under its condition, and keeps what was checked true until what
    /// is returned is dropped. Writes without a condition do not exclude each other.
    fn begin_commit(&self, path: &Path, condition: &WriteCondition) -> StoreResult<Commit<'_>> {
        if !condition.is_any() {
            let shared = self.commits.read().unwrap_or_else(PoisonError::into_inner);
            return Ok(Commit { _alone: None, _shared: Some(shared) });
        }
        let alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
        let current = file::open(path)?;
        condition.check(current.as_ref().map(|(_, info)| info))?;
        Ok(Commit { _alone: Some(alone), _shared: None })
    }

    /// The folder of a bucket.
    fn bucket(&self, name: &str) -> StoreResult<PathBuf> {
        let path = self.root.join(name);
        if s3s::path::check_bucket_name(name) && path.is_dir() {
            Ok(path)
        } else {
            Err(StoreError::NoSuchBucket)
        }
    }

    fn delete_bucket(&self, name: &str) -> StoreResult<()> {
        let path = self.bucket(name)?;
        let _alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
        // The hidden folder goes when no upload is under way; folders without any file are no objects.
        let _ = fs::remove_dir(path.join(UPLOADS));
        match fs::remove_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Err(StoreError::BucketNotEmpty)
            }
            other => other.map_err(|error| StoreError::io(&path, error)),
        }
    }

    fn open(&self, bucket: &str, key: &str) -> StoreResult<(Arc<ObjectInfo>, FileContent)> {
        // A key that no file can have is the key of no object.
        let path = key::path(&self.bucket(bucket)?, key).map_err(|_| StoreError::NoSuchKey)?;
        let (file, info) = file::open(&path)?.ok_or(StoreError::NoSuchKey)?;
        Ok((Arc::new(info), FileContent::new(file, &path)))
    }

    fn temporary(&self, bucket: &str) -> StoreResult<TemporaryFile> {
        TemporaryFile::new(&self.bucket(bucket)?)
    }

    fn put(
        &self,
        bucket: &str,
        key: &str,
        blob: TemporaryFile,
        attributes: Attributes,
        condition: &WriteCondition,
    ) -> StoreResult<Arc<ObjectInfo>> {
        let folder = self.bucket(bucket)?;
        let path = key::path(&folder, key)?;
        let info = blob.seal(self.now(), attributes)?;
        let _commit = self.begin_commit(&path, condition)?;
        let parent = path.parent().unwrap_or(&folder);
        for attempt in 1.. {
            let renamed = fs::create_dir_all(parent).and_then(|()| blob.rename_to(&path));
            match renamed {
                Ok(()) => break,
                // A deletion has just removed the folder, which was empty.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempt < RENAME_ATTEMPTS => {}
                // An empty folder is in nobody's way.
                Err(error)
                    if error.kind() == io::ErrorKind::IsADirectory
                        && attempt < RENAME_ATTEMPTS
                        && fs::remove_dir(&path).is_ok() => {}
                Err(error) => return Err(key::conflict(&path, key, error)),
            }
        }
        blob.keep();
        Ok(Arc::new(info))
    }

    fn delete(&self, bucket: &str, key: &str, condition: &WriteCondition) -> StoreResult<()> {
        let folder = self.bucket(bucket)?;
        let Ok(path) = key::path(&folder, key) else { return condition.check(None) };
        let _commit = self.begin_commit(&path, condition)?;
        // A folder is no object, and nothing is no object either.
        if path.is_dir() {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if !file::is_missing(&error) => return Err(StoreError::io(&path, error)),
            _ => {}
        }
        // Folders are there only as long as objects need them, as in S3.
        let emptied = path.ancestors().skip(1).take_while(|parent| *parent != folder);
        for parent in emptied {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Now, but later than all that was given out before: no two versions of an object share it.
    fn now(&self) -> SystemTime {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = now.as_nanos() as u64;
        let latest = self.clock.fetch_update(Relaxed, Relaxed, |last| Some(now.max(last + 1)));
        let latest = latest.map_or(now, |last| now.max(last + 1));
        SystemTime::UNIX_EPOCH + Duration::from_nanos(latest)
    }
}

/// The folders below `root` that are buckets, sorted by name, and when they were made.
fn buckets_of(root: &Path) -> io::Result<Vec<(String, SystemTime)>> {
    let mut buckets = Vec::new();
    for entry in fs::read_dir(root)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let Ok(metadata) = fs::metadata(root.join(&name)) else { continue };
        if metadata.is_dir() && s3s::path::check_bucket_name(&name) {
            let made = metadata.created().or_else(|_| metadata.modified());
            buckets.push((name, made.unwrap_or(SystemTime::UNIX_EPOCH)));
        }
    }
    buckets.sort_unstable();
    Ok(buckets)
}

#[cfg(test)]
mod tests;
