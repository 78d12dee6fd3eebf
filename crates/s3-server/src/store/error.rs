//! Why a store cannot do what it was asked to, and what S3 calls that.

use std::io;
use std::path::{Path, PathBuf};

use feedrate_metrics::units::ByteCount;
use http::StatusCode;
use s3s::{S3Error, S3ErrorCode, s3_error};

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("The specified bucket does not exist")]
    NoSuchBucket,
    #[error("You already own this bucket")]
    BucketExists,
    #[error("The bucket you tried to delete is not empty")]
    BucketNotEmpty,
    #[error("The specified key does not exist.")]
    NoSuchKey,
    #[error("The object that is there does not fit the header {header}")]
    Precondition { header: &'static str },
    /// No file can have this key.
    #[error("This server keeps objects as files, and {problem}")]
    Key { problem: &'static str },
    #[error("This server keeps objects as files, and the key is too long for the file system")]
    KeyTooLong,
    /// A file stands where a folder is needed, or the other way round.
    #[error(
        "This server keeps objects as files: \"{key}\" cannot be an object while {other}. Delete the \
         one to write the other"
    )]
    Conflict { key: String, other: &'static str },
    #[error(
        "No room for {wanted}: this server keeps at most {limit} in memory (--max-memory) and uses \
         {used}. Delete objects, or start it with a larger --max-memory"
    )]
    MemoryLimit { wanted: ByteCount, used: ByteCount, limit: ByteCount },
    #[error("The system has no memory for an object of {wanted}; serve a folder with --dir")]
    OutOfMemory { wanted: ByteCount },
    #[error("{}: {source}{}", path.display(), advice(source))]
    Io { path: PathBuf, source: io::Error },
    /// A part of the server broke down.
    #[error("A file job of the server broke down: {0}")]
    Broken(String),
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; the server's user is not allowed to do this",
        io::ErrorKind::ReadOnlyFilesystem => "; the server can only read there",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room and try again",
        _ => "",
    }
}

impl StoreError {
    /// An error of the system about the file or folder at `path`.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

impl From<StoreError> for S3Error {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match &error {
            StoreError::NoSuchBucket => s3_error!(NoSuchBucket, "{message}"),
            StoreError::BucketExists => s3_error!(BucketAlreadyOwnedByYou, "{message}"),
            StoreError::BucketNotEmpty => s3_error!(BucketNotEmpty, "{message}"),
            StoreError::NoSuchKey => s3_error!(NoSuchKey, "{message}"),
            StoreError::Precondition { .. } => s3_error!(PreconditionFailed, "{message}"),
            StoreError::Key { .. } => s3_error!(InvalidArgument, "{message}"),
            StoreError::KeyTooLong => s3_error!(KeyTooLongError, "{message}"),
            StoreError::Conflict { .. } => custom("KeyConflict", StatusCode::CONFLICT, message),
            StoreError::MemoryLimit { .. } | StoreError::OutOfMemory { .. } => no_room(message),
            StoreError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    s3_error!(AccessDenied, "{message}")
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_room(message),
                _ => s3_error!(InternalError, "{message}"),
            },
            StoreError::Broken(_) => s3_error!(InternalError, "{message}"),
        }
    }
}

fn no_room(message: String) -> S3Error {
    custom("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE, message)
}

/// An error with a code that `s3s` does not know, which goes with status 400.
pub(crate) fn bad_request(code: &'static str, message: String) -> S3Error {
    custom(code, StatusCode::BAD_REQUEST, message)
}

/// An error with a code that `s3s` does not know.
fn custom(code: &'static str, status: StatusCode, message: String) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}
