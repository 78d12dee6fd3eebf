//! A data set description for tests.

use feedrate_workload::testing::workload;
use feedrate_workload::{Dataset, ElementType, Format, Split};

use crate::FileFormat;

/// All types of elements.
pub(crate) const ELEMENT_TYPES: [ElementType; 11] = [
    ElementType::Uint8,
    ElementType::Uint16,
    ElementType::Uint32,
    ElementType::Uint64,
    ElementType::Int8,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Float16,
    ElementType::Float32,
    ElementType::Float64,
];

/// A set of `files` files of one sample of `record_length` bytes.
pub(crate) fn dataset(format: Format, files: u64, record_length: f64) -> Dataset {
    Dataset {
        data_folder: "data/t0".to_owned(),
        format,
        num_files_train: files,
        record_length_bytes: record_length,
        ..workload(&[]).dataset
    }
}

/// The files of a set.
pub(crate) fn files(set: &Dataset, split: Split) -> FileFormat {
    FileFormat::new(set, split).expect("the set can be made")
}
