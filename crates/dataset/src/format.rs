//! What is in a file: its length, every byte, whether found bytes are those, and what they mean.
//!
//! A file is a pure function of the data set's description and its index, so making it needs no
//! state, and checking it means making it again, piece by piece, and comparing. Each format is a module
//! and an implementation of [`Files`]; what they have in common is here.

mod csv;
mod files;
mod guard;
mod hdf5;
mod image;
mod indexed;
mod jpeg;
mod npy;
mod npz;
pub(crate) mod out;
mod parquet;
mod png;
mod samples;
mod synthetic;
mod tfrecord;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use feedrate_workload::{Dataset, Format, Split};

use self::csv::Csv;
use self::files::Files;
pub use self::files::{Length, Side, Undecodable};
use self::hdf5::Hdf5;
use self::indexed::Indexed;
use self::jpeg::Jpeg;
use self::npy::Npy;
use self::npz::Npz;
use self::out::{Comparison, Out, Stopped, Verdict};
use self::parquet::Parquet;
pub use self::parquet::{ColumnMismatch, FOOTER_GUESS, Footer, Footers, Group};
use self::png::Png;
use self::synthetic::Synthetic;
use self::tfrecord::Tfrecord;
use crate::Cut;
use crate::content::Content;
use crate::sizes::Sizes;

/// Sizes that deviate are kept in a table, which must fit into memory: 0.8 GB of it.
const MOST_SIZES: u64 = 100_000_000;

/// The files of a set, by index. A clone is cheap and shares the table of sizes, if there is one.
#[derive(Clone)]
pub struct FileFormat {
    format: Format,
    files: u64,
    samples_per_file: u64,
    seed: u64,
    /// Whether all files of the set have one length.
    alike: bool,
    kind: Arc<dyn Files>,
    /// The same, if it is Parquet.
    parquet: Option<Arc<Parquet>>,
}

/// What a format's module is made from.
pub(crate) struct Ingredients<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) content: Content,
    pub(crate) sizes: Sizes,
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
        "file {file} would have {bytes} bytes, but the largest {format} file has {most}: lower \
         dataset.record_length_bytes or dataset.num_samples_per_file"
    )]
    TooLarge {
        /// The format's name.
        format: &'static str,
        /// Index of the first such file.
        file: u64,
        /// Bytes it would have.
        bytes: u64,
        /// Bytes it can have.
        most: u64,
    },
    /// The format cannot hold what the workload describes.
    #[error("{key}: {why}")]
    Unfit {
        /// The key that says so.
        key: &'static str,
        /// Why not, and what to do.
        why: String,
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
    #[error(
        "it differs from what was generated, first at byte {offset}{}",
        sample.map(|sample| format!(", in sample {sample}")).unwrap_or_default()
    )]
    Content {
        /// Offset in the file of the first byte that differs.
        offset: u64,
        /// The sample that it belongs to; `None` in headers and where bytes do not belong to single samples.
        sample: Option<u64>,
    },
}

impl FileFormat {
    /// The files of a set of `dataset`. Every file's size is checked here, so that nothing can fail
    /// once work has begun. Sizes that deviate are drawn for both sets: [`both`](Self::both) does
    /// so once.
    pub fn new(dataset: &Dataset, split: Split) -> Result<Self, FormatError> {
        check_table(dataset)?;
        let [train, valid] = Sizes::both(dataset);
        let sizes = match split {
            Split::Train => train,
            Split::Valid => valid,
        };
        Self::of_sizes(dataset, split, sizes)
    }

    /// As [`new`](Self::new), the files to train on and those to evaluate on, which may be none.
    pub fn both(dataset: &Dataset) -> Result<[Self; 2], FormatError> {
        check_table(dataset)?;
        let [train, valid] = Sizes::both(dataset);
        Ok([
            Self::of_sizes(dataset, Split::Train, train)?,
            Self::of_sizes(dataset, Split::Valid, valid)?,
        ])
    }

    fn of_sizes(dataset: &Dataset, split: Split, sizes: Sizes) -> Result<Self, FormatError> {
        let alike = matches!(sizes, Sizes::Same(_));
        let made_from = Ingredients { dataset, content: Content::of(dataset, split), sizes };
        let mut parquet = None;
        let kind: Arc<dyn Files> = match dataset.format {
            Format::Hdf5 => Arc::new(Hdf5::new(made_from)?),
            Format::IndexedBinary | Format::MmapIndexedBinary => Arc::new(Indexed::new(made_from)),
            Format::Tfrecord => Arc::new(Tfrecord::new(made_from)?),
            Format::Csv => Arc::new(Csv::new(made_from)?),
            Format::Jpeg => Arc::new(Jpeg::new(made_from)?),
            Format::Png => Arc::new(Png::new(made_from)?),
            Format::Synthetic => Arc::new(Synthetic::new(dataset, split)),
            Format::Npy => Arc::new(Npy::new(made_from)?),
            Format::Npz => Arc::new(Npz::new(made_from)?),
            Format::Parquet => {
                let made = Arc::new(Parquet::new(made_from)?);
                parquet = Some(Arc::clone(&made));
                made
            }
        };
        let this = Self {
            format: dataset.format,
            files: dataset.files(split),
            samples_per_file: dataset.num_samples_per_file,
            seed: dataset.seed,
            alike,
            kind,
            parquet,
        };
        this.check_lengths()?;
        Ok(this)
    }

    fn check_lengths(&self) -> Result<(), FormatError> {
        let format = self.format.suffix();
        let possible = self.kind.lengths();
        let (least, most) = (*possible.start(), *possible.end());
        for file in self.files_to_look_at() {
            let bytes = self.file_len(file);
            if bytes < least {
                return Err(FormatError::TooSmall { format, file, bytes, least });
            }
            if bytes > most {
                return Err(FormatError::TooLarge { format, file, bytes, most });
            }
        }
        Ok(())
    }

    /// One file of each length that occurs.
    fn files_to_look_at(&self) -> Range<u64> {
        if self.alike { 0..self.files.min(1) } else { 0..self.files }
    }

    /// Files of the set.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Samples of each file.
    pub fn samples_per_file(&self) -> u64 {
        self.samples_per_file
    }

    /// How long `file` is.
    pub fn length(&self, file: u64) -> Length {
        self.kind.length(file)
    }

    /// Length of `file` in bytes, exact where [`length`](Self::length) is.
    pub fn file_len(&self, file: u64) -> u64 {
        self.kind.length(file).bytes()
    }

    /// Bytes of all files together, as far as they are known.
    pub fn total_bytes(&self) -> u64 {
        self.bytes_of(0, 1, self.files)
    }

    /// Bytes of `count` files, every `step`th from `first` on.
    pub(crate) fn bytes_of(&self, first: u64, step: u64, count: u64) -> u64 {
        if self.alike {
            return self.file_len(0).saturating_mul(count);
        }
        let lengths = (0..count).map(|nth| self.file_len(first + nth * step));
        lengths.fold(0, u64::saturating_add)
    }

    /// Bytes of the largest file.
    pub fn largest_file(&self) -> u64 {
        self.files_to_look_at().map(|file| self.file_len(file)).max().unwrap_or(0)
    }

    /// In which pieces files are read. Those of one sample are read as a whole.
    pub fn cut(&self) -> Cut {
        if self.samples_per_file == 1 { Cut::Whole } else { self.kind.cut() }
    }

    /// Where `samples` of `file` lie, if they can be read without the rest of it.
    pub fn place(&self, file: u64, samples: Range<u64>) -> Option<Range<u64>> {
        self.kind.place(file, samples)
    }

    /// The files that stand beside each file.
    pub fn sides(&self) -> &'static [Side] {
        Side::of(self.format)
    }

    /// Replaces `out` by the bytes of `file`. Allocates only if the capacity does not do.
    pub fn write(&self, file: u64, out: &mut Vec<u8>) {
        out.clear();
        let length = self.length(file);
        out.reserve_exact(length.bytes() as usize);
        let outcome = self.write_to(file, out);
        debug_assert_eq!(outcome, Ok(()));
        debug_assert!(length.exact().is_none_or(|exact| exact == out.len() as u64));
    }

    /// Writes the bytes of `file`.
    pub(crate) fn write_to(&self, file: u64, out: &mut dyn Out) -> Result<(), Stopped> {
        self.kind.write(file, 0..self.samples_per_file, out)
    }

    /// How long a file that stands beside any file is.
    pub(crate) fn side_length(&self, side: Side) -> Length {
        match side {
            // Offsets and lengths of up to ten digits each.
            Side::Records => Length::About(self.samples_per_file.saturating_mul(22)),
            Side::Offsets | Side::Sizes => Length::Exact(self.samples_per_file.saturating_mul(8)),
        }
    }

    /// Writes the bytes of a file that stands beside `file`.
    pub(crate) fn write_side(
        &self,
        file: u64,
        side: Side,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        self.kind.write_side(file, side, out)
    }

    /// Checks that `found` is `samples` of `file` (see [`place`](Self::place)), or the file, byte for
    /// byte.
    pub fn verify(&self, file: u64, samples: Range<u64>, found: &[u8]) -> Result<(), Mismatch> {
        let place = self.place(file, samples.clone());
        let length = match &place {
            Some(place) => Some(place.end - place.start),
            None => self.length(file).exact(),
        };
        let found_len = found.len() as u64;
        if let Some(expected) = length.filter(|&expected| expected != found_len) {
            return Err(Mismatch::Length { expected, found: found_len });
        }
        let mut comparison = Comparison::new(found);
        let outcome = self.kind.write(file, samples, &mut comparison);
        debug_assert_eq!(outcome, Ok(()));
        let (found, expected) = comparison.lengths();
        match comparison.verdict() {
            Verdict::Same => Ok(()),
            Verdict::Foreign => Err(Mismatch::Foreign { seed: self.seed, file }),
            Verdict::Differs(at) if at == found.min(expected) => {
                Err(Mismatch::Length { expected, found })
            }
            Verdict::Differs(at) => {
                let offset = place.map_or(0, |place| place.start) + at;
                Err(Mismatch::Content { offset, sample: self.kind.sample_at(file, offset) })
            }
        }
    }

    /// Checks that the wanted columns of a row group of a Parquet file are those of `file`, byte for byte.
    /// `fetched` are its [`ranges`](Group::ranges): for each its offset in the file, and what it holds.
    pub fn verify_columns(
        &self,
        file: u64,
        footer: &Footer,
        group: usize,
        fetched: &[(u64, Bytes)],
    ) -> Result<(), ColumnMismatch> {
        match &self.parquet {
            Some(parquet) => parquet.verify(file, footer, group, fetched),
            None => Err(ColumnMismatch::Foreign {
                group,
                what: format!("the set is {}", self.format.suffix()),
            }),
        }
    }

    /// Decodes `found`, which is `samples` of `file` (see [`place`](Self::place)) or the file, as a
    /// training would, with all checks that the format has.
    pub fn decode(&self, file: u64, samples: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        self.kind.decode(file, samples, found)
    }
}

impl fmt::Debug for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, files, seed, .. } = self;
        f.debug_struct("FileFormat")
            .field("format", format)
            .field("files", files)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

/// Looks at what can be refused before sizes are drawn.
fn check_table(dataset: &Dataset) -> Result<(), FormatError> {
    let both = dataset.num_files_train.saturating_add(dataset.num_files_eval);
    if dataset.record_length_bytes_stdev > 0.0 && both > MOST_SIZES {
        return Err(FormatError::TooManySizes { files: both });
    }
    Ok(())
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
                assert_eq!(format.verify(file, 0..1, &made(&format, file)), Ok(()));
            }
            assert_eq!(format.total_bytes(), lengths.iter().sum::<u64>());
            assert_eq!(Some(format.largest_file()), lengths.iter().copied().max());
        }
    }

    #[test]
    fn both_sets_and_clones_are_as_made_one_by_one() {
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
                assert_eq!(alone.verify(file, 0..1, &made(format, file)), Ok(()));
                assert_eq!(alone.verify(file, 0..1, &made(&format.clone(), file)), Ok(()));
            }
        }
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
                let found = format.verify(1, 0..1, &bad);
                let told = matches!(found, Err(Mismatch::Content { offset: at, .. }) if at == offset as u64);
                assert!(told, "{format:?} at {offset}: {found:?}");
            }
        }
    }

    #[test]
    fn a_cut_file_is_told_by_its_length() {
        for format in formats() {
            let good = made(&format, 1);
            let expected = good.len() as u64;
            assert_eq!(
                format.verify(1, 0..1, &good[..100]),
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
            assert_eq!(format.verify(1, 0..1, &made(&valid, 1)), foreign);
            assert_eq!(format.verify(1, 0..1, &made(&other, 1)), foreign);
            assert_eq!(format.verify(1, 0..1, &made(&format, 2)), foreign);
            assert_eq!(format.verify(1, 0..1, &vec![0; format.file_len(1) as usize]), foreign);
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
        let large = new(dataset(Format::Jpeg, 3, 5e9));
        assert!(matches!(large, Err(FormatError::TooLarge { file: 0, .. })));
        let vast = Dataset { record_dims: vec![1 << 40; 3], ..dataset(Format::Npz, 3, 1e9) };
        assert!(matches!(new(vast), Err(FormatError::TooLarge { bytes: u64::MAX, .. })));
        let many = Dataset { record_dims: vec![1; 32], ..dataset(Format::Npz, 3, 1.0) };
        let many = new(many);
        assert!(
            matches!(many, Err(FormatError::Unfit { key: "dataset.record_dims", .. })),
            "{many:?}"
        );
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
