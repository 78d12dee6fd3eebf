//! The lines of a finished epoch. Nothing is logged while its clock runs, so they are told from its
//! record afterwards, with the times at which DLIO would have written them.

use feedrate_metrics::record::{
    BlockRecord, EpochRecord, Evaluation, RankEpoch, Stamp, StepRecord,
};
use feedrate_metrics::stats::{mean, stdev};
use feedrate_workload::{Compat, Split};

use super::Severity;
use super::event::Event;
use crate::RunReport;
use crate::run::phase::{Phase, PhaseFigures};

/// A line of the log before it is written.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) severity: Severity,
    /// When DLIO would have written it.
    pub(super) stamp: Stamp,
    pub(super) event: Event<'static>,
}

/// All lines of `epoch` but those of its start and of its first block's, which are written when they
/// happen. With `steps` there are two for every step and rank, too.
pub(super) fn lines(report: &RunReport, epoch: &EpochRecord, steps: bool) -> Vec<Line> {
    let Some(rank) = epoch.ranks.iter().min_by_key(|rank| rank.rank) else { return Vec::new() };
    let mut story = Story { report, epoch, steps, lines: Vec::new() };
    let mut before = 0;
    for (position, block) in rank.blocks.iter().enumerate() {
        if position > 0 {
            story.tell(block.start, Event::BlockStarting { block: block.number });
        }
        story.steps_of(Split::Train, before, |rank| {
            let block = rank.blocks.get(position)?;
            Some((block.start, block.steps.as_slice()))
        });
        story.block_ended(block);
        before += block.steps.len() as u64;
    }
    let (steps, duration) = (before, rank.duration);
    story.tell(rank.end, Event::EpochEnding { epoch: epoch.epoch, steps, duration });
    if let Some(evaluation) = &rank.evaluation {
        let steps = report.record.evaluation_steps;
        story.tell(evaluation.start, Event::EvaluationStarting { steps });
        story.steps_of(Split::Valid, 0, |rank| {
            let evaluation = rank.evaluation.as_ref()?;
            Some((evaluation.start, evaluation.steps.as_slice()))
        });
        story.evaluation_ended(evaluation);
    }
    story.lines
}

/// The lines so far, and what they are told from.
struct Story<'a> {
    report: &'a RunReport,
    epoch: &'a EpochRecord,
    steps: bool,
    lines: Vec<Line>,
}

impl Story<'_> {
    fn tell(&mut self, stamp: Stamp, event: Event<'static>) {
        self.lines.push(Line { severity: Severity::Output, stamp, event });
    }

    /// A figure of rank 0 as the log has it: DLIO's 0 in place of what cannot be measured, where that
    /// is asked for (spec/dlio.md D24).
    fn logged(&self, figure: Option<f64>) -> Option<f64> {
        figure.or((self.report.workload.compat != Compat::None).then_some(0.0))
    }

    /// AU of `phase` on rank 0, and its throughput times the ranks.
    fn figures(&self, phase: &Phase) -> (Option<f64>, Option<f64>) {
        let figures = PhaseFigures::of(self.report);
        let ranks = f64::from(self.report.np());
        (
            self.logged(figures.au_percent(phase)),
            self.logged(figures.samples_per_second(phase).map(|one_rank| one_rank * ranks)),
        )
    }

    fn block_ended(&mut self, record: &BlockRecord) {
        let (epoch, block) = (self.epoch.epoch, record.number);
        let (steps, duration) = (record.steps.len() as u64, record.duration);
        let (percent, samples_per_second) = self.figures(&Phase::Block(record));
        self.tell(record.end, Event::BlockEnding { block, steps, duration });
        self.tell(record.end, Event::BlockAu { epoch, block, percent });
        self.tell(record.end, Event::BlockThroughput { epoch, block, samples_per_second });
        let compute: Vec<f64> = record.steps.iter().map(|step| step.compute.0).collect();
        if let (Some(mean), Some(stdev)) = (mean(&compute), stdev(&compute)) {
            let asked = self.report.workload.train.computation_time;
            self.tell(record.end, Event::ComputationTime { epoch, block, mean, stdev, asked });
        }
    }

    fn evaluation_ended(&mut self, record: &Evaluation) {
        let epoch = self.epoch.epoch;
        let (steps, duration) = (record.steps.len() as u64, record.duration);
        let (percent, samples_per_second) = self.figures(&Phase::Evaluation(record));
        self.tell(record.end, Event::EvaluationEnding { steps, duration });
        self.tell(record.end, Event::EvaluationAu { epoch, percent });
        self.tell(record.end, Event::EvaluationThroughput { epoch, samples_per_second });
    }

    /// Two lines for every step of all ranks, in the order of time. `of` gives the start of a rank's
    /// steps and the steps; `before` steps of the epoch came earlier.
    fn steps_of(
        &mut self,
        split: Split,
        before: u64,
        of: impl Fn(&RankEpoch) -> Option<(Stamp, &[StepRecord])>,
    ) {
        if !self.steps {
            return;
        }
        let samples = self.report.workload.reader.batch(split);
        let mut told = Vec::new();
        for entry in &self.epoch.ranks {
            let Some((mut stamp, steps)) = of(entry) else { continue };
            let rank = entry.rank;
            let mut tell =
                |stamp, event| told.push(Line { severity: Severity::Info, stamp, event });
            for (step, record) in (before + 1..).zip(steps) {
                let (wait, proc) = (record.wait, record.proc());
                stamp = stamp.later(wait);
                tell(stamp, Event::StepLoaded { rank, step, samples, duration: wait });
                stamp = stamp.later(record.compute);
                tell(stamp, Event::StepProcessed { rank, step, samples, duration: proc });
                stamp = stamp.later(record.barrier);
            }
        }
        told.sort_by_key(|line| line.stamp);
        self.lines.extend(told);
    }
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::units::Seconds;

    use super::*;
    use crate::fixtures;

    fn told(report: &RunReport, steps: bool) -> String {
        let epoch = report.record.epochs.last().unwrap();
        let lines = lines(report, epoch, steps);
        let texts = lines.iter().map(|line| {
            // The date depends on the time zone.
            format!("{:?} {} {}\n", line.severity, &line.stamp.dlio()[14..], line.event)
        });
        texts.collect()
    }

    #[test]
    fn a_finished_epoch_says_the_figures_of_rank_0_times_the_ranks() {
        insta::assert_snapshot!(told(&fixtures::evaluated(2, 2), false), @r"
        Output 39:56.123456 Ending block 1 - 11 steps completed in 2.20 s
        Output 39:56.123456 Epoch 2 - Block 1 [Training] Accelerator Utilization [AU] (%): 50.0000
        Output 39:56.123456 Epoch 2 - Block 1 [Training] Throughput (samples/second): 10.0000
        Output 39:56.123456 Epoch 2 - Block 1 [Training] Computation time per step (second): 0.1000+/-0.0000 (set value: {'mean': 0.1})
        Output 39:56.123456 Ending epoch 2 - 11 steps completed in 2.20 s
        Output 39:56.123456 Starting eval - 5 steps expected
        Output 39:56.123456 Ending eval - 5 steps completed in 1.00 s
        Output 39:56.123456 Epoch 2 [Eval] Accelerator Utilization [AU] (%): 50.0000
        Output 39:56.123456 Epoch 2 [Eval] Throughput (samples/second): 20.0000
        ");
    }

    #[test]
    fn every_step_of_every_rank_has_two_lines_in_the_order_of_time() {
        let mut report = fixtures::evaluated(2, 1);
        for rank in &mut report.record.epochs[0].ranks {
            let late = Seconds(0.01 * f64::from(rank.rank));
            rank.blocks[0].steps.truncate(2);
            for step in &mut rank.blocks[0].steps {
                step.wait += late;
                step.barrier = Seconds(0.01) - late;
            }
            rank.evaluation.as_mut().unwrap().steps.truncate(1);
        }
        let text = told(&report, true);
        let steps = text.lines().filter_map(|line| line.strip_prefix("Info "));
        let steps_only = steps.collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(steps_only, @r"
        39:56.223456 Rank 0 step 1: loaded 1 samples in 0.1000 s
        39:56.233456 Rank 1 step 1: loaded 1 samples in 0.1100 s
        39:56.323456 Rank 0 step 1 processed 1 samples in 0.2000s)
        39:56.333456 Rank 1 step 1 processed 1 samples in 0.2100s)
        39:56.433456 Rank 0 step 2: loaded 1 samples in 0.1000 s
        39:56.443456 Rank 1 step 2: loaded 1 samples in 0.1100 s
        39:56.533456 Rank 0 step 2 processed 1 samples in 0.2000s)
        39:56.543456 Rank 1 step 2 processed 1 samples in 0.2100s)
        39:56.223456 Rank 0 step 1: loaded 2 samples in 0.1000 s
        39:56.223456 Rank 1 step 1: loaded 2 samples in 0.1000 s
        39:56.323456 Rank 0 step 1 processed 2 samples in 0.2000s)
        39:56.323456 Rank 1 step 1 processed 2 samples in 0.2000s)
        ");
    }

    #[test]
    fn the_order_of_steps_is_finer_than_their_stamps_are_shown() {
        let mut report = fixtures::evaluated(2, 1);
        let late = Seconds(2e-7);
        let start = &mut report.record.epochs[0].ranks[0].blocks[0].start;
        *start = start.later(late);
        let expected = start.later(Seconds(0.1));
        let lines = lines(&report, &report.record.epochs[0], true);
        let loaded: Vec<_> = lines
            .iter()
            .filter_map(|line| match line.event {
                Event::StepLoaded { rank, step: 1, samples: 1, .. } => Some((rank, line.stamp)),
                _ => None,
            })
            .collect();
        assert_eq!(loaded.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(loaded[1].1, expected);
        assert_eq!(loaded[0].1.later(late), expected);
    }

    #[test]
    fn steps_are_counted_over_the_blocks_of_an_epoch() {
        let mut report = fixtures::delays(0.1, 0.1, 2);
        let blocks = &mut report.record.epochs[0].ranks[0].blocks;
        let second = BlockRecord { number: 2, ..blocks[0].clone() };
        blocks.push(second);
        let text = told(&report, true);
        assert!(text.contains(" Starting block 2\n"), "{text}");
        assert!(!text.contains(" Starting block 1\n"), "{text}");
        assert!(text.contains(" Rank 0 step 4 processed 1 samples in 0.2000s)\n"), "{text}");
        assert!(text.contains(" Ending epoch 1 - 4 steps completed"), "{text}");
    }

    #[test]
    fn an_empty_window_is_told_or_is_dlios_zero() {
        let mut report = fixtures::one_step();
        assert!(told(&report, false).contains("[AU] (%): not measurable\n"));
        report.workload.compat = Compat::Mlcommons;
        let text = told(&report, false);
        assert!(text.contains("[AU] (%): 0.0000\n"), "{text}");
        assert!(text.contains("(samples/second): 0.0000\n"), "{text}");
    }
}
