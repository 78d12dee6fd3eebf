//! A store that fails, and what is done and said about it.

use crate::support::{Place, serve};

#[test]
fn throttled_reads_are_repeated_and_counted_once() {
    let place = Place::new();
    let throttled = (0..64).step_by(3).map(|file| format!("get key=*_{file:02}_of_64* attempt=1"));
    let server =
        throttled.fold(serve(), |server, rule| server.fault(&format!("{rule} status=503"))).start();
    place.feedrate("datagen t0.yaml --files 64").on(&server).succeeds();
    server.reset();
    let said = place.feedrate("run t0.yaml --files 64").on(&server).succeeds();

    assert_eq!(server.status().requests.get, 86);
    let figures = place.run().figures();
    assert_eq!(figures["gets"], 64);
    assert_eq!(figures["retries"], 22);
    assert_eq!(figures["retries_by_kind"], serde_json::json!({"503": 22}));
    assert!(said.stdout.contains("22"), "{}", said.stdout);
    assert_eq!(place.run().steps(0, 1, "compute").len(), 16);
}

#[test]
fn broken_connections_are_replaced_and_counted_once() {
    let place = Place::new();
    let server = [0, 4, 8, 12]
        .iter()
        .fold(serve(), |server, file| {
            server.fault(&format!("get key=*_{file:02}_of_16* attempt=1 reset"))
        })
        .start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    server.reset();
    place.feedrate("run t0.yaml --verify").on(&server).succeeds();

    assert_eq!(server.status().requests.get, 20);
    let figures = place.run().figures();
    assert_eq!(figures["gets"], 16);
    assert_eq!(figures["retries_by_kind"], serde_json::json!({"reset": 4}));
    let size = figures["bytes_read"].as_u64().unwrap() / 16;
    // The payload of 65,536 bytes and what zip and npy put around it.
    assert!((65_536 + 300..65_536 + 600).contains(&size), "{size}");
}

/// The first two epochs read the file; in the third every attempt fails.
#[test]
fn a_read_that_fails_for_good_says_everything_and_keeps_the_finished_epochs() {
    let place = Place::new();
    let server = serve().fault("get key=*img_03* attempt=3+ status=500").start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let said = place
        .feedrate("run t0.yaml --epochs 4 --np 2")
        .on(&server)
        .fails(1)
        .in_less_than(20)
        .telling(&["img_03_of_16.npz", server.endpoint(), "500", "5 attempts", "2 of 4 epochs"]);
    let run = place.run();
    assert!(said.stderr.contains(run.0.file_name().unwrap().to_str().unwrap()), "{said:?}");
    assert_eq!(run.summary()["epochs"], 2);
    assert_eq!(run.figures()["epochs_finished"], 2);
    for rank in 0..2 {
        assert_eq!(run.steps(rank, 2, "compute").len(), 2);
        assert!(run.json(&format!("{rank}_output.json")).get("3").is_none());
    }
}

#[test]
fn an_np_of_a_sweep_that_fails_is_told_with_what_was_measured() {
    let place = Place::new();
    let server = serve().fault("get key=*img_03* attempt=2+ status=500").start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    place.feedrate("sweep t0.yaml --np 1,2").on(&server).fails(1).telling(&[
        "NP 2",
        "img_03_of_16.npz",
        "500",
        "5 attempts",
        "t0_np_sweep",
    ]);
    let text = std::fs::read_to_string(place.sweep("t0").join("sweep.json")).unwrap();
    let sweep: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sweep["runs"][0]["failed"], serde_json::Value::Null);
    assert_eq!(sweep["runs"][0]["gets"], 16);
    assert!(sweep["runs"][1]["failed"].as_str().unwrap().contains("img_03"), "{sweep}");
}

#[test]
fn uploads_are_repeated_too_and_the_notes_say_so() {
    let place = Place::new();
    let server = serve().fault("put attempt=1 status=503").start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds().telling(&["repeated", "503", "16"]);
    assert_eq!(server.status().requests.put, 34);
    place.feedrate("run t0.yaml --verify").on(&server).succeeds();
}
