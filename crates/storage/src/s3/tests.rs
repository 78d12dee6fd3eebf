use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use feedrate_metrics::requests::RequestStats;

use super::*;
use crate::{Credentials, RetryPolicy, Retrying};
use scripted::{Reply, Server};

/// Makes tests of checks that hold for GETs by either engine and are given the one to try.
macro_rules! with_both_engines {
    ($($check:ident),* $(,)?) => {
        mod with_feedrate {
            $(
                #[tokio::test]
                async fn $check() {
                    super::$check(crate::GetEngine::Feedrate).await;
                }
            )*
        }

        mod with_object_store {
            $(
                #[tokio::test]
                async fn $check() {
                    super::$check(crate::GetEngine::ObjectStore).await;
                }
            )*
        }
    };
}

mod embedded;
mod multipart;
mod scripted;
mod tls;

with_both_engines! {
    a_read_is_one_signed_request_over_a_kept_connection,
    names_are_escaped_once_on_the_wire,
    names_that_a_url_would_change_are_refused_before_anything_is_sent,
    refusals_are_told_with_status_code_and_message,
    a_refused_key_is_named_by_its_beginning_and_its_source,
    broken_connections_and_bodies_are_told_apart,
    a_discarded_body_is_missed_where_it_ends_early,
    a_range_with_less_in_it_than_asked_for_is_truncated,
    a_silent_server_is_left_when_the_attempts_time_is_over,
    the_first_byte_is_the_bodys_and_not_the_heads,
    an_endpoint_that_is_not_there_is_named_with_the_systems_reason,
    a_connection_that_is_not_made_in_time_is_a_connection_failure,
    a_repeated_read_delivers_its_bytes_once,
    a_refusal_is_one_request,
    a_session_token_goes_with_a_read,
    a_tail_is_one_request_and_that_of_an_empty_object_two,
}

/// The settings of most tests: a short limit, so that a hang is soon a failure.
fn settings(endpoint: &str) -> S3Settings {
    let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", "hush-hush", None, "a test");
    S3Settings {
        attempt_timeout: Duration::from_secs(10),
        ..S3Settings::new(Some(endpoint.to_owned()), "data", credentials)
    }
}

/// The settings for a scripted server.
fn settings_by(engine: GetEngine, server: &Server) -> S3Settings {
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    S3Settings { get_engine: engine, ..settings(&endpoint) }
}

fn store_by(engine: GetEngine, server: &Server) -> S3Store {
    S3Store::new(settings_by(engine, server)).unwrap()
}

fn store(server: &Server) -> S3Store {
    store_by(GetEngine::default(), server)
}

fn retrying(store: S3Store) -> (Retrying<S3Store>, Arc<RequestStats>) {
    let stats = Arc::new(RequestStats::new());
    let policy = RetryPolicy { first_wait: Duration::from_millis(4), ..RetryPolicy::default() };
    (Retrying::new(store, policy, Arc::clone(&stats)), stats)
}

async fn get(store: &impl Store) -> Result<(Fetched, Vec<u8>), StoreError> {
    let mut buffer = Vec::new();
    let fetched = store.get(&ObjectKey::new("key"), None, &mut buffer).await?;
    Ok((fetched, buffer))
}

/// What a GET fails with when the server does this.
async fn cause(engine: GetEngine, reply: Reply) -> Cause {
    let server = Server::play([reply]).await;
    let store = store_by(engine, &server);
    let mut buffer = b"kept".to_vec();
    let error = store.get(&ObjectKey::new("key"), None, &mut buffer).await.unwrap_err();
    assert_eq!(buffer, b"kept");
    assert_eq!(server.lines(), ["GET /data/key HTTP/1.1"], "one attempt, and nothing beside it");
    *error.cause
}

async fn a_read_is_one_signed_request_over_a_kept_connection(engine: GetEngine) {
    let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
    let server = Server::play((0..20).map(|_| Reply::ok(body.clone()))).await;
    let store = store_by(engine, &server);
    let mut buffer = Vec::new();
    for _ in 0..20 {
        buffer.clear();
        let fetched = store.get(&ObjectKey::new("key"), None, &mut buffer).await.unwrap();
        assert_eq!(fetched.bytes, 300_000);
        assert!(buffer == body);
    }
    assert_eq!(server.lines(), vec!["GET /data/key HTTP/1.1"; 20]);
    assert_eq!(server.connections(), 1);
    let seen = &server.seen()[0];
    let signature = seen.header("authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"));
    assert!(signature.contains("/us-east-1/s3/aws4_request"), "{signature}");
    assert_eq!(seen.header("host"), Some(format!("127.0.0.1:{}", server.port).as_str()));
}

async fn a_session_token_goes_with_a_read(engine: GetEngine) {
    let server = Server::play([Reply::ok("x")]).await;
    let mut settings = settings_by(engine, &server);
    settings.credentials =
        Credentials::new("AKIA", "secret", Some("the-token".to_owned()), "a test");
    settings.region = "eu-central-1".to_owned();
    get(&S3Store::new(settings).unwrap()).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.header("x-amz-security-token"), Some("the-token"));
    let signature = seen.header("authorization").unwrap();
    assert!(signature.contains("/eu-central-1/s3/aws4_request"), "{signature}");
    assert!(signature.contains(";x-amz-security-token,"), "{signature}");
}

async fn a_tail_is_one_request_and_that_of_an_empty_object_two(engine: GetEngine) {
    let server = Server::play([
        Reply::Answer(206, "Content-Range: bytes 6-9/10\r\n", b"6789".to_vec()),
        Reply::Answer(206, "Content-Range: bytes 5-8/10\r\n", b"5678".to_vec()),
        Reply::error(416, "InvalidRange", "Not satisfiable."),
        Reply::ok(""),
    ])
    .await;
    let (store, key) = (store_by(engine, &server), ObjectKey::new("key"));
    let mut buffer = b"kept".to_vec();
    let (fetched, size) = store.get_tail(&key, 4, &mut buffer).await.unwrap();
    assert_eq!((fetched.bytes, size, buffer.as_slice()), (4, 10, &b"kept6789"[..]));
    let other = store.get_tail(&key, 4, &mut buffer).await.unwrap_err();
    assert!(matches!(*other.cause, Cause::Other(_)), "{other:?}");
    let (fetched, size) = store.get_tail(&key, 4, &mut buffer).await.unwrap();
    assert_eq!((fetched.bytes, size, buffer.as_slice()), (0, 0, &b"kept6789"[..]));
    assert_eq!(server.lines(), vec!["GET /data/key HTTP/1.1"; 4]);
    let asked: Vec<_> =
        server.seen().iter().map(|seen| seen.header("range").map(str::to_owned)).collect();
    let tail = Some("bytes=-4".to_owned());
    assert_eq!(asked, [tail.clone(), tail.clone(), tail, None]);
}

async fn names_are_escaped_once_on_the_wire(engine: GetEngine) {
    let server = Server::play([Reply::ok(""), Reply::ok("x")]).await;
    let store = store_by(engine, &server);
    let key = ObjectKey::new("ds a+b%20/ü=1&x/f");
    store.put(&key, Bytes::new()).await.unwrap();
    store.get(&key, None, &mut Vec::new()).await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "PUT /data/ds%20a%2Bb%2520/%C3%BC%3D1%26x/f HTTP/1.1",
            "GET /data/ds%20a%2Bb%2520/%C3%BC%3D1%26x/f HTTP/1.1",
        ]
    );
}

async fn names_that_a_url_would_change_are_refused_before_anything_is_sent(engine: GetEngine) {
    let server = Server::play([]).await;
    let store = store_by(engine, &server);
    for key in ["", "a/./b", "a/../b", "a/", "a\nb"] {
        let key = ObjectKey::new(key);
        for error in [
            store.put(&key, Bytes::new()).await.unwrap_err(),
            store.get_discarding(&key, None).await.unwrap_err(),
        ] {
            assert!(error.to_string().contains("cannot be addressed"), "{error}");
        }
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_key_that_is_a_whole_uri_stays_one() {
    let server = Server::play([Reply::ok("x")]).await;
    let key = ObjectKey::new("s3://data/unet3d/train/x");
    store(&server).get(&key, None, &mut Vec::new()).await.unwrap();
    assert_eq!(server.lines(), ["GET /data/s3%3A//data/unet3d/train/x HTTP/1.1"]);
}

#[tokio::test]
async fn a_key_that_object_store_cannot_name_is_refused_and_never_another_one() {
    let server = Server::play([]).await;
    let store = store_by(GetEngine::ObjectStore, &server);
    for key in ["s3://data/unet3d/train/x", "a//b"] {
        let error = store.get_discarding(&ObjectKey::new(key), None).await.unwrap_err();
        assert!(matches!(*error.cause, Cause::Other(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(key) && text.contains("object_store has no name for"), "{text}");
        assert!(text.contains("use storage.storage_options.get_engine: feedrate"), "{text}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_size_is_one_head_and_a_removal_one_delete() {
    let server = Server::play([
        Reply::Answer(200, "Content-Length: 12345\r\n", Vec::new()),
        Reply::Answer(204, "", Vec::new()),
        Reply::Answer(404, "", Vec::new()),
        Reply::error(404, "NoSuchKey", "The key"),
        Reply::error(404, "NoSuchBucket", "The bucket"),
        Reply::error(403, "AccessDenied", "Access Denied."),
    ])
    .await;
    let store = store(&server);
    let key = ObjectKey::new("key");
    assert_eq!(store.size(&key).await.unwrap(), 12_345);
    store.delete(&key).await.unwrap();
    let error = store.size(&key).await.unwrap_err();
    assert!(error.to_string().starts_with("HEAD key at s3://data at"), "{error}");
    assert!(error.to_string().ends_with("it does not exist (404 Not Found)"), "{error}");
    store.delete(&key).await.unwrap();
    let error = store.delete(&key).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::NoSuchBucket), "{error:?}");
    let error = store.delete(&key).await.unwrap_err().to_string();
    assert!(error.starts_with("DELETE key at") && error.contains("403 AccessDenied"), "{error}");
    let (head, delete) = ("HEAD /data/key HTTP/1.1", "DELETE /data/key HTTP/1.1");
    assert_eq!(server.lines(), [head, delete, head, delete, delete, delete]);
}

#[tokio::test]
async fn an_answer_in_chunks_is_read_to_its_end() {
    let chunks = "Transfer-Encoding: chunked\r\n";
    let server = Server::play([
        Reply::Answer(200, chunks, b"4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n".to_vec()),
        Reply::Answer(200, chunks, b"4\r\n0123\r\nno length\r\n".to_vec()),
    ])
    .await;
    let store = store(&server);
    assert_eq!(get(&store).await.unwrap().1, b"0123456789");
    assert!(get(&store).await.is_err());
}

#[tokio::test]
async fn object_store_says_that_it_takes_no_answer_in_chunks() {
    let chunks = Reply::Answer(200, "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n".to_vec());
    let cause = cause(GetEngine::ObjectStore, chunks).await;
    let Cause::Other(text) = cause else { panic!("{cause:?}") };
    assert_eq!(
        text,
        "object_store cannot use the answer: Content-Length Header missing from response"
    );
}

#[tokio::test]
async fn an_upload_carries_a_signed_crc32c_instead_of_a_signed_body() {
    let server = Server::play([Reply::ok("")]).await;
    store(&server).put(&ObjectKey::new("key"), Bytes::from_static(b"123456789")).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.body, b"123456789");
    assert_eq!(seen.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    // The check value of CRC-32C, 0xE3069283, as base64.
    assert_eq!(seen.header("x-amz-checksum-crc32c"), Some("4waSgw=="));
    let signature = seen.header("authorization").unwrap();
    let signed = signature.split("SignedHeaders=").nth(1).unwrap();
    assert!(signed.contains("x-amz-checksum-crc32c;"), "{signature}");
}

#[tokio::test]
async fn a_signed_upload_hashes_its_body() {
    let server = Server::play([Reply::ok("")]).await;
    let mut settings = settings(&format!("http://127.0.0.1:{}", server.port));
    settings.sign_payload = true;
    let token = Some("the-token".to_owned());
    settings.credentials = Credentials::new("AKIA", "secret", token, "a test");
    let store = S3Store::new(settings).unwrap();
    store.put(&ObjectKey::new("key"), Bytes::from_static(b"abc")).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(
        seen.header("x-amz-content-sha256"),
        Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    );
    assert_eq!(seen.header("x-amz-checksum-crc32c"), None);
    assert_eq!(seen.header("x-amz-security-token"), Some("the-token"));
}

async fn refusals_are_told_with_status_code_and_message(engine: GetEngine) {
    let slow = Reply::Answer(
        503,
        "Retry-After: 7\r\n",
        b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            .to_vec(),
    );
    let Cause::Status { status: 503, code, message, retry_after } = cause(engine, slow).await
    else {
        panic!();
    };
    assert_eq!(code.as_deref(), Some("SlowDown"));
    assert_eq!(message.as_deref(), Some("Please reduce your request rate."));
    assert_eq!(retry_after, Some(Duration::from_secs(7)));

    assert!(matches!(
        cause(engine, Reply::error(404, "NoSuchKey", "The key")).await,
        Cause::NotFound { code: Some(code) } if code == "NoSuchKey"
    ));
    assert!(matches!(
        cause(engine, Reply::error(404, "NoSuchBucket", "The bucket")).await,
        Cause::NoSuchBucket
    ));
    for (reply, text) in [
        (Reply::Answer(404, "", Vec::new()), "it does not exist (404 Not Found)"),
        (Reply::Answer(502, "", b"<html>Bad gateway".to_vec()), "502"),
        (Reply::Answer(500, "", b"<Error><Code>InternalErr".to_vec()), "500"),
        (
            Reply::error(301, "PermanentRedirect", "Use the &lt;endpoint&gt;."),
            "301 PermanentRedirect: Use the <endpoint>.",
        ),
        (Reply::Answer(307, "Location: http://b/\r\n", Vec::new()), "307"),
    ] {
        assert_eq!(cause(engine, reply).await.to_string(), text);
    }
}

async fn a_refused_key_is_named_by_its_beginning_and_its_source(engine: GetEngine) {
    let denied = Reply::error(403, "SignatureDoesNotMatch", "The signature does not match.");
    let server = Server::play([denied, Reply::Answer(403, "", Vec::new())]).await;
    let store = store_by(engine, &server);
    let error = get(&store).await.unwrap_err().to_string();
    let location = format!("s3://data at http://127.0.0.1:{}", server.port);
    assert!(error.starts_with(&format!("GET key at {location} failed after 1 attempt in ")));
    assert!(
        error.contains(
            ": 403 SignatureDoesNotMatch: The signature does not match. (signed with access key \
             AKIA… from a test). Check that"
        ),
        "{error}"
    );
    let bare = get(&store).await.unwrap_err().to_string();
    assert!(bare.contains(": 403: signed with access key AKIA… from a test"), "{bare}");
    let debug = format!("{store:?} {:?}", store.put(&ObjectKey::new("k"), Bytes::new()).await);
    assert!(!debug.contains("hush"), "{debug}");
}

async fn broken_connections_and_bodies_are_told_apart(engine: GetEngine) {
    let half = vec![7; 32_768];
    assert!(matches!(cause(engine, Reply::Reset).await, Cause::Reset { .. }));
    let reset = cause(engine, Reply::ResetAfter(66_034, half)).await;
    assert!(matches!(reset, Cause::Reset { .. }), "{reset:?}");
    let short = cause(engine, Reply::Short(66_034, vec![7; 60_000])).await;
    assert_eq!(short.to_string(), "the body ended after 60000 of 66034 bytes");
    let closed = cause(engine, Reply::Short(66_034, Vec::new())).await;
    assert!(
        matches!(closed, Cause::Truncated { expected: Some(66_034), received: 0 }),
        "{closed:?}"
    );
    let garbage = cause(engine, Reply::Garbage).await.to_string();
    assert!(garbage.contains("not HTTP"), "{garbage}");
}

async fn a_discarded_body_is_missed_where_it_ends_early(engine: GetEngine) {
    let server = Server::play([Reply::Short(66_034, vec![7; 60_000])]).await;
    let key = ObjectKey::new("key");
    let error = store_by(engine, &server).get_discarding(&key, None).await.unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("the body ended after 60000 of 66034 bytes"), "{text}");
}

#[tokio::test]
async fn a_body_in_chunks_is_missed_where_it_ends_early() {
    let short = Reply::ShortChunks(b"5\r\nhello\r\n".to_vec());
    let chunks = cause(GetEngine::Feedrate, short).await;
    assert!(matches!(chunks, Cause::Truncated { expected: None, received: 5 }), "{chunks:?}");
    assert_eq!(
        chunks.to_string(),
        "the body ended after 5 bytes and was not whole (its length was not announced)"
    );
}

#[tokio::test]
async fn a_listing_that_is_cut_says_how_much_of_it_came() {
    let server = Server::play([Reply::Short(500, b"<ListBucketResult>".to_vec())]).await;
    let error = store(&server).list("", &mut |_| ()).await.unwrap_err().to_string();
    assert!(error.ends_with("the body ended after 18 of 500 bytes"), "{error}");
}

async fn a_range_with_less_in_it_than_asked_for_is_truncated(engine: GetEngine) {
    let partial = |range, body: &str| Reply::Answer(206, range, body.into());
    let server = Server::play([
        partial("Content-Range: bytes 2-4/10\r\n", "234"),
        partial("Content-Range: bytes 8-9/10\r\n", "89"),
        Reply::ok("0123456789"),
        partial("Content-Range: bytes 3-5/10\r\n", "345"),
        partial("", "234"),
    ])
    .await;
    let store = store_by(engine, &server);
    let key = ObjectKey::new("key");
    let mut buffer = Vec::new();
    assert_eq!(store.get(&key, Some(2..5), &mut buffer).await.unwrap().bytes, 3);
    assert_eq!(buffer, b"234");
    assert_eq!(server.seen()[0].header("range"), Some("bytes=2-4"));
    let error = store.get(&key, Some(8..12), &mut buffer).await.unwrap_err();
    assert!(
        matches!(*error.cause, Cause::Truncated { expected: Some(4), received: 2 }),
        "{error:?}"
    );
    // A server that ignores the range sends the whole object, or another part of it.
    for _ in 0..3 {
        let error = store.get(&key, Some(2..5), &mut buffer).await.unwrap_err();
        assert!(matches!(*error.cause, Cause::Other(_)), "{error:?}");
        let says = match engine {
            GetEngine::Feedrate => "did not answer with the range 2..5 of the object",
            GetEngine::ObjectStore => "object_store cannot use the answer: ",
        };
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(buffer, b"234");
}

async fn a_silent_server_is_left_when_the_attempts_time_is_over(engine: GetEngine) {
    let server = Server::play([Reply::Silence, Reply::Late(Duration::from_mins(1), vec![1])]).await;
    let limit = Duration::from_millis(200);
    let mut settings = settings_by(engine, &server);
    settings.attempt_timeout = limit;
    let store = S3Store::new(settings).unwrap();
    for _ in 0..2 {
        let error = get(&store).await.unwrap_err();
        assert!(matches!(*error.cause, Cause::Timeout { limit: of } if of == limit), "{error:?}");
        assert!(error.elapsed >= limit);
        assert!(error.to_string().contains("no answer within the time limit of 200ms"), "{error}");
    }
}

#[tokio::test]
async fn a_list_that_is_not_answered_is_left_sooner_than_a_body() {
    let server = Server::play([Reply::Silence]).await;
    let limit = Duration::from_millis(200);
    let mut settings = settings(&format!("http://127.0.0.1:{}", server.port));
    settings.list_timeout = limit;
    let store = S3Store::new(settings).unwrap();
    let error = store.list("train", &mut |_| {}).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Timeout { limit: of } if of == limit), "{error:?}");
}

async fn the_first_byte_is_the_bodys_and_not_the_heads(engine: GetEngine) {
    let wait = Duration::from_millis(150);
    let server = Server::play([Reply::Late(wait, vec![1; 10]), Reply::ok("")]).await;
    let store = store_by(engine, &server);
    let (fetched, _) = get(&store).await.unwrap();
    assert!(fetched.first_byte >= wait, "{fetched:?}");
    assert!(fetched.last_byte >= fetched.first_byte, "{fetched:?}");
    let (empty, _) = get(&store).await.unwrap();
    assert_eq!(empty.first_byte, empty.last_byte);
}

async fn an_endpoint_that_is_not_there_is_named_with_the_systems_reason(engine: GetEngine) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let settings = |endpoint: &str| S3Settings { get_engine: engine, ..settings(endpoint) };
    let store = S3Store::new(settings(&format!("http://127.0.0.1:{port}"))).unwrap();
    let error = get(&store).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Connect { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("s3://data at http://127.0.0.1:{port}")), "{text}");
    assert!(text.contains("cannot connect: Connection refused"), "{text}");

    let store = S3Store::new(settings("http://no-such-host.invalid:9000")).unwrap();
    let error = get(&store).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("http://no-such-host.invalid:9000"), "{error}");
}

async fn a_connection_that_is_not_made_in_time_is_a_connection_failure(engine: GetEngine) {
    // Accepted by the kernel, but nobody answers the TLS greeting.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ca, _) = tls::authority();
    let store = S3Store::new(S3Settings {
        connect_timeout: Duration::from_millis(200),
        ca_bundle: Some(ca.path().to_owned()),
        get_engine: engine,
        ..settings(&format!("https://127.0.0.1:{port}"))
    });
    let error = get(&store.unwrap()).await.unwrap_err();
    assert_eq!(
        error.cause.to_string(),
        "cannot connect: no connection within the time limit of 200ms"
    );
}

async fn a_repeated_read_delivers_its_bytes_once(engine: GetEngine) {
    let body = vec![7; 66_034];
    let server = Server::play([
        Reply::ResetAfter(66_034, vec![7; 32_768]),
        Reply::error(503, "SlowDown", "Slow down."),
        Reply::Short(66_034, vec![7; 60_000]),
        Reply::ok(body.clone()),
    ])
    .await;
    let (store, stats) = retrying(store_by(engine, &server));
    let (fetched, buffer) = get(&store).await.unwrap();
    assert_eq!(fetched.bytes, 66_034);
    assert!(buffer == body);
    assert_eq!(server.seen().len(), 4);
    let summary = stats.summary();
    assert_eq!((summary.gets, summary.bytes.0), (1, 66_034));
    let kinds: Vec<_> = summary.retries.into_iter().collect();
    assert_eq!(kinds, [("503", 1), ("reset", 1), ("truncated", 1)].map(|(k, n)| (k.to_owned(), n)));
}

async fn a_refusal_is_one_request(engine: GetEngine) {
    let server = Server::play([Reply::error(403, "InvalidAccessKeyId", "No such key.")]).await;
    let (store, _) = retrying(store_by(engine, &server));
    assert_eq!(get(&store).await.unwrap_err().attempts, 1);
    assert_eq!(server.seen().len(), 1);
}

/// A page of the keys `train/0007` …, which says where to go on unless it is the last.
fn page(keys: Range<usize>, next: Option<&str>) -> Reply {
    use std::fmt::Write;
    let mut body = "<ListBucketResult>".to_owned();
    if let Some(next) = next {
        let _ = write!(
            body,
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>"
        );
    }
    for key in keys {
        let _ = write!(body, "<Contents><Key>train/{key:04}</Key><Size>5</Size></Contents>");
    }
    Reply::ok(body + "</ListBucketResult>")
}

async fn listed(store: &impl Store) -> Result<Vec<String>, StoreError> {
    let mut keys = Vec::new();
    let mut keep = |page: Vec<Listed>| keys.extend(page.iter().map(|it| it.key.to_string()));
    store.list("train", &mut keep).await.map(|()| keys)
}

fn keys(range: Range<usize>) -> Vec<String> {
    range.map(|at| format!("train/{at:04}")).collect()
}

#[tokio::test]
async fn a_thousand_keys_are_one_request_and_more_follow_the_token() {
    let server = Server::play([page(0..1_000, None)]).await;
    assert_eq!(listed(&store(&server)).await.unwrap(), keys(0..1_000));
    let query = "encoding-type=url&list-type=2&prefix=train%2F";
    assert_eq!(server.lines(), [format!("GET /data?{query} HTTP/1.1")]);

    let server = Server::play([page(0..3, Some("t+/=")), page(3..6, Some("u")), page(6..8, None)]);
    let server = server.await;
    assert_eq!(listed(&store(&server)).await.unwrap(), keys(0..8));
    assert_eq!(
        server.lines(),
        [
            format!("GET /data?{query} HTTP/1.1"),
            format!("GET /data?continuation-token=t%2B%2F%3D&{query} HTTP/1.1"),
            format!("GET /data?continuation-token=u&{query} HTTP/1.1"),
        ]
    );
}

#[tokio::test]
async fn a_listing_repeats_the_page_that_failed_and_no_other() {
    let server = Server::play([
        page(0..1_000, Some("t")),
        Reply::error(503, "SlowDown", "Slow down."),
        page(1_000..2_000, Some("u")),
        page(2_000..2_500, None),
    ])
    .await;
    let (store, stats) = retrying(store(&server));
    assert_eq!(listed(&store).await.unwrap(), keys(0..2_500));
    let lines = server.lines();
    assert_eq!(lines.len(), 4);
    assert!(lines[2].contains("&start-after=train%2F0999 "), "{lines:?}");
    assert_eq!(stats.summary().retries["503"], 1);
}

#[tokio::test]
async fn a_failed_listing_is_never_an_empty_one() {
    for (reply, text) in [
        (Reply::error(404, "NoSuchBucket", ""), "the bucket does not exist (404 NoSuchBucket)"),
        (Reply::ok("<html>welcome</html>"), "no ListObjectsV2 result"),
        (Reply::ok(""), "no ListObjectsV2 result"),
        (Reply::Short(100, b"<ListBucketResult>".to_vec()), "the body ended"),
    ] {
        let server = Server::play([reply]).await;
        let error = listed(&store(&server)).await.unwrap_err().to_string();
        assert!(error.starts_with("LIST train at s3://data"), "{error}");
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_ca_bundle_that_is_none_is_named() {
    let text = tempfile::NamedTempFile::new().unwrap();
    for (path, problem) in [
        (PathBuf::from("/no/such/ca.pem"), "CA bundle /no/such/ca.pem: No such file"),
        (text.path().to_owned(), "it holds no certificate in PEM format"),
    ] {
        let settings = S3Settings { ca_bundle: Some(path), ..settings("http://127.0.0.1:1") };
        let error = S3Store::new(settings).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
