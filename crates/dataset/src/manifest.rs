//! What a set was made with, kept beside it, so that a run that is configured for other data says so
//! before it reads a byte.
//!
//! A data folder may hold several sets: one to train on, one to evaluate on, others of other sizes. The
//! manifest has an entry for each, known by what its files are called. It is a convenience: sets without
//! one are read as they are.

use feedrate_storage::{Cause, ObjectKey, Store, StoreError};
use feedrate_workload::{Dataset, Format, Split};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Layout;

/// The manifest's name below the data folder.
const NAME: &str = ".feedrate-dataset.json";

/// What this version writes, and the most that it reads.
const VERSION: u32 = 1;

/// Keys whose values do not change what is read: only who verifies the bytes needs them to agree.
const CONTENT_ONLY: [&str; 6] = [
    "seed",
    "compressibility",
    "dedup_ratio",
    "compression_level",
    "parquet.row_group_size",
    "parquet.generation_batch_size",
];

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not what this program writes.
    #[error(
        "{key} at {location} is no manifest that this version reads ({why}): remove it, or generate the \
         data set again"
    )]
    Malformed {
        /// The manifest.
        key: ObjectKey,
        /// Where it is.
        location: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ManifestError {
    /// Whether the store does not let it be read.
    pub fn is_forbidden(&self) -> bool {
        let Self::Store(error) = self else { return false };
        matches!(*error.cause, Cause::Status { status: 403, .. })
    }
}

/// The manifest of a data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    sets: Vec<MadeSet>,
}

/// How a set was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadeSet {
    split: Split,
    /// What its first file is called: prefix, total, suffix, subfolder.
    first_file: String,
    files: u64,
    /// Bytes of its files together, as far as they are known without making them.
    bytes: u64,
    made_by: String,
    /// The settings of `dataset.*` that its content follows from, by key.
    settings: Map<String, Value>,
}

/// A setting that has another value now.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The key below `dataset.`.
    pub key: String,
    /// The value that the set was made with.
    pub made: Value,
    /// The value that is configured.
    pub configured: Value,
}

impl Difference {
    /// Whether the files are other files for a reader, and not just for who verifies their bytes.
    pub fn matters(&self) -> bool {
        !CONTENT_ONLY.contains(&self.key.as_str())
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, made, configured } = self;
        write!(f, "dataset.{key}: {made} stored, {configured} configured")
    }
}

impl Default for Manifest {
    fn default() -> Self {
        Self { version: VERSION, sets: Vec::new() }
    }
}

impl Manifest {
    /// Reads the manifest of the data folder at `prefix` in `store`; `None` if there is none.
    pub async fn read(store: &dyn Store, prefix: &str) -> Result<Option<Self>, ManifestError> {
        let key = key(prefix);
        let mut bytes = Vec::new();
        match store.get(&key, None, &mut bytes).await {
            Ok(_) => {}
            Err(error) if matches!(*error.cause, Cause::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let malformed = |why: String| {
            let (key, location) = (key.clone(), store.location());
            ManifestError::Malformed { key, location, why }
        };
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        if manifest.version > VERSION {
            return Err(malformed(format!("it has version {}", manifest.version)));
        }
        Ok(Some(manifest))
    }

    /// As [`read`](Self::read), for who writes it anew: one that is not there, or that nobody can read, says
    /// nothing.
    pub async fn read_to_write(store: &dyn Store, prefix: &str) -> Result<Self, ManifestError> {
        match Self::read(store, prefix).await {
            Ok(found) => Ok(found.unwrap_or_default()),
            Err(ManifestError::Malformed { .. }) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes it to the data folder at `prefix` in `store`; one without sets is removed.
    pub async fn write(&self, store: &dyn Store, prefix: &str) -> Result<(), ManifestError> {
        let key = key(prefix);
        if self.sets.is_empty() {
            return Ok(store.delete(&key).await?);
        }
        let mut text = serde_json::to_string_pretty(self).expect("maps with text keys are JSON");
        text.push('\n');
        Ok(store.put(&key, text.into()).await?)
    }

    /// How the set of `layout` was made, if that is known.
    pub fn find(&self, layout: &Layout, split: Split) -> Option<&MadeSet> {
        let first = layout.path(0);
        self.sets.iter().find(|set| set.split == split && set.first_file == first)
    }

    /// Notes that the set of `layout` was made as `dataset` says, with `bytes` in all.
    pub fn note(&mut self, dataset: &Dataset, layout: &Layout, split: Split, bytes: u64) {
        self.forget(layout, split);
        self.sets.push(MadeSet {
            split,
            first_file: layout.path(0),
            files: layout.total(),
            bytes,
            made_by: concat!("feedrate ", env!("CARGO_PKG_VERSION")).to_owned(),
            settings: settings(dataset, split),
        });
    }

    /// Takes out what is noted of the set of `layout`. Tells whether there was anything.
    pub fn forget(&mut self, layout: &Layout, split: Split) -> bool {
        let first = layout.path(0);
        let before = self.sets.len();
        self.sets.retain(|set| set.split != split || set.first_file != first);
        self.sets.len() < before
    }
}

impl MadeSet {
    /// Where the set differs from what `dataset` says now.
    pub fn differences(&self, dataset: &Dataset) -> Vec<Difference> {
        let configured = settings(dataset, self.split);
        // What only one side names belongs to another format, or is newer than the manifest.
        let both = self.settings.iter().filter_map(|(key, made)| {
            let configured = configured.get(key)?.clone();
            Some(Difference { key: key.clone(), made: made.clone(), configured })
        });
        both.filter(|difference| difference.made != difference.configured).collect()
    }
}

fn key(prefix: &str) -> ObjectKey {
    match prefix.trim_matches('/') {
        "" => ObjectKey::new(NAME),
        prefix => ObjectKey::new(format!("{prefix}/{NAME}")),
    }
}

/// The settings that the content of a set follows from: those that its format has.
fn settings(dataset: &Dataset, split: Split) -> Map<String, Value> {
    let mut settings = Map::new();
    let mut set = |key: &str, value: Value| settings.insert(key.to_owned(), value);
    set("format", json!(dataset.format));
    set("num_samples_per_file", json!(dataset.num_samples_per_file));
    if dataset.format != Format::Parquet || dataset.parquet.columns.is_empty() {
        set("record_length_bytes", json!(dataset.record_length_bytes));
        set("record_length_bytes_stdev", json!(dataset.record_length_bytes_stdev));
        set("record_dims", json!(dataset.record_dims));
        set("record_element_type", json!(dataset.record_element_type));
        set("exact_size", json!(dataset.exact_size));
    }
    set("compression", json!(dataset.compression));
    set("compression_level", json!(dataset.compression_level));
    match dataset.format {
        Format::Hdf5 => {
            set("hdf5.num_dset_per_record", json!(dataset.hdf5.num_dset_per_record));
            set("hdf5.chunk_dims", json!(dataset.hdf5.chunk_dims));
            set("hdf5.max_shape", json!(dataset.hdf5.max_shape));
        }
        Format::Parquet => {
            set("parquet.columns", json!(dataset.parquet.columns));
            set("parquet.row_group_size", json!(dataset.parquet.row_group_size));
            set("parquet.generation_batch_size", json!(dataset.parquet.generation_batch_size));
            set("parquet.partition_by", json!(dataset.parquet.partition_by));
        }
        _ => {}
    }
    // Drawn behind those of the set to train on.
    if split == Split::Valid && dataset.record_length_bytes_stdev > 0.0 {
        set("num_files_train", json!(dataset.num_files_train));
    }
    set("seed", json!(dataset.seed));
    set("compressibility", json!(dataset.compressibility));
    set("dedup_ratio", json!(dataset.dedup_ratio));
    settings
}

#[cfg(test)]
mod tests {
    use feedrate_storage::MemoryStore;

    use super::*;
    use crate::testing::dataset;

    fn layout(set: &Dataset, split: Split) -> Layout {
        Layout::new(set, split, "data", set.files(split))
    }

    #[tokio::test]
    async fn a_manifest_is_read_as_it_was_written_and_gone_when_it_says_nothing() {
        let store = MemoryStore::new();
        assert_eq!(Manifest::read(&store, "data").await.unwrap(), None);
        let set = Dataset { num_files_eval: 2, ..dataset(Format::Npz, 4, 1000.5) };
        let mut manifest = Manifest::default();
        for split in [Split::Train, Split::Valid] {
            manifest.note(&set, &layout(&set, split), split, 4000);
        }
        manifest.write(&store, "data/").await.unwrap();
        let mut read = Manifest::read(&store, "/data").await.unwrap().unwrap();
        assert_eq!(read, manifest);
        for split in [Split::Train, Split::Valid] {
            let found = read.find(&layout(&set, split), split).unwrap();
            assert_eq!(found.differences(&set), []);
            assert!(read.forget(&layout(&set, split), split));
            assert!(!read.forget(&layout(&set, split), split));
        }
        read.write(&store, "data").await.unwrap();
        assert_eq!(Manifest::read(&store, "data").await.unwrap(), None);
    }

    #[test]
    fn each_setting_that_differs_is_told_with_both_values() {
        let set = Dataset { num_samples_per_file: 4, ..dataset(Format::Npz, 4, 1000.0) };
        let mut manifest = Manifest::default();
        manifest.note(&set, &layout(&set, Split::Train), Split::Train, 4000);
        let told = |other: &Dataset| {
            let made = manifest.find(&layout(other, Split::Train), Split::Train).unwrap();
            let differences = made.differences(other);
            let matters = differences.iter().any(Difference::matters);
            (differences.iter().map(ToString::to_string).collect::<Vec<_>>(), matters)
        };
        let other = Dataset { num_samples_per_file: 8, ..set.clone() };
        let text = "dataset.num_samples_per_file: 4 stored, 8 configured".to_owned();
        assert_eq!(told(&other), (vec![text], true));
        let other = Dataset { seed: 11, ..set.clone() };
        assert_eq!(
            told(&other),
            (vec!["dataset.seed: 10 stored, 11 configured".to_owned()], false)
        );
        // Another set of that folder.
        let larger = Dataset { num_files_train: 5, ..set };
        assert!(manifest.find(&layout(&larger, Split::Train), Split::Train).is_none());
    }

    #[tokio::test]
    async fn what_is_no_manifest_is_named() {
        let store = MemoryStore::new();
        for text in ["", "{}", "[1]", r#"{"version": 2, "sets": []}"#] {
            store.put(&key("data"), text.into()).await.unwrap();
            let error = Manifest::read(&store, "data").await.unwrap_err().to_string();
            assert!(error.starts_with("data/.feedrate-dataset.json at memory"), "{error}");
            let anew = Manifest::read_to_write(&store, "data").await.unwrap();
            assert_eq!(anew, Manifest::default());
        }
    }
}
