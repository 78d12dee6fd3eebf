//! One connection of a client.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use crate::service::Service;

/// The most of a request body that waits in a connection, and the longest head of a request. Small
/// enough that a body is still in the L2 cache when it is copied into its object: uploads then cost a
/// little less CPU than with hyper's 400 KiB, and many connections far less memory. Bodies of answers
/// do not pass through it.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// Serves `stream` until either side ends it, a fault rule resets it, or the server stops. Then what is
/// under way has the time of `grace`.
pub(crate) async fn serve(
    stream: TcpStream,
    service: Arc<Service>,
    mut stopping: watch::Receiver<()>,
    grace: Duration,
) {
    // Without it, Nagle's algorithm and delayed ACKs hold back the end of an answer for 40 ms.
    // It can only fail when the connection is already gone, which the first read will tell.
    let _ = stream.set_nodelay(true);
    let reset = Notify::new();
    let mut connection = http1::Builder::new().max_buf_size(READ_BUFFER_BYTES).serve_connection(
        TokioIo::new(stream),
        service_fn(|request| service.respond(request, &reset)),
    );
    let is_reset = tokio::select! {
        // An error is the client's going away, or no HTTP; there is nobody left to tell.
        _ = &mut connection => return,
        () = reset.notified() => true,
        _ = stopping.changed() => false,
    };
    if is_reset {
        // Closing a socket that does not linger sends a RST instead of a FIN.
        let stream = connection.into_parts().io.into_inner();
        let _ = stream.set_zero_linger();
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        let _ = tokio::time::timeout(grace, connection).await;
    }
}
