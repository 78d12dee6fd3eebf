//! The configuration snapshot in the run's folder (spec/dlio.md 8.7): what was composed and which
//! overrides led to it. Secrets in it are masked.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::SNAPSHOT_FOLDER;
use crate::secrets::{mask_arguments, mask_value};
use crate::{ReportError, file};

/// Writes the snapshot into the folder that wrappers of DLIO look for, [`SNAPSHOT_FOLDER`]; see
/// [`write_snapshot_into`].
///
/// # Errors
/// As [`write_snapshot_into`].
pub fn write_snapshot(
    folder: &Path,
    config: &impl Serialize,
    overrides: &[String],
    workload_name: &str,
) -> Result<(), ReportError> {
    write_snapshot_into(folder, Some(SNAPSHOT_FOLDER), config, overrides, workload_name)
}

/// Writes `config.yaml` (`config` under the root key `workload`), `overrides.yaml` (the `overrides`
/// of the command line as typed, `++workload.reader.batch_size=4`) and `hydra.yaml` (name of the
/// workload, overrides, folders) into the folder `subfolder` of the run's `folder`. Without a
/// `subfolder` nothing is written, as Hydra does for `hydra.output_subdir=null`.
///
/// # Errors
/// [`ReportError`] when a file cannot be written, or `config` has no form in JSON.
pub fn write_snapshot_into(
    folder: &Path,
    subfolder: Option<&str>,
    config: &impl Serialize,
    overrides: &[String],
    workload_name: &str,
) -> Result<(), ReportError> {
    let Some(subfolder) = subfolder else { return Ok(()) };
    let snapshot = folder.join(subfolder);
    let path = snapshot.join("config.yaml");
    let mut config = serde_json::to_value(config).map_err(ReportError::encode(&path))?;
    mask_value(&mut config);
    write_yaml(&path, &json!({ "workload": config }))?;

    let overrides = Value::from(mask_arguments(overrides));
    write_yaml(&snapshot.join("overrides.yaml"), &overrides)?;
    let folder = folder.to_string_lossy();
    write_yaml(
        &snapshot.join("hydra.yaml"),
        &json!({"hydra": {
            "run": {"dir": folder},
            "output_subdir": subfolder,
            "overrides": {"hydra": [], "task": overrides},
            "runtime": {"output_dir": folder, "choices": {"workload": workload_name}},
        }}),
    )
}

fn write_yaml(path: &Path, value: &Value) -> Result<(), ReportError> {
    // Folded scalars would break long overrides into lines.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let yaml = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| ReportError::encode(path)(error.to_string()))?;
    file::write(path, yaml.as_bytes())
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
        write_snapshot(folder.path(), &config, &overrides, "t0.yaml").unwrap();
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
        write_snapshot_into(folder.path(), Some(".hydra"), &json!({}), &[], "t0").unwrap();
        let path = folder.path().join(".hydra").join("overrides.yaml");
        assert_eq!(fs::read_to_string(path).unwrap(), "[]\n");
    }

    #[test]
    fn no_folder_for_it_is_no_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        write_snapshot_into(folder.path(), None, &json!({}), &[], "t0").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
