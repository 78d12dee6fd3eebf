//! `TFRecord`: records of a length, a payload and checksums of both; the payload is a `tf.train.Example`
//! around the sample's bytes.
//!
//! All records of a file have one length, so any of them is found by arithmetic. The index that stands
//! beside a file says where they are to programs that do not reckon with this.
//!
//! A record (`record_writer.h` of `TensorFlow`), numbers little-endian:
//!
//! ```text
//! u64  length of the payload
//! u32  masked CRC-32C of the 8 bytes before
//!      payload
//! u32  masked CRC-32C of the payload
//! ```

mod example;

use std::fmt;
use std::io::Write;
use std::ops::{Range, RangeInclusive};

use crc32c::{crc32c, crc32c_append};

use self::example::{Malformed, Wrapping, payload_len};
use super::files::{Files, Length, Side, Undecodable};
use super::out::{Out, Stopped, pour};
use super::samples::{LONGEST, Samples};
use super::{FormatError, Ingredients};
use crate::Cut;
use crate::content::PIECE;

/// Bytes of a record before and behind the payload.
const HEADER: u64 = 8 + 4;
const FOOTER: u64 = 4;

/// Bytes of the largest payload: protocol buffers count in signed 32 bits.
const LARGEST_PAYLOAD: u64 = i32::MAX as u64;

/// Bytes of an AES block: content is quickest from the start of one on.
const BLOCK: u64 = 16;

/// Room for the longest line of an index: two numbers, a blank and a line feed.
const LONGEST_LINE: usize = 2 * 20 + 2;

/// The `TFRecord` files of a set.
#[derive(Clone)]
pub(super) struct Tfrecord {
    samples: Samples,
    cut: Cut,
}

impl fmt::Debug for Tfrecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tfrecord").field("cut", &self.cut).finish_non_exhaustive()
    }
}

impl Tfrecord {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let dims = &made_from.dataset.record_dims;
        let key =
            if dims.is_empty() { "dataset.record_length_bytes" } else { "dataset.record_dims" };
        let samples = Samples::new(made_from);
        let largest = payload_len(samples.largest());
        if largest > LARGEST_PAYLOAD {
            let why = format!(
                "the largest record would have {largest} bytes, but a tf.train.Example has at most \
                 {LARGEST_PAYLOAD}: lower it"
            );
            return Err(FormatError::Unfit { key, why });
        }
        let cut = Cut::of_samples(HEADER + largest + FOOTER);
        Ok(Self { samples, cut })
    }

    /// Bytes of each record of `file`.
    fn record_len(&self, file: u64) -> u64 {
        HEADER + payload_len(self.samples.len(file)) + FOOTER
    }

    fn bytes_of(&self, file: u64, samples: Range<u64>) -> Range<u64> {
        let len = self.record_len(file);
        samples.start * len..samples.end * len
    }
}

impl Files for Tfrecord {
    fn length(&self, file: u64) -> Length {
        Length::Exact(self.record_len(file).saturating_mul(self.samples.per_file()))
    }

    fn lengths(&self) -> RangeInclusive<u64> {
        0..=LONGEST
    }

    fn write(&self, file: u64, samples: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let image = self.samples.len(file);
        let Wrapping { prefix, suffix, .. } = Wrapping::new(image);
        let length = payload_len(image).to_le_bytes();
        let mut head = length.to_vec();
        head.extend_from_slice(&masked(crc32c(&length)).to_le_bytes());
        head.extend_from_slice(&prefix);
        let crc_of_prefix = crc32c(&prefix);
        for sample in samples {
            out.framing(&head)?;
            let mut crc = crc_of_prefix;
            let stream = self.samples.stream(file, sample * image.next_multiple_of(BLOCK));
            pour(stream, image, out, |piece| crc = crc32c_append(crc, piece))?;
            out.framing(&suffix)?;
            crc = crc32c_append(crc, &suffix);
            out.content(&masked(crc).to_le_bytes())?;
        }
        Ok(())
    }

    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        Some(offset / self.record_len(file))
    }

    fn cut(&self) -> Cut {
        self.cut.clone()
    }

    fn place(&self, file: u64, samples: Range<u64>) -> Option<Range<u64>> {
        Some(self.bytes_of(file, samples))
    }

    fn decode(&self, file: u64, samples: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let start = self.bytes_of(file, samples.clone()).start;
        let (mut stored, mut rest) = (0, found);
        while !rest.is_empty() {
            let offset = start + (found.len() - rest.len()) as u64;
            let checked = payload(&mut rest).and_then(|payload| Ok(example::check(payload)?));
            checked.map_err(|broken| {
                let what = format_args!("the record at byte {offset} is broken: {broken}");
                Undecodable::sample(samples.start.saturating_add(stored), what)
            })?;
            stored += 1;
        }
        let configured = samples.end - samples.start;
        if stored != configured {
            return Err(Undecodable::file(format_args!(
                "{stored} records are stored, but {configured} are configured \
                 (dataset.num_samples_per_file)"
            )));
        }
        Ok(())
    }

    fn write_side(&self, file: u64, _: Side, out: &mut dyn Out) -> Result<(), Stopped> {
        let len = self.record_len(file);
        let mut lines = Vec::with_capacity(PIECE);
        for sample in 0..self.samples.per_file() {
            let _ = writeln!(lines, "{} {len}", sample * len);
            if lines.len() + LONGEST_LINE > PIECE {
                out.framing(&lines)?;
                lines.clear();
            }
        }
        out.framing(&lines)
    }
}

/// Why bytes are no record of a sample.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("it is cut off: {found} bytes are left, but it needs {expected}")]
    Truncated { found: u64, expected: u64 },
    #[error(
        "the checksum of its length is {stored:#010x}, but that of these bytes is {actual:#010x}"
    )]
    LengthChecksum { stored: u32, actual: u32 },
    #[error(
        "the checksum of its payload is {stored:#010x}, but that of these bytes is {actual:#010x}"
    )]
    PayloadChecksum { stored: u32, actual: u32 },
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Takes the payload of the first record off `bytes`.
fn payload<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Broken> {
    let found = bytes.len() as u64;
    let truncated = |expected| Broken::Truncated { found, expected };
    let (length, rest) = bytes.split_first_chunk().ok_or(truncated(HEADER))?;
    let (checksum, rest) = rest.split_first_chunk().ok_or(truncated(HEADER))?;
    let (stored, actual) = (u32::from_le_bytes(*checksum), masked(crc32c(length)));
    if stored != actual {
        return Err(Broken::LengthChecksum { stored, actual });
    }
    let length = u64::from_le_bytes(*length);
    let whole = truncated(length.saturating_add(HEADER + FOOTER));
    let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((payload, rest)) = split else { return Err(whole) };
    let Some((checksum, rest)) = rest.split_first_chunk() else { return Err(whole) };
    let (stored, actual) = (u32::from_le_bytes(*checksum), masked(crc32c(payload)));
    if stored != actual {
        return Err(Broken::PayloadChecksum { stored, actual });
    }
    *bytes = rest;
    Ok(payload)
}

/// A checksum as it is stored: turned and raised, so that checksums of data with checksums in it are
/// none of themselves.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{Dataset, ElementType, Format, Split};
    use proptest::prelude::*;

    use super::*;
    use crate::format::samples::testing::{self, format, made, part, side_file};
    use crate::{FileFormat, Mismatch};

    fn set(record_length: f64, samples: u64) -> Dataset {
        testing::set(Format::Tfrecord, record_length, samples)
    }

    /// CRC-32C bit by bit, masked.
    fn slow_masked(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        (!crc).rotate_left(17).wrapping_add(0xa282_ead8)
    }

    /// The payloads of a file, read by what the format's description says alone.
    fn payloads(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut payloads = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes[8..12], slow_masked(&bytes[..8]).to_le_bytes());
            let end = 12 + length as usize;
            let payload = &bytes[12..end];
            assert_eq!(bytes[end..end + 4], slow_masked(payload).to_le_bytes());
            payloads.push(payload);
            bytes = &bytes[end + 4..];
        }
        payloads
    }

    /// The only field of a message: its tag and its bytes, which are all of the message.
    fn only_field(message: &[u8]) -> (u8, &[u8]) {
        let (tag, len, rest) = field(message);
        assert_eq!(len, rest.len());
        (tag, rest)
    }

    /// Tag and length of the first field of a message, and all that comes after these.
    fn field(message: &[u8]) -> (u8, usize, &[u8]) {
        let (len, rest) = number(&message[1..]);
        (message[0], len as usize, rest)
    }

    fn number(bytes: &[u8]) -> (u64, &[u8]) {
        let last = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
        let bits = bytes[..=last].iter().rev();
        (bits.fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)), &bytes[last + 1..])
    }

    /// The image of an Example whose first feature is `image` and whose second is `size`.
    fn image(payload: &[u8]) -> &[u8] {
        let (0x0a, features) = only_field(payload) else { panic!("no features") };
        let (0x0a, len, features) = field(features) else { panic!("no entry") };
        let (first, second) = features.split_at(len);
        assert_eq!(first[..8], *b"\x0a\x05image\x12");
        let (0x12, value) = only_field(&first[7..]) else { panic!("no value") };
        let (0x0a, list) = only_field(value) else { panic!("no list of bytes") };
        let (0x0a, image) = only_field(list) else { panic!("no bytes") };
        let (0x0a, second) = only_field(second) else { panic!("no entry") };
        assert_eq!(second[..7], *b"\x0a\x04size\x12");
        let (0x12, value) = only_field(&second[6..]) else { panic!("no value") };
        let (0x1a, list) = only_field(value) else { panic!("no list of integers") };
        let (0x0a, packed) = only_field(list) else { panic!("no integers") };
        assert_eq!(number(packed), (image.len() as u64, [].as_slice()));
        image
    }

    #[test]
    fn lengths_are_those_of_the_original() {
        let resnet50 = format(&set(114_660.07, 1251));
        assert_eq!(resnet50.place(0, 7..8), Some(7 * 114_304..8 * 114_304));
        assert_eq!(resnet50.file_len(0), 142_994_304);
        assert_eq!(resnet50.cut(), Cut::Samples(36));
        let cosmoflow = Dataset { record_length_bytes_stdev: 71_311.0, ..set(2_828_486.0, 1) };
        let cosmoflow = format(&cosmoflow);
        assert!(
            (0..20).all(|file| made(&cosmoflow, file).len() as u64 == cosmoflow.file_len(file))
        );
    }

    #[test]
    fn another_reader_finds_the_samples() {
        let stdev = Dataset { record_length_bytes_stdev: 9000.0, ..set(20_000.0, 3) };
        let float = Dataset {
            record_dims: vec![4, 100, 6],
            record_element_type: ElementType::Float32,
            ..set(9600.0, 5)
        };
        for (set, expected) in [
            (set(1.0, 3), Some(1)),
            (set(130.0, 2), Some(121)),
            (set(114_660.07, 2), Some(114_244)),
            (stdev, None),
            (float, Some(9600)),
        ] {
            let format = format(&set);
            for file in [0, 7] {
                let bytes = made(&format, file);
                let images: Vec<_> = payloads(&bytes).into_iter().map(image).collect();
                assert_eq!(images.len() as u64, set.num_samples_per_file);
                let len = images[0].len();
                assert!(images.iter().all(|image| image.len() == len));
                assert!(expected.is_none_or(|expected| expected == len));
                assert!(len == 1 || images[0] != images[1]);
                if set.record_element_type == ElementType::Float32 {
                    let floats = images[0].as_chunks().0.iter();
                    assert!(floats.copied().map(f32::from_le_bytes).all(f32::is_finite));
                }
                assert_eq!(format.decode(file, 0..set.num_samples_per_file, &bytes), Ok(()));
            }
        }
    }

    #[test]
    fn the_index_says_where_records_are() {
        for samples in [1, 3, 2000] {
            let format = format(&set(1000.0, samples));
            let index = String::from_utf8(side_file(&format, 2, Side::Records)).unwrap();
            assert!(index.ends_with('\n'));
            let bytes = made(&format, 2);
            let mut end = 0;
            assert_eq!(index.lines().count() as u64, samples);
            for line in index.lines() {
                let (offset, length) = line.split_once(' ').unwrap();
                let (offset, length): (usize, usize) =
                    (offset.parse().unwrap(), length.parse().unwrap());
                assert_eq!(offset, end);
                end = offset + length;
                assert_eq!(payloads(&bytes[offset..end]).len(), 1);
            }
            assert_eq!(end, bytes.len());
        }
    }

    #[test]
    fn a_flipped_bit_is_found_by_both_checks_wherever_it_is() {
        let format = format(&set(1000.0, 4));
        let good = made(&format, 1);
        let record = good.len() / 4;
        for offset in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[offset] ^= 0x20;
            let sample = (offset / record) as u64;
            let place = Mismatch::Content { offset: offset as u64, sample: Some(sample) };
            assert_eq!(format.verify(1, 0..4, &bad), Err(place));
            let broken = format.decode(1, 0..4, &bad).unwrap_err();
            assert_eq!(broken.sample, Some(sample));
            let at = sample as usize * record;
            assert!(broken.what.contains(&format!("record at byte {at} ")), "{broken}");
            assert!(broken.what.contains("checksum"), "{broken}");
        }
    }

    #[test]
    fn a_part_is_checked_like_the_whole() {
        let format = format(&set(1000.0, 9));
        let good = part(&format, 3, 4..7);
        let place = format.place(3, 4..7).unwrap();
        assert_eq!(good.len() as u64, place.end - place.start);
        assert_eq!(format.verify(3, 4..7, &good), Ok(()));
        assert_eq!(format.decode(3, 4..7, &good), Ok(()));
        let mut bad = good.clone();
        let inside = good.len() / 3 + 500;
        bad[inside] ^= 1;
        let offset = place.start + inside as u64;
        let expected = Mismatch::Content { offset, sample: Some(5) };
        assert_eq!(format.verify(3, 4..7, &bad), Err(expected));
        let broken = format.decode(3, 4..7, &bad).unwrap_err();
        assert_eq!(broken.sample, Some(5));
        let record = place.start + good.len() as u64 / 3;
        assert!(broken.what.contains(&format!("record at byte {record} ")), "{broken}");
        let foreign = Mismatch::Foreign { seed: 10, file: 3 };
        assert_eq!(format.verify(3, 4..7, &part(&format, 3, 5..8)), Err(foreign));
    }

    #[test]
    fn cut_files_and_other_counts_are_told() {
        let format = format(&set(1000.0, 8));
        let good = made(&format, 0);
        let record = good.len() / 8;
        let told = |bytes: &[u8]| format.decode(0, 0..8, bytes).unwrap_err().to_string();
        assert_eq!(
            told(&good[..4 * record]),
            "4 records are stored, but 8 are configured (dataset.num_samples_per_file)"
        );
        assert!(told(&[]).starts_with("0 records are stored, but 8"));
        assert!(told(&[&good[..], &good].concat()).starts_with("16 records are stored, but 8"));
        for kept in [1, 11, 12, 500, record - 1] {
            let text = told(&good[..2 * record + kept]);
            let start = format!(
                "sample 2: the record at byte {} is broken: it is cut off: {kept} bytes are left",
                2 * record
            );
            assert!(text.starts_with(&start), "{text}");
        }
        let found = 4 * record as u64;
        let expected = good.len() as u64;
        let cut = format.verify(0, 0..8, &good[..4 * record]);
        assert_eq!(cut, Err(Mismatch::Length { expected, found }));
    }

    #[test]
    fn a_length_that_lies_is_told_even_with_its_checksum() {
        let format = format(&set(1000.0, 1));
        for length in [u64::MAX, u64::MAX - 15, 1 << 40, 1022] {
            let mut bad = made(&format, 0);
            bad[..8].copy_from_slice(&u64::to_le_bytes(length));
            let checksum = slow_masked(&bad[..8]);
            bad[8..12].copy_from_slice(&checksum.to_le_bytes());
            let broken = format.decode(0, 0..1, &bad).unwrap_err();
            assert!(broken.what.contains("it is cut off"), "{broken}");
        }
    }

    #[test]
    fn a_record_of_something_else_is_told() {
        let format = format(&set(1000.0, 1));
        let framed = |payload: &[u8]| {
            let length = (payload.len() as u64).to_le_bytes();
            let checksums = [&length, payload].map(|bytes| slow_masked(bytes).to_le_bytes());
            [&length, &checksums[0][..], payload, &checksums[1]].concat()
        };
        assert_eq!(
            format.decode(
                0,
                0..1,
                &framed(
                    b"\x0a\x21\
            \x0a\x10\x0a\x05image\x12\x07\x0a\x05\x0a\x03abc\
            \x0a\x0d\x0a\x04size\x12\x05\x1a\x03\x0a\x01\x03"
                )
            ),
            Ok(())
        );
        let broken = format.decode(0, 0..1, &framed(b"\x0a\x02")).unwrap_err();
        assert!(broken.what.contains("no tf.train.Example"), "{broken}");
        let broken = format.decode(0, 0..1, &framed(b"")).unwrap_err();
        assert!(broken.what.contains("no feature `image`"), "{broken}");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..100)) {
            let format = format(&set(100.0, 1));
            prop_assert!(format.decode(0, 0..1, &garbage).is_err());
            prop_assert!(format.verify(0, 0..1, &garbage).is_err());
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused_and_nothing_overflows() {
        let new =
            |set: &Dataset| FileFormat::new(set, Split::Train).map(|format| format.total_bytes());
        let large = new(&set(2.2e9, 1));
        let Err(FormatError::Unfit { key: "dataset.record_length_bytes", why }) = large else {
            panic!("{large:?}");
        };
        assert!(why.contains("at most 2147483647"), "{why}");
        let vast = Dataset { record_dims: vec![1 << 40; 3], ..set(1e9, 1) };
        let refused = new(&vast);
        let told = matches!(refused, Err(FormatError::Unfit { key: "dataset.record_dims", .. }));
        assert!(told, "{refused:?}");
        assert!(matches!(new(&set(1e6, u64::MAX)), Err(FormatError::TooLarge { .. })));
        let long = format(&set(1e6, 1_000_000_000));
        let last = 1_000_000_000 - 1;
        let bytes = part(&long, 19, last..last + 1);
        assert_eq!(long.place(19, last..last + 1).unwrap().end, long.file_len(19));
        assert_eq!(long.verify(19, last..last + 1, &bytes), Ok(()));
        assert_eq!(new(&set(1e6, 1_000_000_000)), Ok(20 * 1_000_060_000_000_000));
    }
}
