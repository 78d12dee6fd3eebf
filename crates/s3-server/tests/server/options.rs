//! What can be chosen of a server besides what a test needs.

use std::time::Duration;

use feedrate_s3_server::{
    Access, AccessLogTarget, Account, KeyPair, Options, Server, StartError, Storage,
};

use crate::client::{BUCKET, Parts, TestServer, options};

#[tokio::test]
async fn memory_beyond_the_limit_is_refused_with_the_figures() {
    let limit = Some("1MiB".parse().unwrap());
    let options = Options { storage: Storage::Memory { limit }, ..options(&[]) };
    let server = TestServer::with(options).await;
    let client = server.client();
    client.put("a", vec![1; 700 << 10]).await;
    let refused = client.put("b", vec![1; 400 << 10]).await;
    assert_eq!(refused.error(), (507, "InsufficientStorage"));
    let message = refused.element("Message");
    for told in ["400.0 KiB", "700.0 KiB", "1.0 MiB", "--max-memory"] {
        assert!(message.contains(told), "{message}");
    }
    let delete = Parts { method: "DELETE", bucket: BUCKET, key: "a", ..Parts::default() };
    client.send(delete).await.unwrap();
    // What is given back is what nobody reads any more.
    assert_eq!(client.put("b", vec![1; 400 << 10]).await.status, 200);
    assert_eq!(client.get("b").await.body.len(), 400 << 10);
}

#[tokio::test]
async fn each_pair_of_keys_has_its_own_secret_and_rights() {
    let keys = |id: &str, secret: &str| KeyPair {
        access_key_id: id.into(),
        secret_access_key: secret.into(),
    };
    let writer = Account { keys: keys("WRITER", "one"), access: Access::ReadWrite };
    let reader = Account { keys: keys("READER", "two"), access: Access::ReadOnly };
    let accounts = vec![writer.clone(), reader.clone()];
    let server = TestServer::with(Options { accounts, ..options(&[]) }).await;
    let with = |keys: &KeyPair| {
        let mut client = server.client();
        client.keys = keys.clone();
        client
    };
    assert_eq!(with(&writer.keys).put("k", "x").await.status, 200);
    assert_eq!(with(&reader.keys).get("k").await.text(), "x");
    assert_eq!(with(&reader.keys).put("k", "y").await.error(), (403, "AccessDenied"));
    assert_eq!(with(&keys("WRITER", "two")).get("k").await.error(), (403, "SignatureDoesNotMatch"));
    assert_eq!(server.client().get("k").await.error(), (403, "InvalidAccessKeyId"));
    assert_eq!(with(&reader.keys).get("k").await.text(), "x");

    let twice = vec![writer.clone(), writer];
    let error = Server::bind(Options { accounts: twice, ..options(&[]) }).await.unwrap_err();
    assert!(matches!(&error, StartError::KeyTwice { access_key_id } if access_key_id == "WRITER"));
    assert!(!error.to_string().contains("one"), "{error}");
}

#[tokio::test]
async fn a_host_below_a_domain_names_the_bucket() {
    let domains = vec!["s3.test".to_owned()];
    let server = TestServer::with(Options { domains, ..options(&[]) }).await;
    let mut client = server.client();
    client.put("a/k", "x").await;
    client.host = Some("data.s3.test:9000".to_owned());
    let get = Parts { method: "GET", key: "a/k", ..Parts::default() };
    assert_eq!(client.send(get).await.unwrap().text(), "x");
    // The server's own pages are pages of the server, not of its buckets.
    let own = Parts { method: "GET", key: "_feedrate/status", ..Parts::default() };
    assert_eq!(client.send(own).await.unwrap().error(), (404, "NoSuchKey"));
    assert_eq!(server.status().await.requests.get, 2);

    let wrong = Options { domains: vec!["a.test:9000".into()], ..options(&[]) };
    assert!(matches!(Server::bind(wrong).await, Err(StartError::Domain { .. })));
}

#[tokio::test]
async fn each_request_leaves_a_line_in_the_access_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access_log = Some(AccessLogTarget::File(path.clone()));
    let faults = vec!["get key=gone reset".parse().unwrap()];
    let options = Options { access_log, faults, ..options(&[]) };
    let mut server = TestServer::with(options).await;
    let client = server.client();
    client.put("a b", vec![1; 1000]).await;
    client.get("a b").await;
    client.get_range("a b", "bytes=0-9").await;
    client.get("missing").await;
    assert!(client.send_get("gone").await.is_err());
    client.unsigned("GET", "/data/a%20b").await.unwrap();
    client.unsigned("GET", "/_feedrate/status").await.unwrap();
    let lines = || {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for _ in 0..100 {
        if lines().len() == 6 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(lines().len(), 6, "lines are written while the server runs");
    client.put("last", "x").await;
    server.stop.take().unwrap().send(()).unwrap();
    (&mut server.task).await.unwrap();

    let lines = lines();
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 8, "{line}");
            assert!(words[0].ends_with('Z') && words[7].parse::<f64>().is_ok(), "{line}");
            let bytes = if words[5] == "200" || words[5] == "206" { words[6] } else { "" };
            [&words[1..6], &[bytes]].concat().join(" ")
        })
        .collect();
    let expected = [
        "AKIATEST PUT data/a%20b - 200 1000",
        "AKIATEST GET data/a%20b - 200 1000",
        "AKIATEST GET data/a%20b bytes=0-9 206 10",
        "AKIATEST GET data/missing - 404 ",
        "AKIATEST GET data/gone - - ",
        "- GET data/a%20b - 403 ",
        "AKIATEST PUT data/last - 200 1",
    ];
    let mut sorted = shown.clone();
    // A line is written when its answer has been sent, which two connections do in either order.
    sorted.sort();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(sorted, wanted);
    assert!(!lines.concat().contains("secret"));
}

#[tokio::test]
async fn parts_and_copies_are_counted_apart_and_fail_like_writes() {
    let faults = vec!["put key=bad status=503".parse().unwrap()];
    let server = TestServer::with(Options { faults, ..options(&[]) }).await;
    let client = server.client();
    client.put("k", "x").await;
    let send = |method, key, query, headers| {
        let parts = Parts {
            method,
            bucket: BUCKET,
            key,
            query,
            headers,
            body: "x".into(),
            ..Parts::default()
        };
        let client = client.clone();
        async move { client.send(parts).await.unwrap() }
    };
    let part = [("partNumber", "1"), ("uploadId", "none")];
    assert_eq!(send("PUT", "k", &part, &[]).await.error(), (404, "NoSuchUpload"));
    assert_eq!(send("PUT", "bad", &part, &[]).await.error(), (503, "SlowDown"));
    let source = [("x-amz-copy-source", "/data/k")];
    assert_eq!(send("PUT", "copy", &[], &source).await.status, 200);
    let counted = server.status().await.requests;
    assert_eq!((counted.put, counted.part, counted.copy), (1, 2, 1));
}
