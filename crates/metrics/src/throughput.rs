//! Samples and bytes per second, DLIO's and by the wall clock.

use crate::record::{BlockRecord, EpochRecord, RankEpoch};
use crate::units::MIB;
use crate::utilization::{MetricWindow, weighted_by_steps, window_sums};

/// DLIO's throughput of one block in samples/s: steps in the window × batch over the window's time
/// (spec/dlio.md 7.2, F's formula; D2). `None` when the window holds no step.
pub fn block_samples_per_second(
    block: &BlockRecord,
    window: &MetricWindow,
    batch_size: u64,
) -> Option<f64> {
    window_sums(block, window).map(|sums| sums.steps as f64 * batch_size as f64 / sums.duration.0)
}

/// DLIO's throughput of one rank's epoch in samples/s.
pub fn rank_samples_per_second(
    rank: &RankEpoch,
    window: &MetricWindow,
    batch_size: u64,
) -> Option<f64> {
    weighted_by_steps(&rank.blocks, |block| block_samples_per_second(block, window, batch_size))
}

/// DLIO's throughput of an epoch in samples/s: sum over ranks. `None` when any rank has none.
pub fn epoch_samples_per_second(
    epoch: &EpochRecord,
    window: &MetricWindow,
    batch_size: u64,
) -> Option<f64> {
    epoch.ranks.iter().map(|rank| rank_samples_per_second(rank, window, batch_size)).sum()
}

/// Samples of an epoch over its wall time: all ranks, all steps, no window. `None` for no time.
pub fn epoch_wall_samples_per_second(epoch: &EpochRecord) -> Option<f64> {
    per_wall_second(epoch, |rank| rank.samples as f64)
}

/// Bytes that arrived in an epoch over its wall time, in MiB/s.
pub fn epoch_wall_mib_per_second(epoch: &EpochRecord) -> Option<f64> {
    per_wall_second(epoch, |rank| rank.bytes.0 as f64 / MIB)
}

/// DLIO's I/O rate in MiB/s: samples/s × NOMINAL record length / 2^20 (spec/dlio.md 7.3).
pub fn nominal_mib_per_second(samples_per_second: f64, record_length_bytes: f64) -> f64 {
    samples_per_second * record_length_bytes / MIB
}

fn per_wall_second(epoch: &EpochRecord, amount: impl Fn(&RankEpoch) -> f64) -> Option<f64> {
    let longest = epoch.ranks.iter().map(|rank| rank.duration.0).fold(0.0, f64::max);
    (longest > 0.0).then(|| epoch.ranks.iter().map(amount).sum::<f64>() / longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utilization::tests::{block, close, rank, step, window};

    fn epoch(ranks: Vec<RankEpoch>) -> EpochRecord {
        EpochRecord { epoch: 1, ranks }
    }

    #[test]
    fn known_delays_give_five_samples_a_second() {
        let block = block(1, vec![step(0.1, 0.1, 0.0); 11]);
        let samples = block_samples_per_second(&block, &window(11), 1);
        close(samples, 5.0);
        close(samples.map(|samples| nominal_mib_per_second(samples, 65_536.0)), 0.3125);
        close(block_samples_per_second(&block, &window(11), 4), 20.0);
    }

    #[test]
    fn the_epoch_is_the_sum_over_ranks() {
        let steps = || vec![vec![step(0.1, 0.1, 0.0); 11]];
        let mut epoch = epoch(vec![rank(0, steps()), rank(1, steps())]);
        close(epoch_samples_per_second(&epoch, &window(11), 1), 10.0);
        close(epoch_wall_samples_per_second(&epoch), 10.0);
        close(epoch_wall_mib_per_second(&epoch), 0.625);
        epoch.ranks[0].blocks[0].steps.truncate(1);
        assert_eq!(epoch_samples_per_second(&epoch, &window(11), 1), None);
    }

    #[test]
    fn blocks_weigh_by_their_steps() {
        let rank = rank(0, vec![vec![step(0.0, 0.1, 0.0); 9], vec![step(0.1, 0.1, 0.0); 3]]);
        let expected = (9.0 * 10.0 + 3.0 * 5.0) / 12.0;
        close(rank_samples_per_second(&rank, &window(12), 1), expected);
    }

    #[test]
    fn one_step_is_unknown_never_negative() {
        let epoch = epoch(vec![rank(0, vec![vec![step(0.1, 0.1, 0.0)]])]);
        assert_eq!(epoch_samples_per_second(&epoch, &window(1), 4), None);
        close(epoch_wall_samples_per_second(&epoch), 5.0);
    }

    #[test]
    fn the_slowest_rank_is_the_wall_clock() {
        let epoch = epoch(vec![
            rank(0, vec![vec![step(0.0, 0.1, 0.0); 10]]),
            rank(1, vec![vec![step(0.1, 0.1, 0.0); 10]]),
        ]);
        close(epoch_wall_samples_per_second(&epoch), 10.0);
    }
}
