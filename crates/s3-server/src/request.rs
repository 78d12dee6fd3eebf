//! What a request is about, as far as counting and fault rules need to know.
//!
//! `s3s` finds out for itself which operation a request is, but only after its signature was checked,
//! and a request must be counted before that. So the few operations that have a counter of their own
//! are recognised here.

use http::{Method, Request};
use percent_encoding::percent_decode_str;

/// The kinds of request that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Reading an object.
    Get,
    /// Writing an object.
    Put,
    /// Listing a bucket, version 2.
    List,
    /// Asking for an object or bucket without its content.
    Head,
    /// Deleting an object.
    Delete,
    /// Everything else, creation of buckets included.
    Other,
}

impl RequestKind {
    pub(crate) const COUNT: usize = 6;
}

/// A request's kind and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: RequestKind,
    /// Empty for requests to the root.
    pub(crate) bucket: String,
    /// The decoded object key; the decoded prefix of a list; else empty.
    pub(crate) key: String,
}

/// Query parameters that turn a request for an object into one for something beside it.
const SUB_RESOURCES: [&str; 9] = [
    "acl",
    "attributes",
    "legal-hold",
    "retention",
    "select",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
];

impl Target {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let path = decode(request.uri().path());
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let query = request.uri().query().unwrap_or_default();
        let method = request.method();

        let kind = if key.is_empty() {
            if method == Method::GET && parameter(query, "list-type").is_some() {
                RequestKind::List
            } else if method == Method::HEAD {
                RequestKind::Head
            } else {
                RequestKind::Other
            }
        } else if SUB_RESOURCES.iter().any(|name| parameter(query, name).is_some()) {
            RequestKind::Other
        } else {
            match *method {
                Method::GET => RequestKind::Get,
                Method::PUT if !request.headers().contains_key("x-amz-copy-source") => {
                    RequestKind::Put
                }
                Method::HEAD => RequestKind::Head,
                Method::DELETE => RequestKind::Delete,
                _ => RequestKind::Other,
            }
        };
        let key = match kind {
            RequestKind::List => parameter(query, "prefix").unwrap_or_default(),
            _ => key.to_owned(),
        };
        Self { kind, bucket: bucket.to_owned(), key }
    }
}

/// The decoded value of the first parameter called `name`; empty when it stands alone.
fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then(|| decode(&value.replace('+', " ")))
    })
}

/// Bytes that are no UTF-8 are replaced: `s3s` refuses such a request, but it is counted before.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, uri: &str) -> (RequestKind, String, String) {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let target = Target::of(&request);
        (target.kind, target.bucket, target.key)
    }

    #[test]
    fn keys_and_prefixes_are_decoded_once() {
        assert_eq!(
            target("GET", "/b/a+b%2520/%C3%BC=1"),
            (RequestKind::Get, "b".into(), "a+b%20/ü=1".into())
        );
        assert_eq!(
            target("GET", "/b?list-type=2&prefix=a+b%2B%2F"),
            (RequestKind::List, "b".into(), "a b+/".into())
        );
        assert_eq!(
            target("GET", "/b/?prefix=x&list-type=2"),
            (RequestKind::List, "b".into(), "x".into())
        );
    }

    #[test]
    fn only_plain_object_requests_have_their_own_kind() {
        let kind = |method, uri| target(method, uri).0;
        assert_eq!(kind("PUT", "/b/k"), RequestKind::Put);
        assert_eq!(kind("PUT", "/b"), RequestKind::Other);
        assert_eq!(kind("PUT", "/b/k?partNumber=1&uploadId=x"), RequestKind::Other);
        assert_eq!(kind("GET", "/b/k?tagging"), RequestKind::Other);
        assert_eq!(kind("GET", "/b/k?x-id=GetObject"), RequestKind::Get);
        assert_eq!(kind("GET", "/b?location"), RequestKind::Other);
        assert_eq!(kind("GET", "/"), RequestKind::Other);
        assert_eq!(kind("HEAD", "/b"), RequestKind::Head);
        assert_eq!(kind("DELETE", "/b/k"), RequestKind::Delete);
        assert_eq!(kind("DELETE", "/b"), RequestKind::Other);
    }
}
