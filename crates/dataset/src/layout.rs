//! Where the files of a set lie: names by arithmetic, and one listing that checks them.
//!
//! A name holds its index and the number of files of the set it was generated in
//! (`img_0017_of_6000.jpeg`). A run may use fewer files than are stored: the stored total only has
//! to be in the name, so discovery reads it from there.

use std::collections::BTreeMap;

use feedrate_storage::{Listed, ObjectKey, Store, StoreError};
use feedrate_workload::Dataset;

/// The folder of the training set.
pub(crate) const TRAIN: &str = "train";

/// Names of a training set's files (spec/dlio.md 3.1, flat):
/// `[prefix/]train/{file_prefix}_{index}_of_{total}.{suffix}`, the index padded with zeros to the
/// digits of the total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    folder: String,
    file_prefix: String,
    total: u64,
    suffix: String,
}

impl Layout {
    /// The layout of a set that was generated with `stored_total` files, below `prefix` in its store
    /// (empty when the store's root is the data folder).
    pub fn new(dataset: &Dataset, prefix: &str, stored_total: u64) -> Self {
        let folder = match prefix.trim_matches('/') {
            "" => TRAIN.to_owned(),
            prefix => format!("{prefix}/{TRAIN}"),
        };
        Self {
            folder,
            file_prefix: dataset.file_prefix.clone(),
            total: stored_total,
            suffix: dataset.format.suffix().to_owned(),
        }
    }

    /// The key of the file with index `file`.
    pub fn key(&self, file: u64) -> ObjectKey {
        ObjectKey::new(format!("{}/{}", self.folder, self.name(file)))
    }

    /// The folder that holds the files, without a slash at its end: the prefix to list.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The number of files that the set was generated with, which is part of every name.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn name(&self, file: u64) -> String {
        let Self { file_prefix, total, suffix, .. } = self;
        let width = digits(*total);
        format!("{file_prefix}_{file:0width$}_of_{total}.{suffix}")
    }

    /// Reads a file's name as one of this layout's, whatever its total.
    fn parse_name(&self, name: &str) -> Option<Name> {
        let (stem, suffix) = name.rsplit_once('.')?;
        let upper = match suffix {
            _ if suffix == self.suffix => false,
            _ if suffix == self.suffix.to_uppercase() => true,
            _ => return None,
        };
        let numbers = stem.strip_prefix(&self.file_prefix)?.strip_prefix('_')?;
        let (index, total) = numbers.split_once("_of_")?;
        let as_number = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
        };
        let (index_value, total_value) = (as_number(index)?, as_number(total)?);
        // What `name` would not write, a read would not find.
        let canonical = index.len() == total.len()
            && total.len() == digits(total_value)
            && index_value < total_value;
        canonical.then_some(Name { index: index_value, total: total_value, upper })
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// What a file's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    index: u64,
    total: u64,
    /// The suffix is in upper case, as some tools write it.
    upper: bool,
}

/// What a store holds of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The names under which the files are stored.
    pub layout: Layout,
    /// Bytes of the files that the workload uses, together.
    pub bytes: u64,
}

/// Why a stored set cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The listing itself failed.
    #[error(transparent)]
    List(#[from] StoreError),
    /// No file of the set is there.
    #[error(
        "0 of {configured} files found: no {wanted} in {searched}{}. Generate the data set, or correct \
         dataset.data_folder, dataset.file_prefix or dataset.format",
        other.as_ref().map(|name| format!(" (but others, such as {name})")).unwrap_or_default()
    )]
    Nothing {
        /// `dataset.num_files_train`
        configured: u64,
        /// The name of the first file wanted.
        wanted: String,
        /// Folder and store.
        searched: String,
        /// The name of some other file that lies there.
        other: Option<String>,
    },
    /// Some of the files are there.
    #[error(
        "{found} of {configured} files found in {searched}; the first one missing is {missing}. \
         Generate the data set again, or lower dataset.num_files_train"
    )]
    TooFew {
        /// Files of the set that are there.
        found: u64,
        /// `dataset.num_files_train`
        configured: u64,
        /// Folder and store.
        searched: String,
        /// The name of the first file that is not.
        missing: String,
    },
    /// Files of several sets are there, none of them whole.
    #[error(
        "no complete set of {configured} files in {searched}, only parts of several: {parts}. \
         Remove them and generate the data set again, or lower dataset.num_files_train"
    )]
    Mixed {
        /// `dataset.num_files_train`
        configured: u64,
        /// Folder and store.
        searched: String,
        /// How many files of which total.
        parts: String,
    },
}

/// Finds the set that `dataset` describes below `prefix` in `store`, by one listing of its folder:
/// any stored total of at least `num_files_train` will do if the first files of it are all there.
/// Of several such totals the smallest is taken, so a set of exactly the configured size wins.
///
/// Memory: one bit per configured file and set found.
pub async fn discover(
    store: &dyn Store,
    dataset: &Dataset,
    prefix: &str,
) -> Result<Stored, DiscoverError> {
    let layout = Layout::new(dataset, prefix, dataset.num_files_train);
    let mut census = Census { layout: &layout, sets: BTreeMap::new(), other: None };
    store
        .list(layout.folder(), &mut |page| page.iter().for_each(|file| census.count(file)))
        .await?;
    census.judge(&store.location())
}

/// The listed files, by the set that they belong to.
struct Census<'a> {
    /// The layout wanted; its total is the configured number of files.
    layout: &'a Layout,
    /// By total, and lower before upper case suffix.
    sets: BTreeMap<(u64, bool), Part>,
    other: Option<String>,
}

/// The files of one set among the first `num_files_train`.
#[derive(Default)]
struct Part {
    seen: Vec<u64>,
    found: u64,
    bytes: u64,
}

impl Part {
    fn add(&mut self, index: u64, size: u64) {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.found += 1;
            self.bytes += size;
        }
    }

    fn first_missing(&self) -> u64 {
        let full = self.seen.iter().take_while(|&&word| word == u64::MAX).count();
        let ones = self.seen.get(full).map_or(0, |word| word.trailing_ones());
        full as u64 * 64 + u64::from(ones)
    }
}

impl Census<'_> {
    fn count(&mut self, file: &Listed) {
        let inside = file.key.as_str().strip_prefix(self.layout.folder());
        let Some(name) = inside.and_then(|rest| rest.strip_prefix('/')) else { return };
        match self.layout.parse_name(name) {
            Some(Name { index, total, upper }) if index < self.layout.total => {
                self.sets.entry((total, upper)).or_default().add(index, file.size);
            }
            None if self.other.is_none() => self.other = Some(name.to_owned()),
            Some(_) | None => {}
        }
    }

    fn judge(self, location: &str) -> Result<Stored, DiscoverError> {
        let configured = self.layout.total;
        let searched = format!("{}/ of {location}", self.layout.folder());
        let layout = |(total, upper): (u64, bool)| {
            let mut layout = Layout { total, ..self.layout.clone() };
            if upper {
                layout.suffix = layout.suffix.to_uppercase();
            }
            layout
        };
        if let Some((&set, part)) = self.sets.iter().find(|(_, part)| part.found == configured) {
            return Ok(Stored { layout: layout(set), bytes: part.bytes });
        }
        let mut sets = self.sets.iter();
        match (sets.next(), sets.next()) {
            (None, _) => Err(DiscoverError::Nothing {
                configured,
                wanted: self.layout.name(0),
                searched,
                other: self.other,
            }),
            (Some((&set, part)), None) => Err(DiscoverError::TooFew {
                found: part.found,
                configured,
                searched,
                missing: layout((set.0.max(configured), set.1)).name(part.first_missing()),
            }),
            _ => {
                let part = |(&(total, upper), part): (&(u64, bool), &Part)| {
                    let suffix = layout((total, upper)).suffix;
                    format!("{} of _of_{total}.{suffix}", part.found)
                };
                let parts: Vec<String> = self.sets.iter().map(part).collect();
                Err(DiscoverError::Mixed { configured, searched, parts: parts.join(", ") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use bytes::Bytes;
    use feedrate_storage::MemoryStore;
    use feedrate_workload::Format;

    use super::*;
    use crate::testing::dataset;

    /// What is discovered in a store of files with these names, each of 100 bytes.
    fn discovered(
        configured: u64,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Stored, DiscoverError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            for name in names {
                let key = ObjectKey::new(format!("data/t0/train/{name}"));
                store.put(&key, Bytes::from_static(&[0; 100])).await.unwrap();
            }
            discover(&store, &dataset(Format::Npz, configured, 1000.0), "data/t0").await
        })
    }

    fn names(total: u64, indices: Range<u64>) -> impl Iterator<Item = String> {
        let layout = Layout::new(&dataset(Format::Npz, total, 1000.0), "", total);
        indices.map(move |index| layout.name(index))
    }

    #[test]
    fn names_are_padded_to_the_digits_of_the_total() {
        let key = |format, total, prefix: &str, file| {
            Layout::new(&dataset(format, total, 1000.0), prefix, total).key(file).to_string()
        };
        assert_eq!(key(Format::Npz, 168, "data/unet3d", 0), "data/unet3d/train/img_000_of_168.npz");
        assert_eq!(
            key(Format::Npz, 168, "/data/unet3d/", 167),
            "data/unet3d/train/img_167_of_168.npz"
        );
        assert_eq!(key(Format::Npz, 10, "", 9), "train/img_09_of_10.npz");
        assert_eq!(key(Format::Jpeg, 9, "", 8), "train/img_8_of_9.jpeg");
        assert_eq!(key(Format::Jpeg, 1, "", 0), "train/img_0_of_1.jpeg");
    }

    #[test]
    fn only_exact_names_belong_to_the_set() {
        let layout = Layout::new(&dataset(Format::Npz, 12, 1000.0), "", 12);
        let parsed =
            |name| layout.parse_name(name).map(|name| (name.index, name.total, name.upper));
        assert_eq!(parsed("img_07_of_12.npz"), Some((7, 12, false)));
        assert_eq!(parsed("img_07_of_12.NPZ"), Some((7, 12, true)));
        assert_eq!(parsed("img_099_of_100.npz"), Some((99, 100, false)));
        for name in [
            "x_npz",
            "img_07_of_12npz",
            "img_07_of_12.Npz",
            "img_07_of_12.npz.part",
            "img_7_of_12.npz",
            "img_007_of_12.npz",
            "img_12_of_12.npz",
            "img_07_of_012.npz",
            "img_+7_of_12.npz",
            "img_0_of_0.npz",
            "0/img_07_of_12.npz",
            "part_07_of_12.npz",
            "img_07_of_12.jpeg",
            "img__of_.npz",
            "img_99999999999999999999_of_99999999999999999999.npz",
            "",
        ] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }

    #[test]
    fn a_larger_set_lends_its_first_files() {
        let stored = discovered(10, names(100, 0..100)).unwrap();
        assert_eq!(stored.layout.total(), 100);
        assert_eq!(stored.layout.key(9).as_str(), "data/t0/train/img_009_of_100.npz");
        assert_eq!(stored.bytes, 10 * 100);
    }

    #[test]
    fn an_upper_case_suffix_is_kept_in_the_keys() {
        let stored = discovered(2, names(2, 0..2).map(|name| name.replace("npz", "NPZ"))).unwrap();
        assert_eq!(stored.layout.key(1).as_str(), "data/t0/train/img_1_of_2.NPZ");
    }

    #[test]
    fn of_several_sets_a_complete_one_is_taken() {
        let listed = names(10, 0..7).chain(names(20, 0..20)).chain(names(30, 0..30));
        assert_eq!(discovered(10, listed).unwrap().layout.total(), 20);
        let listed = names(20, 0..20).chain(names(10, 0..10));
        assert_eq!(discovered(10, listed).unwrap().layout.total(), 10);
    }

    #[test]
    fn a_file_listed_twice_counts_once() {
        let mut part = Part::default();
        for index in [0, 1, 0] {
            part.add(index, 100);
        }
        assert_eq!((part.found, part.bytes, part.first_missing()), (2, 200, 2));
    }

    #[test]
    fn too_few_files_name_both_numbers_the_place_and_the_first_one_missing() {
        let text = discovered(10, names(10, 0..7)).unwrap_err().to_string();
        for part in ["7 of 10 files", "data/t0/train/ of memory", "img_07_of_10.npz"] {
            assert!(text.contains(part), "{text}");
        }
        let text = discovered(10, names(7, 0..7)).unwrap_err().to_string();
        assert!(text.contains("7 of 10 files"), "{text}");
        let hole = names(200, 0..64).chain(names(200, 65..200));
        let text = discovered(100, hole).unwrap_err().to_string();
        assert!(text.contains("99 of 100 files") && text.contains("img_064_of_200.npz"), "{text}");
    }

    #[test]
    fn an_empty_folder_says_what_was_wanted_and_what_lies_there_instead() {
        let text = discovered(10, []).unwrap_err().to_string();
        assert!(text.contains("0 of 10 files") && text.contains("img_00_of_10.npz"), "{text}");
        let text = discovered(10, ["part_00_of_10.npz".to_owned()]).unwrap_err().to_string();
        assert!(text.contains("such as part_00_of_10.npz"), "{text}");
    }

    #[test]
    fn parts_of_several_sets_are_told_apart() {
        let text = discovered(10, names(10, 0..7).chain(names(20, 1..4))).unwrap_err().to_string();
        assert!(text.contains("7 of _of_10.npz, 3 of _of_20.npz"), "{text}");
    }
}
