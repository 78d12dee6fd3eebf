//! The name of an object.

use std::fmt;

/// The name of an object inside its store: UTF-8, parts divided by `/`, no leading slash.
///
/// For a bucket this is the decoded key; for a folder it is the path below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Wraps `key`, dropping leading slashes, which no store here gives a meaning.
    pub fn new(key: impl Into<String>) -> Self {
        let key: String = key.into();
        match key.strip_prefix('/') {
            None => Self(key),
            Some(_) => Self(key.trim_start_matches('/').to_owned()),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `prefix` as the beginning that all keys below it share: without leading slashes, and ending in a
/// slash unless it is empty, so that `train` does not find `train2/…`.
pub(crate) fn folder(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => String::new(),
        name => format!("{name}/"),
    }
}
