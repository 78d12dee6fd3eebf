use std::fmt::Write;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime;

use super::connect::Stream;
use super::*;

/// What an answer said, and what became of its connection.
#[derive(Debug)]
struct Outcome {
    status: u16,
    body: Result<Vec<u8>, Cause>,
    was_kept: bool,
}

/// How the caller takes the body.
#[derive(Debug, Clone, Copy)]
enum By {
    Landing,
    Pieces,
}

/// Receives `answer`, of which at most `pipe` bytes are under way at a time, on a connection that ends
/// behind it.
fn receive(answer: &[u8], pipe: usize, by: By) -> Result<Outcome, Cause> {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (client, mut server) = duplex(pipe);
        let answer = answer.to_vec();
        let serving = tokio::spawn(async move { server.write_all(&answer).await });
        let outcome = receive_over(client, false, by).await;
        // Nothing is left of it to write, or its reader is gone.
        let _ = serving.await;
        outcome
    })
}

async fn receive_over(stream: DuplexStream, to_head: bool, by: By) -> Result<Outcome, Cause> {
    let mut connection = Connection::new(Stream::Memory(stream));
    let head = connection.receive_head(to_head).await?;
    let kept = Arc::<Kept>::default();
    let mut answer = Answer::new(connection, head, Arc::clone(&kept), Instant::now());
    let status = answer.status();
    let mut body = Vec::new();
    let taken = match by {
        By::Landing => answer.land(&mut body).await,
        By::Pieces => loop {
            match answer.piece().await {
                Ok(Some(piece)) => body.extend_from_slice(piece),
                Ok(None) => break Ok(()),
                Err(cause) => break Err(cause),
            }
        },
    };
    if taken.is_ok() {
        assert_eq!(answer.received(), body.len() as u64);
        assert_eq!(answer.first_byte().is_some(), !body.is_empty());
    }
    let was_kept = !kept.lock().is_empty();
    Ok(Outcome { status, body: taken.map(|()| body), was_kept })
}

fn body_of(answer: &str) -> Result<Vec<u8>, Cause> {
    let [landed, pieces] = [By::Landing, By::Pieces].map(|by| receive(answer.as_bytes(), 7, by));
    let (landed, pieces) = (landed?, pieces?);
    assert_eq!(format!("{:?}", landed.body), format!("{:?}", pieces.body), "{answer}");
    assert!(landed.body.is_ok() || !landed.was_kept, "{answer}");
    landed.body
}

/// Why there is no body, in words.
fn problem(answer: &str) -> String {
    body_of(answer).unwrap_err().to_string()
}

/// `body` in chunks of these sizes, the rest in one.
fn in_chunks(body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut rest = body;
    let mut chunk = |data: &[u8], extension: &str| {
        let mut line = String::new();
        write!(line, "{:x}{extension}\r\n", data.len()).unwrap();
        coded.extend_from_slice(line.as_bytes());
        coded.extend_from_slice(data);
        coded.extend_from_slice(b"\r\n");
    };
    for &size in sizes {
        if size < rest.len() {
            let (data, behind) = rest.split_at(size);
            chunk(data, ";name=value");
            rest = behind;
        }
    }
    if !rest.is_empty() {
        chunk(rest, "");
    }
    coded.extend_from_slice(b"0\r\nx-trailer: y\r\n\r\n");
    coded
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_body_is_the_same_however_it_is_framed_and_cut(
        body in prop::collection::vec(any::<u8>(), 0..300_000),
        sizes in prop::collection::vec(1_usize..100_000, 0..6),
        pipe in prop_oneof![1_usize..40, 1_000_usize..200_000],
        is_chunked in any::<bool>(),
        lands in any::<bool>(),
    ) {
        // A pipe of some bytes takes its time.
        let body = if pipe < 40 { &body[..body.len().min(5_000)] } else { &body[..] };
        let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
        if is_chunked {
            answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            answer.extend_from_slice(&in_chunks(body, &sizes));
        } else {
            answer.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            answer.extend_from_slice(body);
        }
        let by = if lands { By::Landing } else { By::Pieces };
        let outcome = receive(&answer, pipe, by).unwrap();
        prop_assert_eq!(outcome.status, 200);
        prop_assert!(outcome.body.unwrap() == body);
        prop_assert!(outcome.was_kept);
    }

    #[test]
    fn a_body_that_is_cut_off_is_never_taken_for_a_whole_one(
        length in 1_usize..5_000,
        cut in 0.0..1.0_f64,
        is_chunked in any::<bool>(),
    ) {
        let body = vec![7; length];
        let (fields, coded) = if is_chunked {
            ("Transfer-Encoding: chunked".to_owned(), in_chunks(&body, &[length / 2 + 1]))
        } else {
            (format!("Content-Length: {length}"), body)
        };
        let sent = (coded.len() as f64 * cut) as usize;
        let mut answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").into_bytes();
        answer.extend_from_slice(&coded[..sent]);
        for by in [By::Landing, By::Pieces] {
            let outcome = receive(&answer, 999, by).unwrap();
            let truncated = matches!(outcome.body, Err(Cause::Truncated { .. }));
            prop_assert!(truncated, "{:?}", outcome.body);
            prop_assert!(!outcome.was_kept);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for start in [0, answer.len()] {
            answer.truncate(start);
            answer.extend_from_slice(&bytes);
            let _ = receive(&answer, 100, By::Landing);
        }
    }
}

#[test]
fn a_truncated_body_says_how_much_came_of_how_much() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 66034\r\n\r\n0123456789";
    assert_eq!(problem(answer), "the body ended after 10 of 66034 bytes");
}

#[test]
fn bytes_behind_a_body_are_an_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n0123",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n0\r\n0\r\n\r\nx",
    ] {
        assert!(problem(answer).ends_with("bytes follow its body"), "{answer}");
    }
}

#[test]
fn chunks_that_are_none_are_an_error() {
    for (coded, words) in [
        ("no size\r\n", "the size of a chunk is no number"),
        ("-1\r\n", "the size of a chunk is no number"),
        ("11111111111111111\r\n", "the size of a chunk is no number"),
        ("2\r\n012\r\n", "a chunk is longer than its size"),
        ("0\r\nno trailer at all\r\n\r\n", "no trailer"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{coded}");
        assert!(problem(&answer).contains(words), "{coded}: {}", problem(&answer));
    }
    let endless = format!("1;{}", "x".repeat(5_000));
    let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{endless}");
    assert!(problem(&answer).contains("does not end"));
}

#[test]
fn a_body_without_a_length_ends_with_its_connection_which_is_not_kept() {
    for by in [By::Landing, By::Pieces] {
        let outcome = receive(b"HTTP/1.0 200 OK\r\n\r\nall of it", 3, by).unwrap();
        assert_eq!(outcome.body.unwrap(), b"all of it");
        assert!(!outcome.was_kept);
    }
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    assert!(!receive(closing.as_bytes(), 99, By::Landing).unwrap().was_kept);
}

#[test]
fn interim_answers_are_passed_over_and_not_for_ever() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(body_of(&format!("{interim}{interim}{answer}")).unwrap(), b"ok");
    assert!(problem(&format!("{}{answer}", interim.repeat(9))).contains("interim"));
    assert!(problem(&format!("HTTP/1.1 101 Switching Protocols\r\n\r\n{answer}")).contains("101"));
}

#[test]
fn a_connection_that_ends_instead_of_answering_is_a_broken_one() {
    for (answer, words) in [("", "instead of answering"), ("HTTP/1.1 20", "within the head")] {
        let cause = body_of(answer).unwrap_err();
        assert!(matches!(&cause, Cause::Reset { reason } if reason.contains(words)), "{cause:?}");
    }
}

#[tokio::test]
async fn an_answer_to_head_promises_a_length_and_has_no_body() {
    let (client, mut server) = duplex(1_000);
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n").await.unwrap();
    let outcome = receive_over(client, true, By::Pieces).await.unwrap();
    assert!(outcome.body.unwrap().is_empty() && outcome.was_kept);
}

#[tokio::test]
async fn a_server_that_refuses_an_upload_by_its_head_need_not_take_the_body() {
    let (client, mut server) = duplex(1_000);
    let serving = tokio::spawn(async move {
        let mut head = [0; 4];
        server.read_exact(&mut head).await.unwrap();
        server.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
        // The rest of the body is never read.
        server
    });
    let (mut connection, body) = (Connection::new(Stream::Memory(client)), vec![0; 100_000]);
    connection.send(|head| head.extend_from_slice(b"PUT "), &body).await.unwrap();
    assert_eq!(connection.receive_head(false).await.unwrap().status, 403);
    drop(serving);
}

#[tokio::test]
async fn what_comes_unasked_for_makes_a_kept_connection_useless() {
    let kept = Kept::default();
    let (client, mut server) = duplex(100);
    kept.give_back(Connection::new(Stream::Memory(client)));
    let connection = kept.take().expect("nothing has come");
    server.write_all(b"x").await.unwrap();
    kept.give_back(connection);
    assert!(kept.take().is_none());
    let (client, server) = duplex(100);
    drop(server);
    kept.give_back(Connection::new(Stream::Memory(client)));
    assert!(kept.take().is_none(), "its other end is closed");
}

#[tokio::test]
async fn the_connection_given_back_last_is_taken_first() {
    let kept = Kept::default();
    let mut servers = Vec::new();
    for number in 0..3 {
        let (client, server) = duplex(100);
        let mut connection = Connection::new(Stream::Memory(client));
        connection.answer.push(number);
        kept.give_back(connection);
        servers.push(server);
    }
    for number in [2, 1, 0] {
        assert_eq!(kept.take().unwrap().answer, [number]);
    }
}
