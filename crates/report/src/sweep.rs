//! A workload at several numbers of accelerators: the record `sweep.json`, and what is shown of it.

mod markdown;
mod tables;

use std::path::{Path, PathBuf};

use feedrate_metrics::record::Stamp;
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_workload::Workload;
use serde::{Deserialize, Serialize, Serializer};

use crate::{HostFacts, Origin, ReportError, RunFigures, RunReport, Store, file};

/// The record's name.
pub const FILE_NAME: &str = "sweep.json";
/// The name of the page for people.
pub const PAGE_NAME: &str = "report.md";
/// The name of the table for programs.
pub const TABLE_NAME: &str = "sweep.tsv";
/// The form of the record that this program writes and reads.
const FORMAT_VERSION: u32 = 2;

/// A sweep as it is saved; grows by a run at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    format_version: u32,
    /// `model.name`.
    pub model: String,
    /// Files of the data set.
    pub files: u64,
    /// Epochs of every run, as asked.
    pub epochs: u32,
    /// Nominal bytes of a sample.
    #[serde(serialize_with = "whole_if_possible")]
    pub record_length_bytes: f64,
    /// When it started.
    pub start: Stamp,
    /// Program and command.
    pub origin: Origin,
    /// The host and the store.
    pub environment: Environment,
    /// What was asked.
    pub workload: Workload,
    /// By number of accelerators, ascending.
    pub runs: Vec<SweepRun>,
}

/// Where a sweep ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the host; of several, that of rank 0.
    pub hostname: String,
    /// Its CPUs.
    pub logical_cpus: u32,
    /// Their model.
    pub cpu_model: String,
    /// Whether they compute SHA-256 in hardware.
    pub sha_extensions: bool,
    /// Its memory.
    pub memory_bytes: ByteCount,
    /// The names of all hosts that the runs' ranks were on, each once; empty when every run was on one
    /// node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What was read from.
    pub store: Store,
}

/// What the starter of a run's process measured of it from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFacts {
    /// From starting the process to its exit.
    pub wall: Option<Seconds>,
    /// CPU time that the embedded server used meanwhile; `None` with any other store.
    pub server_cpu: Option<Seconds>,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRun {
    /// Simulated accelerators.
    pub np: u32,
    /// What was computed from the run's record.
    #[serde(flatten)]
    pub figures: RunFigures,
    /// From starting the run's process to its exit.
    pub wall_seconds: Option<Seconds>,
    /// samples/s ÷ NP against that of the smallest NP.
    pub scaling_efficiency_percent: Option<f64>,
    /// CPU time of the embedded server during the run.
    pub server_cpu_seconds: Option<Seconds>,
    /// Why the run ended early; its figures cover the epochs it finished.
    pub failed: Option<String>,
    /// The run's folder, from the sweep's.
    pub folder: String,
}

impl SweepRun {
    /// A run that came to its end. `folder` is relative to the sweep's.
    pub fn finished(report: &RunReport, folder: impl Into<String>, facts: ProcessFacts) -> Self {
        Self {
            np: report.np(),
            figures: report.figures(),
            wall_seconds: facts.wall,
            scaling_efficiency_percent: None,
            server_cpu_seconds: facts.server_cpu,
            failed: None,
            folder: folder.into(),
        }
    }

    /// A run that ended early for the reason `why`, with the `report` it left, if it left one.
    pub fn failed(
        np: u32,
        report: Option<&RunReport>,
        folder: impl Into<String>,
        facts: ProcessFacts,
        why: impl Into<String>,
    ) -> Self {
        Self {
            np,
            figures: report.map(RunReport::figures).unwrap_or_default(),
            wall_seconds: facts.wall,
            scaling_efficiency_percent: None,
            server_cpu_seconds: facts.server_cpu,
            failed: Some(why.into()),
            folder: folder.into(),
        }
    }

    /// DLIO's throughput of one accelerator.
    fn samples_per_second_each(&self) -> Option<f64> {
        Some(self.figures.samples_per_second_mean? / f64::from(self.np))
    }
}

impl Sweep {
    /// A sweep that has no runs yet.
    pub fn new(
        start: Stamp,
        origin: Origin,
        workload: Workload,
        host: &HostFacts,
        store: Store,
    ) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            model: workload.model.name.clone(),
            files: workload.dataset.num_files_train,
            epochs: workload.train.epochs,
            record_length_bytes: workload.record_bytes(),
            start,
            origin,
            environment: Environment {
                hostname: host.hostname.clone(),
                logical_cpus: host.logical_cpus,
                cpu_model: host.cpu_model.clone(),
                sha_extensions: host.sha_extensions,
                memory_bytes: host.memory,
                hosts: Vec::new(),
                store,
            },
            workload,
            runs: Vec::new(),
        }
    }

    /// A single run as a sweep of one, so that both are shown by the same page.
    pub(crate) fn of_run(report: &RunReport) -> Self {
        let RunReport { origin, workload, store, record, .. } = report;
        let (origin, workload, store) = (origin.clone(), workload.clone(), store.clone());
        let mut sweep = Self::new(record.start, origin, workload, report.host(), store);
        let facts = ProcessFacts { wall: Some(record.process.age), server_cpu: None };
        sweep.add(SweepRun::finished(report, "", facts));
        sweep
    }

    /// The run at `np` accelerators.
    pub fn run(&self, np: u32) -> Option<&SweepRun> {
        self.runs.iter().find(|run| run.np == np)
    }

    /// Adds a run, computes the scaling of all again and names the hosts if there are several.
    pub fn add(&mut self, run: SweepRun) {
        self.runs.push(run);
        self.runs.sort_by_key(|run| run.np);
        let base = self.runs.iter().find_map(SweepRun::samples_per_second_each);
        for run in &mut self.runs {
            run.scaling_efficiency_percent =
                run.samples_per_second_each().zip(base).map(|(each, base)| 100.0 * each / base);
        }
        self.environment.hosts = self.hosts();
    }

    fn hosts(&self) -> Vec<String> {
        let nodes = || self.runs.iter().map(|run| &run.figures.per_node);
        let mut hosts: Vec<String> = Vec::new();
        if nodes().any(|nodes| nodes.len() > 1) {
            for node in nodes().flatten() {
                if !hosts.contains(&node.host) {
                    hosts.push(node.host.clone());
                }
            }
        }
        hosts
    }

    /// Whether every run reached the target: `None` as long as one is unknown and none missed it.
    pub fn target_met(&self) -> Option<bool> {
        let met = || self.runs.iter().map(|run| run.figures.au_met);
        if met().any(|met| met == Some(false)) {
            return Some(false);
        }
        met().collect::<Option<Vec<bool>>>().filter(|all| !all.is_empty()).map(|_| true)
    }

    /// Writes `sweep.json`, `sweep.tsv` and `report.md` into `folder`.
    pub fn save(&self, folder: &Path) -> Result<(), ReportError> {
        file::write_json(&folder.join(FILE_NAME), self)?;
        self.save_tables(folder)?;
        Ok(())
    }

    /// Writes `sweep.tsv` and `report.md` into `folder` and returns the page's path.
    pub fn save_tables(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        file::write(&folder.join(TABLE_NAME), self.to_tsv().as_bytes())?;
        let page = folder.join(PAGE_NAME);
        file::write(&page, self.to_markdown(folder).as_bytes())?;
        Ok(page)
    }

    /// Reads `sweep.json` from `folder`.
    pub fn load(folder: &Path) -> Result<Self, ReportError> {
        file::read_record(&folder.join(FILE_NAME), FORMAT_VERSION)
    }
}

/// A length in bytes is a whole number in almost every workload, and readers expect one then.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn whole_if_possible<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && (0.0..9e15).contains(value) {
        serializer.serialize_u64(*value as u64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixtures;

    #[test]
    fn the_record_has_the_agreed_keys() {
        let sweep = serde_json::to_value(fixtures::sweep()).unwrap();
        for key in ["model", "files", "epochs", "record_length_bytes", "runs"] {
            assert!(sweep.get(key).is_some(), "{key}");
        }
        assert_eq!(sweep["record_length_bytes"].to_string(), "322957");
        let run = sweep["runs"][2].as_object().unwrap();
        for key in [
            "np",
            "au_percent_mean",
            "au_percent_stdev",
            "au_percent_per_epoch",
            "wall_au_percent_mean",
            "samples_per_second_mean",
            "samples_per_second_stdev",
            "io_mib_per_second_mean",
            "wall_seconds",
            "au_met",
            "scaling_efficiency_percent",
            "client_cpu_seconds",
            "client_cpu_seconds_per_gib",
            "client_peak_rss_bytes",
            "server_cpu_seconds",
            "get_latency_ms",
            "get_first_byte_ms",
            "bytes_read",
            "gets",
            "retries",
            "verdict",
        ] {
            assert!(run.get(key).is_some_and(|value| !value.is_null()), "{key}");
        }
        for key in ["get_latency_ms", "get_first_byte_ms"] {
            let names: Vec<&String> = run[key].as_object().unwrap().keys().collect();
            assert_eq!(names, ["p50", "p90", "p99", "max"]);
        }
        assert_eq!(run["verdict"], "storage-bound");
        assert_eq!(run["retries"], 3);
        assert_eq!(run["au_percent_per_epoch"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_saved_sweep_is_read_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut sweep = fixtures::sweep();
        sweep.add(SweepRun::failed(8, None, "NP8", ProcessFacts::default(), "GET img failed"));
        sweep.save(folder.path()).unwrap();
        assert_eq!(Sweep::load(folder.path()).unwrap(), sweep);
    }

    #[test]
    fn efficiency_is_against_the_smallest_np_in_whatever_order_runs_come() {
        let mut sweep = fixtures::sweep();
        let mut runs = std::mem::take(&mut sweep.runs);
        runs.reverse();
        for run in runs {
            sweep.add(run);
        }
        let order: Vec<u32> = sweep.runs.iter().map(|run| run.np).collect();
        assert_eq!(order, [1, 2, 4]);
        assert_eq!(sweep.runs[0].scaling_efficiency_percent, Some(100.0));
        let at_two = sweep.runs[1].scaling_efficiency_percent.unwrap();
        let expected = 100.0 * sweep.runs[1].figures.samples_per_second_mean.unwrap()
            / 2.0
            / sweep.runs[0].figures.samples_per_second_mean.unwrap();
        assert!((at_two - expected).abs() < 1e-9 && at_two < 100.0, "{at_two}");
    }

    #[test]
    fn several_hosts_are_named_each_once() {
        let mut sweep = fixtures::sweep();
        assert_eq!(sweep.environment.hosts, [""; 0]);
        for np in [8, 3] {
            let run = SweepRun::finished(&fixtures::two_nodes(), "", ProcessFacts::default());
            sweep.add(SweepRun { np, ..run });
        }
        assert_eq!(sweep.environment.hosts, ["vm", "a", "b"]);
    }

    #[test]
    fn a_run_that_left_nothing_is_null_throughout() {
        let mut sweep = fixtures::sweep();
        sweep.add(SweepRun::failed(8, None, "NP8", ProcessFacts::default(), "no route"));
        let json = serde_json::to_value(&sweep).unwrap();
        let run = &json["runs"][3];
        assert_eq!(run["failed"], "no route");
        for key in ["au_percent_mean", "bytes_read", "gets", "nodes", "verdict", "wall_seconds"] {
            assert_eq!(run[key], Value::Null, "{key}");
        }
        assert_eq!(sweep.target_met(), None);
    }

    #[test]
    fn the_target_is_met_only_by_all_runs() {
        let mut sweep = fixtures::sweep();
        assert_eq!(sweep.target_met(), Some(true));
        sweep.runs[1].figures.au_met = Some(false);
        assert_eq!(sweep.target_met(), Some(false));
        sweep.runs.clear();
        assert_eq!(sweep.target_met(), None);
    }
}
