//! What every store keeps, as one suite that any of them can be given to.

use bytes::Bytes;

use crate::{Cause, Listed, ObjectKey, Store};

/// Runs the whole suite against an empty store.
pub(crate) async fn check(store: &dyn Store) {
    reads_append_what_was_written(store).await;
    ranges_are_half_open_and_whole(store).await;
    what_is_discarded_is_counted_and_checked(store).await;
    a_size_is_told_without_reading(store).await;
    what_is_deleted_is_gone(store).await;
    a_write_replaces(store).await;
    a_missing_object_is_said_to_be_missing(store).await;
    any_text_is_a_name(store).await;
    listing_stops_at_the_folders_edge(store).await;
    long_listings_come_in_sorted_pages(store).await;
}

async fn put(store: &dyn Store, key: &str, body: &'static [u8]) {
    store.put(&ObjectKey::new(key), Bytes::from_static(body)).await.unwrap();
}

async fn listed(store: &dyn Store, prefix: &str) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut keep = |page: Vec<Listed>| all.extend(page);
    store.list(prefix, &mut keep).await.unwrap();
    all.into_iter().map(|object| (object.key.to_string(), object.size)).collect()
}

async fn reads_append_what_was_written(store: &dyn Store) {
    put(store, "reads/one", b"first").await;
    put(store, "reads/empty", b"").await;
    let mut buffer = b"before ".to_vec();
    let fetched = store.get(&ObjectKey::new("/reads/one"), None, &mut buffer).await.unwrap();
    assert_eq!(buffer, b"before first");
    assert_eq!(fetched.bytes, 5);
    assert!(fetched.first_byte <= fetched.last_byte, "{fetched:?}");
    let fetched = store.get(&ObjectKey::new("reads/empty"), None, &mut buffer).await.unwrap();
    assert_eq!((fetched.bytes, buffer.len()), (0, 12));

    let big: Vec<u8> = (0..3_000_017_u32).map(|at| (at % 251) as u8).collect();
    let key = ObjectKey::new("reads/big");
    store.put(&key, Bytes::from(big.clone())).await.unwrap();
    buffer.clear();
    store.get(&key, None, &mut buffer).await.unwrap();
    assert!(buffer == big, "3 MB arrive as they were sent");
}

/// What holds of any object of ten bytes, in a store that cannot be written to as well.
pub(crate) async fn an_object_of_ten_bytes(store: &dyn Store, key: &ObjectKey) {
    assert_eq!(store.size(key).await.unwrap(), 10);
    let mut buffer = b"kept".to_vec();
    for (range, bytes) in [(None, 10), (Some(2..5), 3), (Some(9..10), 1), (Some(0..10), 10)] {
        buffer.truncate(4);
        let fetched = store.get(key, range.clone(), &mut buffer).await.unwrap();
        assert_eq!((fetched.bytes, buffer.len() as u64), (bytes, 4 + bytes));
        assert!(fetched.first_byte <= fetched.last_byte, "{fetched:?}");
        let fetched = store.get_discarding(key, range).await.unwrap();
        assert_eq!(fetched.bytes, bytes);
        assert!(fetched.first_byte <= fetched.last_byte, "{fetched:?}");
    }
    buffer.truncate(4);
    for outside in [8..12, 20..22, 3..3] {
        let error = store.get(key, Some(outside.clone()), &mut buffer).await;
        assert!(error.is_err(), "{outside:?} gave {error:?}");
        assert_eq!(buffer, b"kept", "a failed read leaves the buffer alone");
        let error = store.get_discarding(key, Some(outside.clone())).await;
        assert!(error.is_err(), "{outside:?} gave {error:?}");
    }
}

async fn ranges_are_half_open_and_whole(store: &dyn Store) {
    put(store, "ranges/digits", b"0123456789").await;
    let key = ObjectKey::new("ranges/digits");
    an_object_of_ten_bytes(store, &key).await;
    // More room than asked for: the range bounds the read, not the buffer.
    let mut buffer = Vec::with_capacity(64);
    assert_eq!(store.get(&key, Some(2..5), &mut buffer).await.unwrap().bytes, 3);
    assert_eq!(buffer, b"234");
    assert_eq!(store.get(&key, Some(9..10), &mut buffer).await.unwrap().bytes, 1);
    assert_eq!(buffer, b"2349");
}

async fn what_is_discarded_is_counted_and_checked(store: &dyn Store) {
    let lengths = [0, 10, 3_000_017];
    for length in lengths {
        let key = ObjectKey::new(format!("discarded/{length}"));
        store.put(&key, Bytes::from(vec![7; length])).await.unwrap();
        let fetched = store.get_discarding(&key, None).await.unwrap();
        assert_eq!(fetched.bytes, length as u64);
        assert!(fetched.first_byte <= fetched.last_byte, "{fetched:?}");
    }
    let missing = ObjectKey::new("discarded/missing");
    let error = store.get_discarding(&missing, None).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("discarded/missing"), "{error}");
}

async fn a_size_is_told_without_reading(store: &dyn Store) {
    for length in [0, 10, 70_000] {
        let key = ObjectKey::new(format!("sizes/{length}"));
        store.put(&key, Bytes::from(vec![7; length])).await.unwrap();
        assert_eq!(store.size(&key).await.unwrap(), length as u64);
    }
    for missing in ["sizes/missing", "sizes/10/below", "sizes"] {
        let error = store.size(&ObjectKey::new(missing)).await.unwrap_err().to_string();
        assert!(error.starts_with("HEAD ") && error.contains(missing), "{error}");
    }
    let error = store.size(&ObjectKey::new("sizes/missing")).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::NotFound { .. }), "{error}");
}

async fn what_is_deleted_is_gone(store: &dyn Store) {
    for key in ["deleted/a/one", "deleted/a/two", "deleted/ab", "deleted/b/c/three"] {
        put(store, key, b"x").await;
    }
    for key in ["deleted/a/one", "deleted/b/c/three", "deleted/missing/one"] {
        let key = ObjectKey::new(key);
        store.delete(&key).await.unwrap();
        store.delete(&key).await.unwrap();
        let error = store.get(&key, None, &mut Vec::new()).await.unwrap_err();
        assert!(matches!(*error.cause, Cause::NotFound { .. }), "{error}");
    }
    // A folder is no object: it is not there, or cannot be removed as one.
    let _ = store.delete(&ObjectKey::new("deleted/a")).await;
    for folder in ["deleted/b/c", "deleted/a", "deleted/missing", ""] {
        store.tidy(folder).await;
    }
    let left = [("deleted/a/two".to_owned(), 1), ("deleted/ab".to_owned(), 1)];
    assert_eq!(listed(store, "deleted").await, left);
    put(store, "deleted/b/c/three", b"again").await;
    assert_eq!(store.size(&ObjectKey::new("deleted/b/c/three")).await.unwrap(), 5);
}

async fn a_write_replaces(store: &dyn Store) {
    put(store, "replaced/it", b"a longer first version").await;
    put(store, "replaced/it", b"second").await;
    let mut buffer = Vec::new();
    store.get(&ObjectKey::new("replaced/it"), None, &mut buffer).await.unwrap();
    assert_eq!(buffer, b"second");
    assert_eq!(listed(store, "replaced").await, [("replaced/it".to_owned(), 6)]);
}

async fn a_missing_object_is_said_to_be_missing(store: &dyn Store) {
    let mut buffer = b"kept".to_vec();
    let missing = ObjectKey::new("missing/folder/file");
    let error = store.get(&missing, None, &mut buffer).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::NotFound { .. }), "{error}");
    assert_eq!(error.attempts, 1);
    assert!(error.to_string().contains("missing/folder/file"), "{error}");
    assert!(error.to_string().contains(&store.location()), "{error}");
    assert_eq!(buffer, b"kept");
}

async fn any_text_is_a_name(store: &dyn Store) {
    let keys = [
        "ds a+b%20/ü=1&x/img_0_of_4.npz",
        "ds a+b%20/ü=1&x/~*'()!$,;:@?#[]<>\"\\^`{}|",
        "ds a+b%20/ü=1&x/%2F%2f..%C3%BC",
        "ds a+b%20/ü=1&x/ led and trailed ",
        "ds a+b%20/ü=1&x/日本語.npz",
    ];
    for key in keys {
        put(store, key, b"body").await;
        let mut buffer = Vec::new();
        store.get(&ObjectKey::new(key), None, &mut buffer).await.unwrap();
        assert_eq!(buffer, b"body", "{key}");
    }
    let mut expected = keys.map(|key| (key.to_owned(), 4)).to_vec();
    expected.sort();
    assert_eq!(listed(store, "ds a+b%20").await, expected);
    assert_eq!(listed(store, "ds a+b%20/ü=1&x/").await, expected);
}

async fn listing_stops_at_the_folders_edge(store: &dyn Store) {
    for key in ["edge/train/b", "edge/train/a/z", "edge/train-2/a", "edge/train.txt"] {
        put(store, key, b"x").await;
    }
    let names = ["edge/train/a/z", "edge/train/b"].map(|key| (key.to_owned(), 1));
    assert_eq!(listed(store, "edge/train").await, names);
    assert_eq!(listed(store, "/edge/train/").await, names);
    assert_eq!(listed(store, "edge/trai").await, []);
    assert_eq!(listed(store, "edge/train.txt").await, [], "nothing is below an object");
    assert_eq!(listed(store, "edge/absent").await, []);
    // `-` and `.` sort before `/`, so a folder's content stands behind its neighbours.
    let all = ["edge/train-2/a", "edge/train.txt", "edge/train/a/z", "edge/train/b"];
    assert_eq!(listed(store, "edge").await, all.map(|key| (key.to_owned(), 1)));
}

async fn long_listings_come_in_sorted_pages(store: &dyn Store) {
    let key = |at: usize| ObjectKey::new(format!("long/{:02}/{at:04}", at / 100));
    for at in 0..2_500 {
        store.put(&key(at), Bytes::from_static(b"xy")).await.unwrap();
    }
    let mut pages: Vec<Vec<Listed>> = Vec::new();
    let mut keep = |page| pages.push(page);
    store.list("long", &mut keep).await.unwrap();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    let expected: Vec<_> = (0..2_500).map(|at| Listed { key: key(at), size: 2 }).collect();
    assert!(pages.concat() == expected, "2,500 keys, sorted, each once");

    let mut rest = Vec::new();
    let mut keep = |page| rest.extend::<Vec<Listed>>(page);
    store.list_after("long", &key(999), &mut keep).await.unwrap();
    assert!(rest == expected[1_000..], "a listing goes on behind the last key seen");
}
