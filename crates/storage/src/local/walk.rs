//! Listing a folder as if it were a bucket.
//!
//! Each folder's entries are sorted with a folder's name ending in `/`, which is the byte order of the
//! full keys; so pages come sorted while only the folders on the way down are held in memory.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use crate::key::folder;
use crate::store::PAGE;
use crate::{Listed, ObjectKey};

/// What the names of half-written files begin and end with.
const TEMPORARY: (&str, &str) = (".feedrate-", ".tmp");

/// A name for a file that is being written, by chance one that no other process has: those of several
/// hosts or containers may have the same number.
pub(super) fn temporary_name() -> String {
    let (start, end) = TEMPORARY;
    format!("{start}{:016x}{end}", fastrand::u64(..))
}

/// Hands the files below `root`/`prefix` to `page` by pages, until it says `false`. Symbolic links
/// are followed. A folder that does not exist holds nothing.
pub(super) fn walk(
    root: &Path,
    prefix: &str,
    page: &mut dyn FnMut(Vec<Listed>) -> bool,
) -> io::Result<()> {
    let parts = prefix.split('/').filter(|part| !part.is_empty() && *part != ".");
    let prefix = folder(&parts.collect::<Vec<_>>().join("/"));
    let mut walk = Walk { page, listed: Vec::new() };
    let wanted = walk.folder(&root.join(&prefix), &prefix)?;
    if wanted && !walk.listed.is_empty() {
        (walk.page)(walk.listed);
    }
    Ok(())
}

struct Walk<'a> {
    page: &'a mut dyn FnMut(Vec<Listed>) -> bool,
    listed: Vec<Listed>,
}

/// An entry of a folder; a folder's `name` ends in `/`.
struct Entry {
    name: String,
    size: u64,
}

impl Walk<'_> {
    /// Lists the folder at `path`, whose keys begin with `prefix`. Says whether more is wanted.
    fn folder(&mut self, path: &Path, prefix: &str) -> io::Result<bool> {
        for entry in entries(path)? {
            let key = format!("{prefix}{}", entry.name);
            if let Some(name) = entry.name.strip_suffix('/') {
                if !self.folder(&path.join(name), &key)? {
                    return Ok(false);
                }
                continue;
            }
            self.listed.push(Listed { key: ObjectKey::new(key), size: entry.size });
            if self.listed.len() == PAGE && !(self.page)(std::mem::take(&mut self.listed)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The sorted entries of the folder at `path`; none when there is no such folder.
fn entries(path: &Path) -> io::Result<Vec<Entry>> {
    let entries = match fs::read_dir(path) {
        Err(error) if is_no_folder(&error) => return Ok(Vec::new()),
        other => other.map_err(|error| naming(path, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| naming(path, &error))?;
        found.extend(look_at(&entry).map_err(|error| naming(&entry.path(), &error))?);
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// What `entry` is; `None` for a half-written file and for what has gone meanwhile.
fn look_at(entry: &DirEntry) -> io::Result<Option<Entry>> {
    let Ok(mut name) = entry.file_name().into_string() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the name is not UTF-8"));
    };
    let (start, end) = TEMPORARY;
    if name.starts_with(start) && name.ends_with(end) {
        return Ok(None);
    }
    let metadata = match fs::metadata(entry.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if metadata.is_dir() {
        name.push('/');
    }
    Ok(Some(Entry { name, size: metadata.len() }))
}

/// Whether `error` says that there is no such folder, or no such file in one.
pub(super) fn is_no_folder(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// `error` with the path it is about, which the system's errors do not tell.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
