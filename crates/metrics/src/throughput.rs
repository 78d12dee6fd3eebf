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
