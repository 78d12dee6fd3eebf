//! A server in this process, and a client that says exactly what a test wants said.

use std::net::SocketAddr;

use bytes::Bytes;
use feedrate_s3_server::{KeyPair, Options, Server, Status};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::sign::{self, Signed, encode, encode_query, sha256_hex};

pub(crate) const BUCKET: &str = "data";

/// A running server with one bucket, [`BUCKET`]. It stops when this is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

fn keys() -> KeyPair {
    KeyPair { access_key_id: "AKIATEST".into(), secret_access_key: "a/secret+of=tests".into() }
}

pub(crate) fn options(faults: &[&str]) -> Options {
    Options {
        buckets: vec![BUCKET.into()],
        faults: faults.iter().map(|rule| rule.parse().unwrap()).collect(),
        record_gets: true,
        ..Options::in_memory(SocketAddr::from(([127, 0, 0, 1], 0)), keys())
    }
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(options(&[])).await
    }

    pub(crate) async fn failing(faults: &[&str]) -> Self {
        Self::with(options(faults)).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let server = Server::bind(options).await.unwrap();
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), task }
    }

    pub(crate) fn client(&self) -> Client {
        Client { address: self.address, keys: keys(), host: None }
    }

    pub(crate) async fn status(&self) -> Status {
        let reply = self.client().unsigned("GET", "/_feedrate/status").await.unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        serde_json::from_slice(&reply.body).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) keys: KeyPair,
    /// The host to ask for; `None` is the address.
    pub(crate) host: Option<String>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The text of the first XML element of this name; empty when there is none.
    pub(crate) fn element(&self, name: &str) -> &str {
        self.elements(name).first().copied().unwrap_or_default()
    }

    /// The texts of all XML elements of this name.
    pub(crate) fn elements(&self, name: &str) -> Vec<&str> {
        let open = format!("<{name}>");
        self.text()
            .split(&open)
            .skip(1)
            .map(|rest| rest.split("</").next().unwrap_or_default())
            .collect()
    }

    /// The status and the S3 error code.
    pub(crate) fn error(&self) -> (u16, &str) {
        (self.status.as_u16(), self.element("Code"))
    }
}

/// An answer of which the head has come. Dropping it closes the connection.
pub(crate) struct Opened {
    response: Response<Incoming>,
    _connection: AbortOnDrop,
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request before it is signed.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    pub(crate) method: &'a str,
    pub(crate) bucket: &'a str,
    /// Not encoded.
    pub(crate) key: &'a str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Bytes,
    /// The value of `x-amz-content-sha256`; `None` is the hash of the body.
    pub(crate) payload: Option<&'a str>,
}

impl Client {
    /// Signs and sends a request on a connection of its own.
    pub(crate) async fn send(&self, parts: Parts<'_>) -> hyper::Result<Reply> {
        self.exchange(self.signed(parts)).await
    }

    fn signed(&self, parts: Parts<'_>) -> Request<Full<Bytes>> {
        let places = [encode(parts.bucket, false), encode(parts.key, true)];
        let places: Vec<&str> =
            places.iter().map(String::as_str).filter(|place| !place.is_empty()).collect();
        let path = format!("/{}", places.join("/"));
        let host = self.host.clone().unwrap_or_else(|| self.address.to_string());
        let hash = sha256_hex(&parts.body);
        let payload = parts.payload.unwrap_or(&hash);
        let signed =
            Signed { method: parts.method, host: &host, path: &path, query: parts.query, payload };
        let uri = match parts.query {
            [] => path.clone(),
            query => format!("{path}?{}", encode_query(query)),
        };
        let mut request = Request::builder()
            .method(parts.method)
            .uri(uri)
            .header("host", &host)
            .header("x-amz-content-sha256", payload);
        for (name, value) in sign::sign(&signed, &self.keys) {
            request = request.header(name, value);
        }
        for (name, value) in parts.headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(parts.body)).unwrap()
    }

    /// The head of a signed request, as text, that announces a body of `length` bytes.
    pub(crate) fn head_of(&self, parts: Parts<'_>, length: usize) -> String {
        let request = self.signed(parts);
        let first = format!("{} {} HTTP/1.1", request.method(), request.uri());
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let length = format!("content-length: {length}");
        let lines: Vec<String> = [first]
            .into_iter()
            .chain(headers)
            .chain([length, String::new(), String::new()])
            .collect();
        lines.join("\r\n")
    }

    pub(crate) async fn unsigned(&self, method: &str, path: &str) -> hyper::Result<Reply> {
        let request = Request::builder().method(method).uri(path).header("host", "test");
        self.exchange(request.body(Full::default()).unwrap()).await
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> hyper::Result<Reply> {
        let opened = self.open(request).await?;
        let (head, body) = opened.response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    /// Sends a request and returns when the head of its answer has come.
    async fn open(&self, request: Request<Full<Bytes>>) -> hyper::Result<Opened> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = AbortOnDrop(tokio::spawn(async {
            let _ = connection.await;
        }));
        let response = sender.send_request(request).await?;
        Ok(Opened { response, _connection: connection })
    }

    /// A GET whose body nobody reads.
    pub(crate) async fn open_get(&self, key: &str) -> Opened {
        let parts = Parts { method: "GET", bucket: BUCKET, key, ..Parts::default() };
        self.open(self.signed(parts)).await.unwrap()
    }

    pub(crate) async fn send_get(&self, key: &str) -> hyper::Result<Reply> {
        self.send(Parts { method: "GET", bucket: BUCKET, key, ..Parts::default() }).await
    }

    pub(crate) async fn put(&self, key: &str, body: impl Into<Bytes>) -> Reply {
        let body = body.into();
        self.send(Parts { method: "PUT", bucket: BUCKET, key, body, ..Parts::default() })
            .await
            .unwrap()
    }

    pub(crate) async fn get(&self, key: &str) -> Reply {
        self.send_get(key).await.unwrap()
    }

    pub(crate) async fn get_range(&self, key: &str, range: &str) -> Reply {
        let headers = &[("range", range)];
        self.send(Parts { method: "GET", bucket: BUCKET, key, headers, ..Parts::default() })
            .await
            .unwrap()
    }

    pub(crate) async fn list(&self, query: &[(&str, &str)]) -> Reply {
        let mut query = query.to_vec();
        query.push(("list-type", "2"));
        let query = &query;
        self.send(Parts { method: "GET", bucket: BUCKET, query, ..Parts::default() }).await.unwrap()
    }
}
