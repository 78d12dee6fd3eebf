//! What it costs to know the next file: the keyed permutations behind a plan, at sizes from a laptop's
//! to fifty million files. The cost must not depend on the size.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use feedrate_dataset::{Cut, Plan};
use feedrate_workload::{Override, Request, Schedule, Workload, resolve};

/// RetinaNet with this many files.
fn workload(files: u64) -> Workload {
    let request = Request {
        workload: "retinanet_b200".into(),
        overrides: vec![Override::flag("bench", "dataset.num_files_train", files)],
        environment: BTreeMap::new(),
        ..Request::default()
    };
    resolve(&request).expect("the preset resolves").workload
}

fn sampler(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("visits of a rank");
    for files in [6_000, 1_170_301, 50_000_000] {
        let workload = workload(files);
        let schedule = Schedule::new(&workload, 4).expect("there are steps");
        let plan = Plan::new(&workload, &schedule, &Cut::Whole, 1, 0);
        let batch = schedule.batch_size;
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::from_parameter(files), |bencher| {
            let mut visits = plan.visits(3);
            bencher.iter(|| {
                for _ in 0..batch {
                    let visit = visits.next().unwrap_or_else(|| {
                        visits = plan.visits(3);
                        visits.next().expect("a share")
                    });
                    black_box(visit);
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = sampler
}
criterion_main!(benches);
