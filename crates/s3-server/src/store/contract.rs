//! What every store must do, for the store in memory and for the one in a folder.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use proptest::prelude::*;
use s3s::dto::{ETag, ETagCondition};

use super::*;
use crate::checksums::{Algorithm, Checksum};

const BUCKET: &str = "data";

/// Runs a check against both stores.
macro_rules! for_both_stores {
    ($($name:ident)*) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::memory().await).await;
            })*
        }
        mod in_a_folder {
            $(#[tokio::test]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::$name(super::directory(folder.path()).await).await;
            })*
        }
    };
}

for_both_stores! {
    what_is_put_is_what_is_read_until_it_is_deleted
    attributes_are_kept
    a_reader_keeps_its_version
    every_write_has_a_tag_of_its_own
    conditions_hold_at_the_moment_of_the_write
    only_one_of_many_writers_is_the_first
    parts_are_joined_and_ranges_copied_without_touching_their_source
    what_is_received_and_dropped_is_nowhere
    a_bucket_goes_when_it_is_empty
    a_delimiter_rolls_up_what_is_behind_it
    a_page_of_nothing_is_the_end
    a_start_before_or_behind_the_prefix_does_not_leave_it
    a_prefix_is_no_path
}

async fn memory() -> MemoryStore {
    let store = MemoryStore::new(None);
    store.create_bucket(BUCKET).await.unwrap();
    store
}

async fn directory(folder: &std::path::Path) -> DirectoryStore {
    let store = DirectoryStore::open(folder).unwrap();
    store.create_bucket(BUCKET).await.unwrap();
    store
}

async fn blob<S: Store>(store: &S, bytes: &[u8]) -> S::Blob {
    let mut receiver = store.receive(BUCKET, bytes.len() as u64).await.unwrap();
    for piece in bytes.chunks(100_000) {
        receiver.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    receiver.finish().await.unwrap()
}

async fn put<S: Store>(store: &S, key: &str, bytes: &[u8]) -> Arc<ObjectInfo> {
    put_if(store, key, bytes, WriteCondition::default()).await.unwrap()
}

async fn put_if<S: Store>(
    store: &S,
    key: &str,
    bytes: &[u8],
    condition: WriteCondition,
) -> StoreResult<Arc<ObjectInfo>> {
    let blob = blob(store, bytes).await;
    store.put(BUCKET, key, blob, Attributes::default(), condition).await
}

async fn get<S: Store>(store: &S, key: &str) -> StoreResult<Vec<u8>> {
    let (info, content) = store.open(BUCKET, key).await?;
    Ok(content.body(0..info.size).collect().await.unwrap().to_bytes().to_vec())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

async fn what_is_put_is_what_is_read_until_it_is_deleted<S: Store>(store: S) {
    for (key, len) in [("empty", 0), ("a/small", 5), ("a/b/large ü", 1_000_003)] {
        let put = put(&store, key, &bytes(len)).await;
        assert_eq!(put.size, len as u64);
        assert!(get(&store, key).await.unwrap() == bytes(len), "{key}");
        let (opened, _) = store.open(BUCKET, key).await.unwrap();
        assert_eq!((&opened.etag, opened.modified), (&put.etag, put.modified));
        for _ in 0..2 {
            store.delete(BUCKET, key, WriteCondition::default()).await.unwrap();
            assert!(matches!(get(&store, key).await, Err(StoreError::NoSuchKey)));
        }
    }
    let elsewhere = store.open("other", "k").await;
    assert!(matches!(elsewhere, Err(StoreError::NoSuchBucket)));
}

async fn attributes_are_kept<S: Store>(store: S) {
    let attributes = Attributes {
        content_type: Some("image/jpeg".into()),
        content_encoding: Some("gzip".into()),
        metadata: Some([("rank".to_owned(), "ü 7".to_owned())].into()),
        checksum: Some(Checksum::of_full_object(Algorithm::Crc32, "AAAAAA==".into())),
        ..Attributes::default()
    };
    let blob = blob(&store, b"x").await;
    let condition = WriteCondition::default();
    store.put(BUCKET, "k", blob, attributes.clone(), condition).await.unwrap();
    assert_eq!(store.open(BUCKET, "k").await.unwrap().0.attributes, attributes);
    put(&store, "k", b"y").await;
    assert_eq!(store.open(BUCKET, "k").await.unwrap().0.attributes, Attributes::default());
}

async fn a_reader_keeps_its_version<S: Store>(store: S) {
    put(&store, "k", &bytes(700_000)).await;
    let (info, content) = store.open(BUCKET, "k").await.unwrap();
    put(&store, "k", b"other").await;
    store.delete(BUCKET, "k", WriteCondition::default()).await.unwrap();
    let read = content.body(0..info.size).collect().await.unwrap().to_bytes();
    assert!(read == bytes(700_000));
}

async fn every_write_has_a_tag_of_its_own<S: Store>(store: S) {
    let mut tags = BTreeSet::new();
    for _ in 0..50 {
        tags.insert(put(&store, "k", b"the same").await.etag.clone());
    }
    assert_eq!(tags.len(), 50);
}

async fn conditions_hold_at_the_moment_of_the_write<S: Store>(store: S) {
    let absent = || WriteCondition { if_none_match: Some(ETagCondition::Any), if_match: None };
    let tagged = |tag: &str| WriteCondition {
        if_match: Some(ETagCondition::ETag(ETag::Strong(tag.to_owned()))),
        if_none_match: None,
    };
    let missing = put_if(&store, "k", b"1", tagged("x")).await;
    assert!(matches!(missing, Err(StoreError::NoSuchKey)));
    let first = put_if(&store, "k", b"1", absent()).await.unwrap();
    let second = put_if(&store, "k", b"2", absent()).await;
    assert!(matches!(second, Err(StoreError::Precondition { header: "If-None-Match" })));
    let second = put_if(&store, "k", b"2", tagged(&first.etag)).await.unwrap();
    let third = put_if(&store, "k", b"3", tagged(&first.etag)).await;
    assert!(matches!(third, Err(StoreError::Precondition { header: "If-Match" })));
    let stale = store.delete(BUCKET, "k", tagged(&first.etag)).await;
    assert!(matches!(stale, Err(StoreError::Precondition { .. })));
    assert_eq!(get(&store, "k").await.unwrap(), b"2");
    store.delete(BUCKET, "k", tagged(&second.etag)).await.unwrap();
    assert!(get(&store, "k").await.is_err());
}

async fn only_one_of_many_writers_is_the_first<S: Store>(store: S) {
    let absent = || WriteCondition { if_none_match: Some(ETagCondition::Any), if_match: None };
    let writes = (0..20).map(|number: u8| {
        let store = &store;
        async move { put_if(store, "folder/k", &[number], absent()).await.is_ok().then_some(number) }
    });
    let first: Vec<u8> = futures::future::join_all(writes).await.into_iter().flatten().collect();
    assert_eq!(first.len(), 1);
    assert_eq!(get(&store, "folder/k").await.unwrap(), first);
}

async fn parts_are_joined_and_ranges_copied_without_touching_their_source<S: Store>(store: S) {
    let whole = bytes(900_000);
    let parts = [blob(&store, &whole[..300_000]).await, blob(&store, &whole[300_000..]).await];
    for key in ["one", "two"] {
        let joined = store.join(&[&parts[0], &parts[1]], BUCKET).await.unwrap();
        let attributes = Attributes::default();
        store.put(BUCKET, key, joined, attributes, WriteCondition::default()).await.unwrap();
        assert!(get(&store, key).await.unwrap() == whole);
    }
    let (_, content) = store.open(BUCKET, "one").await.unwrap();
    for range in [0..0, 299_999..300_001, 0..900_000] {
        let copy = store.copy(&content, range.clone(), BUCKET).await.unwrap();
        let attributes = Attributes::default();
        store.put(BUCKET, "copy", copy, attributes, WriteCondition::default()).await.unwrap();
        let expected = &whole[range.start as usize..range.end as usize];
        assert!(get(&store, "copy").await.unwrap() == expected, "{range:?}");
    }
    assert!(get(&store, "one").await.unwrap() == whole);
}

async fn what_is_received_and_dropped_is_nowhere<S: Store>(store: S) {
    let mut receiver = store.receive(BUCKET, 1_000_000).await.unwrap();
    receiver.write(bytes(600_000).into()).await.unwrap();
    drop(receiver);
    drop(blob(&store, b"whole, but never put").await);
    assert!(names(&store, "", None, 10).await.is_empty());
}

async fn a_bucket_goes_when_it_is_empty<S: Store>(store: S) {
    let exists = store.create_bucket(BUCKET).await;
    assert!(matches!(exists, Err(StoreError::BucketExists)));
    put(&store, "a/k", b"x").await;
    let full = store.delete_bucket(BUCKET).await;
    assert!(matches!(full, Err(StoreError::BucketNotEmpty)));
    store.create_bucket("other").await.unwrap();
    let named: Vec<String> =
        store.buckets().await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, [BUCKET, "other"]);
    store.delete(BUCKET, "a/k", WriteCondition::default()).await.unwrap();
    store.delete_bucket(BUCKET).await.unwrap();
    assert!(matches!(store.check_bucket(BUCKET).await, Err(StoreError::NoSuchBucket)));
    assert!(matches!(store.delete_bucket(BUCKET).await, Err(StoreError::NoSuchBucket)));
}

async fn fill<S: Store>(store: &S, keys: impl IntoIterator<Item = impl AsRef<str>>) {
    for key in keys {
        put(store, key.as_ref(), b"").await;
    }
}

async fn page<S: Store>(store: &S, prefix: &str, from: ListStart, max: usize) -> ListPage {
    let query = ListQuery { prefix: prefix.to_owned(), delimiter: None, from, max };
    store.list(BUCKET, query).await.unwrap()
}

/// Every item of a listing in pages of `max`, as a client walks it.
async fn names<S: Store>(
    store: &S,
    prefix: &str,
    delimiter: Option<&str>,
    max: usize,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let query = ListQuery {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            from: names.last().cloned().map_or(ListStart::Beginning, ListStart::AfterItem),
            max,
        };
        let page = store.list(BUCKET, query).await.unwrap();
        assert!(page.items.len() <= max);
        names.extend(page.items.iter().map(|item| item.name().to_owned()));
        if !page.more {
            return names;
        }
    }
}

async fn a_delimiter_rolls_up_what_is_behind_it<S: Store>(store: S) {
    fill(&store, ["a/1", "a/2", "b", "c/w", "c/x/y", "d", "a-", "a0"]).await;
    assert_eq!(names(&store, "", Some("/"), 2).await, ["a-", "a/", "a0", "b", "c/", "d"]);
    assert_eq!(names(&store, "c/", Some("/"), 1).await, ["c/w", "c/x/"]);
    assert_eq!(names(&store, "c", Some("x"), 1).await, ["c/w", "c/x"]);
    let all = ["a-", "a/1", "a/2", "a0", "b", "c/w", "c/x/y", "d"];
    assert_eq!(names(&store, "", None, 1).await, all);
}

async fn a_page_of_nothing_is_the_end<S: Store>(store: S) {
    fill(&store, ["a"]).await;
    let page = page(&store, "", ListStart::Beginning, 0).await;
    assert!(page.items.is_empty() && !page.more);
}

async fn a_start_before_or_behind_the_prefix_does_not_leave_it<S: Store>(store: S) {
    fill(&store, ["a", "p/1", "p/2", "q"]).await;
    let list = async |from: &str| {
        let page = page(&store, "p/", ListStart::AfterKey(from.to_owned()), 10).await;
        page.items.iter().map(|item| item.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("a").await, ["p/1", "p/2"]);
    assert_eq!(list("p/1").await, ["p/2"]);
    assert_eq!(list("p/").await, ["p/1", "p/2"]);
    assert!(list("q").await.is_empty());
}

async fn a_prefix_is_no_path<S: Store>(store: S) {
    fill(&store, ["a/b", "a/c"]).await;
    for nothing in ["a//", "/", "./a/", "../", "a/../a/", "\0"] {
        assert!(names(&store, nothing, None, 10).await.is_empty(), "{nothing:?}");
    }
    assert_eq!(names(&store, "a", None, 10).await, ["a/b", "a/c"]);
}

/// The keys of which none is a folder of another, as files need it.
fn keys() -> impl Strategy<Value = BTreeSet<String>> {
    let part = "[ab!ü0\u{10ffff}]{1,2}";
    let key = proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    proptest::collection::btree_set(key, 0..30).prop_map(|keys| {
        let is_folder =
            |key: &String| keys.iter().any(|other| other.starts_with(&format!("{key}/")));
        keys.iter().filter(|key| !is_folder(key)).cloned().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn pages_hold_every_item_once_and_sorted(
        keys in keys(),
        prefix in "[ab/]{0,3}",
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
        let expected: Vec<String> = expected.into_iter().collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let in_memory = memory().await;
            fill(&in_memory, &keys).await;
            let walked = names(&in_memory, &prefix, delimiter.as_deref(), max).await;
            prop_assert_eq!(&walked, &expected);
            let folder = tempfile::tempdir().unwrap();
            let in_a_folder = directory(folder.path()).await;
            fill(&in_a_folder, &keys).await;
            let walked = names(&in_a_folder, &prefix, delimiter.as_deref(), max).await;
            prop_assert_eq!(&walked, &expected);
            Ok(())
        })?;
    }
}
