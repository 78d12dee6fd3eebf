//! Samples and bytes per second, DLIO's and by the wall clock.

use crate::record::{BlockRecord, EpochRecord, RankEpoch};
use crate::units::MIB;
use crate::utilization::{MetricWindow, time_of, weighted_by_steps, window_sums};

/// Which steps of a block its throughput counts (spec/dlio.md D2). The time is the window's for both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CountedSteps {
    /// Those in the window: F's formula.
    #[default]
    Window,
    /// All but two, whatever the window is: U's formula. Too low by (n - 2) / (n - 1) with the default
    /// window, and 0 for a block of one or two steps; U's own would be negative for one.
    AllButTwo,
}

/// DLIO's throughput of one block in samples/s: the `counted` steps × batch over the window's time
/// (spec/dlio.md 7.2). `None` when there is no time, or the window that is to be counted holds no step.
pub fn block_samples_per_second(
    block: &BlockRecord,
    window: &MetricWindow,
    counted: CountedSteps,
    batch_size: u64,
) -> Option<f64> {
    let (steps, duration) = match counted {
        CountedSteps::Window => {
            let sums = window_sums(block, window)?;
            (sums.steps as f64, sums.duration)
        }
        CountedSteps::AllButTwo => {
            let steps = block.steps.len().saturating_sub(2);
            (steps as f64, time_of(&block.steps, block.duration, window))
        }
    };
    (duration.0 > 0.0).then(|| steps * batch_size as f64 / duration.0)
}

/// DLIO's throughput of one rank's epoch in samples/s.
pub(crate) fn rank_samples_per_second(
    rank: &RankEpoch,
    window: &MetricWindow,
    counted: CountedSteps,
    batch_size: u64,
) -> Option<f64> {
    weighted_by_steps(&rank.blocks, |block| {
        block_samples_per_second(block, window, counted, batch_size)
    })
}

/// DLIO's throughput of an epoch in samples/s: sum over ranks. `None` when any rank has none.
pub fn epoch_samples_per_second(
    epoch: &EpochRecord,
    window: &MetricWindow,
    counted: CountedSteps,
    batch_size: u64,
) -> Option<f64> {
    epoch.ranks.iter().map(|rank| rank_samples_per_second(rank, window, counted, batch_size)).sum()
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
    use crate::stats;
    use crate::units::Seconds;
    use crate::utilization::tests::{block, close, rank, step, window};

    fn epoch(ranks: Vec<RankEpoch>) -> EpochRecord {
        EpochRecord { epoch: 1, ranks }
    }

    #[test]
    fn known_delays_give_five_samples_a_second() {
        let block = block(1, vec![step(0.1, 0.1, 0.0); 11]);
        let samples = block_samples_per_second(&block, &window(11), CountedSteps::Window, 1);
        close(samples, 5.0);
        close(samples.map(|samples| nominal_mib_per_second(samples, 65_536.0)), 0.3125);
        close(block_samples_per_second(&block, &window(11), CountedSteps::Window, 4), 20.0);
    }

    #[test]
    fn the_epoch_is_the_sum_over_ranks() {
        let steps = || vec![vec![step(0.1, 0.1, 0.0); 11]];
        let mut epoch = epoch(vec![rank(0, steps()), rank(1, steps())]);
        close(epoch_samples_per_second(&epoch, &window(11), CountedSteps::Window, 1), 10.0);
        close(epoch_wall_samples_per_second(&epoch), 10.0);
        close(epoch_wall_mib_per_second(&epoch), 0.625);
        epoch.ranks[0].blocks[0].steps.truncate(1);
        assert_eq!(epoch_samples_per_second(&epoch, &window(11), CountedSteps::Window, 1), None);
    }

    #[test]
    fn blocks_weigh_by_their_steps() {
        let rank = rank(0, vec![vec![step(0.0, 0.1, 0.0); 9], vec![step(0.1, 0.1, 0.0); 3]]);
        let expected = (9.0 * 10.0 + 3.0 * 5.0) / 12.0;
        close(rank_samples_per_second(&rank, &window(12), CountedSteps::Window, 1), expected);
    }

    #[test]
    fn one_step_is_unknown_never_negative() {
        let epoch = epoch(vec![rank(0, vec![vec![step(0.1, 0.1, 0.0)]])]);
        assert_eq!(epoch_samples_per_second(&epoch, &window(1), CountedSteps::Window, 4), None);
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

    #[test]
    fn upstream_counts_all_steps_but_two_in_the_time_of_the_window() {
        let rate = |steps: usize| {
            let block = block(1, vec![step(0.1, 0.1, 0.0); steps]);
            block_samples_per_second(&block, &window(11), CountedSteps::AllButTwo, 4)
        };
        // 9 in place of 10 steps in 2 s.
        close(rate(11), 18.0);
        close(rate(2), 0.0);
        // Nothing but the window's time is left of a block that is longer than its steps.
        let mut one = block(1, vec![step(0.1, 0.1, 0.0)]);
        one.duration.0 += 0.5;
        let rate = block_samples_per_second(&one, &window(1), CountedSteps::AllButTwo, 4);
        close(rate, 0.0);
    }

    /// A public result of two accelerators (cases.md, golden check): all samples over the time of the
    /// block, from times with two decimals.
    #[test]
    fn the_golden_result_has_its_published_rates() {
        let published = 39.77104;
        let rates = [706.31, 702.13, 705.42, 702.67, 703.32].map(|seconds| {
            let ranks = [0, 1].map(|number| {
                let mut rank = rank(number, vec![vec![]]);
                (rank.samples, rank.duration) = (14_000, Seconds(seconds));
                rank
            });
            epoch_wall_samples_per_second(&epoch(ranks.to_vec())).unwrap()
        });
        assert!((rates[0] - 39.6429).abs() < 5e-4, "{}", rates[0]);
        let mean = stats::mean(&rates).unwrap();
        assert!((mean / published - 1.0).abs() < 1e-4, "{mean}");
        let mib = nominal_mib_per_second(published, 146_600_628.0);
        assert!((mib - 5560.359).abs() < 1e-3, "{mib}");
    }
}
