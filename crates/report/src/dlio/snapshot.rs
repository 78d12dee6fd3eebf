//! The configuration snapshot in the run's folder (spec/dlio.md 8.7): what was composed and which
//! overrides led to it. Secrets in it are masked.

use std::collections::BTreeMap;
use std::path::Path;

use feedrate_workload::names_secret;
use feedrate_workload::tree::{Entry, Node, Value};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::SNAPSHOT_FOLDER;
use crate::secrets::{MASK, mask_arguments, mask_url};
use crate::{ReportError, file};

/// Writes the snapshot of a run that Hydra has no part in, into the folder that wrappers of DLIO look
/// for, `dlio_config`; see [`write_snapshot`].
///
/// # Errors
/// As [`write_snapshot`].
pub fn write_own_snapshot(
    folder: &Path,
    config: &Node,
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
    write(&folder.join(SNAPSHOT_FOLDER), config, overrides, &hydra)
}

/// Writes `config.yaml` (`config` under the root key `workload`), `overrides.yaml` (the `overrides`
/// of the command line as typed, `++workload.reader.batch_size=4`) and `hydra.yaml` (the node `hydra`)
/// into the folder `subfolder` of the run's `folder`. Without a `subfolder` nothing is written, as
/// Hydra does for `hydra.output_subdir=null`.
///
/// # Errors
/// [`ReportError`] when a file cannot be written.
pub fn write_snapshot(
    folder: &Path,
    subfolder: Option<&str>,
    config: &Node,
    overrides: &[String],
    hydra: &Node,
) -> Result<(), ReportError> {
    let Some(subfolder) = subfolder else { return Ok(()) };
    write(&folder.join(subfolder), config, overrides, &Masked::new(hydra))
}

fn write(
    snapshot: &Path,
    config: &Node,
    overrides: &[String],
    hydra: &impl Serialize,
) -> Result<(), ReportError> {
    let config = BTreeMap::from([("workload", Masked::new(config))]);
    write_yaml(&snapshot.join("config.yaml"), &config)?;
    write_yaml(&snapshot.join("overrides.yaml"), &mask_arguments(overrides))?;
    write_yaml(&snapshot.join("hydra.yaml"), &BTreeMap::from([("hydra", hydra)]))
}

/// `node` as YAML, secrets masked.
///
/// # Errors
/// [`ReportError`] when it has no form in YAML.
pub fn yaml(node: &Node) -> Result<String, ReportError> {
    encode(&Masked::new(node)).map_err(ReportError::encode(Path::new("YAML")))
}

fn write_yaml(path: &Path, value: &impl Serialize) -> Result<(), ReportError> {
    let yaml = encode(value).map_err(ReportError::encode(path))?;
    file::write(path, yaml.as_bytes())
}

fn encode(value: &impl Serialize) -> Result<String, String> {
    // Folded scalars would break long overrides into lines.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| error.to_string())
}

/// A node as it is shown: [`MASK`] for every value under a name that speaks of a secret, at any depth,
/// and no user information in URLs.
struct Masked<'a> {
    node: &'a Node,
    /// Whether it stands under such a name.
    secret: bool,
}

impl<'a> Masked<'a> {
    fn new(node: &'a Node) -> Self {
        Self { node, secret: false }
    }

    fn named(entry: &'a Entry) -> (&'a str, Self) {
        (&entry.name, Self { node: &entry.node, secret: names_secret(&entry.name) })
    }
}

impl Serialize for Masked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.node.value {
            value if self.secret && *value != Value::Null => serializer.serialize_str(MASK),
            Value::Text(text) => serializer.serialize_str(&mask_url(text)),
            Value::Sequence(nodes) => serializer.collect_seq(nodes.iter().map(Masked::new)),
            Value::Mapping(mapping) => {
                serializer.collect_map(mapping.entries().iter().map(Masked::named))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use feedrate_workload::tree;

    use super::*;

    fn node(yaml: &str) -> Node {
        tree::yaml::read(&"t.yaml".into(), yaml).unwrap()
    }

    #[test]
    fn the_snapshot_keeps_order_types_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let config = node(
            "\
model: {name: t0, type: cnn}
workflow: {generate_data: no, train: yes}
dataset: {data_folder: data/t0, record_length_bytes: 65536}
reader: {file_shuffle: 'off'}
train: {computation_time: 1e-7, steps: [.inf, -.inf, .nan, 18446744073709551616, -9223372036854775809]}
storage:
  storage_options: {secret_access_key: hunter2, endpoint_url: 'http://me:hunter2@host:9000'}
  list: [{Password: hunter2, secret: {a: hunter2}, token: ~}, 'http://a,https://me:hunter2@b']
",
        );
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
            steps:
            - .inf
            - -.inf
            - .nan
            - 18446744073709551616
            - -9223372036854775809
          storage:
            storage_options:
              secret_access_key: "***"
              endpoint_url: http://***@host:9000
            list:
            - Password: "***"
              secret: "***"
              token: null
            - http://a,https://***@b
        "#);
        assert_eq!(read("overrides.yaml"), "- ++workload.dataset.num_files_train=16\n");
        let hydra = read("hydra.yaml");
        assert!(hydra.starts_with("hydra:\n"), "{hydra}");
    }

    #[test]
    fn secrets_of_the_node_hydra_are_masked() {
        let folder = tempfile::tempdir().unwrap();
        let hydra = node("{run: {dir: x}, a: [{api_token: hunter2}], b: 's3://me:hunter2@c'}");
        write_snapshot(folder.path(), Some(""), &node("{}"), &[], &hydra).unwrap();
        let written = fs::read_to_string(folder.path().join("hydra.yaml")).unwrap();
        assert!(written.contains("dir: x") && !written.contains("hunter2"), "{written}");
    }

    #[test]
    fn no_overrides_are_an_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        write_snapshot(folder.path(), Some(".hydra"), &node("{}"), &[], &node("{}")).unwrap();
        let path = folder.path().join(".hydra").join("overrides.yaml");
        assert_eq!(fs::read_to_string(path).unwrap(), "[]\n");
    }

    #[test]
    fn no_folder_for_it_is_no_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        write_snapshot(folder.path(), None, &node("{}"), &[], &node("{}")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
