//! Pages of a bucket: prefix, delimiter, and going on where the last page ended. The rules are the
//! same wherever the keys come from: a store only has to walk its keys in their order from any point.

use std::ops::Bound;
use std::sync::Arc;

use super::{ObjectInfo, StoreResult};

/// What to list.
#[derive(Debug, Clone)]
pub(crate) struct ListQuery {
    pub(crate) prefix: String,
    /// Keys with this text behind the prefix are rolled up; `None` lists every key.
    pub(crate) delimiter: Option<String>,
    pub(crate) from: ListStart,
    /// The most items on the page.
    pub(crate) max: usize,
}

/// Where a page begins.
#[derive(Debug, Clone)]
pub(crate) enum ListStart {
    Beginning,
    /// Behind this key, which need not exist.
    AfterKey(String),
    /// Behind this item of an earlier page: a key, or a common prefix with all that it stands for.
    AfterItem(String),
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
    Object(String, Arc<ObjectInfo>),
    CommonPrefix(String),
}

impl ListItem {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Object(name, _) | Self::CommonPrefix(name) => name,
        }
    }
}

/// Keys of a bucket in the order of their bytes, from some point on.
pub(super) trait Keys {
    /// The next key that begins with the prefix of the query, and what is known of its object;
    /// `None` behind the last one. An object that has gone meanwhile may be left out.
    fn next(&mut self) -> StoreResult<Option<(String, Arc<ObjectInfo>)>>;
}

impl ListQuery {
    /// The common prefix that stands for `key`, if one does.
    fn roll_up(&self, key: &str) -> Option<String> {
        let delimiter = self.delimiter.as_deref()?;
        let behind = key.strip_prefix(self.prefix.as_str())?;
        let end = behind.find(delimiter)? + self.prefix.len() + delimiter.len();
        Some(key[..end].to_owned())
    }

    /// Where the walk begins; `None` when nothing can be behind the start.
    fn start(&self) -> Option<Bound<String>> {
        let start = match &self.from {
            ListStart::Beginning => Bound::Included(self.prefix.clone()),
            ListStart::AfterKey(key) => Bound::Excluded(key.clone()),
            ListStart::AfterItem(item) => match self.roll_up(item) {
                Some(common) => Bound::Included(after_all_with(&common)?),
                None => Bound::Excluded(item.clone()),
            },
        };
        let (Bound::Included(key) | Bound::Excluded(key)) = &start else { return Some(start) };
        let before_prefix = key.as_str() < self.prefix.as_str();
        Some(if before_prefix { Bound::Included(self.prefix.clone()) } else { start })
    }

    /// One page of the keys that `keys_from` walks. A common prefix costs one new walk, however many
    /// keys it stands for.
    pub(super) fn page<K: Keys>(
        &self,
        mut keys_from: impl FnMut(Bound<&str>) -> StoreResult<K>,
    ) -> StoreResult<ListPage> {
        let mut page = ListPage::default();
        let mut start = self.start();
        while let Some(bound) = start.take() {
            let mut keys = keys_from(bound.as_ref().map(String::as_str))?;
            while let Some((key, info)) = keys.next()? {
                if page.items.len() == self.max {
                    page.more = self.max > 0;
                    return Ok(page);
                }
                if let Some(common) = self.roll_up(&key) {
                    start = after_all_with(&common).map(Bound::Included);
                    page.items.push(ListItem::CommonPrefix(common));
                    break;
                }
                page.items.push(ListItem::Object(key, info));
            }
        }
        Ok(page)
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
    use super::*;

    #[test]
    fn the_next_character_skips_what_is_none() {
        assert_eq!(after_all_with("a/").as_deref(), Some("a0"));
        assert_eq!(after_all_with("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(after_all_with("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_all_with("\u{10ffff}"), None);
    }
}
