//! What a request is about, as far as counting and fault rules need to know.
//!
//! `s3s` finds out for itself which operation a request is, but only after its signature was checked,
//! and a request must be counted before that. So the few operations that have a counter of their own
//! are recognised here.

use http::{Method, Request, header};
use percent_encoding::percent_decode_str;

use crate::domains::Domains;

/// The kinds of request that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Reading an object.
    Get,
    /// Writing an object.
    Put,
    /// Writing a part of an object.
    Part,
    /// Copying within the server.
    Copy,
    /// Listing a bucket, in either version.
    List,
    /// Asking for an object or bucket without its content.
    Head,
    /// Deleting an object, or many.
    Delete,
    /// Everything else.
    Other,
}

impl RequestKind {
    pub(crate) const COUNT: usize = 8;
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

/// Query parameters that turn a list of a bucket into a request for something beside its objects.
const BUCKET_SUB_RESOURCES: [&str; 24] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "tagging",
    "uploads",
    "versioning",
    "versions",
    "website",
];

impl Target {
    /// Reads it from the head of a request; `domains` are those below which a host names a bucket.
    pub(crate) fn of<B>(request: &Request<B>, domains: &Domains) -> Self {
        let path = decode(request.uri().path());
        let path = path.strip_prefix('/').unwrap_or(&path);
        let from_host = bucket_in_host(request, domains);
        let (bucket, key) = match &from_host {
            Some(bucket) => (bucket.as_str(), path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        let query = request.uri().query().unwrap_or_default();
        let has = |name: &str| parameter(query, name).is_some();
        let method = request.method();

        let kind = if bucket.is_empty() {
            RequestKind::Other
        } else if key.is_empty() {
            match *method {
                Method::GET if has("list-type") => RequestKind::List,
                Method::GET if !BUCKET_SUB_RESOURCES.iter().any(|name| has(name)) => {
                    RequestKind::List
                }
                Method::HEAD => RequestKind::Head,
                Method::POST if has("delete") => RequestKind::Delete,
                _ => RequestKind::Other,
            }
        } else if *method == Method::PUT && request.headers().contains_key("x-amz-copy-source") {
            RequestKind::Copy
        } else if *method == Method::PUT && has("uploadId") {
            RequestKind::Part
        } else if SUB_RESOURCES.iter().any(|name| has(name)) {
            RequestKind::Other
        } else {
            match *method {
                Method::GET => RequestKind::Get,
                Method::PUT => RequestKind::Put,
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

/// The bucket that the host of a request names.
pub(crate) fn bucket_in_host<B>(request: &Request<B>, domains: &Domains) -> Option<String> {
    let host = request.headers().get(header::HOST)?.to_str().ok()?;
    domains.bucket_of(host)
}

/// The access key id that a request claims to be signed with, in its header or in a presigned URL, in
/// version 4 or 2 of the signatures.
pub(crate) fn claimed_key_id<B>(request: &Request<B>) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let credential = match request.headers().get(header::AUTHORIZATION) {
        Some(value) => {
            let value = value.to_str().ok()?;
            let version_4 = value.split_once("Credential=").map(|(_, credential)| credential);
            version_4.or_else(|| value.strip_prefix("AWS "))?.to_owned()
        }
        None => parameter(query, "X-Amz-Credential").or(parameter(query, "AWSAccessKeyId"))?,
    };
    let id = credential.split(['/', ',', ':']).next()?;
    (!id.is_empty()).then(|| id.to_owned())
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
        let target = Target::of(&request, &Domains::new(["localhost".to_owned()]));
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
        assert_eq!(kind("PUT", "/b/k?partNumber=1&uploadId=x"), RequestKind::Part);
        assert_eq!(kind("POST", "/b/k?uploads"), RequestKind::Other);
        assert_eq!(kind("POST", "/b/k?uploadId=x"), RequestKind::Other);
        assert_eq!(kind("DELETE", "/b/k?uploadId=x"), RequestKind::Other);
        assert_eq!(kind("GET", "/b/k?uploadId=x"), RequestKind::Other);
        assert_eq!(kind("GET", "/b/k?tagging"), RequestKind::Other);
        assert_eq!(kind("GET", "/b/k?x-id=GetObject"), RequestKind::Get);
        assert_eq!(kind("GET", "/b?location"), RequestKind::Other);
        assert_eq!(kind("GET", "/b?uploads"), RequestKind::Other);
        assert_eq!(kind("GET", "/b"), RequestKind::List);
        assert_eq!(kind("GET", "/b?marker=x&prefix=y"), RequestKind::List);
        assert_eq!(kind("POST", "/b?delete"), RequestKind::Delete);
        assert_eq!(kind("GET", "/"), RequestKind::Other);
        assert_eq!(kind("HEAD", "/b"), RequestKind::Head);
        assert_eq!(kind("DELETE", "/b/k"), RequestKind::Delete);
        assert_eq!(kind("DELETE", "/b"), RequestKind::Other);
    }

    fn with_headers(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method("PUT").uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_copy_is_no_put_and_a_host_may_name_the_bucket() {
        let domains = Domains::new(["localhost".to_owned()]);
        let copy = with_headers("/b/k?partNumber=1&uploadId=x", &[("x-amz-copy-source", "/b/j")]);
        assert_eq!(Target::of(&copy, &domains).kind, RequestKind::Copy);
        let put = with_headers("/a/k", &[("host", "data.localhost:9000")]);
        let expected = Target { kind: RequestKind::Put, bucket: "data".into(), key: "a/k".into() };
        assert_eq!(Target::of(&put, &domains), expected);
    }

    #[test]
    fn the_key_id_is_found_in_headers_and_presigned_urls() {
        let header =
            "AWS4-HMAC-SHA256 Credential=AKIA/20250101/us-east-1/s3/aws4_request, Signature=0";
        let signed = with_headers("/b/k", &[("authorization", header)]);
        assert_eq!(claimed_key_id(&signed).as_deref(), Some("AKIA"));
        let presigned = with_headers("/b/k?X-Amz-Credential=AKIB%2F20250101%2Fx&X-Amz-Date=1", &[]);
        assert_eq!(claimed_key_id(&presigned).as_deref(), Some("AKIB"));
        let signed = with_headers("/b/k", &[("authorization", "AWS AKIC:c2lnbmF0dXJl")]);
        assert_eq!(claimed_key_id(&signed).as_deref(), Some("AKIC"));
        let presigned = with_headers("/b/k?AWSAccessKeyId=AKID&Expires=1&Signature=x", &[]);
        assert_eq!(claimed_key_id(&presigned).as_deref(), Some("AKID"));
        assert_eq!(claimed_key_id(&with_headers("/b/k", &[])), None);
        assert_eq!(claimed_key_id(&with_headers("/b/k", &[("authorization", "Basic x")])), None);
    }
}
