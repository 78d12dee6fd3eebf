//! NPZ: a ZIP archive of stored members `x.npy`, the samples, and `y.npy`, their labels.
//!
//! `x` has bytes of shape (a sample's dimensions…, samples) in C order, the sample axis last; `y` is
//! one 64-bit zero a sample. The framing is written here, since a general ZIP writer neither gives exact
//! lengths beforehand nor writes into a reused buffer. Stamps are fixed: equal inputs, equal bytes.
//!
//! Formats: APPNOTE.TXT 6.3 (ZIP), numpy.lib.format 1.0 (NPY).

use std::fmt::{self, Write};
use std::ops::{Range, RangeInclusive};

use crc32fast::Hasher;
use feedrate_workload::{Compression, Dataset, ElementType};

use super::files::{Files, Length, Undecodable};
use super::out::{Out, Stopped, pour};
use super::{FormatError, Ingredients};
use crate::content::Content;
use crate::sizes::Sizes;

/// A ZIP without its 64-bit extension ends here.
const LARGEST: u64 = u32::MAX as u64;

/// `NumPy` reads arrays of at most 32 dimensions (64 from 2.0 on), the samples' among them.
const MOST_DIMS: usize = 31;

/// The least that a header takes, and a multiple of the alignment of larger ones: that of shapes
/// with many dimensions.
const NPY_HEADER: u64 = 128;
const NPY_ALIGNMENT: usize = 64;
const LOCAL_HEADER: u64 = 30;
const CENTRAL_HEADER: u64 = 46;
const END: u64 = 22;
const X: &str = "x.npy";
const Y: &str = "y.npy";
/// Where the local header holds the checksum of the member.
const LOCAL_CRC: usize = 14;
/// 1980-01-01 00:00, the earliest stamp that a ZIP can hold: time, then date.
const STAMP: [u8; 4] = [0, 0, 0x21, 0];
/// Readers of version 2.0 can extract the members.
const VERSION: u16 = 20;
/// Made on Unix, by that version.
const MADE_BY: u16 = 3 << 8 | VERSION;
/// Unix mode 0600 in the upper half, as `NumPy`'s writer has it.
const ATTRIBUTES: u32 = 0o600 << 16;

/// The NPZ files of a set.
#[derive(Clone)]
pub(super) struct Npz {
    content: Content,
    sizes: Sizes,
    samples: u64,
    /// Bytes of the header of `x`.
    x_header: u64,
}

/// What the archive's directory says of a member.
struct Member {
    name: &'static str,
    crc: u32,
    size: u64,
    offset: u64,
}

impl fmt::Debug for Npz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Npz").field("samples", &self.samples).finish_non_exhaustive()
    }
}

impl Npz {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes } = made_from;
        let Dataset { num_samples_per_file: samples, record_dims: dims, .. } = dataset;
        if dataset.compression != Compression::None
            || dataset.record_element_type != ElementType::Uint8
        {
            let what = "compressed npz, or other elements than uint8,".to_owned();
            return Err(FormatError::NotYet { what });
        }
        if dims.len() > MOST_DIMS {
            let why = format!(
                "it has {} dimensions, but NumPy reads at most {MOST_DIMS} of a record: join some",
                dims.len()
            );
            return Err(FormatError::Unfit { key: "dataset.record_dims", why });
        }
        // Two drawn sides never outgrow the least header.
        let x_header = match &sizes {
            Sizes::Same(_) => npy_header("|u1", &shape(sizes.dims(0), *samples)).len() as u64,
            Sizes::PerFile { .. } => NPY_HEADER,
        };
        Ok(Self { content, sizes, samples: *samples, x_header })
    }

    /// Bytes of all samples of `file`.
    fn data_len(&self, file: u64) -> u64 {
        self.sizes.elements(file).saturating_mul(self.samples)
    }

    /// What comes after the samples: labels and directory.
    fn push_tail(&self, file: u64, x_crc: u32, out: &mut Vec<u8>) {
        let local_len = LOCAL_HEADER + X.len() as u64;
        let x =
            Member { name: X, crc: x_crc, size: self.x_header + self.data_len(file), offset: 0 };
        let mut y = Member {
            name: Y,
            crc: 0,
            size: NPY_HEADER + 8 * self.samples,
            offset: local_len + x.size,
        };
        let mut member = npy_header("<i8", &format!("({},)", self.samples));
        member.resize(y.size as usize, 0);
        y.crc = crc32fast::hash(&member);
        push_local(Y, y.crc, y.size, out);
        out.extend(member);

        let directory = out.len();
        x.push_listed(out);
        y.push_listed(out);
        let listed = (out.len() - directory) as u32;
        out.extend_from_slice(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
        out.extend_from_slice(&listed.to_le_bytes());
        out.extend_from_slice(&((y.offset + local_len + y.size) as u32).to_le_bytes());
        out.extend_from_slice(&[0, 0]);
    }
}

impl Files for Npz {
    fn length(&self, file: u64) -> Length {
        let member = LOCAL_HEADER + CENTRAL_HEADER + 2 * X.len() as u64;
        let framing = 2 * member + self.x_header + NPY_HEADER + END;
        let labels = self.samples.saturating_mul(8);
        Length::Exact(self.data_len(file).saturating_add(labels).saturating_add(framing))
    }

    fn lengths(&self) -> RangeInclusive<u64> {
        0..=LARGEST
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let member = npy_header("|u1", &shape(self.sizes.dims(file), self.samples));
        let mut local = Vec::new();
        push_local(X, 0, self.x_header + self.data_len(file), &mut local);
        out.framing(&local[..LOCAL_CRC])?;
        let open = out.later(4)?;
        out.framing(&local[LOCAL_CRC + 4..])?;
        out.framing(&member)?;
        let mut crc = Hasher::new();
        crc.update(&member);
        let stream = self.content.stream(file, 0);
        pour(stream, self.data_len(file), out, |piece| crc.update(piece))?;
        let crc = crc.finalize();
        out.fill_in(open, &crc.to_le_bytes());
        let mut tail = Vec::new();
        self.push_tail(file, crc, &mut tail);
        out.framing(&tail)
    }

    /// The sample axis is the last, so samples are interleaved.
    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        let start = LOCAL_HEADER + X.len() as u64 + self.x_header;
        let inside = offset.checked_sub(start).filter(|&inside| inside < self.data_len(file))?;
        Some(inside % self.samples)
    }

    fn decode(&self, _: u64, _: Range<u64>, _: &[u8]) -> Result<(), Undecodable> {
        Err(Undecodable::file("npz is not decoded yet"))
    }
}

impl Member {
    /// Writes the member's entry in the directory.
    fn push_listed(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PK\x01\x02");
        out.extend_from_slice(&MADE_BY.to_le_bytes());
        push_common(self.name, self.crc, self.size, out);
        // No comment, first disk, no internal attributes.
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&ATTRIBUTES.to_le_bytes());
        out.extend_from_slice(&(self.offset as u32).to_le_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }
}

/// Writes a member's own header.
fn push_local(name: &str, crc: u32, size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"PK\x03\x04");
    push_common(name, crc, size, out);
    out.extend_from_slice(name.as_bytes());
}

/// What both headers of a member have: version, flags, method (stored), stamp, checksum, both sizes,
/// lengths of name and extra field.
fn push_common(name: &str, crc: u32, size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&STAMP);
    out.extend_from_slice(&crc.to_le_bytes());
    for _ in 0..2 {
        out.extend_from_slice(&(size as u32).to_le_bytes());
    }
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
}

/// The shape of an array of `samples` of these dimensions, as Python writes it.
fn shape(dims: impl Iterator<Item = u64>, samples: u64) -> String {
    let mut shape = "(".to_owned();
    for dim in dims {
        let _ = write!(shape, "{dim}, ");
    }
    let _ = write!(shape, "{samples})");
    shape
}

/// An array's header: magic, version 1.0, length, and its description padded with blanks.
fn npy_header(element: &str, shape: &str) -> Vec<u8> {
    let description =
        format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    let len = (10 + description.len() + 1).next_multiple_of(NPY_ALIGNMENT).max(NPY_HEADER as usize);
    let mut header = Vec::with_capacity(len);
    header.extend_from_slice(b"\x93NUMPY\x01\x00");
    header.extend_from_slice(&(len as u16 - 10).to_le_bytes());
    header.extend_from_slice(description.as_bytes());
    header.resize(len - 1, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use feedrate_workload::{Dataset, Format, Split};
    use npyz::NpyFile;
    use zip::ZipArchive;

    use crate::FileFormat;
    use crate::testing::dataset;

    fn archive(set: &Dataset, file: u64) -> (FileFormat, ZipArchive<Cursor<Vec<u8>>>) {
        let format = FileFormat::new(set, Split::Train).expect("the set can be made");
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        let archive = ZipArchive::new(Cursor::new(bytes)).expect("it is a ZIP");
        (format, archive)
    }

    fn member(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Reading to the end checks the checksum.
        archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn lengths_are_those_of_the_original() {
        let len =
            |set: &Dataset| FileFormat::new(set, Split::Train).map(|format| format.file_len(0));
        let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npz, 1, 1000.0) };
        assert_eq!(len(&set), Ok(2388));
        let set = dataset(Format::Npz, 1, 65_536.0);
        assert_eq!(len(&set), Ok(65_536 + 8 + 450));
    }

    #[test]
    fn other_readers_find_samples_and_labels() {
        for (record_length, samples) in [(1000.0, 2), (65_536.0, 1), (1.0, 1), (90_000.0, 40)] {
            let set =
                Dataset { num_samples_per_file: samples, ..dataset(Format::Npz, 3, record_length) };
            let (_, mut archive) = archive(&set, 2);
            let names: Vec<_> = archive.file_names().map(Result::unwrap).collect();
            assert_eq!(names, ["x.npy", "y.npy"]);

            let side = record_length.sqrt() as u64;
            let x = member(&mut archive, "x.npy");
            let x = NpyFile::new(&x[..]).unwrap();
            assert_eq!(x.shape(), [side, side, samples]);
            assert_eq!(x.order(), npyz::Order::C);
            let values: Vec<u8> = x.into_vec().unwrap();
            assert_eq!(values.len() as u64, side * side * samples);

            let y = member(&mut archive, "y.npy");
            let y = NpyFile::new(&y[..]).unwrap();
            assert_eq!(y.shape(), [samples]);
            assert_eq!(y.into_vec::<i64>().unwrap(), vec![0; samples as usize]);
        }
    }

    #[test]
    fn record_dims_are_the_shape_however_many() {
        for dims in [vec![5], vec![4, 8, 6], vec![1; 31]] {
            let set = Dataset {
                record_dims: dims.clone(),
                num_samples_per_file: 3,
                ..dataset(Format::Npz, 2, dims.iter().product::<u64>() as f64)
            };
            let (format, mut archive) = archive(&set, 1);
            let mut bytes = Vec::new();
            format.write(1, &mut bytes);
            assert_eq!(bytes.len() as u64, format.file_len(1));
            assert_eq!(format.verify(1, 0..3, &bytes), Ok(()));
            let x = member(&mut archive, "x.npy");
            let x = NpyFile::new(&x[..]).unwrap();
            assert_eq!(x.shape(), [dims, vec![3]].concat());
            let bytes: u64 = x.shape().iter().product();
            assert_eq!(x.into_vec::<u8>().unwrap().len() as u64, bytes);
        }
    }

    #[test]
    fn drawn_sides_are_the_shape() {
        let set =
            Dataset { record_length_bytes_stdev: 16_384.0, ..dataset(Format::Npz, 4, 65_536.0) };
        let (format, mut archive) = archive(&set, 1);
        let x = member(&mut archive, "x.npy");
        assert_eq!(NpyFile::new(&x[..]).unwrap().shape(), [206, 255, 1]);
        assert_eq!(format.file_len(1), 206 * 255 + 8 + 450);
    }
}
