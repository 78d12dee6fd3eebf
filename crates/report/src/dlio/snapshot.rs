//! The configuration snapshot in the run's folder (spec/dlio.md 8.7): what was composed and which
//! overrides led to it. Secrets in it are masked.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::SNAPSHOT_FOLDER;
use crate::secrets::{mask_arguments, mask_value};
use crate::{ReportError, file};

/// Writes the snapshot of a run that Hydra has no part in, into the folder that wrappers of DLIO look
/// for, `dlio_config`; see [`write_snapshot`].
///
/// # Errors
/// As [`write_snapshot`].
pub fn write_own_snapshot(
    folder: &Path,
    config: &impl Serialize,
    overrides: &[String],
    workload_name: &str,
) -> Result<(), ReportError> {
    let dir = folder.to_string_lossy();
    let hydra = json!({
        "run": {"dir": dir},
        "output_subdir": SNAPSHOT_FOLDER,
        "overrides": {"hydra": [], "task": mask_arguments(overrides)},
        "runtime": {"output_dir": dir, "choices": {"workload": workload_name}},
    });
    write_snapshot(folder, Some(SNAPSHOT_FOLDER), config, overrides, &hydra)
}

/// Writes `config.yaml` (`config` under the root key `workload`), `overrides.yaml` (the `overrides`
/// of the command line as typed, `++workload.reader.batch_size=4`) and `hydra.yaml` (the node `hydra`)
/// into the folder `subfolder` of the run's `folder`. Without a `subfolder` nothing is written, as
/// Hydra does for `hydra.output_subdir=null`.
///
/// # Errors
/// [`ReportError`] when a file cannot be written, or what is to be written has no form in JSON.
pub fn write_snapshot(
    folder: &Path,
    subfolder: Option<&str>,
    config: &impl Serialize,
    overrides: &[String],
    hydra: &impl Serialize,
) -> Result<(), ReportError> {
    let Some(subfolder) = subfolder else { return Ok(()) };
    let snapshot = folder.join(subfolder);
    write_yaml(&snapshot.join("config.yaml"), &BTreeMap::from([("workload", config)]))?;
    write_yaml(&snapshot.join("overrides.yaml"), &mask_arguments(overrides))?;
    write_yaml(&snapshot.join("hydra.yaml"), &BTreeMap::from([("hydra", hydra)]))
}

/// `value` as YAML, secrets masked.
///
/// # Errors
/// [`ReportError`] when it has no form in YAML.
pub fn yaml(value: &impl Serialize) -> Result<String, ReportError> {
    encode(value).map_err(ReportError::encode(Path::new("YAML")))
}

fn write_yaml(path: &Path, value: &impl Serialize) -> Result<(), ReportError> {
    let yaml = encode(value).map_err(ReportError::encode(path))?;
    file::write(path, yaml.as_bytes())
}

fn encode(value: &impl Serialize) -> Result<String, String> {
    let mut value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    mask_value(&mut value);
    // Folded scalars would break long overrides into lines.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&value, options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_snapshot_keeps_order_types_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "model": {"name": "t0", "type": "cnn"},
            "workflow": {"generate_data": false, "train": true},
            "dataset": {"data_folder": "data/t0", "record_length_bytes": 65536},
            "reader": {"file_shuffle": "off"},
            "train": {"computation_time": 0.000_000_1},
            "storage": {"storage_options": {"secret_access_key": "hunter2"}},
        });
        let overrides = ["++workload.dataset.num_files_train=16".to_owned()];
        write_own_snapshot(folder.path(), &config, &overrides, "t0.yaml").unwrap();
        let read = |name: &str| {
            fs::read_to_string(folder.path().join(SNAPSHOT_FOLDER).join(name)).unwrap()
        };
        insta::assert_snapshot!(read("config.yaml"), @r#"
        workload:
          model:
            name: t0
            type: cnn
          workflow:
            generate_data: false
            train: true
          dataset:
            data_folder: data/t0
            record_length_bytes: 65536
          reader:
            file_shuffle: "off"
          train:
            computation_time: 1.0e-7
          storage:
            storage_options:
              secret_access_key: "***"
        "#);
        assert_eq!(read("overrides.yaml"), "- ++workload.dataset.num_files_train=16\n");
        let hydra = read("hydra.yaml");
        assert!(hydra.starts_with("hydra:\n"), "{hydra}");
    }

    #[test]
    fn no_overrides_are_an_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        write_snapshot(folder.path(), Some(".hydra"), &json!({}), &[], &json!({})).unwrap();
        let path = folder.path().join(".hydra").join("overrides.yaml");
        assert_eq!(fs::read_to_string(path).unwrap(), "[]\n");
    }

    #[test]
    fn no_folder_for_it_is_no_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        write_snapshot(folder.path(), None, &json!({}), &[], &json!({})).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
