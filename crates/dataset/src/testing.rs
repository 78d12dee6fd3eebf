//! A data set description for tests.

use feedrate_workload::testing::workload;
use feedrate_workload::{Dataset, Format, Split};

use crate::FileFormat;

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
