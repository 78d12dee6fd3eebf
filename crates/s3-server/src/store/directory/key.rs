//! Which file a key is.
//!
//! The key is the path below the bucket's folder, as it is: nothing is encoded. So some keys that S3
//! takes cannot be files here. They are refused by name rather than written to some other place.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreResult};

/// The longest name of a file or folder, in bytes, on the file systems of Linux.
const MAX_NAME_BYTES: usize = 255;

/// The path of the file that is the object under `key`; it always lies below `bucket`.
pub(super) fn path(bucket: &Path, key: &str) -> StoreResult<PathBuf> {
    let refused = |problem| Err(StoreError::Key { problem });
    if key.contains('\0') {
        return refused("no file name can hold a NUL byte");
    }
    let mut path = bucket.to_owned();
    for part in key.split('/') {
        match part {
            "" => {
                return refused(
                    "a key with an empty part (\"/\" at its start, at its end, or twice in a row) is \
                     no path of a file",
                );
            }
            "." | ".." => {
                return refused("a key with a part \".\" or \"..\" is no path of a file");
            }
            part if is_hidden(part) => {
                return refused(
                    "names like \".feedrate-….tmp\" are those of files that are not complete",
                );
            }
            part if part.len() > MAX_NAME_BYTES => return Err(StoreError::KeyTooLong),
            part => path.push(part),
        }
    }
    Ok(path)
}

/// What the names of things that are not complete begin and end with.
const HIDDEN: (&str, &str) = (".feedrate-", ".tmp");

/// Whether this is how Feedrate calls what is not complete: here, and where it writes files itself.
/// Neither such a file nor what is in such a folder is an object.
pub(super) fn is_hidden(name: &str) -> bool {
    let (start, end) = HIDDEN;
    name.starts_with(start) && name.ends_with(end)
}

/// Names the reason why no file could be put at `path`.
pub(super) fn conflict(path: &Path, key: &str, error: io::Error) -> StoreError {
    let conflict = |other| StoreError::Conflict { key: key.to_owned(), other };
    match error.kind() {
        io::ErrorKind::IsADirectory => conflict("there are objects below it, whose folder it is"),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            conflict("a part of its path is an object")
        }
        io::ErrorKind::InvalidFilename => StoreError::KeyTooLong,
        _ => StoreError::io(path, error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_a_path_and_what_is_none_is_refused() {
        let bucket = Path::new("/srv/data");
        let of = |key: &str| path(bucket, key).map_err(|error| error.to_string());
        assert_eq!(of("train/img 1%2F.npz").unwrap(), bucket.join("train/img 1%2F.npz"));
        assert_eq!(of(".hidden/..x/日本").unwrap(), bucket.join(".hidden/..x/日本"));
        for (wrong, told) in [
            ("", "empty part"),
            ("/a", "empty part"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("../other/k", "\"..\""),
            ("a/./b", "\".\""),
            ("a\0b", "NUL"),
            (".feedrate-uploads.tmp/1", ".feedrate-"),
            ("a/.feedrate-1-2.tmp", ".feedrate-"),
            (&"x".repeat(256), "too long"),
        ] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_key_leads_out_of_its_bucket_and_no_two_keys_to_one_file(
            one in "[a./\0]{0,8}",
            other in "[a./\0]{0,8}",
        ) {
            let bucket = Path::new("/srv/data");
            if let Ok(path) = path(bucket, &one) {
                prop_assert_eq!(path.strip_prefix(bucket).unwrap().to_str(), Some(one.as_str()));
                if let Ok(second) = super::path(bucket, &other) {
                    prop_assert_eq!(path == second, one == other);
                }
            }
        }
    }
}
