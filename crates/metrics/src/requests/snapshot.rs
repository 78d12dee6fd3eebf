//! What one process counted, on its way to the process that speaks for all.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latencies::LatencyCounts;
use super::{EndpointCounts, RequestSummary};
use crate::record::RetryCounts;
use crate::units::ByteCount;

/// [`RequestStats`](super::RequestStats) at one moment, in a form that adds up: the summary of a sum
/// is exactly that of one process that had counted everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSnapshot {
    pub(super) gets: u64,
    pub(super) bytes: ByteCount,
    pub(super) retries: RetryCounts,
    pub(super) first_byte: LatencyCounts,
    pub(super) last_byte: LatencyCounts,
    pub(super) endpoints: BTreeMap<String, EndpointCounts>,
}

impl RequestSnapshot {
    /// Adds what another process counted.
    pub fn add(&mut self, other: &Self) {
        let Self { gets, bytes, retries, first_byte, last_byte, endpoints } = other;
        self.gets += gets;
        self.bytes += *bytes;
        for (kind, count) in retries {
            *self.retries.entry(kind.clone()).or_default() += count;
        }
        self.first_byte.add(first_byte);
        self.last_byte.add(last_byte);
        for (url, counts) in endpoints {
            self.endpoints.entry(url.clone()).or_default().add(counts);
        }
    }

    /// What it adds up to.
    pub fn summary(&self) -> RequestSummary {
        RequestSummary {
            gets: self.gets,
            bytes: self.bytes,
            retries: self.retries.clone(),
            first_byte_ms: self.first_byte.summary(),
            last_byte_ms: self.last_byte.summary(),
            endpoints: self.endpoints.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::RequestStats;
    use super::*;

    const URLS: [&str; 3] = ["http://a", "http://b", "http://c"];

    /// A GET: its process, its endpoint, bytes, and µs to the first byte and from there to the last.
    type Get = (usize, usize, u64, u64, u64);

    fn count(stats: &RequestStats, (_, endpoint, bytes, first, rest): Get) {
        let micros = Duration::from_micros;
        stats.get_done(bytes, micros(first), micros(first + rest));
        stats.endpoint(URLS[endpoint]).get_done(bytes);
        if bytes % 3 == 0 {
            stats.retried(if bytes % 2 == 0 { "503" } else { "reset" });
            stats.endpoint(URLS[endpoint]).retried();
        }
    }

    proptest! {
        #[test]
        fn processes_that_count_apart_add_up_to_one_that_counts_alone(
            gets in prop::collection::vec(
                (0..4_usize, 0..3_usize, 0..1_000_000_u64, 0..100_000_u64, 0..8_000_000_000_u64),
                0..60,
            ),
        ) {
            let alone = RequestStats::new();
            let apart = [(); 4].map(|()| RequestStats::new());
            for get in gets {
                count(&alone, get);
                count(&apart[get.0], get);
            }
            let mut sum = RequestSnapshot::default();
            for stats in &apart {
                let sent = serde_json::to_vec(&stats.snapshot()).unwrap();
                sum.add(&serde_json::from_slice(&sent).unwrap());
            }
            prop_assert_eq!(&sum, &alone.snapshot());
            prop_assert_eq!(sum.summary(), alone.summary());
        }
    }

    #[test]
    fn a_percentile_of_all_is_none_of_a_processs_own() {
        let [fast, slow] = [1, 100].map(|millis| {
            let stats = RequestStats::new();
            for _ in 0..100 {
                stats.get_done(1, Duration::ZERO, Duration::from_millis(millis));
            }
            stats.snapshot()
        });
        let mut sum = fast.clone();
        sum.add(&slow);
        sum.add(&fast);
        let latency = sum.summary().last_byte_ms;
        assert_eq!((latency.count, latency.p50), (300, fast.summary().last_byte_ms.p50));
        assert_eq!(latency.p90, slow.summary().last_byte_ms.p90);
    }
}
