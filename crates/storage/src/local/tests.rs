use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::*;

fn store() -> (tempfile::TempDir, LocalStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(folder.path()).unwrap();
    (folder, store)
}

async fn keys(store: &LocalStore, prefix: &str) -> Result<Vec<String>, StoreError> {
    let mut keys = Vec::new();
    let mut keep = |page: Vec<Listed>| keys.extend(page.iter().map(|it| it.key.to_string()));
    store.list(prefix, &mut keep).await?;
    Ok(keys)
}

#[tokio::test]
async fn a_folder_keeps_the_contract() {
    let (folder, store) = store();
    crate::contract::check(Arc::new(store)).await;
    let of_uploads = ["short", "incomplete", "older", "aborted", "dropped"];
    for (sub, left) in of_uploads.into_iter().zip([2, 1, 1, 0, 0]) {
        let files = std::fs::read_dir(folder.path().join(sub)).unwrap();
        assert_eq!(files.count(), left, "no temporary file stays in {sub}");
    }
}

#[tokio::test]
async fn a_missing_file_is_named_by_its_full_path() {
    let (folder, store) = store();
    let error = store.get(&ObjectKey::new("a/b.npz"), None, &mut Vec::new()).await.unwrap_err();
    let path = folder.path().join("a/b.npz");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(matches!(*error.cause, Cause::NotFound { code: None }));
}

#[tokio::test]
async fn a_key_cannot_leave_the_folder() {
    let (folder, store) = store();
    let outside = folder.path().with_extension("outside");
    for key in ["../x", "a/../../x", "a/.."] {
        let key = ObjectKey::new(key);
        let error = store.put(&key, Bytes::from_static(b"x")).await.unwrap_err();
        assert!(error.to_string().contains("leads out of the folder"), "{error}");
        assert!(store.get(&key, None, &mut Vec::new()).await.is_err());
        assert!(keys(&store, key.as_str()).await.is_err());
    }
    assert!(!outside.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_removal_leaves_folders_and_tidying_takes_empty_ones_but_never_the_root() {
    let (folder, store) = store();
    let put = async |key: &str| {
        store.put(&ObjectKey::new(key), Bytes::from_static(b"x")).await.unwrap();
    };
    let delete = async |key: &str| store.delete(&ObjectKey::new(key)).await;
    let there = |path: &str| folder.path().join(path).exists();
    for key in ["train/0/a", "train/0/b", "train/1/a", "notes.txt"] {
        put(key).await;
    }
    delete("train/0/a").await.unwrap();
    store.tidy("train/0").await;
    assert!(there("train/0/b"), "one that holds something stays");
    delete("train/0/b").await.unwrap();
    assert!(there("train/0"), "a removal takes the file only");
    store.tidy("train/0").await;
    assert!(!there("train/0") && there("train/1/a"));
    delete("train/1/a").await.unwrap();
    std::fs::remove_dir(folder.path().join("train/1")).unwrap();
    store.tidy("./train/1/").await;
    assert!(!there("train"), "from one that has gone already it goes on upwards");
    assert!(there("notes.txt"));
    store.tidy("notes.txt").await;
    assert!(there("notes.txt"), "a file is no folder");
    delete("notes.txt").await.unwrap();
    for root in ["", "/", "."] {
        store.tidy(root).await;
        assert!(folder.path().exists(), "{root:?}");
    }
}

#[tokio::test]
async fn neither_removing_nor_tidying_leaves_the_folder() {
    let (folder, store) = store();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(store.delete(&ObjectKey::new("empty")).await.is_err(), "a folder is no file");
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), folder.path().join("linked")).unwrap();
    store.tidy("linked").await;
    assert!(folder.path().join("linked").exists() && elsewhere.path().exists());
    let beside = elsewhere.path().file_name().unwrap().to_str().unwrap();
    for outside in ["../x".to_owned(), "a/../../x".to_owned(), format!("../{beside}")] {
        store.tidy(&outside).await;
        let error = store.delete(&ObjectKey::new(outside)).await.unwrap_err().to_string();
        assert!(error.contains("leads out of the folder"), "{error}");
    }
    assert!(elsewhere.path().exists());
}

#[tokio::test]
async fn a_dot_in_a_path_stays_where_it_is() {
    let (_folder, store) = store();
    store.put(&ObjectKey::new("./data//x"), Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(keys(&store, "./data/").await.unwrap(), ["data/x"]);
}

#[tokio::test]
async fn half_written_files_are_not_listed_and_none_is_left_behind() {
    let (folder, store) = store();
    store.put(&ObjectKey::new("a"), Bytes::from_static(b"x")).await.unwrap();
    // A folder stands where the file should go: the rename fails.
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    assert!(store.put(&ObjectKey::new("taken"), Bytes::from_static(b"x")).await.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);

    std::fs::write(folder.path().join(walk::temporary_name()), "half").unwrap();
    std::fs::write(folder.path().join(".hidden"), "but whole").unwrap();
    assert_eq!(keys(&store, "").await.unwrap(), [".hidden", "a"]);
}

#[tokio::test]
async fn links_are_followed_and_broken_ones_passed_over() {
    let (folder, store) = store();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("f"), "12345").unwrap();
    symlink(elsewhere.path(), folder.path().join("linked")).unwrap();
    symlink("nowhere", folder.path().join("broken")).unwrap();
    assert_eq!(keys(&store, "").await.unwrap(), ["linked/f"]);
    assert_eq!(keys(&store, "linked").await.unwrap(), ["linked/f"]);
}

#[tokio::test]
async fn a_name_that_is_no_text_is_an_error_that_shows_it() {
    use std::os::unix::ffi::OsStrExt;
    let (folder, store) = store();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    std::fs::write(folder.path().join(name), "x").unwrap();
    let error = keys(&store, "").await.unwrap_err();
    assert!(error.to_string().contains("bad\u{fffd}: the name is not UTF-8"), "{error}");
}

#[tokio::test]
async fn a_folder_is_no_file() {
    let (folder, store) = store();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let mut buffer = b"kept".to_vec();
    let error = store.get(&ObjectKey::new("sub"), Some(0..4), &mut buffer).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Io(_)), "{error:?}");
    assert_eq!(buffer, b"kept");
}

#[tokio::test]
async fn a_short_file_is_truncated_not_padded() {
    let (_folder, store) = store();
    let key = ObjectKey::new("short");
    store.put(&key, Bytes::from_static(b"0123456789")).await.unwrap();
    let error = store.get(&key, Some(4..20), &mut Vec::new()).await.unwrap_err();
    let Cause::Truncated { expected: Some(16), received: 6 } = *error.cause else {
        panic!("{error:?}");
    };
}
