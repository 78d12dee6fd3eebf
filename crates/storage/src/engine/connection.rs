//! One connection, and what goes over it: a request, then the head of its answer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::connect::Stream;
use super::failure;
use super::head::{self, Head};
use crate::Cause;

/// Bytes that one read asks the socket for. 64 KiB stay in the core's L2 cache together with what the
/// kernel copies them from; more at a time falls out of it and costs a quarter of the throughput.
pub(super) const READ: usize = 64 << 10;

/// Bytes that the first read behind a request asks for: a head and not much of the body, the rest of
/// which can then go where it belongs without a copy.
pub(super) const FIRST_READ: usize = 4 << 10;

/// Interim answers (`100 Continue` and its like) that are passed over before the one that counts.
const MOST_INTERIM: usize = 8;

/// An open connection with its buffers, which all requests over it use.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// What was read and not yet used: `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The head of the last request.
    request: Vec<u8>,
    /// The head of the last answer.
    pub(super) answer: Vec<u8>,
    /// Since when nobody uses it.
    pub(super) unused_since: Instant,
}

/// The connection was found broken before any of the request had gone out.
#[derive(Debug)]
pub(super) struct Unsent(pub(super) io::Error);

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            buffer: vec![0; READ].into_boxed_slice(),
            start: 0,
            end: 0,
            request: Vec::new(),
            answer: Vec::new(),
            unused_since: Instant::now(),
        }
    }

    /// Whether the server has neither closed the connection nor sent what nobody asked for. As long as
    /// nothing has come since the last answer, this is no system call.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut nobody = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.stream).poll_read(&mut nobody, &mut ReadBuf::new(&mut byte));
        read.is_pending()
    }

    /// Sends the head that `write_head` writes, and `body`. Stops when the server answers before it
    /// has all of the body, as one does that refuses the request by its head; that the connection then
    /// breaks, or has broken, is for the reader of the answer to see.
    pub(super) async fn send(
        &mut self,
        write_head: impl Fn(&mut Vec<u8>),
        body: &[u8],
    ) -> Result<(), Unsent> {
        self.request.clear();
        write_head(&mut self.request);
        // All that came before is used: the whole buffer is there for an early answer.
        (self.start, self.end) = (0, 0);
        let (mut head, mut body) = (0, body);
        loop {
            match poll_fn(|context| self.poll_send(context, head, body)).await {
                Ok(Sent::Some(bytes)) => {
                    let of_head = bytes.min(self.request.len() - head);
                    head += of_head;
                    body = &body[bytes - of_head..];
                }
                Err(error) if head == 0 => return Err(Unsent(error)),
                // Behind an error, too, an answer may lie in the socket already.
                Ok(Sent::All | Sent::Answered) | Err(_) => return Ok(()),
            }
        }
    }

    /// Sends some of what is left: of the head from `head` on, then of the body, then what TLS holds
    /// back.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        head: usize,
        body: &[u8],
    ) -> Poll<io::Result<Sent>> {
        let mut stream = Pin::new(&mut self.stream);
        let sent = match (&self.request[head..], body) {
            ([], []) => stream.as_mut().poll_flush(context).map_ok(|()| Sent::All),
            ([], rest) | (rest, _) => match stream.as_mut().poll_write(context, rest) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => sent.map_ok(Sent::Some),
            },
        };
        if sent.is_ready() {
            return sent;
        }
        // The server does not take more at the moment: perhaps since it has said all it had to say.
        let mut early = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(stream.poll_read(context, &mut early))?;
        self.end += early.filled().len();
        Poll::Ready(Ok(Sent::Answered))
    }

    /// Waits for the head of the answer and leaves it in [`answer`](Self::answer), what was read of the
    /// body in the buffer. With `to_head` the request was a HEAD.
    pub(super) async fn receive_head(&mut self, to_head: bool) -> Result<Head, Cause> {
        let mut interim = 0;
        loop {
            let head = match head::parse(self.unused(), to_head)? {
                Some(head) if head.status >= 200 => head,
                Some(head) => {
                    interim += 1;
                    if interim > MOST_INTERIM || head.status == 101 {
                        let problem = format!("it is an interim one ({})", head.status);
                        return Err(Cause::protocol(problem));
                    }
                    self.start += head.bytes;
                    continue;
                }
                None => {
                    let most = (self.end - self.start + FIRST_READ).min(READ);
                    let came = self.read_more(most).await;
                    if came.map_err(|error| failure::of_connection(&error))? == 0 {
                        let reason = match self.unused() {
                            [] => "the server closed it instead of answering",
                            _ => "the server closed it within the head of its answer",
                        };
                        return Err(Cause::Reset { reason: reason.to_owned() });
                    }
                    continue;
                }
            };
            self.answer.clear();
            self.answer.extend_from_slice(&self.buffer[self.start..self.start + head.bytes]);
            self.start += head.bytes;
            return Ok(head);
        }
    }

    /// What was read and not yet used.
    pub(super) fn unused(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The first `bytes` of it are used.
    pub(super) fn take(&mut self, bytes: usize) -> &[u8] {
        let taken = &self.buffer[self.start..self.start + bytes];
        self.start += bytes;
        taken
    }

    /// Reads behind what is unused, until that has `most` bytes or fewer; 0 is the end of the
    /// connection. The buffer has room for [`READ`].
    pub(super) async fn read_more(&mut self, most: usize) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = &mut self.buffer[self.end..most.min(READ)];
        let came = self.stream.read(room).await?;
        self.end += came;
        Ok(came)
    }

    /// Reads up to `most` bytes from the socket to the end of `into`, whose capacity is not exceeded
    /// if there is any left; 0 is the end of the connection. Nothing may be unused.
    pub(super) async fn read_into(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        use bytes::BufMut;
        self.stream.read_buf(&mut into.limit(most)).await
    }
}

/// How far sending came.
enum Sent {
    /// So many bytes further.
    Some(usize),
    /// To the end.
    All,
    /// The server has begun to answer, or has closed its side.
    Answered,
}
