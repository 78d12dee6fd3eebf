//! The least that a GET can cost on this machine: a request and an answer that look like HTTP and are not
//! parsed, blocking reads and writes, and a thread for each end of each connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use crate::OBJECT_BYTES;

/// What is read at once. Larger buffers fall out of the L2 cache and are slower.
const READ_BYTES: usize = 64 << 10;

/// What every request begins with; the object's number follows, and a blank.
const BEGIN: &str = "GET /bench/train/";

/// Answers on `listener`, from now on, each connection on a thread of its own.
pub(crate) fn serve(listener: TcpListener, objects: usize) {
    let answers: Arc<[Vec<u8>]> = (0..objects).map(answer).collect();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let answers = Arc::clone(&answers);
            let connection = connection.expect("there are descriptors left");
            // An error is the client's going away.
            thread::spawn(move || answer_requests(connection, &answers));
        }
    });
}

/// Head and body of an object, in one piece so that one call sends both.
fn answer(object: usize) -> Vec<u8> {
    let mut answer = head().into_bytes();
    answer.resize(answer.len() + OBJECT_BYTES, object as u8);
    answer
}

fn head() -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {OBJECT_BYTES}\r\n\r\n")
}

fn answer_requests(mut connection: TcpStream, answers: &[Vec<u8>]) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut request = [0; 256];
    loop {
        // A request is far smaller than a packet, so it comes as a whole.
        let length = connection.read(&mut request)?;
        if length == 0 {
            return Ok(());
        }
        let object = request[..length]
            .get(BEGIN.len()..)
            .and_then(|rest| str::from_utf8(rest).ok()?.split(' ').next()?.parse().ok());
        let object: usize = object.expect("the client writes whole requests");
        connection.write_all(&answers[object])?;
    }
}

/// The client.
pub(crate) struct Client {
    server: SocketAddr,
    connections: Vec<Connection>,
    requests: Vec<String>,
    next: AtomicUsize,
}

impl Client {
    /// Of the server at an address, which has so many objects.
    pub(crate) fn new(server: SocketAddr, objects: usize) -> Self {
        let request = |object| format!("{BEGIN}{object} HTTP/1.1\r\nhost: {server}\r\n\r\n");
        Self {
            server,
            connections: Vec::new(),
            requests: (0..objects).map(request).collect(),
            next: AtomicUsize::new(0),
        }
    }
}

impl crate::Client for Client {
    fn get_until(&mut self, end: Instant, in_flight: usize) -> usize {
        while self.connections.len() < in_flight {
            self.connections.push(Connection::open(self.server));
        }
        let (requests, next) = (&self.requests, &self.next);
        thread::scope(|scope| {
            let readers: Vec<_> = self.connections[..in_flight]
                .iter_mut()
                .map(|connection| {
                    scope.spawn(move || {
                        let mut gets = 0;
                        while Instant::now() < end {
                            let object = next.fetch_add(1, Relaxed) % requests.len();
                            connection.get(&requests[object]).expect("the server answers");
                            gets += 1;
                        }
                        gets
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().expect("no reader panics")).sum()
        })
    }
}

/// A connection, and the buffer that all its answers are read into.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    answer_bytes: usize,
}

impl Connection {
    fn open(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("the server listens");
        stream.set_nodelay(true).expect("it is a TCP socket");
        Self { stream, buffer: vec![0; READ_BYTES], answer_bytes: head().len() + OBJECT_BYTES }
    }

    fn get(&mut self, request: &str) -> io::Result<()> {
        self.stream.write_all(request.as_bytes())?;
        let mut left = self.answer_bytes;
        while left > 0 {
            let read = self.stream.read(&mut self.buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left = left.checked_sub(read).expect("no byte comes after the object");
        }
        Ok(())
    }
}
