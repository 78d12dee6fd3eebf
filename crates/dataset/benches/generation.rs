//! How fast files are made, on one core, beside `memcpy` of as many bytes.
//!
//! Two ways each: into one buffer that stays in cache, as `datagen` does when the store takes files
//! as fast as they come, and into buffers that do not fit a cache, which the memory bounds.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use feedrate_dataset::FileFormat;
use feedrate_workload::testing::workload;
use feedrate_workload::{Dataset, Format, Split};

/// RetinaNet's record length.
const RECORD: u64 = 322_957;
/// Buffers that together are larger than a cache: 315 MiB.
const MANY: usize = 1024;

fn files(format: Format) -> FileFormat {
    let dataset = Dataset {
        format,
        num_files_train: 1 << 20,
        record_length_bytes: RECORD as f64,
        ..workload(&[]).dataset
    };
    FileFormat::new(&dataset, Split::Train).expect("the bench's data set can be made")
}

/// A writer of whole files: its name, and what makes the file of an index in a buffer.
type Writer = (&'static str, Box<dyn Fn(u64, &mut Vec<u8>)>);

fn writers() -> Vec<Writer> {
    let source = vec![0x5a; RECORD as usize];
    let (jpeg, npz) = (files(Format::Jpeg), files(Format::Npz));
    vec![
        (
            "memcpy",
            Box::new(move |_, out| {
                out.clear();
                out.extend_from_slice(&source);
            }),
        ),
        ("jpeg", Box::new(move |file, out| jpeg.write(file, out))),
        ("npz", Box::new(move |file, out| npz.write(file, out))),
    ]
}

fn generation(criterion: &mut Criterion) {
    for (place, count) in [("in cache", 1), ("in memory", MANY)] {
        let mut group = criterion.benchmark_group(format!("make a file {place}"));
        group.throughput(Throughput::Bytes(RECORD));
        let mut buffers = vec![Vec::with_capacity(2 * RECORD as usize); count];
        for (name, write) in writers() {
            let mut file = 0;
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let buffer = &mut buffers[file as usize % count];
                    write(file, buffer);
                    black_box(&buffer);
                    file += 1;
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = generation
}
criterion_main!(benches);
