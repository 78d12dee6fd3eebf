//! `feedrate serve` for a test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use feedrate_s3_server::{GetRecord, Status};

use super::call::FEEDRATE;

const ENDPOINT: &str = "AWS_ENDPOINT_URL";

/// How a server is to be started.
#[must_use]
pub(crate) struct Serve {
    /// The program and what stands before its own arguments.
    program: Vec<String>,
    arguments: Vec<String>,
    keys: BTreeMap<String, String>,
}

/// A server on a free port with the bucket `bench`.
pub(crate) fn serve() -> Serve {
    serve_at("127.0.0.1:0")
}

/// The same on an address and port.
pub(crate) fn serve_at(address: &str) -> Serve {
    let arguments = ["serve", "--listen", address, "--bucket", "bench"];
    Serve {
        program: vec![FEEDRATE.to_owned()],
        arguments: arguments.map(str::to_owned).to_vec(),
        keys: BTreeMap::new(),
    }
}

impl Serve {
    pub(crate) fn fault(mut self, rule: &str) -> Self {
        self.arguments.extend(["--fault".to_owned(), rule.to_owned()]);
        self
    }

    pub(crate) fn recording_gets(mut self) -> Self {
        self.arguments.push("--record-gets".to_owned());
        self
    }

    /// Started by `words`, which replace themselves by what follows them.
    pub(crate) fn by(mut self, words: &[&str]) -> Self {
        self.program.splice(0..0, words.iter().map(|&word| word.to_owned()));
        self
    }

    /// With the keys of `other`, as if both were endpoints of one store.
    pub(crate) fn beside(mut self, other: &Server) -> Self {
        self.keys.clone_from(&other.environment);
        self.keys.retain(|name, _| name != ENDPOINT);
        self
    }

    pub(crate) fn start(self) -> Server {
        let mut child = Command::new(&self.program[0])
            .args(&self.program[1..])
            .args(self.arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(&self.keys)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut environment = environment_of(&line);
        // It does not tell the keys that it was given.
        environment.extend(self.keys);
        Server { child, environment }
    }
}

/// The variables of a line `export NAME=VALUE …`.
#[track_caller]
pub(crate) fn environment_of(line: &str) -> BTreeMap<String, String> {
    let words = line.trim().strip_prefix("export ").unwrap_or_else(|| panic!("{line:?}"));
    let pairs = words.split(' ').map(|word| word.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A running server; ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    environment: BTreeMap<String, String>,
}

impl Server {
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.environment[ENDPOINT]
    }

    pub(crate) fn status(&self) -> Status {
        serde_json::from_str(&self.ask("GET /_feedrate/status")).unwrap()
    }

    /// Counts from zero again, and forgets the GETs.
    pub(crate) fn reset(&self) {
        self.ask("POST /_feedrate/reset");
    }

    /// The names of the files that GETs asked for, without folders, in the order of arrival.
    pub(crate) fn gets(&self) -> Vec<String> {
        let records: Vec<GetRecord> =
            serde_json::from_str(&self.ask("GET /_feedrate/gets")).unwrap();
        let name = |record: GetRecord| record.key.rsplit('/').next().unwrap().to_owned();
        records.into_iter().map(name).collect()
    }

    /// When GETs arrived, in milliseconds of the server's clock, in the order of arrival.
    pub(crate) fn get_times(&self) -> Vec<f64> {
        let records: Vec<GetRecord> =
            serde_json::from_str(&self.ask("GET /_feedrate/gets")).unwrap();
        records.into_iter().map(|record| record.millis_since_start).collect()
    }

    fn ask(&self, what: &str) -> String {
        let host = self.endpoint().strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(host).unwrap();
        let head = format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        write!(connection, "{head}Content-Length: 0\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{what}: {head}");
        body.to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
