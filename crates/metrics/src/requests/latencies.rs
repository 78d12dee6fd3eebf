//! Latencies: recorded by many threads, carried between processes, summed up once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency a histogram tells apart: one hour, in µs.
const HIGHEST_MICROS: u64 = 3_600_000_000;

/// 1 µs to 1 h with three significant digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_MICROS, 3)
        .expect("the bounds are constants that the histogram accepts")
}

/// Latencies of one kind, while they are recorded.
#[derive(Debug)]
pub(super) struct Latencies(Mutex<Histogram<u64>>);

impl Latencies {
    pub(super) fn new() -> Self {
        Self(Mutex::new(histogram()))
    }

    pub(super) fn record(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(HIGHEST_MICROS);
        self.0.lock().expect("recording does not panic").saturating_record(micros.max(1));
    }

    pub(super) fn counts(&self) -> LatencyCounts {
        let histogram = self.0.lock().expect("recording does not panic");
        let recorded = histogram.iter_recorded();
        LatencyCounts(
            recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect(),
        )
    }
}

/// How often each latency was recorded: a latency, in µs, stands for all that the histogram does not
/// tell apart from it. So counts of several histograms add up to those of one that recorded it all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LatencyCounts(BTreeMap<u64, u64>);

impl LatencyCounts {
    pub(super) fn add(&mut self, other: &Self) {
        for (micros, count) in &other.0 {
            *self.0.entry(*micros).or_default() += count;
        }
    }

    pub(super) fn summary(&self) -> LatencySummary {
        let mut histogram = histogram();
        for (micros, count) in &self.0 {
            histogram.saturating_record_n(*micros, *count);
        }
        let millis = |micros: u64| micros as f64 / 1e3;
        let known = !histogram.is_empty();
        LatencySummary {
            count: histogram.len(),
            mean: known.then(|| histogram.mean() / 1e3),
            p50: known.then(|| millis(histogram.value_at_quantile(0.5))),
            p90: known.then(|| millis(histogram.value_at_quantile(0.9))),
            p99: known.then(|| millis(histogram.value_at_quantile(0.99))),
            max: known.then(|| millis(histogram.max())),
        }
    }
}

/// Percentiles of a latency in milliseconds; `None` where nothing was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many were recorded.
    pub count: u64,
    /// Mean, in ms.
    pub mean: Option<f64>,
    /// Median, in ms.
    pub p50: Option<f64>,
    /// 90th percentile, in ms.
    pub p90: Option<f64>,
    /// 99th percentile, in ms.
    pub p99: Option<f64>,
    /// Longest, in ms.
    pub max: Option<f64>,
}
