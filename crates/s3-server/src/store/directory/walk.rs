//! The files of a bucket in the order of their keys.
//!
//! Each folder's entries are sorted with a folder's name ending in `/`, which is the order of the
//! bytes of the full keys. So the walk can begin at any key, by a search in each folder on the way
//! down, and holds only those folders in memory.
//!
//! A page of a listing begins where the last one ended, and would read and sort a large folder again
//! each time. So the latest large folders are kept. One of them is used again only when its
//! modification time is the same, and lay long enough in the past when it was read that a change
//! cannot hide behind the clock's steps: a listing always shows what was written before it.

use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::{file, key};
use crate::store::listing::Keys;
use crate::store::{ObjectInfo, StoreError, StoreResult};

/// The longest key that S3 has. Nothing deeper is looked at, so a link to a folder above itself
/// does not lead on for ever.
const MAX_KEY_BYTES: usize = 1024;

/// From how many entries on a folder is worth keeping, and how many folders are kept.
const LARGE_FOLDER: usize = 1000;
const KEPT_FOLDERS: usize = 8;

/// How old the last change of a folder must be when it is read, for its modification time to tell it
/// from what it will be after the next one.
const SETTLED: Duration = Duration::from_secs(2);

/// The sorted names in a folder; those of folders end in `/`.
type Names = Arc<Vec<String>>;

/// The large folders that were read last.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<VecDeque<(PathBuf, SystemTime, Names)>>);

impl Folders {
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The entries of the folder at `path`; none when there is no such folder.
    fn names(&self, path: &Path) -> StoreResult<Names> {
        let failed = |error| StoreError::io(path, error);
        let changed = match fs::metadata(path).and_then(|metadata| metadata.modified()) {
            Err(error) if file::is_missing(&error) => return Ok(Names::default()),
            other => other.map_err(failed)?,
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(folder, at, _)| folder == path && *at == changed);
        if let Some((_, _, names)) = found {
            return Ok(Arc::clone(names));
        }
        kept.retain(|(folder, ..)| folder != path);
        drop(kept);

        let began = SystemTime::now();
        let names = Arc::new(read(path).map_err(failed)?);
        let settled = began.duration_since(changed).is_ok_and(|age| age >= SETTLED);
        if settled && names.len() >= LARGE_FOLDER {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(KEPT_FOLDERS - 1);
            kept.push_front((path.to_owned(), changed, Arc::clone(&names)));
        }
        Ok(names)
    }
}

fn read(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(error) if file::is_missing(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(name_of(&entry?));
    }
    names.sort_unstable();
    Ok(names)
}

/// The name of an entry, with a `/` behind it when it is a folder or a link to one; `None` for what
/// cannot be part of a key.
fn name_of(entry: &DirEntry) -> Option<String> {
    let mut name = entry.file_name().into_string().ok().filter(|name| !key::is_hidden(name))?;
    let kind = entry.file_type().ok()?;
    if kind.is_dir() || kind.is_symlink() && entry.path().is_dir() {
        name.push('/');
    }
    Some(name)
}

/// The files of the bucket whose folder is `bucket` with keys that begin with `prefix`, from the key
/// `start` on.
pub(super) fn walk<'a>(
    folders: &'a Folders,
    bucket: &'a Path,
    prefix: &'a str,
    start: Bound<&str>,
) -> StoreResult<Walk<'a>> {
    let mut walk = Walk { folders, bucket, prefix, way: Vec::new() };
    walk.enter(String::new(), start)?;
    Ok(walk)
}

pub(super) struct Walk<'a> {
    folders: &'a Folders,
    bucket: &'a Path,
    prefix: &'a str,
    /// The folders on the way down to where the walk is.
    way: Vec<Level>,
}

struct Level {
    /// What the keys in this folder begin with: empty, or ending in `/`.
    key: String,
    names: Names,
    next: usize,
}

impl Walk<'_> {
    /// Goes down into the folder whose keys begin with `key`, and from there on to `start`, which
    /// begins with `key` or is [`Bound::Unbounded`].
    fn enter(&mut self, mut key: String, start: Bound<&str>) -> StoreResult<()> {
        loop {
            let names = self.folders.names(&self.bucket.join(&key))?;
            let (from, is_excluded) = match start {
                Bound::Included(from) => (from, false),
                Bound::Excluded(from) => (from, true),
                Bound::Unbounded => ("", false),
            };
            let rest = from.get(key.len()..).unwrap_or_default();
            let mut next = names.partition_point(|name| name.as_str() < rest);
            // A folder sorts before the keys in it, and its own name is the key of nothing.
            let above = next
                .checked_sub(1)
                .map(|above| &names[above])
                .filter(|name| name.ends_with('/') && rest.starts_with(name.as_str()));
            let below = above.map(|name| format!("{key}{name}"));
            if is_excluded
                && names.get(next).is_some_and(|name| name == rest && !name.ends_with('/'))
            {
                next += 1;
            }
            self.way.push(Level { key, names, next });
            match below {
                Some(below) => key = below,
                None => return Ok(()),
            }
        }
    }

    /// The key of the next entry, files and folders alike, of the deepest folder that has one.
    fn step(&mut self) -> Option<String> {
        while let Some(level) = self.way.last_mut() {
            if let Some(name) = level.names.get(level.next) {
                level.next += 1;
                return Some(format!("{}{name}", level.key));
            }
            self.way.pop();
        }
        None
    }
}

impl Keys for Walk<'_> {
    fn next(&mut self) -> StoreResult<Option<(String, Arc<ObjectInfo>)>> {
        while let Some(key) = self.step() {
            let is_folder = key.ends_with('/');
            if !(key.starts_with(self.prefix) || is_folder && self.prefix.starts_with(&key)) {
                if key.as_str() > self.prefix {
                    return Ok(None);
                }
                continue;
            }
            if key.len() > MAX_KEY_BYTES {
                continue;
            }
            if is_folder {
                self.enter(key, Bound::Unbounded)?;
                continue;
            }
            let path = self.bucket.join(&key);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    return Ok(Some((key, Arc::new(file::describe(&metadata)))));
                }
                // Neither pipes and sockets nor links to nothing are objects.
                Ok(_) => {}
                Err(error) if file::is_missing(&error) => {}
                Err(error) => return Err(StoreError::io(&path, error)),
            }
        }
        Ok(None)
    }
}
