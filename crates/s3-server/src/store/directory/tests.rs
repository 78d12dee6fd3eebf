//! What only a store of files has: names, other programs, restarts.

use std::os::unix::fs::symlink;

use http_body_util::BodyExt;

use super::*;
use crate::store::{Content, ListStart, Receiver};

const BUCKET: &str = "data";

async fn put(store: &DirectoryStore, key: &str, bytes: &'static [u8]) -> StoreResult<String> {
    let mut receiver = store.receive(BUCKET, bytes.len() as u64).await?;
    receiver.write(bytes.into()).await?;
    let blob = receiver.finish().await?;
    let condition = WriteCondition::default();
    let attributes = Attributes { content_type: Some("x/y".into()), ..Attributes::default() };
    Ok(store.put(BUCKET, key, blob, attributes, condition).await?.etag.clone())
}

async fn get(store: &DirectoryStore, key: &str) -> StoreResult<Vec<u8>> {
    let (info, content) = store.open(BUCKET, key).await?;
    Ok(content.body(0..info.size).collect().await.unwrap().to_bytes().to_vec())
}

async fn delete(store: &DirectoryStore, key: &str) {
    store.delete(BUCKET, key, WriteCondition::default()).await.unwrap();
}

async fn keys(store: &DirectoryStore) -> Vec<String> {
    let query = ListQuery {
        prefix: String::new(),
        delimiter: None,
        from: ListStart::Beginning,
        max: 10_000,
    };
    let page = store.list(BUCKET, query).await.unwrap();
    page.items.iter().map(|item| item.name().to_owned()).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(BUCKET)).unwrap();
    folder
}

#[tokio::test]
async fn a_data_set_is_served_as_it_lies() {
    let folder = folder();
    let bucket = folder.path().join(BUCKET);
    fs::create_dir_all(bucket.join("train/empty")).unwrap();
    fs::write(bucket.join("train/img 1.npz"), "one").unwrap();
    fs::write(bucket.join(".hidden"), "two").unwrap();
    fs::write(bucket.join("train/.feedrate-1-2.tmp"), "half").unwrap();
    fs::write(folder.path().join("no bucket"), "").unwrap();
    symlink(bucket.join("train/img 1.npz"), bucket.join("link")).unwrap();
    symlink(bucket.join("nowhere"), bucket.join("dangling")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bucket.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let store = DirectoryStore::open(folder.path()).unwrap();
    assert_eq!(keys(&store).await, [".hidden", "link", "train/img 1.npz"]);
    assert_eq!(get(&store, "train/img 1.npz").await.unwrap(), b"one");
    assert_eq!(get(&store, "link").await.unwrap(), b"one");
    for nothing in ["train", "train/empty", "pipe", "dangling", "train/img 1.npz/x", "../no bucket"]
    {
        assert!(matches!(get(&store, nothing).await, Err(StoreError::NoSuchKey)), "{nothing}");
    }
    assert_eq!(store.buckets().await.unwrap().len(), 1);
    assert!(!bucket.join(UPLOADS).exists(), "reading writes nothing");
}

#[tokio::test]
async fn an_object_is_a_plain_file_and_folders_come_and_go_with_it() {
    let folder = folder();
    let store = DirectoryStore::open(folder.path()).unwrap();
    put(&store, "a/b/one", b"1").await.unwrap();
    put(&store, "a/two", b"2").await.unwrap();
    let bucket = folder.path().join(BUCKET);
    assert_eq!(fs::read(bucket.join("a/b/one")).unwrap(), b"1");
    delete(&store, "a/b/one").await;
    assert!(!bucket.join("a/b").exists() && bucket.join("a/two").exists());
    delete(&store, "a").await;
    assert!(bucket.join("a/two").exists(), "a folder is no object");
    delete(&store, "a/two").await;
    assert!(!bucket.join("a").exists());
    put(&store, "a", b"3").await.unwrap();
    assert_eq!(fs::read(bucket.join("a")).unwrap(), b"3");
}

#[tokio::test]
async fn a_key_that_is_the_folder_of_others_is_refused_by_name() {
    let folder = folder();
    let store = DirectoryStore::open(folder.path()).unwrap();
    put(&store, "a/b", b"1").await.unwrap();
    for (key, told) in
        [("a", "below it"), ("a/b/c", "part of its path"), ("a/b/c/d", "part of its path")]
    {
        let error = put(&store, key, b"2").await.unwrap_err();
        let error = s3s::S3Error::from(error);
        assert_eq!(
            (error.code().as_str(), error.status_code().unwrap().as_u16()),
            ("KeyConflict", 409)
        );
        assert!(error.message().unwrap().contains(told), "{error}");
    }
    let long = "x/".repeat(4000) + "x";
    assert!(matches!(put(&store, &long, b"2").await, Err(StoreError::KeyTooLong)));
    assert_eq!(keys(&store).await, ["a/b"]);
    // An empty folder that somebody made is in nobody's way.
    fs::create_dir(folder.path().join(BUCKET).join("empty")).unwrap();
    put(&store, "empty", b"3").await.unwrap();
    let left = fs::read_dir(folder.path().join(BUCKET).join(UPLOADS)).unwrap().count();
    assert_eq!(left, 0, "what was refused is removed");
}

#[tokio::test]
async fn tags_and_attributes_outlive_the_server_and_change_with_the_file() {
    let folder = folder();
    let store = DirectoryStore::open(folder.path()).unwrap();
    let etag = put(&store, "k", b"1").await.unwrap();
    let before = store.open(BUCKET, "k").await.unwrap().0;
    drop(store);
    let store = DirectoryStore::open(folder.path()).unwrap();
    let after = store.open(BUCKET, "k").await.unwrap().0;
    assert_eq!((&after.etag, after.modified), (&etag, before.modified));
    assert_eq!(after.attributes, before.attributes);
    fs::write(folder.path().join(BUCKET).join("k"), "2").unwrap();
    assert_ne!(store.open(BUCKET, "k").await.unwrap().0.etag, etag);
}

#[tokio::test]
async fn what_a_killed_server_left_is_removed_by_the_next_one_alone() {
    let folder = folder();
    let hidden = folder.path().join(BUCKET).join(UPLOADS);
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("1-2-3"), "half").unwrap();
    let first = DirectoryStore::open(folder.path()).unwrap();
    assert!(!hidden.exists());
    let mut receiving = first.receive(BUCKET, 4).await.unwrap();
    receiving.write(b"half".as_slice().into()).await.unwrap();
    let second = DirectoryStore::open(folder.path()).unwrap();
    assert_eq!(fs::read_dir(&hidden).unwrap().count(), 1, "the first one is still at work");
    assert!(keys(&second).await.is_empty());
    drop(receiving);
    assert_eq!(fs::read_dir(&hidden).unwrap().count(), 0);
    drop((first, second));
    assert!(!hidden.exists(), "a server leaves no folder behind");
}

#[tokio::test]
async fn a_large_folder_is_listed_as_it_is_at_that_moment() {
    let folder = folder();
    let bucket = folder.path().join(BUCKET);
    for index in 0..1500 {
        fs::write(bucket.join(format!("{index:04}")), "").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_mins(1);
    let set_back = || File::open(&bucket).unwrap().set_modified(long_ago).unwrap();
    set_back();
    let store = DirectoryStore::open(folder.path()).unwrap();
    assert_eq!(keys(&store).await.len(), 1500);
    assert_eq!(store.0.folders.kept(), 1, "the folder is worth keeping");
    fs::write(bucket.join("0000a"), "").unwrap();
    assert_eq!(keys(&store).await.len(), 1501);
    assert_eq!(store.0.folders.kept(), 0, "it has changed just now");
    fs::remove_file(bucket.join("0000a")).unwrap();
    assert_eq!(keys(&store).await.len(), 1500);
}

#[test]
fn a_folder_that_is_none_is_not_served() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(DirectoryStore::open(file.path()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    let nowhere = file.path().with_extension("nowhere");
    assert_eq!(DirectoryStore::open(&nowhere).unwrap_err().kind(), io::ErrorKind::NotFound);
}
