//! What DLIO logs, word for word.

use std::fmt;
use std::path::Path;

use feedrate_metrics::units::Seconds;
use feedrate_workload::{Schedule, Time, Workflow, Workload};

/// Something that DLIO logs. Its `Display` is the text behind the stamp.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The run starts.
    Running {
        /// Which parts are active.
        workflow: Workflow,
        /// Ranks.
        processes: u32,
    },
    /// Data generation starts.
    GenerationStarting,
    /// Data generation is over.
    GenerationDone,
    /// How many steps an epoch has, with the true global numbers.
    MaxSteps {
        /// What was asked.
        workload: &'a Workload,
        /// Its schedule.
        schedule: Schedule,
    },
    /// How many steps an evaluation has, with the true global numbers.
    StepsPerEvaluation {
        /// What was asked.
        workload: &'a Workload,
        /// Its evaluation's schedule.
        schedule: Schedule,
    },
    /// `train.total_training_steps` shortens each epoch.
    TotalTrainingSteps {
        /// Steps of each epoch.
        steps: u64,
        /// Epochs.
        epochs: u32,
    },
    /// An epoch starts.
    EpochStarting {
        /// From 1.
        epoch: u32,
        /// Steps of each rank.
        steps: u64,
        /// Whether `train.total_training_steps` set them.
        overridden: bool,
    },
    /// A block starts.
    BlockStarting {
        /// From 1.
        block: u32,
    },
    /// A block is over.
    BlockEnding {
        /// From 1.
        block: u32,
        /// Steps of rank 0 in it.
        steps: u64,
        /// How long it took.
        duration: Seconds,
    },
    /// Rank 0's AU of a block.
    BlockAu {
        /// From 1.
        epoch: u32,
        /// From 1.
        block: u32,
        /// `None` when the metric window is empty.
        percent: Option<f64>,
    },
    /// Rank 0's throughput of a block times the number of ranks.
    BlockThroughput {
        /// From 1.
        epoch: u32,
        /// From 1.
        block: u32,
        /// `None` when the metric window is empty.
        samples_per_second: Option<f64>,
    },
    /// Measured compute time of a block's steps on rank 0.
    ComputationTime {
        /// From 1.
        epoch: u32,
        /// From 1.
        block: u32,
        /// Mean over steps.
        mean: f64,
        /// Population standard deviation over steps.
        stdev: f64,
        /// What was asked.
        asked: Time,
    },
    /// An epoch is over.
    EpochEnding {
        /// From 1.
        epoch: u32,
        /// Steps of each rank.
        steps: u64,
        /// How long it took.
        duration: Seconds,
    },
    /// An evaluation starts.
    EvaluationStarting {
        /// Steps of each rank.
        steps: u64,
    },
    /// An evaluation is over.
    EvaluationEnding {
        /// Steps of each rank.
        steps: u64,
        /// How long it took.
        duration: Seconds,
    },
    /// Rank 0's AU of an evaluation.
    EvaluationAu {
        /// From 1.
        epoch: u32,
        /// `None` when the metric window is empty.
        percent: Option<f64>,
    },
    /// Rank 0's throughput of an evaluation times the number of ranks.
    EvaluationThroughput {
        /// From 1.
        epoch: u32,
        /// `None` when it took no time.
        samples_per_second: Option<f64>,
    },
    /// A rank holds the batch of a step.
    StepLoaded {
        /// From 0.
        rank: u32,
        /// From 1, within the epoch or the evaluation.
        step: u64,
        /// The batch.
        samples: u64,
        /// How long it was waited for.
        duration: Seconds,
    },
    /// A rank has computed a step.
    StepProcessed {
        /// From 0.
        rank: u32,
        /// From 1, within the epoch or the evaluation.
        step: u64,
        /// The batch.
        samples: u64,
        /// Waiting for the batch and computing.
        duration: Seconds,
    },
    /// The summary is written.
    SavedOutputs {
        /// Into this folder.
        folder: &'a Path,
    },
    /// The files of the ranks are written.
    SavedRankOutputs,
}

impl fmt::Display for Event<'_> {
    #[expect(clippy::too_many_lines, reason = "a table: the text of each event")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Running { workflow, processes } => {
                let parts: Vec<&str> = [
                    (workflow.generate_data, "Generating data"),
                    (workflow.train, "Training"),
                    (workflow.evaluates(), "Evaluation"),
                ]
                .into_iter()
                .filter_map(|(active, part)| active.then_some(part))
                .collect();
                write!(f, "Running DLIO [{}] with {processes} process(es)", parts.join(" & "))
            }
            Self::GenerationStarting => f.write_str("Starting data generation"),
            Self::GenerationDone => f.write_str("Generation done"),
            Self::MaxSteps { workload, schedule } => write!(
                f,
                "Max steps per epoch: {} = {} * {} / {} / {} (samples per file * num files / batch \
                 size / comm size)",
                schedule.samples / (schedule.batch_size * u64::from(schedule.ranks)),
                workload.dataset.num_samples_per_file,
                workload.dataset.num_files_train,
                schedule.batch_size,
                schedule.ranks,
            ),
            Self::StepsPerEvaluation { workload, schedule } => write!(
                f,
                "Steps per eval: {} = {} * {} / {} / {} (samples per file * num files / batch size \
                 eval / comm size)",
                schedule.steps,
                workload.dataset.num_samples_per_file,
                workload.dataset.num_files_eval,
                schedule.batch_size,
                schedule.ranks,
            ),
            Self::TotalTrainingSteps { steps, epochs } => write!(
                f,
                "Total training steps is set to be {steps}. Will only run up to {steps} steps in \
                 each epoch, {} in all",
                steps * u64::from(epochs)
            ),
            Self::EpochStarting { epoch, steps, overridden: false } => {
                write!(f, "Starting epoch {epoch}: {steps} steps expected")
            }
            Self::EpochStarting { epoch, steps, overridden: true } => {
                write!(f, "Starting epoch {epoch}: Overriding number of steps to {steps}.")
            }
            Self::BlockStarting { block } => write!(f, "Starting block {block}"),
            Self::BlockEnding { block, steps, duration } => {
                write!(f, "Ending block {block} - {steps} steps completed in {:.2} s", duration.0)
            }
            Self::BlockAu { epoch, block, percent } => write!(
                f,
                "Epoch {epoch} - Block {block} [Training] Accelerator Utilization [AU] (%): {}",
                measured(percent)
            ),
            Self::BlockThroughput { epoch, block, samples_per_second } => write!(
                f,
                "Epoch {epoch} - Block {block} [Training] Throughput (samples/second): {}",
                measured(samples_per_second)
            ),
            Self::ComputationTime { epoch, block, mean, stdev, asked } => write!(
                f,
                "Epoch {epoch} - Block {block} [Training] Computation time per step (second): \
                 {mean:.4}+/-{stdev:.4} (set value: {})",
                mapping(&asked)
            ),
            Self::EpochEnding { epoch, steps, duration } => {
                write!(f, "Ending epoch {epoch} - {steps} steps completed in {:.2} s", duration.0)
            }
            Self::EvaluationStarting { steps } => {
                write!(f, "Starting eval - {steps} steps expected")
            }
            Self::EvaluationEnding { steps, duration } => {
                write!(f, "Ending eval - {steps} steps completed in {:.2} s", duration.0)
            }
            Self::EvaluationAu { epoch, percent } => write!(
                f,
                "Epoch {epoch} [Eval] Accelerator Utilization [AU] (%): {}",
                measured(percent)
            ),
            Self::EvaluationThroughput { epoch, samples_per_second } => write!(
                f,
                "Epoch {epoch} [Eval] Throughput (samples/second): {}",
                measured(samples_per_second)
            ),
            Self::StepLoaded { rank, step, samples, duration } => {
                write!(
                    f,
                    "Rank {rank} step {step}: loaded {samples} samples in {:.4} s",
                    duration.0
                )
            }
            // DLIO closes a bracket here that it never opened.
            Self::StepProcessed { rank, step, samples, duration } => {
                write!(
                    f,
                    "Rank {rank} step {step} processed {samples} samples in {:.4}s)",
                    duration.0
                )
            }
            Self::SavedOutputs { folder } => write!(f, "Saved outputs in {}", folder.display()),
            Self::SavedRankOutputs => f.write_str("outputs saved in RANKID_output.json"),
        }
    }
}

pub(super) fn measured(value: Option<f64>) -> String {
    value.map_or("not measurable".to_owned(), |value| format!("{value:.4}"))
}

/// A time as Python prints the mapping: `{'mean': 0.04755}`.
fn mapping(time: &Time) -> String {
    match *time {
        Time::Constant { mean } => format!("{{'mean': {mean:?}}}"),
        Time::Normal { mean, stdev } => {
            format!("{{'type': 'normal', 'mean': {mean:?}, 'stdev': {stdev:?}}}")
        }
        Time::Uniform { min, max } => {
            format!("{{'type': 'uniform', 'min': {min:?}, 'max': {max:?}}}")
        }
        Time::Gamma { shape, scale } => {
            format!("{{'type': 'gamma', 'shape': {shape:?}, 'scale': {scale:?}}}")
        }
        Time::Exponential { scale } => format!("{{'type': 'exponential', 'scale': {scale:?}}}"),
        Time::Poisson { lam } => format!("{{'type': 'poisson', 'lam': {lam:?}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn every_event_reads_as_dlio_writes_it() {
        let report = fixtures::evaluated(2, 1);
        let workload = &report.workload;
        let schedule = Schedule::new(workload, 2).unwrap();
        let evaluation = Schedule::evaluation(workload, 2).unwrap().unwrap();
        let duration = Seconds(0.084_25);
        let events = [
            Event::Running {
                workflow: Workflow { generate_data: true, ..workload.workflow },
                processes: 2,
            },
            Event::GenerationStarting,
            Event::GenerationDone,
            Event::MaxSteps { workload, schedule },
            Event::TotalTrainingSteps { steps: 3, epochs: 2 },
            Event::StepsPerEvaluation { workload, schedule: evaluation },
            Event::EpochStarting { epoch: 1, steps: 11, overridden: false },
            Event::EpochStarting { epoch: 2, steps: 3, overridden: true },
            Event::BlockStarting { block: 1 },
            Event::StepLoaded { rank: 1, step: 7, samples: 4, duration },
            Event::StepProcessed { rank: 1, step: 7, samples: 4, duration },
            Event::EpochEnding { epoch: 1, steps: 11, duration: Seconds(10.868) },
            Event::EvaluationStarting { steps: 5 },
            Event::EvaluationEnding { steps: 5, duration },
            Event::EvaluationAu { epoch: 1, percent: Some(96.131_74) },
            Event::EvaluationThroughput { epoch: 1, samples_per_second: None },
            Event::SavedOutputs { folder: Path::new("/r/x") },
            Event::SavedRankOutputs,
        ];
        let text: Vec<String> = events.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        Running DLIO [Generating data & Training & Evaluation] with 2 process(es)
        Starting data generation
        Generation done
        Max steps per epoch: 11 = 1 * 22 / 1 / 2 (samples per file * num files / batch size / comm size)
        Total training steps is set to be 3. Will only run up to 3 steps in each epoch, 6 in all
        Steps per eval: 5 = 1 * 20 / 2 / 2 (samples per file * num files / batch size eval / comm size)
        Starting epoch 1: 11 steps expected
        Starting epoch 2: Overriding number of steps to 3.
        Starting block 1
        Rank 1 step 7: loaded 4 samples in 0.0843 s
        Rank 1 step 7 processed 4 samples in 0.0843s)
        Ending epoch 1 - 11 steps completed in 10.87 s
        Starting eval - 5 steps expected
        Ending eval - 5 steps completed in 0.08 s
        Epoch 1 [Eval] Accelerator Utilization [AU] (%): 96.1317
        Epoch 1 [Eval] Throughput (samples/second): not measurable
        Saved outputs in /r/x
        outputs saved in RANKID_output.json
        ");
    }

    #[test]
    fn only_the_active_parts_are_named() {
        let workflow = fixtures::known_delays().workload.workflow;
        let running = |workflow| Event::Running { workflow, processes: 1 }.to_string();
        assert_eq!(running(workflow), "Running DLIO [Training] with 1 process(es)");
        let generates =
            Workflow { generate_data: true, train: false, evaluation: true, ..workflow };
        assert_eq!(running(generates), "Running DLIO [Generating data] with 1 process(es)");
    }
}
