//! Listing a bucket (`ListObjectsV2`).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, ETag, EncodingType, ListObjectsV2Input, ListObjectsV2Output, Object, Timestamp,
};
use s3s::{S3Result, s3_error};

use crate::store::{Bucket, ListItem, ListQuery, ListStart};

/// The most items that S3 puts on a page.
const MAX_KEYS: i32 = 1000;

/// What `encoding-type=url` leaves as it is. Blanks become `%20`, which both kinds of decoder read.
const URL_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// One page of the bucket.
pub(super) fn list_objects(
    bucket: &Bucket,
    input: ListObjectsV2Input,
) -> S3Result<ListObjectsV2Output> {
    let max_keys = input.max_keys.unwrap_or(MAX_KEYS).min(MAX_KEYS);
    let max = usize::try_from(max_keys).map_err(|_| {
        s3_error!(InvalidArgument, "max-keys is {max_keys}, it must not be negative")
    })?;
    let url_encoded = match input.encoding_type.as_ref().map(EncodingType::as_str) {
        None => false,
        Some(EncodingType::URL) => true,
        Some(other) => {
            return Err(s3_error!(InvalidArgument, "encoding-type is {other}, it can only be url"));
        }
    };
    let resumed = input.continuation_token.as_deref().map(from_token).transpose()?;
    let from = match (&resumed, &input.start_after) {
        (Some(item), _) => ListStart::AfterItem(item),
        (None, Some(key)) => ListStart::AfterKey(key),
        (None, None) => ListStart::Beginning,
    };
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let delimiter = input.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
    let page = bucket.list(ListQuery { prefix, delimiter, from, max });

    let encode = |name: String| {
        if url_encoded { utf8_percent_encode(&name, URL_ENCODED).to_string() } else { name }
    };
    let last = page.more.then(|| page.items.last().map(|item| to_token(item.name()))).flatten();
    let key_count = i32::try_from(page.items.len()).ok();
    let mut contents = Vec::new();
    let mut common_prefixes = Vec::new();
    for item in page.items {
        match item {
            ListItem::CommonPrefix(name) => {
                common_prefixes.push(CommonPrefix { prefix: Some(encode(name)) });
            }
            ListItem::Object(key, object) => contents.push(Object {
                key: Some(encode(key)),
                size: i64::try_from(object.content.len()).ok(),
                e_tag: Some(ETag::Strong(object.etag.clone())),
                last_modified: Some(Timestamp::from(object.modified)),
                ..Default::default()
            }),
        }
    }
    Ok(ListObjectsV2Output {
        name: Some(input.bucket),
        max_keys: Some(max_keys),
        key_count,
        is_truncated: Some(page.more),
        continuation_token: input.continuation_token,
        next_continuation_token: last,
        encoding_type: input.encoding_type,
        prefix: Some(encode(input.prefix.unwrap_or_default())),
        delimiter: input.delimiter.map(encode),
        start_after: input.start_after.map(encode),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..Default::default()
    })
}

/// A token is the last item's name with every byte that could trouble an XML document or a query
/// encoded: whatever the key, it comes back as it was sent.
fn to_token(name: &str) -> String {
    let hex = name.bytes().map(|byte| format!("{byte:02x}"));
    hex.collect()
}

fn from_token(token: &str) -> S3Result<String> {
    let nibble = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    let bytes = token.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    bytes
        .collect::<Option<Vec<u8>>>()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_give_back_any_name_and_nothing_else() {
        for name in ["", "a/b", "ü \u{1}\n&<+%"] {
            assert_eq!(from_token(&to_token(name)).unwrap(), name);
        }
        for wrong in ["a", "zz", "ff", "+1"] {
            assert!(from_token(wrong).is_err(), "{wrong}");
        }
    }
}
