//! Several series in one sweep, and saved sweeps held against each other.

use std::fs;
use std::path::Path;

use feedrate_s3_server::RequestCounts;
use serde_json::Value;

use crate::support::{Place, files_below, number, serve};

fn json(path: &Path) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn titles(comparisons: &Value) -> Vec<String> {
    let name = |side: &Value| side["name"].as_str().unwrap().to_owned();
    let title = |pair: &Value| format!("{} ÷ {}", name(&pair["b"]), name(&pair["a"]));
    comparisons.as_array().unwrap().iter().map(title).collect()
}

#[test]
fn two_pipelines_and_two_accelerators_take_turns_on_one_data_set_and_are_compared() {
    let place = Place::new();
    let said = place
        .feedrate("sweep retinanet --accelerators b200,mi355 --pipeline sliding,chunked")
        .args("--files 96 --epochs 1 --np 1,2")
        .succeeds();
    assert_eq!(said.stderr.matches("generated 96 files").count(), 1, "{}", said.stderr);
    let names = ["b200-sliding", "b200-chunked", "mi355-sliding", "mi355-chunked"];
    let turns: Vec<&str> = said.stderr.lines().filter(|line| line.contains(" at NP ")).collect();
    let expected: Vec<String> =
        [1, 2].iter().flat_map(|np| names.map(|name| format!("{name} at NP {np}"))).collect();
    assert_eq!(turns, expected);

    let folder = place.sweep("retinanet");
    for (name, batch_size) in names.iter().zip([24, 24, 32, 32]) {
        let series = folder.join(name);
        let sweep = json(&series.join("sweep.json"));
        assert_eq!(sweep["workload"]["reader"]["batch_size"], batch_size);
        let pipeline = name.split('-').nth(1).unwrap();
        assert_eq!(sweep["workload"]["reader"]["pipeline"], pipeline);
        let runs = sweep["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            let np = run["np"].as_u64().unwrap();
            let samples = 96 / (batch_size * np) * batch_size * np;
            assert_eq!(run["bytes_read"], samples * 322_957, "{name} at NP {np}");
            let saved = series.join(run["folder"].as_str().unwrap());
            assert!(saved.join("summary.json").is_file(), "{}", saved.display());
        }
        assert!(series.join("report.md").is_file() && series.join("sweep.tsv").is_file());
        assert!(said.stdout.lines().any(|line| line == *name), "{}", said.stdout);
    }
    let record = json(&folder.join("comparison.json"));
    let expected = [
        "b200-chunked ÷ b200-sliding",
        "mi355-sliding ÷ b200-sliding",
        "mi355-chunked ÷ mi355-sliding",
        "mi355-chunked ÷ b200-chunked",
    ];
    assert_eq!(titles(&record["comparisons"]), expected);
    assert_eq!(record["comparisons"][0]["differences"][0]["setting"], "reader.pipeline");
    let page = fs::read_to_string(folder.join("comparison.md")).unwrap();
    for title in expected {
        assert!(page.contains(title) && said.stdout.contains(title), "{title}");
    }
    // What one epoch cannot tell is said.
    assert!(said.stdout.contains("has 1 epoch") && said.stdout.contains("spread unknown"));
}

#[test]
fn the_report_of_several_series_comes_out_again_byte_for_byte() {
    let (place, server) = (Place::new(), serve().start());
    let sweep = "sweep t0.yaml --np 1,2 --epochs 2 --pipeline sliding,chunked --generate --json";
    let told = place.feedrate(sweep).on(&server).succeeds().json();
    let folder = place.sweep("t0");
    let ratio = &told["comparisons"][0]["nps"][0]["figures"]["wall_au_percent"];
    let mean = |side: &str| number(&ratio[side]["mean"]);
    assert!((number(&ratio["ratio"]) - mean("b") / mean("a")).abs() < 1e-9, "{ratio}");
    assert!(ratio["noise"].is_number() && ratio["a"]["values"] == 2, "{ratio}");
    assert_eq!(told["series"][1]["name"], "chunked");
    assert_eq!(told["series"][1]["sweep"], json(&folder.join("chunked/sweep.json")));

    let is_page = |path: &&std::path::PathBuf| {
        let name = path.strip_prefix(&folder).unwrap();
        name.components().count() <= 2 && !path.extension().unwrap().eq("json")
    };
    let files = files_below(&folder);
    let pages: Vec<_> = files.iter().filter(is_page).collect();
    assert_eq!(pages.len(), 5, "{pages:?}");
    let read = || pages.iter().map(|page| fs::read(page).unwrap()).collect::<Vec<_>>();
    let before = read();
    for page in &pages {
        fs::remove_file(page).unwrap();
    }
    let said = place.feedrate("report results").succeeds();
    assert!(said.stdout.contains("chunked ÷ sliding"), "{}", said.stdout);
    assert_eq!(read(), before);
    assert_eq!(place.feedrate("report results --json").succeeds().json(), told);
}

#[test]
fn one_pipeline_by_name_is_a_sweep_like_any_other_and_wins_over_the_key() {
    let (place, server) = (Place::new(), serve().start());
    place
        .feedrate(
            "sweep t0.yaml --np 1 --pipeline chunked --set reader.pipeline=sliding --generate",
        )
        .on(&server)
        .succeeds();
    let folder = place.sweep("t0");
    let sweep = json(&folder.join("sweep.json"));
    assert_eq!(sweep["workload"]["reader"]["pipeline"], "chunked");
    assert!(!folder.join("comparison.json").exists());
}

#[test]
fn two_saved_sweeps_are_compared_with_their_settings_first() {
    let (place, server) = (Place::new(), serve().start());
    let mut folders = Vec::new();
    for time in ["0.01", "0.02"] {
        let results = format!("results-{time}");
        place
            .feedrate("sweep t0.yaml --np 1,2 --epochs 3 --generate --results-dir")
            .arg(&results)
            .set(&[&format!("train.computation_time={time}")])
            .on(&server)
            .succeeds();
        folders.push(results);
    }
    let before = files_below(&place.directory()).len();
    let compare = |line: &str| place.feedrate("report").args(line).succeeds();
    let said = compare(&folders.join(" "));
    let at = |text: &str| {
        said.stdout.find(text).unwrap_or_else(|| panic!("no {text:?} in {}", said.stdout))
    };
    assert!(at("train.computation_time") < at("AU %"));
    assert!(at("1 setting differs") < at("B ÷ A"));

    let json = compare(&format!("{} --json", folders.join(" "))).json();
    assert_eq!(json["differences"][0]["setting"], "train.computation_time");
    for np in json["nps"].as_array().unwrap() {
        // Twice the compute time is half the rate, whatever else the machine does.
        let rate = &np["figures"]["samples_per_second"];
        assert!(number(&rate["ratio"]) < 0.8, "{rate}");
        assert_eq!(np["figures"]["get_latency_ms_p99"]["finding"], "spread_unknown");
    }
    let itself = compare(&format!("{0} {0}", folders[0]));
    assert!(itself.stdout.contains("same within the noise"), "{}", itself.stdout);
    assert!(!itself.stdout.contains("higher") && !itself.stdout.contains("lower"));
    assert_eq!(files_below(&place.directory()).len(), before);

    place.feedrate("report a b c").fails(2).telling(&["unexpected argument 'c'"]);
    place.feedrate("report").arg(&folders[0]).arg("nowhere").fails(1).telling(&["nowhere"]);
}

/// The file is read once at NP 1; at NP 2 all five attempts fail; at NP 4 it is read again.
#[test]
fn an_np_that_fails_keeps_its_row_and_the_others_are_measured() {
    let place = Place::new();
    let server = serve().fault("get key=*img_03_of_16* from=2 count=5 status=500").start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let said = place.feedrate("sweep t0.yaml --np 1,2,4").on(&server).fails(1).telling(&[
        "1 of 3 runs failed",
        "NP 2: ",
        "img_03_of_16.npz",
        "5 attempts",
        "t0_np_sweep",
    ]);
    let row = said.stdout.lines().find(|line| line.trim_start().starts_with("2 ")).unwrap();
    assert!(row.contains("failed: ") && row.contains("500 InternalError"), "{row}");
    let folder = place.sweep("t0");
    let sweep = json(&folder.join("sweep.json"));
    for (run, np) in sweep["runs"].as_array().unwrap().iter().zip([1, 2, 4]) {
        assert_eq!(run["np"], np);
        match run["failed"].as_str() {
            Some(why) => {
                assert!(np == 2 && why.contains("5 attempts"), "NP {np}: {why}");
                let page = fs::read_to_string(folder.join("report.md")).unwrap();
                assert!(page.contains(why), "{page}");
            }
            None => assert_eq!(run["gets"], 16),
        }
    }
    assert_eq!(sweep["runs"][1]["au_percent_mean"], Value::Null);
}

#[test]
fn in_one_series_a_failing_run_leaves_the_other_series_whole() {
    let place = Place::new();
    // The first GET of the file is the sliding pipeline's, the next five fail for the chunked one.
    let server = serve().fault("get key=*img_03_of_16* from=2 count=5 status=500").start();
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let said = place
        .feedrate("sweep t0.yaml --np 1,2 --pipeline sliding,chunked")
        .on(&server)
        .fails(1)
        .telling(&["1 of 4 runs failed", "chunked at NP 1: "]);
    assert!(said.stdout.contains("NP 1 is not compared: it failed in chunked."), "{}", said.stdout);
    let record = json(&place.sweep("t0").join("comparison.json"));
    let compared = record["comparisons"][0]["nps"].as_array().unwrap();
    assert!(compared.len() == 1 && compared[0]["np"] == 2, "{record}");
}

#[test]
fn sets_with_the_same_names_and_other_contents_are_kept_apart() {
    let (place, server) = (Place::new(), serve().start());
    let sweep = |more: &str| {
        place
            .feedrate("sweep retinanet_b200 --accelerators b200,h100 --files 48 --epochs 1 --np 1")
            .args("--bucket bench --verify")
            .args(more)
            .on(&server)
    };
    let said = sweep("").fails(1).telling(&["kept apart in data/retinanet/retinanet_h100_draft"]);
    let commands: Vec<&str> =
        said.stderr.lines().filter(|line| line.starts_with("  feedrate datagen ")).collect();
    assert!(commands.len() == 2 && commands[1].contains("retinanet_h100_draft"), "{commands:?}");
    assert_eq!(server.status().requests.put, 0);

    // What the printed commands make is what the sweep finds.
    for command in commands {
        place.shell(command).on(&server).succeeds();
    }
    server.reset();
    sweep("").succeeds();
    let counts = RequestCounts { get: 2 * 48, list: 4, ..RequestCounts::default() };
    assert_eq!(server.status().requests, counts);
    let h100 = json(&place.sweep("retinanet").join("h100/sweep.json"));
    assert_eq!(h100["workload"]["dataset"]["record_length_bytes"], 153_600.0);
}

#[test]
fn what_cannot_be_compared_is_a_usage_error() {
    let place = Place::new();
    for (line, words) in [
        ("sweep retinanet --accelerators b200,b300", ["b300", "mi355"]),
        ("sweep t0.yaml --accelerators b200", ["t0.yaml", "retinanet"]),
        ("sweep t0.yaml --pipeline sliding,sliding", ["--pipeline", "twice"]),
        ("sweep t0.yaml --pipeline parallel", ["parallel", "chunked"]),
        ("sweep retinanet_b200 --accelerators h100,h100_draft", ["retinanet_h100_draft", "twice"]),
    ] {
        place.feedrate(line).fails(2).telling(&words);
    }
    assert!(!place.directory().join("results").exists());
}
