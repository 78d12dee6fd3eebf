//! A server that keeps objects as files, and what a client that goes away leaves there.

use std::path::Path;
use std::time::Duration;

use feedrate_s3_server::{Options, Storage};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{BUCKET, Client, Parts, TestServer, options};

/// A server on the folder at `path`.
async fn serve(path: &Path) -> TestServer {
    let storage = Storage::Directory(path.to_owned());
    TestServer::with(Options { storage, ..options(&[]) }).await
}

/// Everything that lies in the folder of the bucket, hidden files too.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.join(BUCKET)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// Sends the head of a PUT of `announced` bytes and `sent` bytes of its body, and stays connected.
async fn begin_put(client: &Client, key: &str, announced: usize, sent: usize) -> TcpStream {
    let parts = Parts {
        method: "PUT",
        bucket: BUCKET,
        key,
        payload: Some("UNSIGNED-PAYLOAD"),
        ..Parts::default()
    };
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    stream.write_all(client.head_of(parts, announced).as_bytes()).await.unwrap();
    stream.write_all(&vec![7; sent]).await.unwrap();
    stream
}

/// Waits until `condition` holds, and says whether it ever did.
async fn eventually(condition: impl Fn() -> bool) -> bool {
    for _ in 0..500 {
        if condition() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn a_put_that_is_cut_in_the_middle_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let client = server.client();
    client.put("old", "old").await;
    let new = begin_put(&client, "a/new", 4 << 20, 3 << 20).await;
    let old = begin_put(&client, "old", 4 << 20, 3 << 20).await;
    assert!(eventually(|| files(folder.path()).len() == 3).await, "both are being received");
    assert_eq!(client.list(&[]).await.elements("Key"), ["old"]);
    assert_eq!(client.get("a/new").await.error(), (404, "NoSuchKey"));
    assert_eq!(client.get("old").await.text(), "old");
    drop((new, old));
    assert!(
        eventually(|| files(folder.path()) == ["data/old"]).await,
        "{:?}",
        files(folder.path())
    );
    assert_eq!(client.get("old").await.text(), "old");
    assert!(!folder.path().join("data/a").exists());
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_of_a_put_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path()).await;
    let _put = begin_put(&server.client(), "k", 4 << 20, 3 << 20).await;
    assert!(eventually(|| files(folder.path()).len() == 1).await);
    server.stop.take().unwrap().send(()).unwrap();
    (&mut server.task).await.unwrap();
    assert!(eventually(|| files(folder.path()).is_empty()).await, "{:?}", files(folder.path()));
}

#[tokio::test]
async fn keys_that_no_file_can_have_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let client = server.client();
    for key in ["a//b", "tail/", "/head", "a/../b", ".", ".feedrate-uploads.tmp/x"] {
        let reply = client.put(key, "x").await;
        assert_eq!(reply.error(), (400, "InvalidArgument"), "{key}");
        assert!(reply.element("Message").contains("as files"), "{}", reply.text());
        assert_eq!(client.get(key).await.error(), (404, "NoSuchKey"), "{key}");
    }
    assert_eq!(client.put(&"x".repeat(256), "x").await.error(), (400, "KeyTooLongError"));
    client.put("a/b", "x").await;
    assert_eq!(client.put("a", "x").await.error(), (409, "KeyConflict"));
    assert_eq!(files(folder.path()), ["data/a/b"]);
}

#[tokio::test]
async fn two_servers_may_serve_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (serve(folder.path()).await, serve(folder.path()).await);
    let put = one.client().put("k", "x").await;
    let got = two.client().get("k").await;
    assert_eq!((got.text(), got.header("etag")), ("x", put.header("etag")));
    assert_eq!(two.client().list(&[]).await.elements("Key"), ["k"]);
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_named() {
    let storage = Storage::Directory("/nowhere/at/all".into());
    let options = Options { storage, ..options(&[]) };
    let error = feedrate_s3_server::Server::bind(options).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all") && error.contains("make the folder"), "{error}");
}
