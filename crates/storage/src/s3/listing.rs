//! `ListObjectsV2`: one request, one page.

use percent_encoding::{percent_decode_str, utf8_percent_encode};
use serde::Deserialize;

use super::transport::{ESCAPED, Request, Transport};
use crate::{Cause, Listed, ObjectKey};

/// What to list.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    /// What all keys begin with.
    pub(super) folder: &'a str,
    /// The key behind which the listing begins.
    pub(super) after: Option<&'a str>,
    /// Where the page before said to go on.
    pub(super) token: Option<&'a str>,
}

/// What a request brought.
#[derive(Debug)]
pub(super) struct Page {
    /// Objects, without directory markers; none of them is possible.
    pub(super) objects: Vec<Listed>,
    /// Where the next page begins, unless this was the last.
    pub(super) next: Option<String>,
}

impl Ask<'_> {
    /// Asks for the page.
    pub(super) async fn send(&self, transport: &Transport) -> Result<Page, Cause> {
        let query = self.query();
        let body = transport.send(&Request::new("GET", None, &query)).await?.body().await?;
        page(&body).map_err(|problem| {
            Cause::Other(format!("the answer is no ListObjectsV2 result: {problem}"))
        })
    }

    /// Sorted by name, as the signature wants it.
    fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in [
            ("continuation-token", self.token),
            // Keys come back escaped, so that those with characters that XML has no place for, or with
            // spaces that its readers trim, survive.
            ("encoding-type", Some("url")),
            ("list-type", Some("2")),
            ("prefix", Some(self.folder).filter(|folder| !folder.is_empty())),
            // A continuation token holds the place already.
            ("start-after", self.after.filter(|_| self.token.is_none())),
        ] {
            if let Some(value) = value {
                query.extend([if query.is_empty() { "" } else { "&" }, name, "="]);
                query.extend(utf8_percent_encode(value, ESCAPED));
            }
        }
        query
    }
}

/// An enum, because a struct would take any root element, an error page's too, for an empty listing.
#[derive(Debug, Deserialize)]
enum Answer {
    ListBucketResult(Listing),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    #[serde(default)]
    contents: Vec<Content>,
    encoding_type: Option<String>,
    #[serde(default)]
    is_truncated: bool,
    next_continuation_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Content {
    key: String,
    size: u64,
}

fn page(body: &[u8]) -> Result<Page, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let answer = quick_xml::de::from_str(text).map_err(|error| error.to_string())?;
    let Answer::ListBucketResult(listing) = answer;
    let escaped = listing.encoding_type.as_deref() == Some("url");
    let next = listing.next_continuation_token.filter(|token| !token.is_empty());
    if listing.is_truncated && next.is_none() {
        return Err("it is cut short without saying where to go on".to_owned());
    }
    let mut objects = Vec::with_capacity(listing.contents.len());
    for Content { key, size } in listing.contents {
        let key = if escaped { unescape(&key)? } else { key };
        if size > 0 || !key.ends_with('/') {
            objects.push(Listed { key: ObjectKey::new(key), size });
        }
    }
    Ok(Page { objects, next: next.filter(|_| listing.is_truncated) })
}

/// Undoes S3's escaping of keys, which is that of forms: a space is a `+`.
fn unescape(key: &str) -> Result<String, String> {
    let spaced = key.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|error| format!("key `{key}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(body: &str) -> Vec<(String, u64)> {
        let objects = page(body.as_bytes()).unwrap().objects;
        objects.into_iter().map(|object| (object.key.to_string(), object.size)).collect()
    }

    #[test]
    fn escaped_and_plain_keys_are_told_apart() {
        let entry = "<Contents><Key>a+b%20c%2B</Key><Size>3</Size></Contents>";
        let escaped =
            format!("<ListBucketResult><EncodingType>url</EncodingType>{entry}</ListBucketResult>");
        assert_eq!(keys(&escaped), [("a b c+".to_owned(), 3)]);
        let plain = format!("<ListBucketResult>{entry}</ListBucketResult>");
        assert_eq!(keys(&plain), [("a+b%20c%2B".to_owned(), 3)]);
    }

    #[test]
    fn directory_markers_are_passed_over_and_empty_objects_are_not() {
        let body = "<?xml version=\"1.0\"?>\
            <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Contents><Key>d/</Key><Size>0</Size></Contents>\
            <Contents><Key>d/empty</Key><Size>0</Size></Contents>\
            <Contents><Key>d/full/</Key><Size>1</Size></Contents>\
            <Contents><Key>&lt;x&gt;&amp;y</Key><Size>2</Size></Contents></ListBucketResult>";
        let expected = [("d/empty", 0), ("d/full/", 1), ("<x>&y", 2)];
        assert_eq!(keys(body), expected.map(|(key, size)| (key.to_owned(), size)));
    }

    #[test]
    fn a_listing_that_is_no_listing_is_an_error() {
        for body in [
            "",
            "<html>welcome</html>",
            "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents>",
        ] {
            assert!(page(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn the_query_is_escaped_once() {
        let ask = Ask { folder: "ds a+b%20/ü=1&x/", after: Some("a/~"), token: None };
        assert_eq!(
            ask.query(),
            "encoding-type=url&list-type=2\
             &prefix=ds%20a%2Bb%2520%2F%C3%BC%3D1%26x%2F&start-after=a%2F~"
        );
    }
}
