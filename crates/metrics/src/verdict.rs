//! What the ranks waited for in training, by the criteria of the design: client-bound when the CPUs were busy
//! while ranks waited, barrier-bound when most of the lost time lies in barriers, decode-bound when most
//! of it is work on samples that were there, else storage-bound.

use serde::{Deserialize, Serialize};

use crate::record::{RunRecord, WaitParts};
use crate::requests::RequestSummary;
use crate::units::Seconds;

/// The CPUs count as exhausted from this share on.
const CLIENT_BOUND_FROM: f64 = 0.90;
/// Barriers are the limit from this share of the lost time on.
const BARRIER_BOUND_ABOVE: f64 = 0.50;
/// Work on samples is the limit from this share of the lost time on.
const DECODE_BOUND_ABOVE: f64 = 0.50;
/// Less waiting than this, as sampled, says nothing about the CPUs: they are looked at every 10 ms.
const WAITED_AT_LEAST: Seconds = Seconds(0.1);
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
    /// More than half of the lost time every byte of the batch was there, and readers still worked on
    /// its samples.
    DecodeBound,
    /// Ranks waited for bytes while CPUs were free.
    StorageBound,
}

impl Verdict {
    /// The verdict as result files and tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AcceleratorBound => "accelerator-bound",
            Self::ClientBound => "client-bound",
            Self::BarrierBound => "barrier-bound",
            Self::DecodeBound => "decode-bound",
            Self::StorageBound => "storage-bound",
        }
    }
}

/// Where the time of the trainings of all ranks and epochs went; evaluations are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Wall time of the trainings, summed over ranks.
    pub total: Seconds,
    /// Drawn compute time: what the accelerators asked for.
    pub compute: Seconds,
    /// Waiting for batches.
    pub wait: Seconds,
    /// What that went by; all zero where nobody noted it.
    #[serde(default)]
    pub waited: WaitParts,
    /// The part of it in which readers worked on samples whose bytes were there.
    pub work: Seconds,
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
            shares.waited += rank.waited;
            for step in rank.blocks.iter().flat_map(|block| &block.steps) {
                shares.compute += step.drawn;
                shares.wait += step.wait;
                shares.work += step.work;
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
///
/// The first criterion that is met counts. So a client whose CPUs are busy is to blame before anything
/// else: waits for bytes, for work on samples and for other ranks all grow with it.
pub fn verdict(run: &RunRecord) -> Option<Verdict> {
    let shares = TimeShares::of(run);
    let lost = shares.lost();
    if shares.total.0 <= 0.0 {
        return None;
    }
    if lost.0 < NOTHING_LOST_BELOW * shares.total.0 {
        return Some(Verdict::AcceleratorBound);
    }
    let busy = run.waiting_cpu.busy_share().filter(|_| run.waiting_cpu.waited >= WAITED_AT_LEAST);
    if busy.is_some_and(|share| share >= CLIENT_BOUND_FROM) {
        return Some(Verdict::ClientBound);
    }
    if shares.barrier.0 > BARRIER_BOUND_ABOVE * lost.0 {
        return Some(Verdict::BarrierBound);
    }
    if shares.work.0 > DECODE_BOUND_ABOVE * lost.0 {
        return Some(Verdict::DecodeBound);
    }
    Some(Verdict::StorageBound)
}

/// The mean time to a GET's first byte over its mean time to the last byte: how much of a read is
/// latency; the rest is transfer. `None` when no GET was timed.
pub fn first_byte_share(requests: &RequestSummary) -> Option<f64> {
    let first = requests.first_byte_ms.mean?;
    let last = requests.last_byte_ms.mean?;
    (last > 0.0).then(|| first / last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::DecodeSummary;
    use crate::process::{ProcessUsage, WaitingCpu};
    use crate::record::{CacheDrops, EpochRecord, Stamp};
    use crate::requests::LatencySummary;
    use crate::units::ByteCount;
    use crate::utilization::tests::{rank, step};

    /// One rank, ten steps of `wait`, 0.1 s computing and `barrier`, with the CPUs `busy` (a share)
    /// while it waited.
    fn run(wait: f64, barrier: f64, busy: f64) -> RunRecord {
        let steps = vec![step(wait, 0.1, barrier); 10];
        RunRecord {
            start: Stamp::now(),
            end: Stamp::now(),
            steps_per_epoch: 10,
            evaluation_steps: 0,
            cache_drops: CacheDrops::default(),
            time_to_first_step: None,
            epochs: vec![EpochRecord { epoch: 1, ranks: vec![rank(0, vec![steps])] }],
            requests: RequestSummary::default(),
            decoded: DecodeSummary::default(),
            process: ProcessUsage::default(),
            processes: Vec::new(),
            waiting_cpu: WaitingCpu { waited: Seconds(1.0), cpu: Seconds(2.0 * busy), cpus: 2.0 },
            window_share_of_epoch: 0.1,
            byte_budget: ByteCount(0),
        }
    }

    #[test]
    fn less_than_a_percent_lost_blames_nobody_even_on_busy_cpus() {
        assert_eq!(verdict(&run(0.0005, 0.0, 1.0)), Some(Verdict::AcceleratorBound));
    }

    #[test]
    fn most_of_the_lost_time_working_on_samples_is_decode_bound() {
        let with = |work| {
            let mut run = run(0.1, 0.0, 0.2);
            for step in &mut run.epochs[0].ranks[0].blocks[0].steps {
                step.work = Seconds(work);
            }
            verdict(&run)
        };
        assert_eq!(with(0.06), Some(Verdict::DecodeBound));
        assert_eq!(with(0.04), Some(Verdict::StorageBound));
    }

    #[test]
    fn busy_cpus_while_waiting_are_the_clients_fault() {
        assert_eq!(verdict(&run(0.1, 0.0, 0.95)), Some(Verdict::ClientBound));
    }

    #[test]
    fn a_busy_client_comes_before_barriers_and_work_on_samples() {
        assert_eq!(verdict(&run(0.04, 0.06, 0.95)), Some(Verdict::ClientBound));
        let mut worked = run(0.1, 0.0, 0.95);
        for step in &mut worked.epochs[0].ranks[0].blocks[0].steps {
            step.work = Seconds(0.09);
        }
        assert_eq!(verdict(&worked), Some(Verdict::ClientBound));
        // Less than can be told from the noise says nothing.
        worked.waiting_cpu.waited = Seconds(0.05);
        assert_eq!(verdict(&worked), Some(Verdict::DecodeBound));
    }

    #[test]
    fn most_of_the_loss_in_barriers_is_the_barriers_fault() {
        assert_eq!(verdict(&run(0.04, 0.06, 0.5)), Some(Verdict::BarrierBound));
        assert_eq!(verdict(&run(0.06, 0.04, 0.5)), Some(Verdict::StorageBound));
    }

    #[test]
    fn waiting_on_idle_cpus_is_the_stores_fault() {
        assert_eq!(verdict(&run(0.1, 0.0, 0.2)), Some(Verdict::StorageBound));
    }

    #[test]
    fn a_verdict_has_one_name_everywhere() {
        for verdict in [
            Verdict::AcceleratorBound,
            Verdict::ClientBound,
            Verdict::BarrierBound,
            Verdict::DecodeBound,
            Verdict::StorageBound,
        ] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }

    #[test]
    fn nothing_finished_has_no_verdict() {
        let mut run = run(0.1, 0.0, 0.2);
        run.epochs.clear();
        assert_eq!(verdict(&run), None);
    }

    #[test]
    fn time_shares_keep_waits_barriers_and_overshoot_apart() {
        let mut run = run(0.1, 0.05, 0.0);
        for step in &mut run.epochs[0].ranks[0].blocks[0].steps {
            step.drawn = Seconds(0.09);
        }
        let shares = TimeShares::of(&run);
        let close = |value: Seconds, expected: f64| assert!((value.0 - expected).abs() < 1e-9);
        close(shares.total, 2.5);
        close(shares.compute, 0.9);
        close(shares.wait, 1.0);
        close(shares.barrier, 0.5);
        close(shares.overshoot, 0.1);
        close(shares.lost(), 1.6);
    }

    #[test]
    fn the_first_byte_has_its_share_of_a_get() {
        let latency = |mean| LatencySummary { count: 1, mean: Some(mean), ..Default::default() };
        let mut requests = RequestSummary::default();
        assert_eq!(first_byte_share(&requests), None);
        requests.first_byte_ms = latency(3.0);
        requests.last_byte_ms = latency(4.0);
        assert_eq!(first_byte_share(&requests), Some(0.75));
    }
}
