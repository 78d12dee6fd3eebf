//! The tool's own ceiling: training from memory, with no storage in the way.
//!
//!     cargo run --release -p feedrate-training --example ceiling [small | dlrm]
//!
//! A store in memory answers at once, so whatever the accelerators lose here is lost by the tool.
//!
//! `small`: files of 4 KiB, for several computation times and numbers of ranks: waking up, taking a
//! batch, meeting at the barrier. Printed of the last epoch: AU by DLIO's formula and by the wall clock,
//! what a step costs beside its computation, and the parts of that.
//!
//! `dlrm`: the preset `dlrm_b200` as it is, batches of 16,384 samples of which each row group brings 40
//! columns by as many GETs less those that lie together, but for three things: its files have fewer row
//! groups, all are the same one in memory, and of what a GET brings nothing is copied
//! (`reader.payload: discard`). Printed for each epoch: the same, and what a GET costs, everything that
//! this process does shared among its GETs. The first epoch reads the footers as well.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use feedrate_dataset::{FileFormat, Layout};
use feedrate_loader::{BufferPool, Columns, Known, RowGroups, Source, Work};
use feedrate_metrics::process::own_cpu_time;
use feedrate_metrics::record::{RunRecord, StepRecord};
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_metrics::utilization::{MetricWindow, epoch_au_percent, epoch_wall_au_percent};
use feedrate_ranks::in_process;
use feedrate_storage::{
    Fetched, Listed, MemoryStore, ObjectKey, RetryPolicy, Retrying, Store, StoreError,
};
use feedrate_training::{Job, Observer, Progress, run};
use feedrate_workload::{Format, Override, Request, Schedule, Split, Workload, resolve};
use futures::future::BoxFuture;
use tokio::runtime::Runtime;

/// RetinaNet's computation time on a B200 and DLRM's, each with steps of an epoch that take about a
/// second or more.
const COMPUTATIONS: [(f64, u64); 2] = [(0.04755, 40), (0.000_375, 2_000)];
const RANKS: [u32; 4] = [1, 8, 64, 256];
const BATCH: u64 = 2;

const DLRM_RANKS: [u32; 2] = [1, 2];
const DLRM_STEPS: u64 = 2_000;
const DLRM_EPOCHS: u32 = 3;
/// 128 row groups of 6,144; the preset's files have 768.
const DLRM_SAMPLES_PER_FILE: u64 = 128 * 6_144;

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name| only.as_deref().is_none_or(|only| only == name);
    let runtime = Runtime::new().expect("threads can be started");
    if wanted("small") {
        small(&runtime);
    }
    if wanted("dlrm") {
        dlrm(&runtime);
    }
}

fn small(runtime: &Runtime) {
    println!("| computation | NP | {LOST_HEADER} |");
    println!("|---|---|---|---|---|---|---|---|");
    for (seconds, steps) in COMPUTATIONS {
        for ranks in RANKS {
            let files = steps * BATCH * u64::from(ranks);
            let workload = workload(
                "retinanet_b200",
                [
                    Override::flag("ceiling", "dataset.num_files_train", files),
                    Override::flag("ceiling", "dataset.format", "npz"),
                    Override::flag("ceiling", "dataset.record_length_bytes", 4_096_u64),
                    Override::flag("ceiling", "reader.batch_size", BATCH),
                    Override::flag("ceiling", "reader.read_threads", 2_u32),
                    Override::flag("ceiling", "train.epochs", 2_u32),
                    Override::set(&format!("train.computation_time={seconds}")),
                ],
            );
            let trained = train(workload, ranks, runtime);
            let last = trained.record.epochs.len() - 1;
            println!("| {:.3} ms | {ranks} | {} |", seconds * 1e3, trained.lost(last));
        }
    }
}

fn dlrm(runtime: &Runtime) {
    println!("| NP | epoch | steps | {LOST_HEADER} | GETs a step | µs of CPU a GET | CPUs used |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for ranks in DLRM_RANKS {
        let mut workload = workload(
            "dlrm_b200",
            [
                Override::flag("ceiling", "dataset.num_samples_per_file", DLRM_SAMPLES_PER_FILE),
                Override::flag("ceiling", "train.epochs", DLRM_EPOCHS),
                Override::flag("ceiling", "reader.payload", "discard"),
            ],
        );
        let samples = DLRM_STEPS * workload.reader.batch_size * u64::from(ranks);
        workload.dataset.num_files_train = samples.div_ceil(DLRM_SAMPLES_PER_FILE);
        let trained = train(workload, ranks, runtime);
        for (index, Cost { gets, cpu_seconds }) in trained.costs.iter().enumerate() {
            let steps = trained.record.steps_per_epoch;
            println!(
                "| {ranks} | {} | {steps} | {} | {:.1} | {:.2} | {:.2} |",
                index + 1,
                trained.lost(index),
                *gets as f64 / (steps * u64::from(ranks)) as f64,
                cpu_seconds * 1e6 / *gets as f64,
                cpu_seconds / trained.record.epochs[index].ranks[0].duration.0,
            );
        }
    }
}

fn workload<const N: usize>(preset: &str, overrides: [Override; N]) -> Workload {
    let mut overrides = Vec::from(overrides);
    overrides.push(Override::set("storage.drop_caches=never"));
    let request = Request { workload: preset.into(), overrides, ..Request::default() };
    resolve(&request).expect("the preset resolves").workload
}

struct Trained {
    record: RunRecord,
    /// Of each epoch.
    costs: Vec<Cost>,
}

/// What [`Trained::lost`] tells; times are means of a step in µs.
const LOST_HEADER: &str =
    "AU % | wall AU % | µs beside it | waiting for a batch | sleeping too long | barrier";

impl Trained {
    /// What an epoch lost, in the columns of [`LOST_HEADER`].
    fn lost(&self, epoch: usize) -> String {
        let expected_steps = self.record.steps_per_epoch;
        let window = MetricWindow { exclude_start: 1, exclude_end: 0, expected_steps };
        let epoch = &self.record.epochs[epoch];
        let steps =
            || epoch.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.steps);
        let mean = |part: fn(&StepRecord) -> Seconds| {
            1e6 * steps().map(part).sum::<Seconds>().0 / steps().count() as f64
        };
        let computation = mean(|step| step.drawn);
        let wall_au = epoch_wall_au_percent(epoch).unwrap_or(f64::NAN);
        format!(
            "{:.2} | {wall_au:.2} | {:.0} | {:.1} | {:.1} | {:.1}",
            epoch_au_percent(epoch, &window).unwrap_or(f64::NAN),
            computation * (100.0 / wall_au - 1.0),
            mean(|step| step.wait),
            mean(|step| step.compute - step.drawn),
            mean(|step| step.barrier),
        )
    }
}

fn train(workload: Workload, ranks: u32, runtime: &Runtime) -> Trained {
    let schedule = Schedule::new(&workload, ranks).expect("there are steps");
    let requests = Arc::new(RequestStats::new());
    let job = Job {
        source: Arc::new(source(&workload, &requests, runtime)),
        workload,
        schedule,
        evaluation: None,
        requests,
        byte_budget: ByteCount(256 << 20),
        co_located: true,
        host: String::new(),
        runtime: runtime.handle().clone(),
    };
    let meter = Arc::new(Meter::default());
    let observer: Arc<dyn Observer> = Arc::<Meter>::clone(&meter);
    let record = run(job, in_process::world(ranks), observer, Arc::new(Progress::default()))
        .expect("nothing can fail in memory")
        .expect("rank 0 is here");
    let costs = std::mem::take(&mut meter.readings().costs);
    Trained { record, costs }
}

/// What an epoch took.
#[derive(Clone, Copy)]
struct Cost {
    gets: u64,
    cpu_seconds: f64,
}

/// Reads the meters before and behind each epoch.
#[derive(Default)]
struct Meter(Mutex<Readings>);

#[derive(Default)]
struct Readings {
    cpu_seconds: f64,
    gets: u64,
    costs: Vec<Cost>,
}

impl Meter {
    fn readings(&self) -> std::sync::MutexGuard<'_, Readings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Meter {
    fn epoch_starts(&self, _: u32, _: u64) {
        self.readings().cpu_seconds = cpu_seconds();
    }

    fn warned(&self, text: &str) {
        eprintln!("{text}");
    }

    fn epoch_ended(&self, record: &RunRecord) -> Result<(), String> {
        let cpu = cpu_seconds();
        let mut readings = self.readings();
        let all = record.requests.gets;
        let cost = Cost { gets: all - readings.gets, cpu_seconds: cpu - readings.cpu_seconds };
        readings.gets = all;
        readings.costs.push(cost);
        Ok(())
    }
}

/// That this process used until now.
fn cpu_seconds() -> f64 {
    own_cpu_time().expect("the kernel tells").sum().0
}

/// A store in memory with all files of `workload`, counted as those of any other store.
fn source(workload: &Workload, requests: &Arc<RequestStats>, runtime: &Runtime) -> Source {
    let dataset = &workload.dataset;
    let format = FileFormat::new(dataset, Split::Train).expect("the data set can be made");
    let layout = Layout::new(dataset, Split::Train, "", dataset.num_files_train);
    let mut bytes = Vec::new();
    format.write(0, &mut bytes);
    let store = runtime.block_on(OneFile::holding(bytes.into()));
    let policy = RetryPolicy::default();
    let store: Arc<dyn Store> = Arc::new(Retrying::new(store, policy, Arc::clone(requests)));
    let columns =
        (dataset.format == Format::Parquet).then(|| Columns::new(dataset, &workload.storage));
    let groups = columns.as_ref().map(|columns| {
        let look = async { columns.look(&*store, &layout.key(0), 0).await };
        runtime.block_on(look).expect("the file has a footer")
    });
    let (cut, wanted_bytes_per_sample) = match groups {
        Some(RowGroups { cut, bytes_per_sample }) => (cut, Some(bytes_per_sample)),
        None => (format.cut(), None),
    };
    Source {
        store,
        layout,
        format,
        known: Known::AsMade,
        cut,
        columns,
        wanted_bytes_per_sample,
        range_bytes: None,
        work: Work::none(),
        pool: BufferPool::new(),
    }
}

/// One file in memory that is found under every key.
#[derive(Debug)]
struct OneFile {
    key: ObjectKey,
    length: u64,
    store: MemoryStore,
}

impl OneFile {
    async fn holding(file: Bytes) -> Self {
        let (key, store) = (ObjectKey::new("file"), MemoryStore::new());
        let length = file.len() as u64;
        store.put(&key, file).await.expect("memory takes what it is given");
        Self { key, length, store }
    }
}

impl Store for OneFile {
    fn get<'a>(
        &'a self,
        _: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        self.store.get(&self.key, range, into)
    }

    fn get_discarding<'a>(
        &'a self,
        _: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let bytes = range.map_or(self.length, |range| range.end - range.start);
        let at_once = Fetched { bytes, first_byte: Duration::ZERO, last_byte: Duration::ZERO };
        Box::pin(async move { Ok(at_once) })
    }

    fn get_tail<'a>(
        &'a self,
        _: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        self.store.get_tail(&self.key, most, into)
    }

    fn put<'a>(&'a self, _: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.put(&self.key, body)
    }

    fn size<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.size(&self.key)
    }

    fn delete<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.delete(&self.key)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.list(prefix, page)
    }

    fn location(&self) -> String {
        self.store.location()
    }
}
