//! The servers, each in a process of its own.
//!
//! A process says its address on the first line of its standard output, and then, for each line that it is
//! sent, how many nanoseconds of CPU time it has used. It ends when its standard input closes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use feedrate_s3_server::{KeyPair, Options, Server};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::{BUCKET, OBJECT_BYTES};

/// The server of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What hyper does when nothing is asked of it but to send bytes.
    Bare,
    /// The server of this crate.
    Feedrate,
}

impl Kind {
    /// What is compared comes behind what it is compared with.
    pub(crate) const ALL: [Self; 2] = [Self::Bare, Self::Feedrate];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare hyper",
            Self::Feedrate => "feedrate",
        }
    }

    /// The one that a process is to be, by its arguments.
    pub(crate) fn of_process(arguments: &[String]) -> Option<Self> {
        let [word, name] = arguments else { return None };
        Self::ALL.into_iter().find(|kind| word == PROCESS && name == kind.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first argument of a process.
const PROCESS: &str = "--serve";

/// What the embedded server of a sweep is started with: its objects lie on huge pages.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432";

/// A running server; it ends when this is dropped.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(kind: Kind) -> Self {
        let mut child = Command::new(env::current_exe().expect("this program is a file"))
            .args([PROCESS, kind.name()])
            .env("GLIBC_TUNABLES", HUGE_PAGES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be run");
        let input = child.stdin.take().expect("it is piped");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let address = read_line(&mut output).parse().expect("it is an address");
        Self { address, child, input, output }
    }

    /// The CPU time of all its threads until now.
    pub(crate) fn cpu(&mut self) -> Duration {
        writeln!(self.input).expect("the server lives");
        Duration::from_nanos(read_line(&mut self.output).parse().expect("it is a number"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).expect("the server writes");
    line.trim_end().to_owned()
}

/// The only keys that are taken.
pub(crate) fn keys() -> KeyPair {
    KeyPair { access_key_id: "BENCH".to_owned(), secret_access_key: "of no value".to_owned() }
}

/// Is the process of a server.
pub(crate) fn run(kind: Kind) {
    let runtime = Runtime::new().expect("threads can be started");
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let address = match kind {
        Kind::Bare => {
            let listener = runtime.block_on(TcpListener::bind(listen)).expect("a port is free");
            let address = listener.local_addr().expect("it is bound");
            runtime.spawn(serve_bare(listener));
            address
        }
        Kind::Feedrate => {
            let buckets = vec![BUCKET.to_owned()];
            let options = Options { buckets, ..Options::in_memory(listen, keys()) };
            let server = runtime.block_on(Server::bind(options)).expect("a port is free");
            let address = server.local_addr();
            runtime.spawn(server.serve(std::future::pending()));
            address
        }
    };
    println!("{address}");
    for _ in io::stdin().lock().lines() {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        println!("{}", cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec);
    }
}

/// Objects by their paths.
type Objects = Arc<RwLock<HashMap<String, Bytes>>>;

async fn serve_bare(listener: TcpListener) {
    let objects = Objects::default();
    loop {
        let (stream, _) = listener.accept().await.expect("there are descriptors");
        stream.set_nodelay(true).expect("it is a TCP socket");
        let objects = Arc::clone(&objects);
        let answer = service_fn(move |request| answer_bare(request, Arc::clone(&objects)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

/// Takes any object, and answers with it and the head that the other server sends.
async fn answer_bare(
    request: Request<Incoming>,
    objects: Objects,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut response = Response::new(Full::default());
    if request.method() == Method::PUT {
        let mut content = Vec::with_capacity(OBJECT_BYTES);
        let mut body = request.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            content.extend_from_slice(frame.data_ref().map_or(&[], |piece| piece));
        }
        objects.write().unwrap_or_else(PoisonError::into_inner).insert(path, content.into());
        return Ok(response);
    }
    let content = objects.read().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
    let Some(content) = content else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::ACCEPT_RANGES, "bytes"),
        (header::CONTENT_TYPE, "binary/octet-stream"),
        (header::ETAG, "\"0000000000000000000000000004ed8d-1\""),
        (header::LAST_MODIFIED, "Sat, 01 Mar 2025 12:00:00 GMT"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_LENGTH, content.len().into());
    *response.body_mut() = Full::new(content);
    Ok(response)
}
