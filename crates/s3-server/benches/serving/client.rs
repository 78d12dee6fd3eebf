//! The client: as little work as bytes that really arrive can cost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Process, keys};
use crate::sign::{Signed, sign};
use crate::{BUCKET, OBJECT_BYTES, OBJECTS};

/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// Connections that objects are put through.
const WRITERS: usize = 4;

/// What one turn of a server came to.
pub(crate) struct Turn {
    gets: usize,
    elapsed: Duration,
    server_cpu: Duration,
}

impl Turn {
    pub(crate) fn gib_per_second(&self) -> f64 {
        self.gib() / self.elapsed.as_secs_f64()
    }

    pub(crate) fn cpu_seconds_per_gib(&self) -> f64 {
        self.server_cpu.as_secs_f64() / self.gib()
    }

    pub(crate) fn cpu_micros_per_get(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.gets as f64
    }

    fn gib(&self) -> f64 {
        (self.gets * OBJECT_BYTES) as f64 / f64::from(1 << 30)
    }
}

/// Puts all objects, and returns the requests for them, signed.
pub(crate) fn fill(address: SocketAddr) -> Vec<Vec<u8>> {
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for object in (writer..OBJECTS).step_by(WRITERS) {
                    let mut body = vec![object as u8; OBJECT_BYTES];
                    body[..size_of::<usize>()].copy_from_slice(&object.to_ne_bytes());
                    connection.put(&request("PUT", address, object), &body);
                }
            });
        }
    });
    (0..OBJECTS).map(|object| request("GET", address, object)).collect()
}

/// Reads every object `passes` times over `connections`, each of which takes the next one as soon as it has
/// all of the last.
pub(crate) fn take_turn(
    server: &mut Process,
    requests: &[Vec<u8>],
    connections: usize,
    passes: usize,
) -> Turn {
    let gets = passes * requests.len();
    let next = AtomicUsize::new(0);
    let start = Barrier::new(connections + 1);
    let connections: Vec<_> = (0..connections).map(|_| Connection::open(server.address)).collect();
    let cpu_before = server.cpu();
    let started = thread::scope(|scope| {
        for mut connection in connections {
            let (next, start) = (&next, &start);
            scope.spawn(move || {
                start.wait();
                loop {
                    let get = next.fetch_add(1, Relaxed);
                    if get >= gets {
                        break;
                    }
                    let object = get % requests.len();
                    connection.get(&requests[object], object);
                }
            });
        }
        start.wait();
        Instant::now()
    });
    let elapsed = started.elapsed();
    Turn { gets, elapsed, server_cpu: server.cpu().saturating_sub(cpu_before) }
}

/// The head of a signed request.
fn request(method: &str, address: SocketAddr, object: usize) -> Vec<u8> {
    let host = address.to_string();
    let path = format!("/{BUCKET}/train/img_{object:07}.jpeg");
    let payload = "UNSIGNED-PAYLOAD";
    let signed = Signed { method, host: &host, path: &path, query: &[], payload };
    let [(date_name, date), (authorization_name, authorization)] = sign(&signed, &keys());
    let length = if method == "PUT" { OBJECT_BYTES } else { 0 };
    let body = if length > 0 { format!("content-length: {length}\r\n") } else { String::new() };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-amz-content-sha256: {payload}\r\n\
         {date_name}: {date}\r\n{authorization_name}: {authorization}\r\n{body}\r\n"
    )
    .into_bytes()
}

/// One connection, and the buffer that all its bytes are read into.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("it is a TCP socket");
        Self { stream, buffer: vec![0; READ_BYTES] }
    }

    fn put(&mut self, request: &[u8], body: &[u8]) {
        self.stream.write_all(request).expect("the server reads");
        self.stream.write_all(body).expect("the server reads");
        let (head, _) = self.read_head(0);
        self.check(head, 0);
    }

    fn get(&mut self, request: &[u8], object: usize) {
        self.stream.write_all(request).expect("the server reads");
        let number = size_of::<usize>();
        let (head, mut filled) = self.read_head(number);
        self.check(head, OBJECT_BYTES);
        assert_eq!(self.buffer[head..head + number], object.to_ne_bytes(), "another object came");
        let mut left = head + OBJECT_BYTES - filled;
        while left > 0 {
            filled = self.read(0);
            left = left.checked_sub(filled).expect("no byte comes after the object");
        }
    }

    /// Reads until the head is there, and `more` bytes behind it: the length of the head and of all that
    /// was read.
    fn read_head(&mut self, more: usize) -> (usize, usize) {
        let mut filled = 0;
        loop {
            filled += self.read(filled);
            let read = &self.buffer[..filled];
            // A head has a few hundred bytes; the body may be long.
            let head = read[..filled.min(4096)].windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = head.filter(|end| end + 4 + more <= filled) {
                return (end + 4, filled);
            }
        }
    }

    /// Sees that the first `head` bytes of the buffer announce an answer of `length` bytes.
    fn check(&self, head: usize, length: usize) {
        let head = String::from_utf8_lossy(&self.buffer[..head]);
        let announced = format!("\r\ncontent-length: {length}\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains(&announced), "{head}");
    }

    /// Reads once, behind the first `at` bytes of the buffer.
    fn read(&mut self, at: usize) -> usize {
        let count = self.stream.read(&mut self.buffer[at..]).expect("the server writes");
        assert!(count > 0, "the server closed the connection");
        count
    }
}
