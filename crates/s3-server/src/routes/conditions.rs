//! Reading on conditions.
//! <https://www.rfc-editor.org/rfc/rfc9110#section-13.2.2>

use http::header::ETAG;
use http::{HeaderMap, HeaderValue};
use s3s::dto::{ETagCondition, Timestamp};
use s3s::{S3Error, S3Result, s3_error};
use std::time::SystemTime;

use crate::store::{ObjectInfo, etag_fits};

/// What must hold of an object for it to be read: the headers `If-Match` and so on.
pub(super) struct ReadConditions<'a> {
    pub(super) matches: Option<&'a ETagCondition>,
    pub(super) none_matches: Option<&'a ETagCondition>,
    pub(super) modified_since: Option<&'a Timestamp>,
    pub(super) unmodified_since: Option<&'a Timestamp>,
}

/// The conditions among the fields of an input of `s3s`.
macro_rules! read_conditions {
    ($input:expr) => {
        $crate::routes::conditions::ReadConditions {
            matches: $input.if_match.as_ref(),
            none_matches: $input.if_none_match.as_ref(),
            modified_since: $input.if_modified_since.as_ref(),
            unmodified_since: $input.if_unmodified_since.as_ref(),
        }
    };
}
pub(super) use read_conditions;

/// The same for the source of a copy.
macro_rules! source_conditions {
    ($input:expr) => {
        $crate::routes::conditions::ReadConditions {
            matches: $input.copy_source_if_match.as_ref(),
            none_matches: $input.copy_source_if_none_match.as_ref(),
            modified_since: $input.copy_source_if_modified_since.as_ref(),
            unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
        }
    };
}
pub(super) use source_conditions;

/// How a condition turned out that does not hold.
enum Failed {
    /// The object is not the one that was asked for.
    Precondition(&'static str),
    /// The client has it already.
    NotModified,
}

impl ReadConditions<'_> {
    /// Whether the object may be read: else `PreconditionFailed` (412), or `NotModified` (304).
    pub(super) fn check(&self, object: &ObjectInfo) -> S3Result {
        self.evaluate(object).map_err(|failed| match failed {
            Failed::Precondition(header) => precondition_failed(header),
            Failed::NotModified => not_modified(&object.etag),
        })
    }

    /// Whether the object may be copied: for a copy there is only `PreconditionFailed`.
    pub(super) fn check_source(&self, object: &ObjectInfo) -> S3Result {
        self.evaluate(object).map_err(|failed| match failed {
            Failed::Precondition(header) => precondition_failed(header),
            Failed::NotModified => precondition_failed("If-None-Match or If-Modified-Since"),
        })
    }

    /// An entity tag overrides the date of the same direction.
    fn evaluate(&self, object: &ObjectInfo) -> Result<(), Failed> {
        match (self.matches, self.unmodified_since) {
            (Some(wanted), _) if !etag_fits(wanted, &object.etag) => {
                return Err(Failed::Precondition("If-Match"));
            }
            (None, Some(since)) if is_modified_since(object, since) => {
                return Err(Failed::Precondition("If-Unmodified-Since"));
            }
            _ => {}
        }
        match (self.none_matches, self.modified_since) {
            (Some(known), _) if etag_fits(known, &object.etag) => Err(Failed::NotModified),
            (None, Some(since)) if !is_modified_since(object, since) => Err(Failed::NotModified),
            _ => Ok(()),
        }
    }
}

/// Dates in headers are whole seconds, so the object's is taken as one too.
fn is_modified_since(object: &ObjectInfo, since: &Timestamp) -> bool {
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    };
    let since: SystemTime = time::OffsetDateTime::from(since.clone()).into();
    seconds(object.modified) > seconds(since)
}

fn precondition_failed(header: &str) -> S3Error {
    s3_error!(
        PreconditionFailed,
        "At least one of the pre-conditions you specified did not hold: {header}"
    )
}

fn not_modified(etag: &str) -> S3Error {
    let mut error = s3_error!(NotModified);
    let mut headers = HeaderMap::new();
    if let Ok(etag) = HeaderValue::try_from(format!("\"{etag}\"")) {
        headers.insert(ETAG, etag);
    }
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Attributes;

    #[test]
    fn tags_go_before_dates_and_seconds_are_whole() {
        let object = ObjectInfo {
            size: 1,
            etag: "one".into(),
            modified: SystemTime::UNIX_EPOCH + Duration::from_millis(100_500),
            attributes: Attributes::default(),
        };
        let tag = |tag: &str| tag.parse::<ETagCondition>().unwrap();
        let at = |seconds| Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let status = |if_match: Option<&str>, if_none_match: Option<&str>, modified, unmodified| {
            let (if_match, if_none_match) = (if_match.map(tag), if_none_match.map(tag));
            let (modified, unmodified): (Option<u64>, Option<u64>) = (modified, unmodified);
            let (modified, unmodified) = (modified.map(at), unmodified.map(at));
            let conditions = ReadConditions {
                matches: if_match.as_ref(),
                none_matches: if_none_match.as_ref(),
                modified_since: modified.as_ref(),
                unmodified_since: unmodified.as_ref(),
            };
            let checked = conditions.check(&object);
            checked.map_or_else(|error| error.status_code().unwrap().as_u16(), |()| 200)
        };
        assert_eq!(
            status(Some("\"one\""), None, None, Some(99)),
            200,
            "the tag overrides the date"
        );
        assert_eq!(status(Some("*"), None, None, None), 200);
        assert_eq!(status(Some("\"two\""), None, None, None), 412);
        assert_eq!(status(None, None, None, Some(100)), 200, "modified within that second");
        assert_eq!(status(None, None, None, Some(99)), 412);
        assert_eq!(status(None, Some("\"one\""), None, None), 304);
        assert_eq!(
            status(None, Some("\"two\""), Some(101), None),
            200,
            "the tag overrides the date"
        );
        assert_eq!(status(None, None, Some(100), None), 304);
        assert_eq!(status(None, None, Some(99), None), 200);
    }
}
