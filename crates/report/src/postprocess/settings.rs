//! What the configuration snapshot of a run says (spec/dlio.md 8.7): `config.yaml`, with the
//! overrides of the command line in `overrides.yaml` before it.
//!
//! The snapshot is read without regard to what its other keys hold, so that the runs of any version
//! can be reported. Interpolations in it are unresolved; a key that holds one counts as absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use feedrate_metrics::units::MIB;
use feedrate_workload::tree::{self, Node, Value};

use crate::dlio::SNAPSHOT_FOLDER;

/// What a report needs to know of the configuration; `None` where nothing says it.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The model's name, or that of the workload.
    pub(super) name: Option<String>,
    /// Samples per training step and rank.
    pub(super) batch_size: Option<u64>,
    /// Samples per evaluation step and rank.
    pub(super) batch_size_eval: Option<u64>,
    /// Bytes of a sample.
    pub(super) record_length: Option<f64>,
    /// Epochs to train.
    pub(super) epochs: Option<u32>,
}

impl Settings {
    /// Reads `hydra_folder` of the run's folder `output`, or else our own snapshot there.
    pub(super) fn read(output: &Path, hydra_folder: &Path, warnings: &mut Vec<String>) -> Self {
        // Without the dot in the middle that joining `./.hydra` makes.
        let hydra_folder = output.join(hydra_folder).components().collect::<PathBuf>();
        let candidates = [hydra_folder, output.join(SNAPSHOT_FOLDER)];
        let snapshot = if let Some(folder) = candidates.iter().find(|path| path.is_dir()) {
            Snapshot::read(folder, warnings)
        } else {
            let [first, second] = candidates.map(|path| path.display().to_string());
            warnings.push(format!(
                "no configuration snapshot: neither {first} nor {second} is a folder; name it with \
                 --hydra-folder"
            ));
            Snapshot::default()
        };
        // Newest spelling first (spec/dlio.md 2.9).
        Self {
            name: snapshot
                .get::<String>(&["model.name", "model"])
                .or_else(|| snapshot.overridden("workload")),
            batch_size: snapshot.get(&["reader.batch_size", "data_reader.batch_size"]),
            batch_size_eval: snapshot
                .get(&["reader.batch_size_eval", "data_reader.batch_size_eval"]),
            record_length: snapshot
                .get(&["dataset.record_length_bytes", "dataset.record_length"])
                .filter(|length: &f64| length.is_finite() && *length > 0.0)
                .or_else(|| record_length_of_summary(&output.join("summary.json"))),
            epochs: snapshot.get(&["train.epochs"]),
        }
    }
}

/// The two files; `None` for one that cannot be read.
#[derive(Debug, Default)]
struct Snapshot {
    config: Option<Node>,
    overrides: Option<Node>,
}

impl Snapshot {
    fn read(folder: &Path, warnings: &mut Vec<String>) -> Self {
        let mut read = |name: &str| {
            read_yaml(&folder.join(name)).map_err(|problem| warnings.push(problem)).ok()
        };
        Self { config: read("config.yaml"), overrides: read("overrides.yaml") }
    }

    /// The scalar at the first of the dotted paths below `workload` that holds one.
    fn get<T: FromStr>(&self, paths: &[&str]) -> Option<T> {
        paths.iter().find_map(|path| self.text(path)?.trim().parse().ok())
    }

    /// The scalar at a dotted path below `workload`, as it is written.
    fn text(&self, path: &str) -> Option<String> {
        let written = || {
            let config = self.config.as_ref()?;
            match &config.get("workload").unwrap_or(config).get(path)?.value {
                Value::Text(text) => Some(text.clone()),
                Value::Int(number) => Some(number.to_string()),
                Value::Float(number) => Some(number.to_string()),
                _ => None,
            }
        };
        self.overridden(&format!("workload.{path}"))
            .or_else(written)
            .filter(|text| !text.trim().is_empty() && !text.contains("${"))
    }

    /// The value of the last override of `key`, such as `++workload.reader.batch_size=4`.
    fn overridden(&self, key: &str) -> Option<String> {
        let Value::Sequence(overrides) = &self.overrides.as_ref()?.value else { return None };
        overrides
            .iter()
            .rev()
            .filter_map(|node| match &node.value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .filter_map(|text| text.trim_start_matches('+').split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.trim_matches(['"', '\'']).to_owned())
    }
}

/// Reads a YAML file, or says what is wrong with it.
fn read_yaml(path: &Path) -> Result<Node, String> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    tree::yaml::read(&shown.into(), &text).map_err(|error| error.to_string())
}

/// A run's summary gives throughput in MiB/s as the one in samples/s times the length of a record
/// (spec/dlio.md 7.3), so the ratio of the two is that length.
fn record_length_of_summary(path: &Path) -> Option<f64> {
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let metric = |key: &str| summary.get("metric")?.get(key)?.as_f64();
    let mib_per_second = metric("train_io_mean_MB_per_second")?;
    let samples_per_second = metric("train_throughput_mean_samples_per_second")?;
    let length = (mib_per_second / samples_per_second * MIB).round();
    (length.is_finite() && length > 0.0).then_some(length)
}
