//! Arbitrary bytes read as a Parquet file, footer and values: nothing panics, hangs or takes memory
//! without bound. Begin with files of several writers, since hardly anything else gets past the first
//! bytes.

#![no_main]

use std::sync::LazyLock;

use feedrate_dataset::FileFormat;
use feedrate_workload::Split;
use feedrate_workload::testing::workload;

/// Files of 20 samples.
static FORMAT: LazyLock<FileFormat> = LazyLock::new(|| {
    let options = ["dataset.format=parquet", "dataset.num_samples_per_file=20"];
    FileFormat::new(&workload(&options).dataset, Split::Train).expect("the set can be made")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = FORMAT.decode(0, 0..20, input);
});
