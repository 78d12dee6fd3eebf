//! Making connections: look-up, TCP and TLS, all within one time limit.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::ClientConfig;
use tower_service::Service;

type Inner = HttpsConnector<HttpConnector>;
type BoxError = Box<dyn Error + Send + Sync>;

/// Connects within a time limit. The limit is around everything because a name server that does not
/// answer, or a peer that accepts and then keeps silent, would otherwise have no limit but the
/// attempt's.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    inner: Inner,
    limit: Duration,
}

impl Connector {
    pub(super) fn new(tls: ClientConfig, limit: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // A request's head and body are written apart: with Nagle's algorithm the second waits.
        tcp.set_nodelay(true);
        // Of several addresses, one that does not answer may not use up the whole limit.
        tcp.set_connect_timeout(Some(limit));
        let inner = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Self { inner, limit }
    }
}

impl Service<Uri> for Connector {
    type Response = <Inner as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let limit = self.limit;
        Box::pin(async move {
            tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
                let reason = format!("no connection within the time limit of {limit:?}");
                Err(io::Error::new(io::ErrorKind::TimedOut, reason).into())
            })
        })
    }
}
