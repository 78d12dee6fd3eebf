//! What every store keeps, as one suite that any of them can be given to.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;

use crate::{Cause, Listed, ObjectKey, PartPlace, PartTag, Store, StoreError, Upload, UploadId};

/// Runs the whole suite against an empty store.
pub(crate) async fn check(shared: Arc<dyn Store>) {
    let store = &*shared;
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
    tails_are_read_without_knowing_the_size(store).await;
    parts_in_any_order_become_an_object(&shared).await;
    objects_of_one_short_part_are_possible(&shared).await;
    incomplete_uploads_are_refused(&shared).await;
    an_older_object_stays_until_the_upload_is_complete(&shared).await;
    nothing_is_left_of_an_aborted_upload(&shared).await;
    nothing_is_left_of_a_dropped_upload(&shared).await;
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
    for (most, bytes) in [(3, 3), (10, 10), (64, 10)] {
        buffer.truncate(4);
        let (fetched, size) = store.get_tail(key, most, &mut buffer).await.unwrap();
        assert_eq!((fetched.bytes, size, buffer.len() as u64), (bytes, 10, 4 + bytes));
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
    assert!(error.to_string().contains(&error.location), "{error}");
    // Of several endpoints, an error names the one that it comes from.
    assert!(store.location().starts_with(&error.location), "{error}");
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

pub(crate) async fn tails_are_read_without_knowing_the_size(store: &dyn Store) {
    let body: Vec<u8> = (0..70_000_u32).map(|at| (at % 251) as u8).collect();
    for (length, most) in [(70_000, 8), (70_000, 66_000), (70_000, 70_000), (10, 64_000), (10, 10)]
    {
        let key = ObjectKey::new(format!("tails/{length}"));
        store.put(&key, Bytes::copy_from_slice(&body[..length])).await.unwrap();
        let mut buffer = b"kept".to_vec();
        let (fetched, size) = store.get_tail(&key, most as u64, &mut buffer).await.unwrap();
        assert_eq!((size, fetched.bytes), (length as u64, length.min(most) as u64));
        assert!(buffer[4..] == body[length - length.min(most)..length], "{most} of {length}");
        assert!(buffer.starts_with(b"kept") && fetched.first_byte <= fetched.last_byte);
    }
    let mut buffer = b"kept".to_vec();
    let (fetched, size) =
        store.get_tail(&ObjectKey::new("tails/10"), 0, &mut buffer).await.unwrap();
    assert_eq!((size, fetched.bytes), (10, 0));
    put(store, "tails/empty", b"").await;
    let empty = ObjectKey::new("tails/empty");
    for most in [0, 1, u64::MAX] {
        let (fetched, size) = store.get_tail(&empty, most, &mut buffer).await.unwrap();
        assert_eq!((size, fetched.bytes), (0, 0));
    }
    let missing = ObjectKey::new("tails/missing");
    let error = store.get_tail(&missing, 8, &mut buffer).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::NotFound { .. }), "{error}");
    assert_eq!(buffer, b"kept");
}

/// Bytes that differ wherever parts could be mistaken for one another.
fn body_of(bytes: u64) -> Bytes {
    (0..bytes).map(|at| (at % 251) as u8 ^ (at >> 20) as u8).collect()
}

async fn begin(store: &Arc<dyn Store>, key: &str, bytes: u64) -> Upload {
    Upload::begin(Arc::clone(store), ObjectKey::new(key), Some(bytes)).await.unwrap()
}

/// Sends the part at `offset` of `body`.
async fn send(upload: &Upload, body: &Bytes, offset: u64) -> Result<(), StoreError> {
    let end = (offset + upload.part_bytes()).min(body.len() as u64);
    upload.part(offset, body.slice(offset as usize..end as usize)).await
}

async fn read(store: &dyn Store, key: &str) -> Vec<u8> {
    let mut buffer = Vec::new();
    store.get(&ObjectKey::new(key), None, &mut buffer).await.unwrap();
    buffer
}

/// An object of three parts, the last of which is short.
const THREE_PARTS: u64 = (20 << 20) + 17;

async fn parts_in_any_order_become_an_object(store: &Arc<dyn Store>) {
    let key = "parts/new folder/three";
    let body = body_of(THREE_PARTS);
    let upload = Arc::new(begin(store, key, THREE_PARTS).await);
    let part = upload.part_bytes();
    let tasks = [2 * part, 0, part].map(|offset| {
        let (upload, body) = (Arc::clone(&upload), body.clone());
        tokio::spawn(async move { send(&upload, &body, offset).await.unwrap() })
    });
    try_join_all(tasks).await.unwrap();
    assert_eq!(listed(&**store, "parts").await, [], "nothing is there before it is complete");
    upload.complete(THREE_PARTS).await.unwrap();
    assert!(read(&**store, key).await == body, "the parts stand in their order");
    assert_eq!(listed(&**store, "parts").await, [(key.to_owned(), THREE_PARTS)]);
    let again = upload.complete(THREE_PARTS).await.unwrap_err().to_string();
    assert!(again.contains("the upload has ended"), "{again}");
    let late = send(&upload, &body, 0).await.unwrap_err().to_string();
    assert!(late.contains("the upload has ended"), "{late}");
}

async fn objects_of_one_short_part_are_possible(store: &Arc<dyn Store>) {
    for bytes in [1, 0] {
        let key = format!("short/{bytes}");
        let upload = begin(store, &key, bytes).await;
        if bytes > 0 {
            upload.part(0, Bytes::from_static(b"replaced by a shorter one")).await.unwrap();
            send(&upload, &body_of(bytes), 0).await.unwrap();
        }
        upload.complete(bytes).await.unwrap();
        assert!(read(&**store, &key).await == body_of(bytes), "{bytes}");
    }
}

async fn incomplete_uploads_are_refused(store: &Arc<dyn Store>) {
    let key = "incomplete/it";
    let body = body_of(THREE_PARTS);
    let upload = begin(store, key, THREE_PARTS).await;
    let part = upload.part_bytes();
    let refusal = async || upload.complete(THREE_PARTS).await.unwrap_err().to_string();
    send(&upload, &body, 0).await.unwrap();
    send(&upload, &body, 2 * part).await.unwrap();
    let missing = refusal().await;
    assert!(missing.starts_with("COMPLETE UPLOAD incomplete/it, upload "), "{missing}");
    assert!(missing.contains("part 2 is missing"), "{missing}");
    upload.part(part, Bytes::from_static(b"short")).await.unwrap();
    let short = refusal().await;
    assert!(short.contains("part 2 is short, but not the last"), "{short}");
    send(&upload, &body, part).await.unwrap();
    let wrong = upload.complete(THREE_PARTS + 1).await.unwrap_err().to_string();
    assert!(wrong.contains("its parts have 20971537 of 20971538 bytes"), "{wrong}");
    assert_eq!(listed(&**store, "incomplete").await, []);
    upload.complete(THREE_PARTS).await.unwrap();
    assert!(read(&**store, key).await == body, "a part that is sent again replaces what it was");
}

async fn an_older_object_stays_until_the_upload_is_complete(store: &Arc<dyn Store>) {
    let key = "older/it";
    put(&**store, key, b"the older").await;
    let body = body_of(100);
    let upload = begin(store, key, 100).await;
    send(&upload, &body, 0).await.unwrap();
    assert_eq!(read(&**store, key).await, b"the older");
    upload.complete(100).await.unwrap();
    assert!(read(&**store, key).await == body);
    let upload = begin(store, key, 1).await;
    send(&upload, &body_of(1), 0).await.unwrap();
    upload.abort().await.unwrap();
    assert!(read(&**store, key).await == body, "an aborted upload changes nothing");
}

/// Asks the store itself to take a part.
async fn put_first_part(
    store: &dyn Store,
    key: &ObjectKey,
    id: &UploadId,
) -> Result<PartTag, StoreError> {
    store.put_part(key, id, PartPlace { number: 1, offset: 0 }, Bytes::from_static(b"x")).await
}

async fn nothing_is_left_of_an_aborted_upload(store: &Arc<dyn Store>) {
    let key = ObjectKey::new("aborted/it");
    let upload = begin(store, key.as_str(), 100).await;
    send(&upload, &body_of(100), 0).await.unwrap();
    upload.abort().await.unwrap();
    assert_eq!(listed(&**store, "aborted").await, []);
    let late = send(&upload, &body_of(100), 0).await.unwrap_err().to_string();
    assert!(late.contains("the upload has ended"), "{late}");
    let gone = put_first_part(&**store, &key, upload.id()).await.unwrap_err();
    assert!(matches!(*gone.cause, Cause::NotFound { .. }), "{gone}");
    assert!(gone.to_string().contains("aborted/it, part 1 of upload"), "{gone}");
    upload.abort().await.unwrap();
}

async fn nothing_is_left_of_a_dropped_upload(store: &Arc<dyn Store>) {
    let key = ObjectKey::new("dropped/it");
    let upload = begin(store, key.as_str(), 100).await;
    send(&upload, &body_of(100), 0).await.unwrap();
    let id = upload.id().clone();
    drop(upload);
    // It is taken away when somebody gets round to it.
    while put_first_part(&**store, &key, &id).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(listed(&**store, "dropped").await, []);
}
