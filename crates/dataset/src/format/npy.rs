//! NPY: one array of all samples of a file behind a header.
//!
//! Its shape is (a sample's dimensions…, samples) in C order, the sample axis last, so the elements
//! of samples are interleaved. [`Arrays`] is that array, be it a file of its own or a member of an
//! [archive](super::npz).

pub(super) mod header;

use std::fmt;
use std::io::{self, Read};
use std::iter::once;
use std::ops::Range;

use feedrate_workload::{Compression, ElementType};

use self::header::Header;
use super::files::{Files, Length, Undecodable};
use super::out::{Out, Stopped, pour};
use super::{FormatError, Ingredients};
use crate::content::Content;
use crate::sizes::Sizes;

/// `NumPy` reads arrays of at most 32 dimensions (64 from 2.0 on), the samples' among them.
const MOST_DIMS: usize = 31;

/// The NPY files of a set.
#[derive(Debug)]
pub(super) struct Npy(Arrays);

impl Npy {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        if made_from.dataset.compression != Compression::None {
            let why = "an npy file cannot be compressed: set it to none".to_owned();
            return Err(FormatError::Unfit { key: "dataset.compression", why });
        }
        Arrays::new(made_from).map(Self)
    }
}

impl Files for Npy {
    fn length(&self, file: u64) -> Length {
        Length::Exact(self.0.len(file))
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        self.0.write(file, out)
    }

    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        self.0.sample_at(file, offset)
    }

    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        decode(found, self.0.samples).map_err(Undecodable::file)
    }
}

/// The arrays of samples of a set, one a file.
pub(super) struct Arrays {
    content: Content,
    sizes: Sizes,
    element: ElementType,
    /// Samples of each.
    pub(super) samples: u64,
    /// Bytes of a header.
    header: u64,
}

impl fmt::Debug for Arrays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element, samples, .. } = self;
        f.debug_struct("Arrays")
            .field("element", element)
            .field("samples", samples)
            .finish_non_exhaustive()
    }
}

impl Arrays {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes, .. } = made_from;
        let dims = dataset.record_dims.len();
        if dims > MOST_DIMS {
            let why = format!(
                "it has {dims} dimensions, but NumPy reads at most {MOST_DIMS} of a record: join some"
            );
            return Err(FormatError::Unfit { key: "dataset.record_dims", why });
        }
        let (element, samples) = (dataset.record_element_type, dataset.num_samples_per_file);
        // Two drawn sides never outgrow the least header.
        let header = match &sizes {
            Sizes::Same(dims) => {
                header::written(element, dims.iter().copied().chain(once(samples))).len() as u64
            }
            Sizes::PerFile { .. } => header::LEAST,
        };
        Ok(Self { content, sizes, element, samples, header })
    }

    /// Bytes of the array of `file`, its header included; [`u64::MAX`] if there are more.
    pub(super) fn len(&self, file: u64) -> u64 {
        self.data_len(file).saturating_add(self.header)
    }

    /// Bytes of all samples.
    fn data_len(&self, file: u64) -> u64 {
        let elements = self.sizes.elements(file).saturating_mul(self.samples);
        elements.saturating_mul(self.element.size())
    }

    pub(super) fn write(&self, file: u64, out: &mut dyn Out) -> Result<(), Stopped> {
        let shape = self.sizes.dims(file).chain(once(self.samples));
        out.framing(&header::written(self.element, shape))?;
        let stream = self.content.elements(file, 0, self.element);
        pour(stream, self.data_len(file), out, |_| {})
    }

    /// Which sample the byte at `offset` of the array belongs to.
    pub(super) fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        let inside = offset.checked_sub(self.header).filter(|&at| at < self.data_len(file))?;
        Some(inside / self.element.size() % self.samples)
    }
}

/// Reads an array of `samples` to its end, whatever its values, and says what is wrong with it.
pub(super) fn decode(mut array: impl Read, samples: u64) -> Result<(), String> {
    let header = Header::read(&mut array)?;
    let shape = &header.shape;
    match shape.last() {
        Some(&stored) if stored == samples => {}
        stored => {
            return Err(format!(
                "{} samples are stored (shape {shape:?}), but dataset.num_samples_per_file is {samples}",
                stored.unwrap_or(&0)
            ));
        }
    }
    let Some(expected) = header.data_len() else {
        return Err(format!("its shape {shape:?} is larger than any file"));
    };
    let mut data = array.take(expected.saturating_add(1));
    let found = io::copy(&mut data, &mut io::sink()).map_err(|error| error.to_string())?;
    if found > expected {
        return Err(format!("bytes follow the {expected} that its shape {shape:?} asks for"));
    }
    if found < expected {
        return Err(format!("its shape {shape:?} asks for {expected} bytes, but it has {found}"));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use feedrate_workload::{Dataset, Format, Split};
    use npyz::{Deserialize, NpyFile, Order};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::testing::dataset;
    use crate::{FileFormat, Mismatch};

    /// Two files of three samples of 50 x 50 elements.
    pub(in crate::format) fn of_type(format: Format, element: ElementType) -> Dataset {
        Dataset {
            record_element_type: element,
            num_samples_per_file: 3,
            ..dataset(format, 2, 2500.0)
        }
    }

    /// What can befall a file: bytes replaced, all behind a place lost.
    #[derive(Debug, Clone)]
    pub(in crate::format) struct Damage {
        replaced: Vec<(Index, u8)>,
        cut: Option<Index>,
    }

    impl Damage {
        pub(in crate::format) fn done_to(&self, bytes: &[u8]) -> Vec<u8> {
            let mut bytes = bytes.to_vec();
            for (place, byte) in &self.replaced {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            if let Some(cut) = &self.cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        }
    }

    impl Arbitrary for Damage {
        type Parameters = ();
        type Strategy = BoxedStrategy<Self>;

        fn arbitrary_with((): ()) -> Self::Strategy {
            (vec(any::<(Index, u8)>(), 0..8), any::<Option<Index>>())
                .prop_map(|(replaced, cut)| Self { replaced, cut })
                .boxed()
        }
    }

    fn format(set: &Dataset) -> FileFormat {
        FileFormat::new(set, Split::Train).expect("the set can be made")
    }

    fn made(format: &FileFormat, file: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        bytes
    }

    #[test]
    fn lengths_are_those_of_the_original() {
        let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npy, 1, 1000.0) };
        assert_eq!(format(&set).length(0), Length::Exact(2050));
        let set = dataset(Format::Npy, 4, 65_536.0);
        let format = format(&Dataset { record_length_bytes_stdev: 16_384.0, ..set });
        for (file, payload) in (0..).zip([82_844, 52_530, 63_800, 68_376]) {
            assert_eq!(format.length(file), Length::Exact(payload + 128));
            assert_eq!(made(&format, file).len() as u64, payload + 128);
        }
        let array = made(&format, 1);
        assert_eq!(NpyFile::new(&array[..]).unwrap().shape(), [206, 255, 1]);
    }

    /// Reads a file of each type as another reader does.
    fn values<T: Deserialize>(element: ElementType) -> Vec<T> {
        let format = format(&of_type(Format::Npy, element));
        let bytes = made(&format, 1);
        assert_eq!(bytes.len() as u64, 128 + 3 * 2500 * element.size());
        assert_eq!(bytes.len() as u64, format.file_len(1));
        assert_eq!(format.verify(1, 0..3, &bytes), Ok(()));
        assert_eq!(format.decode(1, 0..3, &bytes), Ok(()));
        let array = NpyFile::new(&bytes[..]).unwrap();
        assert_eq!(array.shape(), [50, 50, 3]);
        assert_eq!(array.order(), Order::C);
        let values: Vec<T> = array.into_vec().unwrap();
        assert_eq!(values.len(), 7500);
        values
    }

    /// That whole numbers are spread over all that their type holds.
    fn assert_spread<T: Deserialize + Into<i128>>(element: ElementType, from: i128, to: i128) {
        let values: Vec<i128> = values::<T>(element).into_iter().map(Into::into).collect();
        let middle = (to - from) / 10;
        assert!(values.iter().all(|value| (from..=to).contains(value)));
        assert!(values.iter().any(|&value| value < from + middle), "{element:?}");
        assert!(values.iter().any(|&value| value > to - middle), "{element:?}");
    }

    #[test]
    fn another_reader_finds_whole_numbers_of_every_type() {
        assert_spread::<u8>(ElementType::Uint8, 0, u8::MAX.into());
        assert_spread::<u16>(ElementType::Uint16, 0, u16::MAX.into());
        assert_spread::<u32>(ElementType::Uint32, 0, u32::MAX.into());
        assert_spread::<u64>(ElementType::Uint64, 0, u64::MAX.into());
        assert_spread::<i8>(ElementType::Int8, i8::MIN.into(), i8::MAX.into());
        assert_spread::<i16>(ElementType::Int16, i16::MIN.into(), i16::MAX.into());
        assert_spread::<i32>(ElementType::Int32, i32::MIN.into(), i32::MAX.into());
        assert_spread::<i64>(ElementType::Int64, i64::MIN.into(), i64::MAX.into());
    }

    #[test]
    fn another_reader_finds_finite_floats_of_every_type() {
        assert!(values::<f32>(ElementType::Float32).iter().all(|value| value.is_finite()));
        assert!(values::<f64>(ElementType::Float64).iter().all(|value| value.is_finite()));
        let array = made(&format(&of_type(Format::Npy, ElementType::Float16)), 1);
        assert_eq!(NpyFile::new(&array[..]).unwrap().dtype().descr(), "'<f2'");
        let (halves, rest) = array[128..].as_chunks();
        assert!(halves.iter().all(|half| u16::from_le_bytes(*half) & 0x7c00 != 0x7c00));
        assert_eq!((halves.len(), rest), (7500, &[][..]));
    }

    #[test]
    fn record_dims_are_the_shape_however_many() {
        for dims in [vec![5], vec![4, 8, 6], vec![1; 31]] {
            let set = Dataset {
                record_dims: dims.clone(),
                record_element_type: ElementType::Float64,
                num_samples_per_file: 3,
                ..dataset(Format::Npy, 2, 8.0)
            };
            let format = format(&set);
            let bytes = made(&format, 1);
            assert_eq!(bytes.len() as u64, format.file_len(1));
            assert_eq!(format.decode(1, 0..3, &bytes), Ok(()));
            let array = NpyFile::new(&bytes[..]).unwrap();
            assert_eq!(array.shape(), [dims, vec![3]].concat());
        }
    }

    #[test]
    fn a_flipped_byte_is_found_in_its_sample() {
        let format = format(&of_type(Format::Npy, ElementType::Uint16));
        for (offset, sample) in
            [(5, None), (128, Some(0)), (131, Some(1)), (133, Some(2)), (134, Some(0))]
        {
            let mut bad = made(&format, 1);
            bad[offset] ^= 1;
            let offset = offset as u64;
            assert_eq!(format.verify(1, 0..3, &bad), Err(Mismatch::Content { offset, sample }));
        }
    }

    #[test]
    fn what_does_not_decode_is_told() {
        let format = format(&of_type(Format::Npy, ElementType::Uint16));
        let good = made(&format, 1);
        let told = |bytes: &[u8]| format.decode(1, 0..3, bytes).unwrap_err().to_string();
        assert_eq!(told(&[]), "it ends within its header");
        assert_eq!(told(&good[..100]), "it ends within its header");
        let cut = told(&good[..good.len() - 1]);
        assert_eq!(cut, "its shape [50, 50, 3] asks for 15000 bytes, but it has 14999");
        let longer = told(&[&good[..], &[0]].concat());
        assert_eq!(longer, "bytes follow the 15000 that its shape [50, 50, 3] asks for");
        assert_eq!(told(&[0; 200]), "it does not begin as an NPY array does");
        let of_shape =
            |shape: &[u64]| told(&header::written(ElementType::Uint16, shape.iter().copied()));
        let lying = of_shape(&[1 << 40, 1 << 40, 3]);
        assert_eq!(lying, "its shape [1099511627776, 1099511627776, 3] is larger than any file");
        assert_eq!(
            of_shape(&[50, 50, 8]),
            "8 samples are stored (shape [50, 50, 8]), but dataset.num_samples_per_file is 3"
        );
        assert!(of_shape(&[]).starts_with("0 samples are stored (shape [])"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn damaged_files_never_panic(damage in any::<Damage>()) {
            let set = Dataset { num_samples_per_file: 2, ..dataset(Format::Npy, 1, 100.0) };
            let format = format(&set);
            let bytes = damage.done_to(&made(&format, 0));
            let decoded = format.decode(0, 0..2, &bytes);
            let untouched = bytes == made(&format, 0);
            prop_assert!(!untouched || decoded.is_ok());
        }
    }
}
