//! Counters and latencies of storage requests: written by storage on every request, read as a
//! [`RequestSummary`]. Where several processes count, their [`RequestSnapshot`]s are added up first.

mod latencies;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use latencies::Latencies;
pub use latencies::LatencySummary;
pub use snapshot::RequestSnapshot;

use crate::record::RetryCounts;
use crate::units::ByteCount;

/// What one endpoint of a store did. Safe to share between threads and tasks.
#[derive(Debug, Default)]
pub struct EndpointStats {
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
}

impl EndpointStats {
    /// Counts a GET that brought `bytes`.
    pub fn get_done(&self, bytes: u64) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts an upload of an object or of a part of one.
    pub fn put_done(&self) {
        self.puts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a listing.
    pub fn list_done(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an attempt that failed here and will be repeated, here or elsewhere.
    pub fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> EndpointCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EndpointCounts {
            gets: count(&self.gets),
            puts: count(&self.puts),
            lists: count(&self.lists),
            bytes: ByteCount(count(&self.bytes)),
            retries: count(&self.retries),
        }
    }
}

/// [`EndpointStats`] at one moment. Over all endpoints, `gets`, `bytes` and `retries` add up to those
/// of the [`RequestSummary`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCounts {
    /// GETs that succeeded here.
    pub gets: u64,
    /// Uploads that succeeded here: of objects, and of parts where objects are written in parts.
    pub puts: u64,
    /// Listings that ended here; one is a request for each 1,000 objects.
    pub lists: u64,
    /// Bytes that the GETs brought.
    pub bytes: ByteCount,
    /// Attempts that failed here and were repeated, here or elsewhere.
    pub retries: u64,
}

impl EndpointCounts {
    fn add(&mut self, other: &Self) {
        let Self { gets, puts, lists, bytes, retries } = other;
        self.gets += gets;
        self.puts += puts;
        self.lists += lists;
        self.bytes += *bytes;
        self.retries += retries;
    }
}

/// What all requests of a phase added up to. Safe to share between threads and tasks.
#[derive(Debug)]
pub struct RequestStats {
    gets: AtomicU64,
    bytes: AtomicU64,
    first_byte: Latencies,
    last_byte: Latencies,
    retries: Mutex<RetryCounts>,
    endpoints: Mutex<BTreeMap<String, Arc<EndpointStats>>>,
}

impl Default for RequestStats {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestStats {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            gets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            first_byte: Latencies::new(),
            last_byte: Latencies::new(),
            retries: Mutex::new(RetryCounts::new()),
            endpoints: Mutex::default(),
        }
    }

    /// The counters of the endpoint with this URL, from now on part of the summary.
    pub fn endpoint(&self, url: &str) -> Arc<EndpointStats> {
        let mut endpoints = self.endpoints.lock().expect("counting does not panic");
        Arc::clone(endpoints.entry(url.to_owned()).or_default())
    }

    /// Counts a GET that brought `bytes`, with the times of its successful attempt from sending the
    /// request to the first and to the last byte of the body.
    pub fn get_done(&self, bytes: u64, first_byte: Duration, last_byte: Duration) {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.first_byte.record(first_byte);
        self.last_byte.record(last_byte);
    }

    /// Counts a failed attempt that will be repeated, by the kind of its failure.
    pub fn retried(&self, kind: &str) {
        let mut retries = self.retries.lock().expect("counting does not panic");
        *retries.entry(kind.to_owned()).or_default() += 1;
    }

    /// Bytes brought so far, for progress.
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.bytes.load(Ordering::Relaxed))
    }

    /// Everything counted so far, to be added to what other processes counted.
    pub fn snapshot(&self) -> RequestSnapshot {
        RequestSnapshot {
            gets: self.gets.load(Ordering::Relaxed),
            bytes: self.bytes(),
            retries: self.retries.lock().expect("counting does not panic").clone(),
            first_byte: self.first_byte.counts(),
            last_byte: self.last_byte.counts(),
            endpoints: self
                .endpoints
                .lock()
                .expect("counting does not panic")
                .iter()
                .map(|(url, stats)| (url.clone(), stats.counts()))
                .collect(),
        }
    }

    /// Everything counted so far.
    pub fn summary(&self) -> RequestSummary {
        self.snapshot().summary()
    }
}

/// What was counted until one moment, by one process or by several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestSummary {
    /// GETs that succeeded.
    pub gets: u64,
    /// Bytes they brought; those of broken attempts are not among them.
    pub bytes: ByteCount,
    /// Attempts that failed and were repeated, by kind.
    pub retries: RetryCounts,
    /// From sending the request to the first byte of its body, in ms.
    pub first_byte_ms: LatencySummary,
    /// From sending the request to the last byte of its body, in ms.
    pub last_byte_ms: LatencySummary,
    /// What each endpoint did, by its URL (without user information); empty for a store that has
    /// none, such as a folder.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointCounts>,
}

impl RequestSummary {
    /// Repeated attempts of all kinds.
    pub fn retries_total(&self) -> u64 {
        self.retries.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_adds_up_what_was_counted() {
        let stats = RequestStats::new();
        stats.get_done(100, Duration::from_millis(1), Duration::from_millis(2));
        stats.get_done(50, Duration::from_millis(3), Duration::from_millis(4));
        stats.retried("503");
        stats.retried("503");
        stats.retried("reset");
        let summary = stats.summary();
        assert_eq!(summary.gets, 2);
        assert_eq!(summary.bytes, ByteCount(150));
        assert_eq!(summary.retries_total(), 3);
        assert_eq!(summary.retries["503"], 2);
        let max = summary.last_byte_ms.max.unwrap();
        assert!((3.99..4.01).contains(&max), "{max}");
    }

    #[test]
    fn endpoints_are_told_apart_and_those_that_did_nothing_are_there_too() {
        let stats = RequestStats::new();
        let (first, _) = (stats.endpoint("http://a"), stats.endpoint("http://b"));
        first.get_done(100);
        first.put_done();
        first.list_done();
        stats.endpoint("http://a").retried();
        let all = EndpointCounts { gets: 1, puts: 1, lists: 1, bytes: ByteCount(100), retries: 1 };
        let expected = [("http://a", all), ("http://b", EndpointCounts::default())];
        let expected = expected.map(|(url, counts)| (url.to_owned(), counts));
        assert_eq!(stats.summary().endpoints, BTreeMap::from(expected));
    }

    #[test]
    fn an_empty_summary_knows_no_latency() {
        let summary = RequestStats::new().summary();
        assert_eq!(summary.first_byte_ms, LatencySummary::default());
    }
}
