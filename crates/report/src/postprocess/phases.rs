//! Epochs and their phases: when they were, how long the ranks waited and worked in them, and how
//! many samples a second that makes.

use std::collections::{BTreeMap, BTreeSet};

use feedrate_metrics::stats::mean;

use super::recorded::{EpochSpans, Recorded, Span, Steps};

/// Samples per step and rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSizes<T = u64> {
    pub(super) train: T,
    pub(super) eval: T,
}

impl BatchSizes<Option<u64>> {
    /// DLIO's default, 1, for those that are not known.
    pub(super) fn or_one(self) -> BatchSizes {
        BatchSizes { train: self.train.unwrap_or(1), eval: self.eval.unwrap_or(1) }
    }
}

/// An epoch of the report.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) number: u32,
    pub(super) span: Span,
    /// In the order of time.
    pub(super) phases: Vec<Phase>,
}

/// A phase of an epoch.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) kind: Kind,
    /// The how-many-th of its kind in the run, from 1.
    pub(super) number: u32,
    pub(super) span: Span,
    /// Time that a rank waited for batches, in s: the mean over the ranks.
    pub(super) loading: Option<f64>,
    /// Time that a rank waited and computed, in s: the mean over the ranks.
    pub(super) processing: Option<f64>,
    /// Of all ranks together, one value per step.
    pub(super) samples_per_second: Vec<f64>,
}

/// What is done in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Training steps between two checkpoints.
    Block,
    /// Evaluation.
    Eval,
    /// Saving or loading a checkpoint.
    Checkpoint,
}

impl Kind {
    /// What a phase's key in the rank files stands for: `block3`, `eval`, `save_ckpt1`,
    /// `load_ckpt1`, and `ckpt1` in older outputs.
    fn of(key: &str) -> Option<Self> {
        match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "block" => Some(Self::Block),
            "eval" => Some(Self::Eval),
            "ckpt" | "save_ckpt" | "load_ckpt" => Some(Self::Checkpoint),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Block => "Block",
            Self::Eval => "Eval",
            Self::Checkpoint => "Checkpoint",
        }
    }
}

/// The epochs that any file knows of.
pub(super) fn epochs(recorded: &Recorded, batch_sizes: BatchSizes) -> Vec<Epoch> {
    let with_steps = recorded.ranks.iter().flat_map(|rank| rank.phases.keys());
    let numbers: BTreeSet<u32> = recorded.epochs.keys().chain(with_steps).copied().collect();
    let mut counts = BTreeMap::new();
    let mut epochs = Vec::new();
    for number in numbers {
        let unknown = EpochSpans::default();
        let spans = recorded.epochs.get(&number).unwrap_or(&unknown);
        let mut phases = Vec::new();
        for (key, span) in keys(recorded, number, spans) {
            let Some(kind) = Kind::of(key) else { continue };
            let count = counts.entry(kind).or_insert(0);
            *count += 1;
            let steps: Vec<&Steps> =
                recorded.ranks.iter().filter_map(|rank| rank.phase(number, key)).collect();
            let batch_size = if kind == Kind::Eval { batch_sizes.eval } else { batch_sizes.train };
            phases.push(Phase {
                kind,
                number: *count,
                span,
                loading: mean_sum(steps.iter().map(|steps| &steps.load)),
                processing: mean_sum(steps.iter().map(|steps| &steps.proc)),
                samples_per_second: samples_per_second(&steps, batch_size),
            });
        }
        epochs.push(Epoch { number, span: spans.whole, phases });
    }
    epochs
}

/// The phases of an epoch: those that have a span, and behind them any that only the steps know.
fn keys<'a>(recorded: &'a Recorded, epoch: u32, spans: &'a EpochSpans) -> Vec<(&'a str, Span)> {
    let mut keys: Vec<(&str, Span)> =
        spans.phases.iter().map(|(key, span)| (key.as_str(), *span)).collect();
    let with_steps = recorded.ranks.iter().filter_map(|rank| rank.phases.get(&epoch)).flatten();
    for (key, _) in with_steps {
        if !keys.iter().any(|(known, _)| known == key) {
            keys.push((key, Span::default()));
        }
    }
    keys
}

fn mean_sum<'a>(ranks: impl Iterator<Item = &'a Vec<f64>>) -> Option<f64> {
    let sums: Vec<f64> = ranks.filter(|times| !times.is_empty()).map(|t| t.iter().sum()).collect();
    mean(&sums).filter(|mean| mean.is_finite())
}

/// Batch size ÷ `proc`, summed over the ranks step by step. A step that some ranks do not have, as
/// the last one may be, sums over the others; a step that took no time has no rate and is left out.
fn samples_per_second(ranks: &[&Steps], batch_size: u64) -> Vec<f64> {
    let steps = ranks.iter().map(|rank| rank.proc.len()).max().unwrap_or(0);
    let of_step = |step| {
        let times = ranks.iter().filter_map(move |rank| rank.proc.get(step));
        times.map(|time| batch_size as f64 / time).sum::<f64>()
    };
    (0..steps).map(of_step).filter(|rate| rate.is_finite()).collect()
}
