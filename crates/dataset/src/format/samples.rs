//! Samples that lie one behind the other in a file, all of one size there: what formats share in which
//! any sample can be found by arithmetic.

use feedrate_workload::ElementType;

use super::Ingredients;
use crate::content::{Content, Stream};
use crate::sizes::Sizes;

/// The longest file that systems can address: offsets are signed numbers of 64 bits.
pub(super) const LONGEST: u64 = i64::MAX as u64;

/// The samples of a set, as bytes.
#[derive(Clone)]
pub(super) struct Samples {
    content: Content,
    sizes: Sizes,
    element: ElementType,
    per_file: u64,
}

impl Samples {
    pub(super) fn new(made_from: Ingredients<'_>) -> Self {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let (element, per_file) = (dataset.record_element_type, dataset.num_samples_per_file);
        Self { content, sizes, element, per_file }
    }

    /// Samples of each file.
    pub(super) fn per_file(&self) -> u64 {
        self.per_file
    }

    /// Bytes of each sample of `file`; [`u64::MAX`] if there are more.
    pub(super) fn len(&self, file: u64) -> u64 {
        self.sizes.elements(file).saturating_mul(self.element.size())
    }

    /// Bytes of the largest sample that the sizes have, in whichever set; [`u64::MAX`] if there are more.
    pub(super) fn largest(&self) -> u64 {
        let elements = match &self.sizes {
            Sizes::Same(_) => self.sizes.elements(0),
            Sizes::PerFile { sides, .. } => {
                let areas = sides.iter().map(|side| u64::from(side[0]) * u64::from(side[1]));
                areas.max().unwrap_or(1)
            }
        };
        elements.saturating_mul(self.element.size())
    }

    /// The content of `file` from `offset` on, which is whole elements.
    pub(super) fn stream(&self, file: u64, offset: u64) -> Stream {
        self.content.elements(file, offset, self.element)
    }
}

/// What tests of the formats share.
#[cfg(test)]
pub(super) mod testing {
    use std::ops::Range;

    use feedrate_workload::{Dataset, Format, Split};

    use crate::testing::dataset;
    use crate::{FileFormat, Side};

    /// A set of 20 files.
    pub(in crate::format) fn set(format: Format, record_length: f64, samples: u64) -> Dataset {
        Dataset { num_samples_per_file: samples, ..dataset(format, 20, record_length) }
    }

    pub(in crate::format) fn format(set: &Dataset) -> FileFormat {
        FileFormat::new(set, Split::Train).expect("the set can be made")
    }

    pub(in crate::format) fn made(format: &FileFormat, file: u64) -> Vec<u8> {
        part(format, file, 0..format.samples_per_file())
    }

    pub(in crate::format) fn part(format: &FileFormat, file: u64, samples: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.kind.write(file, samples, &mut bytes).expect("memory takes all");
        bytes
    }

    pub(in crate::format) fn side_file(format: &FileFormat, file: u64, side: Side) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.write_side(file, side, &mut bytes).expect("memory takes all");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use feedrate_workload::{Dataset, Format};
    use proptest::prelude::*;

    use super::testing::{format, made, part, set};
    use super::*;

    const FORMATS: [Format; 2] = [Format::Tfrecord, Format::IndexedBinary];

    proptest! {
        #[test]
        fn any_samples_are_the_slice_of_the_file(
            kind in prop::sample::select(&FORMATS),
            record_length in 1.0..30_000.0,
            stdev in prop::sample::select(&[0.0, 5000.0]),
            element in prop::sample::select(&[ElementType::Uint8, ElementType::Float32]),
            (samples, start, end) in (1_u64..12)
                .prop_flat_map(|samples| (Just(samples), 0..samples, 0..=samples)),
            file in 0_u64..20,
        ) {
            let set = Dataset {
                record_length_bytes_stdev: stdev,
                record_element_type: element,
                ..set(kind, record_length, samples)
            };
            let format = format(&set);
            let whole = made(&format, file);
            prop_assert_eq!(whole.len() as u64, format.file_len(file));
            let range = start.min(end)..end;
            let place = format.place(file, range.clone()).unwrap();
            let slice = &whole[place.start as usize..place.end as usize];
            prop_assert_eq!(part(&format, file, range.clone()), slice);
            prop_assert_eq!(format.verify(file, range.clone(), slice), Ok(()));
            prop_assert_eq!(format.decode(file, range, slice), Ok(()));
        }
    }

    #[test]
    fn no_block_of_4_kib_occurs_twice_in_a_set() {
        for kind in FORMATS {
            let format = format(&set(kind, 10_000.0, 8));
            let mut seen = HashSet::new();
            for file in 0..20 {
                for block in made(&format, file).chunks_exact(4096) {
                    assert!(seen.insert(block.to_vec()), "{kind:?}: file {file}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sample_is_that_of_the_largest_file() {
        let mut set = set(Format::IndexedBinary, 65_536.0, 3);
        let samples = |set: &Dataset| {
            let [sizes, _] = Sizes::both(set);
            let content = Content::new(set.seed, "train");
            Samples { content, sizes, element: set.record_element_type, per_file: 3 }
        };
        assert_eq!(samples(&set).largest(), 65_536);
        set.record_length_bytes_stdev = 16_384.0;
        set.record_element_type = ElementType::Float16;
        let samples = samples(&set);
        assert_eq!(Some(samples.largest()), (0..20).map(|file| samples.len(file)).max());
    }
}
