//! Sending a large file off in parts, as it is made.
//!
//! The thread that makes the file fills one buffer after the other; each full one is a part and goes its
//! way while the next is filled. Permits hold the thread up when as many are on their way as may be. The
//! first part stays back while bytes in it are still open.

use std::panic;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feedrate_storage::{ObjectKey, StoreError, Upload};
use tokio::task::{JoinError, JoinSet};

use super::pool::{Buffer, Permit};
use super::{Maker, in_turn};
use crate::Length;
use crate::format::out::{LATEST, Later, Out, Stopped};

/// How long a store may take to take parts back. Nobody waits longer for the end of it all.
const ABORT: Duration = Duration::from_secs(2);

/// The most bytes that a file of about this length is taken to have.
pub(super) fn most_bytes(length: Length) -> u64 {
    length.exact().unwrap_or(length.bytes().saturating_mul(2))
}

/// A file on its way in parts.
pub(super) struct Sender<'a> {
    maker: &'a Maker,
    upload: Arc<Upload>,
    sending: JoinSet<Result<(), StoreError>>,
    /// The part that is being filled.
    filling: Option<Filling>,
    /// The first part, while bytes in it are open.
    kept_back: Option<Filling>,
    /// Places that are open.
    open: usize,
    /// Bytes so far.
    length: u64,
    failed: Option<StoreError>,
}

struct Filling {
    offset: u64,
    buffer: Buffer,
    permit: Permit,
}

impl<'a> Sender<'a> {
    /// Begins to send the object of `key`.
    pub(super) fn begin(
        maker: &'a Maker,
        key: ObjectKey,
        length: Length,
    ) -> Result<Self, StoreError> {
        let begun = Upload::begin(Arc::clone(&maker.store), key, Some(most_bytes(length)));
        Ok(Self {
            maker,
            upload: Arc::new(maker.runtime.block_on(begun)?),
            sending: JoinSet::new(),
            filling: None,
            kept_back: None,
            open: 0,
            length: 0,
            failed: None,
        })
    }

    /// Sends the rest and makes an object of the parts. What a failed one leaves is taken away. `None` if
    /// another file has failed: then parts were not sent any more, and its error is the one to tell.
    pub(super) fn finish(mut self) -> Result<Option<()>, StoreError> {
        debug_assert_eq!(self.open, 0);
        let last = self.filling.take();
        for filling in self.kept_back.take().into_iter().chain(last) {
            self.send(filling);
        }
        let sent = self.wait();
        if sent.is_ok() && self.maker.in_flight.is_closed() {
            self.abort();
            return Ok(None);
        }
        let upload = Arc::clone(&self.upload);
        let length = self.length;
        let outcome = sent.and_then(|()| self.maker.runtime.block_on(upload.complete(length)));
        outcome.map(Some).inspect_err(|_| self.abort())
    }

    /// Takes away what was sent of a file that will not be whole: because a part was refused, which is
    /// the error, or because generation ends.
    pub(super) fn give_up(mut self) -> Result<(), StoreError> {
        self.sending.abort_all();
        let outcome = self.wait();
        self.abort();
        outcome
    }

    fn abort(&self) {
        let abort = async { tokio::time::timeout(ABORT, self.upload.abort()).await };
        // The first error is the one to tell; what stays behind is no object.
        let _ = self.maker.runtime.block_on(abort);
    }

    /// Waits for all that is on its way.
    fn wait(&mut self) -> Result<(), StoreError> {
        while let Some(ended) = self.maker.runtime.block_on(self.sending.join_next()) {
            self.note(ended);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Keeps the first refusal of a part.
    fn note(&mut self, ended: Result<Result<(), StoreError>, JoinError>) {
        match ended {
            Ok(Err(error)) => {
                self.failed.get_or_insert(error);
            }
            Err(ended) if ended.is_panic() => panic::resume_unwind(ended.into_panic()),
            // Sent, or given up.
            Ok(Ok(())) | Err(_) => {}
        }
    }

    /// Sends a part off.
    fn send(&mut self, Filling { offset, buffer, permit }: Filling) {
        let (upload, in_flight) = (Arc::clone(&self.upload), Arc::clone(&self.maker.in_flight));
        let progress = Arc::clone(&self.maker.progress);
        let sending = async move {
            let body = Bytes::from_owner(buffer);
            let bytes = body.len() as u64;
            if in_turn(&in_flight, upload.part(offset, body)).await?.is_some() {
                drop(permit);
                progress.add_bytes(bytes);
            }
            Ok(())
        };
        self.sending.spawn_on(sending, &self.maker.runtime);
    }

    /// Looks whether a part was refused.
    fn look(&mut self) -> Result<(), Stopped> {
        while let Some(ended) = self.sending.try_join_next() {
            self.note(ended);
        }
        if self.failed.is_some() { Err(Stopped) } else { Ok(()) }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Stopped> {
        let part_bytes = self.upload.part_bytes();
        while !bytes.is_empty() {
            if self.filling.is_none() {
                self.look()?;
                let permit = self.maker.pool.permit().ok_or(Stopped)?;
                let mut buffer = self.maker.pool.buffer();
                buffer.bytes.reserve(part_bytes as usize);
                self.filling = Some(Filling { offset: self.length, buffer, permit });
            }
            let Some(Filling { offset, buffer, .. }) = &mut self.filling else { continue };
            let (offset, room) = (*offset, part_bytes as usize - buffer.bytes.len());
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            buffer.bytes.extend_from_slice(now);
            self.length += now.len() as u64;
            bytes = rest;
            if now.len() == room
                && let Some(full) = self.filling.take()
            {
                if offset == 0 && self.open > 0 {
                    self.kept_back = Some(full);
                } else {
                    self.send(full);
                }
            }
        }
        Ok(())
    }
}

impl Out for Sender<'_> {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.take(bytes)
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.take(bytes)
    }

    fn later(&mut self, len: usize) -> Result<Later, Stopped> {
        debug_assert!(self.length + len as u64 <= LATEST);
        let place = Later { offset: self.length, len };
        self.open += 1;
        self.take(&vec![0; len])?;
        Ok(place)
    }

    fn fill_in(&mut self, place: Later, bytes: &[u8]) {
        self.open -= 1;
        let first = self.filling.as_mut().filter(|filling| filling.offset == 0);
        if let Some(first) = self.kept_back.as_mut().or(first) {
            let start = place.offset as usize;
            first.buffer.bytes[start..start + place.len].copy_from_slice(bytes);
        }
    }
}
