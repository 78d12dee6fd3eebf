//! Servers: this program, started again.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use feedrate_metrics::process::ProcessUsage;
use feedrate_s3_server::{KeyPair, Options};
use tokio::runtime::Runtime;

use crate::floor;

pub(crate) const BUCKET: &str = "bench";

/// A port that the system chooses.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// As `feedrate sweep` starts its embedded server: objects lie on huge pages.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432";

/// What a server is to be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// The server of [`floor`], with so many objects.
    Floor { objects: usize },
    /// The embedded S3 server, without any.
    S3,
}

impl Kind {
    /// What this process is to be, if it was started as a server.
    pub(crate) fn of_process(arguments: &[String]) -> Option<Self> {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        match arguments[..] {
            ["serve", "floor", objects] => Some(Self::Floor { objects: objects.parse().ok()? }),
            ["serve", "s3"] => Some(Self::S3),
            _ => None,
        }
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Self::Floor { objects } => vec!["serve".into(), "floor".into(), objects.to_string()],
            Self::S3 => vec!["serve".into(), "s3".into()],
        }
    }
}

/// The only keys that the S3 server knows.
pub(crate) fn keys() -> KeyPair {
    KeyPair {
        access_key_id: "BENCHBENCHBENCH".to_owned(),
        secret_access_key: "of no value".to_owned(),
    }
}

/// Is a server until standard input ends: when the parent drops its [`Server`], or dies.
pub(crate) fn run(kind: Kind) {
    let runtime = Runtime::new().expect("threads can be started");
    let address = match kind {
        Kind::Floor { objects } => {
            let listener = TcpListener::bind(ANY_PORT).expect("a port is free");
            let address = listener.local_addr().expect("it is bound");
            floor::serve(listener, objects);
            address
        }
        Kind::S3 => {
            let options = Options {
                buckets: vec![BUCKET.to_owned()],
                ..Options::in_memory(ANY_PORT, keys())
            };
            let server = runtime
                .block_on(feedrate_s3_server::Server::bind(options))
                .expect("a port is free");
            let address = server.local_addr();
            runtime.spawn(server.serve(std::future::pending()));
            address
        }
    };
    println!("{address}");
    io::copy(&mut io::stdin(), &mut io::sink()).expect("standard input is a pipe");
}

/// A server in a process of its own, which ends with this.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts one, and returns when it can be reached.
    pub(crate) fn start(kind: Kind) -> Self {
        let mut process = Command::new(env::current_exe().expect("this program has a path"))
            .args(kind.arguments())
            .env("GLIBC_TUNABLES", HUGE_PAGES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process can be started");
        let output = process.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("it is text");
        let address = line.trim().parse().expect("the server starts, and tells its address");
        Self { process, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU time that it has used until now.
    pub(crate) fn cpu(&self) -> Duration {
        let usage = ProcessUsage::of_pid(self.process.id()).expect("the server runs");
        Duration::from_secs_f64(usage.cpu.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // Nothing could be done about a failure.
        let _ = self.process.wait();
    }
}
