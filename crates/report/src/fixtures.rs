//! Hand-made runs whose figures are arithmetic.

use std::collections::BTreeMap;

use feedrate_metrics::process::{CpuByPhase, CpuTime, ProcessUsage, WaitingCpu};
use feedrate_metrics::record::{
    BlockRecord, CacheDrops, EpochRecord, Evaluation, ProcessRecord, RankEpoch, RunRecord, Stamp,
    StepRecord, WaitParts,
};
use feedrate_metrics::requests::{LatencySummary, RequestSummary};
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_workload::{Dataset, Format, Pipeline, Target, Time, Workload};

use crate::{HostFacts, NodeFacts, Nodes, Origin, ProcessFacts, RunReport, Store, Sweep, SweepRun};

pub(crate) fn stamp() -> Stamp {
    serde_json::from_str("\"2026-05-12T17:39:56.123456Z\"").unwrap()
}

fn workload(model: &str, dataset: Dataset, batch_size: u64, compute: f64, au: f64) -> Workload {
    let prefix = dataset.data_folder.clone();
    let mut workload = feedrate_workload::testing::workload(&["train.epochs=1"]);
    model.clone_into(&mut workload.model.name);
    workload.dataset = dataset;
    workload.reader.batch_size = batch_size;
    workload.train.computation_time = Time::Constant { mean: compute };
    workload.metric.au = au;
    workload.storage.prefetch_window = 256;
    workload.storage.target = Target::S3 {
        bucket: "bench".to_owned(),
        prefix,
        endpoint_urls: vec!["http://127.0.0.1:9000".to_owned()],
        region: None,
    };
    workload
}

fn dataset(format: Format, files: u64, record_length_bytes: f64) -> Dataset {
    Dataset {
        data_folder: "data/t0".to_owned(),
        format,
        num_files_train: files,
        record_length_bytes,
        seed: 1,
        ..feedrate_workload::testing::workload(&[]).dataset
    }
}

pub(crate) fn host() -> HostFacts {
    let meminfo = vec![("MemTotal".to_owned(), "25165824 kB".to_owned())];
    HostFacts {
        hostname: "vm".to_owned(),
        logical_cpus: 2,
        cpu_model: "Intel(R) Xeon(R) Processor".to_owned(),
        sha_extensions: true,
        memory: ByteCount(24 << 30),
        cpuinfo: vec![("vendor_id".to_owned(), "GenuineIntel".to_owned())],
        meminfo,
    }
}

fn store() -> Store {
    Store {
        endpoint: Some("http://127.0.0.1:9000".to_owned()),
        location: "bench/data/t0".to_owned(),
        co_located: true,
        embedded: true,
    }
}

fn origin() -> Origin {
    let command = ["feedrate", "sweep", "retinanet_b200", "--np", "1,2,4"];
    Origin::new("0.1.0", command, "retinanet_b200")
}

/// An epoch of `ranks` equal ranks with one block that takes `duration`.
fn epoch(
    number: u32,
    ranks: u32,
    steps: &[StepRecord],
    duration: f64,
    samples: u64,
    bytes: u64,
) -> EpochRecord {
    let rank = |rank| RankEpoch {
        rank,
        host: "vm".to_owned(),
        start: stamp(),
        end: stamp(),
        duration: Seconds(duration),
        blocks: vec![BlockRecord {
            number: 1,
            start: stamp(),
            end: stamp(),
            duration: Seconds(duration),
            steps: steps.to_vec(),
        }],
        samples,
        bytes: ByteCount(bytes),
        waited: waited(steps.iter().map(|step| step.wait).sum()),
        evaluation: None,
        over: stamp(),
        host_meminfo: host().meminfo,
    };
    EpochRecord { epoch: number, ranks: (0..ranks).map(rank).collect() }
}

/// Most of a wait before the first byte.
fn waited(wait: Seconds) -> WaitParts {
    let part = |share: f64| Seconds(share * wait.0);
    WaitParts {
        queued_for_window: part(0.02),
        queued_for_turn: part(0.08),
        first_byte: part(0.6),
        transfer: part(0.25),
        handover: part(0.05),
        ..WaitParts::default()
    }
}

fn step(wait: f64, compute: f64, barrier: f64) -> StepRecord {
    StepRecord {
        wait: Seconds(wait),
        compute: Seconds(compute),
        drawn: Seconds(compute),
        barrier: Seconds(barrier),
        work: Seconds(0.0),
    }
}

fn latency(count: u64, p50: f64) -> LatencySummary {
    LatencySummary {
        count,
        mean: Some(p50),
        p50: Some(p50),
        p90: Some(2.0 * p50),
        p99: Some(4.0 * p50),
        max: Some(8.0 * p50),
    }
}

fn usage(cpu: f64, peak_mib: u64) -> ProcessUsage {
    let part = |user: f64, system: f64| CpuTime {
        user: Seconds(cpu * user),
        system: Seconds(cpu * system),
    };
    let phases = CpuByPhase {
        start: part(0.1, 0.025),
        training: part(0.5, 0.25),
        evaluation: CpuTime::default(),
        between: part(0.075, 0.05),
    };
    ProcessUsage {
        cpu: Seconds(cpu),
        peak_rss: ByteCount(peak_mib << 20),
        age: Seconds(10.0),
        phases: Some(phases),
    }
}

fn process(first_rank: u32, ranks: u32, host: &str, usage: ProcessUsage) -> ProcessRecord {
    ProcessRecord { first_rank, ranks, host: host.to_owned(), usage, in_flight: None }
}

fn report(workload: Workload, np: u32, steps: u64, epochs: Vec<EpochRecord>) -> RunReport {
    let ranks = || epochs.iter().flat_map(|epoch| &epoch.ranks);
    let bytes = ByteCount(ranks().map(|rank| rank.bytes.0).sum());
    let gets = ranks().map(|rank| rank.samples).sum();
    let record = RunRecord {
        start: stamp(),
        end: stamp(),
        steps_per_epoch: steps,
        evaluation_steps: 0,
        cache_drops: CacheDrops::default(),
        time_to_first_step: Some(Seconds(0.25)),
        decoded: feedrate_metrics::decode::DecodeSummary::default(),
        requests: RequestSummary {
            gets,
            bytes,
            retries: BTreeMap::new(),
            first_byte_ms: latency(gets, 0.75),
            last_byte_ms: latency(gets, 1.0),
            endpoints: BTreeMap::new(),
        },
        process: usage(2.0, 300),
        processes: vec![process(0, np, "vm", usage(2.0, 300))],
        waiting_cpu: WaitingCpu { waited: Seconds(1.0), cpu: Seconds(0.5), cpus: 2.0 },
        window_share_of_epoch: 0.1,
        byte_budget: ByteCount(256 << 20),
        epochs,
    };
    RunReport::new(origin(), workload, Nodes::single(host(), np), store(), record)
}

/// One rank, batch 1, 64 KiB records: `steps` steps of `wait` and `compute` seconds.
pub(crate) fn delays(wait: f64, compute: f64, steps: u64) -> RunReport {
    let workload = workload("t0", dataset(Format::Npz, steps, 65_536.0), 1, compute, 0.9);
    let duration = (wait + compute) * steps as f64;
    let all = vec![step(wait, compute, 0.0); steps as usize];
    let epochs = vec![epoch(1, 1, &all, duration, steps, steps * 65_536)];
    report(workload, 1, steps, epochs)
}

/// 100 ms before each first byte, 100 ms of computing, nothing overlaps: AU 50 %, 5 samples/s.
pub(crate) fn known_delays() -> RunReport {
    delays(0.1, 0.1, 11)
}

/// An epoch that has only the step which the metric window leaves out.
pub(crate) fn one_step() -> RunReport {
    delays(0.1, 0.1, 1)
}

/// A `RetinaNet` run: waits and barriers grow with NP, the last epoch waits a little longer.
pub(crate) fn run(np: u32, epochs: u32, steps: u64) -> RunReport {
    const RECORD: u64 = 322_957;
    let files = 24 * steps * u64::from(np);
    let mut dataset = dataset(Format::Jpeg, files, RECORD as f64);
    dataset.data_folder = "data/retinanet".to_owned();
    let mut workload = workload("retinanet", dataset, 24, 0.04755, 0.85);
    workload.train.epochs = epochs;
    let records = (1..=epochs)
        .map(|number| {
            let wait = 0.0005 * f64::from(np) + if number == epochs { 0.0001 } else { 0.0 };
            let step = step(wait, 0.04755, 0.0001 * f64::from(np));
            let all = vec![step; steps as usize];
            let duration = (step.proc() + step.barrier).0 * steps as f64;
            epoch(number, np, &all, duration, 24 * steps, 24 * steps * RECORD)
        })
        .collect();
    report(workload, np, steps, records)
}

/// Three ranks in as many processes over two epochs: 0 and 2 on `a`, 1, which waits longest for its
/// batches, on `b`, a host with more CPUs and little memory.
pub(crate) fn two_nodes() -> RunReport {
    const LONGEST: f64 = 0.03;
    let mut report = run(3, 2, 10);
    for epoch in &mut report.record.epochs {
        for (rank, (host, waits)) in
            epoch.ranks.iter_mut().zip([("a", 0.0), ("b", LONGEST), ("a", 0.01)])
        {
            host.clone_into(&mut rank.host);
            for block in &mut rank.blocks {
                for step in &mut block.steps {
                    rank.waited += waited(Seconds(waits));
                    step.wait += Seconds(waits);
                    step.barrier += Seconds(LONGEST - waits);
                    block.duration += Seconds(LONGEST);
                    rank.duration += Seconds(LONGEST);
                }
            }
        }
    }
    let record = &mut report.record;
    record.processes = vec![
        process(0, 1, "a", usage(1.0, 100)),
        process(1, 1, "b", usage(1.0, 200)),
        process(2, 1, "a", usage(1.5, 200)),
    ];
    record.process = usage(3.5, 500);
    let a = HostFacts { hostname: "a".to_owned(), ..host() };
    let b = HostFacts {
        hostname: "b".to_owned(),
        logical_cpus: 4,
        cpu_model: "Neoverse-N1".to_owned(),
        memory: ByteCount(64 << 20),
        cpuinfo: vec![("vendor_id".to_owned(), "ARM".to_owned())],
        meminfo: vec![("MemTotal".to_owned(), "65536 kB".to_owned())],
        ..host()
    };
    let node = |host, ranks: &[u32]| NodeFacts { host, ranks: ranks.to_vec() };
    report.nodes = vec![node(a, &[0, 2]), node(b, &[1])].try_into().unwrap();
    report
}

/// Ranks that train like [`known_delays`] and evaluate 5 steps of 2 samples behind each epoch: 100 ms of
/// waiting and 100 ms of computing, so AU is 50 % and each rank gets 10 samples/s.
pub(crate) fn evaluated(np: u32, epochs: u32) -> RunReport {
    const RECORD: u64 = 65_536;
    let mut dataset = dataset(Format::Npz, 11 * u64::from(np), RECORD as f64);
    dataset.num_files_eval = 10 * u64::from(np);
    let mut workload = workload("t0", dataset, 1, 0.1, 0.9);
    workload.workflow.evaluation = true;
    workload.reader.batch_size_eval = 2;
    workload.train.epochs = epochs;
    let step = step(0.1, 0.1, 0.0);
    let records = (1..=epochs).map(|number| {
        let mut epoch = epoch(number, np, &[step; 11], 2.2, 11, 11 * RECORD);
        for rank in &mut epoch.ranks {
            rank.evaluation = Some(Evaluation {
                start: stamp(),
                end: stamp(),
                duration: Seconds(1.0),
                steps: vec![step; 5],
                samples: 10,
                bytes: ByteCount(10 * RECORD),
            });
        }
        epoch
    });
    let mut report = report(workload, np, 11, records.collect());
    report.record.evaluation_steps = 5;
    report
}

/// The public v1.0 result of cases.md: `unet3d` on two H100, 2,000 steps, five epochs with their
/// published block times and AU.
pub(crate) fn golden() -> RunReport {
    const RECORD: u64 = 146_600_628;
    const STEPS: u32 = 2_000;
    let published = [
        (706.31, 92.2816),
        (702.13, 92.5284),
        (705.42, 92.1299),
        (702.67, 92.4151),
        (703.32, 92.4020),
    ];
    let dataset = dataset(Format::Npz, 28_000, RECORD as f64);
    let mut workload = workload("unet3d", dataset, 7, 0.323, 0.9);
    workload.train.epochs = 5;
    let samples = 7 * u64::from(STEPS);
    let records = (1..)
        .zip(published)
        .map(|(number, (duration, au))| {
            // AU = (STEPS - 1) c / (duration - c), solved for the compute time c of a step.
            let compute = au * duration / (100.0 * f64::from(STEPS - 1) + au);
            let all = vec![step(0.0, compute, 0.0); STEPS as usize];
            epoch(number, 2, &all, duration, samples, samples * RECORD)
        })
        .collect();
    report(workload, 2, u64::from(STEPS), records)
}

/// A sweep over NP 1, 2 and 4 with evaluations, of a folder.
pub(crate) fn evaluated_sweep() -> Sweep {
    let mut sweep = sweep_like(&|np| evaluated(np, 2));
    sweep.environment.store = Store::folder("/data/t0");
    sweep
}

/// A finished sweep over NP 1, 2 and 4, of three epochs.
pub(crate) fn sweep() -> Sweep {
    sweep_of(3)
}

/// The same with a number of epochs.
pub(crate) fn sweep_of(epochs: u32) -> Sweep {
    sweep_like(&|np| run(np, epochs, 10))
}

/// The same in chunks, with twice the waits and 10 % more CPU time.
pub(crate) fn chunked_sweep() -> Sweep {
    sweep_like(&|np| {
        let mut report = run(np, 3, 10);
        report.workload.reader.pipeline = Pipeline::Chunked;
        report.record.process.cpu = Seconds(2.2);
        for rank in report.record.epochs.iter_mut().flat_map(|epoch| &mut epoch.ranks) {
            for block in &mut rank.blocks {
                for step in &mut block.steps {
                    rank.duration += step.wait;
                    block.duration += step.wait;
                    rank.waited += waited(step.wait);
                    step.wait += step.wait;
                }
            }
        }
        report
    })
}

fn sweep_like(run: &dyn Fn(u32) -> RunReport) -> Sweep {
    let first = run(1);
    let mut sweep =
        Sweep::new(stamp(), first.origin.clone(), first.workload.clone(), first.host(), store());
    for np in [1, 2, 4] {
        let mut report = run(np);
        if np == 4 {
            let retries = &mut report.record.requests.retries;
            retries.extend([("503".to_owned(), 2), ("reset".to_owned(), 1)]);
        }
        let facts = ProcessFacts { wall: Some(Seconds(12.5)), server_cpu: Some(Seconds(0.5)) };
        let folder = format!("NP{np}/training/retinanet/run/20260512_173956");
        sweep.add(SweepRun::finished(&report, folder, facts));
    }
    sweep
}
