//! Objects in memory: a sorted map per bucket.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use bytes::Bytes;
use s3s::dto::Metadata;

/// One version of an object: its content never changes, a PUT puts another object in its place.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) content: Bytes,
    /// Unquoted.
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    pub(crate) content_type: Option<String>,
    /// The `x-amz-meta-…` headers it was written with.
    pub(crate) metadata: Option<Metadata>,
}

/// All buckets of a server.
#[derive(Debug, Default)]
pub(crate) struct Store {
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    writes: AtomicU64,
}

impl Store {
    /// Creates an empty bucket; `false` when there is one of this name.
    pub(crate) fn create_bucket(&self, name: &str) -> bool {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return false;
        }
        buckets.insert(name.to_owned(), Arc::default());
        true
    }

    pub(crate) fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// An `ETag` for content of `len` bytes that no other object of this server has.
    ///
    /// S3 uses the MD5 of the content. MD5 runs at some 0.6 GiB/s, so at the rate of this server it
    /// would take more than all of one core. Clients that compare the MD5 do so when the tag looks like
    /// one; the `-1` makes it look like the tag of an object that was written in parts, which is none.
    pub(crate) fn new_etag(&self, len: usize) -> String {
        format!("{:016x}{len:016x}-1", self.writes.fetch_add(1, Relaxed))
    }
}

/// The objects of one bucket, by key.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    objects: RwLock<BTreeMap<String, Arc<Object>>>,
}

/// What to list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListQuery<'a> {
    pub(crate) prefix: &'a str,
    /// Keys with this text behind the prefix are rolled up; `None` lists every key.
    pub(crate) delimiter: Option<&'a str>,
    pub(crate) from: ListStart<'a>,
    /// The most items on the page.
    pub(crate) max: usize,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListStart<'a> {
    Beginning,
    /// Behind this key, which need not exist.
    AfterKey(&'a str),
    /// Behind this item of an earlier page: a key, or a common prefix with all that it stands for.
    AfterItem(&'a str),
}

/// One page, in the order of the bytes of the names.
#[derive(Debug, Default)]
pub(crate) struct ListPage {
    pub(crate) items: Vec<ListItem>,
    /// Whether there are items behind the last one.
    pub(crate) more: bool,
}

#[derive(Debug)]
pub(crate) enum ListItem {
    Object(String, Arc<Object>),
    CommonPrefix(String),
}

impl ListItem {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Object(name, _) | Self::CommonPrefix(name) => name,
        }
    }
}

impl Bucket {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Puts `object` in the place of the one under `key`, if any. Readers that hold the old one keep
    /// it.
    pub(crate) fn put(&self, key: String, object: Object) {
        let object = Arc::new(object);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = objects.insert(key, object);
        // Giving back a large buffer takes time that others should not wait for.
        drop(objects);
        drop(replaced);
    }

    /// Nothing happens when there is no such object.
    pub(crate) fn delete(&self, key: &str) {
        let removed = self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        drop(removed);
    }

    /// One page of the bucket's keys and common prefixes. A common prefix costs one search, however
    /// many keys it stands for.
    pub(crate) fn list(&self, query: ListQuery<'_>) -> ListPage {
        let ListQuery { prefix, delimiter, from, max } = query;
        let roll_up = |key: &str| {
            let delimiter = delimiter?;
            let end = key.strip_prefix(prefix)?.find(delimiter)? + prefix.len() + delimiter.len();
            Some(key[..end].to_owned())
        };
        let mut start = match from {
            ListStart::Beginning => Some(Bound::Included(prefix.to_owned())),
            ListStart::AfterKey(key) => Some(Bound::Excluded(key.to_owned())),
            ListStart::AfterItem(item) => match roll_up(item) {
                Some(common) => after_all_with(&common).map(Bound::Included),
                None => Some(Bound::Excluded(item.to_owned())),
            },
        };
        if let Some(Bound::Included(key) | Bound::Excluded(key)) = &start
            && key.as_str() < prefix
        {
            start = Some(Bound::Included(prefix.to_owned()));
        }

        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let mut page = ListPage::default();
        while let Some(bound) = start.take() {
            let bound = bound.as_ref().map(String::as_str);
            for (key, object) in objects.range::<str, _>((bound, Bound::Unbounded)) {
                if !key.starts_with(prefix) {
                    return page;
                }
                if page.items.len() == max {
                    page.more = max > 0;
                    return page;
                }
                if let Some(common) = roll_up(key) {
                    start = after_all_with(&common).map(Bound::Included);
                    page.items.push(ListItem::CommonPrefix(common));
                    break;
                }
                page.items.push(ListItem::Object(key.clone(), Arc::clone(object)));
            }
        }
        page
    }
}

/// The first possible key behind every key that starts with `prefix`: `prefix` with its last
/// character replaced by the next one there is, since UTF-8 sorts as its characters do. `None` when
/// no key can be behind them.
fn after_all_with(prefix: &str) -> Option<String> {
    let mut next = prefix.to_owned();
    while let Some(last) = next.pop() {
        if let Some(following) = (last..=char::MAX).nth(1) {
            next.push(following);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bucket<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Bucket {
        let bucket = Bucket::default();
        for key in keys {
            let object = Object {
                content: Bytes::new(),
                etag: String::new(),
                modified: SystemTime::UNIX_EPOCH,
                content_type: None,
                metadata: None,
            };
            bucket.put(key.as_ref().to_owned(), object);
        }
        bucket
    }

    /// Every item of a listing in pages of `max`, as a client walks it.
    fn walk(bucket: &Bucket, prefix: &str, delimiter: Option<&str>, max: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let last = names.last().cloned();
            let from = last.as_deref().map_or(ListStart::Beginning, ListStart::AfterItem);
            let page = bucket.list(ListQuery { prefix, delimiter, from, max });
            assert!(page.items.len() <= max);
            names.extend(page.items.iter().map(|item| item.name().to_owned()));
            if !page.more {
                return names;
            }
        }
    }

    #[test]
    fn a_delimiter_rolls_up_what_is_behind_it() {
        let bucket = bucket(["a/1", "a/2", "b", "c/", "c/x/y", "d"]);
        assert_eq!(walk(&bucket, "", Some("/"), 2), ["a/", "b", "c/", "d"]);
        assert_eq!(walk(&bucket, "c/", Some("/"), 1), ["c/", "c/x/"]);
        assert_eq!(walk(&bucket, "", None, 1), ["a/1", "a/2", "b", "c/", "c/x/y", "d"]);
    }

    #[test]
    fn a_page_of_nothing_is_the_end() {
        let page = bucket(["a"]).list(ListQuery {
            prefix: "",
            delimiter: None,
            from: ListStart::Beginning,
            max: 0,
        });
        assert!(page.items.is_empty() && !page.more);
    }

    #[test]
    fn a_start_before_or_behind_the_prefix_does_not_leave_it() {
        let bucket = bucket(["a", "p/1", "p/2", "q"]);
        let list = |from| {
            let query = ListQuery { prefix: "p/", delimiter: None, from, max: 10 };
            bucket.list(query).items.iter().map(|item| item.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(list(ListStart::AfterKey("a")), ["p/1", "p/2"]);
        assert_eq!(list(ListStart::AfterKey("p/1")), ["p/2"]);
        assert!(list(ListStart::AfterKey("q")).is_empty());
    }

    #[test]
    fn the_next_character_skips_what_is_none() {
        assert_eq!(after_all_with("a/").as_deref(), Some("a0"));
        assert_eq!(after_all_with("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(after_all_with("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_all_with("\u{10ffff}"), None);
    }

    proptest! {
        #[test]
        fn pages_hold_every_item_once_and_sorted(
            keys in proptest::collection::btree_set("[ab/ü\u{10ffff}]{1,6}", 0..40),
            prefix in "[ab/]{0,2}",
            delimiter in proptest::option::of("[b/\u{10ffff}]"),
            max in 1_usize..6,
        ) {
            let expected: BTreeSet<String> = keys
                .iter()
                .filter(|key| key.starts_with(&prefix))
                .map(|key| match &delimiter {
                    Some(delimiter) => match key[prefix.len()..].find(delimiter.as_str()) {
                        Some(at) => key[..prefix.len() + at + delimiter.len()].to_owned(),
                        None => key.clone(),
                    },
                    None => key.clone(),
                })
                .collect();
            let walked = walk(&bucket(&keys), &prefix, delimiter.as_deref(), max);
            prop_assert_eq!(walked, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
