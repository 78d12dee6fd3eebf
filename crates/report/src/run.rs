//! The saved record of one run: `feedrate.json` in its folder. It holds everything that was asked
//! and measured, so every file and table of the run can be made again from it alone.

mod breakdown;
mod cpu;
mod extremes;
mod figures;
mod in_flight;
mod nodes;
pub(crate) mod phase;
mod waits;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use feedrate_metrics::record::RunRecord;
use feedrate_metrics::utilization::MetricWindow;
use feedrate_metrics::verdict::Verdict;
use feedrate_workload::{Payload, Pipeline, Workload};
use serde::{Deserialize, Serialize};

use crate::{ConfiguredValue, HostFacts, Nodes, Origin, ReportError, Store, Sweep, file, text};

pub use breakdown::Breakdown;
pub(crate) use cpu::phases_section;
pub use extremes::RankFigure;
pub(crate) use figures::per_gib;
pub use figures::{EvaluationFigures, Percentiles, RunFigures, Skipped};
pub(crate) use in_flight::in_flight_section;
pub use in_flight::{Course, InFlightFigures};
pub use nodes::NodeFigures;
pub use waits::WaitShares;
pub(crate) use words::{cache_drops_in_words, compat_in_words, get_engine_in_words};

/// The file's name.
pub const FILE_NAME: &str = "feedrate.json";
/// The form of the file that this program writes and reads.
const FORMAT_VERSION: u32 = 2;

/// One run: what was asked, where it ran, what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    format_version: u32,
    /// Program and command.
    pub origin: Origin,
    /// What was asked.
    pub workload: Workload,
    /// Every key that was read, its value and where that came from; empty when nobody told.
    #[serde(default)]
    pub configuration: Vec<ConfiguredValue>,
    /// Where its ranks, the simulated accelerators, were.
    pub nodes: Nodes,
    /// What it read from.
    pub store: Store,
    /// What was measured up to now.
    pub record: RunRecord,
}

impl RunReport {
    /// A report on `record`, which may still grow by an epoch at a time.
    pub fn new(
        origin: Origin,
        workload: Workload,
        nodes: Nodes,
        store: Store,
        record: RunRecord,
    ) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            origin,
            workload,
            configuration: Vec::new(),
            nodes,
            store,
            record,
        }
    }

    /// Simulated accelerators.
    pub fn np(&self) -> u32 {
        self.nodes.ranks()
    }

    /// The host of rank 0.
    pub fn host(&self) -> &HostFacts {
        &self.nodes.first().host
    }

    /// Writes `feedrate.json` into `folder`.
    pub fn save(&self, folder: &Path) -> Result<(), ReportError> {
        file::write_compact_json(&folder.join(FILE_NAME), self)
    }

    /// Reads `feedrate.json` from `folder`.
    pub fn load(folder: &Path) -> Result<Self, ReportError> {
        file::read_record(&folder.join(FILE_NAME), FORMAT_VERSION)
    }

    /// Writes `report.md` into `folder` and returns its path.
    pub fn save_page(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let path = folder.join(crate::sweep::PAGE_NAME);
        file::write(&path, self.to_markdown(folder).as_bytes())?;
        Ok(path)
    }

    /// The steps of training that DLIO's figures count.
    pub fn window(&self) -> MetricWindow {
        self.window_of(self.record.steps_per_epoch)
    }

    /// The same for evaluations.
    pub fn evaluation_window(&self) -> MetricWindow {
        self.window_of(self.record.evaluation_steps)
    }

    fn window_of(&self, expected_steps: u64) -> MetricWindow {
        MetricWindow {
            exclude_start: self.workload.metric.exclude_start_steps,
            exclude_end: self.workload.metric.exclude_end_steps,
            expected_steps,
        }
    }

    /// Everything that is computed from the record.
    pub fn figures(&self) -> RunFigures {
        RunFigures::of(self)
    }

    /// The page of a sweep, on this run alone. `folder` is where the run's files lie.
    pub fn to_markdown(&self, folder: &Path) -> String {
        Sweep::of_run(self).to_markdown(folder)
    }
}

/// The run in a few lines for a terminal.
impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        let Workload { model, reader, storage, metric, train, .. } = &self.workload;
        writeln!(
            f,
            "{} at NP {}: {} of {} epochs, {} each; {}, {}, batch {}",
            model.name,
            self.np(),
            figures.epochs_finished,
            train.epochs,
            text::counted(figures.steps_per_epoch, "step"),
            text::counted(u64::from(reader.read_threads), "read thread"),
            match reader.pipeline {
                Pipeline::Sliding => format!("window {}", storage.prefetch_window),
                Pipeline::Chunked => format!("chunks of {}", storage.prefetch_window),
            },
            reader.batch_size,
        )?;
        // Then all the other lines say what this client can take, not what the store can give.
        let client_bound = figures.verdict == Some(Verdict::ClientBound);
        if client_bound {
            write_waiting(f, &figures)?;
        }
        if reader.payload == Payload::Discard {
            writeln!(f, "  payload        discard: bytes are dropped, nothing lands in memory")?;
        }
        if let Some(engine) = get_engine_in_words(storage.get_engine) {
            writeln!(f, "  GETs made by   {engine}")?;
        }
        if let Some(compat) = compat_in_words(self.workload.compat) {
            writeln!(f, "  compat         {compat}")?;
        }
        writeln!(
            f,
            "  AU             {} %, target {} %: {}",
            figures.au_in_words(),
            text::percent(metric.au),
            text::pass(figures.au_met),
        )?;
        if let Some(reason) = &figures.not_measurable_reason {
            writeln!(f, "                 not measurable: {reason}")?;
        }
        writeln!(f, "  wall AU        {} %", text::fixed(figures.wall_au_percent_mean, 2))?;
        writeln!(
            f,
            "  samples/s      {}; by the wall clock {}",
            figures.samples_in_words(),
            text::rate(figures.wall_samples_per_second_mean, None),
        )?;
        writeln!(
            f,
            "  I/O MiB/s      {}; bytes that arrived, by the wall clock {}",
            figures.io_in_words(),
            text::rate(figures.wall_mib_per_second_mean, None),
        )?;
        if let Some(evaluation) = &figures.evaluation {
            writeln!(f, "  evaluation     {}", evaluation.in_words(metric.au))?;
        }
        if figures.checkpoint.is_some() {
            writeln!(f, "  checkpoint     skipped: no checkpoint was written between the steps")?;
        }
        if self.store.endpoint.is_none() {
            writeln!(f, "  page cache     {}", cache_drops_in_words(&figures.cache_drops))?;
        }
        let (first, last) = (&figures.get_first_byte_ms, &figures.get_latency_ms);
        writeln!(
            f,
            "  GET            p50 {}, p99 {}, longest {} ms; first byte p50 {} ms",
            text::fixed(last.p50, 2),
            text::fixed(last.p99, 2),
            text::fixed(last.max, 2),
            text::fixed(first.p50, 2),
        )?;
        if let Some(in_flight) = &figures.in_flight {
            writeln!(f, "  in flight      {}", in_flight.in_words())?;
        }
        if let Some(decoding) = figures.decoding_in_words() {
            writeln!(f, "  decoding       {decoding}")?;
        }
        writeln!(f, "  retries        {}", figures.retries_in_words())?;
        if !client_bound {
            write_waiting(f, &figures)?;
        }
        for (how, rank) in [("slowest", &figures.slowest_rank), ("fastest", &figures.fastest_rank)]
        {
            if let Some(rank) = rank {
                let epochs = figures.epochs_finished;
                writeln!(
                    f,
                    "  {how} rank   {}, {how} in {} of {epochs} epochs",
                    rank, rank.epochs
                )?;
            }
        }
        if figures.per_node.len() > 1 {
            writeln!(f, "  nodes          {}", figures.nodes_in_words())?;
        }
        Ok(())
    }
}

/// What the accelerators waited for.
fn write_waiting(f: &mut fmt::Formatter<'_>, figures: &RunFigures) -> fmt::Result {
    writeln!(f, "  waited for     {}", figures.verdict_in_words())?;
    match figures.waits_in_words() {
        Some(waits) => writeln!(f, "                 {waits}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::units::Seconds;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_saved_run_is_read_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        for report in [fixtures::known_delays(), fixtures::two_nodes()] {
            report.save(folder.path()).unwrap();
            assert_eq!(RunReport::load(folder.path()).unwrap(), report);
        }
    }

    #[test]
    fn a_run_without_the_node_of_rank_0_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let mut json = serde_json::to_value(fixtures::two_nodes()).unwrap();
        json["nodes"][0]["ranks"] = serde_json::json!([2]);
        std::fs::write(folder.path().join(FILE_NAME), json.to_string()).unwrap();
        let error = RunReport::load(folder.path()).unwrap_err();
        assert!(matches!(error, ReportError::Parse { .. }), "{error}");
    }

    #[test]
    fn the_text_of_a_run() {
        insta::assert_snapshot!(fixtures::known_delays());
    }

    #[test]
    fn what_limits_the_client_is_said_before_all_figures() {
        let mut report = fixtures::known_delays();
        let line = |report: &RunReport| {
            let text = report.to_string();
            text.lines().position(|line| line.starts_with("  waited for ")).unwrap()
        };
        assert!(line(&report) > 5);
        report.record.waiting_cpu.cpu = Seconds(1.9);
        assert_eq!(line(&report), 1);
    }

    #[test]
    fn the_text_of_a_run_on_two_nodes() {
        insta::assert_snapshot!(fixtures::two_nodes());
    }

    #[test]
    fn the_text_of_a_run_that_cannot_be_measured() {
        insta::assert_snapshot!(fixtures::one_step());
    }

    #[test]
    fn the_text_of_a_run_with_an_evaluation_in_a_folder() {
        let mut report = fixtures::evaluated(2, 2);
        report.workload.compat = feedrate_workload::Compat::Mlcommons;
        report.workload.workflow.checkpoint = true;
        report.store = Store::folder("/data/t0");
        report.record.cache_drops.dropped = 2;
        insta::assert_snapshot!(report);
    }

    #[test]
    fn a_run_of_an_earlier_form_is_refused_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), r#"{"format_version": 1}"#).unwrap();
        let error = RunReport::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("has format version 1, this program reads version 2"), "{error}");
    }
}
