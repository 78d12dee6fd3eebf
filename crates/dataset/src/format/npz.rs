//! NPZ: a ZIP archive of stored members `x.npy`, the samples, and `y.npy`, their labels.
//!
//! `x` has bytes of shape (a sample's dimensions…, samples) in C order, the sample axis last; `y` is
//! one 64-bit zero a sample. The framing is written here, since a general ZIP writer neither gives exact
//! lengths beforehand nor writes into a reused buffer. Stamps are fixed: equal inputs, equal bytes.
//!
//! Formats: APPNOTE.TXT 6.3 (ZIP), numpy.lib.format 1.0 (NPY).

use std::fmt::Write;

use crc32fast::Hasher;

use super::Comparison;
use crate::content::{Content, PIECE};
use crate::sizes::Sizes;

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

impl Npz {
    pub(super) fn new(content: Content, sizes: Sizes, samples: u64) -> Self {
        // Two drawn sides never outgrow the least header.
        let x_header = match &sizes {
            Sizes::Same(_) => npy_header("|u1", &shape(sizes.dims(0), samples)).len() as u64,
            Sizes::PerFile { .. } => NPY_HEADER,
        };
        Self { content, sizes, samples, x_header }
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Bytes of all samples of `file`.
    fn data_len(&self, file: u64) -> u64 {
        self.sizes.elements(file).saturating_mul(self.samples)
    }

    pub(super) fn file_len(&self, file: u64) -> u64 {
        let member = LOCAL_HEADER + CENTRAL_HEADER + 2 * X.len() as u64;
        let framing = 2 * member + self.x_header + NPY_HEADER + END;
        self.data_len(file).saturating_add(self.samples.saturating_mul(8)).saturating_add(framing)
    }

    pub(super) fn write(&self, file: u64, out: &mut Vec<u8>) {
        let header = self.push_x_header(file, out);
        let mut crc = Hasher::new();
        crc.update(&out[header..]);
        self.for_each_piece(file, |_, piece| {
            crc.update(piece);
            out.extend_from_slice(piece);
        });
        let crc = crc.finalize();
        out[LOCAL_CRC..LOCAL_CRC + 4].copy_from_slice(&crc.to_le_bytes());
        self.push_tail(file, crc, out);
    }

    pub(super) fn compare(&self, file: u64, comparison: &mut Comparison<'_>) {
        let mut framing = Vec::new();
        let header = self.push_x_header(file, &mut framing);
        let mut crc = Hasher::new();
        crc.update(&framing[header..]);
        let start = framing.len();
        self.for_each_piece(file, |offset, piece| {
            crc.update(piece);
            comparison.content(start + offset, piece);
        });
        let crc = crc.finalize();
        framing[LOCAL_CRC..LOCAL_CRC + 4].copy_from_slice(&crc.to_le_bytes());
        comparison.framing(0, &framing);
        framing.clear();
        self.push_tail(file, crc, &mut framing);
        comparison.framing(start + self.data_len(file) as usize, &framing);
    }

    /// Makes the samples piece by piece: `piece` gets each with its offset in the samples.
    fn for_each_piece(&self, file: u64, mut piece: impl FnMut(usize, &[u8])) {
        let mut stream = self.content.stream(file, 0);
        let mut scratch = [0; PIECE];
        let len = self.data_len(file) as usize;
        for offset in (0..len).step_by(PIECE) {
            let bytes = &mut scratch[..PIECE.min(len - offset)];
            stream.fill(bytes);
            piece(offset, bytes);
        }
    }

    /// Writes what comes before the samples, with no checksum yet, and tells where in it the member
    /// begins.
    fn push_x_header(&self, file: u64, out: &mut Vec<u8>) -> usize {
        push_local(X, self.x_header + self.data_len(file), out);
        let member = out.len();
        out.extend(npy_header("|u1", &shape(self.sizes.dims(file), self.samples)));
        member
    }

    /// Writes what comes after the samples: labels and directory.
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
        let local = out.len();
        push_local(Y, y.size, out);
        let member = out.len();
        out.extend(npy_header("<i8", &format!("({},)", self.samples)));
        out.resize(member + y.size as usize, 0);
        y.crc = crc32fast::hash(&out[member..]);
        out[local + LOCAL_CRC..local + LOCAL_CRC + 4].copy_from_slice(&y.crc.to_le_bytes());

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

/// Writes a member's own header, the checksum left open.
fn push_local(name: &str, size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"PK\x03\x04");
    push_common(name, 0, size, out);
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
            assert_eq!(format.verify(1, &bytes), Ok(()));
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
