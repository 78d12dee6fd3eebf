//! The same run with either engine for GETs.

use serde_json::{Value, json};

use crate::support::{Call, Place, Server, files_below, serve};

const KEY: &str = "storage.storage_options.get_engine";
const ENGINES: [&str; 2] = ["feedrate", "object_store"];

/// What is counted is to be the same whoever counted: what the server saw, what the results say, and
/// what was to be trained.
#[derive(Debug, PartialEq)]
struct Counts {
    requests: feedrate_s3_server::RequestCounts,
    gets: Value,
    bytes: Value,
    retries: Value,
    samples: u64,
}

/// The counts of a run of `call`, which has succeeded on `server`.
fn counts(place: &Place, server: &Server) -> Counts {
    let (run, figures) = (place.run(), place.run().figures());
    let steps = |epoch| run.steps(0, epoch, "compute").len() + run.steps(1, epoch, "compute").len();
    Counts {
        requests: server.status().requests,
        gets: figures["gets"].clone(),
        bytes: figures["bytes_read"].clone(),
        retries: figures["retries_by_kind"].clone(),
        samples: 4 * (steps(1) + steps(2)) as u64,
    }
}

fn with(engine: &str, call: Call) -> Call {
    call.set(&[&format!("{KEY}={engine}")])
}

#[test]
fn both_engines_read_and_count_the_same() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let [ours, reference] = ENGINES.map(|engine| {
        server.reset();
        let run = place.feedrate("run t0.yaml --np 2 --epochs 2 --verify").on(&server);
        let said = with(engine, run).succeeds();
        let tells = said.stdout.contains("GETs made by   object_store's own S3 client");
        assert_eq!(tells, engine == "object_store", "{}", said.stdout);
        let report = place.run().json("feedrate.json");
        assert_eq!(report["workload"]["storage"]["get_engine"], engine);
        counts(&place, &server)
    });
    assert_eq!(ours, reference);
    assert_eq!((ours.requests.get, &ours.gets, ours.samples), (32, &json!(32), 32));
    assert_eq!(ours.retries, json!({}));
}

#[test]
fn both_engines_meet_faults_alike() {
    let faulty = || {
        serve()
            .fault("get key=*_03_of_16* attempt=1 status=503")
            .fault("get key=*_05_of_16* attempt=1 reset")
            .fault("get key=*_07_of_16* attempt=2 status=500")
    };
    let [ours, reference] = ENGINES.map(|engine| {
        let (place, server) = (Place::new(), faulty().start());
        place.feedrate("datagen t0.yaml").on(&server).succeeds();
        server.reset();
        let run = place.feedrate("run t0.yaml --np 2 --epochs 2 --verify").on(&server);
        with(engine, run).succeeds();
        counts(&place, &server)
    });
    assert_eq!(ours, reference);
    assert_eq!((ours.requests.get, &ours.gets), (35, &json!(32)));
    assert_eq!(ours.retries, json!({"500": 1, "503": 1, "reset": 1}));
}

#[test]
fn the_processes_of_a_sweep_and_its_report_know_the_engine() {
    let place = Place::new();
    place.write(
        "any.yaml",
        &crate::support::B0.replace("storage: {storage_type: s3, storage_root: bench}\n", ""),
    );
    let sweep = place.feedrate("sweep any.yaml --np 1,2");
    with("object_store", sweep).succeeds();
    let folder = place.sweep("t0");
    let page = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(page.contains("| GETs made by | object_store's own S3 client"), "{page}");
    let runs = files_below(&folder).into_iter().filter(|file| file.ends_with("feedrate.json"));
    let engines: Vec<Value> = runs
        .map(|file| serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
        .map(|report: Value| report["workload"]["storage"]["get_engine"].clone())
        .collect();
    assert_eq!(engines, ["object_store"; 2]);
}

#[test]
fn an_engine_that_is_none_or_has_no_gets_is_refused() {
    let (place, server) = (Place::new(), serve().start());
    let run = || place.feedrate("run t0.yaml");
    let said = with("reqwest", run().on(&server)).fails(1);
    said.telling(&[KEY, "reqwest", "accepts feedrate, object_store"]);
    let said = with("object_store", run().args("--local here")).fails(1);
    said.telling(&[KEY, "the store is local_fs (--local here)"]);
    assert_eq!(server.status().requests, feedrate_s3_server::RequestCounts::default());
}
