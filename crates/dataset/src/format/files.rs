//! What a format is: lengths, writing, places of samples, decoding, each as a function of a file's
//! index. None knows where bytes come from or go to.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use super::out::{Out, Stopped};
use crate::Cut;

/// How long a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So many bytes.
    Exact(u64),
    /// About so many: it depends on what is in the file, so only making it tells.
    About(u64),
}

impl Length {
    /// The number of bytes, exact or not.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Exact(bytes) | Self::About(bytes) => bytes,
        }
    }

    /// The number of bytes, if it is known.
    pub fn exact(self) -> Option<u64> {
        match self {
            Self::Exact(bytes) => Some(bytes),
            Self::About(_) => None,
        }
    }
}

/// Why bytes cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", sample.map(|sample| format!("sample {sample}: ")).unwrap_or_default())]
pub struct Undecodable {
    /// The sample of the file, where it is known.
    pub sample: Option<u64>,
    /// What is wrong, and at which offset where that is known.
    pub what: String,
}

impl Undecodable {
    /// The file as a whole, or a part that has no sample, is wrong.
    pub(crate) fn file(what: impl fmt::Display) -> Self {
        Self { sample: None, what: what.to_string() }
    }

    /// A sample is wrong.
    pub(crate) fn sample(sample: u64, what: impl fmt::Display) -> Self {
        Self { sample: Some(sample), what: what.to_string() }
    }
}

/// The files of a set in one format.
///
/// Samples are counted from 0 in each file. Where [`place`](Self::place) finds them, they can be read,
/// written, checked and decoded without the rest of the file; else `samples` are always all of them.
pub(crate) trait Files: fmt::Debug + Send + Sync {
    /// How long `file` is; [`u64::MAX`] for what is longer than can be counted.
    fn length(&self, file: u64) -> Length;

    /// The lengths that a file of the format can have.
    fn lengths(&self) -> RangeInclusive<u64> {
        0..=u64::MAX - 1
    }

    /// Writes the bytes of `samples` of `file`: those at their [`place`](Self::place), or the file.
    fn write(&self, file: u64, samples: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped>;

    /// Which sample the byte at `offset` of `file` belongs to. `None` for headers and the like, and
    /// where bytes do not belong to single samples.
    fn sample_at(&self, file: u64, offset: u64) -> Option<u64>;

    /// In which pieces a file of several samples is read.
    fn cut(&self) -> Cut {
        Cut::Whole
    }

    /// Where `samples` of `file` lie, if they can be read without the rest.
    fn place(&self, _file: u64, _samples: Range<u64>) -> Option<Range<u64>> {
        None
    }

    /// Decodes the bytes of `samples` of `file` as a training would: all values, with all checks that
    /// the format has. Files may have been made by other programs.
    fn decode(&self, file: u64, samples: Range<u64>, found: &[u8]) -> Result<(), Undecodable>;

    /// Writes a file that stands beside `file`. Only those are asked for that [`Side::of`] lists.
    fn write_side(&self, _file: u64, _side: Side, _out: &mut dyn Out) -> Result<(), Stopped> {
        Ok(())
    }
}

/// A file beside the file of samples (spec/dlio.md 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `index/{train|valid}/{file name}.idx` below the data folder: a line `OFFSET LENGTH` a record.
    Records,
    /// `{file}.off.idx`: where each sample begins, as little-endian 64-bit numbers.
    Offsets,
    /// `{file}.sz.idx`: how long each sample is, likewise.
    Sizes,
}

impl Side {
    /// Those that stand beside each file of `format`.
    pub fn of(format: feedrate_workload::Format) -> &'static [Self] {
        use feedrate_workload::Format;
        match format {
            Format::Tfrecord => &[Self::Records],
            Format::IndexedBinary | Format::MmapIndexedBinary => &[Self::Offsets, Self::Sizes],
            _ => &[],
        }
    }
}
