//! What the ranks waited for, by the criteria of the design: client-bound when the CPUs were busy
//! while ranks waited, barrier-bound when most of the lost time lies in barriers, else
//! storage-bound.

use serde::{Deserialize, Serialize};

use crate::record::RunRecord;
use crate::units::Seconds;

/// The CPUs count as exhausted from this share on.
const CLIENT_BOUND_FROM: f64 = 0.90;
/// Barriers are the limit from this share of the lost time on.
const BARRIER_BOUND_ABOVE: f64 = 0.50;
/// Below this share of lost time there is nothing to blame.
const NOTHING_LOST_BELOW: f64 = 0.01;

/// What limited a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Less than 1 % of the accelerators' time was lost: nothing limited them.
    AcceleratorBound,
    /// While ranks waited, the CPUs that the client (with a co-located server) may use were ≥ 90 %
    /// busy.
    ClientBound,
    /// More than half of the lost time was spent in the per-step barrier.
    BarrierBound,
    /// Ranks waited for bytes while CPUs were free.
    StorageBound,
}

/// Where the time of all ranks and epochs went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Wall time of the epochs, summed over ranks.
    pub total: Seconds,
    /// Drawn compute time: what the accelerators asked for.
    pub compute: Seconds,
    /// Waiting for batches.
    pub wait: Seconds,
    /// Waiting for the other ranks.
    pub barrier: Seconds,
    /// Sleeps that took longer than drawn.
    pub overshoot: Seconds,
}

impl TimeShares {
    /// Sums over all epochs, ranks and steps.
    pub fn of(run: &RunRecord) -> Self {
        let mut shares = Self::default();
        for rank in run.epochs.iter().flat_map(|epoch| &epoch.ranks) {
            shares.total += rank.duration;
            for step in rank.blocks.iter().flat_map(|block| &block.steps) {
                shares.compute += step.drawn;
                shares.wait += step.wait;
                shares.barrier += step.barrier;
                shares.overshoot += step.compute - step.drawn;
            }
        }
        shares
    }

    /// Everything that was not drawn compute time.
    pub fn lost(&self) -> Seconds {
        self.total - self.compute
    }
}

/// Says what limited the run; `None` before its first epoch is finished.
pub fn verdict(run: &RunRecord) -> Option<Verdict> {
    let shares = TimeShares::of(run);
    let lost = shares.lost();
    if shares.total.0 <= 0.0 {
        return None;
    }
    if lost.0 < NOTHING_LOST_BELOW * shares.total.0 {
        return Some(Verdict::AcceleratorBound);
    }
    if run.waiting_cpu.busy_share().is_some_and(|share| share >= CLIENT_BOUND_FROM) {
        return Some(Verdict::ClientBound);
    }
    if shares.barrier.0 > BARRIER_BOUND_ABOVE * lost.0 {
        return Some(Verdict::BarrierBound);
    }
    Some(Verdict::StorageBound)
}
