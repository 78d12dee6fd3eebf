//! The result files of DLIO (spec/dlio.md 8.2 to 8.5 and 8.7): `summary.json`, `<rank>_output.json`,
//! `<rank>_per_epoch_stats.json` and the configuration snapshot. Key order, types and number forms
//! are DLIO's; what DLIO does not know stands in one object, `feedrate`, at the end of the summary.
//!
//! Where a figure cannot be known, DLIO's keys say 0.0, because their readers expect a number, and
//! the same figure under `feedrate` is null.

mod rank_files;
mod snapshot;
mod summary;

use std::path::Path;

use feedrate_metrics::record::RankEpoch;
use feedrate_metrics::units::GIB;
use serde::{Serialize, Serializer};

use crate::{ReportError, RunReport, file};

pub use snapshot::{write_snapshot, write_snapshot_into};

/// The name of the snapshot's folder in a run's folder, unless another one is asked for.
pub const SNAPSHOT_FOLDER: &str = "dlio_config";

/// Writes `summary.json` and the files of every rank into `folder`. Called after every epoch with
/// the record so far, so a run that fails later leaves what it had.
pub fn write_results(folder: &Path, report: &RunReport) -> Result<(), ReportError> {
    let figures = report.figures();
    for rank in 0..report.np {
        let epochs = epochs_of(report, rank);
        file::write_json(
            &folder.join(format!("{rank}_output.json")),
            &rank_files::Output::of(report, &epochs),
        )?;
        file::write_json(
            &folder.join(format!("{rank}_per_epoch_stats.json")),
            &rank_files::per_epoch_stats(&epochs),
        )?;
    }
    file::write_json(&folder.join("summary.json"), &summary::Summary::of(report, &figures))
}

/// The epochs of one rank with their numbers.
fn epochs_of(report: &RunReport, rank: u32) -> Vec<(u32, &RankEpoch)> {
    report
        .record
        .epochs
        .iter()
        .filter_map(|epoch| {
            let entry = epoch.ranks.iter().find(|entry| entry.rank == rank)?;
            Some((epoch.epoch, entry))
        })
        .collect()
}

/// Bytes of the samples that this host's ranks share, in GiB (spec/dlio.md 7.6).
fn data_size_gib(report: &RunReport) -> f64 {
    let dataset = &report.workload.dataset;
    let ranks_here = report.record.epochs.first().map_or(u64::from(report.np), |epoch| {
        epoch.ranks.iter().filter(|rank| rank.host == report.host.hostname).count() as u64
    });
    let samples = ranks_here * dataset.num_samples_per_file * dataset.num_files_train
        / u64::from(report.np.max(1));
    samples as f64 * report.workload.record_bytes() / GIB
}

/// 0 when the host's memory cannot hold its share of the data set, 1 when caches might serve it.
fn potential_caching(report: &RunReport) -> u8 {
    u8::from(report.host.memory.gib() > data_size_gib(report))
}

/// A JSON object whose keys come in the order of the pairs.
#[derive(Debug)]
struct Ordered<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl Ordered<String> {
    fn pairs(pairs: &[(String, String)]) -> Self {
        Self(pairs.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;
    use crate::fixtures;

    /// Writes the results of `report` and reads the file `name` of them.
    fn written(report: &RunReport, name: &str) -> Value {
        let folder = tempfile::tempdir().unwrap();
        write_results(folder.path(), report).unwrap();
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_summary_has_dlios_keys_in_dlios_order_and_ours_behind_them() {
        let summary = written(&fixtures::known_delays(), "summary.json");
        assert_eq!(
            keys(&summary),
            [
                "start",
                "num_accelerators",
                "num_hosts",
                "hostname",
                "metric",
                "num_files_train",
                "num_files_eval",
                "num_samples_per_file",
                "host_cpu_count",
                "host_processor_name",
                "potential_caching",
                "host_cpuinfo",
                "host_meminfo",
                "host_memory_GB",
                "data_size_per_host_GB",
                "epochs",
                "end",
                "feedrate",
            ]
        );
        assert_eq!(
            keys(&summary["metric"]),
            [
                "train_au_percentage",
                "train_au_mean_percentage",
                "train_au_meet_expectation",
                "train_au_stdev_percentage",
                "train_throughput_samples_per_second",
                "train_throughput_mean_samples_per_second",
                "train_throughput_stdev_samples_per_second",
                "train_io_mean_MB_per_second",
                "train_io_stdev_MB_per_second",
            ]
        );
    }

    #[test]
    fn the_summary_has_dlios_types_even_for_whole_numbers() {
        let summary = written(&fixtures::delays(0.125, 0.125, 11), "summary.json");
        for (pointer, text) in [
            ("/num_accelerators", "1"),
            ("/num_hosts", "1"),
            ("/hostname", "\"vm\""),
            ("/metric/train_au_percentage", "[50.0]"),
            ("/metric/train_au_mean_percentage", "50.0"),
            ("/metric/train_au_meet_expectation", "\"fail\""),
            ("/metric/train_throughput_mean_samples_per_second", "4.0"),
            ("/metric/train_io_mean_MB_per_second", "0.25"),
            ("/num_files_train", "11"),
            ("/num_files_eval", "0"),
            ("/host_cpu_count", "[2]"),
            ("/potential_caching", "[1]"),
            ("/host_memory_GB", "[24.0]"),
            ("/epochs", "1"),
        ] {
            let value = summary.pointer(pointer).unwrap();
            assert_eq!(value.to_string(), text, "{pointer}");
        }
        assert!(summary["data_size_per_host_GB"].is_f64());
        let stamp = summary["start"].as_str().unwrap();
        assert_eq!(stamp.len(), "2026-11-30T06:47:54.402453".len());
    }

    #[test]
    fn what_cannot_be_measured_is_zero_for_dlio_and_null_for_us() {
        let summary = written(&fixtures::one_step(), "summary.json");
        assert_eq!(summary["metric"]["train_au_percentage"].to_string(), "[0.0]");
        let throughput = &summary["metric"]["train_throughput_mean_samples_per_second"];
        assert_eq!(throughput.to_string(), "0.0");
        assert_eq!(summary["metric"]["train_au_meet_expectation"], "fail");
        let ours = &summary["feedrate"];
        assert_eq!(ours["not_measurable"], true);
        assert!(ours["au_percent_mean"].is_null() && ours["samples_per_second_mean"].is_null());
        let output = written(&fixtures::one_step(), "0_output.json");
        assert_eq!(output["1"]["au"]["block1"].to_string(), "0.0");
        assert_eq!(output["1"]["throughput"]["block1"].to_string(), "0.0");
    }

    #[test]
    fn a_rank_file_has_dlios_keys_types_and_order() {
        let report = fixtures::known_delays();
        let output = written(&report, "0_output.json");
        assert_eq!(
            keys(&output),
            [
                "host_memory_GB",
                "host_cpu_count",
                "host_processor_name",
                "potential_caching",
                "host_cpuinfo",
                "host_meminfo",
                "1",
                "hostname",
            ]
        );
        let epoch = &output["1"];
        let expected = ["load", "proc", "throughput", "au", "compute", "host_meminfo", "end"];
        assert_eq!(keys(epoch), expected);
        assert_eq!(epoch["load"]["block1"].as_array().unwrap().len(), 11);
        assert_eq!(epoch["proc"]["block1"][0].to_string(), "0.2");
        let au = epoch["au"]["block1"].as_f64().unwrap();
        assert!((au - 50.0).abs() < 1e-9 && epoch["au"]["block1"].is_f64());
        assert_eq!(output["host_cpu_count"].to_string(), "2");
        assert_eq!(output["host_memory_GB"].to_string(), "24.0");
        assert_eq!(output["potential_caching"].to_string(), "1");
    }

    #[test]
    fn durations_in_the_epoch_file_are_texts_with_two_decimals() {
        let stats = written(&fixtures::known_delays(), "0_per_epoch_stats.json");
        assert_eq!(keys(&stats["1"]), ["start", "block1", "end", "duration"]);
        assert_eq!(keys(&stats["1"]["block1"]), ["start", "end", "duration"]);
        assert_eq!(stats["1"]["block1"]["duration"], "2.20");
        assert_eq!(stats["1"]["duration"], "2.20");
    }

    #[test]
    fn every_rank_gets_its_own_files() {
        let report = fixtures::run(2, 2, 3);
        let folder = tempfile::tempdir().unwrap();
        write_results(folder.path(), &report).unwrap();
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "0_output.json",
                "0_per_epoch_stats.json",
                "1_output.json",
                "1_per_epoch_stats.json",
                "summary.json",
            ]
        );
        let second = written(&report, "1_output.json");
        assert!(second.get("1").is_some() && second.get("2").is_some());
    }

    /// The data set of a public v1.0 result (cases.md, golden check).
    #[test]
    fn the_golden_data_set_has_its_published_size() {
        let size = data_size_gib(&fixtures::golden());
        assert!((size - 3_822.909).abs() < 1e-3, "{size}");
        assert_eq!(potential_caching(&fixtures::golden()), 0);
    }

    #[test]
    fn ranks_on_two_hosts_are_two_hosts_and_share_the_data_set() {
        let mut report = fixtures::run(2, 1, 3);
        let whole = data_size_gib(&report);
        report.record.epochs[0].ranks[1].host = "other".to_owned();
        assert!((data_size_gib(&report) - whole / 2.0).abs() < 1e-12);
        assert_eq!(written(&report, "summary.json")["num_hosts"], 2);
    }
}
