//! What the ranks tell rank 0 behind each epoch, and what it makes of it.
//!
//! Every rank tells its own epoch. The first rank of each process adds the share of its process: what
//! there is one of however many ranks are in it, such as the counters of requests. Shares are counts
//! and sums, not figures, so that all of them together are what a single process would have had.

use feedrate_metrics::decode::DecodeSummary;
use feedrate_metrics::process::{ProcessUsage, WaitingCpu};
use feedrate_metrics::record::{ProcessRecord, RankEpoch, RunRecord};
use feedrate_metrics::requests::RequestSnapshot;
use feedrate_metrics::units::ByteCount;
use serde::{Deserialize, Serialize};

/// One rank's part of an epoch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RankReport {
    pub(crate) epoch: RankEpoch,
    /// From the first rank of a process.
    pub(crate) process: Option<ProcessShare>,
}

/// One process's part of a run until now.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProcessShare {
    pub(crate) record: ProcessRecord,
    pub(crate) requests: RequestSnapshot,
    pub(crate) decoded: DecodeSummary,
    pub(crate) waiting_cpu: WaitingCpu,
    /// The most samples that its loaders can hold at once.
    pub(crate) most_samples: f64,
    /// The most bytes that its loaders hold.
    pub(crate) byte_budget: ByteCount,
}

/// Puts what all processes have until now into `run`, whose data set has `samples` samples.
pub(crate) fn add_up(run: &mut RunRecord, shares: Vec<ProcessShare>, samples: u64) {
    let mut requests = RequestSnapshot::default();
    for share in &shares {
        requests.add(&share.requests);
    }
    run.requests = requests.summary();
    let decoded = shares.iter().map(|share| share.decoded);
    run.decoded = decoded.reduce(DecodeSummary::and).unwrap_or_default();
    let usages = shares.iter().map(|share| share.record.usage);
    run.process = usages.reduce(ProcessUsage::and).unwrap_or_default();
    let waiting_cpus = shares.iter().map(|share| share.waiting_cpu);
    run.waiting_cpu = waiting_cpus.reduce(WaitingCpu::and).unwrap_or_default();
    let most_samples: f64 = shares.iter().map(|share| share.most_samples).sum();
    run.window_share_of_epoch = most_samples / samples as f64;
    run.byte_budget = shares.iter().map(|share| share.byte_budget).max().unwrap_or_default();
    run.processes = shares.into_iter().map(|share| share.record).collect();
}
