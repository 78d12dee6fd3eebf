//! What a run says it was limited by, with each limit forced in turn.

use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use crate::support::{Call, FEEDRATE, Place, Server, number, serve};

/// Others may take the CPUs of the machine for a while, and then they are what limits a run.
const ATTEMPTS: usize = 4;

/// Small files on a server with these `faults`.
fn set(files: u32, faults: &[&str]) -> (Place, Server) {
    let place = Place::new();
    let server = faults.iter().fold(serve(), |serve, fault| serve.fault(fault)).start();
    place.feedrate(&format!("datagen t0.yaml --files {files}")).on(&server).succeeds();
    (place, server)
}

/// Runs `call` until its verdict is `expected`, but not for ever. Returns what it says of its time, and
/// its text; nothing when other programs keep all CPUs busy, which nobody can tell from a busy server.
#[track_caller]
fn expect(place: &Place, expected: &str, call: impl Fn() -> Call) -> Option<(Value, String)> {
    for attempt in 1.. {
        let said = call().succeeds();
        let figures = place.run().figures();
        let breakdown = &figures["breakdown"];
        if figures["verdict"] == expected {
            return Some((breakdown.clone(), said.stdout));
        }
        let own = number(&figures["client_cpu_seconds"]);
        let by_others = figures["verdict"] == "client-bound"
            && own < 0.3 * number(&breakdown["waits"]["seconds_per_rank"]);
        assert!(attempt < ATTEMPTS || by_others, "not {expected}: {}\n{breakdown}", said.stdout);
        if attempt == ATTEMPTS {
            eprintln!("skipped: other programs keep the CPUs busy");
            return None;
        }
        thread::sleep(Duration::from_secs(1));
    }
    None
}

/// A share of the waiting, in percent.
fn share(breakdown: &Value, name: &str) -> f64 {
    number(&breakdown["waits"][format!("{name}_percent")])
}

#[test]
fn a_store_that_answers_late_is_the_limit_by_its_first_bytes() {
    let (place, server) = set(32, &["get delay_first_byte=40ms"]);
    let Some((breakdown, text)) =
        expect(&place, "storage-bound", || place.feedrate("run t0.yaml --files 32").on(&server))
    else {
        return;
    };
    assert!(share(&breakdown, "first_byte") > 60.0, "{breakdown}");
    assert!(text.contains("storage-bound, mostly first byte"), "{text}");
    // What the ranks waited is there in full.
    let names = ["first_byte", "transfer", "queued", "retries", "work", "handover", "barrier"];
    let sum: f64 = names.iter().map(|name| share(&breakdown, name)).sum();
    assert!((sum - 100.0).abs() < 1e-6, "{breakdown}");
}

#[test]
fn a_store_that_refuses_is_the_limit_by_what_is_tried_again() {
    // In each of several runs every file is refused once.
    let refused = [1, 3, 5, 7].map(|attempt| format!("get key=*img* attempt={attempt} status=503"));
    let (place, server) = set(16, &refused.each_ref().map(String::as_str));
    // A batch of one: nothing waits for another file.
    let one = [
        "reader.batch_size=1",
        "reader.read_threads=1",
        "storage.storage_options.prefetch_window=1",
    ];
    let Some((breakdown, text)) = expect(&place, "storage-bound", || {
        place.feedrate("run t0.yaml --files 16").set(&one).on(&server)
    }) else {
        return;
    };
    assert!(share(&breakdown, "retries") > 50.0, "{breakdown}");
    assert!(text.contains("mostly retries"), "{text}");
}

#[test]
fn a_window_that_is_too_small_is_named_with_what_to_set() {
    let (place, server) = set(32, &["get delay_first_byte=20ms"]);
    let small = [
        "reader.batch_size=8",
        "reader.read_threads=1",
        "storage.storage_options.prefetch_window=1",
    ];
    let Some((breakdown, text)) = expect(&place, "storage-bound", || {
        place.feedrate("run t0.yaml --files 32").set(&small).on(&server)
    }) else {
        return;
    };
    assert!(share(&breakdown, "queued_for_window") > 50.0, "{breakdown}");
    for words in ["mostly queued in the client", "prefetch_window"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_client_that_decodes_on_one_cpu_is_the_limit_and_says_so_first() {
    let own = sched_getaffinity(None).unwrap();
    let cpus: Vec<_> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| own.is_set(cpu)).map(|cpu| cpu.to_string()).collect();
    let place = Place::new();
    let server = serve().by(&["taskset", "-c", cpus.last().unwrap()]).start();
    let images = [
        "dataset.format=jpeg",
        "dataset.record_length_bytes=500000",
        "reader.decode=full",
        "train.computation_time=0.001",
    ];
    place.feedrate("datagen t0.yaml --files 64").set(&images).on(&server).succeeds();
    let Some((breakdown, text)) = expect(&place, "client-bound", || {
        let call = place.call("taskset").arg("-c").arg(&cpus[0]).arg(FEEDRATE);
        call.args("run t0.yaml --files 64").set(&images).on(&server)
    }) else {
        return;
    };
    assert!(number(&breakdown["waiting_cpu_busy_percent"]) >= 90.0, "{breakdown}");
    assert!(share(&breakdown, "work") > 30.0, "{breakdown}");
    let second = text.lines().nth(1).unwrap();
    assert!(second.contains("client-bound"), "{text}");
}

#[test]
fn readers_that_work_long_on_samples_are_the_limit_while_cpus_are_free() {
    let (place, server) = set(32, &[]);
    let slow = ["reader.preprocess_time=0.02", "train.computation_time=0.005"];
    let Some((breakdown, text)) = expect(&place, "decode-bound", || {
        place.feedrate("run t0.yaml --files 32").set(&slow).on(&server)
    }) else {
        return;
    };
    assert!(share(&breakdown, "work") > 50.0, "{breakdown}");
    assert!(text.contains("worked on samples"), "{text}");
}

#[test]
fn one_slow_rank_makes_the_others_wait_at_the_barrier() {
    // In order: of 40 files rank 0 of 4 has those from 00 to 09.
    let (place, server) = set(40, &["get key=*img_0?_of_40* delay_first_byte=40ms"]);
    let in_order = [
        "reader.file_shuffle=off",
        "reader.sample_shuffle=off",
        "reader.batch_size=2",
        "reader.read_threads=0",
    ];
    let Some((breakdown, _)) = expect(&place, "barrier-bound", || {
        place.feedrate("run t0.yaml --files 40 --np 4").set(&in_order).on(&server)
    }) else {
        return;
    };
    assert!(share(&breakdown, "barrier") > 50.0, "{breakdown}");
    assert!(share(&breakdown, "first_byte") > 5.0, "{breakdown}");
}

#[test]
fn a_store_that_keeps_up_leaves_the_accelerators_the_limit() {
    let (place, server) = set(16, &[]);
    let long = ["reader.batch_size=1", "train.computation_time=0.25"];
    let Some((_, text)) = expect(&place, "accelerator-bound", || {
        place.feedrate("run t0.yaml --files 16").set(&long).on(&server)
    }) else {
        return;
    };
    assert!(text.contains("accelerator-bound"), "{text}");
}
