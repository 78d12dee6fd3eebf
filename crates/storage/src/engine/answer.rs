//! An answer, and its body as it comes from the socket.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Status};

use super::Kept;
use super::connection::{Connection, FIRST_READ, READ};
use super::failure;
use super::head::{self, Body, Head};
use crate::Cause;

/// Bytes that one read asks the socket for where they stay. What they land in is in no cache anyway, so
/// that fewer system calls are all that counts: 3 % of the client's CPU beside 64 KiB.
const LANDING: usize = 256 << 10;
/// The longest line of a chunk's size, and the longest trailer.
const LONGEST_LINE: usize = 4 << 10;
/// The most fields of a trailer.
const MOST_TRAILING_FIELDS: usize = 16;

/// An answer whose head is here. Dropped before the end of its body, it takes its connection along.
#[derive(Debug)]
pub(crate) struct Answer {
    head: Head,
    /// When the request was handed to its connection, or began to wait for a new one.
    sent: Instant,
    first_byte: Option<Duration>,
    /// Bytes of the body so far.
    received: u64,
    next: Next,
    /// `None` once the body is over.
    connection: Option<Connection>,
    kept: Arc<Kept>,
}

/// What comes next of a body.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// So many bytes, and then nothing.
    Length(u64),
    /// The size of a chunk.
    ChunkSize,
    /// So many bytes of a chunk, and then its end.
    Chunk(u64),
    /// Bytes until the connection ends.
    UntilClose,
}

impl Next {
    /// How many bytes the socket is asked for, `most` at a time. Behind a body of known length there
    /// must be nothing: asking for one byte more shows that, and a read that brings less than it asked
    /// for tells the runtime without a further system call that the socket is empty.
    fn ask(self, most: usize) -> usize {
        let left = match self {
            Self::Length(left) => left.saturating_add(1),
            Self::Chunk(left) => left,
            Self::ChunkSize | Self::UntilClose => u64::MAX,
        };
        left.min(most as u64) as usize
    }

    /// How many of `bytes` are the body's.
    fn share(self, bytes: usize) -> usize {
        match self {
            Self::Length(left) | Self::Chunk(left) => left.min(bytes as u64) as usize,
            Self::ChunkSize => 0,
            Self::UntilClose => bytes,
        }
    }
}

impl Answer {
    pub(super) fn new(connection: Connection, head: Head, kept: Arc<Kept>, sent: Instant) -> Self {
        let next = match head.body {
            Body::Length(length) => Next::Length(length),
            Body::Chunked => Next::ChunkSize,
            Body::UntilClose => Next::UntilClose,
        };
        let connection = Some(connection);
        Self { head, sent, first_byte: None, received: 0, next, connection, kept }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a field of the head, as long as the body is not over; `name` in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        head::field(&self.connection.as_ref()?.answer, name)
    }

    /// Bytes that the body will have, or would have if this were not the answer to a HEAD. One in
    /// chunks does not say so beforehand, but tells its end.
    pub(crate) fn promised(&self) -> Option<u64> {
        self.head.content_length
    }

    /// Bytes of the body so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// From sending the request to the first byte of the body, if there is one.
    pub(crate) fn first_byte(&self) -> Option<Duration> {
        self.first_byte
    }

    /// From sending the request to now.
    pub(crate) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Appends the body to `into`. What is not in the connection's buffer goes from the socket straight
    /// into it; a capacity of one byte more than the body has lets surplus bytes be noticed at once.
    ///
    /// # Errors
    /// A body that breaks off, or is shorter or longer than it says. `into` has what came until then.
    pub(crate) async fn land(&mut self, into: &mut Vec<u8>) -> Result<(), Cause> {
        while let Some((connection, next)) = self.data().await? {
            let buffered = connection.unused().len();
            let bytes = if buffered == 0 {
                let came = connection.read_into(into, next.ask(LANDING)).await;
                self.came(came)?
            } else {
                let bytes = next.share(buffered);
                into.extend_from_slice(connection.take(bytes));
                bytes
            };
            self.count(bytes)?;
        }
        Ok(())
    }

    /// The next bytes of the body, or `None` at its end.
    ///
    /// # Errors
    /// As [`land`](Self::land).
    pub(crate) async fn piece(&mut self) -> Result<Option<&[u8]>, Cause> {
        let Some((connection, next)) = self.data().await? else { return Ok(None) };
        if connection.unused().is_empty() {
            let came = connection.read_more(next.ask(READ)).await;
            self.came(came)?;
        }
        // Where the connection has ended the body, there is nothing in the buffer, or no connection.
        let buffered = self.connection.as_ref().map_or(0, |connection| connection.unused().len());
        let bytes = next.share(buffered);
        self.count(bytes)?;
        Ok(self.connection.as_mut().map(|connection| connection.take(bytes)))
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`land`](Self::land).
    pub(crate) async fn body(mut self) -> Result<Vec<u8>, Cause> {
        let mut body = Vec::new();
        self.land(&mut body).await?;
        Ok(body)
    }

    /// The connection, from which data of the body comes next; `None` when the body is over. A
    /// connection that can serve another request is then given back.
    async fn data(&mut self) -> Result<Option<(&mut Connection, Next)>, Cause> {
        loop {
            match self.next {
                Next::Length(0) => self.finish()?,
                Next::Chunk(0) => self.end_chunk().await?,
                Next::ChunkSize => self.begin_chunk().await?,
                Next::Length(_) | Next::Chunk(_) | Next::UntilClose => {
                    let next = self.next;
                    return Ok(self.connection.as_mut().map(|connection| (connection, next)));
                }
            }
            if self.connection.is_none() {
                return Ok(None);
            }
        }
    }

    /// What a read of the socket brought. Nothing is the end of the connection, and of a body that goes
    /// on until then.
    fn came(&mut self, read: io::Result<usize>) -> Result<usize, Cause> {
        match read {
            Ok(0) if matches!(self.next, Next::UntilClose) => self.connection = None,
            Ok(0) => return Err(self.truncated()),
            Ok(bytes) => return Ok(bytes),
            // TLS that does not say good-bye: somebody may have cut the body off.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.truncated());
            }
            Err(error) => return Err(failure::of_connection(&error)),
        }
        Ok(0)
    }

    fn truncated(&self) -> Cause {
        Cause::Truncated { expected: self.promised(), received: self.received }
    }

    /// So many bytes of the body were received.
    fn count(&mut self, bytes: usize) -> Result<(), Cause> {
        if bytes > 0 && self.first_byte.is_none() {
            self.first_byte = Some(self.sent.elapsed());
        }
        self.received += bytes as u64;
        if let Next::Length(left) | Next::Chunk(left) = &mut self.next {
            *left = left.checked_sub(bytes as u64).ok_or_else(surplus)?;
        }
        Ok(())
    }

    /// The body is over.
    fn finish(&mut self) -> Result<(), Cause> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        if !connection.unused().is_empty() {
            return Err(surplus());
        }
        if self.head.keeps_connection {
            self.kept.give_back(connection);
        }
        Ok(())
    }

    async fn begin_chunk(&mut self) -> Result<(), Cause> {
        let size = self
            .line(|bytes| match httparse::parse_chunk_size(bytes) {
                Ok(Status::Complete(found)) => Ok(Some(found)),
                Ok(Status::Partial) => Ok(None),
                Err(_) => Err("the size of a chunk is no number"),
            })
            .await?;
        self.next = Next::Chunk(size);
        if size == 0 {
            self.line(|bytes| {
                let mut fields = [EMPTY_HEADER; MOST_TRAILING_FIELDS];
                match httparse::parse_headers(bytes, &mut fields) {
                    Ok(Status::Complete((used, _))) => Ok(Some((used, ()))),
                    Ok(Status::Partial) => Ok(None),
                    Err(_) => Err("what follows its last chunk is no trailer"),
                }
            })
            .await?;
            self.next = Next::Length(0);
        }
        Ok(())
    }

    async fn end_chunk(&mut self) -> Result<(), Cause> {
        self.line(|bytes| match bytes {
            [b'\r', b'\n', ..] => Ok(Some((2, ()))),
            [] | [b'\r'] => Ok(None),
            _ => Err("a chunk is longer than its size"),
        })
        .await?;
        self.next = Next::ChunkSize;
        Ok(())
    }

    /// Reads on until `parse` finds what it looks for at the beginning of what is unused, and takes it.
    async fn line<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Option<(usize, T)>, &'static str>,
    ) -> Result<T, Cause> {
        loop {
            let Some(connection) = &mut self.connection else { return Err(self.truncated()) };
            let unused = connection.unused();
            if let Some((used, found)) = parse(unused).map_err(Cause::protocol)? {
                connection.take(used);
                return Ok(found);
            }
            if unused.len() > LONGEST_LINE {
                return Err(Cause::protocol("a line between its chunks does not end"));
            }
            let most = unused.len() + FIRST_READ;
            let came = connection.read_more(most).await;
            self.came(came)?;
        }
    }
}

fn surplus() -> Cause {
    Cause::protocol("bytes follow its body")
}
