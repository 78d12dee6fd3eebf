//! The lines of `dlio.log` (spec/dlio.md 8.6), which tools around DLIO parse.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use feedrate_metrics::record::{BlockRecord, Stamp};
use feedrate_metrics::stats::{mean, stdev};
use feedrate_metrics::throughput::block_samples_per_second;
use feedrate_metrics::units::Seconds;
use feedrate_metrics::utilization::{MetricWindow, block_au_percent};
use feedrate_workload::{Schedule, Time, Workflow, Workload};

use crate::{ReportError, RunReport};

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
    /// How many steps an epoch has, with the true global numbers.
    MaxSteps {
        /// What was asked.
        workload: &'a Workload,
        /// Its schedule.
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
    /// The result files are written.
    SavedOutputs {
        /// Into this folder.
        folder: &'a Path,
    },
}

impl Event<'_> {
    /// What is said at the end of a block of rank 0, in DLIO's order.
    pub fn of_block(
        epoch: u32,
        block: &BlockRecord,
        window: &MetricWindow,
        schedule: &Schedule,
        asked: Time,
    ) -> Vec<Self> {
        let number = block.number;
        let compute: Vec<f64> = block.steps.iter().map(|step| step.compute.0).collect();
        let mut events = vec![
            Self::BlockEnding {
                block: number,
                steps: block.steps.len() as u64,
                duration: block.duration,
            },
            Self::BlockAu { epoch, block: number, percent: block_au_percent(block, window) },
            Self::BlockThroughput {
                epoch,
                block: number,
                samples_per_second: block_samples_per_second(block, window, schedule.batch_size)
                    .map(|one_rank| one_rank * f64::from(schedule.ranks)),
            },
        ];
        if let (Some(mean), Some(stdev)) = (mean(&compute), stdev(&compute)) {
            events.push(Self::ComputationTime { epoch, block: number, mean, stdev, asked });
        }
        events
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Running { workflow, processes } => {
                let parts: Vec<&str> =
                    [(workflow.generate_data, "Generating data"), (workflow.train, "Training")]
                        .into_iter()
                        .filter_map(|(active, part)| active.then_some(part))
                        .collect();
                write!(f, "Running DLIO [{}] with {processes} process(es)", parts.join(" & "))
            }
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
            Self::SavedOutputs { folder } => write!(f, "Saved outputs in {}", folder.display()),
        }
    }
}

fn measured(value: Option<f64>) -> String {
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

/// The block of averages that ends the log.
#[derive(Debug)]
pub struct Averages<'a>(pub &'a RunReport);

impl fmt::Display for Averages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RULE: &str = "==========================================================";
        let figures = self.0.figures();
        let spread = |mean: Option<f64>, stdev: Option<f64>| match (mean, stdev) {
            (Some(mean), Some(stdev)) => format!("{mean:.4} ({stdev:.4})"),
            _ => measured(None),
        };
        let au = spread(figures.au_percent_mean, figures.au_percent_stdev);
        let samples = spread(figures.samples_per_second_mean, figures.samples_per_second_stdev);
        let io = spread(figures.io_mib_per_second_mean, figures.io_mib_per_second_stdev);
        let met = expectation(figures.au_met);
        writeln!(f, "[OUTPUT] Averaged metric over all steps/epochs")?;
        writeln!(f, "[METRIC] {RULE}")?;
        // DLIO ends this line with a blank.
        writeln!(f, "[METRIC] Number of Simulated Accelerators: {} ", self.0.np)?;
        writeln!(f, "[METRIC] Training Accelerator Utilization [AU] (%): {au}")?;
        writeln!(f, "[METRIC] Training Throughput (samples/second): {samples}")?;
        writeln!(f, "[METRIC] Training I/O Throughput (MiB/second): {io}")?;
        writeln!(f, "[METRIC] train_au_meet_expectation: {met}")?;
        writeln!(f, "[METRIC] {RULE}")
    }
}

/// DLIO knows two answers; what cannot be measured has not met anything.
pub(crate) fn expectation(met: Option<bool>) -> &'static str {
    if met == Some(true) { "success" } else { "fail" }
}

/// The log file of a run. Every line is one write at the end of the file.
#[derive(Debug)]
pub struct DlioLog {
    path: PathBuf,
    file: File,
}

impl DlioLog {
    /// Starts a new log at `path`; an old one is removed, the folder is made.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| ReportError::CreateFolder { path: folder.to_owned(), source })?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ReportError::write(path)(error));
            }
            _ => {}
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(ReportError::write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends `event` with the time it is now.
    pub fn event(&self, event: &Event<'_>) -> Result<(), ReportError> {
        self.append(&format!("[OUTPUT] {} {event}\n", Stamp::now().dlio()))
    }

    /// Appends a warning.
    pub fn warning(&self, text: &str) -> Result<(), ReportError> {
        self.append(&format!("[WARNING] {text}\n"))
    }

    /// Appends the averages of a finished run.
    pub fn averages(&self, report: &RunReport) -> Result<(), ReportError> {
        self.append(&Averages(report).to_string())
    }

    fn append(&self, text: &str) -> Result<(), ReportError> {
        (&self.file).write_all(text.as_bytes()).map_err(ReportError::write(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn every_event_reads_as_dlio_writes_it() {
        let report = fixtures::known_delays();
        let schedule = Schedule::new(&report.workload, 1).unwrap();
        let events = [
            Event::Running {
                workflow: Workflow { generate_data: true, ..report.workload.workflow },
                processes: 2,
            },
            Event::MaxSteps { workload: &report.workload, schedule },
            Event::TotalTrainingSteps { steps: 3, epochs: 2 },
            Event::EpochStarting { epoch: 1, steps: 11, overridden: false },
            Event::EpochStarting { epoch: 2, steps: 3, overridden: true },
            Event::BlockStarting { block: 1 },
            Event::EpochEnding { epoch: 1, steps: 11, duration: Seconds(10.868) },
            Event::SavedOutputs { folder: Path::new("/r/x") },
        ];
        let text: Vec<String> = events.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        Running DLIO [Generating data & Training] with 2 process(es)
        Max steps per epoch: 11 = 1 * 11 / 1 / 1 (samples per file * num files / batch size / comm size)
        Total training steps is set to be 3. Will only run up to 3 steps in each epoch, 6 in all
        Starting epoch 1: 11 steps expected
        Starting epoch 2: Overriding number of steps to 3.
        Starting block 1
        Ending epoch 1 - 11 steps completed in 10.87 s
        Saved outputs in /r/x
        ");
    }

    #[test]
    fn a_finished_block_says_its_figures_times_the_ranks() {
        let report = fixtures::known_delays();
        let block = &report.record.epochs[0].ranks[0].blocks[0];
        let schedule = Schedule { ranks: 2, samples: 22, ..Schedule::new(&report.workload, 1).unwrap() };
        let asked = report.workload.train.computation_time;
        let events = Event::of_block(1, block, &report.window(), &schedule, asked);
        let text: Vec<String> = events.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        Ending block 1 - 11 steps completed in 2.20 s
        Epoch 1 - Block 1 [Training] Accelerator Utilization [AU] (%): 50.0000
        Epoch 1 - Block 1 [Training] Throughput (samples/second): 10.0000
        Epoch 1 - Block 1 [Training] Computation time per step (second): 0.1000+/-0.0000 (set value: {'mean': 0.1})
        ");
    }

    #[test]
    fn the_final_block_has_dlios_lines_and_its_blank() {
        let text = Averages(&fixtures::known_delays()).to_string();
        assert_eq!(
            text,
            "[OUTPUT] Averaged metric over all steps/epochs\n\
             [METRIC] ==========================================================\n\
             [METRIC] Number of Simulated Accelerators: 1 \n\
             [METRIC] Training Accelerator Utilization [AU] (%): 50.0000 (0.0000)\n\
             [METRIC] Training Throughput (samples/second): 5.0000 (0.0000)\n\
             [METRIC] Training I/O Throughput (MiB/second): 0.3125 (0.0000)\n\
             [METRIC] train_au_meet_expectation: fail\n\
             [METRIC] ==========================================================\n"
        );
        let text = Averages(&fixtures::one_step()).to_string();
        assert!(text.contains("[AU] (%): not measurable\n"), "{text}");
    }

    #[test]
    fn a_new_log_replaces_the_old_one_and_stamps_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/dlio.log");
        DlioLog::create(&path).unwrap().warning("old").unwrap();
        let log = DlioLog::create(&path).unwrap();
        log.event(&Event::BlockStarting { block: 1 }).unwrap();
        log.warning("careful").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let (stamp, rest) = lines[0]["[OUTPUT] ".len()..].split_at(26);
        assert_eq!(stamp.as_bytes()[10], b'T');
        assert_eq!(rest, " Starting block 1");
        assert_eq!(lines[1], "[WARNING] careful");
    }
}
