//! Why a result could not be written or read.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Why a result could not be written or read. The cause is the error's `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A folder for results could not be made.
    #[error("cannot create the folder {} for results; choose another one", path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// The file system's reason.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The file system's reason.
        source: io::Error,
    },
    /// A value has no form in the file's format.
    #[error("cannot express the contents of {}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The encoder's reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A file or folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The file system's reason.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is damaged or was not written by feedrate", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// A record was written in another format.
    #[error(
        "{} has format version {found}, this program reads version {supported}: use the feedrate \
         that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u64,
        /// The version this program knows.
        supported: u32,
    },
    /// A folder holds no results.
    #[error(
        "no results in {}: looked for comparison.json (several series), sweep.json (a sweep) and \
         feedrate.json (a run) in it and in all folders below it",
        path.display()
    )]
    NothingFound {
        /// The folder.
        path: PathBuf,
    },
    /// A folder holds more than one result.
    #[error("{} holds {} results; name one of them:{}", path.display(), found.len(), list(found))]
    Several {
        /// The folder.
        path: PathBuf,
        /// The sweep and run folders below it.
        found: Vec<PathBuf>,
    },
}

/// At most this many folders are listed in a message.
const LISTED: usize = 20;

fn list(folders: &[PathBuf]) -> String {
    let mut text = String::new();
    for folder in folders.iter().take(LISTED) {
        text.push_str("\n  ");
        text.push_str(&folder.to_string_lossy());
    }
    if folders.len() > LISTED {
        text.push_str("\n  …");
    }
    text
}

impl ReportError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }

    pub(crate) fn encode<E>(path: &Path) -> impl FnOnce(E) -> Self + use<E>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = path.to_owned();
        |source| Self::Encode { path, source: source.into() }
    }
}
