//! Where the time of a run's accelerators went.

use feedrate_metrics::record::RunRecord;
use feedrate_metrics::verdict::{TimeShares, Verdict, first_byte_share};
use serde::{Deserialize, Serialize};

use super::WaitShares;

/// Means per step in ms, and shares of the ranks' whole time in percent, over all epochs and ranks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Steps of all ranks and epochs; at least one.
    pub steps: u64,
    /// Drawn compute time.
    pub compute_ms_per_step: f64,
    /// Waiting for a batch.
    pub wait_ms_per_step: f64,
    /// The part of it in which every byte was there and readers worked on samples: decoding,
    /// verification, `reader.preprocess_time`.
    #[serde(default)]
    pub work_ms_per_step: f64,
    /// Waiting for the other ranks.
    pub barrier_ms_per_step: f64,
    /// What the sleep took beyond the drawn time.
    pub overshoot_ms_per_step: f64,
    /// Drawn compute time: wall AU, weighted by time.
    pub compute_percent: f64,
    /// Waiting for batches.
    pub wait_percent: f64,
    /// Waiting for the other ranks.
    pub barrier_percent: f64,
    /// Sleeping beyond the drawn time.
    pub overshoot_percent: f64,
    /// The rest: between the steps, and around the loop.
    pub other_percent: f64,
    /// Readers' work on samples that were there, in the lost time; `None` when none was lost.
    #[serde(default)]
    pub work_percent_of_lost: Option<f64>,
    /// Barriers in the lost time (everything but drawn compute); `None` when none was lost.
    pub barrier_percent_of_lost: Option<f64>,
    /// How busy the CPUs were while ranks waited; `None` when no waiting was sampled.
    pub waiting_cpu_busy_percent: Option<f64>,
    /// The mean time to the first byte in the mean time of a whole GET; the rest is transfer.
    pub first_byte_percent_of_get: Option<f64>,
    /// What the accelerators waited for; `None` when none did, or nobody noted it.
    #[serde(default)]
    pub waits: Option<WaitShares>,
}

impl Breakdown {
    /// `None` before the first step.
    pub fn of(record: &RunRecord) -> Option<Self> {
        let ranks = || record.epochs.iter().flat_map(|epoch| &epoch.ranks);
        let steps: u64 =
            ranks().flat_map(|rank| &rank.blocks).map(|block| block.steps.len() as u64).sum();
        let shares = TimeShares::of(record);
        if steps == 0 || shares.total.0 <= 0.0 {
            return None;
        }
        let per_step = |seconds: f64| 1e3 * seconds / steps as f64;
        let percent = |seconds: f64| 100.0 * seconds / shares.total.0;
        let lost = shares.lost().0;
        let TimeShares { compute, wait, work, barrier, overshoot, .. } = shares;
        Some(Self {
            steps,
            compute_ms_per_step: per_step(compute.0),
            wait_ms_per_step: per_step(wait.0),
            work_ms_per_step: per_step(work.0),
            barrier_ms_per_step: per_step(barrier.0),
            overshoot_ms_per_step: per_step(overshoot.0),
            compute_percent: percent(compute.0),
            wait_percent: percent(wait.0),
            barrier_percent: percent(barrier.0),
            overshoot_percent: percent(overshoot.0),
            other_percent: percent((lost - wait.0 - barrier.0) - overshoot.0),
            work_percent_of_lost: (lost > 0.0).then(|| 100.0 * work.0 / lost),
            barrier_percent_of_lost: (lost > 0.0).then(|| 100.0 * barrier.0 / lost),
            waiting_cpu_busy_percent: record.waiting_cpu.busy_share().map(|share| 100.0 * share),
            first_byte_percent_of_get: first_byte_share(&record.requests)
                .map(|share| 100.0 * share),
            waits: WaitShares::of(record, &shares),
        })
    }

    /// A verdict with the criterion that led to it.
    pub(crate) fn explain(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::AcceleratorBound => format!(
                "nothing: accelerator-bound, {:.2} % of the accelerators' time was lost \
                 (criterion: less than 1 %)",
                100.0 - self.compute_percent
            ),
            Verdict::ClientBound => format!(
                "client CPU: client-bound, the CPUs were {:.0} % busy while ranks waited \
                 (criterion: at least 90 %)",
                self.waiting_cpu_busy_percent.unwrap_or_default()
            ),
            Verdict::BarrierBound => format!(
                "each other: barrier-bound, {:.0} % of the lost time lies in barriers \
                 (criterion: more than 50 %)",
                self.barrier_percent_of_lost.unwrap_or_default()
            ),
            Verdict::DecodeBound => format!(
                "readers: decode-bound, {:.0} % of the lost time every byte was there and readers \
                 worked on samples (criterion: more than 50 %)",
                self.work_percent_of_lost.unwrap_or_default()
            ),
            Verdict::StorageBound => {
                let mostly = self.waits.map(|waits| waits.mostly() + "; ").unwrap_or_default();
                format!("storage: storage-bound, {mostly}{}", self.storage_shares())
            }
        }
    }

    fn storage_shares(&self) -> String {
        let cpus = match self.waiting_cpu_busy_percent {
            Some(busy) => format!("the CPUs were {busy:.0} % busy while ranks waited"),
            None => "neither CPUs nor barriers were the limit".to_owned(),
        };
        match self.first_byte_percent_of_get {
            Some(first) => format!(
                "{cpus}; of a GET's mean time {first:.0} % passed before the first byte, {:.0} % in \
                 transfer",
                100.0 - first
            ),
            None => cpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_shares_add_up_to_the_whole() {
        let breakdown = Breakdown::of(&fixtures::known_delays().record).unwrap();
        let sum = breakdown.compute_percent
            + breakdown.wait_percent
            + breakdown.barrier_percent
            + breakdown.overshoot_percent
            + breakdown.other_percent;
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
        assert!((breakdown.wait_ms_per_step - 100.0).abs() < 1e-9);
        assert_eq!(breakdown.steps, 11);
    }

    #[test]
    fn nothing_measured_has_no_breakdown() {
        let mut record = fixtures::known_delays().record;
        record.epochs.clear();
        assert_eq!(Breakdown::of(&record), None);
    }

    #[test]
    fn every_verdict_names_its_criterion() {
        let breakdown = Breakdown::of(&fixtures::known_delays().record).unwrap();
        for (verdict, words) in [
            (Verdict::AcceleratorBound, "less than 1 %"),
            (Verdict::ClientBound, "at least 90 %"),
            (Verdict::BarrierBound, "more than 50 %"),
            (Verdict::DecodeBound, "worked on samples"),
            (Verdict::StorageBound, "before the first byte"),
        ] {
            let text = breakdown.explain(verdict);
            assert!(text.contains(words), "{text}");
        }
        let text = breakdown.explain(Verdict::StorageBound);
        assert!(text.contains("storage-bound, mostly first byte: 60 % of the waiting; "), "{text}");
    }
}
