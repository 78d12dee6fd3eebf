//! What the server does wrong on purpose.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::client::{BUCKET, Parts, TestServer};

#[tokio::test]
async fn a_status_is_sent_as_s3_sends_it() {
    let server = TestServer::failing(&[
        "get key=*img_3* attempt=1 status=503",
        "list key=down/ status=500",
        "head status=429 code=Busy",
        "get key=busy status=429 code=Busy",
        "delete status=403",
    ])
    .await;
    let client = server.client();
    client.put("img_3.npz", "x").await;
    let slow_down = client.get("img_3.npz").await;
    assert_eq!(slow_down.error(), (503, "SlowDown"));
    assert!(!slow_down.element("Message").is_empty());
    assert_eq!(client.get("img_3.npz").await.text(), "x");
    assert_eq!(client.get("busy").await.error(), (429, "Busy"));
    assert_eq!(client.list(&[("prefix", "down/")]).await.error(), (500, "InternalError"));
    assert_eq!(client.list(&[("prefix", "up/")]).await.status, 200);
    let send = |method| Parts { method, bucket: BUCKET, key: "k", ..Parts::default() };
    assert_eq!(client.send(send("HEAD")).await.unwrap().status, 429);
    assert_eq!(client.send(send("DELETE")).await.unwrap().error(), (403, "AccessDenied"));

    let status = server.status().await;
    assert_eq!((status.errors, status.requests.get), (5, 3));
}

#[tokio::test]
async fn a_refused_put_gets_its_answer_and_writes_nothing() {
    let server = TestServer::failing(&["put status=403 from=2"]).await;
    let client = server.client();
    assert_eq!(client.put("a", "x").await.status, 200);
    for key in ["b", "c"] {
        assert_eq!(client.put(key, vec![0; 8 << 20]).await.error(), (403, "AccessDenied"));
    }
    assert_eq!(client.list(&[]).await.elements("Key"), ["a"]);
}

#[tokio::test]
async fn delays_add_up_before_the_answer() {
    let rules = ["get delay_first_byte=60ms", "any delay_first_byte=40ms", "get key=b status=500"];
    let server = TestServer::failing(&rules).await;
    let client = server.client();
    for (key, status) in [("a", 404), ("b", 500)] {
        let start = Instant::now();
        assert_eq!(client.get(key).await.status, status);
        assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_reset_breaks_the_connection_without_an_answer() {
    let server = TestServer::failing(&["any count=2 reset"]).await;
    let client = server.client();
    let get = || Parts { method: "GET", bucket: BUCKET, key: "k", ..Parts::default() };
    for _ in 0..2 {
        let error = client.send(get()).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap();
        let source = source.downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(client.send(get()).await.unwrap().status, 404);
    let status = server.status().await;
    assert_eq!((status.requests.get, status.errors, status.gets_in_flight), (3, 3, 0));
}

#[tokio::test]
async fn rules_see_requests_before_their_signature_is_checked() {
    let server = TestServer::failing(&["get status=503"]).await;
    let mut client = server.client();
    client.keys.secret_access_key.push('x');
    assert_eq!(client.get("k").await.error(), (503, "SlowDown"));
}
