//! Uploads in parts and tails, as a script answers them.

use super::*;
use crate::Upload;

fn begun() -> Reply {
    Reply::ok(
        "<?xml version=\"1.0\"?><InitiateMultipartUploadResult><Bucket>data</Bucket><Key>key</Key>\
         <UploadId>the/id+=</UploadId></InitiateMultipartUploadResult>",
    )
}

fn completed() -> Reply {
    Reply::ok(
        "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>",
    )
}

fn error_behind_a_200(code: &str) -> Reply {
    Reply::ok(format!(
        "<?xml version=\"1.0\"?>\n  \n<Error><Code>{code}</Code><Message>Try.</Message></Error>"
    ))
}

const NO_CONTENT: Reply = Reply::Answer(204, "", Vec::new());

/// An upload of a key, and what counts its requests.
async fn begin(server: &Server) -> (Upload, Arc<RequestStats>) {
    let (store, stats) = retrying(store(server));
    let upload = Upload::begin(Arc::new(store), ObjectKey::new("a key"), Some(9)).await.unwrap();
    (upload, stats)
}

const PART: &str = "PUT /data/a%20key?partNumber=1&uploadId=the%2Fid%2B%3D HTTP/1.1";
const COMPLETE: &str = "POST /data/a%20key?uploadId=the%2Fid%2B%3D HTTP/1.1";
const ABORT: &str = "DELETE /data/a%20key?uploadId=the%2Fid%2B%3D HTTP/1.1";

#[tokio::test]
async fn an_upload_is_begun_sent_and_completed_with_a_checksum_for_each_part() {
    let server = Server::play([begun(), Reply::ok(""), completed()]).await;
    let (upload, stats) = begin(&server).await;
    upload.part(0, Bytes::from_static(b"123456789")).await.unwrap();
    upload.complete(9).await.unwrap();
    drop(upload);
    assert_eq!(server.lines(), ["POST /data/a%20key?uploads= HTTP/1.1", PART, COMPLETE]);
    let [begun, part, completed] = &server.seen()[..] else { panic!() };
    assert_eq!(begun.header("x-amz-checksum-algorithm"), Some("CRC32C"));
    assert_eq!(part.body, b"123456789");
    assert_eq!(part.header("x-amz-checksum-crc32c"), Some("4waSgw=="));
    assert_eq!(part.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    assert_eq!(completed.header("x-amz-checksum-crc32c"), None, "it would be the object's");
    assert_eq!(
        String::from_utf8_lossy(&completed.body),
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>\
         <PartNumber>1</PartNumber><ETag>\"e\"</ETag><ChecksumCRC32C>4waSgw==</ChecksumCRC32C>\
         </Part></CompleteMultipartUpload>"
    );
    let summary = stats.summary();
    let counts = summary.endpoints.values().next().unwrap();
    assert_eq!((counts.puts, counts.gets, counts.retries), (1, 0, 0), "its parts count as PUTs");
}

#[tokio::test]
async fn a_signed_upload_names_no_checksums() {
    let server = Server::play([begun(), Reply::ok(""), completed()]).await;
    let mut settings = settings(&format!("http://127.0.0.1:{}", server.port));
    settings.sign_payload = true;
    let store = Arc::new(S3Store::new(settings).unwrap());
    let upload = Upload::begin(store, ObjectKey::new("a key"), None).await.unwrap();
    upload.part(0, Bytes::from_static(b"abc")).await.unwrap();
    upload.complete(3).await.unwrap();
    let [begun, part, completed] = &server.seen()[..] else { panic!() };
    assert_eq!(begun.header("x-amz-checksum-algorithm"), None);
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(part.header("x-amz-content-sha256"), Some(hash));
    assert!(!String::from_utf8_lossy(&completed.body).contains("Checksum"));
}

#[tokio::test]
async fn each_request_of_an_upload_is_repeated_and_counted() {
    let broken = || Reply::error(500, "InternalError", "We broke.");
    let server = Server::play([
        Reply::error(503, "SlowDown", "Slow down."),
        begun(),
        broken(),
        Reply::ok(""),
        Reply::Reset,
        error_behind_a_200("InternalError"),
        completed(),
    ])
    .await;
    let (upload, stats) = begin(&server).await;
    upload.part(0, Bytes::from_static(b"123456789")).await.unwrap();
    upload.complete(9).await.unwrap();
    assert_eq!(server.lines()[2..], [PART, PART, COMPLETE, COMPLETE, COMPLETE]);
    assert_eq!(server.seen()[3].body, b"123456789");
    let summary = stats.summary();
    let kinds: Vec<_> = summary.retries.into_iter().collect();
    assert_eq!(kinds, [("500", 2), ("503", 1), ("reset", 1)].map(|(k, n)| (k.to_owned(), n)));
    let counts = summary.endpoints.values().next().unwrap();
    assert_eq!((counts.puts, counts.retries), (1, 4));
}

#[tokio::test]
async fn the_requests_of_an_upload_go_to_whichever_endpoint_has_its_turn() {
    let one = Server::play([begun(), Reply::ok(""), completed()]).await;
    let other = Server::play([Reply::error(503, "SlowDown", "Slow down.")]).await;
    let stats = Arc::new(RequestStats::new());
    let policy = RetryPolicy { first_wait: Duration::from_millis(4), ..RetryPolicy::default() };
    let store = Retrying::over([store(&one), store(&other)], policy, Arc::clone(&stats));
    let upload = Upload::begin(Arc::new(store), ObjectKey::new("a key"), None).await.unwrap();
    upload.part(0, Bytes::from_static(b"123456789")).await.unwrap();
    upload.complete(9).await.unwrap();
    assert_eq!(one.lines(), ["POST /data/a%20key?uploads= HTTP/1.1", PART, COMPLETE]);
    assert_eq!(other.lines(), [PART]);
    let endpoints = stats.summary().endpoints;
    let counts = |server: &Server| {
        let counts = endpoints[&format!("http://127.0.0.1:{}", server.port)];
        (counts.puts, counts.retries)
    };
    assert_eq!((counts(&one), counts(&other)), ((1, 0), (0, 1)));
}

#[tokio::test]
async fn only_an_answer_that_says_so_completes_an_upload() {
    for (reply, problem) in [
        (error_behind_a_200("InvalidPart"), "200 InvalidPart: Try. (in the body of a 200)"),
        (Reply::ok(""), "no CompleteMultipartUpload result"),
        (Reply::ok("<html>welcome</html>"), "no CompleteMultipartUpload result"),
        (Reply::error(400, "InvalidPart", "Which?"), "400 InvalidPart: Which?"),
        (Reply::error(404, "NoSuchUpload", "Which?"), "it does not exist (404 NoSuchUpload)"),
    ] {
        let server = Server::play([begun(), Reply::ok(""), reply, NO_CONTENT]).await;
        let (upload, _) = begin(&server).await;
        upload.part(0, Bytes::from_static(b"123456789")).await.unwrap();
        let error = upload.complete(9).await.unwrap_err().to_string();
        let whose = "COMPLETE UPLOAD a key, upload the/id+= at s3://data at http://127.0.0.1:";
        assert!(error.starts_with(whose), "{error}");
        assert!(error.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn an_upload_that_was_completed_unheard_is_found_by_its_object() {
    let gone = || Reply::error(404, "NoSuchUpload", "It is over.");
    let size = |header| Reply::Answer(200, header, Vec::new());
    for (reply, is_there) in
        [(size("Content-Length: 9\r\n"), true), (size("Content-Length: 8\r\n"), false)]
    {
        let script = [begun(), Reply::ok(""), Reply::Reset, gone(), reply, NO_CONTENT];
        let server = Server::play(script).await;
        let (upload, _) = begin(&server).await;
        upload.part(0, Bytes::from_static(b"123456789")).await.unwrap();
        assert_eq!(upload.complete(9).await.is_ok(), is_there);
        assert_eq!(server.lines()[2..5], [COMPLETE, COMPLETE, "HEAD /data/a%20key HTTP/1.1"]);
    }
}

#[tokio::test]
async fn answers_without_what_an_upload_goes_on_with_are_failures() {
    for reply in [Reply::ok(""), Reply::ok("<InitiateMultipartUploadResult/>"), completed()] {
        let server = Server::play([reply]).await;
        let begun = Upload::begin(Arc::new(store(&server)), ObjectKey::new("key"), None).await;
        let error = begun.unwrap_err().to_string();
        assert!(error.starts_with("BEGIN UPLOAD key at s3://data"), "{error}");
        assert!(error.contains("no CreateMultipartUpload result"), "{error}");
    }
    let server = Server::play([begun(), Reply::Answer(200, "", Vec::new()), NO_CONTENT]).await;
    let (upload, _) = begin(&server).await;
    let error = upload.part(0, Bytes::from_static(b"x")).await.unwrap_err().to_string();
    assert!(error.contains("the answer has no ETag"), "{error}");
}

#[tokio::test]
async fn an_upload_whose_part_fails_for_good_is_aborted_once() {
    let denied = Reply::error(403, "AccessDenied", "No.");
    let server = Server::play([begun(), denied, NO_CONTENT]).await;
    let (upload, _) = begin(&server).await;
    let error = upload.part(0, Bytes::from_static(b"x")).await.unwrap_err().to_string();
    let whose = "PUT PART a key, part 1 of upload the/id+= at s3://data at http://127.0.0.1:";
    assert!(error.starts_with(whose) && error.contains("403 AccessDenied"), "{error}");
    upload.abort().await.unwrap();
    drop(upload);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.lines()[1..], [PART, ABORT]);
}

#[tokio::test]
async fn a_dropped_upload_is_aborted_by_one_request() {
    let server = Server::play([begun(), NO_CONTENT]).await;
    let (upload, _) = begin(&server).await;
    drop(upload);
    while server.seen().len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(server.lines()[1], ABORT);
}

#[test]
fn an_upload_dropped_behind_its_runtime_does_no_harm() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let upload = runtime.block_on(async {
        let server = Server::play([begun()]).await;
        begin(&server).await.0
    });
    drop(runtime);
    drop(upload);
}

async fn tail(server: &Server, most: u64) -> Result<(u64, u64, Vec<u8>), StoreError> {
    let (store, stats) = retrying(store(server));
    let mut buffer = Vec::new();
    let (fetched, size) = store.get_tail(&ObjectKey::new("key"), most, &mut buffer).await?;
    assert_eq!((stats.summary().gets, stats.summary().bytes.0), (1, fetched.bytes));
    Ok((fetched.bytes, size, buffer))
}

#[tokio::test]
async fn a_tail_is_one_request_that_tells_the_size_too() {
    let partial = |range, body: &str| Reply::Answer(206, range, body.into());
    for (reply, most, expected) in [
        (partial("Content-Range: bytes 7-9/10\r\n", "789"), 3, (3, 10, b"789".to_vec())),
        (partial("Content-Range: bytes 0-2/3\r\n", "abc"), 8, (3, 3, b"abc".to_vec())),
        (Reply::ok("abc"), 8, (3, 3, b"abc".to_vec())),
        (Reply::ok(""), 8, (0, 0, Vec::new())),
    ] {
        let server = Server::play([reply]).await;
        assert_eq!(tail(&server, most).await.unwrap(), expected);
        assert_eq!(server.lines(), ["GET /data/key HTTP/1.1"]);
        assert_eq!(server.seen()[0].header("range"), Some(format!("bytes=-{most}").as_str()));
    }
}

#[tokio::test]
async fn an_object_that_is_too_short_for_a_range_is_read_as_a_whole() {
    for body in ["", "short"] {
        let server =
            Server::play([Reply::error(416, "InvalidRange", "No."), Reply::ok(body)]).await;
        let length = body.len() as u64;
        assert_eq!(tail(&server, 8).await.unwrap(), (length, length, body.into()));
        assert_eq!(server.seen()[1].header("range"), None);
    }
}

#[tokio::test]
async fn an_answer_with_another_part_of_the_object_is_no_tail() {
    let partial = |range, body: &str| Reply::Answer(206, range, body.into());
    for reply in [
        Reply::ok("0123456789"),
        partial("Content-Range: bytes 0-2/10\r\n", "012"),
        partial("Content-Range: bytes 7-8/10\r\n", "78"),
        partial("Content-Range: bytes 7-9/*\r\n", "789"),
        partial("Content-Range: bytes 18446744073709551615-18446744073709551615/0\r\n", "7"),
        partial("", "789"),
    ] {
        let server = Server::play([reply]).await;
        let error = tail(&server, 3).await.unwrap_err().to_string();
        assert!(error.ends_with("did not answer with the last 3 bytes of the object"), "{error}");
    }
    let server = Server::play([
        partial("Content-Range: bytes 7-9/10\r\n", "78"),
        partial("Content-Range: bytes 7-9/10\r\n", "789"),
    ])
    .await;
    assert_eq!(tail(&server, 3).await.unwrap().2, b"789", "one that is cut short is read again");
}
