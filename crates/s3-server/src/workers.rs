//! The threads that serve the connections.
//!
//! Each has a runtime of its own, and a connection stays with the thread that it was given to. Objects go
//! through the kernel in one piece, and their way is shortest when the same core always sends to the same
//! connection: on a runtime whose threads take tasks from each other, a GET of 315 KiB costs client and
//! server together a tenth more CPU (`benches/serving`). Where nobody takes over, connections have to be dealt
//! out evenly: a new one goes to the thread that has the fewest.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// All threads of a server. Dropping it lets each end when its last connection has ended.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    streams: UnboundedSender<Stream>,
    /// Each of its connections has a clone.
    tally: Arc<()>,
    thread: JoinHandle<()>,
}

/// A connection on its way to a thread. Sockets belong to the runtime that they were made on, so it
/// travels without one.
#[derive(Debug)]
struct Stream {
    socket: std::net::TcpStream,
    tally: Arc<()>,
}

impl Workers {
    /// Starts `count` threads, each of which runs `serve` for every connection that it is given.
    pub(crate) fn start<F>(
        count: usize,
        serve: impl Fn(TcpStream) -> F + Clone + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        (0..count).map(|_| Worker::start(serve.clone())).collect::<io::Result<_>>().map(Self)
    }

    /// Gives a connection to the thread that has the fewest.
    pub(crate) fn take(&self, stream: TcpStream) -> io::Result<()> {
        let socket = stream.into_std()?;
        if let Some(worker) = self.0.iter().min_by_key(|worker| worker.connections()) {
            let tally = Arc::clone(&worker.tally);
            // A thread takes streams as long as this exists.
            let _ = worker.streams.send(Stream { socket, tally });
        }
        Ok(())
    }

    /// Takes no more connections, and returns when those that there are have ended, and with them the
    /// threads.
    pub(crate) async fn finish(self) {
        for Worker { streams, thread, .. } in self.0 {
            drop(streams);
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Worker {
    fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (streams, waiting) = unbounded_channel();
        let thread = thread::Builder::new()
            .name("connections".to_owned())
            .spawn(move || runtime.block_on(work(waiting, serve)))?;
        Ok(Self { streams, tally: Arc::default(), thread })
    }

    /// How many it has.
    fn connections(&self) -> usize {
        Arc::strong_count(&self.tally) - 1
    }
}

/// What a thread does.
async fn work<F>(mut waiting: UnboundedReceiver<Stream>, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            next = waiting.recv() => {
                let Some(Stream { socket, tally }) = next else { break };
                // It only fails when the system is out of memory for the socket's events; then the client
                // sees its connection end.
                if let Ok(stream) = TcpStream::from_std(socket) {
                    let connection = serve(stream);
                    connections.spawn(async move {
                        connection.await;
                        drop(tally);
                    });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Threads that tell which of them has got a connection, and keep it until the client closes it.
    struct Told {
        workers: Workers,
        listener: TcpListener,
        threads: UnboundedReceiver<ThreadId>,
    }

    impl Told {
        async fn start(count: usize) -> Self {
            let (tell, threads) = unbounded_channel();
            let workers = Workers::start(count, move |mut stream: TcpStream| {
                let tell = tell.clone();
                async move {
                    let _ = tell.send(thread::current().id());
                    let _ = stream.read(&mut [0]).await;
                }
            });
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            Self { workers: workers.unwrap(), listener, threads }
        }

        /// A new connection, and the thread that has got it.
        async fn connect(&mut self) -> (TcpStream, ThreadId) {
            let client = TcpStream::connect(self.listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = self.listener.accept().await.unwrap();
            self.workers.take(stream).unwrap();
            (client, self.threads.recv().await.unwrap())
        }
    }

    #[tokio::test]
    async fn a_connection_goes_to_the_thread_that_has_the_fewest() {
        let mut told = Told::start(2).await;
        let (_first, one) = told.connect().await;
        let (second, other) = told.connect().await;
        assert_ne!(one, other);
        drop(second);
        while told.workers.0.iter().all(|worker| worker.connections() > 0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(told.connect().await.1, other);
    }

    #[tokio::test]
    async fn threads_end_with_their_last_connections() {
        let mut told = Told::start(3).await;
        let (client, _) = told.connect().await;
        let finished = tokio::spawn(told.workers.finish());
        tokio::task::yield_now().await;
        assert!(!finished.is_finished());
        drop(client);
        finished.await.unwrap();
        assert_eq!(told.threads.recv().await, None, "a thread is left");
    }
}
