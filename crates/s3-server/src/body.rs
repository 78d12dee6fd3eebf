//! Bodies on their way in and out, counted as they pass.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::access_log::Entry;
use crate::counters::{Counters, GetInFlight};

/// What is left of a request body that its reader dropped before the end.
///
/// A request may be answered before its body was read: refused by its signature, or by a fault rule.
/// Closing the socket with bytes unread would make the kernel send a RST, which can overtake the
/// answer, and the client would report a broken connection instead of the reason. So what is left is
/// read and thrown away before the answer goes out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftover(Arc<Mutex<Option<Incoming>>>);

impl Leftover {
    pub(crate) async fn discard(self) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(body) = left {
            discard(body).await;
        }
    }
}

/// Reads a body to its end, or to the first error, and forgets it.
pub(crate) async fn discard(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

/// A request body that counts its bytes and leaves its unread rest to a [`Leftover`].
pub(crate) struct RequestBody {
    inner: Option<Incoming>,
    counters: Arc<Counters>,
    received: Option<Arc<AtomicU64>>,
    leftover: Leftover,
}

impl RequestBody {
    /// A body that adds its bytes to `counters`, and to `received` for the access log.
    pub(crate) fn new(
        inner: Incoming,
        counters: Arc<Counters>,
        received: Option<Arc<AtomicU64>>,
    ) -> (Self, Leftover) {
        let leftover = Leftover::default();
        (Self { inner: Some(inner), counters, received, leftover: leftover.clone() }, leftover)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.counters.received(data.len());
            if let Some(received) = &self.received {
                received.fetch_add(data.len() as u64, Relaxed);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            *self.leftover.0.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.take();
        }
    }
}

/// What is to be dropped when an answer has been sent.
#[derive(Debug, Default)]
pub(crate) struct OnSent {
    /// Keeps a GET in flight.
    pub(crate) in_flight: Option<GetInFlight>,
    /// Writes the line of the access log.
    pub(crate) entry: Option<Entry>,
}

impl OnSent {
    fn is_empty(&self) -> bool {
        self.in_flight.is_none() && self.entry.is_none()
    }
}

/// The body of an answer. It counts its bytes, and its last frame carries the [`OnSent`]: the frame is
/// dropped when the socket has taken all of it, while this body is dropped as soon as that frame waits
/// in the connection's queue.
pub(crate) struct ReplyBody {
    inner: s3s::Body,
    counters: Arc<Counters>,
    on_sent: OnSent,
}

impl ReplyBody {
    pub(crate) fn new(inner: s3s::Body, counters: Arc<Counters>, on_sent: OnSent) -> Self {
        Self { inner, counters, on_sent }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, s3s::StdError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        self.counters.sent(data.len());
        if let Some(entry) = &mut self.on_sent.entry {
            entry.sent(data.len());
        }
        if self.on_sent.is_empty() || !self.inner.is_end_stream() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let last = LastFrame { data, _on_sent: std::mem::take(&mut self.on_sent) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(last)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Shares the bytes of `data` (nothing is copied) and holds the [`OnSent`] until they are gone.
struct LastFrame {
    data: Bytes,
    _on_sent: OnSent,
}

impl AsRef<[u8]> for LastFrame {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestKind;

    #[tokio::test]
    async fn a_get_is_in_flight_until_its_last_frame_is_dropped() {
        let counters = Arc::new(Counters::default());
        let content = Bytes::from(vec![7; 1000]);
        let in_flight = counters.arrived(RequestKind::Get);
        let on_sent = OnSent { in_flight, entry: None };
        let mut body =
            ReplyBody::new(s3s::Body::from(content.clone()), Arc::clone(&counters), on_sent);

        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.is_end_stream());
        drop(body);
        assert_eq!(frame.as_ptr(), content.as_ptr(), "the body was copied");
        assert_eq!(counters.status().gets_in_flight, 1);
        assert_eq!(counters.status().body_bytes_out.0, 1000);
        drop(frame);
        assert_eq!(counters.status().gets_in_flight, 0);
    }

    #[tokio::test]
    async fn an_empty_answer_ends_with_its_body() {
        let counters = Arc::new(Counters::default());
        let in_flight = counters.arrived(RequestKind::Get);
        let on_sent = OnSent { in_flight, entry: None };
        let body = ReplyBody::new(s3s::Body::empty(), Arc::clone(&counters), on_sent);
        assert_eq!(counters.status().gets_in_flight, 1);
        drop(body);
        assert_eq!(counters.status().gets_in_flight, 0);
    }
}
