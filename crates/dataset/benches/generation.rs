//! How fast files of each format are made, and decoded, on one core, beside `memcpy`.
//!
//!     cargo bench -p feedrate-dataset --bench generation [-- WORD...]
//!
//! A word picks the rows whose names have it. Files are made into buffers that are in memory but too many
//! for a cache, some 256 MiB, as those of a generation are that lie there until they are sent. `memcpy`
//! fills the same buffers from a source that stays in the cache, as fast as ordinary stores reach memory.
//! Machines drift, so both take turns, and what is told is the median of the ratios of each turn, and the
//! worst.

use std::env;
use std::hint::black_box;
use std::time::Duration;

use feedrate_dataset::FileFormat;
use feedrate_workload::{Override, Request, Split, resolve};
use rustix::time::{ClockId, clock_gettime};

/// Turns, of which the median counts.
const TURNS: usize = 9;
const DECODING_TURNS: usize = 3;
/// Bytes of the buffers, at least: eight times a cache of 32 MiB.
const MANY: u64 = 256 << 20;
/// Bytes of them to decode: images take long.
const SOME: u64 = 32 << 20;
/// Bytes of the source of `memcpy`: of 4 KiB to 8 MiB, these were among the quickest.
const SOURCE: usize = 256 << 10;

/// What is made: a name, a workload, and what differs from it.
type Row = (&'static str, &'static str, &'static [&'static str]);

const SMALL: &str = "dataset.record_length_bytes=322957";
const UNIFORM: &str = "dataset.record_length_bytes_stdev=0";

const ROWS: [Row; 14] = [
    ("JPEG, 316 KiB (RetinaNet)", "retinanet_b200", &[]),
    ("PNG, 316 KiB", "retinanet_b200", &["dataset.format=png"]),
    ("NPZ, 316 KiB", "unet3d_b200", &[UNIFORM, SMALL]),
    ("NPZ, 140 MiB (UNet3D)", "unet3d_b200", &[UNIFORM]),
    ("NPY, 316 KiB", "unet3d_b200", &["dataset.format=npy", UNIFORM, SMALL]),
    ("NPY, 140 MiB", "unet3d_b200", &["dataset.format=npy", UNIFORM]),
    (
        "NPY, 140 MiB, float32",
        "unet3d_b200",
        &["dataset.format=npy", UNIFORM, "dataset.record_element_type=float32"],
    ),
    ("HDF5, 140 MiB, in one piece", "unet3d_b200", &["dataset.format=hdf5", UNIFORM]),
    ("TFRecord, 137 MiB (ResNet-50)", "resnet50_h100", &[]),
    (
        "indexed binary, 2 KiB × 65,536",
        "megatron_deepspeed_LLNL",
        &["dataset.num_samples_per_file=65536"],
    ),
    (
        "CSV, 2 KiB × 4,096",
        "megatron_deepspeed_LLNL",
        &["dataset.format=csv", "dataset.num_samples_per_file=4096"],
    ),
    (
        "Parquet, one column, 64 KiB × 2,048",
        "retinanet_b200",
        &[
            "dataset.format=parquet",
            "dataset.num_samples_per_file=2048",
            "dataset.record_length_bytes=65536",
        ],
    ),
    ("Parquet, Flux's schema, 128 rows", "flux_b200", &["dataset.num_samples_per_file=128"]),
    ("Parquet, DLRM's schema, 262,144 rows", "dlrm_b200", &["dataset.num_samples_per_file=262144"]),
];

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    // Test runners start benches too, without it.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let words: Vec<_> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    println!(
        "| format | memcpy GiB/s | making GiB/s | of memcpy | worst | decoding GiB/s | of memcpy | worst |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in ROWS {
        if words.is_empty() || words.iter().any(|word| row.0.contains(word.as_str())) {
            measure(row);
        }
    }
}

fn measure((name, workload, options): Row) {
    let many = ["dataset.num_files_train=1024"];
    let overrides = many.iter().chain(options).map(|&option| Override::set(option)).collect();
    let request = Request { workload: workload.into(), overrides, ..Request::default() };
    let dataset = resolve(&request).expect("the row resolves").workload.dataset;
    let files = FileFormat::new(&dataset, Split::Train).expect("the row can be made");

    let source = vec![0x5a; SOURCE];
    let count = MANY.div_ceil(files.file_len(0)).min(files.files());
    let mut buffers = vec![Vec::new(); count as usize];
    let make = |buffers: &mut [Vec<u8>]| {
        for (file, buffer) in (0..).zip(buffers) {
            files.write(file, buffer);
        }
    };
    // The buffers get their memory.
    make(&mut buffers);

    let mut making = Samples::default();
    for _ in 0..TURNS {
        let copied = timed(|| copy(&source, &mut buffers));
        making.push(copied, timed(|| make(&mut buffers)));
    }
    let bytes = total(&buffers);

    let some = SOME.div_ceil(files.file_len(0)) as usize;
    let some = some.min(buffers.len());
    let mut decoding = Samples::default();
    for _ in 0..DECODING_TURNS {
        let copied = timed(|| copy(&source, &mut buffers));
        make(&mut buffers);
        let decoded = timed(|| {
            for (file, found) in (0..).zip(&buffers[..some]) {
                let samples = 0..files.samples_per_file();
                files.decode(file, samples, found).expect("what was made decodes");
            }
        });
        let part = total(&buffers[..some]) as f64 / bytes as f64;
        decoding.push(copied.mul_f64(part), decoded);
    }
    let part = total(&buffers[..some]);
    let of_making = making.cells(bytes);
    // Who only looks at headers is done before anything could be read.
    let of_decoding =
        if decoding.worst_ratio() > 2.0 { "- | - | -".to_owned() } else { decoding.cells(part) };
    println!("| {name} | {:.1} | {of_making} | {of_decoding} |", rate(bytes, &making.copied));
}

/// Fills buffers as far as they are full.
fn copy(source: &[u8], buffers: &mut [Vec<u8>]) {
    for buffer in buffers {
        let len = buffer.len();
        buffer.clear();
        while buffer.len() < len {
            buffer.extend_from_slice(&source[..source.len().min(len - buffer.len())]);
        }
        black_box(buffer);
    }
}

fn total(buffers: &[Vec<u8>]) -> usize {
    buffers.iter().map(Vec::len).sum()
}

/// The time that the core worked for it, since others may want the core as well.
fn timed(work: impl FnOnce()) -> Duration {
    let start = worked();
    work();
    worked().saturating_sub(start)
}

fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// The times of `memcpy` and of something else beside it.
#[derive(Default)]
struct Samples {
    copied: Vec<Duration>,
    own: Vec<Duration>,
}

impl Samples {
    fn push(&mut self, copied: Duration, own: Duration) {
        self.copied.push(copied);
        self.own.push(own);
    }

    /// How fast it was as a ratio to `memcpy`, turn by turn, the worst first.
    fn ratios(&self) -> Vec<f64> {
        let turns = self.copied.iter().zip(&self.own);
        let mut ratios: Vec<_> = turns.map(|(copied, own)| copied.div_duration_f64(*own)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// GiB/s, the median of the ratios, and the worst.
    fn cells(&self, bytes: usize) -> String {
        let (median, worst) = (self.median_ratio(), self.worst_ratio());
        format!("{:.2} | {median:.3} | {worst:.3}", rate(bytes, &self.own))
    }

    fn median_ratio(&self) -> f64 {
        let ratios = self.ratios();
        ratios[ratios.len() / 2]
    }

    fn worst_ratio(&self) -> f64 {
        self.ratios()[0]
    }
}

/// GiB/s, by the median of the times.
fn rate(bytes: usize, times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    bytes as f64 / f64::from(1 << 30) / times[times.len() / 2].as_secs_f64()
}
