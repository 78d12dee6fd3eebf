//! Arbitrary bytes read as an HDF5 file: nothing panics, hangs or takes memory without bound. Begin with
//! files of several writers, since hardly anything else gets past the first bytes.

#![no_main]

use std::sync::LazyLock;

use feedrate_dataset::FileFormat;
use feedrate_workload::Split;
use feedrate_workload::testing::workload;

/// Files of two samples of 31 x 31 bytes, which may grow.
static FORMAT: LazyLock<FileFormat> = LazyLock::new(|| {
    let options = [
        "dataset.format=hdf5",
        "dataset.num_samples_per_file=2",
        "dataset.record_length_bytes=1000",
        "dataset.record_length_bytes_stdev=0",
        "dataset.hdf5.max_shape=[62,62]",
    ];
    FileFormat::new(&workload(&options).dataset, Split::Train).expect("the set can be made")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = FORMAT.decode(0, 0..2, input);
});
