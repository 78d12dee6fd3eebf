//! An HTTP/1.1 client of one server, made for reading objects as fast as the host can take them.
//!
//! A [`Client`] keeps the connections that are open and not in use. A request takes the one that was
//! given back last (its buffers are still in the cache) or makes a new one ([`connect`]), and has it to
//! itself until the last byte of its answer: a [`Connection`] is never shared and nothing runs beside
//! the task that asked. The answer's [`head`] says where its body ends, and the body comes straight
//! from the socket into the caller's buffer or through the connection's own ([`answer`]).
//!
//! Framing is strict. Bytes behind the end of a body, two lengths, a length beside chunks, or a head
//! that does not parse are errors, and the connection is closed: whoever guesses where an answer ends
//! reads the next one wrong. A connection goes back only when its answer was read to the end and
//! nothing follows it.
//!
//! Nothing here knows S3, signs, or repeats. The one exception: a kept connection that the server has
//! closed is found out before anything was sent over it, and another one is taken.

mod answer;
mod connect;
mod connection;
pub(crate) mod failure;
mod head;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Cause;
use connect::Connector;
use connection::{Connection, Unsent};

pub(crate) use answer::Answer;
pub(crate) use connect::Origin;

/// How long an unused connection is kept. Shorter than what common stores and load balancers allow,
/// so that requests are not sent into a connection that the other side is about to close.
const KEPT_UNUSED: Duration = Duration::from_secs(15);

/// The connections to one server.
#[derive(Clone)]
pub(crate) struct Client {
    connector: Arc<Connector>,
    kept: Arc<Kept>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl Client {
    /// A client without a connection. One that is made, look-up and TLS included, takes `limit` at
    /// most.
    pub(crate) fn new(origin: Origin, tls: rustls::ClientConfig, limit: Duration) -> Self {
        Self { connector: Arc::new(Connector::new(origin, tls, limit)), kept: Arc::default() }
    }

    /// Sends a request and waits for the head of its answer. `write_head` appends the request's head,
    /// with the length of `body` in it if there is one; it may be called again, for another connection.
    /// `is_head` says that the method is HEAD, whose answers have no body.
    ///
    /// # Errors
    /// No connection, or one that broke, or an answer that is not HTTP as it should be.
    pub(crate) async fn send(
        &self,
        write_head: impl Fn(&mut Vec<u8>),
        is_head: bool,
        body: Bytes,
    ) -> Result<Answer, Cause> {
        let sent = Instant::now();
        loop {
            let (mut connection, is_new) = match self.kept.take() {
                Some(kept) => (kept, false),
                None => (Connection::new(self.connector.connect().await?), true),
            };
            match connection.send(&write_head, &body).await {
                Ok(()) => {}
                // Nothing of the request has gone out, so the server cannot have seen it.
                Err(Unsent(_)) if !is_new => continue,
                Err(Unsent(error)) => return Err(failure::of_connection(&error)),
            }
            let head = connection.receive_head(is_head).await?;
            return Ok(Answer::new(connection, head, Arc::clone(&self.kept), sent));
        }
    }
}

/// Connections that are open and not in use, the one given back last at the end.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Connection>>);

impl Kept {
    /// The connection given back last that the server has not closed since.
    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.lock().pop()?;
            if connection.unused_since.elapsed() < KEPT_UNUSED && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, mut connection: Connection) {
        let now = Instant::now();
        connection.unused_since = now;
        let mut kept = self.lock();
        kept.push(connection);
        // Those at the front have been unused for longest. One at a time keeps up.
        if now - kept[0].unused_since > KEPT_UNUSED {
            kept.remove(0);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
