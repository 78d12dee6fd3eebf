//! Making connections: look-up, TCP and TLS, all within one time limit.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use super::failure;
use crate::Cause;

/// A server, as connections and requests name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    host: Host<String>,
    port: u16,
    is_https: bool,
    /// As the `Host` field has it.
    authority: String,
}

impl Origin {
    /// Of an `http` or `https` URL with a host.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let host = url.host()?.to_owned();
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let is_https = url.scheme() == "https";
        Some(Self { host, port: url.port_or_known_default()?, is_https, authority })
    }

    /// The value of the `Host` field.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}

/// Connects to one server within a time limit. The limit is around everything because a name server
/// that does not answer, or a peer that accepts and then keeps silent, would otherwise have no limit
/// but the attempt's.
pub(super) struct Connector {
    origin: Origin,
    tls: TlsConnector,
    limit: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("origin", &self.origin)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(origin: Origin, mut tls: ClientConfig, limit: Duration) -> Self {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { origin, tls: TlsConnector::from(Arc::new(tls)), limit }
    }

    /// A new connection.
    ///
    /// # Errors
    /// [`Cause::Connect`] with the socket's or resolver's reason, or [`Cause::Tls`].
    pub(super) async fn connect(&self) -> Result<Stream, Cause> {
        let late = |_| {
            let limit = self.limit;
            Err(Cause::Connect {
                reason: format!("no connection within the time limit of {limit:?}"),
            })
        };
        timeout(self.limit, self.connect_at_last()).await.unwrap_or_else(late)
    }

    async fn connect_at_last(&self) -> Result<Stream, Cause> {
        let failed = |error: io::Error| Cause::Connect { reason: failure::reason(&error) };
        let stream = self.tcp().await.map_err(failed)?;
        // A request's head and body are written apart: with Nagle's algorithm the second waits.
        stream.set_nodelay(true).map_err(failed)?;
        if !self.origin.is_https {
            return Ok(Stream::Plain(stream));
        }
        let name = match &self.origin.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .map_err(|_| Cause::Tls { reason: format!("{name} is no name of a server") })?,
            Host::Ipv4(address) => ServerName::from(IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::from(*address)),
        };
        let refused = |error| failure::of_tls(&error).unwrap_or_else(|| failed(error));
        let secured = self.tls.connect(name, stream).await.map_err(refused)?;
        Ok(Stream::Secured(Box::new(secured)))
    }

    /// Tries the addresses of the host one after the other, each for its share of the time, so that
    /// one that does not answer leaves some to the others.
    async fn tcp(&self) -> io::Result<TcpStream> {
        let began = Instant::now();
        let addresses: Vec<SocketAddr> = match &self.origin.host {
            Host::Domain(name) => lookup_host((name.as_str(), self.origin.port)).await?.collect(),
            Host::Ipv4(address) => vec![(*address, self.origin.port).into()],
            Host::Ipv6(address) => vec![(*address, self.origin.port).into()],
        };
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for (tried, address) in addresses.iter().enumerate() {
            let left = self.limit.saturating_sub(began.elapsed());
            let share = left / (addresses.len() - tried) as u32;
            failure = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error,
                Err(_) => {
                    let text = format!("{address} did not answer within {share:?}");
                    io::Error::new(io::ErrorKind::TimedOut, text)
                }
            };
        }
        Err(failure)
    }
}

/// An open connection's bytes.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    /// Boxed because it is ten times as large.
    Secured(Box<TlsStream<TcpStream>>),
    /// The end of a pipe in memory.
    #[cfg(test)]
    Memory(tokio::io::DuplexStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secured(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(test)]
            Self::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(test)]
            Self::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secured(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(test)]
            Self::Memory(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secured(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(test)]
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Origin::of(&Url::parse(url).unwrap()).unwrap()
    }

    #[test]
    fn the_host_field_names_a_port_that_is_not_the_usual_one() {
        for (url, authority, port) in [
            ("http://minio:9000/x", "minio:9000", 9000),
            ("http://minio/x", "minio", 80),
            ("https://MINIO:443/x", "minio", 443),
            ("https://[::1]:8443/", "[::1]:8443", 8443),
            ("http://10.0.0.1:80", "10.0.0.1", 80),
        ] {
            let origin = origin(url);
            assert_eq!((origin.authority(), origin.port), (authority, port));
        }
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_a_refused_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let origin = origin(&format!("http://127.0.0.1:{port}"));
        let connector = Connector::new(origin, tls, Duration::from_secs(5));
        let Err(Cause::Connect { reason }) = connector.connect().await else {
            panic!("nobody listens")
        };
        assert!(reason.contains("refused"), "{reason}");
    }
}
