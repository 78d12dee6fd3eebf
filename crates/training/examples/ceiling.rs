//! The tool's own ceiling: training from memory, with no storage in the way.
//!
//!     cargo run --release -p feedrate-training --example ceiling
//!
//! Small files that a store in memory hands out at once, so whatever the accelerators lose here is
//! lost by the tool: waking up, taking a batch, meeting at the barrier. Printed for several numbers of
//! ranks: AU by DLIO's formula and by the wall clock, and what a step costs beside its computation.

use std::sync::Arc;

use bytes::Bytes;
use feedrate_dataset::{FileFormat, Layout};
use feedrate_loader::{BufferPool, Known, Source, Work};
use feedrate_metrics::record::RunRecord;
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::ByteCount;
use feedrate_metrics::utilization::{MetricWindow, epoch_au_percent, epoch_wall_au_percent};
use feedrate_ranks::in_process;
use feedrate_storage::{MemoryStore, Store};
use feedrate_training::{Job, Observer, Progress, run};
use feedrate_workload::{Override, Request, Schedule, Split, Workload, resolve};
use tokio::runtime::Runtime;

const RANKS: [u32; 4] = [1, 8, 64, 256];
/// RetinaNet's computation time on a B200, and DLRM's.
const COMPUTATION_SECONDS: [f64; 2] = [0.04755, 0.000_375];
const STEPS: u64 = 40;
const BATCH: u64 = 2;

struct Nobody;

impl Observer for Nobody {
    fn epoch_starts(&self, _: u32, _: u64) {}

    fn warned(&self, text: &str) {
        eprintln!("{text}");
    }

    fn epoch_ended(&self, _: &RunRecord) -> Result<(), String> {
        Ok(())
    }
}

fn workload(ranks: u32, computation_seconds: f64) -> Workload {
    let files = STEPS * BATCH * u64::from(ranks);
    let set = |key: &str, value: f64| Override::set(&format!("{key}={value}"));
    let request = Request {
        workload: "retinanet_b200".into(),
        overrides: vec![
            Override::flag("ceiling", "dataset.num_files_train", files),
            Override::flag("ceiling", "dataset.format", "npz"),
            Override::flag("ceiling", "dataset.record_length_bytes", 4_096_u64),
            Override::flag("ceiling", "reader.batch_size", BATCH),
            Override::flag("ceiling", "reader.read_threads", 2_u32),
            Override::flag("ceiling", "train.epochs", 2_u32),
            set("train.computation_time", computation_seconds),
            Override::set("storage.drop_caches=never"),
        ],
        ..Request::default()
    };
    resolve(&request).expect("the preset resolves").workload
}

/// A store in memory with all files of `workload`.
fn source(workload: &Workload, runtime: &Runtime) -> Source {
    let dataset = &workload.dataset;
    let format = FileFormat::new(dataset, Split::Train).expect("the data set can be made");
    let layout = Layout::new(dataset, Split::Train, "", dataset.num_files_train);
    let store = MemoryStore::new();
    for file in 0..dataset.num_files_train {
        let mut bytes = Vec::new();
        format.write(file, &mut bytes);
        runtime
            .block_on(store.put(&layout.key(file), Bytes::from(bytes)))
            .expect("memory takes what it is given");
    }
    let cut = format.cut();
    Source {
        store: Arc::new(store),
        layout,
        format,
        known: Known::AsMade,
        cut,
        columns: None,
        wanted_bytes_per_sample: None,
        range_bytes: None,
        work: Work::none(),
        pool: BufferPool::new(),
    }
}

fn main() {
    let runtime = Runtime::new().expect("threads can be started");
    println!("| computation | NP | AU % | wall AU % | µs a step beside it |");
    println!("|---|---|---|---|---|");
    for seconds in COMPUTATION_SECONDS {
        for ranks in RANKS {
            let workload = workload(ranks, seconds);
            let schedule = Schedule::new(&workload, ranks).expect("there are steps");
            let job = Job {
                source: Arc::new(source(&workload, &runtime)),
                workload,
                schedule,
                evaluation: None,
                requests: Arc::new(RequestStats::new()),
                byte_budget: ByteCount(256 << 20),
                co_located: true,
                host: String::new(),
                runtime: runtime.handle().clone(),
            };
            let worlds = in_process::world(ranks);
            let record = run(job, worlds, Arc::new(Nobody), Arc::new(Progress::default()))
                .expect("nothing can fail in memory")
                .expect("rank 0 is here");
            let window =
                MetricWindow { exclude_start: 1, exclude_end: 0, expected_steps: schedule.steps };
            let last = record.epochs.last().expect("there are epochs");
            let wall_au = epoch_wall_au_percent(last).unwrap_or(f64::NAN);
            let beside = seconds * (100.0 / wall_au - 1.0) * 1e6;
            println!(
                "| {:.3} ms | {ranks} | {:.2} | {wall_au:.2} | {beside:.0} |",
                seconds * 1e3,
                epoch_au_percent(last, &window).unwrap_or(f64::NAN),
            );
        }
    }
}
