//! Bodies on their way in and out, counted as they pass.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

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
    leftover: Leftover,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, counters: Arc<Counters>) -> (Self, Leftover) {
        let leftover = Leftover::default();
        (Self { inner: Some(inner), counters, leftover: leftover.clone() }, leftover)
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

/// The body of an answer. It counts its bytes, and the last frame of a GET's answer carries the
/// guard that keeps the GET in flight: the frame is dropped when the socket has taken all of it,
/// while this body is dropped as soon as that frame waits in the connection's queue.
pub(crate) struct ReplyBody {
    inner: s3s::Body,
    counters: Arc<Counters>,
    in_flight: Option<GetInFlight>,
}

impl ReplyBody {
    pub(crate) fn new(
        inner: s3s::Body,
        counters: Arc<Counters>,
        in_flight: Option<GetInFlight>,
    ) -> Self {
        Self { inner, counters, in_flight }
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
        let last = self.inner.is_end_stream();
        let data = match self.in_flight.take_if(|_| last) {
            Some(in_flight) => Bytes::from_owner(LastFrame { data, _in_flight: in_flight }),
            None => data,
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Shares the bytes of `data` (nothing is copied) and holds the GET in flight until they are gone.
struct LastFrame {
    data: Bytes,
    _in_flight: GetInFlight,
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
        let mut body =
            ReplyBody::new(s3s::Body::from(content.clone()), Arc::clone(&counters), in_flight);

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
        let body = ReplyBody::new(s3s::Body::empty(), Arc::clone(&counters), in_flight);
        assert_eq!(counters.status().gets_in_flight, 1);
        drop(body);
        assert_eq!(counters.status().gets_in_flight, 0);
    }
}
