//! `dataset.*`: what the files are and how many.

use super::keys::VERY_MANY;
use crate::origin::{Origin, Remark};
use crate::settings::{Choices, Setting, Settings, file_name, text, whole};
use crate::tree::{Node, Value};
use crate::workload::{Compression, Dataset, ElementType, Format, Hdf5, Parquet, ParquetColumn};

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

const COMPRESSIONS: Choices<Compression> = Choices {
    supported: &[
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("lzf", Compression::Lzf),
        ("bz2", Compression::Bz2),
        ("zip", Compression::Zip),
        ("xz", Compression::Xz),
        ("snappy", Compression::Snappy),
        ("zstd", Compression::Zstd),
        ("lz4", Compression::Lz4),
    ],
    not_supported: &[],
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

/// 1 TiB, the longest record in bytes.
const LONGEST_RECORD: f64 = (1_u64 << 40) as f64;
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
    let all = files.value.saturating_add(eval_files.value);
    let set_is_countable = all
        .checked_mul(samples.value)
        .is_some_and(|samples| samples as f64 * (record.length + record.stdev) < LARGEST_SET);
    if !set_is_countable {
        settings.object(
            &files.origin,
            "dataset.num_files_train",
            format!(
                "{all} files x {} samples x {} bytes are more than the 8 EiB that can be counted",
                samples.value, record.length
            ),
        );
    }
    Dataset {
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
        compression: compression(settings, format.value),
        compression_level: settings.whole_u32("dataset.compression_level", 0..=22, 4),
        keep_files: settings.truth("dataset.keep_files", true),
        generation_buffer_size: settings
            .whole("dataset.generation_buffer_size", 1..=1 << 40, 1 << 31)
            .value,
        skip_listing: settings.truth("dataset.skip_listing", false),
        listing_validation_interval: settings
            .whole("dataset.listing_validation_interval", 0..=VERY_MANY, 1_000)
            .value,
        hdf5,
        parquet: parquet(settings),
        seed: settings.whole("dataset.seed", 0..=u64::MAX, 10).value,
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
    Record {
        length: length.value,
        stdev: stdev.value,
        dims: dims.map(|dims| dims.value).unwrap_or_default(),
        element: element.value,
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

/// `dataset.compression`, which not every format has (spec/dlio.md 4.4).
fn compression(settings: &mut Settings<'_>, format: Format) -> Compression {
    use Compression::{Bz2, Gzip, Lz4, Lzf, None, Snappy, Xz, Zip, Zstd};
    let compression = settings.choice("dataset.compression", &COMPRESSIONS, None);
    let known: &[Compression] = match format {
        Format::Npz => &[None, Zip],
        Format::Csv => &[None, Gzip, Bz2, Zip, Xz],
        Format::Hdf5 => &[None, Gzip, Lzf],
        Format::Parquet => &[None, Snappy, Zstd, Gzip, Lz4],
        _ => &[None],
    };
    if !known.contains(&compression.value) {
        let names: Vec<_> = known.iter().map(|&known| COMPRESSIONS.name(known)).collect();
        let text = format!(
            "is {}, but a {} file can have {}",
            COMPRESSIONS.name(compression.value),
            format.suffix(),
            names.join(", ")
        );
        settings.object(&compression.origin, "dataset.compression", text);
    }
    compression.value
}

fn parquet(settings: &mut Settings<'_>) -> Parquet {
    const COLUMNS: &str = "dataset.parquet.columns";
    let columns = settings.optional(COLUMNS, |node| list(node, column));
    let shown = columns.as_ref().map(|columns| Setting {
        value: format!("{} columns", columns.value.len()),
        origin: columns.origin.clone(),
    });
    settings.record_optional(COLUMNS, shown.as_ref());
    Parquet {
        columns: columns.map(|columns| columns.value).unwrap_or_default(),
        row_group_size: settings
            .whole("dataset.parquet.row_group_size", 1..=VERY_MANY, 1_024)
            .value,
        partition_by: settings
            .optional_text("dataset.parquet.partition_by", file_name)
            .map(|column| column.value),
        generation_batch_size: settings
            .whole("dataset.parquet.generation_batch_size", 0..=VERY_MANY, 0)
            .value,
    }
}

/// `{name, dtype, size}`, each of which has a default (spec/dlio.md 4.3).
fn column(node: &Node) -> Result<ParquetColumn, String> {
    const TYPES: [&str; 15] = [
        "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
        "uint32", "uint64", "list", "string", "binary", "bool",
    ];
    if node.as_mapping().is_none() {
        return Err(format!("{node} is no column: accepts mappings of name, dtype and size"));
    }
    let field = |name| node.get(name).filter(|node| !node.is_null());
    let dtype = field("dtype").map_or(Ok("float32".to_owned()), text)?;
    if !TYPES.contains(&dtype.as_str()) {
        return Err(format!("the dtype {dtype:?} is not known: accepts {}", TYPES.join(", ")));
    }
    Ok(ParquetColumn {
        name: field("name").map_or(Ok("data".to_owned()), text)?,
        dtype,
        size: field("size").map_or(Ok(1), |size| whole(size, &(1..=VERY_MANY)))?,
    })
}

fn list<T>(node: &Node, item: impl Fn(&Node) -> Result<T, String>) -> Result<Vec<T>, String> {
    match &node.value {
        Value::Sequence(nodes) => nodes.iter().map(item).collect(),
        _ => Err("accepts a list".to_owned()),
    }
}
