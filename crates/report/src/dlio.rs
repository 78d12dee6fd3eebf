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

use crate::{NodeFacts, ReportError, RunReport, file};

pub use snapshot::{write_own_snapshot, write_snapshot, yaml};

/// The name of the snapshot's folder in a run's folder, unless another one is asked for.
pub(crate) const SNAPSHOT_FOLDER: &str = "dlio_config";

/// Writes `summary.json` and the files of every rank into `folder`. Called after every epoch with
/// the record so far, so a run that fails later leaves what it had.
pub fn write_results(folder: &Path, report: &RunReport) -> Result<(), ReportError> {
    let figures = report.figures();
    for rank in 0..report.np() {
        let epochs = epochs_of(report, rank);
        file::write_json(
            &folder.join(format!("{rank}_output.json")),
            &rank_files::Output::of(report, rank, &epochs),
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

/// Bytes of the samples that the ranks on `node` share, in GiB (spec/dlio.md 7.6).
fn data_size_gib(report: &RunReport, node: &NodeFacts) -> f64 {
    let dataset = &report.workload.dataset;
    let ranks_here = node.ranks.len() as u64;
    let samples = ranks_here * dataset.num_samples_per_file * dataset.num_files_train
        / u64::from(report.np().max(1));
    samples as f64 * report.workload.record_bytes() / GIB
}

/// 0 when the node's memory cannot hold its share of the data set, 1 when caches might serve it.
fn potential_caching(report: &RunReport, node: &NodeFacts) -> u8 {
    u8::from(node.host.memory.gib() > data_size_gib(report, node))
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

    use feedrate_workload::Compat;
    use serde_json::Value;

    use super::*;
    use crate::{ConfiguredValue, fixtures};

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

    /// The kind of a JSON value, whole numbers apart from those with a decimal point.
    fn kind(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "float",
            Value::Number(_) => "int",
            Value::String(_) => "text",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        }
    }

    /// Asserts that `ours` has the keys of `theirs` in the same order, with values of the same kinds,
    /// at every level. Lists may differ in length, not in the kind of their elements.
    fn assert_same_form(ours: &Value, theirs: &Value, path: &str) {
        assert_eq!(kind(ours), kind(theirs), "{path}");
        match (ours, theirs) {
            (Value::Object(our_entries), Value::Object(their_entries)) => {
                assert_eq!(keys(ours), keys(theirs), "{path}");
                for (key, theirs) in their_entries {
                    assert_same_form(&our_entries[key], theirs, &format!("{path}/{key}"));
                }
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                assert!(!ours.is_empty(), "{path}");
                for value in ours {
                    assert_same_form(value, &theirs[0], &format!("{path}[]"));
                }
            }
            _ => {}
        }
    }

    /// Result files of a run of DLIO on two ranks over two epochs, with the first entries of long
    /// lists and of `/proc` files.
    #[test]
    fn the_files_have_the_form_of_a_run_of_dlio() {
        let report = fixtures::run(2, 2, 3);
        for (name, theirs) in [
            ("summary.json", include_str!("../tests/fixtures/dlio/summary.json")),
            ("0_output.json", include_str!("../tests/fixtures/dlio/0_output.json")),
            (
                "0_per_epoch_stats.json",
                include_str!("../tests/fixtures/dlio/0_per_epoch_stats.json"),
            ),
        ] {
            let mut ours = written(&report, name);
            if name == "summary.json" {
                assert_eq!(keys(&ours).last(), Some(&"feedrate"));
                ours.as_object_mut().unwrap().shift_remove("feedrate");
            }
            assert_same_form(&ours, &serde_json::from_str(theirs).unwrap(), name);
        }
    }

    #[test]
    fn an_evaluation_has_the_keys_of_training_behind_them() {
        let report = fixtures::evaluated(2, 2);
        let summary = written(&report, "summary.json");
        let metric = keys(&summary["metric"]);
        let (train, eval) = metric.split_at(9);
        let of_train = train.iter().map(|key| key.strip_prefix("train_").unwrap());
        let of_eval = eval.iter().map(|key| key.strip_prefix("eval_").unwrap());
        assert_eq!(of_train.collect::<Vec<_>>(), of_eval.collect::<Vec<_>>());
        assert_eq!(summary["num_files_eval"], 20);
        let figure = |key: &str| summary["metric"][key].as_f64().unwrap();
        assert!((figure("eval_au_mean_percentage") - 50.0).abs() < 1e-9);
        assert!((figure("eval_throughput_mean_samples_per_second") - 20.0).abs() < 1e-9);
        assert!((figure("eval_io_mean_MB_per_second") - 1.25).abs() < 1e-9);
        assert_eq!(summary["metric"]["eval_au_percentage"].as_array().unwrap().len(), 2);
        assert_eq!(summary["feedrate"]["evaluation"]["steps"], 5);

        let output = written(&report, "1_output.json");
        for key in ["load", "proc", "throughput", "au", "compute"] {
            assert_eq!(keys(&output["1"][key]), ["block1", "eval"], "{key}");
        }
        assert_eq!(output["2"]["proc"]["eval"].as_array().unwrap().len(), 5);
        assert!((output["2"]["throughput"]["eval"].as_f64().unwrap() - 10.0).abs() < 1e-9);
        let stats = written(&report, "1_per_epoch_stats.json");
        assert_eq!(keys(&stats["2"]), ["start", "block1", "eval", "end", "duration"]);
        assert_eq!(stats["2"]["eval"]["duration"], "1.00");
        assert_eq!(stats["2"]["duration"], "2.20");
    }

    /// The lists of ranks one behind the other, each AU a share of the ranks (spec/dlio.md D13).
    #[test]
    fn dlios_lists_of_evaluations_are_there_for_those_who_compare_with_it() {
        let mut report = fixtures::evaluated(2, 2);
        report.workload.compat = Compat::Mlcommons;
        let summary = written(&report, "summary.json");
        assert_eq!(summary["feedrate"]["compat"], "mlcommons");
        let metric = &summary["metric"];
        assert_eq!(metric["eval_au_percentage"].as_array().unwrap().len(), 4);
        assert_eq!(metric["eval_throughput_samples_per_second"].as_array().unwrap().len(), 4);
        assert!((metric["eval_au_mean_percentage"].as_f64().unwrap() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn an_epoch_ends_behind_its_evaluation() {
        let mut report = fixtures::evaluated(1, 1);
        let over = "2026-05-12T18:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let rank = &mut report.record.epochs[0].ranks[0];
        rank.over = serde_json::from_value(over.to_string().into()).unwrap();
        let expected = Value::from(rank.over.dlio());
        assert_eq!(written(&report, "0_output.json")["1"]["end"], expected);
        assert_eq!(written(&report, "0_per_epoch_stats.json")["1"]["end"], expected);
    }

    #[test]
    fn what_is_ours_says_how_the_run_was_set_up_and_what_was_left_out() {
        let mut report = fixtures::known_delays();
        report.workload.workflow.checkpoint = true;
        report.record.cache_drops.not_dropped = Some("no permission".to_owned());
        report.configuration = vec![ConfiguredValue {
            key: "reader.batch_size".to_owned(),
            value: "1".to_owned(),
            origin: "t0.yaml:7:15".to_owned(),
        }];
        let ours = &written(&report, "summary.json")["feedrate"];
        assert_eq!(ours["checkpoint"], "skipped");
        assert_eq!(ours["cache_drops"]["not_dropped"], "no permission");
        assert_eq!(ours["compat"], "none");
        assert_eq!(ours["configuration"][0]["origin"], "t0.yaml:7:15");
        assert_eq!(ours["read_threads"], report.workload.reader.read_threads);
        assert_eq!(ours["evaluation"], Value::Null);
        let other = &written(&fixtures::known_delays(), "summary.json")["feedrate"];
        assert_eq!(other.get("checkpoint"), None);
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

    /// A public v1.0 result (cases.md, golden check), read from the stored summary. Its samples/s are
    /// those of all steps over the block's time, which is our wall clock; 5,560.36 MiB/s are 39.77104
    /// samples/s, and the published block times are rounded to 10 ms.
    #[test]
    fn a_stored_summary_has_the_golden_results_published_figures() {
        let summary = written(&fixtures::golden(), "summary.json");
        for (pointer, published, error) in [
            ("/data_size_per_host_GB", 3_822.909, 5e-4),
            ("/metric/train_au_mean_percentage", 92.3514, 5e-5),
            ("/metric/train_au_stdev_percentage", 0.1356, 5e-5),
            ("/feedrate/wall_samples_per_second_mean", 39.771_04, 5e-3),
            ("/feedrate/wall_mib_per_second_mean", 5_560.36, 0.7),
        ] {
            let value = summary.pointer(pointer).and_then(Value::as_f64).unwrap();
            assert!((value - published).abs() < error, "{pointer}: {value}");
        }
        assert_eq!(summary["metric"]["train_au_meet_expectation"], "success");
        assert_eq!(summary["potential_caching"][0], 0);
    }

    #[test]
    fn each_node_has_the_share_of_its_ranks_wherever_they_are() {
        let report = fixtures::two_nodes();
        let summary = written(&report, "summary.json");
        for (key, text) in [
            ("num_accelerators", "3"),
            ("num_hosts", "2"),
            ("hostname", "\"a\""),
            ("host_cpu_count", "[2,4]"),
            ("host_memory_GB", "[24.0,0.0625]"),
            // 720 files of 322,957 bytes: 148 MiB for two ranks, 74 MiB for one.
            ("potential_caching", "[1,0]"),
        ] {
            assert_eq!(summary[key].to_string(), text, "{key}");
        }
        let share = 480.0 * 322_957.0 / GIB;
        let told = summary["data_size_per_host_GB"].as_f64().unwrap();
        assert!((told - share).abs() < 1e-12, "{told} is not {share}");
    }

    #[test]
    fn memory_counts_against_the_ranks_that_are_really_on_the_node() {
        let caching = |placement: [&[u32]; 2]| {
            let mut report = fixtures::two_nodes();
            let mut nodes: Vec<NodeFacts> = report.nodes.clone().into();
            for (node, ranks) in nodes.iter_mut().zip(placement) {
                node.host.memory = feedrate_metrics::units::ByteCount(100 << 20);
                node.ranks = ranks.to_vec();
            }
            report.nodes = nodes.try_into().unwrap();
            written(&report, "summary.json")["potential_caching"].to_string()
        };
        assert_eq!(caching([&[0, 2], &[1]]), "[0,1]");
        assert_eq!(caching([&[0], &[1, 2]]), "[1,0]");
    }

    #[test]
    fn a_rank_file_has_the_facts_of_its_own_node() {
        let report = fixtures::two_nodes();
        let a =
            ["a", "2", "24.0", "1", "Intel(R) Xeon(R) Processor", "GenuineIntel", "25165824 kB"];
        let b = ["b", "4", "0.0625", "0", "Neoverse-N1", "ARM", "65536 kB"];
        for (rank, expected) in [a, b, a].into_iter().enumerate() {
            let output = written(&report, &format!("{rank}_output.json"));
            let facts = [
                "/hostname",
                "/host_cpu_count",
                "/host_memory_GB",
                "/potential_caching",
                "/host_processor_name",
                "/host_cpuinfo/vendor_id",
                "/host_meminfo/MemTotal",
            ];
            let told = facts.map(|fact| output.pointer(fact).unwrap().to_string());
            assert_eq!(told.each_ref().map(|told| told.trim_matches('"')), expected, "rank {rank}");
        }
    }
}
