//! The two ways of reading ahead, and what becomes of the bytes, as the server sees them.

use std::collections::BTreeSet;

use crate::support::{Place, Server, number, serve};

const CHUNKED: &str = "reader.pipeline=chunked";

/// The base workload with `files` files, on a server that answers each GET `delay` late.
fn behind(delay: &str, files: u32) -> (Place, Server) {
    let place = Place::new();
    let fault = format!("get delay_first_byte={delay}");
    let server = serve().fault(&fault).start();
    place.feedrate(&format!("datagen t0.yaml --files {files}")).on(&server).succeeds();
    server.reset();
    (place, server)
}

#[test]
fn a_reader_of_chunks_has_a_chunk_in_flight_but_never_more_than_64() {
    let (place, server) = behind("100ms", 400);
    for (readers, window, at_once) in [
        // A chunk of each reader; 64 of each; the usual chunk of 256 is no more than that.
        (2, Some(16), 17..=32),
        (1, Some(100), 33..=64),
        (2, None, 65..=128),
    ] {
        server.reset();
        let readers = format!("reader.read_threads={readers}");
        let window =
            window.map(|window| format!("storage.storage_options.prefetch_window={window}"));
        let options: Vec<&str> = [CHUNKED, &readers].into_iter().chain(window.as_deref()).collect();
        place.feedrate("run t0.yaml --files 400").set(&options).on(&server).succeeds();
        let status = server.status();
        assert_eq!(status.requests.get, 400, "{options:?}");
        let highest = status.gets_in_flight_max;
        assert!(at_once.contains(&highest), "{highest} GETs in flight with {options:?}");
    }
}

#[test]
fn a_chunk_is_asked_for_behind_the_one_before_it() {
    let (place, server) = behind("30ms", 48);
    let options = [
        CHUNKED,
        "reader.read_threads=1",
        "reader.file_shuffle=off",
        "reader.sample_shuffle=off",
        "storage.storage_options.prefetch_window=8",
    ];
    place.feedrate("run t0.yaml --files 48").set(&options).on(&server).succeeds();
    let gets = server.gets();
    assert_eq!(gets.len(), 48);
    for (number, chunk) in gets.chunks(8).enumerate() {
        let expected: BTreeSet<String> =
            (8 * number..8 * (number + 1)).map(|file| format!("img_{file:02}_of_48.npz")).collect();
        assert_eq!(chunk.iter().cloned().collect::<BTreeSet<_>>(), expected, "chunk {number}");
    }
}

#[test]
fn later_readers_start_later_and_the_first_batch_does_not_wait_for_them() {
    let (place, server) = behind("0ms", 64);
    let first_wait = |more: &[&str]| {
        server.reset();
        let options = [CHUNKED, "reader.read_threads=4", "train.computation_time=0.4"];
        place
            .feedrate("run t0.yaml --files 64")
            .set(&[&options[..], &["train.total_training_steps=4"], more].concat())
            .on(&server)
            .succeeds();
        let times = server.get_times();
        let last = times.iter().copied().fold(0.0, f64::max);
        let first = times.iter().copied().fold(f64::INFINITY, f64::min);
        (place.run().steps(0, 1, "load")[0], last - first)
    };
    // One batch of each reader, 0.4 s apart.
    let (wait, spread) = first_wait(&[]);
    assert!(wait < 1.0, "{wait} s for the first batch");
    assert!(spread >= 1_190.0, "{spread} ms from the first GET to the last");
    let (_, spread) = first_wait(&["storage.storage_options.stagger_workers=false"]);
    assert!(spread < 1_000.0, "{spread} ms from the first GET to the last");
}

#[test]
fn both_pipelines_train_on_the_same_samples_in_the_same_steps() {
    let (place, server) = behind("5ms", 145);
    let read = |pipeline: &str| {
        server.reset();
        let options = [pipeline, "reader.batch_size=16"];
        place
            .feedrate("run t0.yaml --files 145 --np 3 --verify")
            .set(&options)
            .on(&server)
            .succeeds();
        let run = place.run();
        for rank in 0..3 {
            assert_eq!(run.steps(rank, 1, "compute").len(), 3, "rank {rank}, {pipeline}");
        }
        let gets = server.gets();
        assert_eq!(gets.len(), 144, "{pipeline}");
        gets.into_iter().collect::<BTreeSet<_>>()
    };
    let sliding = read("reader.pipeline=sliding");
    assert_eq!(sliding.len(), 144);
    assert_eq!(sliding, read(CHUNKED));
}

#[test]
fn what_is_discarded_is_read_and_counted_like_anything_else() {
    let (place, server) = behind("0ms", 32);
    place.feedrate("datagen t0.yaml --files 32 --local store").succeeds();
    let read = |payload: &str, pipeline: &str| {
        server.reset();
        let options = [payload, pipeline];
        place.feedrate("run t0.yaml --files 32").set(&options).on(&server).succeeds();
        let figures = place.run().figures();
        assert_eq!(figures["gets"], 32);
        let sent = server.status().body_bytes_out.0;
        place.feedrate("run t0.yaml --files 32 --local store").set(&options).succeeds();
        let local = place.run().figures();
        (number(&figures["bytes_read"]), number(&local["bytes_read"]), sent)
    };
    for pipeline in ["reader.pipeline=sliding", CHUNKED] {
        let (landed, _, sent) = read("reader.payload=land", pipeline);
        let discarded = read("reader.payload=discard", pipeline);
        assert!(landed > 32.0 * 65_536.0 && landed <= sent as f64);
        assert_eq!(discarded, (landed, landed, sent), "{pipeline}");
    }
}

#[test]
fn what_is_discarded_cannot_be_verified() {
    let (place, server) = behind("0ms", 16);
    place
        .feedrate("run t0.yaml --verify")
        .set(&["reader.payload=discard"])
        .on(&server)
        .fails(2)
        .telling(&["error", "reader.payload"])
        .keeping_quiet_about("AU");
    assert_eq!(server.status().requests.get, 0);
}
