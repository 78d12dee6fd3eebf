//! Where the files of a set lie: names by arithmetic.
//!
//! A name holds its index and the number of files of the set it was generated in
//! (`img_0017_of_6000.jpeg`). A run may use fewer files than are stored: the stored total only has
//! to be in the name. With subfolders the files are dealt out to them in turn; where Parquet files are
//! partitioned by a column, the folders are the partitions.

use std::fmt::Write;

use feedrate_storage::ObjectKey;
use feedrate_workload::{Compression, Dataset, Format, Split};
use serde::{Deserialize, Serialize};

use crate::Side;

/// Names of a set's files (spec/dlio.md 3.1):
/// `[prefix/]{train|valid}/[{subfolder}/]{file_prefix}_{index}_of_{total}.{suffix}`, the index padded
/// with zeros to the digits of the total. With more than one subfolder, file i is in the one with the
/// number i mod count, padded to the digits of the count: 10 of them are `00` to `09`. With
/// `dataset.parquet.partition_by` it is in `{column}={number}/`, the number as it is, also when there is
/// but one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    format: Format,
    folder: String,
    /// Fewer than two are none.
    subfolders: u64,
    /// The column whose value names the folders.
    partition_by: Option<String>,
    file_prefix: String,
    total: u64,
    /// The suffix of the names, and others that stored files may have instead.
    suffixes: Vec<String>,
}

impl Layout {
    /// The layout of a set that was generated with `stored_total` files, below `prefix` in its store
    /// (empty when the store's root is the data folder). Where keys are whole URIs, the prefix is one
    /// (`s3://bucket/data`; spec/dlio.md D32).
    pub fn new(dataset: &Dataset, split: Split, prefix: &str, stored_total: u64) -> Self {
        let folder = match prefix.trim_matches('/') {
            "" => split.folder().to_owned(),
            prefix => format!("{prefix}/{}", split.folder()),
        };
        Self {
            format: dataset.format,
            folder,
            subfolders: dataset.subfolders(split),
            partition_by: dataset.parquet.partition_by.clone(),
            file_prefix: dataset.file_prefix.clone(),
            total: stored_total,
            suffixes: suffixes(dataset),
        }
    }

    /// The same set as it is stored elsewhere: with another total, and perhaps another of the suffixes
    /// that a [`Name`] knows.
    pub(crate) fn stored_as(&self, total: u64, suffix: usize) -> Self {
        let mut layout = Self { total, ..self.clone() };
        layout.suffixes.swap(0, suffix);
        layout
    }

    /// The key of the file with index `file`.
    pub fn key(&self, file: u64) -> ObjectKey {
        let mut key = String::with_capacity(self.folder.len() + 1 + self.longest_path());
        key.push_str(&self.folder);
        key.push('/');
        self.write_path(file, &mut key);
        ObjectKey::new(key)
    }

    /// The key of the file that stands beside the file with index `file` (spec/dlio.md 3.2).
    pub(crate) fn side_key(&self, file: u64, side: Side) -> ObjectKey {
        let key = match side {
            Side::Offsets => format!("{}.off.idx", self.key(file)),
            Side::Sizes => format!("{}.sz.idx", self.key(file)),
            Side::Records => {
                let (parent, split) =
                    self.folder.rsplit_once('/').unwrap_or(("", self.folder.as_str()));
                let parent = if parent.is_empty() { String::new() } else { format!("{parent}/") };
                // Without subfolders.
                let mut key = format!("{parent}index/{split}/");
                self.write_name(file, &mut key);
                key + ".idx"
            }
        };
        ObjectKey::new(key)
    }

    /// The index of the file of `key`, if it is one of this very set.
    pub(crate) fn index_of(&self, key: &ObjectKey) -> Option<u64> {
        let path = key.as_str().strip_prefix(self.folder.as_str())?.strip_prefix('/')?;
        let name = self.parse(path)?;
        let own = name.total == self.total && name.suffix == 0 && self.is_in_place(&name);
        own.then_some(name.index)
    }

    /// The keys of the file with index `file` and of those that stand beside it.
    pub(crate) fn keys(&self, file: u64) -> impl Iterator<Item = ObjectKey> {
        let sides = Side::of(self.format).iter().map(move |&side| self.side_key(file, side));
        std::iter::once(self.key(file)).chain(sides)
    }

    /// The folder that holds the files, without a slash at its end: the prefix to list.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The folders that files are in, those beside others included.
    pub(crate) fn folders(&self) -> impl Iterator<Item = String> {
        // The first files are dealt out one to each.
        (0..self.total.min(self.subfolders.max(1))).flat_map(|file| {
            let folder = |key: ObjectKey| Some(key.as_str().rsplit_once('/')?.0.to_owned());
            let folders: std::collections::BTreeSet<_> =
                self.keys(file).filter_map(folder).collect();
            folders
        })
    }

    /// The number of files that the set was generated with, which is part of every name.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The suffix of the names, without its dot.
    pub(crate) fn suffix(&self) -> &str {
        &self.suffixes[0]
    }

    /// Where a file is below the set's folder.
    pub(crate) fn path(&self, file: u64) -> String {
        let mut path = String::with_capacity(self.longest_path());
        self.write_path(file, &mut path);
        path
    }

    /// Room for what [`write_path`](Self::write_path) writes.
    fn longest_path(&self) -> usize {
        const NUMBERS_AND_SIGNS: usize = 3 * 20 + 8;
        let column = self.partition_by.as_ref().map_or(0, String::len);
        self.file_prefix.len() + self.suffix().len() + column + NUMBERS_AND_SIGNS
    }

    /// Writes where a file is below the set's folder to the end of `into`: once for each read, so nothing
    /// is put together elsewhere.
    fn write_path(&self, file: u64, into: &mut String) {
        let folders = self.subfolders.max(1);
        let number = file % folders;
        // Writing to a string never fails.
        let _ = match &self.partition_by {
            Some(column) => write!(into, "{column}={number}/"),
            None if folders == 1 => Ok(()),
            None => write!(into, "{number:0width$}/", width = digits(folders)),
        };
        self.write_name(file, into);
    }

    /// Writes the name of a file in its folder.
    fn write_name(&self, file: u64, into: &mut String) {
        let Self { file_prefix, total, .. } = self;
        let width = digits(*total);
        let _ = write!(into, "{file_prefix}_{file:0width$}_of_{total}.{}", self.suffix());
    }

    /// Reads where a file lies below the set's folder, and its name as one of this layout's, whatever
    /// its total and its subfolder.
    pub(crate) fn parse(&self, path: &str) -> Option<Name> {
        let (subfolder, name) = match path.split_once('/') {
            None => (None, path),
            Some((subfolder, name)) => {
                let text = match &self.partition_by {
                    None => subfolder,
                    Some(column) => subfolder.strip_prefix(column.as_str())?.strip_prefix('=')?,
                };
                (Some(Subfolder { number: number(text)?, width: text.len() }), name)
            }
        };
        let (suffix, stem) = (0..).zip(&self.suffixes).find_map(|(place, suffix)| {
            Some((place, name.strip_suffix(suffix.as_str())?.strip_suffix('.')?))
        })?;
        let numbers = stem.strip_prefix(&self.file_prefix)?.strip_prefix('_')?;
        let (index, total) = numbers.split_once("_of_")?;
        let (index_value, total_value) = (number(index)?, number(total)?);
        // What `path` would not write, a read would not find.
        let canonical = index.len() == total.len()
            && total.len() == digits(total_value)
            && index_value < total_value;
        let name = Name { index: index_value, total: total_value, suffix, subfolder };
        canonical.then_some(name)
    }

    /// Whether the file of `name` is in the subfolder where this layout has it.
    pub(crate) fn is_in_place(&self, name: &Name) -> bool {
        let folders = self.subfolders.max(1);
        let number = name.index % folders;
        let width = match self.partition_by {
            Some(_) => Some(digits(number)),
            None => (folders > 1).then(|| digits(folders)),
        };
        name.subfolder == width.map(|width| Subfolder { number, width })
    }
}

/// The suffixes that files of a set may have: the one that it is made with, that of a compressed CSV
/// without the compression's as DLIO names it (spec/dlio.md D16), and both in upper case, as some tools
/// write them.
fn suffixes(dataset: &Dataset) -> Vec<String> {
    let plain = dataset.format.suffix();
    let packed = match dataset.compression {
        Compression::Gzip => Some("gz"),
        Compression::Bz2 => Some("bz2"),
        Compression::Zip => Some("zip"),
        Compression::Xz => Some("xz"),
        _ => None,
    };
    let packed = packed.filter(|_| dataset.format == Format::Csv);
    let packed = packed.map(|packed| format!("{plain}.{packed}"));
    let lower: Vec<String> = packed.into_iter().chain([plain.to_owned()]).collect();
    let upper: Vec<String> = lower.iter().map(|suffix| suffix.to_ascii_uppercase()).collect();
    [lower, upper].concat()
}

/// Decimal digits of `number`.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What a file's path below its set's folder says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) index: u64,
    pub(crate) total: u64,
    /// Which of the layout's suffixes it has; 0 is its own.
    pub(crate) suffix: usize,
    pub(crate) subfolder: Option<Subfolder>,
}

/// A subfolder's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subfolder {
    pub(crate) number: u64,
    /// How many digits the number is written with.
    pub(crate) width: usize,
}

#[cfg(test)]
mod tests {
    use feedrate_workload::Format;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::dataset;

    fn layout(format: Format, total: u64, subfolders: u64, prefix: &str) -> Layout {
        let set = Dataset { num_subfolders_train: subfolders, ..dataset(format, total, 1000.0) };
        Layout::new(&set, Split::Train, prefix, total)
    }

    #[test]
    fn names_are_those_of_the_specifications_examples() {
        let key = |format, total, subfolders, prefix: &str, file| {
            layout(format, total, subfolders, prefix).key(file).to_string()
        };
        let unet3d = |file| key(Format::Npz, 168, 0, "data/unet3d", file);
        assert_eq!(unet3d(0), "data/unet3d/train/img_000_of_168.npz");
        assert_eq!(unet3d(167), "data/unet3d/train/img_167_of_168.npz");
        assert_eq!(key(Format::Npz, 168, 0, "/data/unet3d/", 7), unet3d(7));
        assert_eq!(
            key(Format::Npz, 168, 0, "s3://mlp/data/unet3d", 0),
            "s3://mlp/data/unet3d/train/img_000_of_168.npz"
        );
        assert_eq!(key(Format::Npy, 10, 10, "", 3), "train/03/img_03_of_10.npy");

        let default = Dataset {
            num_subfolders_train: 2,
            num_subfolders_eval: 2,
            num_files_eval: 8,
            ..dataset(Format::Tfrecord, 64, 4096.0)
        };
        let train = Layout::new(&default, Split::Train, "data/default", 64);
        let valid = Layout::new(&default, Split::Valid, "data/default", 8);
        assert_eq!(train.key(0).as_str(), "data/default/train/0/img_00_of_64.tfrecord");
        assert_eq!(train.key(1).as_str(), "data/default/train/1/img_01_of_64.tfrecord");
        assert_eq!(valid.key(0).as_str(), "data/default/valid/0/img_0_of_8.tfrecord");
        assert_eq!(valid.folder(), "data/default/valid");
    }

    #[test]
    fn an_index_is_as_wide_as_the_total_and_a_subfolder_as_the_count() {
        let path = |total, subfolders, file| layout(Format::Npz, total, subfolders, "").path(file);
        assert_eq!(path(10, 0, 0), "img_00_of_10.npz");
        assert_eq!(path(10, 0, 9), "img_09_of_10.npz");
        assert_eq!(path(9, 0, 8), "img_8_of_9.npz");
        assert_eq!(path(1, 0, 0), "img_0_of_1.npz");
        // 12 files in 10 subfolders: two in each of the first two.
        assert_eq!(path(12, 10, 3), "03/img_03_of_12.npz");
        assert_eq!(path(12, 10, 11), "01/img_11_of_12.npz");
        assert_eq!(path(12, 2, 11), "1/img_11_of_12.npz");
        assert_eq!(path(1000, 100, 999), "099/img_0999_of_1000.npz");
        // One is none.
        assert_eq!(path(12, 1, 0), "img_00_of_12.npz");
        assert_eq!(path(12, 0, 0), "img_00_of_12.npz");
    }

    #[test]
    fn every_format_is_its_suffix() {
        let suffixes = [
            (Format::Npz, "npz"),
            (Format::Npy, "npy"),
            (Format::Hdf5, "hdf5"),
            (Format::Csv, "csv"),
            (Format::Jpeg, "jpeg"),
            (Format::Png, "png"),
            (Format::Tfrecord, "tfrecord"),
            (Format::IndexedBinary, "indexed_binary"),
            (Format::MmapIndexedBinary, "mmap_indexed_binary"),
            (Format::Parquet, "parquet"),
            (Format::Synthetic, "synthetic"),
        ];
        for (format, suffix) in suffixes {
            assert_eq!(layout(format, 4, 0, "").path(3), format!("img_3_of_4.{suffix}"));
        }
    }

    #[test]
    fn a_compressed_csv_says_so_and_dlios_does_not() {
        let set = Dataset { compression: Compression::Gzip, ..dataset(Format::Csv, 4, 64.0) };
        let layout = Layout::new(&set, Split::Train, "", 4);
        assert_eq!(layout.path(3), "img_3_of_4.csv.gz");
        for (name, suffix) in [
            ("img_3_of_4.csv.gz", Some(0)),
            ("img_3_of_4.csv", Some(1)),
            ("img_3_of_4.CSV", Some(3)),
            ("img_3_of_4.gz", None),
        ] {
            let parsed = layout.parse(name);
            assert_eq!(parsed.map(|name| name.suffix), suffix, "{name}");
            if let Some(suffix) = suffix {
                assert_eq!(layout.stored_as(4, suffix).path(3), name);
            }
        }
    }

    #[test]
    fn partitions_are_folders_named_by_their_column() {
        let mut set = dataset(Format::Parquet, 12, 64.0);
        set.parquet.partition_by = Some("day".to_owned());
        let one = Layout::new(&set, Split::Train, "data", 12);
        assert_eq!(one.key(7).as_str(), "data/train/day=0/img_07_of_12.parquet");
        set.num_subfolders_train = 11;
        let several = Layout::new(&set, Split::Train, "data", 12);
        assert_eq!(several.key(10).as_str(), "data/train/day=10/img_10_of_12.parquet");
        for file in 0..12 {
            for layout in [&one, &several] {
                assert_eq!(layout.index_of(&layout.key(file)), Some(file));
            }
        }
        assert!(several.parse("3/img_03_of_12.parquet").is_none());
        assert!(several.parse("day=x/img_03_of_12.parquet").is_none());
    }

    #[test]
    fn files_beside_files_have_the_names_of_the_original() {
        let layout = |format| layout(format, 12, 10, "data/t0");
        let key = |format, side| layout(format).side_key(3, side).to_string();
        let binary = Format::IndexedBinary;
        let file = "data/t0/train/03/img_03_of_12.indexed_binary";
        assert_eq!(key(binary, Side::Offsets), format!("{file}.off.idx"));
        assert_eq!(key(binary, Side::Sizes), format!("{file}.sz.idx"));
        let records = key(Format::Tfrecord, Side::Records);
        assert_eq!(records, "data/t0/index/train/img_03_of_12.tfrecord.idx");
        for format in [binary, Format::Tfrecord] {
            for &side in Side::of(format) {
                assert_eq!(layout(format).index_of(&layout(format).side_key(3, side)), None);
            }
        }
    }

    #[test]
    fn only_exact_names_belong_to_the_set() {
        let layout = layout(Format::Npz, 12, 0, "");
        let parsed = |path| layout.parse(path).map(|name| (name.index, name.total, name.suffix));
        assert_eq!(parsed("img_07_of_12.npz"), Some((7, 12, 0)));
        assert_eq!(parsed("img_07_of_12.NPZ"), Some((7, 12, 1)));
        assert_eq!(parsed("img_099_of_100.npz"), Some((99, 100, 0)));
        assert_eq!(parsed("07/img_07_of_12.npz"), Some((7, 12, 0)));
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
            "test/img_07_of_12.npz",
            "0/7/img_07_of_12.npz",
            "/img_07_of_12.npz",
            "part_07_of_12.npz",
            "img_07_of_12.jpeg",
            "img__of_.npz",
            "img_99999999999999999999_of_99999999999999999999.npz",
            "",
        ] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_layout_reads_what_it_writes(
            total in 1_u64..100_000, subfolders in 0_u64..2_000, part in 0.0..1.0,
        ) {
            let layout = layout(Format::Npz, total, subfolders, "data");
            let file = (part * total as f64) as u64;
            let name = layout.parse(&layout.path(file)).expect("its own name");
            prop_assert_eq!((name.index, name.total, name.suffix), (file, total, 0));
            prop_assert!(layout.is_in_place(&name));
        }
    }
}
