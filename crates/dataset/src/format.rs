//! What is in a file: exact length, every byte, and whether found bytes are those.
//!
//! A file is a pure function of the data set's description and its index, so making it needs no
//! state, and checking it means making it again, piece by piece, and comparing.

mod jpeg;
mod npz;

use std::fmt;

use feedrate_workload::{Compression, Dataset, ElementType, Format, Split};

use self::jpeg::Jpeg;
use self::npz::Npz;
use crate::content::Content;
use crate::sizes::Sizes;

/// A file is made in one buffer and a ZIP without its 64-bit extension ends there.
const LARGEST_FILE: u64 = u32::MAX as u64;

/// Sizes that deviate are kept in a table, which must fit into memory: 0.8 GB of it.
const MOST_SIZES: u64 = 100_000_000;

/// `NumPy` reads arrays of at most 32 dimensions (64 from 2.0 on), the samples' among them.
const MOST_DIMS: usize = 31;

/// The files of a set, by index. A clone is cheap and shares the table of sizes, if there is one.
#[derive(Clone)]
pub struct FileFormat {
    files: u64,
    seed: u64,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Jpeg(Jpeg),
    Npz(Npz),
}

/// Why files of this kind cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A format of one sample a file was asked for more.
    #[error(
        "dataset.num_samples_per_file is {configured}, but a {format} file holds one image: set it to 1"
    )]
    SamplesPerFile {
        /// The format's name.
        format: &'static str,
        /// `dataset.num_samples_per_file`
        configured: u64,
    },
    /// The record is smaller than the format's smallest file.
    #[error(
        "file {file} would have {bytes} bytes, but the smallest {format} file has {least}: raise \
         dataset.record_length_bytes (or lower dataset.record_length_bytes_stdev)"
    )]
    TooSmall {
        /// The format's name.
        format: &'static str,
        /// Index of the first such file.
        file: u64,
        /// Bytes it would have.
        bytes: u64,
        /// Bytes it needs.
        least: u64,
    },
    /// The file is larger than files are made.
    #[error(
        "file {file} would have {bytes} bytes, but the largest {format} file has {LARGEST_FILE}: lower \
         dataset.record_length_bytes or dataset.num_samples_per_file"
    )]
    TooLarge {
        /// The format's name.
        format: &'static str,
        /// Index of the first such file.
        file: u64,
        /// Bytes it would have.
        bytes: u64,
    },
    /// Files of this kind are not made or read yet.
    #[error(
        "{what} is not supported yet: formats are jpeg, and npz of elements uint8, without compression"
    )]
    NotYet {
        /// Key and value.
        what: String,
    },
    /// A record has more dimensions than readers know.
    #[error(
        "dataset.record_dims has {configured} dimensions, but NumPy reads at most {MOST_DIMS} of a \
         record: join some"
    )]
    TooManyDims {
        /// Dimensions of `dataset.record_dims`.
        configured: usize,
    },
    /// The table of sizes that deviate would be too long.
    #[error(
        "dataset.num_files_train and dataset.num_files_eval are {files} together, but files whose sizes \
         deviate can be at most {MOST_SIZES}: lower them, or set dataset.record_length_bytes_stdev to 0"
    )]
    TooManySizes {
        /// `dataset.num_files_train` and `dataset.num_files_eval` together.
        files: u64,
    },
}

/// How found bytes differ from those of the file that should be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The length is wrong.
    #[error(
        "it has {found} bytes, not {expected}: it is cut off, or was made with other dataset settings \
         or by another program"
    )]
    Length {
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The file is a different one altogether.
    #[error(
        "its content has nothing in common with what dataset.seed {seed} makes for file {file}: it was \
         made with another seed, for another file, or by another program"
    )]
    Foreign {
        /// `dataset.seed`
        seed: u64,
        /// Index of the file it should be.
        file: u64,
    },
    /// Some bytes are wrong.
    #[error("it differs from what was generated, first at byte {offset} of {length}")]
    Content {
        /// Offset of the first byte that differs.
        offset: u64,
        /// Bytes of the file.
        length: u64,
    },
}

impl FileFormat {
    /// The files of a set of `dataset`. Every file's size is checked here, so that nothing can fail
    /// once work has begun. Sizes that deviate are drawn for both sets: [`both`](Self::both) does
    /// so once.
    pub fn new(dataset: &Dataset, split: Split) -> Result<Self, FormatError> {
        check_supported(dataset)?;
        let [train, valid] = Sizes::both(dataset);
        let sizes = match split {
            Split::Train => train,
            Split::Valid => valid,
        };
        Self::of_sizes(dataset, split, sizes)
    }

    /// As [`new`](Self::new), the files to train on and those to evaluate on, which may be none.
    pub fn both(dataset: &Dataset) -> Result<[Self; 2], FormatError> {
        check_supported(dataset)?;
        let [train, valid] = Sizes::both(dataset);
        Ok([
            Self::of_sizes(dataset, Split::Train, train)?,
            Self::of_sizes(dataset, Split::Valid, valid)?,
        ])
    }

    fn of_sizes(dataset: &Dataset, split: Split, sizes: Sizes) -> Result<Self, FormatError> {
        let content = Content::new(dataset.seed, split.folder());
        let kind = match dataset.format {
            Format::Jpeg if dataset.num_samples_per_file != 1 => {
                return Err(FormatError::SamplesPerFile {
                    format: Format::Jpeg.suffix(),
                    configured: dataset.num_samples_per_file,
                });
            }
            Format::Jpeg => {
                Kind::Jpeg(Jpeg::new(content, sizes, dataset.record_length_bytes as u64))
            }
            Format::Npz => Kind::Npz(Npz::new(content, sizes, dataset.num_samples_per_file)),
            other => return Err(not_yet(format!("dataset.format {}", other.suffix()))),
        };
        let this = Self { files: dataset.files(split), seed: dataset.seed, kind };
        this.check_sizes(dataset.format.suffix())?;
        Ok(this)
    }

    fn check_sizes(&self, format: &'static str) -> Result<(), FormatError> {
        let least = match self.kind {
            Kind::Jpeg(_) => jpeg::SMALLEST,
            Kind::Npz(_) => 0,
        };
        for file in self.sizes_to_look_at() {
            let bytes = self.file_len(file);
            if bytes < least {
                return Err(FormatError::TooSmall { format, file, bytes, least });
            }
            if bytes > LARGEST_FILE {
                return Err(FormatError::TooLarge { format, file, bytes });
            }
        }
        Ok(())
    }

    fn sizes(&self) -> &Sizes {
        match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.sizes(),
            Kind::Npz(npz) => npz.sizes(),
        }
    }

    /// One file of each size that occurs.
    fn sizes_to_look_at(&self) -> std::ops::Range<u64> {
        match self.sizes() {
            Sizes::Same(_) => 0..self.files.min(1),
            Sizes::PerFile { .. } => 0..self.files,
        }
    }

    /// Files of the set.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Exact length of `file` in bytes.
    pub fn file_len(&self, file: u64) -> u64 {
        match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.file_len(file),
            Kind::Npz(npz) => npz.file_len(file),
        }
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        self.bytes_of(0, 1, self.files)
    }

    /// Bytes of `count` files, every `step`th from `first` on.
    pub(crate) fn bytes_of(&self, first: u64, step: u64, count: u64) -> u64 {
        match self.sizes() {
            Sizes::Same(_) => self.file_len(0).saturating_mul(count),
            Sizes::PerFile { .. } => (0..count).map(|nth| self.file_len(first + nth * step)).sum(),
        }
    }

    /// Bytes of the largest file.
    pub fn largest_file(&self) -> u64 {
        self.sizes_to_look_at().map(|file| self.file_len(file)).max().unwrap_or(0)
    }

    /// Replaces `out` by the bytes of `file`. Allocates only if the capacity does not do.
    pub fn write(&self, file: u64, out: &mut Vec<u8>) {
        out.clear();
        out.reserve_exact(self.file_len(file) as usize);
        match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.write(file, out),
            Kind::Npz(npz) => npz.write(file, out),
        }
        debug_assert_eq!(out.len() as u64, self.file_len(file));
    }

    /// Checks that `found` is `file`, byte for byte.
    pub fn verify(&self, file: u64, found: &[u8]) -> Result<(), Mismatch> {
        let expected = self.file_len(file);
        if found.len() as u64 != expected {
            return Err(Mismatch::Length { expected, found: found.len() as u64 });
        }
        let mut comparison = Comparison::new(found);
        match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.compare(file, &mut comparison),
            Kind::Npz(npz) => npz.compare(file, &mut comparison),
        }
        comparison.verdict(self.seed, file)
    }
}

impl fmt::Debug for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Jpeg(_) => Format::Jpeg,
            Kind::Npz(_) => Format::Npz,
        };
        let Self { files, seed, .. } = self;
        f.debug_struct("FileFormat")
            .field("kind", &kind)
            .field("files", files)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

/// Looks at what can be refused without a look at single files, whatever the set.
fn check_supported(dataset: &Dataset) -> Result<(), FormatError> {
    let Dataset { compression, record_element_type: element, record_dims: dims, .. } = dataset;
    if *compression != Compression::None {
        return Err(not_yet(format!("dataset.compression {compression:?}").to_lowercase()));
    }
    if *element != ElementType::Uint8 {
        return Err(not_yet(format!("dataset.record_element_type {element:?}").to_lowercase()));
    }
    if dims.len() > MOST_DIMS {
        return Err(FormatError::TooManyDims { configured: dims.len() });
    }
    let both = dataset.num_files_train.saturating_add(dataset.num_files_eval);
    if dataset.record_length_bytes_stdev > 0.0 && both > MOST_SIZES {
        return Err(FormatError::TooManySizes { files: both });
    }
    Ok(())
}

fn not_yet(what: String) -> FormatError {
    FormatError::NotYet { what }
}

/// Found bytes beside those that should be there, which arrive in pieces and in any order.
struct Comparison<'a> {
    found: &'a [u8],
    first_difference: Option<usize>,
    random: usize,
    random_equal: usize,
}

impl<'a> Comparison<'a> {
    fn new(found: &'a [u8]) -> Self {
        Self { found, first_difference: None, random: 0, random_equal: 0 }
    }

    /// Headers and the like, which any file of the same settings has.
    fn framing(&mut self, offset: usize, expected: &[u8]) {
        let found = &self.found[offset..offset + expected.len()];
        if found != expected {
            self.differs(offset, expected);
        }
    }

    /// Random content, which only this file has.
    fn content(&mut self, offset: usize, expected: &[u8]) {
        let found = &self.found[offset..offset + expected.len()];
        self.random += expected.len();
        if found == expected {
            self.random_equal += expected.len();
        } else {
            self.random_equal += found.iter().zip(expected).filter(|(a, b)| a == b).count();
            self.differs(offset, expected);
        }
    }

    fn differs(&mut self, offset: usize, expected: &[u8]) {
        let found = &self.found[offset..];
        let inside = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
        let at = offset + inside;
        self.first_difference = Some(self.first_difference.map_or(at, |first| first.min(at)));
    }

    fn verdict(self, seed: u64, file: u64) -> Result<(), Mismatch> {
        let Some(offset) = self.first_difference else { return Ok(()) };
        // Unrelated random bytes agree in one of 256 places.
        if self.random_equal < self.random.div_ceil(16) {
            return Err(Mismatch::Foreign { seed, file });
        }
        Err(Mismatch::Content { offset: offset as u64, length: self.found.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dataset;

    fn formats() -> [FileFormat; 4] {
        let drawn = |format| Dataset {
            record_length_bytes_stdev: 10_000.0,
            ..dataset(format, 50, 60_000.0)
        };
        [
            dataset(Format::Jpeg, 50, 60_000.0),
            dataset(Format::Npz, 50, 60_000.0),
            drawn(Format::Jpeg),
            drawn(Format::Npz),
        ]
        .map(|set| FileFormat::new(&set, Split::Train).expect("the set can be made"))
    }

    fn made(format: &FileFormat, file: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        bytes
    }

    #[test]
    fn every_file_is_as_long_as_said_and_verifies() {
        for format in formats() {
            let lengths: Vec<u64> = (0..50).map(|file| made(&format, file).len() as u64).collect();
            for (file, &length) in (0..).zip(&lengths) {
                assert_eq!(length, format.file_len(file));
                assert_eq!(format.verify(file, &made(&format, file)), Ok(()));
            }
            assert_eq!(format.total_bytes(), lengths.iter().sum::<u64>());
            assert_eq!(Some(format.largest_file()), lengths.iter().copied().max());
        }
    }

    #[test]
    fn both_sets_and_clones_are_as_made_one_by_one_and_share_their_table() {
        let set = Dataset {
            record_length_bytes_stdev: 10_000.0,
            num_files_eval: 20,
            ..dataset(Format::Npz, 50, 60_000.0)
        };
        let [train, valid] = FileFormat::both(&set).unwrap();
        for (format, split) in [(&train, Split::Train), (&valid, Split::Valid)] {
            let alone = FileFormat::new(&set, split).unwrap();
            assert_eq!(format.files(), set.files(split));
            for file in 0..format.files() {
                assert_eq!(alone.verify(file, &made(format, file)), Ok(()));
                assert_eq!(alone.verify(file, &made(&format.clone(), file)), Ok(()));
            }
        }
        let table = |format: &FileFormat| match format.sizes() {
            Sizes::PerFile { sides, .. } => sides.as_ptr(),
            Sizes::Same(_) => panic!("sizes deviate"),
        };
        assert_eq!(table(&train), table(&valid));
        assert_eq!(table(&train), table(&train.clone()));
        let refused = Dataset { num_files_train: 1 << 40, ..set };
        let refused = FileFormat::both(&refused).map(|_| ());
        assert!(matches!(refused, Err(FormatError::TooManySizes { .. })), "{refused:?}");
    }

    #[test]
    fn a_table_of_sizes_that_no_memory_holds_is_refused() {
        let set = |stdev| Dataset {
            record_length_bytes_stdev: stdev,
            num_samples_per_file: 60_000,
            ..dataset(Format::Npz, 1_000_000_000_000, 60_000.0)
        };
        let new = |set, split| FileFormat::new(&set, split).map(|format| format.total_bytes());
        assert_eq!(new(set(0.0), Split::Train), Ok(u64::MAX));
        let refused = Err(FormatError::TooManySizes { files: 1_000_000_000_000 });
        assert_eq!(new(set(1.0), Split::Train), refused);
        assert_eq!(new(set(1.0), Split::Valid), refused);
    }

    #[test]
    fn a_buffer_is_reused_whatever_it_held() {
        for format in formats() {
            let mut buffer = vec![0xaa; 1 << 20];
            let place = buffer.as_ptr();
            format.write(3, &mut buffer);
            assert_eq!(buffer, made(&format, 3));
            assert_eq!(buffer.as_ptr(), place);
        }
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        for format in formats() {
            let good = made(&format, 1);
            let length = good.len();
            let places = [0, 1, 3, 20, 150, 200, 300, length / 2, length - 150, length - 1];
            for offset in places.into_iter().chain((0..length).step_by(997)) {
                let mut bad = good.clone();
                bad[offset] ^= 0x10;
                let expected = Mismatch::Content { offset: offset as u64, length: length as u64 };
                assert_eq!(format.verify(1, &bad), Err(expected), "{format:?} at {offset}");
            }
        }
    }

    #[test]
    fn a_cut_file_is_told_by_its_length() {
        for format in formats() {
            let good = made(&format, 1);
            let expected = good.len() as u64;
            assert_eq!(
                format.verify(1, &good[..100]),
                Err(Mismatch::Length { expected, found: 100 })
            );
        }
    }

    #[test]
    fn another_file_seed_or_program_is_told_apart_from_damage() {
        for kind in [Format::Jpeg, Format::Npz] {
            let set = dataset(kind, 50, 60_000.0);
            let set = Dataset { num_files_eval: 50, ..set };
            let new = |set: &Dataset, split| FileFormat::new(set, split).expect("it can be made");
            let (format, valid) = (new(&set, Split::Train), new(&set, Split::Valid));
            let other = new(&Dataset { seed: 11, ..set.clone() }, Split::Train);
            let foreign = Err(Mismatch::Foreign { seed: 10, file: 1 });
            assert_eq!(format.verify(1, &made(&valid, 1)), foreign);
            assert_eq!(format.verify(1, &made(&other, 1)), foreign);
            assert_eq!(format.verify(1, &made(&format, 2)), foreign);
            assert_eq!(format.verify(1, &vec![0; format.file_len(1) as usize]), foreign);
        }
    }

    #[test]
    fn no_block_of_4_kib_occurs_twice_in_a_thousand_files() {
        use std::collections::HashSet;
        for kind in [Format::Jpeg, Format::Npz] {
            let set = dataset(kind, 1000, 60_000.0);
            let format = FileFormat::new(&set, Split::Train).expect("can be made");
            let mut seen = HashSet::new();
            for file in 0..1000 {
                for block in made(&format, file).chunks_exact(4096) {
                    // 16 bytes of a block that differ make the block differ.
                    assert!(seen.insert(block[2000..2016].to_vec()), "file {file}");
                }
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused_before_any_work() {
        let new = |set| FileFormat::new(&set, Split::Train).map(|format| format.total_bytes());
        let small = new(dataset(Format::Jpeg, 3, 150.0));
        assert!(matches!(small, Err(FormatError::TooSmall { file: 0, bytes: 150, .. })));
        let drawn =
            Dataset { record_length_bytes_stdev: 3000.0, ..dataset(Format::Jpeg, 100, 2000.0) };
        assert!(matches!(new(drawn), Err(FormatError::TooSmall { .. })));
        let several = Dataset { num_samples_per_file: 2, ..dataset(Format::Jpeg, 3, 60_000.0) };
        assert!(matches!(new(several), Err(FormatError::SamplesPerFile { configured: 2, .. })));
        for kind in [Format::Jpeg, Format::Npz] {
            let large = new(dataset(kind, 3, 5e9));
            assert!(matches!(large, Err(FormatError::TooLarge { file: 0, .. })));
        }
        let vast = Dataset { record_dims: vec![1 << 40; 3], ..dataset(Format::Npz, 3, 1e9) };
        assert!(matches!(new(vast), Err(FormatError::TooLarge { bytes: u64::MAX, .. })));
        let many = Dataset { record_dims: vec![1; 32], ..dataset(Format::Npz, 3, 1.0) };
        assert_eq!(new(many), Err(FormatError::TooManyDims { configured: 32 }));
    }

    #[test]
    fn what_is_not_made_yet_is_named_by_its_key() {
        let set = |kind| dataset(kind, 3, 60_000.0);
        for (set, key) in [
            (set(Format::Hdf5), "dataset.format hdf5"),
            (
                Dataset { compression: Compression::Gzip, ..set(Format::Npz) },
                "dataset.compression gzip",
            ),
            (
                Dataset { record_element_type: ElementType::Float32, ..set(Format::Npz) },
                "dataset.record_element_type float32",
            ),
        ] {
            let error = FileFormat::new(&set, Split::Train).expect_err(key).to_string();
            assert!(error.starts_with(&format!("{key} is not supported yet")), "{error}");
        }
    }

    #[test]
    fn a_set_of_no_files_has_no_bytes() {
        for kind in [Format::Jpeg, Format::Npz] {
            for stdev in [0.0, 1000.0] {
                let set =
                    Dataset { record_length_bytes_stdev: stdev, ..dataset(kind, 3, 60_000.0) };
                let none = FileFormat::new(&set, Split::Valid).expect("nothing can be wrong");
                assert_eq!((none.files(), none.total_bytes(), none.largest_file()), (0, 0, 0));
            }
        }
    }
}
