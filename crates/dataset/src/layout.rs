//! Where the files of a set lie: names by arithmetic.
//!
//! A name holds its index and the number of files of the set it was generated in
//! (`img_0017_of_6000.jpeg`). A run may use fewer files than are stored: the stored total only has
//! to be in the name. With subfolders the files are dealt out to them in turn.

use feedrate_storage::ObjectKey;
use feedrate_workload::{Dataset, Split};
use serde::{Deserialize, Serialize};

/// Names of a set's files (spec/dlio.md 3.1):
/// `[prefix/]{train|valid}/[{subfolder}/]{file_prefix}_{index}_of_{total}.{suffix}`, the index padded
/// with zeros to the digits of the total. With more than one subfolder, file i is in the one with the
/// number i mod count, padded to the digits of the count: 10 of them are `00` to `09`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    folder: String,
    /// Fewer than two are none.
    subfolders: u64,
    file_prefix: String,
    total: u64,
    suffix: String,
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
            folder,
            subfolders: dataset.subfolders(split),
            file_prefix: dataset.file_prefix.clone(),
            total: stored_total,
            suffix: dataset.format.suffix().to_owned(),
        }
    }

    /// The same set as it is stored elsewhere: with another total, and perhaps a suffix in upper case.
    pub(crate) fn stored_as(&self, total: u64, upper: bool) -> Self {
        let mut layout = Self { total, ..self.clone() };
        if upper {
            layout.suffix.make_ascii_uppercase();
        }
        layout
    }

    /// The key of the file with index `file`.
    pub fn key(&self, file: u64) -> ObjectKey {
        ObjectKey::new(format!("{}/{}", self.folder, self.path(file)))
    }

    /// The folder that holds the files, without a slash at its end: the prefix to list.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The folders that the files themselves are in, each once.
    pub(crate) fn folders(&self) -> impl Iterator<Item = String> {
        // The first files are dealt out one to each.
        (0..self.total.min(self.subfolders.max(1))).filter_map(|file| {
            let key = self.key(file);
            key.as_str().rsplit_once('/').map(|(folder, _)| folder.to_owned())
        })
    }

    /// The number of files that the set was generated with, which is part of every name.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The suffix of the names, without its dot.
    pub(crate) fn suffix(&self) -> &str {
        &self.suffix
    }

    /// Where a file is below the set's folder.
    pub(crate) fn path(&self, file: u64) -> String {
        let Self { file_prefix, total, suffix, subfolders, .. } = self;
        let width = digits(*total);
        let name = format!("{file_prefix}_{file:0width$}_of_{total}.{suffix}");
        if *subfolders < 2 {
            return name;
        }
        let width = digits(*subfolders);
        format!("{:0width$}/{name}", file % subfolders)
    }

    /// Reads where a file lies below the set's folder, and its name as one of this layout's, whatever
    /// its total and its subfolder.
    pub(crate) fn parse(&self, path: &str) -> Option<Name> {
        let (subfolder, name) = match path.split_once('/') {
            None => (None, path),
            Some((subfolder, name)) => {
                let number = number(subfolder)?;
                (Some(Subfolder { number, width: subfolder.len() }), name)
            }
        };
        let (stem, suffix) = name.rsplit_once('.')?;
        let upper = match suffix {
            _ if suffix == self.suffix => false,
            _ if suffix == self.suffix.to_ascii_uppercase() => true,
            _ => return None,
        };
        let numbers = stem.strip_prefix(&self.file_prefix)?.strip_prefix('_')?;
        let (index, total) = numbers.split_once("_of_")?;
        let (index_value, total_value) = (number(index)?, number(total)?);
        // What `path` would not write, a read would not find.
        let canonical = index.len() == total.len()
            && total.len() == digits(total_value)
            && index_value < total_value;
        let name = Name { index: index_value, total: total_value, upper, subfolder };
        canonical.then_some(name)
    }

    /// Whether the file of `name` is in the subfolder where this layout has it.
    pub(crate) fn is_in_place(&self, name: &Name) -> bool {
        let expected = (self.subfolders > 1).then(|| Subfolder {
            number: name.index % self.subfolders,
            width: digits(self.subfolders),
        });
        name.subfolder == expected
    }
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
    /// The suffix is in upper case, as some tools write it.
    pub(crate) upper: bool,
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
    fn only_exact_names_belong_to_the_set() {
        let layout = layout(Format::Npz, 12, 0, "");
        let parsed = |path| layout.parse(path).map(|name| (name.index, name.total, name.upper));
        assert_eq!(parsed("img_07_of_12.npz"), Some((7, 12, false)));
        assert_eq!(parsed("img_07_of_12.NPZ"), Some((7, 12, true)));
        assert_eq!(parsed("img_099_of_100.npz"), Some((99, 100, false)));
        assert_eq!(parsed("07/img_07_of_12.npz"), Some((7, 12, false)));
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
            prop_assert_eq!((name.index, name.total, name.upper), (file, total, false));
            prop_assert!(layout.is_in_place(&name));
        }
    }
}
