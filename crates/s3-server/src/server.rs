//! The listening socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::config::Options;
use crate::connection;
use crate::service::Service;
use crate::workers::Workers;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use, not one of this host, or not allowed.
    #[error("cannot listen on {address}{}", listen_advice(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// S3 does not allow a bucket of this name.
    #[error(
        "\"{name}\" cannot be the name of a bucket: S3 wants 3 to 63 lower-case letters, digits, dots \
         and hyphens, with a letter or digit at both ends, and no IP address"
    )]
    BucketName {
        /// The name asked for.
        name: String,
    },
    /// There are no keys, an access key id or a secret is empty, or an id holds a `/`, with which no
    /// signature can be made.
    #[error("the server's keys need a secret, and an access key id without \"/\"")]
    Keys,
    /// Two pairs of keys have the same id.
    #[error(
        "the access key id {access_key_id} stands for two secrets; give each pair an id of its own"
    )]
    KeyTwice {
        /// The id.
        access_key_id: String,
    },
    /// A domain is none.
    #[error("\"{name}\" is no domain: write letters, digits, hyphens and dots, without a port")]
    Domain {
        /// The name asked for.
        name: String,
    },
    /// The folder cannot be served.
    #[error("cannot serve {}{}", path.display(), directory_advice(source))]
    Directory {
        /// The folder asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A bucket could not be made.
    #[error("cannot make the bucket {name}: {reason}")]
    Bucket {
        /// The name asked for.
        name: String,
        /// What the store said.
        reason: String,
    },
    /// The system refuses threads to serve with.
    #[error("cannot start the server's threads")]
    Threads {
        /// What the system said.
        source: io::Error,
    },
    /// The access log cannot be written.
    #[error("cannot write the access log {}", path.display())]
    AccessLog {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn listen_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for any free one",
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this host",
        io::ErrorKind::PermissionDenied => "; ports below 1024 may need privileges",
        _ => "",
    }
}

fn directory_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; make the folder first",
        io::ErrorKind::NotADirectory => "; name the folder that holds the folders of the buckets",
        _ => "",
    }
}

/// A server that is bound to its address: clients can connect from now on, and are answered once
/// [`serve`](Self::serve) runs.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service>,
    workers: Workers,
    /// Dropped when the connections are to end.
    stop: watch::Sender<()>,
}

/// How long accepting pauses when the system refuses, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Each thread holds three descriptors, of which there may be no more than 1024, and memory is at its limit
/// with fewer threads.
const MAX_THREADS: usize = 64;

/// Connections that may wait to be accepted; the system may allow fewer. All readers of all accelerators
/// connect in the moment in which an epoch begins, and one that finds no place tries again after a whole
/// second.
const BACKLOG: u32 = 4096;

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port of a server that has just ended can be used again at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Server {
    /// Checks the options, opens the store, starts a thread for each CPU that this process may use, and
    /// binds the address. Must be called on a tokio runtime with I/O and time, on which only the accepting
    /// of connections is done.
    pub async fn bind(options: Options) -> Result<Self, StartError> {
        let (listen, grace) = (options.listen, options.grace);
        let failed = |source| StartError::Listen { address: listen, source };
        let service = Arc::new(Service::new(options).await?);
        let listener = listen_on(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopping) = watch::channel(());
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        let workers = Workers::start(threads, {
            let service = Arc::clone(&service);
            move |stream| connection::serve(stream, Arc::clone(&service), stopping.clone(), grace)
        })
        .map_err(|source| StartError::Threads { source })?;
        Ok(Self { listener, address, service, workers, stop })
    }

    /// The address that clients can connect to, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes. Then nothing is accepted any more, requests under way have
    /// the time of grace of the options to be answered, and this returns with all connections closed
    /// and the access log written.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            // Both fail for want of descriptors or memory, which may come back.
            if accepted.and_then(|(stream, _)| self.workers.take(stream)).is_err() {
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        drop(self.listener);
        drop(self.stop);
        self.workers.finish().await;
        if let Some(log) = Arc::into_inner(self.service).and_then(Service::into_log) {
            log.close().await;
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyPair;

    fn options(secret: &str) -> Options {
        let keys = KeyPair { access_key_id: "id".into(), secret_access_key: secret.into() };
        Options::in_memory(SocketAddr::from(([127, 0, 0, 1], 0)), keys)
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let first = Server::bind(options("hush")).await.unwrap();
        let listen = first.local_addr();
        let error =
            Server::bind(Options { listen, ..options("hush") }).await.unwrap_err().to_string();
        assert!(error.contains(&listen.to_string()) && error.contains("another port"), "{error}");
    }

    #[tokio::test]
    async fn many_clients_find_a_place_at_once() {
        let server = Server::bind(options("hush")).await.unwrap();
        // Nobody accepts yet, so all of them have to wait in the queue.
        let connect = |_| std::net::TcpStream::connect_timeout(&server.address, ACCEPT_PAUSE * 20);
        let clients: Result<Vec<_>, _> = (0..600).map(connect).collect();
        clients.unwrap();
    }

    #[tokio::test]
    async fn impossible_buckets_and_keys_are_refused() {
        let buckets = vec!["ok-bucket".to_owned(), "_feedrate".to_owned()];
        let error = Server::bind(Options { buckets, ..options("hush") }).await.unwrap_err();
        assert!(error.to_string().contains("\"_feedrate\""), "{error}");

        let error = Server::bind(options("")).await.unwrap_err();
        assert!(matches!(error, StartError::Keys));
    }

    #[test]
    fn debug_output_of_options_does_not_hold_the_secret() {
        assert!(!format!("{:?}", options("hush")).contains("hush"));
    }
}
