//! What the configuration snapshot of a run says (spec/dlio.md 8.7): `config.yaml`, with the
//! overrides of the command line in `overrides.yaml` before it.
//!
//! The snapshot is read without regard to what its other keys hold, so that the runs of any version
//! can be reported. Interpolations in it are unresolved; a key that holds one counts as absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use feedrate_metrics::units::MIB;
use serde_json::Value;

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

/// The two files.
#[derive(Debug, Default)]
struct Snapshot {
    config: Value,
    overrides: Value,
}

impl Snapshot {
    fn read(folder: &Path, warnings: &mut Vec<String>) -> Self {
        let mut read = |name: &str| {
            read_yaml(&folder.join(name)).unwrap_or_else(|problem| {
                warnings.push(problem);
                Value::Null
            })
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
            let workload = self.config.get("workload").unwrap_or(&self.config);
            match path.split('.').try_fold(workload, |value, key| value.get(key))? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            }
        };
        self.overridden(&format!("workload.{path}"))
            .or_else(written)
            .filter(|text| !text.trim().is_empty() && !text.contains("${"))
    }

    /// The value of the last override of `key`, such as `++workload.reader.batch_size=4`.
    fn overridden(&self, key: &str) -> Option<String> {
        let overrides = self.overrides.as_array()?.iter().rev().filter_map(Value::as_str);
        overrides
            .filter_map(|text| text.trim_start_matches('+').split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.trim_matches(['"', '\'']).to_owned())
    }
}

/// Reads a YAML file, or says what is wrong with it. The parser's own words may quote the file, which
/// may hold secrets, so only the place is told.
fn read_yaml(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    serde_saphyr::from_str(&text).map_err(|error| match error.location() {
        Some(place) => format!("{shown} is not YAML from line {} on", place.line()),
        None => format!("{shown} is not YAML"),
    })
}

/// A run's summary gives throughput in MiB/s as the one in samples/s times the length of a record
/// (spec/dlio.md 7.3), so the ratio of the two is that length.
fn record_length_of_summary(path: &Path) -> Option<f64> {
    let summary: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let metric = |key: &str| summary.get("metric")?.get(key)?.as_f64();
    let mib_per_second = metric("train_io_mean_MB_per_second")?;
    let samples_per_second = metric("train_throughput_mean_samples_per_second")?;
    let length = (mib_per_second / samples_per_second * MIB).round();
    (length.is_finite() && length > 0.0).then_some(length)
}
