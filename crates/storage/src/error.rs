//! Why a storage operation did not succeed.

use std::fmt;
use std::time::{Duration, Instant};

/// The kind of operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading an object.
    Get,
    /// Writing an object.
    Put,
    /// Asking for an object's size.
    Head,
    /// Listing a prefix.
    List,
    /// Removing an object.
    Delete,
    /// Beginning to write an object in parts.
    BeginUpload,
    /// Writing a part of an object.
    PutPart,
    /// Making an object of its parts.
    CompleteUpload,
    /// Giving up an object's parts.
    AbortUpload,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Head => "HEAD",
            Self::List => "LIST",
            Self::Delete => "DELETE",
            Self::BeginUpload => "BEGIN UPLOAD",
            Self::PutPart => "PUT PART",
            Self::CompleteUpload => "COMPLETE UPLOAD",
            Self::AbortUpload => "ABORT UPLOAD",
        })
    }
}

/// A failed operation: what, on what, where, how often it was tried, and why it failed last.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {target} at {location} failed after {attempts} attempt{} in {elapsed:.1?}: {cause}{}",
    if *.attempts == 1 { "" } else { "s" },
    cause.advice().map(|advice| format!(". {advice}")).unwrap_or_default())]
pub struct StoreError {
    /// Which operation.
    pub operation: Operation,
    /// The key or prefix it was for.
    pub target: String,
    /// Endpoint and bucket, or folder.
    pub location: String,
    /// Attempts made, the first one included.
    pub attempts: u32,
    /// From the start of the first attempt to the end of the last.
    pub elapsed: Duration,
    /// What ended the last attempt.
    pub cause: Box<Cause>,
}

impl StoreError {
    /// The error of a single attempt that began at `began` and ends now.
    pub(crate) fn of_attempt(
        operation: Operation,
        target: impl Into<String>,
        location: String,
        began: Instant,
        cause: Cause,
    ) -> Self {
        Self {
            operation,
            target: target.into(),
            location,
            attempts: 1,
            elapsed: began.elapsed(),
            cause: Box::new(cause),
        }
    }
}

/// What ended an attempt. A variant per decision that a caller takes: see [`Cause::retry_kind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The object (or file) does not exist.
    #[error("it does not exist{}", code.as_ref().map(|code| format!(" (404 {code})")).unwrap_or_default())]
    NotFound {
        /// An object store's code; `None` for files and memory.
        code: Option<String>,
    },
    /// The bucket (or root folder) does not exist.
    #[error("the bucket does not exist (404 NoSuchBucket)")]
    NoSuchBucket,
    /// The store answered with an error status.
    #[error("{status}{}{}", code.as_ref().map(|code| format!(" {code}")).unwrap_or_default(),
        message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Status {
        /// HTTP status.
        status: u16,
        /// S3 error code, such as `SlowDown`.
        code: Option<String>,
        /// S3 error message.
        message: Option<String>,
        /// How long the store asked to be left alone (the header `Retry-After`).
        retry_after: Option<Duration>,
    },
    /// No connection could be made.
    #[error("cannot connect: {reason}")]
    Connect {
        /// The socket's, resolver's or TLS library's reason.
        reason: String,
    },
    /// TLS was refused: certificate, name or protocol.
    #[error("TLS failed: {reason}")]
    Tls {
        /// The TLS library's reason, and what to do about it.
        reason: String,
    },
    /// The connection broke while the request was under way.
    #[error("the connection broke: {reason}")]
    Reset {
        /// The socket's reason.
        reason: String,
    },
    /// The attempt took longer than it may.
    #[error("no answer within the time limit of {limit:?}")]
    Timeout {
        /// The limit that was reached.
        limit: Duration,
    },
    /// The body ended early.
    #[error(
        "the body ended after {received} {}",
        match expected {
            Some(expected) => format!("of {expected} bytes"),
            None => "bytes and was not whole (its length was not announced)".to_owned(),
        }
    )]
    Truncated {
        /// Bytes that were promised; `None` of a body whose length was not announced.
        expected: Option<u64>,
        /// Bytes that came.
        received: u64,
    },
    /// The answer breaks the rules of HTTP, so that nobody can tell where it ends.
    #[error("the answer breaks the rules of HTTP: {problem}")]
    Protocol {
        /// Which rule.
        problem: String,
    },
    /// A file system said no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Something that fits nowhere else; not repeated.
    #[error("{0}")]
    Other(String),
}

impl Cause {
    pub(crate) fn protocol(problem: impl Into<String>) -> Self {
        Self::Protocol { problem: problem.into() }
    }

    /// What a person can do about it, where that is not plain from the cause.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchBucket => Some("Create it, or name another bucket"),
            Self::Status { status: 401 | 403, .. } => {
                Some("Check that these are the keys of this endpoint and that they may do this")
            }
            Self::Connect { .. } => Some("Check the endpoint, and that its server is running"),
            Self::Timeout { .. } => {
                Some("Check the endpoint, and that its server is not overloaded")
            }
            _ => None,
        }
    }

    /// The kind under which a repeated attempt is counted (`503`, `reset`, `connect` …), or `None`
    /// when repeating it cannot help. 429 and 5xx (not 501 and 507), broken and refused
    /// connections, timeouts, truncated bodies and answers against the rules may be repeated.
    pub fn retry_kind(&self) -> Option<String> {
        match self {
            // 501 and 507 will be answered again: what is asked is not known, or does not fit.
            Self::Status { status: 501 | 507, .. } => None,
            Self::Status { status, .. } if *status == 429 || *status >= 500 => {
                Some(status.to_string())
            }
            Self::Connect { .. } => Some("connect".to_owned()),
            Self::Reset { .. } => Some("reset".to_owned()),
            Self::Timeout { .. } => Some("timeout".to_owned()),
            Self::Truncated { .. } => Some("truncated".to_owned()),
            Self::Protocol { .. } => Some("protocol".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, code: Option<&str>, message: Option<&str>) -> Cause {
        let (code, message) = (code.map(str::to_owned), message.map(str::to_owned));
        Cause::Status { status, code, message, retry_after: None }
    }

    #[test]
    fn what_may_pass_is_repeated_and_what_will_stay_is_not() {
        let text = String::new;
        let second = Duration::from_secs(1);
        for (cause, kind) in [
            (status(503, Some("SlowDown"), None), Some("503")),
            (status(500, None, None), Some("500")),
            (status(429, None, None), Some("429")),
            (status(501, Some("NotImplemented"), None), None),
            (status(507, Some("InsufficientStorage"), None), None),
            (status(403, Some("AccessDenied"), None), None),
            (status(416, None, None), None),
            (Cause::Connect { reason: text() }, Some("connect")),
            (Cause::Reset { reason: text() }, Some("reset")),
            (Cause::Timeout { limit: second }, Some("timeout")),
            (Cause::Truncated { expected: Some(2), received: 1 }, Some("truncated")),
            (Cause::Truncated { expected: None, received: 1 }, Some("truncated")),
            (Cause::protocol("two lengths"), Some("protocol")),
            (Cause::Tls { reason: text() }, None),
            (Cause::NotFound { code: None }, None),
            (Cause::NoSuchBucket, None),
            (Cause::Io(std::io::Error::other("full")), None),
            (Cause::Other(text()), None),
        ] {
            assert_eq!(cause.retry_kind().as_deref(), kind, "{cause:?}");
        }
    }

    #[test]
    fn the_message_says_what_where_how_often_and_why() {
        let error = StoreError {
            operation: Operation::Get,
            target: "train/1.npz".to_owned(),
            location: "s3://data at http://host:9000".to_owned(),
            attempts: 4,
            elapsed: Duration::from_millis(1_500),
            cause: Box::new(status(
                503,
                Some("SlowDown"),
                Some("Please reduce your request rate."),
            )),
        };
        assert_eq!(
            error.to_string(),
            "GET train/1.npz at s3://data at http://host:9000 failed after 4 attempts in 1.5s: \
             503 SlowDown: Please reduce your request rate."
        );
        assert_eq!(Cause::NotFound { code: None }.to_string(), "it does not exist");
        assert_eq!(
            Cause::NotFound { code: Some("NoSuchKey".to_owned()) }.to_string(),
            "it does not exist (404 NoSuchKey)"
        );
    }
}
