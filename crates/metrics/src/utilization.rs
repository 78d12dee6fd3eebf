//! Accelerator utilization, DLIO's and by the wall clock.

use crate::record::{BlockRecord, EpochRecord, RankEpoch, StepRecord};
use crate::units::Seconds;

/// The steps that count: positions `exclude_start .. expected_steps - exclude_end`, applied to the
/// list of steps of EACH block (spec/dlio.md 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricWindow {
    /// `output.metric.exclude_start_steps`.
    pub exclude_start: u64,
    /// `output.metric.exclude_end_steps`.
    pub exclude_end: u64,
    /// Steps of an epoch by the schedule.
    pub expected_steps: u64,
}

impl MetricWindow {
    /// Splits a block's steps into those before, inside and after the window.
    fn split<'a>(&self, steps: &'a [StepRecord]) -> [&'a [StepRecord]; 3] {
        let end = (self.expected_steps.saturating_sub(self.exclude_end) as usize).min(steps.len());
        let start = (self.exclude_start as usize).min(end);
        [&steps[..start], &steps[start..end], &steps[end..]]
    }
}

/// What the window of one block, or of an evaluation, holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WindowSums {
    /// Steps in the window; at least one.
    pub(crate) steps: u64,
    /// C of spec/dlio.md 7.2: measured compute of those steps.
    pub(crate) compute: Seconds,
    /// D of spec/dlio.md 7.2: the block's time less the `proc` of the steps outside the window, so
    /// waits, barriers and the loader's start are all in it. Greater than zero.
    pub(crate) duration: Seconds,
}

/// Sums a block over the window; `None` when the window holds no step or no time.
pub(crate) fn window_sums(block: &BlockRecord, window: &MetricWindow) -> Option<WindowSums> {
    sums_of(&block.steps, block.duration, window)
}

/// Sums `steps`, which took `whole` with all that lies between them, over the window.
pub(crate) fn sums_of(
    steps: &[StepRecord],
    whole: Seconds,
    window: &MetricWindow,
) -> Option<WindowSums> {
    let [_, inside, _] = window.split(steps);
    let duration = time_of(steps, whole, window);
    (!inside.is_empty() && duration.0 > 0.0).then(|| WindowSums {
        steps: inside.len() as u64,
        compute: inside.iter().map(|step| step.compute).sum(),
        duration,
    })
}

/// D of spec/dlio.md 7.2: `whole` less the `proc` of the steps outside the window.
pub(crate) fn time_of(steps: &[StepRecord], whole: Seconds, window: &MetricWindow) -> Seconds {
    let [before, _, after] = window.split(steps);
    let outside: Seconds = before.iter().chain(after).map(StepRecord::proc).sum();
    whole - outside
}

/// DLIO's AU of one block in percent: measured compute inside the window over D
/// (spec/dlio.md 7.2). `None` when the window holds no step.
pub fn block_au_percent(block: &BlockRecord, window: &MetricWindow) -> Option<f64> {
    window_sums(block, window).map(|sums| 100.0 * sums.compute.0 / sums.duration.0)
}

/// Mean of a figure of the blocks, weighted by ALL steps of each block (spec/dlio.md 7.3). Blocks
/// without the figure are left out; `None` when none has it.
pub(crate) fn weighted_by_steps(
    blocks: &[BlockRecord],
    figure: impl Fn(&BlockRecord) -> Option<f64>,
) -> Option<f64> {
    let mut sum = 0.0;
    let mut weight = 0.0;
    for block in blocks {
        if let Some(value) = figure(block) {
            sum += value * block.steps.len() as f64;
            weight += block.steps.len() as f64;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// DLIO's AU of one rank's epoch in percent.
pub(crate) fn rank_au_percent(rank: &RankEpoch, window: &MetricWindow) -> Option<f64> {
    weighted_by_steps(&rank.blocks, |block| block_au_percent(block, window))
}

/// DLIO's AU of an epoch in percent: mean over ranks. `None` when any rank has none, since a mean
/// over the others would hide it.
pub fn epoch_au_percent(epoch: &EpochRecord, window: &MetricWindow) -> Option<f64> {
    mean_over_ranks(epoch, |rank| rank_au_percent(rank, window))
}

/// AU of an epoch by the wall clock, in percent: the drawn compute times of all steps over the wall
/// time of the epoch, no step left out, mean over ranks.
pub fn epoch_wall_au_percent(epoch: &EpochRecord) -> Option<f64> {
    mean_over_ranks(epoch, |rank| {
        let drawn: Seconds =
            rank.blocks.iter().flat_map(|block| &block.steps).map(|step| step.drawn).sum();
        (rank.duration.0 > 0.0).then(|| 100.0 * drawn.0 / rank.duration.0)
    })
}

pub(crate) fn mean_over_ranks(
    epoch: &EpochRecord,
    figure: impl Fn(&RankEpoch) -> Option<f64>,
) -> Option<f64> {
    let values: Option<Vec<f64>> = epoch.ranks.iter().map(figure).collect();
    crate::stats::mean(&values?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Stamp, WaitParts};
    use crate::units::ByteCount;

    pub(crate) fn step(wait: f64, compute: f64, barrier: f64) -> StepRecord {
        StepRecord {
            wait: Seconds(wait),
            compute: Seconds(compute),
            drawn: Seconds(compute),
            barrier: Seconds(barrier),
            work: Seconds(0.0),
        }
    }

    /// A block that takes as long as its steps.
    pub(crate) fn block(number: u32, steps: Vec<StepRecord>) -> BlockRecord {
        let duration = steps.iter().map(|step| step.proc() + step.barrier).sum();
        BlockRecord { number, start: Stamp::now(), end: Stamp::now(), duration, steps }
    }

    /// An epoch of one rank, a block for each list of steps, one 64 KiB sample a step.
    pub(crate) fn rank(rank: u32, blocks: Vec<Vec<StepRecord>>) -> RankEpoch {
        let blocks: Vec<BlockRecord> =
            (1..).zip(blocks).map(|(number, steps)| block(number, steps)).collect();
        let samples = blocks.iter().map(|block| block.steps.len() as u64).sum();
        RankEpoch {
            rank,
            host: "vm".to_owned(),
            start: Stamp::now(),
            end: Stamp::now(),
            duration: blocks.iter().map(|block| block.duration).sum(),
            blocks,
            samples,
            bytes: ByteCount(samples * 65_536),
            waited: WaitParts::default(),
            evaluation: None,
            over: Stamp::now(),
            host_meminfo: Vec::new(),
        }
    }

    /// DLIO's default window: all steps but the first.
    pub(crate) fn window(expected_steps: u64) -> MetricWindow {
        MetricWindow { exclude_start: 1, exclude_end: 0, expected_steps }
    }

    pub(crate) fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("the figure is known");
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    /// Appendix C of the specification, row "window".
    #[test]
    fn sixteen_steps_less_the_first_are_fifteen() {
        let block = block(1, vec![step(0.1, 0.1, 0.0); 16]);
        assert_eq!(window_sums(&block, &window(16)).unwrap().steps, 15);
    }

    /// Eleven steps of 100 ms waiting and 100 ms computing: ten in the window.
    #[test]
    fn known_delays_give_half_the_accelerator() {
        let block = block(1, vec![step(0.1, 0.1, 0.0); 11]);
        let sums = window_sums(&block, &window(11)).unwrap();
        assert_eq!(sums.steps, 10);
        close(Some(sums.compute.0), 1.0);
        close(Some(sums.duration.0), 2.0);
        close(block_au_percent(&block, &window(11)), 50.0);
    }

    #[test]
    fn barriers_and_time_outside_the_steps_count_against_the_window() {
        let mut block = block(1, vec![step(0.0, 0.1, 0.1); 11]);
        // The barrier of the excluded first step is in no `proc`, so it stays in D.
        close(block_au_percent(&block, &window(11)), 100.0 * 1.0 / 2.1);
        block.duration += Seconds(0.4);
        close(block_au_percent(&block, &window(11)), 100.0 * 1.0 / 2.5);
    }

    #[test]
    fn both_ends_of_the_window_are_left_out_by_position() {
        let mut steps = vec![step(0.0, 0.1, 0.0); 10];
        for slow in [0, 1, 9] {
            steps[slow].wait = Seconds(1.0);
        }
        let block = block(1, steps);
        let exclude = |exclude_start, exclude_end| MetricWindow {
            exclude_start,
            exclude_end,
            expected_steps: 10,
        };
        close(block_au_percent(&block, &exclude(2, 1)), 100.0);
        close(block_au_percent(&block, &exclude(1, 1)), 100.0 * 0.8 / 1.8);
        close(block_au_percent(&block, &exclude(2, 0)), 100.0 * 0.8 / 1.8);
        assert_eq!(block_au_percent(&block, &exclude(5, 5)), None);
        assert_eq!(block_au_percent(&block, &exclude(99, 99)), None);
    }

    #[test]
    fn every_block_loses_its_first_step_and_only_the_last_its_end() {
        let window = MetricWindow { exclude_start: 1, exclude_end: 1, expected_steps: 5 };
        let sums = |steps| {
            window_sums(&block(1, vec![step(0.0, 0.1, 0.0); steps]), &window).unwrap().steps
        };
        // A block of 4 ends before position 5 - 1; one of 5 reaches it.
        assert_eq!((sums(4), sums(5)), (3, 3));
    }

    #[test]
    fn blocks_weigh_by_their_steps_not_their_time() {
        let fast = vec![step(0.0, 0.1, 0.0); 9];
        let slow = vec![step(0.3, 0.1, 0.0); 3];
        let rank = rank(0, vec![fast, slow]);
        close(rank_au_percent(&rank, &window(12)), (9.0 * 100.0 + 3.0 * 25.0) / 12.0);
    }

    #[test]
    fn the_epoch_is_the_mean_over_ranks() {
        let ranks = vec![
            rank(0, vec![vec![step(0.1, 0.1, 0.0); 11]]),
            rank(1, vec![vec![step(0.0, 0.1, 0.0); 11]]),
        ];
        let mut epoch = EpochRecord { epoch: 1, ranks };
        close(epoch_au_percent(&epoch, &window(11)), 75.0);
        close(epoch_wall_au_percent(&epoch), 75.0);
        epoch.ranks[1].blocks[0].steps.truncate(1);
        assert_eq!(epoch_au_percent(&epoch, &window(11)), None);
    }

    #[test]
    fn an_empty_window_is_unknown_while_the_wall_clock_still_knows() {
        let epoch = EpochRecord { epoch: 1, ranks: vec![rank(0, vec![vec![step(0.1, 0.1, 0.0)]])] };
        assert_eq!(epoch_au_percent(&epoch, &window(1)), None);
        close(epoch_wall_au_percent(&epoch), 50.0);
    }

    #[test]
    fn wall_au_counts_drawn_time_so_a_late_sleep_is_a_loss() {
        let mut steps = vec![step(0.0, 0.1, 0.0); 10];
        for step in &mut steps {
            step.drawn = Seconds(0.08);
        }
        let epoch = EpochRecord { epoch: 1, ranks: vec![rank(0, vec![steps])] };
        close(epoch_wall_au_percent(&epoch), 80.0);
        close(epoch_au_percent(&epoch, &window(10)), 100.0);
    }
}
