//! Putting, getting, heading and deleting objects.

use bytes::Bytes;
use http::StatusCode;

use crate::client::{BUCKET, Parts, TestServer};

fn crc32c_base64(body: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let crc = u64::from(crc32c::crc32c(body)) << 4;
    let digits = (0..6).rev().map(|at| DIGITS[(crc >> (6 * at)) as usize & 63] as char);
    digits.collect::<String>() + "=="
}

fn big_body() -> Bytes {
    (0..1_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test]
async fn what_was_put_is_what_is_got() {
    let server = TestServer::start().await;
    let client = server.client();
    for (key, body) in [("empty", Bytes::new()), ("small", "hello".into()), ("big", big_body())] {
        let put = client.put(key, body.clone()).await;
        assert_eq!(put.status, StatusCode::OK, "{}", put.text());
        let got = client.get(key).await;
        assert_eq!(got.status, StatusCode::OK);
        assert_eq!(got.body, body);
        assert_eq!(got.header("content-length"), body.len().to_string());
        assert_eq!(got.header("etag"), put.header("etag"));
        assert!(!got.header("last-modified").is_empty());
    }
}

#[tokio::test]
async fn a_second_put_replaces_the_object_and_its_etag() {
    let server = TestServer::start().await;
    let client = server.client();
    let first = client.put("k", "one").await;
    let second = client.put("k", "two").await;
    assert_ne!(first.header("etag"), second.header("etag"));
    assert_eq!(client.get("k").await.text(), "two");
}

#[tokio::test]
async fn ranges_are_cut_out_and_impossible_ones_refused() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("k", "0123456789").await;
    for (range, body, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=8-99", "89", "bytes 8-9/10"),
    ] {
        let got = client.get_range("k", range).await;
        assert_eq!(got.status, StatusCode::PARTIAL_CONTENT, "{range}");
        assert_eq!((got.text(), got.header("content-range")), (body, content_range));
    }
    assert_eq!(client.get_range("k", "bytes=10-").await.error(), (416, "InvalidRange"));
}

#[tokio::test]
async fn head_tells_about_objects_and_buckets() {
    let server = TestServer::start().await;
    let client = server.client();
    let headers = &[("content-type", "application/x-npz"), ("x-amz-meta-rank", "7")];
    let body = Bytes::from_static(b"12345");
    let put = Parts { method: "PUT", bucket: BUCKET, key: "k", headers, body, ..Parts::default() };
    client.send(put).await.unwrap();

    let head = |bucket, key| client.send(Parts { method: "HEAD", bucket, key, ..Parts::default() });
    let reply = head(BUCKET, "k").await.unwrap();
    assert_eq!((reply.status, reply.header("content-length")), (StatusCode::OK, "5"));
    assert_eq!(reply.header("content-type"), "application/x-npz");
    assert_eq!(reply.header("x-amz-meta-rank"), "7");
    assert_eq!(head(BUCKET, "other").await.unwrap().status, StatusCode::NOT_FOUND);
    assert_eq!(head(BUCKET, "").await.unwrap().status, StatusCode::OK);
    assert_eq!(head("other", "").await.unwrap().status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_deleted_object_is_gone_and_may_be_deleted_again() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("k", "x").await;
    for _ in 0..2 {
        let delete = Parts { method: "DELETE", bucket: BUCKET, key: "k", ..Parts::default() };
        assert_eq!(client.send(delete).await.unwrap().status, StatusCode::NO_CONTENT);
        assert_eq!(client.get("k").await.error(), (404, "NoSuchKey"));
    }
}

#[tokio::test]
async fn a_missing_bucket_is_named_until_it_is_created() {
    let server = TestServer::start().await;
    let client = server.client();
    let send = |method, key, query| {
        let parts = Parts { method, bucket: "later", key, query, ..Parts::default() };
        let client = client.clone();
        async move { client.send(parts).await.unwrap() }
    };
    let list: &[(&str, &str)] = &[("list-type", "2")];
    assert_eq!(send("GET", "k", &[]).await.error(), (404, "NoSuchBucket"));
    assert_eq!(send("PUT", "k", &[]).await.error(), (404, "NoSuchBucket"));
    assert_eq!(send("GET", "", list).await.error(), (404, "NoSuchBucket"));
    assert_eq!(send("PUT", "", &[]).await.status, StatusCode::OK);
    assert_eq!(send("PUT", "", &[]).await.error(), (409, "BucketAlreadyOwnedByYou"));
    assert_eq!(send("GET", "", list).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_keep_every_character() {
    let server = TestServer::start().await;
    let client = server.client();
    let keys = ["ds a+b%20/ü=1&x", "/leading", "a//b", "q?#[]@!$'()*,;:", "日本/🙂", "tail/"];
    for key in keys {
        assert_eq!(client.put(key, key).await.status, StatusCode::OK, "{key}");
    }
    for key in keys {
        assert_eq!(client.get(key).await.text(), key);
    }
    let listed = client.list(&[]).await;
    let mut sorted = keys.map(|key| key.replace('&', "&amp;"));
    sorted.sort();
    let unquoted: Vec<String> =
        listed.elements("Key").iter().map(|key| key.replace("&apos;", "'")).collect();
    assert_eq!(unquoted, sorted);
}

#[tokio::test]
async fn a_body_may_be_unsigned() {
    let server = TestServer::start().await;
    let client = server.client();
    let body = big_body();
    let put = Parts {
        method: "PUT",
        bucket: BUCKET,
        key: "k",
        payload: Some("UNSIGNED-PAYLOAD"),
        headers: &[("x-amz-checksum-crc32c", &crc32c_base64(&body))],
        body: body.clone(),
        ..Parts::default()
    };
    let reply = client.send(put).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.header("x-amz-checksum-crc32c"), crc32c_base64(&body));
    assert_eq!(client.get("k").await.body, body);
}

#[tokio::test]
async fn a_body_that_is_not_what_was_announced_leaves_nothing_behind() {
    let server = TestServer::start().await;
    let client = server.client();
    let put = |payload, headers: &'static [(&'static str, &'static str)]| {
        client.send(Parts {
            method: "PUT",
            bucket: BUCKET,
            key: "k",
            payload: Some(payload),
            headers,
            body: big_body(),
            ..Parts::default()
        })
    };
    let wrong_crc = put("UNSIGNED-PAYLOAD", &[("x-amz-checksum-crc32c", "AAAAAA==")]);
    assert_eq!(wrong_crc.await.unwrap().error(), (400, "BadDigest"));
    let hash_of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let wrong_hash = put(hash_of_nothing, &[]);
    assert_eq!(wrong_hash.await.unwrap().error(), (400, "XAmzContentSHA256Mismatch"));
    assert_eq!(client.get("k").await.error(), (404, "NoSuchKey"));
}

/// Chunks of aws-chunked coding, with a CRC32C behind them.
fn chunked(body: &[u8], crc: &str) -> Bytes {
    let mut coded = Vec::new();
    for chunk in body.chunks(65_536) {
        coded.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        coded.extend_from_slice(chunk);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(format!("0\r\nx-amz-checksum-crc32c:{crc}\r\n\r\n").as_bytes());
    coded.into()
}

#[tokio::test]
async fn a_checksum_may_come_behind_the_body() {
    let server = TestServer::start().await;
    let client = server.client();
    let body = big_body();
    let length = body.len().to_string();
    let headers = [
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", length.as_str()),
        ("x-amz-trailer", "x-amz-checksum-crc32c"),
    ];
    let put = |crc: &str| {
        client.send(Parts {
            method: "PUT",
            bucket: BUCKET,
            key: "k",
            payload: Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            headers: &headers,
            body: chunked(&body, crc),
            ..Parts::default()
        })
    };
    assert_eq!(put("AAAAAA==").await.unwrap().error(), (400, "BadDigest"));
    let reply = put(&crc32c_base64(&body)).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(client.get("k").await.body, body);
}

#[tokio::test]
async fn what_is_not_supported_is_refused() {
    let server = TestServer::start().await;
    let client = server.client();
    client.put("k", "x").await;
    let send = |method, query, headers: &'static [(&'static str, &'static str)]| {
        client.send(Parts { method, bucket: BUCKET, key: "k", query, headers, ..Parts::default() })
    };
    for reply in [
        send("PUT", &[], &[("x-amz-tagging", "a=b")]).await,
        send("PUT", &[], &[("x-amz-copy-source", "/data/k?versionId=1")]).await,
        send("GET", &[("partNumber", "1")], &[]).await,
        send("GET", &[("versionId", "1")], &[]).await,
        send("DELETE", &[("versionId", "1")], &[]).await,
        send("GET", &[("tagging", "")], &[]).await,
    ] {
        assert_eq!(reply.unwrap().error(), (501, "NotImplemented"));
    }
}
