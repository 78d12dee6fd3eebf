//! What the server tells about itself.

use bytes::Bytes;
use feedrate_metrics::units::ByteCount;
use feedrate_s3_server::{GetRecord, RequestCounts};

use crate::client::{BUCKET, Parts, TestServer, options};

async fn gets(server: &TestServer) -> Vec<GetRecord> {
    let reply = server.client().unsigned("GET", "/_feedrate/gets").await.unwrap();
    serde_json::from_slice(&reply.body).unwrap()
}

#[tokio::test]
async fn requests_errors_and_bytes_are_counted_by_kind() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("a", vec![1; 1000]).await;
    client.put("b", vec![1; 500]).await;
    client.get("a").await;
    client.get_range("a", "bytes=0-9").await;
    client.get("missing").await;
    client.list(&[]).await;
    for (method, key) in [("HEAD", "a"), ("HEAD", ""), ("DELETE", "a"), ("PUT", "")] {
        let parts = Parts { method, bucket: BUCKET, key, ..Parts::default() };
        client.send(parts).await.unwrap();
    }

    let status = server.status().await;
    let expected = RequestCounts {
        get: 3,
        put: 2,
        list: 1,
        head: 2,
        delete: 1,
        other: 1,
        ..RequestCounts::default()
    };
    assert_eq!(status.requests, expected);
    assert_eq!(status.errors, 2, "the missing key, and the bucket that exists");
    assert_eq!(status.body_bytes_in, ByteCount(1500));
    assert!(status.body_bytes_out > ByteCount(1010));
    assert_eq!((status.gets_in_flight, status.gets_in_flight_max), (0, 1));
    assert!(status.cpu_seconds.is_some());
    assert!(status.peak_rss_bytes.unwrap() > ByteCount(0));
}

#[tokio::test]
async fn the_bytes_of_gets_are_exact() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("a", vec![1; 3_000_000]).await;
    client.unsigned("POST", "/_feedrate/reset").await.unwrap();
    client.get("a").await;
    client.get_range("a", "bytes=10-19").await;
    assert_eq!(server.status().await.body_bytes_out, ByteCount(3_000_010));
}

#[tokio::test]
async fn gets_are_in_flight_from_arrival_through_a_delay() {
    let server = TestServer::failing(&["get delay_first_byte=300ms"]).await;
    let client = server.client();
    client.put("k", "x").await;
    let five = futures::future::join_all((0..5).map(|_| client.get("k")));
    let during = async {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        server.status().await.gets_in_flight
    };
    let (replies, during) = futures::future::join(five, during).await;
    assert!(replies.iter().all(|reply| reply.text() == "x"));
    assert_eq!(during, 5);
    let status = server.status().await;
    assert_eq!((status.gets_in_flight, status.gets_in_flight_max), (0, 5));
}

#[tokio::test]
async fn a_get_whose_client_does_not_read_stays_in_flight_until_it_goes() {
    let server = TestServer::start().await;
    let client = server.client();
    // More than the socket buffers of both sides hold.
    client.put("k", vec![1; 64 << 20]).await;
    let stuck = client.open_get("k").await;
    let in_flight = |wanted| {
        let server = &server;
        async move {
            for _ in 0..200 {
                if server.status().await.gets_in_flight == wanted {
                    return true;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            false
        }
    };
    assert!(in_flight(1).await);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(server.status().await.gets_in_flight, 1);
    drop(stuck);
    assert!(in_flight(0).await);
}

#[tokio::test]
async fn a_reset_zeroes_what_a_run_counts() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("k", "x").await;
    client.get("k").await;
    let before = server.status().await;
    assert_eq!(client.unsigned("POST", "/_feedrate/reset").await.unwrap().status, 204);
    let after = server.status().await;
    assert_eq!(after.requests, RequestCounts::default());
    assert_eq!((after.body_bytes_in, after.body_bytes_out), (ByteCount(0), ByteCount(0)));
    assert_eq!(after.gets_in_flight_max, 0);
    assert!(after.cpu_seconds >= before.cpu_seconds);
    assert!(gets(&server).await.is_empty());
}

#[tokio::test]
async fn the_order_of_gets_is_told_when_it_is_recorded() {
    let server = TestServer::start().await;
    let client = server.client();
    for key in ["b", "a ü", "b"] {
        client.get(key).await;
    }
    let records = gets(&server).await;
    let keys: Vec<&str> = records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["b", "a ü", "b"]);
    assert!(records.iter().all(|record| record.bucket == BUCKET));
    assert!(records.is_sorted_by_key(|record| record.millis_since_start));

    let mut silent = options(&[]);
    silent.record_gets = false;
    let server = TestServer::with(silent).await;
    assert_eq!(server.client().unsigned("GET", "/_feedrate/gets").await.unwrap().status, 404);
}

#[tokio::test]
async fn own_paths_need_no_signature_and_other_ones_are_told() {
    let server = TestServer::start().await;
    let reply = server.client().unsigned("GET", "/_feedrate/other").await.unwrap();
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("/_feedrate/status"), "{}", reply.text());
    let status = server.client().unsigned("GET", "/_feedrate/status").await.unwrap();
    assert_eq!(status.header("content-type"), "application/json");
    assert_eq!(status.body.first(), Some(&b'{'));
    assert_ne!(status.body, Bytes::new());
}
