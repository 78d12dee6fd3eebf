//! A server that plays a script: one reply for each request, whatever it asks for. It speaks to the
//! socket itself, because half of what it plays is what no HTTP library would send.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What happens to a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// A whole answer: status, further header lines, body. The length is the body's unless the
    /// header lines say how long it is.
    Answer(u16, &'static str, Vec<u8>),
    /// An answer whose body waits this long.
    Late(Duration, Vec<u8>),
    /// A body of this promised length that ends, as a closed connection, after these bytes.
    Short(usize, Vec<u8>),
    /// A body in chunks that ends, as a closed connection, after these bytes of its coding.
    ShortChunks(Vec<u8>),
    /// As `Short`, but ended by a reset.
    ResetAfter(usize, Vec<u8>),
    /// The connection is reset without an answer.
    Reset,
    /// Nothing, for ever.
    Silence,
    /// Something that is not HTTP.
    Garbage,
}

impl Reply {
    pub(super) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Answer(200, "ETag: \"e\"\r\n", body.into())
    }

    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <Error><Code>{code}</Code><Message>{message}</Message><Resource>/r</Resource></Error>"
        );
        Self::Answer(status, "", body.into_bytes())
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// "GET /data/key HTTP/1.1".
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A running server; it ends with the test's runtime.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    script: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<usize>,
}

impl Server {
    pub(super) async fn play(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::play_over(None, script).await
    }

    pub(super) async fn play_over(
        tls: Option<TlsAcceptor>,
        script: impl IntoIterator<Item = Reply>,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Mutex::new(script.into_iter().collect());
        let state = Arc::new(State { script, ..State::default() });
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                *accepting.connections.lock().unwrap() += 1;
                let (state, tls) = (Arc::clone(&accepting), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, &state).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(stream) => serve(stream, &state).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { port, state }
    }

    /// What was asked for so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(super) fn connections(&self) -> usize {
        *self.state.connections.lock().unwrap()
    }
}

/// A stream that can be ended by a reset.
trait Socket: AsyncRead + AsyncWrite + Unpin {
    fn make_close_a_reset(&self);
}

impl Socket for TcpStream {
    fn make_close_a_reset(&self) {
        self.set_zero_linger().unwrap();
    }
}

impl Socket for tokio_rustls::server::TlsStream<TcpStream> {
    fn make_close_a_reset(&self) {
        self.get_ref().0.set_zero_linger().unwrap();
    }
}

/// Answers requests on one connection until it ends; `None` is how that is said.
async fn serve(mut socket: impl Socket, state: &State) -> Option<()> {
    loop {
        let seen = request(&mut socket).await?;
        state.seen.lock().unwrap().push(seen);
        let reply = state.script.lock().unwrap().pop_front();
        let reply = reply.unwrap_or(Reply::error(599, "EndOfScript", "no reply is written"));
        let head = |status: u16, more: &str, length: usize| {
            let framed = ["Content-Length", "Transfer-Encoding"].iter().any(|it| more.contains(it));
            let length =
                if framed { String::new() } else { format!("Content-Length: {length}\r\n") };
            format!("HTTP/1.1 {status} Status\r\n{more}{length}\r\n")
        };
        let (head, body, ending) = match reply {
            Reply::Answer(status, more, body) => {
                (head(status, more, body.len()), body, Ending::KeepAlive)
            }
            Reply::Late(wait, body) => {
                socket.write_all(head(200, "", body.len()).as_bytes()).await.ok()?;
                tokio::time::sleep(wait).await;
                (String::new(), body, Ending::KeepAlive)
            }
            Reply::Short(length, body) => (head(200, "", length), body, Ending::Close),
            Reply::ShortChunks(body) => {
                (head(200, "Transfer-Encoding: chunked\r\n", 0), body, Ending::Close)
            }
            Reply::ResetAfter(length, body) => (head(200, "", length), body, Ending::Reset),
            Reply::Reset => (String::new(), Vec::new(), Ending::Reset),
            Reply::Silence => std::future::pending().await,
            Reply::Garbage => ("what?\r\n\r\n".to_owned(), Vec::new(), Ending::Close),
        };
        socket.write_all(head.as_bytes()).await.ok()?;
        socket.write_all(&body).await.ok()?;
        match ending {
            Ending::KeepAlive => {}
            Ending::Close => return socket.shutdown().await.ok(),
            Ending::Reset => {
                // What was written shall arrive before the reset takes it away.
                tokio::time::sleep(Duration::from_millis(50)).await;
                socket.make_close_a_reset();
                return None;
            }
        }
    }
}

enum Ending {
    KeepAlive,
    Close,
    Reset,
}

async fn request(socket: &mut impl Socket) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut seen = Seen { line, headers, body: Vec::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body.resize(length, 0);
    socket.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}
