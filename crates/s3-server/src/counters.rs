//! What the server counts, and how it tells.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use feedrate_metrics::process::ProcessUsage;
use feedrate_metrics::units::{ByteCount, Seconds};
use serde::{Deserialize, Serialize};

use crate::request::{RequestKind, Target};

/// Requests by kind, refused and failed ones included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Reads of objects.
    pub get: u64,
    /// Writes of whole objects.
    pub put: u64,
    /// Writes of parts of multipart uploads.
    #[serde(default)]
    pub part: u64,
    /// Copies of objects or of ranges of them within the server, which move no body bytes.
    #[serde(default)]
    pub copy: u64,
    /// Lists of objects in either version, one per page.
    pub list: u64,
    /// HEADs of objects and buckets.
    pub head: u64,
    /// Deletions of objects, of one or of many.
    pub delete: u64,
    /// Everything else: buckets themselves, and the beginning and end of multipart uploads.
    pub other: u64,
}

/// The state of the server: the answer of `GET /_feedrate/status`, in JSON. Requests to
/// `/_feedrate/…` are not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Requests that arrived since the start or the last reset.
    pub requests: RequestCounts,
    /// How many of them were answered with a status of 400 or above, or reset by a fault rule.
    pub errors: u64,
    /// Body bytes received since the start or the last reset, framing of chunks included.
    pub body_bytes_in: ByteCount,
    /// Body bytes given to connections since the start or the last reset.
    pub body_bytes_out: ByteCount,
    /// GETs that have arrived and whose answer is not yet sent.
    pub gets_in_flight: u64,
    /// The most of those at once since the start or the last reset.
    pub gets_in_flight_max: u64,
    /// CPU time of this process since its start, whatever was reset; `None` when the system does not
    /// tell.
    pub cpu_seconds: Option<Seconds>,
    /// The most memory this process had resident at once, since its start.
    pub peak_rss_bytes: Option<ByteCount>,
}

/// One GET that arrived: an element of `GET /_feedrate/gets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GetRecord {
    /// Bucket of the object.
    pub bucket: String,
    /// Decoded key of the object.
    pub key: String,
    /// When it arrived: milliseconds since the server was bound.
    pub millis_since_start: f64,
}

/// Counts everything that arrives and leaves. Each counter is exact; two of them read together may
/// be some requests apart.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: [AtomicU64; RequestKind::COUNT],
    errors: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    gets_in_flight: AtomicU64,
    gets_in_flight_max: AtomicU64,
}

impl Counters {
    /// Counts a request. The guard of a GET is to be kept until its answer is sent.
    pub(crate) fn arrived(self: &Arc<Self>, kind: RequestKind) -> Option<GetInFlight> {
        self.requests[kind as usize].fetch_add(1, Relaxed);
        (kind == RequestKind::Get).then(|| {
            let now = self.gets_in_flight.fetch_add(1, Relaxed) + 1;
            self.gets_in_flight_max.fetch_max(now, Relaxed);
            GetInFlight(Arc::clone(self))
        })
    }

    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// Zeroes everything but the number of GETs in flight, at which their maximum starts again.
    pub(crate) fn reset(&self) {
        for counter in &self.requests {
            counter.store(0, Relaxed);
        }
        for counter in [&self.errors, &self.bytes_in, &self.bytes_out] {
            counter.store(0, Relaxed);
        }
        self.gets_in_flight_max.store(self.gets_in_flight.load(Relaxed), Relaxed);
    }

    pub(crate) fn status(&self) -> Status {
        let requests = |kind: RequestKind| self.requests[kind as usize].load(Relaxed);
        let process = ProcessUsage::current().ok();
        Status {
            requests: RequestCounts {
                get: requests(RequestKind::Get),
                put: requests(RequestKind::Put),
                part: requests(RequestKind::Part),
                copy: requests(RequestKind::Copy),
                list: requests(RequestKind::List),
                head: requests(RequestKind::Head),
                delete: requests(RequestKind::Delete),
                other: requests(RequestKind::Other),
            },
            errors: self.errors.load(Relaxed),
            body_bytes_in: ByteCount(self.bytes_in.load(Relaxed)),
            body_bytes_out: ByteCount(self.bytes_out.load(Relaxed)),
            gets_in_flight: self.gets_in_flight.load(Relaxed),
            gets_in_flight_max: self.gets_in_flight_max.load(Relaxed),
            cpu_seconds: process.map(|usage| usage.cpu),
            peak_rss_bytes: process.map(|usage| usage.peak_rss),
        }
    }
}

/// A GET that is in flight as long as this exists.
#[derive(Debug)]
pub(crate) struct GetInFlight(Arc<Counters>);

impl Drop for GetInFlight {
    fn drop(&mut self) {
        self.0.gets_in_flight.fetch_sub(1, Relaxed);
    }
}

/// The most recent GETs, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct GetLog {
    start: Instant,
    records: Mutex<VecDeque<GetRecord>>,
}

/// How many GETs [`GetLog`] remembers: some 10 MB.
const GET_LOG_LEN: usize = 100_000;

impl GetLog {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), records: Mutex::default() }
    }

    pub(crate) fn record(&self, target: &Target) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() == GET_LOG_LEN {
            records.pop_front();
        }
        records.push_back(GetRecord {
            bucket: target.bucket.clone(),
            key: target.key.clone(),
            millis_since_start: self.start.elapsed().as_secs_f64() * 1e3,
        });
    }

    pub(crate) fn reset(&self) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&*self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_in_flight_survives_its_gets_but_not_a_reset() {
        let counters = Arc::new(Counters::default());
        let first = counters.arrived(RequestKind::Get);
        let second = counters.arrived(RequestKind::Get);
        assert!(counters.arrived(RequestKind::Put).is_none());
        drop(second);
        let status = counters.status();
        assert_eq!((status.gets_in_flight, status.gets_in_flight_max), (1, 2));

        counters.reset();
        let status = counters.status();
        assert_eq!((status.gets_in_flight, status.gets_in_flight_max), (1, 1));
        assert_eq!(status.requests, RequestCounts::default());
        drop(first);
        assert_eq!(counters.status().gets_in_flight, 0);
    }

    #[test]
    fn the_log_of_gets_forgets_the_oldest() {
        let log = GetLog::new();
        for index in 0..=GET_LOG_LEN {
            let key = index.to_string();
            log.record(&Target { kind: RequestKind::Get, bucket: "b".into(), key });
        }
        let records: Vec<GetRecord> = serde_json::from_slice(&log.to_json().unwrap()).unwrap();
        assert_eq!(records.len(), GET_LOG_LEN);
        assert_eq!(records[0].key, "1");
        assert!(records[0].millis_since_start <= records[GET_LOG_LEN - 1].millis_since_start);
    }
}
