//! The phases of one rank's epoch, blocks of training and the evaluation, and DLIO's figures of them
//! as the workload's `compat` wants them.

use feedrate_metrics::evaluation::{
    EvaluationEntries, evaluation_au_entries, evaluation_au_percent, evaluation_samples_entries,
    evaluation_samples_per_second,
};
use feedrate_metrics::record::{
    BlockRecord, EpochRecord, Evaluation, RankEpoch, Stamp, StepRecord,
};
use feedrate_metrics::throughput::{
    CountedSteps, block_samples_per_second, epoch_samples_per_second,
};
use feedrate_metrics::units::Seconds;
use feedrate_metrics::utilization::{MetricWindow, block_au_percent, epoch_au_percent};
use feedrate_workload::{Compat, Reader};

use super::RunReport;

/// A part of an epoch as one rank lived it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase<'a> {
    /// Steps of training between two checkpoints.
    Block(&'a BlockRecord),
    /// The evaluation behind them.
    Evaluation(&'a Evaluation),
}

impl<'a> Phase<'a> {
    /// All of `rank`'s epoch, in the order of time.
    pub(crate) fn all(rank: &'a RankEpoch) -> impl Iterator<Item = Self> {
        rank.blocks.iter().map(Self::Block).chain(rank.evaluation.as_ref().map(Self::Evaluation))
    }

    /// Its name in DLIO's files.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Block(block) => format!("block{}", block.number),
            Self::Evaluation(_) => "eval".to_owned(),
        }
    }

    /// Its steps, in order.
    pub(crate) fn steps(&self) -> &'a [StepRecord] {
        match self {
            Self::Block(block) => &block.steps,
            Self::Evaluation(evaluation) => &evaluation.steps,
        }
    }

    /// Start, end, and the measured time between them.
    pub(crate) fn span(&self) -> (Stamp, Stamp, Seconds) {
        match self {
            Self::Block(block) => (block.start, block.end, block.duration),
            Self::Evaluation(evaluation) => (evaluation.start, evaluation.end, evaluation.duration),
        }
    }
}

/// DLIO's figures of a run's phases, as the workload's `compat` wants them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseFigures {
    window: MetricWindow,
    counted: CountedSteps,
    batch_size: u64,
    evaluation_window: MetricWindow,
    entries: EvaluationEntries,
    batch_size_eval: u64,
}

impl PhaseFigures {
    pub(crate) fn of(report: &RunReport) -> Self {
        let Reader { batch_size, batch_size_eval, .. } = report.workload.reader;
        let (counted, entries) = match report.workload.compat {
            Compat::None => (CountedSteps::Window, EvaluationEntries::PerEpoch),
            Compat::Mlcommons => (CountedSteps::Window, EvaluationEntries::PerRank),
            Compat::Upstream => (CountedSteps::AllButTwo, EvaluationEntries::PerRank),
        };
        Self {
            window: report.window(),
            counted,
            batch_size,
            evaluation_window: report.evaluation_window(),
            entries,
            batch_size_eval,
        }
    }

    /// AU of one rank in percent.
    pub(crate) fn au_percent(&self, phase: &Phase) -> Option<f64> {
        match phase {
            Phase::Block(block) => block_au_percent(block, &self.window),
            Phase::Evaluation(evaluation) => {
                evaluation_au_percent(evaluation, &self.evaluation_window)
            }
        }
    }

    /// Throughput of one rank in samples/s.
    pub(crate) fn samples_per_second(&self, phase: &Phase) -> Option<f64> {
        match phase {
            Phase::Block(block) => {
                block_samples_per_second(block, &self.window, self.counted, self.batch_size)
            }
            Phase::Evaluation(evaluation) => {
                evaluation_samples_per_second(evaluation, self.batch_size_eval)
            }
        }
    }

    /// AU of an epoch's training in percent.
    pub(crate) fn epoch_au_percent(&self, epoch: &EpochRecord) -> Option<f64> {
        epoch_au_percent(epoch, &self.window)
    }

    /// Throughput of an epoch's training in samples/s.
    pub(crate) fn epoch_samples_per_second(&self, epoch: &EpochRecord) -> Option<f64> {
        epoch_samples_per_second(epoch, &self.window, self.counted, self.batch_size)
    }

    /// AU of the evaluations in percent.
    pub(crate) fn evaluation_au_percent(&self, epochs: &[EpochRecord]) -> Vec<Option<f64>> {
        evaluation_au_entries(epochs, &self.evaluation_window, self.entries)
    }

    /// Throughputs of the evaluations in samples/s.
    pub(crate) fn evaluation_samples_per_second(&self, epochs: &[EpochRecord]) -> Vec<Option<f64>> {
        evaluation_samples_entries(epochs, self.batch_size_eval, self.entries)
    }
}
