use feedrate_workload::{Format, Split};
use hdf5_pure::{DType, File, FileBuilder, Layout, MaxExtent};
use proptest::prelude::*;

use super::*;
use crate::testing::dataset;
use crate::{FileFormat, Mismatch};

/// A set of 3 files of squares of `side` x `side` elements.
fn squares(side: u64, samples: u64) -> Dataset {
    Dataset { num_samples_per_file: samples, ..dataset(Format::Hdf5, 3, (side * side) as f64) }
}

fn hdf5(datasets: u64, chunk_dims: &[u64], max_shape: &[u64]) -> feedrate_workload::Hdf5 {
    feedrate_workload::Hdf5 {
        num_dset_per_record: datasets,
        chunk_dims: chunk_dims.to_vec(),
        max_shape: max_shape.to_vec(),
    }
}

/// A set with the compression and the level, whose content can be compressed.
fn compressed(set: Dataset, compression: Compression, level: u32) -> Dataset {
    Dataset { compression, compression_level: level, compressibility: 3.0, ..set }
}

fn format(set: &Dataset) -> FileFormat {
    FileFormat::new(set, Split::Train).expect("the set can be made")
}

fn refusal(set: &Dataset) -> String {
    FileFormat::new(set, Split::Train).expect_err("it cannot be made").to_string()
}

/// The bytes of a file, which is what was said of it.
fn made(set: &Dataset, file: u64) -> Vec<u8> {
    let format = format(set);
    let mut bytes = Vec::new();
    format.write(file, &mut bytes);
    if let Some(exact) = format.length(file).exact() {
        assert_eq!(bytes.len() as u64, exact);
    }
    let samples = 0..set.num_samples_per_file;
    assert_eq!(format.verify(file, samples.clone(), &bytes), Ok(()));
    assert_eq!(format.decode(file, samples, &bytes), Ok(()));
    bytes
}

fn opened(set: &Dataset, file: u64) -> File {
    File::from_bytes(made(set, file)).expect("it is HDF5")
}

fn decoded(set: &Dataset, bytes: &[u8]) -> Result<(), String> {
    let samples = 0..set.num_samples_per_file;
    format(set).decode(0, samples, bytes).map_err(|error| error.to_string())
}

/// One set of each kind of file.
fn kinds() -> Vec<Dataset> {
    let square = || squares(100, 5);
    let chunked = || Dataset { hdf5: hdf5(2, &[2, 33, 70], &[]), ..square() };
    vec![
        square(),
        Dataset { record_element_type: ElementType::Float32, hdf5: hdf5(3, &[], &[]), ..square() },
        Dataset { record_length_bytes_stdev: 3000.0, ..square() },
        chunked(),
        Dataset { hdf5: hdf5(1, &[], &[200, 300]), ..square() },
        Dataset { hdf5: hdf5(1, &[2, 150, 40], &[200, 300]), ..square() },
        compressed(square(), Compression::Gzip, 4),
        compressed(chunked(), Compression::Gzip, 9),
        compressed(chunked(), Compression::Lzf, 0),
        Dataset { compressibility: 1.0, ..compressed(square(), Compression::Lzf, 0) },
    ]
}

#[test]
fn a_record_is_divided_into_datasets_by_its_first_dimension() {
    let set = |dims: &[u64], datasets| Dataset {
        record_dims: dims.to_vec(),
        record_element_type: ElementType::Float32,
        num_samples_per_file: 2,
        hdf5: hdf5(datasets, &[], &[]),
        ..dataset(Format::Hdf5, 1, 768.0)
    };
    for (dims, datasets, shape) in [
        (&[4, 8, 6][..], 2, &[2, 2, 8, 6][..]),
        (&[4, 8, 6], 1, &[2, 4, 8, 6]),
        (&[4, 8, 6], 4, &[2, 8, 6]),
        (&[1, 8, 6], 1, &[2, 8, 6]),
        (&[3], 3, &[2]),
    ] {
        let file = opened(&set(dims, datasets), 0);
        let mut names: Vec<_> = (0..datasets).map(|nth| format!("records_{nth}")).collect();
        for name in &names {
            let found = file.dataset(name).unwrap();
            assert_eq!(found.shape().unwrap(), shape);
            assert_eq!(found.dtype().unwrap().to_string(), "f32");
            assert!(found.read_f32().unwrap().iter().all(|value| value.is_finite()));
        }
        names.push("labels".to_owned());
        let mut found = file.root().datasets().unwrap();
        found.sort();
        names.sort();
        assert_eq!(found, names);
        let labels = file.dataset("labels").unwrap();
        assert!(matches!(labels.dtype(), Ok(DType::I64)));
        assert_eq!(labels.read_i64().unwrap(), [0, 0]);
    }
}

#[test]
fn without_dimensions_each_dataset_has_squares_of_the_record_length() {
    let file = opened(&Dataset { hdf5: hdf5(2, &[], &[]), ..squares(31, 2) }, 0);
    for name in ["records_0", "records_1"] {
        assert_eq!(file.dataset(name).unwrap().shape().unwrap(), [2, 31, 31]);
    }
    let drawn = Dataset { record_length_bytes_stdev: 16_384.0, ..squares(256, 2) };
    assert_eq!(opened(&drawn, 1).dataset("records_0").unwrap().shape().unwrap(), [2, 206, 255]);
}

#[test]
fn every_element_type_is_told_and_read() {
    use ElementType::{
        Float16, Float32, Float64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    };
    for (element, name) in [
        (Uint8, "u8"),
        (Uint16, "u16"),
        (Uint32, "u32"),
        (Uint64, "u64"),
        (Int8, "i8"),
        (Int16, "i16"),
        (Int32, "i32"),
        (Int64, "i64"),
        (Float32, "f32"),
        (Float64, "f64"),
    ] {
        let set = Dataset { record_element_type: element, ..squares(20, 3) };
        let found = opened(&set, 0).dataset("records_0").unwrap();
        assert_eq!(found.dtype().unwrap().to_string(), name);
        assert_eq!(found.read_raw().unwrap().len() as u64, 3 * 400 * element.size());
    }
    let set = Dataset { record_element_type: Float16, ..squares(20, 3) };
    let halves = opened(&set, 0).dataset("records_0").unwrap().datatype().unwrap();
    let hdf5_pure::Datatype::FloatingPoint { size: 2, layout, .. } = halves else {
        panic!("{halves:?}")
    };
    assert_eq!((layout.exponent_location, layout.exponent_size), (10, 5));
    assert_eq!((layout.mantissa_location, layout.mantissa_size), (0, 10));
    assert_eq!((layout.bit_precision, layout.exponent_bias), (16, 15));
}

#[test]
fn values_lie_in_one_piece_unless_chunks_are_asked_for() {
    for (set, chunk, most) in [
        (squares(200, 5), None, None),
        (Dataset { hdf5: hdf5(1, &[2, 33, 70], &[]), ..squares(200, 5) }, Some([2, 33, 70]), None),
        // As h5py chooses them.
        (
            Dataset { hdf5: hdf5(1, &[], &[400, 500]), ..squares(200, 5) },
            Some([2, 50, 100]),
            Some([5, 400, 500]),
        ),
        (compressed(squares(2000, 2), Compression::Gzip, 4), Some([1, 125, 250]), None),
    ] {
        let found = opened(&set, 0).dataset("records_0").unwrap();
        match (found.layout().unwrap(), chunk) {
            (Layout::Contiguous { address: Some(address), .. }, None) => {
                assert!(address.is_multiple_of(8));
            }
            (Layout::Chunked { chunk_shape, .. }, Some(chunk)) => assert_eq!(chunk_shape, chunk),
            (layout, _) => panic!("{layout}"),
        }
        let most = most.map(|most| most.map(MaxExtent::Fixed).to_vec());
        assert_eq!(found.maxshape().unwrap(), most);
    }
}

#[test]
fn compression_makes_files_smaller_and_keeps_their_values() {
    let plain =
        Dataset { compressibility: 3.0, hdf5: hdf5(1, &[1, 150, 70], &[]), ..squares(200, 4) };
    let values = |set: &Dataset| opened(set, 0).dataset("records_0").unwrap().read_raw().unwrap();
    let (expected, length) = (values(&plain), made(&plain, 0).len());
    for (compression, level, filter) in
        [(Compression::Gzip, 1, 1), (Compression::Gzip, 9, 1), (Compression::Lzf, 0, 32_000)]
    {
        let set = compressed(plain.clone(), compression, level);
        assert_eq!(values(&set), expected);
        assert!(made(&set, 0).len() < length / 2);
        let found = opened(&set, 0).dataset("records_0").unwrap();
        let [applied] = &found.filter_pipeline()[..] else { panic!("one filter") };
        assert_eq!(applied.id, filter);
        if compression == Compression::Gzip {
            assert_eq!(applied.client_data, [level]);
        } else {
            assert_eq!(applied.client_data, [4, 0x0105, 150 * 70]);
        }
    }
    // Random bytes do not shrink, so they are not changed.
    let random = Dataset { compressibility: 1.0, ..compressed(plain, Compression::Lzf, 0) };
    let chunks = opened(&random, 0).dataset("records_0").unwrap().chunks().unwrap();
    assert!(chunks.iter().any(|chunk| chunk.filter_mask == 1 && chunk.storage_size == 150 * 70));
}

#[test]
fn the_index_of_chunks_grows_to_several_levels() {
    let set = Dataset { hdf5: hdf5(1, &[1, 2, 2], &[]), ..squares(30, 40) };
    let found = opened(&set, 0).dataset("records_0").unwrap();
    let chunks = found.chunks().unwrap();
    assert_eq!(chunks.len(), 40 * 15 * 15);
    assert_eq!(chunks[224].offset, [0, 28, 28]);
    assert_eq!(chunks[225].offset, [1, 0, 0]);
}

#[test]
fn lengths_of_compressed_files_are_about_right() {
    for compression in [Compression::Gzip, Compression::Lzf] {
        let set = compressed(squares(500, 4), compression, 6);
        let (about, real) = (format(&set).length(0), made(&set, 0).len() as f64);
        assert!(matches!(about, Length::About(_)));
        assert!((about.bytes() as f64 / real - 1.0).abs() < 0.1, "{about:?} for {real}");
    }
}

#[test]
fn no_two_datasets_and_no_two_files_share_values() {
    let set = Dataset { hdf5: hdf5(3, &[], &[]), ..squares(50, 2) };
    let mut seen = std::collections::HashSet::new();
    for file in 0..3 {
        let opened = opened(&set, file);
        for name in ["records_0", "records_1", "records_2"] {
            for sample in opened.dataset(name).unwrap().read_raw().unwrap().chunks(2500) {
                assert!(seen.insert(sample.to_vec()), "{name} of file {file}");
            }
        }
    }
}

#[test]
fn a_changed_byte_is_found_and_its_sample_named() {
    for set in kinds() {
        let good = made(&set, 0);
        let sample_of = |bytes: &[u8]| match format(&set).verify(0, 0..5, bytes) {
            Err(Mismatch::Content { sample, .. }) => sample,
            other => panic!("{other:?}"),
        };
        let mut named = std::collections::BTreeSet::new();
        for offset in (0..good.len()).step_by(997) {
            let mut bad = good.clone();
            bad[offset] ^= 0x10;
            named.extend(sample_of(&bad));
        }
        let expected = if set.compression == Compression::None { 0..5 } else { 0..0 };
        assert!(named.into_iter().eq(expected), "{set:?}");
    }
    // Every byte of sample 2, of either dataset.
    let set = Dataset { hdf5: hdf5(2, &[], &[]), ..squares(10, 4) };
    let start = 48 + 8 * 4;
    let format = format(&set);
    for (offset, sample) in [
        (start - 1, None),
        (start, Some(0)),
        (start + 199, Some(1)),
        (start + 200, Some(2)),
        (start + 399, Some(3)),
        (start + 400, None),
    ] {
        assert_eq!(format.kind.sample_at(0, offset), sample, "{offset}");
    }
}

#[test]
fn damage_inside_of_compressed_chunks_is_noticed_by_decoding() {
    for compressibility in [1.0, 3.0] {
        let set = compressed(squares(100, 5), Compression::Gzip, 4);
        let set = Dataset { compressibility, ..set };
        let good = made(&set, 0);
        let chunk = opened(&set, 0).dataset("records_0").unwrap().chunks().unwrap()[3].clone();
        let mut bad = good.clone();
        bad[(chunk.address + chunk.storage_size / 2) as usize] ^= 0x10;
        let error = decoded(&set, &bad).unwrap_err();
        assert!(error.contains("dataset records_0"), "{error}");
    }
}

#[test]
fn what_is_no_whole_file_is_refused() {
    for set in kinds() {
        let good = made(&set, 0);
        for len in [0, 1, 8, 47, 48, 100, good.len() / 2, good.len() - 1] {
            assert!(decoded(&set, &good[..len]).is_err(), "{len} bytes of {}", good.len());
        }
        assert!(decoded(&set, b"<html>").is_err());
    }
}

#[test]
fn other_datasets_than_the_workloads_are_named() {
    let set = squares(20, 3);
    let bytes = made(&set, 0);
    for (other, text) in [
        (squares(21, 3), "dataset records_0: its shape is [3, 20, 20], not [3, 21, 21]"),
        (
            Dataset { record_element_type: ElementType::Int8, ..set.clone() },
            "dataset records_0: its type is",
        ),
        (Dataset { hdf5: hdf5(2, &[], &[]), ..set.clone() }, "dataset records_1: "),
    ] {
        let error = decoded(&other, &bytes).unwrap_err();
        assert!(error.starts_with(text), "{error}");
    }
}

/// A file of another writer, with records of 2 x 20 x 20 bytes.
fn foreign(records: impl FnOnce(&mut hdf5_pure::DatasetBuilder)) -> Vec<u8> {
    let mut builder = FileBuilder::new();
    let dataset = builder.create_dataset("records_0");
    dataset.with_u8_data(&[7; 800]).with_shape(&[2, 20, 20]);
    records(dataset);
    builder.create_dataset("labels").with_i64_data(&[0, 0]).with_shape(&[2]);
    builder.finish().expect("it can be made")
}

#[test]
fn files_of_other_writers_are_read_however_they_lay_values_out() {
    let set = squares(20, 2);
    let plain = foreign(|_| ());
    assert_eq!(decoded(&set, &plain), Ok(()));
    let chunked = foreign(|records| {
        records.with_chunks(&[1, 7, 20]);
    });
    assert_eq!(decoded(&set, &chunked), Ok(()));
    let gzip = foreign(|records| {
        records.with_chunks(&[2, 20, 5]).with_deflate(6);
    });
    assert_eq!(decoded(&set, &gzip), Ok(()));
}

/// Files that h5py made, of versions 0 and 3, of one record of 2 x 31 x 31 bytes, and their set. They
/// are what fuzzing begins with, too.
fn of_h5py() -> (Dataset, Vec<Vec<u8>>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/hdf5");
    let files = std::fs::read_dir(folder).expect("the files are there");
    let bytes = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    (Dataset { hdf5: hdf5(1, &[], &[62, 62]), ..squares(31, 2) }, bytes)
}

#[test]
fn files_of_h5py_are_read_whatever_their_version_chunks_and_filters() {
    let (set, files) = of_h5py();
    assert_eq!(files.len(), 7);
    let values = files.into_iter().map(|bytes| {
        assert_eq!(decoded(&set, &bytes), Ok(()));
        File::from_bytes(bytes).unwrap().dataset("records_0").unwrap().read_raw().unwrap()
    });
    let values: std::collections::HashSet<_> = values.collect();
    assert_eq!(values.len(), 1, "all have the same values");
}

#[test]
fn datasets_that_grow_without_limit_are_refused() {
    let set = squares(20, 2);
    let bytes = foreign(|records| {
        records.with_chunks(&[1, 20, 20]).with_maxshape(&[
            MaxExtent::Unlimited,
            MaxExtent::Fixed(20),
            MaxExtent::Fixed(20),
        ]);
    });
    let error = decoded(&set, &bytes).unwrap_err();
    assert_eq!(error, "dataset records_0: it can grow without limit: give it a maximum shape");
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_their_key() {
    let set = |hdf5| Dataset { hdf5, ..squares(20, 2) };
    for (set, text) in [
        (set(hdf5(1, &[1, 20], &[])), "dataset.hdf5.chunk_dims: [1, 20] does not fit"),
        (set(hdf5(1, &[1, 21, 20], &[])), "dataset.hdf5.chunk_dims: [1, 21, 20] does not fit"),
        (set(hdf5(1, &[3, 20, 20], &[40, 40])), "dataset.hdf5.chunk_dims: [3, 20, 20] does not"),
        (set(hdf5(1, &[], &[19, 20])), "dataset.hdf5.max_shape: [19, 20] does not hold"),
        (set(hdf5(1, &[], &[20])), "dataset.hdf5.max_shape: [20] does not hold"),
        (
            Dataset { record_dims: vec![1; 33], ..squares(1, 1) },
            "dataset.record_dims: with the samples",
        ),
        (
            Dataset { hdf5: hdf5(1, &[1, 1, 1], &[]), ..squares(2000, 1) },
            "dataset.hdf5.chunk_dims: a dataset would have 4000000 chunks (file 0)",
        ),
        (
            Dataset { hdf5: hdf5(1, &[1, 70_000, 70_000], &[]), ..squares(70_000, 1) },
            "dataset.hdf5.chunk_dims: a chunk would have 4900000000 bytes",
        ),
        (
            Dataset { record_length_bytes_stdev: 300.0, ..set(hdf5(1, &[1, 20, 20], &[])) },
            "dataset.hdf5.chunk_dims: [1, 20, 20] does not fit",
        ),
        (squares(5_000_000, 1), "file 0 would have 25000000000000 bytes"),
    ] {
        let error = refusal(&set);
        assert!(error.starts_with(text), "{error}");
    }
}

#[test]
fn lzf_gives_up_on_what_does_not_shrink_and_packs_the_rest() {
    let mut table = lzf::Table::default();
    let mut packed = |bytes: &[u8]| {
        let mut out = Vec::new();
        lzf::compress(bytes, &mut table, &mut out).then_some(out)
    };
    assert_eq!(packed(b""), None);
    assert_eq!(packed(b"abcdefgh"), None);
    // A literal, 264 bytes as at distance 1, and what is left of 300 as at distance 264.
    assert_eq!(packed(&[0; 300]), Some(vec![0, 0, 0xe0, 255, 0, 0xe1, 26, 7]));
}

/// Reads `bytes` with some of them changed, not through the guard that takes panics as errors.
fn read_changed(set: &Dataset, mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) {
    for (place, byte) in changes {
        let place = place.index(bytes.len());
        bytes[place] = *byte;
    }
    let [sizes, _] = Sizes::both(set);
    let content = Content::of(set, Split::Train);
    let hdf5 = Hdf5::new(Ingredients { dataset: set, content, sizes }).unwrap();
    let _ = hdf5.read(0, &bytes);
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..20)
}

proptest! {
    #[test]
    fn no_change_of_our_files_makes_the_reader_panic(
        kind in 0..kinds().len(),
        changes in changes(),
    ) {
        let set = Dataset { record_length_bytes: 100.0, ..kinds()[kind].clone() };
        let set = Dataset { hdf5: hdf5(2, &[], &set.hdf5.max_shape), ..set };
        read_changed(&set, made(&set, 0), &changes);
    }

    // Those of the older version have no checksums that most changes would be caught by.
    #[test]
    fn no_change_of_foreign_files_makes_the_reader_panic(
        file in 0..7_usize,
        changes in changes(),
    ) {
        let (set, mut files) = of_h5py();
        read_changed(&set, files.swap_remove(file), &changes);
    }
}
