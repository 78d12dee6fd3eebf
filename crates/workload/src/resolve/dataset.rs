//! `dataset.*`: what the files are and how many.

use super::keys::VERY_MANY;
use super::{compression, parquet};
use crate::origin::{Origin, Remark};
use crate::settings::{Choices, Setting, Settings, file_name, list, whole};
use crate::workload::{Dataset, ElementType, Format, Hdf5};

const FORMATS: Choices<Format> = Choices {
    supported: &[
        ("tfrecord", Format::Tfrecord),
        ("hdf5", Format::Hdf5),
        ("csv", Format::Csv),
        ("npz", Format::Npz),
        ("npy", Format::Npy),
        ("jpeg", Format::Jpeg),
        ("png", Format::Png),
        ("indexed_binary", Format::IndexedBinary),
        ("mmap_indexed_binary", Format::MmapIndexedBinary),
        ("synthetic", Format::Synthetic),
        ("parquet", Format::Parquet),
    ],
    not_supported: &["hdf5_opt"],
};

const ELEMENT_TYPES: Choices<ElementType> = Choices {
    supported: &[
        ("uint8", ElementType::Uint8),
        ("uint16", ElementType::Uint16),
        ("uint32", ElementType::Uint32),
        ("uint64", ElementType::Uint64),
        ("int8", ElementType::Int8),
        ("int16", ElementType::Int16),
        ("int32", ElementType::Int32),
        ("int64", ElementType::Int64),
        ("float16", ElementType::Float16),
        ("float32", ElementType::Float32),
        ("float64", ElementType::Float64),
    ],
    not_supported: &[],
};

const RECORD_LENGTH: &str = "dataset.record_length_bytes";
const DIMS: &str = "dataset.record_dims";
const EXACT: &str = "dataset.exact_size";

/// 1 TiB, the longest record in bytes.
pub(super) const LONGEST_RECORD: f64 = (1_u64 << 40) as f64;
/// 2^63 bytes, the largest data set.
const LARGEST_SET: f64 = (1_u64 << 63) as f64;

pub(super) fn dataset(settings: &mut Settings<'_>, data_folder: &str) -> Dataset {
    let format = settings.choice("dataset.format", &FORMATS, Format::Tfrecord);
    let files = settings.whole("dataset.num_files_train", 1..=VERY_MANY, 8);
    let eval_files = settings.whole("dataset.num_files_eval", 0..=VERY_MANY, 0);
    let stored = settings.optional_whole("dataset.num_files_stored", 1..=VERY_MANY);
    if let Some(stored) = stored.as_ref().filter(|stored| stored.value < files.value) {
        let text = format!("fewer than the {} of dataset.num_files_train", files.value);
        settings.object(&stored.origin, "dataset.num_files_stored", text);
    }
    let samples = settings.whole("dataset.num_samples_per_file", 1..=VERY_MANY, 1);
    if is_image(format.value) && samples.value > 1 {
        settings.object(
            &samples.origin,
            "dataset.num_samples_per_file",
            format!("is {}, but a {} file holds 1 sample", samples.value, format.value.suffix()),
        );
    }
    let hdf5 = Hdf5 {
        num_dset_per_record: settings
            .whole("dataset.hdf5.num_dset_per_record", 1..=100_000, 1)
            .value,
        chunk_dims: settings.wholes("dataset.hdf5.chunk_dims", 1..=VERY_MANY),
        max_shape: settings.wholes("dataset.hdf5.max_shape", 1..=VERY_MANY),
    };
    let record = record(settings, format.value, &hdf5);
    let (compression, compression_level) = compression::compression(settings, format.value);
    let dataset = Dataset {
        data_folder: data_folder.to_owned(),
        format: format.value,
        num_files_train: files.value,
        num_files_eval: eval_files.value,
        num_files_stored: stored.map(|stored| stored.value),
        num_samples_per_file: samples.value,
        record_length_bytes: record.length,
        record_length_bytes_stdev: record.stdev,
        record_dims: record.dims,
        record_element_type: record.element,
        num_subfolders_train: settings
            .whole("dataset.num_subfolders_train", 0..=VERY_MANY, 0)
            .value,
        num_subfolders_eval: settings.whole("dataset.num_subfolders_eval", 0..=VERY_MANY, 0).value,
        file_prefix: settings.text("dataset.file_prefix", file_name, "img").value,
        compression,
        compression_level,
        keep_files: settings.truth("dataset.keep_files", true),
        generation_buffer_size: settings
            .whole("dataset.generation_buffer_size", 1..=1 << 40, 1 << 31)
            .value,
        skip_listing: settings.truth("dataset.skip_listing", false),
        listing_validation_interval: settings
            .whole("dataset.listing_validation_interval", 0..=VERY_MANY, 1_000)
            .value,
        hdf5,
        parquet: parquet::parquet(settings),
        seed: settings.whole("dataset.seed", 0..=u64::MAX, 10).value,
        exact_size: record.exact,
        compressibility: settings.number("dataset.compressibility", 1.0..=1_000.0, 1.0).value,
        dedup_ratio: settings.number("dataset.dedup_ratio", 1.0..=1e6, 1.0).value,
    };
    check_countable(settings, &dataset);
    dataset
}

fn check_countable(settings: &mut Settings<'_>, dataset: &Dataset) {
    let all = dataset.num_files_train.saturating_add(dataset.num_files_eval);
    let (samples, length) = (dataset.num_samples_per_file, dataset.record_bytes());
    let is_countable = all.checked_mul(samples).is_some_and(|samples| {
        samples as f64 * (length + dataset.record_length_bytes_stdev) < LARGEST_SET
    });
    if !is_countable {
        settings.object_to_value(
            "dataset.num_files_train",
            format!(
                "{all} files x {samples} samples x {length} bytes are more than the 8 EiB that can \
                 be counted"
            ),
        );
    }
}

fn is_image(format: Format) -> bool {
    matches!(format, Format::Jpeg | Format::Png)
}

/// The size of a record, in any of the ways to give it.
struct Record {
    length: f64,
    stdev: f64,
    dims: Vec<u64>,
    element: ElementType,
    exact: bool,
}

fn record(settings: &mut Settings<'_>, format: Format, hdf5: &Hdf5) -> Record {
    let given = settings.optional_number(RECORD_LENGTH, 1.0..=LONGEST_RECORD);
    let stdev = settings.number("dataset.record_length_bytes_stdev", 0.0..=LONGEST_RECORD, 0.0);
    let mut element = settings
        .optional_choice("dataset.record_element_type", &ELEMENT_TYPES)
        .unwrap_or(Setting { value: ElementType::Uint8, origin: Origin::Default });
    if is_image(format) && element.value != ElementType::Uint8 {
        settings.warnings.push(Remark::about_key(
            &element.origin,
            "dataset.record_element_type",
            format!("is taken as uint8: a {} file holds bytes", format.suffix()),
        ));
        element.value = ElementType::Uint8;
    }
    let element_name = ELEMENT_TYPES.name(element.value);
    settings.record("dataset.record_element_type", element_name, &element.origin);

    let dims = settings.optional(DIMS, |node| list(node, |node| whole(node, &(1..=VERY_MANY))));
    settings.record_list(DIMS, dims.as_ref());
    let dims = dims.filter(|dims| !dims.value.is_empty());
    let length = match &dims {
        None => given.unwrap_or(Setting { value: 65_536.0, origin: Origin::Default }),
        Some(dims) => {
            check_dims(settings, dims, format, hdf5, stdev.value);
            let elements = dims.value.iter().map(|&dim| dim as f64).product::<f64>();
            let length = elements * element.value.size() as f64;
            if length > LONGEST_RECORD {
                settings.object(&dims.origin, DIMS, "the record is longer than 1 TiB");
            }
            Setting { value: length, origin: dims.origin.clone() }
        }
    };
    settings.record(RECORD_LENGTH, length.value, &length.origin);
    let exact = settings.truth(EXACT, false);
    if exact {
        check_exact(settings, length.value, stdev.value, dims.is_some(), element.value);
    }
    Record {
        exact,
        length: length.value,
        stdev: stdev.value,
        dims: dims.map(|dims| dims.value).unwrap_or_default(),
        element: element.value,
    }
}

/// The rules of `exact_size`: the record's length must be its size, and hold an element.
fn check_exact(
    settings: &mut Settings<'_>,
    length: f64,
    stdev: f64,
    has_dims: bool,
    element: ElementType,
) {
    if has_dims {
        let text = format!("cannot go with {DIMS}, which give the size exactly by themselves");
        settings.object_to_value(EXACT, text);
    }
    if stdev > 0.0 {
        let text =
            "cannot go with dataset.record_length_bytes_stdev: an exact size does not deviate";
        settings.object_to_value(EXACT, text);
    }
    if length < element.size() as f64 {
        let text = format!(
            "{RECORD_LENGTH} is {length}, less than the {} bytes of one {}",
            element.size(),
            ELEMENT_TYPES.name(element)
        );
        settings.object_to_value(EXACT, text);
    }
}

/// The rules of `record_dims` with its neighbours (spec/dlio.md 2.4, 2.11).
fn check_dims(
    settings: &mut Settings<'_>,
    dims: &Setting<Vec<u64>>,
    format: Format,
    hdf5: &Hdf5,
    stdev: f64,
) {
    if stdev > 0.0 {
        let text =
            "cannot go with dataset.record_length_bytes_stdev: an exact shape does not deviate";
        settings.object(&dims.origin, DIMS, text);
    }
    if is_image(format) && dims.value.len() > 2 {
        let text = format!("has {} dimensions, but a {} has 2", dims.value.len(), format.suffix());
        settings.object(&dims.origin, DIMS, text);
    }
    let parts = hdf5.num_dset_per_record;
    if !dims.value[0].is_multiple_of(parts) {
        let text = format!(
            "begins with {}, which dataset.hdf5.num_dset_per_record {parts} does not divide",
            dims.value[0]
        );
        settings.object(&dims.origin, DIMS, text);
    }
}
