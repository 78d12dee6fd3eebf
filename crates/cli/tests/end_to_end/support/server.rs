//! `feedrate serve` for a test.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use feedrate_s3_server::{GetRecord, RequestCounts, Status};
use tempfile::TempDir;

use super::call::FEEDRATE;

const ENDPOINT: &str = "AWS_ENDPOINT_URL";

/// What a set was made with, beside it; a run asks for it once.
pub(crate) const MANIFEST: &str = ".feedrate-dataset.json";

/// The name of an access log.
const LOG: &str = "access.log";

/// How a server is to be started.
#[must_use]
pub(crate) struct Serve {
    /// The program and what stands before its own arguments.
    program: Vec<String>,
    arguments: Vec<String>,
    keys: BTreeMap<String, String>,
    log: Option<TempDir>,
}

/// A server on a free port with the bucket `bench`.
pub(crate) fn serve() -> Serve {
    serve_at("127.0.0.1:0")
}

/// The same on an address and port.
pub(crate) fn serve_at(address: &str) -> Serve {
    let arguments = ["serve", "--listen", address, "--bucket", "bench", "--record-gets"];
    Serve {
        program: vec![FEEDRATE.to_owned()],
        arguments: arguments.map(str::to_owned).to_vec(),
        keys: BTreeMap::new(),
        log: None,
    }
}

impl Serve {
    pub(crate) fn fault(mut self, rule: &str) -> Self {
        self.arguments.extend(["--fault".to_owned(), rule.to_owned()]);
        self
    }

    /// With its objects as files in `folder`, by bucket.
    pub(crate) fn keeping_files_in(mut self, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        self.arguments.extend(["--dir".to_owned(), folder.to_str().unwrap().to_owned()]);
        self
    }

    /// With a log of its requests.
    pub(crate) fn logging(mut self) -> Self {
        let log = tempfile::tempdir().unwrap();
        let path = log.path().join(LOG).to_str().unwrap().to_owned();
        self.arguments.extend(["--access-log".to_owned(), path]);
        self.log = Some(log);
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
        Server { child, environment, log: self.log }
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
    log: Option<TempDir>,
}

/// A line of the access log.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) key: String,
    /// The range header's own words, such as `bytes=0-99`.
    pub(crate) range: Option<String>,
    /// `None` if it was never answered.
    pub(crate) status: Option<u16>,
    /// Of its body, in either direction.
    pub(crate) bytes: u64,
}

impl Request {
    fn of(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, _, method, path, range, status, bytes, _] = words[..] else {
            panic!("{line:?} is no line of an access log");
        };
        Self {
            method: method.to_owned(),
            key: path.split_once('/').map_or(path, |(_, key)| key).to_owned(),
            range: Some(range).filter(|&range| range != "-").map(str::to_owned),
            status: status.parse().ok(),
            bytes: bytes.parse().unwrap(),
        }
    }

    /// Whether it is a GET of a file of a set, and not of a listing or of what is beside it.
    pub(crate) fn reads_a_file(&self) -> bool {
        self.method == "GET" && self.key.contains("/train/") && !self.key.ends_with('/')
    }

    /// The bytes of a file that it asked for; `None` for all of them.
    pub(crate) fn place(&self) -> Option<Range<u64>> {
        let range = self.range.as_deref()?;
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        Some(first.parse().unwrap()..last.parse::<u64>().unwrap() + 1)
    }
}

impl Server {
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.environment[ENDPOINT]
    }

    /// What it counted, without the GETs of manifests: tests count what is read of files.
    pub(crate) fn status(&self) -> Status {
        let mut status = self.everything();
        let of_manifests = self.get_records().len() - self.gets().len();
        status.requests.get -= of_manifests as u64;
        status
    }

    fn everything(&self) -> Status {
        serde_json::from_str(&self.ask("GET /_feedrate/status")).unwrap()
    }

    /// The requests of its log, in the order in which they ended; only if it was never reset. Lines may
    /// be written a second late.
    pub(crate) fn log(&self) -> Vec<Request> {
        let path = self.log.as_ref().expect("it keeps a log").path().join(LOG);
        let counted = self.counted() as usize;
        let asked = Instant::now();
        loop {
            let text = fs::read_to_string(&path).unwrap();
            // The last may be half there.
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let requests: Vec<_> = lines.map(|line| Request::of(line.trim_end())).collect();
            if requests.len() >= counted {
                return requests;
            }
            assert!(asked.elapsed() < Duration::from_secs(10), "{counted} requests, not {text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How many requests there were: where in the log the next one will be.
    pub(crate) fn counted(&self) -> u64 {
        let RequestCounts { get, put, part, copy, list, head, delete, other } =
            self.everything().requests;
        get + put + part + copy + list + head + delete + other
    }

    /// Counts from zero again, and forgets the GETs.
    pub(crate) fn reset(&self) {
        self.ask("POST /_feedrate/reset");
    }

    /// The names of the files that GETs asked for, without folders, in the order of arrival.
    pub(crate) fn gets(&self) -> Vec<String> {
        let name = |record: GetRecord| record.key.rsplit('/').next().unwrap().to_owned();
        self.gets_of_files().map(name).collect()
    }

    /// When those GETs arrived, in milliseconds of the server's clock, in the order of arrival.
    pub(crate) fn get_times(&self) -> Vec<f64> {
        self.gets_of_files().map(|record| record.millis_since_start).collect()
    }

    fn gets_of_files(&self) -> impl Iterator<Item = GetRecord> {
        self.get_records().into_iter().filter(|record| !record.key.ends_with(MANIFEST))
    }

    fn get_records(&self) -> Vec<GetRecord> {
        serde_json::from_str(&self.ask("GET /_feedrate/gets")).unwrap()
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
