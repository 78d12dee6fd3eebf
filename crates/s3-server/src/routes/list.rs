//! Listing a bucket, in both versions of the request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    CommonPrefix, ETag, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
    ListObjectsV2Output, Object, ObjectStorageClass, Timestamp,
};
use s3s::{S3Request, S3Result, s3_error};

use super::Routes;
use crate::store::{ListItem, ListPage, ListQuery, ListStart, Store};

/// The most items that S3 puts on a page.
const MAX_ITEMS: i32 = 1000;

/// What `encoding-type=url` leaves as it is. Blanks become `%20`, which both kinds of decoder read.
const URL_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// One page of the bucket (`ListObjectsV2`).
pub(super) async fn list_objects_v2<S: Store>(
    routes: &Routes<S>,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<ListObjectsV2Output> {
    let input = request.input;
    let (max_keys, max) = page_size("max-keys", input.max_keys)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let resumed = input.continuation_token.as_deref().map(from_token).transpose()?;
    let from = match (resumed, &input.start_after) {
        (Some(item), _) => ListStart::AfterItem(item),
        (None, Some(key)) => ListStart::AfterKey(key.clone()),
        (None, None) => ListStart::Beginning,
    };
    let query = query(input.prefix.as_deref(), input.delimiter.as_deref(), from, max);
    let page = routes.store.list(&input.bucket, query).await?;

    let last = page.more.then(|| page.items.last().map(|item| to_token(item.name()))).flatten();
    let key_count = i32::try_from(page.items.len()).ok();
    let is_truncated = page.more;
    let (contents, common_prefixes) = encoding.items(page);
    Ok(ListObjectsV2Output {
        name: Some(input.bucket),
        max_keys: Some(max_keys),
        key_count,
        is_truncated: Some(is_truncated),
        continuation_token: input.continuation_token,
        next_continuation_token: last,
        encoding_type: input.encoding_type,
        prefix: Some(encoding.encode(input.prefix.unwrap_or_default())),
        delimiter: input.delimiter.map(|text| encoding.encode(text)),
        start_after: input.start_after.map(|text| encoding.encode(text)),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..Default::default()
    })
}

/// One page of the bucket (`ListObjects`, version 1). The marker of the next page is always told, not
/// only when there is a delimiter, as in S3.
pub(super) async fn list_objects<S: Store>(
    routes: &Routes<S>,
    request: S3Request<ListObjectsInput>,
) -> S3Result<ListObjectsOutput> {
    let input = request.input;
    let (max_keys, max) = page_size("max-keys", input.max_keys)?;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let delimiter = input.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
    let from = match input.marker.clone().filter(|marker| !marker.is_empty()) {
        // A common prefix of the last page, with all that it stands for.
        Some(marker) if delimiter.is_some_and(|text| marker.ends_with(text)) => {
            ListStart::AfterItem(marker)
        }
        Some(marker) => ListStart::AfterKey(marker),
        None => ListStart::Beginning,
    };
    let query = query(input.prefix.as_deref(), input.delimiter.as_deref(), from, max);
    let page = routes.store.list(&input.bucket, query).await?;

    let last = page.items.last().map(|item| item.name().to_owned()).filter(|_| page.more);
    let is_truncated = page.more;
    let (contents, common_prefixes) = encoding.items(page);
    Ok(ListObjectsOutput {
        name: Some(input.bucket),
        max_keys: Some(max_keys),
        is_truncated: Some(is_truncated),
        marker: Some(encoding.encode(input.marker.unwrap_or_default())),
        next_marker: last.map(|name| encoding.encode(name)),
        encoding_type: input.encoding_type,
        prefix: Some(encoding.encode(input.prefix.unwrap_or_default())),
        delimiter: input.delimiter.map(|text| encoding.encode(text)),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..Default::default()
    })
}

fn query(prefix: Option<&str>, delimiter: Option<&str>, from: ListStart, max: usize) -> ListQuery {
    ListQuery {
        prefix: prefix.unwrap_or_default().to_owned(),
        delimiter: delimiter.filter(|delimiter| !delimiter.is_empty()).map(str::to_owned),
        from,
        max,
    }
}

/// How many items a page may have: as it is told, and as a number of things.
pub(super) fn page_size(name: &str, asked: Option<i32>) -> S3Result<(i32, usize)> {
    let told = asked.unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
    let max = usize::try_from(told)
        .map_err(|_| s3_error!(InvalidArgument, "{name} is {told}, it must not be negative"))?;
    Ok((told, max))
}

/// How names are written in an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Encoding {
    AsIs,
    Url,
}

impl Encoding {
    pub(super) fn asked(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self::AsIs),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(other) => {
                Err(s3_error!(InvalidArgument, "encoding-type is {other}, it can only be url"))
            }
        }
    }

    pub(super) fn encode(self, name: String) -> String {
        match self {
            Self::AsIs => name,
            Self::Url => utf8_percent_encode(&name, URL_ENCODED).to_string(),
        }
    }

    fn items(self, page: ListPage) -> (Vec<Object>, Vec<CommonPrefix>) {
        let (mut contents, mut common_prefixes) = (Vec::new(), Vec::new());
        for item in page.items {
            match item {
                ListItem::CommonPrefix(name) => {
                    common_prefixes.push(CommonPrefix { prefix: Some(self.encode(name)) });
                }
                ListItem::Object(key, object) => contents.push(Object {
                    key: Some(self.encode(key)),
                    size: i64::try_from(object.size).ok(),
                    e_tag: Some(ETag::Strong(object.etag.clone())),
                    last_modified: Some(Timestamp::from(object.modified)),
                    storage_class: Some(ObjectStorageClass::from_static(
                        ObjectStorageClass::STANDARD,
                    )),
                    ..Default::default()
                }),
            }
        }
        (contents, common_prefixes)
    }
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
