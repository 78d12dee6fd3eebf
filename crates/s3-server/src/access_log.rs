//! The access log: one line a request.
//!
//! ```text
//! 2025-03-01T12:00:00.123Z AKIAEXAMPLE GET data/train/img_1.npz bytes=0-1023 206 1024 1.342
//! ```
//!
//! Eight words with blanks between: when the request arrived (UTC), the access key id that it claims to
//! be signed with, its method, bucket and key (percent-encoded, so they hold no blank), range, status,
//! body bytes in both directions together, and the milliseconds until the last byte of the answer was
//! given to the socket. `-` stands for what there is none of; a status of `-` is a request that was
//! never answered, because its client went away or a fault rule reset the connection.
//!
//! Requests hand their lines to a thread and never wait for it: it writes them in large pieces, at
//! least every second. Should it not keep up, lines are lost rather than requests slowed, and the log
//! says how many.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use http::{Method, Request, StatusCode, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::request::{Target, claimed_key_id};
use crate::server::StartError;

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard error.
    Stderr,
    /// A file, to which lines are appended.
    File(PathBuf),
}

/// How many lines may wait for the thread.
const WAITING_LINES: usize = 65_536;

/// How long a line may wait to be written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// What is not shown as it is.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'"').add(b'\\');

/// An open access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

/// What is told of one request.
#[derive(Debug)]
struct Line {
    arrived: SystemTime,
    key_id: Option<String>,
    method: Method,
    bucket: String,
    key: String,
    range: Option<String>,
    status: Option<StatusCode>,
    bytes: u64,
    duration: Duration,
}

impl AccessLog {
    /// Opens the log and starts its thread.
    pub(crate) fn open(target: AccessLogTarget) -> Result<Self, StartError> {
        match target {
            AccessLogTarget::Stderr => Self::start(io::stderr())
                .map_err(|source| StartError::AccessLog { path: PathBuf::from("-"), source }),
            AccessLogTarget::File(path) => OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .and_then(Self::start)
                .map_err(|source| StartError::AccessLog { path, source }),
        }
    }

    fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let writer = {
            let lost = Arc::clone(&lost);
            // A log that cannot be written any more must not end the server.
            thread.spawn(move || drop(write_lines(&waiting, &lost, BufWriter::new(out))))?
        };
        Ok(Self { lines, lost, writer })
    }

    /// Begins the line of a request that has just arrived.
    pub(crate) fn entry<B>(&self, request: &Request<B>, target: &Target) -> Entry {
        let range = request.headers().get(header::RANGE).and_then(|range| range.to_str().ok());
        let line = Line {
            arrived: SystemTime::now(),
            key_id: claimed_key_id(request),
            method: request.method().clone(),
            bucket: target.bucket.clone(),
            key: target.key.clone(),
            range: range.map(str::to_owned),
            status: None,
            bytes: 0,
            duration: Duration::ZERO,
        };
        Entry {
            line: Some(line),
            start: Instant::now(),
            received: Arc::default(),
            lines: self.lines.clone(),
            lost: Arc::clone(&self.lost),
        }
    }

    /// Writes what is left, when no entry is open any more.
    pub(crate) async fn close(self) {
        let Self { lines, writer, .. } = self;
        drop(lines);
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
    }
}

/// The line of a request that is under way. It is written when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Taken when it is written.
    line: Option<Line>,
    start: Instant,
    received: Arc<AtomicU64>,
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Entry {
    /// Where the bytes of the request's body are counted.
    pub(crate) fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }

    /// Remembers how the request was answered.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        if let Some(line) = &mut self.line {
            line.status = Some(status);
        }
    }

    /// Counts bytes of the answer's body.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(line) = &mut self.line {
            line.bytes += bytes as u64;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        line.bytes += self.received.load(Relaxed);
        line.duration = self.start.elapsed();
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

/// Writes lines until no one can send any more.
fn write_lines(
    waiting: &Receiver<Line>,
    lost: &AtomicU64,
    mut out: BufWriter<impl Write>,
) -> io::Result<()> {
    let mut flushed = Instant::now();
    loop {
        match waiting.recv_timeout(FLUSH_INTERVAL) {
            Ok(line) => line.write(&mut out)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if flushed.elapsed() >= FLUSH_INTERVAL {
            write_lost(lost, &mut out)?;
            out.flush()?;
            flushed = Instant::now();
        }
    }
    write_lost(lost, &mut out)?;
    out.flush()
}

fn write_lost(lost: &AtomicU64, out: &mut impl Write) -> io::Result<()> {
    match lost.swap(0, Relaxed) {
        0 => Ok(()),
        count => writeln!(out, "# {count} lines lost: the log could not be written fast enough"),
    }
}

impl Line {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let format = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        let arrived =
            OffsetDateTime::from(self.arrived).format(format).map_err(io::Error::other)?;
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), encoded);
        let key_id = or_dash(self.key_id.as_deref());
        let range = or_dash(self.range.as_deref());
        let place = match (self.bucket.as_str(), self.key.as_str()) {
            ("", _) => "-".to_owned(),
            (bucket, "") => encoded(bucket),
            (bucket, key) => format!("{}/{}", encoded(bucket), encoded(key)),
        };
        let status =
            self.status.map_or_else(|| "-".to_owned(), |status| status.as_u16().to_string());
        let millis = self.duration.as_secs_f64() * 1e3;
        let Self { method, bytes, .. } = self;
        writeln!(out, "{arrived} {key_id} {method} {place} {range} {status} {bytes} {millis:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_word_for_everything_and_no_blanks_in_it() {
        let mut line = Line {
            arrived: SystemTime::UNIX_EPOCH + Duration::from_millis(1_740_830_400_123),
            key_id: Some("AKIA".into()),
            method: Method::GET,
            bucket: "data".into(),
            key: "a b\n%/ü".into(),
            range: Some("bytes=0-9".into()),
            status: Some(StatusCode::PARTIAL_CONTENT),
            bytes: 10,
            duration: Duration::from_micros(1_342),
        };
        let text = |line: &Line| {
            let mut out = Vec::new();
            line.write(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(&line),
            "2025-03-01T12:00:00.123Z AKIA GET data/a%20b%0A%25/%C3%BC bytes=0-9 206 10 1.342\n"
        );
        (line.key_id, line.range, line.status) = (None, None, None);
        line.bucket.clear();
        assert!(text(&line).ends_with("Z - GET - - - 10 1.342\n"), "{}", text(&line));
    }
}
