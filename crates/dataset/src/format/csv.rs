//! CSV: a row of decimal numbers a sample, without a header (spec/dlio.md 4.3), perhaps compressed as a
//! whole.
//!
//! A row has as many values as a sample has elements, so that it is the number of values that
//! `dataset.record_length_bytes` gives, as in the original; how many bytes they take depends on the
//! values. Rows are read by reading the file, since only that tells where they begin.

mod packing;
mod text;

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use feedrate_workload::ElementType;

use self::packing::Packing;
use self::text::Text;
use super::files::{Files, Length, Undecodable};
use super::out::{Counted, Out, Stopped, Writer};
use super::{FormatError, Ingredients};
use crate::content::{Content, PIECE};
use crate::sizes::Sizes;

/// Values that are made to find out how long values are.
const PROBE: u64 = 1 << 13;

/// The CSV files of a set.
#[derive(Clone)]
pub(super) struct Csv {
    content: Content,
    sizes: Sizes,
    samples: u64,
    element: ElementType,
    text: Text,
    packing: Packing,
    /// Bytes of a file without values.
    framing: u64,
    /// Bytes that a value takes in a file, about.
    value: f64,
}

impl fmt::Debug for Csv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, element, packing, value, .. } = self;
        f.debug_struct("Csv")
            .field("samples", samples)
            .field("element", element)
            .field("packing", packing)
            .field("value", value)
            .finish_non_exhaustive()
    }
}

impl Csv {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let element = dataset.record_element_type;
        let mut this = Self {
            content,
            sizes,
            samples: dataset.num_samples_per_file,
            element,
            text: Text::new(element),
            packing: Packing::new(dataset)?,
            framing: 0,
            value: 0.0,
        };
        this.framing = this.packed_len(0);
        this.value = (this.packed_len(PROBE) - this.framing) as f64 / PROBE as f64;
        Ok(this)
    }

    /// Bytes of a file of one row of so many values.
    fn packed_len(&self, values: u64) -> u64 {
        let mut counted = Counted::default();
        let outcome = self.write_packed(0, values, 1, &mut counted);
        debug_assert_eq!(outcome, Ok(()));
        counted.0
    }

    fn write_packed(
        &self,
        file: u64,
        values: u64,
        rows: u64,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        let member = format!("{file}.csv");
        self.packing
            .pack(&member, Writer(out), |text| self.write_rows(file, values, rows, text))
            // All that can fail is what `out` does.
            .map_err(|_| Stopped)
    }

    /// Writes `rows` rows of so many `values`, piece by piece.
    fn write_rows(&self, file: u64, values: u64, rows: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut stream = self.content.elements(file, 0, self.element);
        let row = values.saturating_mul(self.element.size());
        let mut left = row.saturating_mul(rows);
        let mut left_in_row = row;
        let mut scratch = [0; PIECE];
        let mut text = Vec::new();
        while left > 0 {
            let piece = &mut scratch[..left.min(PIECE as u64) as usize];
            stream.fill(piece);
            text.clear();
            let mut rest = &*piece;
            while !rest.is_empty() {
                let (run, behind) = rest.split_at(left_in_row.min(rest.len() as u64) as usize);
                self.text.push(run, &mut text);
                left_in_row -= run.len() as u64;
                if left_in_row == 0 {
                    left_in_row = row;
                    // In the place of the last value's comma.
                    text.pop();
                    text.push(b'\n');
                }
                rest = behind;
            }
            out.write_all(&text)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }
}

impl Files for Csv {
    fn length(&self, file: u64) -> Length {
        let values = self.sizes.elements(file).saturating_mul(self.samples);
        let bytes = values as f64 * self.value;
        Length::About((bytes as u64).saturating_add(self.framing))
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        self.write_packed(file, self.sizes.elements(file), self.samples, out)
    }

    /// Rows vary in length.
    fn sample_at(&self, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let packing = Packing::found(found).unwrap_or(self.packing);
        packing.unpack(found, |text| {
            text::read(text, self.element, self.samples, |error| packing.unreadable(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::Read;

    use feedrate_workload::{Compression, Dataset, Format, Split};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{ELEMENT_TYPES, dataset};
    use crate::{FileFormat, Mismatch};

    const PACKINGS: [(Compression, u32); 5] = [
        (Compression::None, 0),
        (Compression::Gzip, 6),
        (Compression::Bz2, 9),
        (Compression::Xz, 6),
        (Compression::Zip, 6),
    ];

    /// 20 files of `samples` rows of 30 x 30 values.
    fn set(samples: u64) -> Dataset {
        Dataset { num_samples_per_file: samples, ..dataset(Format::Csv, 20, 900.0) }
    }

    fn packed((compression, compression_level): (Compression, u32), set: Dataset) -> Dataset {
        Dataset { compression, compression_level, ..set }
    }

    fn format(set: &Dataset) -> FileFormat {
        FileFormat::new(set, Split::Train).expect("the set can be made")
    }

    fn made(format: &FileFormat, file: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        bytes
    }

    /// The text in a file, by a reader that takes it as a whole.
    fn text(compression: Compression, bytes: &[u8]) -> String {
        let mut text = String::new();
        match compression {
            Compression::Gzip => {
                flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("gzip");
            }
            Compression::Bz2 => {
                bzip2::read::BzDecoder::new(bytes).read_to_string(&mut text).expect("bz2");
            }
            Compression::Xz => {
                lzma_rust2::XzReader::new(bytes, false).read_to_string(&mut text).expect("xz");
            }
            Compression::Zip => {
                let mut archive = zip::ZipArchive::new(io::Cursor::new(bytes)).expect("zip");
                assert_eq!(archive.len(), 1);
                archive.by_index(0).expect("a member").read_to_string(&mut text).expect("deflate");
            }
            _ => text = String::from_utf8(bytes.to_vec()).expect("text"),
        }
        text
    }

    /// The values of all rows, read as `T`.
    fn values<T: std::str::FromStr>(text: &str) -> Vec<Vec<T>> {
        let value = |value: &str| value.parse().ok().unwrap_or_else(|| panic!("{value:?}"));
        let rows = text.strip_suffix('\n').expect("the last row ends").split('\n');
        rows.map(|row| row.split(',').map(value).collect()).collect()
    }

    #[test]
    fn rows_are_the_content_in_decimal_and_all_differ() {
        for packing in PACKINGS {
            let set = packed(packing, set(7));
            let mut seen = HashSet::new();
            for file in 0..3 {
                let rows = values::<u8>(&text(packing.0, &made(&format(&set), file)));
                assert_eq!(rows.len(), 7);
                let mut content = vec![0; 7 * 900];
                Content::of(&set, Split::Train).stream(file, 0).fill(&mut content);
                assert_eq!(rows.concat(), content);
                for row in rows {
                    assert_eq!(row.len(), 900);
                    assert!(seen.insert(row), "a row occurs twice");
                }
            }
        }
    }

    #[test]
    fn all_element_types_come_back_as_they_were() {
        macro_rules! check {
            ($set:expr, $type:ty) => {{
                let set = $set;
                let rows = values::<$type>(&text(Compression::None, &made(&format(&set), 1)));
                let mut content = vec![0; 2 * 900 * size_of::<$type>()];
                let element = set.record_element_type;
                Content::of(&set, Split::Train).elements(1, 0, element).fill(&mut content);
                let bytes: Vec<u8> =
                    rows.concat().iter().flat_map(|value| value.to_le_bytes()).collect();
                assert!(bytes == content, "{element:?}");
            }};
        }
        for element in ELEMENT_TYPES {
            let set = Dataset { record_element_type: element, ..set(2) };
            match element {
                ElementType::Uint8 => check!(set, u8),
                ElementType::Uint16 => check!(set, u16),
                ElementType::Uint32 => check!(set, u32),
                ElementType::Uint64 => check!(set, u64),
                ElementType::Int8 => check!(set, i8),
                ElementType::Int16 => check!(set, i16),
                ElementType::Int32 => check!(set, i32),
                ElementType::Int64 => check!(set, i64),
                ElementType::Float32 => check!(set, f32),
                ElementType::Float64 => check!(set, f64),
                // The table of 16-bit floats is checked beside it.
                ElementType::Float16 => {}
            }
        }
    }

    #[test]
    fn lengths_are_about_right_whatever_is_written() {
        let plain = ELEMENT_TYPES.map(|element| (element, PACKINGS[0]));
        let bytes = PACKINGS.map(|packing| (ElementType::Uint8, packing));
        for (element, packing) in plain.into_iter().chain(bytes) {
            let set = Dataset { record_element_type: element, ..packed(packing, set(20)) };
            let format = format(&set);
            let length = made(&format, 3).len() as f64;
            let Length::About(about) = format.length(3) else { panic!("values vary") };
            let ratio = about as f64 / length;
            assert!((ratio - 1.0).abs() < 0.03, "{element:?} {packing:?}: {about} for {length}");
        }
    }

    #[test]
    fn a_value_of_a_byte_takes_as_much_as_in_the_original() {
        let format = format(&set(1000));
        let each = format.file_len(0) as f64 / 900_000.0;
        assert!((each / 3.57 - 1.0).abs() < 0.01, "{each}");
    }

    #[test]
    fn every_file_verifies_decodes_and_differs() {
        for packing in PACKINGS {
            let set = Dataset {
                record_length_bytes_stdev: 400.0,
                record_element_type: ElementType::Float32,
                ..packed(packing, set(3))
            };
            let format = format(&set);
            for file in 0..5 {
                let bytes = made(&format, file);
                assert_eq!(format.verify(file, 0..3, &bytes), Ok(()));
                assert_eq!(format.decode(file, 0..3, &bytes), Ok(()));
                assert!(format.verify(file + 1, 0..3, &bytes).is_err());
            }
        }
    }

    #[test]
    fn two_files_share_no_block() {
        for packing in PACKINGS {
            let format = format(&packed(packing, set(20)));
            let mut seen = HashSet::new();
            for file in 0..20 {
                for block in made(&format, file).chunks_exact(4096) {
                    assert!(seen.insert(block[2000..2064].to_vec()), "{packing:?} {file}");
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_is_found_wherever_it_is() {
        for packing in PACKINGS {
            let format = format(&packed(packing, set(3)));
            let good = made(&format, 1);
            for offset in (0..good.len()).step_by(211).chain([1, good.len() - 1]) {
                let mut bad = good.clone();
                bad[offset] ^= 0x10;
                let found = format.verify(1, 0..3, &bad);
                assert_eq!(found, Err(Mismatch::Content { offset: offset as u64, sample: None }));
            }
            for cut in [0, 1, good.len() / 2, good.len() - 1] {
                let found = format.verify(1, 0..3, &good[..cut]);
                assert!(matches!(found, Err(Mismatch::Length { .. })), "{packing:?} {found:?}");
            }
        }
    }

    #[test]
    fn nobody_has_to_take_the_whole_file() {
        struct Full(usize);
        impl Out for Full {
            fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(Stopped)?;
                Ok(())
            }
            fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
                self.framing(bytes)
            }
            fn later(&mut self, _: usize) -> Result<crate::format::out::Later, Stopped> {
                Err(Stopped)
            }
            fn fill_in(&mut self, _: crate::format::out::Later, _: &[u8]) {}
        }
        for packing in PACKINGS {
            let set = packed(packing, set(200));
            let format = format(&set);
            for room in [0, 10, 50_000] {
                assert_eq!(format.write_to(1, &mut Full(room)), Err(Stopped), "{packing:?} {room}");
            }
        }
    }

    #[test]
    fn a_compressed_file_is_told_by_its_first_bytes_and_a_plain_one_is_not_taken_for_one() {
        for written in PACKINGS {
            let bytes = made(&format(&packed(written, set(3))), 1);
            for configured in PACKINGS {
                let format = format(&packed(configured, set(3)));
                let decoded = format.decode(1, 0..3, &bytes);
                let is_refused =
                    written.0 == Compression::None && configured.0 != Compression::None;
                assert_eq!(decoded.is_err(), is_refused, "{written:?} {configured:?} {decoded:?}");
            }
        }
    }

    #[test]
    fn too_few_and_too_many_rows_are_told() {
        let bytes = made(&format(&set(4)), 1);
        let decode = |samples| {
            let decoded = format(&set(samples)).decode(1, 0..samples, &bytes);
            decoded.expect_err("the number is wrong").to_string()
        };
        assert_eq!(decode(8), "4 samples stored, 8 configured");
        assert_eq!(decode(3), "more than 3 samples stored, 3 configured");
    }

    #[test]
    fn what_expands_to_gigabytes_ends_at_the_first_wrong_value() {
        // A row of zeros without an end, 100 MB of them in 100 KB.
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
        for _ in 0..100 {
            gzip.write_all(&vec![b'0'; 1 << 20]).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        let error = format(&set(3)).decode(1, 0..3, &bomb).expect_err("it is no number");
        assert_eq!(error.to_string(), "sample 0: value 0 is longer than 2048 bytes");
    }

    #[test]
    fn an_xz_window_that_no_level_has_is_refused() {
        let mut options = lzma_rust2::XzOptions::with_preset(1);
        options.lzma_options.dict_size = 256 << 20;
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(b"1,2\n").unwrap();
        let bytes = xz.finish().unwrap();
        let error = format(&set(1)).decode(0, 0..1, &bytes).expect_err("too much memory");
        assert!(error.to_string().starts_with("it cannot be read as xz: "), "{error}");
    }

    proptest! {
        // Compressing takes its time.
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn no_damage_panics_and_no_end_is_missed(
            packing in prop::sample::select(&PACKINGS[..]),
            damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let format = format(&packed(packing, set(2)));
            let good = made(&format, 1);
            prop_assert_eq!(format.decode(1, 0..2, &good), Ok(()));
            let mut bad = good.clone();
            for (at, bits) in damage {
                bad[at.index(good.len())] ^= bits;
            }
            let _ = format.decode(1, 0..2, &bad);
            let cut = cut.index(good.len());
            let _ = format.decode(1, 0..2, &bad[..cut]);
            // A text can end in any digit of its last value.
            if packing.0 != Compression::None {
                prop_assert!(format.decode(1, 0..2, &good[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let format = format(&set(2));
            let _ = format.decode(0, 0..2, &bytes);
            for beginning in [&b"\x1f\x8b\x08"[..], b"BZh9", b"\xfd7zXZ\0", b"PK\x03\x04"] {
                prop_assert!(format.decode(0, 0..2, &[beginning, &bytes].concat()).is_err());
            }
        }
    }
}
