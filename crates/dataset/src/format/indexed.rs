//! Indexed binary: samples back to back and nothing else; where each begins and how long it is stand
//! in two files beside it (spec/dlio.md 4.3). The mapped kind is the same on disk.
//!
//! The indexes are written piece by piece like the samples: a file of 277 million samples has two of
//! 2.2 GB.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use super::Ingredients;
use super::files::{Files, Length, Side, Undecodable};
use super::out::{Out, Stopped, pour};
use super::samples::{LONGEST, Samples};
use crate::Cut;
use crate::content::PIECE;

/// Bytes of a number in an index.
const ENTRY: usize = 8;

/// The indexed binary files of a set.
#[derive(Clone)]
pub(super) struct Indexed {
    samples: Samples,
    cut: Cut,
}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexed").field("cut", &self.cut).finish_non_exhaustive()
    }
}

impl Indexed {
    pub(super) fn new(made_from: Ingredients<'_>) -> Self {
        let samples = Samples::new(made_from);
        let cut = Cut::of_samples(samples.largest());
        Self { samples, cut }
    }
}

impl Files for Indexed {
    fn length(&self, file: u64) -> Length {
        Length::Exact(self.samples.len(file).saturating_mul(self.samples.per_file()))
    }

    fn lengths(&self) -> RangeInclusive<u64> {
        0..=LONGEST
    }

    fn write(&self, file: u64, samples: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        let Range { start, end } = self.bytes_of(file, samples);
        pour(self.samples.stream(file, start), end - start, out, |_| ())
    }

    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        offset.checked_div(self.samples.len(file))
    }

    fn cut(&self) -> Cut {
        self.cut.clone()
    }

    fn place(&self, file: u64, samples: Range<u64>) -> Option<Range<u64>> {
        Some(self.bytes_of(file, samples))
    }

    /// Any bytes are values of an integer type, and floats that are none are still to be read: only the
    /// length can be wrong.
    fn decode(&self, file: u64, samples: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let sample = self.samples.len(file);
        let (configured, bytes) = (samples.end - samples.start, found.len() as u64);
        if !bytes.is_multiple_of(sample) {
            return Err(Undecodable::sample(
                samples.start + bytes / sample,
                format_args!("it is cut off: {} of its {sample} bytes are there", bytes % sample),
            ));
        }
        let stored = bytes / sample;
        if stored != configured {
            return Err(Undecodable::file(format_args!(
                "{stored} samples of {sample} bytes are stored, but {configured} are configured \
                 (dataset.num_samples_per_file)"
            )));
        }
        Ok(())
    }

    fn write_side(&self, file: u64, side: Side, out: &mut dyn Out) -> Result<(), Stopped> {
        let (len, samples) = (self.samples.len(file), self.samples.per_file());
        let mut piece = [0; PIECE];
        for first in (0..samples).step_by(PIECE / ENTRY) {
            let count = (samples - first).min((PIECE / ENTRY) as u64) as usize;
            let piece = &mut piece[..count * ENTRY];
            for (sample, entry) in (first..).zip(piece.as_chunks_mut::<ENTRY>().0) {
                let number = if side == Side::Offsets { sample * len } else { len };
                *entry = number.to_le_bytes();
            }
            out.framing(piece)?;
        }
        Ok(())
    }
}

impl Indexed {
    fn bytes_of(&self, file: u64, samples: Range<u64>) -> Range<u64> {
        let len = self.samples.len(file);
        samples.start * len..samples.end * len
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{Dataset, ElementType, Format, Split};
    use proptest::prelude::*;

    use super::*;
    use crate::format::out::Counted;
    use crate::format::samples::testing::{self, format, made, part, side_file};
    use crate::{FileFormat, FormatError, Mismatch};

    fn set(record_length: f64, samples: u64) -> Dataset {
        testing::set(Format::IndexedBinary, record_length, samples)
    }

    #[test]
    fn samples_lie_back_to_back_where_the_indexes_say() {
        let stdev = Dataset { record_length_bytes_stdev: 9000.0, ..set(20_000.0, 3) };
        for set in [set(1.0, 5000), set(100.0, 1), set(2500.0, 2049), stdev] {
            let format = format(&set);
            for file in [0, 7] {
                let bytes = made(&format, file);
                assert_eq!(bytes.len() as u64, format.file_len(file));
                let numbers = |side| -> Vec<u64> {
                    let index = side_file(&format, file, side);
                    let (numbers, rest) = index.as_chunks();
                    assert!(rest.is_empty());
                    numbers.iter().copied().map(u64::from_le_bytes).collect()
                };
                let (offsets, sizes) = (numbers(Side::Offsets), numbers(Side::Sizes));
                assert_eq!(offsets.len() as u64, set.num_samples_per_file);
                assert_eq!(sizes.len(), offsets.len());
                let mut end = 0;
                for (sample, (offset, size)) in (0..).zip(offsets.into_iter().zip(sizes)) {
                    assert_eq!(offset, end);
                    end = offset + size;
                    assert_eq!(format.place(file, sample..sample + 1), Some(offset..end));
                }
                assert_eq!(end, bytes.len() as u64);
            }
        }
    }

    #[test]
    fn the_mapped_kind_is_the_same() {
        let indexed = set(1000.0, 3);
        let mapped = Dataset { format: Format::MmapIndexedBinary, ..indexed.clone() };
        let (indexed, mapped) = (format(&indexed), format(&mapped));
        assert_eq!(made(&indexed, 3), made(&mapped, 3));
        assert_eq!(indexed.sides(), mapped.sides());
    }

    #[test]
    fn elements_count_with_their_size_and_floats_are_finite() {
        let set = Dataset {
            record_dims: vec![7, 1000],
            record_element_type: ElementType::Float64,
            ..set(56_000.0, 10)
        };
        let format = format(&set);
        let bytes = made(&format, 4);
        assert_eq!(bytes.len(), 560_000);
        let mut floats = bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes);
        assert!(floats.all(f64::is_finite));
        let square = Dataset { record_dims: Vec::new(), ..set };
        // Without dimensions the record length is one of elements.
        assert_eq!(self::format(&square).file_len(0), 236 * 236 * 8 * 10);
    }

    #[test]
    fn very_many_samples_are_reckoned_with_and_streamed() {
        let format = format(&set(2048.0, 277_203_535));
        assert_eq!(format.file_len(0), 277_203_535 * 45 * 45);
        assert_eq!(format.cut(), Cut::Samples(2071));
        let last = 277_203_534..277_203_535;
        let bytes = part(&format, 0, last.clone());
        assert_eq!(bytes.len(), 2025);
        assert_eq!(format.verify(0, last.clone(), &bytes), Ok(()));
        assert_ne!(bytes, part(&format, 0, 0..1));

        let long = self::format(&set(2048.0, 1_000_000));
        let mut counted = Counted::default();
        long.write_side(0, Side::Offsets, &mut counted).unwrap();
        assert_eq!(counted.0, 8_000_000);
        let offsets = side_file(&long, 0, Side::Offsets);
        assert_eq!(offsets[7_999_992..], (999_999_u64 * 2025).to_le_bytes());
    }

    #[test]
    fn what_cannot_be_made_is_refused_and_nothing_overflows() {
        let new =
            |set: &Dataset| FileFormat::new(set, Split::Train).map(|format| format.total_bytes());
        assert_eq!(new(&set(1e12, 100_000)), Ok(20 * 100_000_000_000_000_000));
        assert_eq!(new(&set(1e12, 9_000_000)), Ok(u64::MAX));
        let drawn = Dataset { record_length_bytes_stdev: 1e9, ..set(1e12, 9_000_000) };
        assert_eq!(new(&drawn), Ok(u64::MAX));
        assert!(matches!(new(&set(1e12, u64::MAX)), Err(FormatError::TooLarge { .. })));
        let vast = Dataset { record_dims: vec![1 << 40; 3], ..set(1e9, 1) };
        assert!(matches!(new(&vast), Err(FormatError::TooLarge { bytes: u64::MAX, .. })));
    }

    #[test]
    fn a_flipped_bit_is_found_in_its_sample() {
        let format = format(&set(1000.0, 4));
        let good = made(&format, 1);
        assert_eq!(good.len(), 4 * 961);
        for offset in (0..good.len()).step_by(31) {
            let mut bad = good.clone();
            bad[offset] ^= 0x20;
            let sample = Some(offset as u64 / 961);
            let place = Mismatch::Content { offset: offset as u64, sample };
            assert_eq!(format.verify(1, 0..4, &bad), Err(place));
        }
        let mut bad = part(&format, 1, 2..4);
        bad[1000] ^= 1;
        let place = Mismatch::Content { offset: 2 * 961 + 1000, sample: Some(3) };
        assert_eq!(format.verify(1, 2..4, &bad), Err(place));
        let foreign = Mismatch::Foreign { seed: 10, file: 1 };
        assert_eq!(format.verify(1, 2..4, &part(&format, 2, 2..4)), Err(foreign));
    }

    #[test]
    fn cut_files_and_other_counts_are_told() {
        let format = format(&set(1000.0, 8));
        let good = made(&format, 0);
        let told =
            |samples, bytes: &[u8]| format.decode(0, samples, bytes).unwrap_err().to_string();
        assert_eq!(format.decode(0, 0..8, &good), Ok(()));
        assert_eq!(format.decode(0, 5..8, &good[..3 * 961]), Ok(()));
        assert_eq!(
            told(0..8, &good[..4 * 961]),
            "4 samples of 961 bytes are stored, but 8 are configured (dataset.num_samples_per_file)"
        );
        assert!(told(0..8, &[]).starts_with("0 samples"));
        assert!(
            told(2..8, &good[..3 * 961 + 7]).starts_with("sample 5: it is cut off: 7 of its 961 ")
        );
        let (expected, found) = (8 * 961, 4 * 961);
        let cut = format.verify(0, 0..8, &good[..4 * 961]);
        assert_eq!(cut, Err(Mismatch::Length { expected, found }));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(
            garbage in prop::collection::vec(any::<u8>(), 0..500),
            samples in 1_u64..5,
        ) {
            let format = format(&set(100.0, samples));
            let whole = garbage.len() as u64 == samples * 100;
            prop_assert_eq!(format.decode(0, 0..samples, &garbage).is_ok(), whole);
            prop_assert!(format.verify(0, 0..samples, &garbage).is_err());
        }
    }
}
