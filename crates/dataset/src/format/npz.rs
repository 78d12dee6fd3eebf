//! NPZ: a ZIP archive of members `x.npy`, the samples, and `y.npy`, their labels, stored or deflated.
//!
//! `x` is the array of an [NPY file](super::npy); `y` is one 64-bit zero a sample.

mod archive;

use std::io::{Cursor, Write};
use std::iter::once;
use std::ops::Range;
use std::sync::OnceLock;

use crc32fast::Hasher;
use feedrate_workload::{Compression, ElementType};
use flate2::write::DeflateEncoder;
use zip::ZipArchive;
use zip::result::ZipError;

use self::archive::{Member, directory, directory_len};
use super::files::{Files, Length, Undecodable};
use super::npy::{self, Arrays, header};
use super::out::{Counted, Later, Out, Stopped, Writer};
use super::{FormatError, Ingredients};
use crate::content::PIECE;

const X: &str = "x.npy";
const Y: &str = "y.npy";

/// Zeros that Deflate packs into a byte, at best: what labels come to.
const ZEROS_PER_BYTE: u64 = 1032;

/// The NPZ files of a set.
#[derive(Debug)]
pub(super) struct Npz {
    arrays: Arrays,
    deflate: Option<Deflate>,
    /// Checksum and packed bytes of the labels, which all files share.
    labels: OnceLock<(u32, u64)>,
}

/// How members are deflated.
#[derive(Debug, Clone, Copy)]
struct Deflate {
    /// 0 (not at all) to 9.
    level: u32,
    /// How much smaller samples become, about.
    ratio: f64,
}

impl Npz {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let deflate = match made_from.dataset.compression {
            Compression::None => None,
            Compression::Zip => Some(Deflate {
                level: made_from.dataset.compression_level,
                ratio: made_from.dataset.compressibility,
            }),
            _ => {
                let why = "an npz file is stored or deflated: set it to none or zip".to_owned();
                return Err(FormatError::Unfit { key: "dataset.compression", why });
            }
        };
        Ok(Self { arrays: Arrays::new(made_from)?, deflate, labels: OnceLock::new() })
    }

    /// The samples, before they are packed: as large as they can be expected to become.
    fn x(&self, file: u64) -> Member {
        let size = self.arrays.len(file);
        let packed = match self.deflate {
            Some(Deflate { level: 1.., ratio }) => (size as f64 / ratio) as u64,
            _ => size,
        };
        Member { name: X, deflated: self.deflate.is_some(), crc: 0, size, packed, offset: 0 }
    }

    /// The labels at `offset`, likewise.
    fn y(&self, offset: u64) -> Member {
        let size = self.arrays.samples.saturating_mul(8).saturating_add(header::LEAST);
        let packed = match self.deflate {
            Some(Deflate { level: 1.., .. }) => size / ZEROS_PER_BYTE,
            _ => size,
        };
        Member { name: Y, deflated: self.deflate.is_some(), crc: 0, size, packed, offset }
    }

    fn write_labels(&self, out: &mut dyn Out) -> Result<(), Stopped> {
        out.framing(&header::written(ElementType::Int64, once(self.arrays.samples)))?;
        let zeros = [0; PIECE];
        let mut left = self.arrays.samples * 8;
        while left > 0 {
            let piece = &zeros[..left.min(PIECE as u64) as usize];
            out.framing(piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Packs what `write` writes; gives its checksum, and the bytes that it came to.
    fn pack(
        &self,
        out: &mut dyn Out,
        write: impl FnOnce(&mut dyn Out) -> Result<(), Stopped>,
    ) -> Result<(u32, u64), Stopped> {
        let to = match self.deflate {
            None => To::Stored(out),
            Some(Deflate { level, .. }) => {
                let level = flate2::Compression::new(level);
                To::Deflated(DeflateEncoder::new(Writer(out), level))
            }
        };
        let mut packing = Packing { crc: Hasher::new(), taken: 0, to };
        write(&mut packing)?;
        packing.finish()
    }
}

impl Files for Npz {
    fn length(&self, file: u64) -> Length {
        let x = self.x(file);
        let y = self.y(x.end());
        let bytes = y.end().saturating_add(directory_len([&x, &y]));
        if self.deflate.is_some() { Length::About(bytes) } else { Length::Exact(bytes) }
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let mut x = self.x(file);
        let open = out.later(x.header_len() as usize)?;
        (x.crc, x.packed) = self.pack(out, |out| self.arrays.write(file, out))?;
        out.fill_in(open, &x.header());

        let mut y = self.y(x.end());
        // What stands before a member far from the file's begin cannot be filled in later.
        (y.crc, y.packed) = *self.labels.get_or_init(|| {
            let counted = self.pack(&mut Counted::default(), |out| self.write_labels(out));
            counted.expect("a count never stops")
        });
        out.framing(&y.header())?;
        self.pack(out, |out| self.write_labels(out))?;
        out.framing(&directory([&x, &y]))
    }

    /// What is deflated belongs to no single sample.
    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        if self.deflate.is_some() {
            return None;
        }
        let start = self.x(file).header_len();
        self.arrays.sample_at(file, offset.checked_sub(start)?)
    }

    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let mut archive = ZipArchive::new(Cursor::new(found)).map_err(|error| {
            Undecodable::file(format_args!("it is no ZIP archive, or damaged: {error}"))
        })?;
        for (name, required) in [(X, true), (Y, false)] {
            let decoded = match archive.by_name(name) {
                Ok(member) => npy::decode(member, self.arrays.samples),
                Err(ZipError::FileNotFound) if !required => Ok(()),
                Err(ZipError::FileNotFound) => Err("the archive has no such member".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            decoded.map_err(|what| Undecodable::file(format_args!("{name}: {what}")))?;
        }
        Ok(())
    }
}

/// Takes the content of a member, sums it up, and passes it on, stored or deflated.
struct Packing<'a> {
    crc: Hasher,
    /// Bytes of content.
    taken: u64,
    to: To<'a>,
}

enum To<'a> {
    Stored(&'a mut dyn Out),
    Deflated(DeflateEncoder<Writer<'a>>),
}

impl Packing<'_> {
    /// Checksum of the content, and the bytes that it came to.
    fn finish(self) -> Result<(u32, u64), Stopped> {
        let packed = match self.to {
            To::Stored(_) => self.taken,
            To::Deflated(mut encoder) => {
                encoder.try_finish().map_err(|_| Stopped)?;
                encoder.total_out()
            }
        };
        Ok((self.crc.finalize(), packed))
    }

    fn take(
        &mut self,
        bytes: &[u8],
        store: impl FnOnce(&mut dyn Out) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        self.crc.update(bytes);
        self.taken += bytes.len() as u64;
        match &mut self.to {
            To::Stored(out) => store(&mut **out),
            To::Deflated(encoder) => encoder.write_all(bytes).map_err(|_| Stopped),
        }
    }
}

impl Out for Packing<'_> {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.take(bytes, |out| out.framing(bytes))
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.take(bytes, |out| out.content(bytes))
    }

    fn later(&mut self, _: usize) -> Result<Later, Stopped> {
        // A checksum is of what is known: no array leaves anything open.
        Err(Stopped)
    }

    fn fill_in(&mut self, _: Later, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use feedrate_workload::{Compression, Dataset, ElementType, Format, Split};
    use npyz::NpyFile;
    use proptest::prelude::*;
    use zip::{CompressionMethod, ZipArchive};

    use super::super::npy::tests::{Damage, of_type};
    use super::super::out::{Later, Out, Stopped};
    use crate::testing::{ELEMENT_TYPES, dataset};
    use crate::{FileFormat, Length, Mismatch};

    fn format(set: &Dataset) -> FileFormat {
        FileFormat::new(set, Split::Train).expect("the set can be made")
    }

    fn made(format: &FileFormat, file: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        bytes
    }

    fn member(bytes: &[u8], name: &str) -> Vec<u8> {
        let mut archive = ZipArchive::new(Cursor::new(bytes)).expect("it is a ZIP");
        let mut content = Vec::new();
        // Reading to the end checks the checksum.
        archive.by_name(name).unwrap().read_to_end(&mut content).unwrap();
        content
    }

    fn shape(bytes: &[u8], name: &str) -> Vec<u64> {
        NpyFile::new(&member(bytes, name)[..]).unwrap().shape().to_vec()
    }

    fn deflated(set: Dataset, level: u32) -> Dataset {
        Dataset { compression: Compression::Zip, compression_level: level, ..set }
    }

    fn assert_undecodable(format: &FileFormat, bytes: &[u8], told: &str) {
        let error = format.decode(0, 0..1, bytes).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn lengths_are_those_of_the_original() {
        let len = |set: &Dataset| format(set).length(0);
        let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npz, 1, 1000.0) };
        assert_eq!(len(&set), Length::Exact(2388));
        let set = dataset(Format::Npz, 1, 65_536.0);
        assert_eq!(len(&set), Length::Exact(65_536 + 8 + 450));
        for (record_length, stdev, lengths) in [
            (100_000.0, 40_000.0, [144_858, 69_128, 96_308, 107_362]),
            (65_536.0, 16_384.0, [82_844 + 458, 52_530 + 458, 63_800 + 458, 68_376 + 458]),
        ] {
            let set = dataset(Format::Npz, 4, record_length);
            let format = format(&Dataset { record_length_bytes_stdev: stdev, ..set });
            for (file, length) in (0..).zip(lengths) {
                assert_eq!(format.length(file), Length::Exact(length));
                assert_eq!(made(&format, file).len() as u64, length);
            }
        }
    }

    #[test]
    fn other_readers_find_samples_and_labels() {
        for (record_length, samples) in [(1000.0, 2), (65_536.0, 1), (1.0, 1), (90_000.0, 40)] {
            let set =
                Dataset { num_samples_per_file: samples, ..dataset(Format::Npz, 3, record_length) };
            let stored = format(&set);
            let bytes = made(&stored, 2);
            let side = record_length.sqrt() as u64;
            let archive = ZipArchive::new(Cursor::new(&bytes[..])).unwrap();
            let names: Vec<_> = archive.file_names().map(Result::unwrap).collect();
            assert_eq!(names, ["x.npy", "y.npy"]);

            let x = member(&bytes, "x.npy");
            let x = NpyFile::new(&x[..]).unwrap();
            assert_eq!(x.shape(), [side, side, samples]);
            assert_eq!(x.order(), npyz::Order::C);
            let values: Vec<u8> = x.into_vec().unwrap();
            assert_eq!(values.len() as u64, side * side * samples);

            let y = member(&bytes, "y.npy");
            let y = NpyFile::new(&y[..]).unwrap();
            assert_eq!(y.shape(), [samples]);
            assert_eq!(y.into_vec::<i64>().unwrap(), vec![0; samples as usize]);
            assert_eq!(stored.decode(2, 0..samples, &bytes), Ok(()));
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
            let format = format(&set);
            let bytes = made(&format, 1);
            assert_eq!(bytes.len() as u64, format.file_len(1));
            assert_eq!(format.verify(1, 0..3, &bytes), Ok(()));
            assert_eq!(format.decode(1, 0..3, &bytes), Ok(()));
            assert_eq!(shape(&bytes, "x.npy"), [dims, vec![3]].concat());
        }
    }

    #[test]
    fn drawn_sides_are_the_shape() {
        let set =
            Dataset { record_length_bytes_stdev: 16_384.0, ..dataset(Format::Npz, 4, 65_536.0) };
        assert_eq!(shape(&made(&format(&set), 1), "x.npy"), [206, 255, 1]);
    }

    #[test]
    fn a_member_is_the_npy_file_of_the_same_set_for_every_element_type() {
        for element in ELEMENT_TYPES {
            let npz = format(&of_type(Format::Npz, element));
            let bytes = made(&npz, 1);
            assert_eq!(bytes.len() as u64, npz.file_len(1));
            assert_eq!(member(&bytes, "x.npy"), made(&format(&of_type(Format::Npy, element)), 1));
            assert_eq!(npz.verify(1, 0..3, &bytes), Ok(()));
            assert_eq!(npz.decode(1, 0..3, &bytes), Ok(()));
        }
    }

    #[test]
    fn deflated_members_hold_the_same_and_become_as_small_as_configured() {
        for (compressibility, level) in [(1.0, 6), (4.0, 6), (4.0, 9), (4.0, 1), (1.0, 0)] {
            let set = Dataset {
                compressibility,
                num_samples_per_file: 5,
                ..dataset(Format::Npz, 3, 200_000.0)
            };
            let plain = made(&format(&set), 1);
            let deflated = format(&deflated(set, level));
            let bytes = made(&deflated, 1);
            for name in ["x.npy", "y.npy"] {
                assert_eq!(member(&bytes, name), member(&plain, name));
                let mut archive = ZipArchive::new(Cursor::new(&bytes[..])).unwrap();
                let method = archive.by_name(name).unwrap().compression();
                assert_eq!(method, CompressionMethod::Deflated);
            }
            let Length::About(guess) = deflated.length(1) else { panic!("it cannot be known") };
            let off = bytes.len() as f64 / guess as f64;
            assert!((0.9..1.1).contains(&off), "{} not {guess}", bytes.len());
            assert_eq!(deflated.verify(1, 0..5, &bytes), Ok(()));
            assert_eq!(deflated.decode(1, 0..5, &bytes), Ok(()));
            // Made anew in a file of its own length.
            assert_eq!(made(&deflated, 1), bytes);
            let end = bytes.len() as u64;
            let cut = deflated.verify(1, 0..5, &bytes[..bytes.len() - 1]);
            assert_eq!(cut, Err(Mismatch::Length { expected: end, found: end - 1 }));
            let other = deflated.verify(2, 0..5, &bytes);
            assert_eq!(other, Err(Mismatch::Foreign { seed: 10, file: 2 }));
        }
    }

    #[test]
    fn a_flipped_byte_is_found_in_its_sample() {
        let set = Dataset { num_samples_per_file: 3, ..of_type(Format::Npz, ElementType::Float32) };
        let format_of = format(&set);
        let good = made(&format_of, 1);
        let start = 30 + 5 + 128;
        for (element, inside) in [(0, 0), (1, 3), (5, 1), (7, 2)] {
            let mut bad = good.clone();
            let offset = start + element * 4 + inside;
            bad[offset] ^= 1;
            let sample = Some(element as u64 % 3);
            let offset = offset as u64;
            let expected = Err(Mismatch::Content { offset, sample });
            assert_eq!(format_of.verify(1, 0..3, &bad), expected);
            assert_undecodable(&format_of, &bad, "x.npy: Invalid checksum");
        }
        let format = format(&deflated(set, 6));
        let mut bad = made(&format, 1);
        bad[start] ^= 1;
        let expected = Err(Mismatch::Content { offset: start as u64, sample: None });
        assert_eq!(format.verify(1, 0..3, &bad), expected);
    }

    /// A member as other writers have it: a 64-bit extension that nobody needs, as `NumPy` asks for,
    /// or a checksum behind the data, as writers do that cannot seek.
    fn push_foreign(name: &str, content: &[u8], descriptor: bool, out: &mut Vec<u8>) -> Vec<u8> {
        let (offset, len, crc) = (out.len() as u32, content.len() as u32, crc32fast::hash(content));
        let fields = |known: bool, wide: bool, extra: u16, out: &mut Vec<u8>| {
            let flags = if descriptor { 8_u16 } else { 0 };
            for value in [45, flags, 0, 0, 0x21] {
                out.extend(value.to_le_bytes());
            }
            let size = if wide { u32::MAX } else { len };
            for value in [crc, size, size] {
                out.extend(if known { value } else { 0 }.to_le_bytes());
            }
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(extra.to_le_bytes());
        };
        out.extend(b"PK\x03\x04");
        fields(!descriptor, !descriptor, if descriptor { 0 } else { 20 }, out);
        out.extend(name.as_bytes());
        if !descriptor {
            out.extend([1, 0, 16, 0]);
            for _ in 0..2 {
                out.extend(u64::from(len).to_le_bytes());
            }
        }
        out.extend(content);
        if descriptor {
            out.extend(b"PK\x07\x08");
            for value in [crc, len, len] {
                out.extend(value.to_le_bytes());
            }
        }
        let mut listed = b"PK\x01\x02\x2d\x03".to_vec();
        fields(true, false, 0, &mut listed);
        listed.extend([0; 6]);
        listed.extend((0o600_u32 << 16).to_le_bytes());
        listed.extend(offset.to_le_bytes());
        listed.extend(name.as_bytes());
        listed
    }

    fn foreign(members: &[(&str, &[u8])], descriptor: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let listed: Vec<_> = members
            .iter()
            .flat_map(|(name, content)| push_foreign(name, content, descriptor, &mut out))
            .collect();
        let (start, count) = (out.len() as u32, members.len() as u16);
        out.extend(&listed);
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend([count.to_le_bytes(); 2].concat());
        out.extend((listed.len() as u32).to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend([0; 2]);
        out
    }

    #[test]
    fn archives_of_other_writers_decode() {
        let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npz, 1, 1000.0) };
        let format = format(&set);
        let own = made(&format, 0);
        let (x, y) = (member(&own, "x.npy"), member(&own, "y.npy"));
        let (x, y) = (("x.npy", &x[..]), ("y.npy", &y[..]));
        let numpy = foreign(&[x, y], false);
        // The size of NumPy's writer.
        assert_eq!(numpy.len(), 2428);
        assert_eq!(format.decode(0, 0..2, &numpy), Ok(()));
        for members in [&[y, x][..], &[("z.npy", &[1, 2]), x, y], &[x]] {
            for descriptor in [false, true] {
                assert_eq!(format.decode(0, 0..2, &foreign(members, descriptor)), Ok(()));
            }
        }
        assert_undecodable(&format, &foreign(&[y], false), "x.npy: the archive has no such member");
        let lone = foreign(&[x, ("y.npy", &y.1[..140])], false);
        assert_undecodable(&format, &lone, "y.npy: its shape [2] asks for 16 bytes, but it has 12");
    }

    #[test]
    fn what_does_not_decode_is_told() {
        let set = Dataset { num_samples_per_file: 4, ..dataset(Format::Npz, 1, 1000.0) };
        let more = format(&Dataset { num_samples_per_file: 8, ..set.clone() });
        for set in [set.clone(), deflated(set, 6)] {
            let bytes = made(&format(&set), 0);
            assert_undecodable(
                &more,
                &bytes,
                "x.npy: 4 samples are stored (shape [31, 31, 4]), but dataset.num_samples_per_file is 8",
            );
            for cut in [0, 1, 100, 2000, bytes.len() - 1] {
                assert_undecodable(&more, &bytes[..cut], "no ZIP archive, or damaged");
            }
        }
    }

    /// Keeps the begin and the end of a file.
    struct Ends {
        head: Vec<u8>,
        tail: Vec<u8>,
        len: u64,
    }

    const HEAD: usize = 4096;
    const TAIL: usize = 1024;

    impl Out for Ends {
        fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
            let room = (HEAD - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..room]);
            self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
            self.len += bytes.len() as u64;
            Ok(())
        }

        fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
            self.framing(bytes)
        }

        fn later(&mut self, len: usize) -> Result<Later, Stopped> {
            let offset = self.len;
            self.framing(&vec![0; len])?;
            Ok(Later { offset, len })
        }

        fn fill_in(&mut self, place: Later, bytes: &[u8]) {
            self.head[place.offset as usize..][..place.len].copy_from_slice(bytes);
        }
    }

    #[test]
    fn an_archive_beyond_4_gib_has_wide_sizes() {
        let set = Dataset { record_dims: vec![(1 << 32) + 7], ..dataset(Format::Npz, 1, 4.3e9) };
        let format = format(&set);
        let Length::Exact(len) = format.length(0) else { panic!("it is known") };
        let mut ends = Ends { head: Vec::new(), tail: Vec::new(), len: 0 };
        assert_eq!(format.write_to(0, &mut ends), Ok(()));
        assert_eq!(ends.len, len);
        // Two headers and labels in the tail end where the file does; x's header is in the head.
        let x_size = (1_u64 << 32) + 7 + 128;
        let wide = [x_size.to_le_bytes(); 2].concat();
        assert_eq!(ends.head[30 + 5 + 4..][..16], wide);
        let at = |text: &[u8]| ends.tail.windows(text.len()).position(|here| here == text);
        let entry = at(b"PK\x01\x02").expect("the directory is in the tail");
        assert_eq!(ends.tail[entry + 46 + 5 + 4..][..16], wide);
        assert_eq!(ends.tail[entry + 16..][..4], ends.head[14..18], "the checksum");
        let y = at(b"PK\x03\x04").expect("the labels are in the tail");
        let y_offset = len - (ends.tail.len() - y) as u64;
        assert_eq!(y_offset, 30 + 5 + 20 + x_size);
        let wide_end = at(b"PK\x06\x06").expect("the wide end is in the tail");
        let directory = ends.tail[wide_end + 48..][..8].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(directory), len - (ends.tail.len() - entry) as u64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn damaged_files_never_panic(damage in any::<Damage>(), level in 0..10_u32) {
            let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npz, 1, 100.0) };
            let stored = format(&set);
            let bytes = made(&stored, 0);
            let _ = stored.decode(0, 0..2, &damage.done_to(&bytes));
            let _ = stored.decode(0, 0..2, &damage.done_to(&made(&format(&deflated(set, level)), 0)));
            // Behind a right checksum, the array's own header is looked at.
            let x = damage.done_to(&member(&bytes, "x.npy"));
            let _ = stored.decode(0, 0..2, &foreign(&[("x.npy", &x)], false));
        }
    }
}
