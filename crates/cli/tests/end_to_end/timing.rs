//! Times, as shapes: what a delay of the server and a computation time must come to.

use crate::support::{Place, Server, number, numbers, serve, within};

/// The base workload on a new server that answers each GET `delay` late.
fn behind(delay: &str, files: u32) -> (Place, Server) {
    let place = Place::new();
    let server = serve().fault(&format!("get delay_first_byte={delay}")).start();
    place.feedrate(&format!("datagen t0.yaml --files {files}")).on(&server).succeeds();
    server.reset();
    (place, server)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// 8 steps of batch 2, in each form of `train.computation_time`. A sleep may be late on a busy
/// machine, but never early.
#[test]
fn every_form_of_computation_time_sleeps_what_it_says() {
    let (place, server) = behind("0ms", 16);
    let compute = |overrides: &[&str]| {
        place
            .feedrate("run t0.yaml")
            .set(&["reader.batch_size=2"])
            .set(overrides)
            .on(&server)
            .succeeds();
        let compute = place.run().steps(0, 1, "compute");
        assert_eq!(compute.len(), 8);
        compute
    };
    let between = |compute: &[f64], low: f64, high: f64| {
        assert!(compute.iter().all(|&step| step >= low), "{compute:?}");
        assert!(median(compute) <= high, "{compute:?}");
    };

    for constant in ["train.computation_time=0.05", "train.computation_time={mean: 0.05}"] {
        between(&compute(&[constant]), 0.05, 0.055);
    }
    let spread = compute(&["train.computation_time=0.05", "train.computation_time_stdev=0.01"]);
    between(&spread, 0.0, 0.09);
    assert!(spread.iter().any(|step| (step - 0.05).abs() > 0.001), "{spread:?}");
    between(
        &compute(&["train.computation_time={type: uniform, min: 0.02, max: 0.04}"]),
        0.02,
        0.045,
    );
    // Half of these draws are below zero; DLIO takes the absolute value.
    let folded = compute(&["train.computation_time={type: normal, mean: 0.01, stdev: 0.05}"]);
    between(&folded, 0.0, 0.15);
    assert!(folded.iter().sum::<f64>() > 0.05, "{folded:?}");
    between(&compute(&["train.computation_time={type: exponential, scale: 0.02}"]), 0.0, 0.08);
    between(&compute(&["train.computation_time={type: gamma, shape: 2, scale: 0.01}"]), 0.0, 0.08);
    between(&compute(&["train.computation_time={type: poisson, lam: 0}"]), 0.0, 0.002);
}

#[test]
fn reads_that_take_as_long_as_computing_halve_the_utilization() {
    let (place, server) = behind("100ms", 11);
    let overrides = [
        "reader.batch_size=1",
        "reader.read_threads=0",
        "reader.prefetch_size=0",
        "train.computation_time=0.1",
    ];
    place.feedrate("run t0.yaml --files 11").set(&overrides).on(&server).succeeds();
    let metric = &place.run().summary()["metric"];
    within(number(&metric["train_au_mean_percentage"]), 50.0, 3.0, "AU");
    within(number(&metric["train_throughput_mean_samples_per_second"]), 5.0, 0.3, "samples/s");
    within(number(&metric["train_io_mean_MB_per_second"]), 0.3125, 0.02, "MiB/s");
    assert_eq!(metric["train_au_meet_expectation"], "fail");
}

#[test]
fn reading_ahead_hides_the_same_reads() {
    let (place, server) = behind("100ms", 44);
    let overrides = ["reader.batch_size=1", "reader.read_threads=4", "train.computation_time=0.1"];
    place.feedrate("run t0.yaml --files 44").set(&overrides).on(&server).succeeds();
    let metric = &place.run().summary()["metric"];
    assert!(number(&metric["train_au_mean_percentage"]) >= 95.0, "{metric}");
    within(number(&metric["train_throughput_mean_samples_per_second"]), 10.0, 0.5, "samples/s");
    assert_eq!(metric["train_au_meet_expectation"], "success");
}

#[test]
fn zero_and_one_read_thread_mean_zero_and_one() {
    let (place, server) = behind("20ms", 64);
    let window_of_one = ["reader.prefetch_size=1", "storage.storage_options.prefetch_window=1"];
    for (threads, at_once) in [(0, 1..=1), (1, 1..=1), (4, 2..=4)] {
        server.reset();
        let said = place
            .feedrate("run t0.yaml --files 64")
            .set(&window_of_one)
            .set(&[&format!("reader.read_threads={threads}")])
            .on(&server)
            .succeeds();
        let status = server.status();
        assert!(
            at_once.contains(&status.gets_in_flight_max),
            "{threads} threads: {} GETs in flight",
            status.gets_in_flight_max
        );
        assert_eq!(status.requests.get, 64);
        assert_eq!(place.run().figures()["read_threads"], threads);
        assert!(said.stdout.contains(&format!("{threads} read thread")), "{}", said.stdout);
    }
}

#[test]
fn a_late_first_byte_is_seen_in_the_percentiles() {
    let (place, server) = behind("50ms", 16);
    place.feedrate("run t0.yaml").on(&server).succeeds();
    let figures = place.run().figures();
    for kind in ["get_first_byte_ms", "get_latency_ms"] {
        let percentiles = ["p50", "p90", "p99", "max"].map(|name| number(&figures[kind][name]));
        assert!(percentiles[0] >= 50.0 && percentiles.is_sorted(), "{kind}: {percentiles:?}");
    }
    let share = number(&figures["breakdown"]["first_byte_percent_of_get"]);
    assert!(share > 80.0, "{share} % of a GET before the first byte");
}

/// A data set of 96 MiB and a consumer slow enough for all of it to be read ahead: only the budget
/// holds the reads back.
#[test]
fn reading_ahead_of_a_slow_consumer_stays_within_the_byte_budget() {
    const MIB: f64 = 1_048_576.0;
    let (place, server) = behind("0ms", 8);
    let peak_mib = |line: &str, overrides: &[&str]| {
        place.feedrate(line).set(overrides).on(&server).succeeds();
        let figures = place.run().figures();
        (
            number(&figures["client_peak_rss_bytes"]) / MIB,
            number(&figures["byte_budget_bytes"]) / MIB,
        )
    };
    let (base, _) = peak_mib("run t0.yaml --files 8", &[]);

    let large = [
        "dataset.data_folder=data/large",
        "dataset.record_length_bytes=1048576",
        "train.computation_time=0.06",
        "reader.window=fixed",
    ];
    place.feedrate("datagen t0.yaml --files 96").set(&large).on(&server).succeeds();
    let (unbounded, _) = peak_mib("run t0.yaml --files 96", &large);
    let (bounded, budget) = peak_mib("run t0.yaml --files 96 --byte-budget 32", &large);
    within(budget, 32.0, 0.0, "the budget told");
    // What every process needs, however small its run, and what its allocator keeps on top.
    let allowance = 6.0;
    let limit = base + 1.2 * budget + allowance;
    assert!(bounded <= limit, "{bounded} MiB, {base} MiB of it base, over a budget of {budget}");
    assert!(unbounded > limit, "nothing was read ahead: {unbounded} MiB without the bound");
}

#[test]
fn a_target_that_is_missed_is_exit_code_3_only_where_it_is_required() {
    let (place, server) = behind("50ms", 16);
    let slow = ["reader.read_threads=0"];
    let said = place.feedrate("run t0.yaml").set(&slow).on(&server).succeeds();
    assert!(said.stdout.contains("FAIL"), "{}", said.stdout);
    place.feedrate("run t0.yaml --require-au").set(&slow).on(&server).fails(3);
    place.feedrate("sweep t0.yaml --np 1 --require-au").set(&slow).on(&server).fails(3);
    place
        .feedrate("run t0.yaml --require-au")
        .set(&slow)
        .set(&["metric.au=0.01"])
        .on(&server)
        .succeeds();
    assert_eq!(numbers(&place.run().summary()["metric"]["train_au_percentage"]).len(), 1);
}
