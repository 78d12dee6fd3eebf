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

/// What the window of one block holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowSums {
    /// Steps in the window; at least one.
    pub steps: u64,
    /// C of spec/dlio.md 7.2: measured compute of those steps.
    pub compute: Seconds,
    /// D of spec/dlio.md 7.2: the block's time less the `proc` of the steps outside the window, so
    /// waits, barriers and the loader's start are all in it. Greater than zero.
    pub duration: Seconds,
}

/// Sums a block over the window; `None` when the window holds no step or no time.
pub fn window_sums(block: &BlockRecord, window: &MetricWindow) -> Option<WindowSums> {
    let [before, inside, after] = window.split(&block.steps);
    let outside: Seconds = before.iter().chain(after).map(StepRecord::proc).sum();
    let duration = block.duration - outside;
    (!inside.is_empty() && duration.0 > 0.0).then(|| WindowSums {
        steps: inside.len() as u64,
        compute: inside.iter().map(|step| step.compute).sum(),
        duration,
    })
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
pub fn rank_au_percent(rank: &RankEpoch, window: &MetricWindow) -> Option<f64> {
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

fn mean_over_ranks(epoch: &EpochRecord, figure: impl Fn(&RankEpoch) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = epoch.ranks.iter().map(figure).collect();
    crate::stats::mean(&values?)
}
