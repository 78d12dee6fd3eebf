//! Who says how many GETs are in flight, `reader.window`, as the server and the results see it.

use serde_json::Value;

use crate::support::{Place, Server, number, serve};

/// The base workload with 480 files of 10 steps, on a server that answers each GET `delay` late.
fn behind(delay: &str) -> (Place, Server) {
    let place = Place::new();
    let server = serve().fault(&format!("get delay_first_byte={delay}")).start();
    place.feedrate("datagen t0.yaml --files 480").on(&server).succeeds();
    server.reset();
    (place, server)
}

/// 4 ranks that take a sample every 1.25 ms, together.
const OPTIONS: [&str; 4] = [
    "dataset.num_files_train=480",
    "reader.batch_size=4",
    "reader.read_threads=4",
    "train.computation_time=0.005",
];

/// What a run with `more` options noted, and the most GETs that `server` had to answer at once.
fn in_flight(place: &Place, server: &Server, more: &[&str]) -> (Value, u64) {
    server.reset();
    let said = place.feedrate("run t0.yaml --np 4").set(&OPTIONS).set(more).on(server).succeeds();
    assert!(said.stdout.contains("\n  in flight      "), "{}", said.stdout);
    let figures = place.run().figures()["in_flight"].clone();
    let highest = server.status().gets_in_flight_max;
    // The server may see a GET end before the client does, never the other way round.
    assert!(number(&figures["gets"]["max"]) >= highest as f64, "{highest} at once: {figures}");
    (figures, highest)
}

#[test]
fn a_distant_store_gets_what_latency_and_demand_call_for_and_a_near_one_less() {
    let (place, near) = behind("0ms");
    let (at_once, _) = in_flight(&place, &near, &[]);
    assert_eq!(at_once["window"], "auto");
    let (place, distant) = behind("40ms");
    let (late, highest) = in_flight(&place, &distant, &[]);
    assert!(number(&late["quickest_ms"]) >= 40.0, "{late}");
    // 3,200 files a second × 40 ms = 128, twice over; two batches of the four ranks, and more.
    assert!(number(&late["allowed"]["last"]) >= 256.0, "{late}");
    assert!(highest >= 64, "{highest} at once: {late}");
    assert!(
        number(&late["gets"]["median"]) > number(&at_once["gets"]["median"]),
        "{late}, {at_once}"
    );
    assert!(number(&late["allowed"]["last"]) > number(&at_once["allowed"]["last"]), "{at_once}");

    let page = std::fs::read_to_string(place.run().0.join("report.md")).unwrap();
    assert!(page.contains("### GETs in flight"), "{page}");
    assert!(page.contains("3200 files/s wanted"), "{page}");
}

#[test]
fn fixed_windows_are_filled() {
    let (place, server) = behind("40ms");
    let windows = ["reader.window=fixed", "storage.storage_options.prefetch_window=12"];
    let (figures, highest) = in_flight(&place, &server, &windows);
    assert_eq!((&figures["window"], &figures["quickest_ms"]), (&"fixed".into(), &Value::Null));
    // 4 ranks × 4 readers × 12 files.
    for figure in ["first", "min", "median", "max", "last"] {
        assert_eq!(figures["allowed"][figure], 192.0, "{figures}");
    }
    assert!((150..=192).contains(&highest), "{highest} at once: {figures}");
}

#[test]
fn chunks_are_noted_as_fixed_and_nothing_is_where_one_file_is_read_at_a_time() {
    let (place, server) = behind("5ms");
    let chunks = ["reader.pipeline=chunked", "storage.storage_options.prefetch_window=3"];
    let (figures, _) = in_flight(&place, &server, &chunks);
    assert_eq!((&figures["window"], &figures["allowed"]["max"]), (&"fixed".into(), &48.0.into()));
    place
        .feedrate("run t0.yaml")
        .set(&["reader.read_threads=0", "dataset.num_files_train=480", "reader.batch_size=4"])
        .on(&server)
        .succeeds();
    assert_eq!(place.run().figures()["in_flight"], Value::Null);
}
