//! Who is let in.

use bytes::Bytes;

use crate::client::{BUCKET, Parts, TestServer};

#[tokio::test]
async fn a_wrong_secret_is_refused_for_every_operation() {
    let server = TestServer::start().await;
    let mut client = server.client();
    client.keys.secret_access_key.push('x');
    assert_eq!(client.get("k").await.error(), (403, "SignatureDoesNotMatch"));
    assert_eq!(client.list(&[]).await.error(), (403, "SignatureDoesNotMatch"));
    assert_eq!(client.put("k", "x").await.error(), (403, "SignatureDoesNotMatch"));
    assert_eq!(server.client().get("k").await.error(), (404, "NoSuchKey"));
}

#[tokio::test]
async fn an_unknown_key_id_is_refused() {
    let server = TestServer::start().await;
    let mut client = server.client();
    client.keys.access_key_id.push('x');
    assert_eq!(client.get("k").await.error(), (403, "InvalidAccessKeyId"));
}

#[tokio::test]
async fn no_signature_is_no_access() {
    let server = TestServer::start().await;
    let reply = server.client().unsigned("GET", "/data/k").await.unwrap();
    assert_eq!(reply.error(), (403, "AccessDenied"));
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = TestServer::start().await;
    let mut client = server.client();
    client.keys.secret_access_key.push('x');
    let put = Parts {
        method: "PUT",
        bucket: BUCKET,
        key: "k",
        payload: Some("UNSIGNED-PAYLOAD"),
        body: Bytes::from(vec![0; 32 << 20]),
        ..Parts::default()
    };
    assert_eq!(client.send(put).await.unwrap().error(), (403, "SignatureDoesNotMatch"));
}
