//! The main job: the scaling study from one command.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use feedrate_s3_server::RequestCounts;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Place, Process, Running, children_of, environment_of, files_below, number, numbers, serve,
    within,
};

const RECORD: u64 = 322_957;
const SMALL: &str = "sweep retinanet_b200 --np 1,2 --files 192 --epochs 2";

fn sweep_json(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("sweep.json")).unwrap()).unwrap()
}

/// Every process that the sweep starts until it ends.
fn watch(sweep: &mut Running) -> Vec<Process> {
    let mut seen: Vec<Process> = Vec::new();
    while sweep.is_running() {
        for child in children_of(sweep.pid()) {
            match seen.iter_mut().find(|known| known.pid == child.pid) {
                // Between fork and exec a child still looks like its parent.
                Some(known) => *known = child,
                None => seen.push(child),
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    seen
}

fn task<'a>(children: &'a [Process], name: &str) -> Vec<&'a Process> {
    children.iter().filter(|child| child.told.contains(name)).collect()
}

#[test]
fn a_small_sweep_from_the_embedded_server_leaves_its_table_its_files_and_no_process() {
    let place = Place::new();
    let mut sweep = place.feedrate(SMALL).start();
    let children = watch(&mut sweep);
    let said = sweep.ends().with_code(0).telling(&["generated 192 files"]);
    assert_eq!(task(&children, "serve-task").len(), 1);
    assert_eq!(task(&children, "train-task").len(), 2);
    assert!(!children.iter().any(Process::is_alive), "{children:?}");

    let heads = ["NP", "AU %", "samples/s", "MiB/s", "wall s", "efficiency"];
    let mut lines = said.stdout.lines();
    let head = lines.next().unwrap();
    assert!(heads.iter().all(|word| head.contains(word)), "{head}");
    let nps: Vec<&str> =
        lines.by_ref().take(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(nps, ["1", "2"]);

    let folder = place.sweep("retinanet");
    let text = folder.strip_prefix(place.directory()).unwrap().to_str().unwrap();
    assert!(said.stdout.contains(text), "{}", said.stdout);
    has_all_files(&folder);
    has_all_keys_and_sums(&sweep_json(&folder));
    // Key ids begin with FEEDRATE; the page and the records name neither them nor anything signed.
    for path in files_below(&folder) {
        let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
        // The name of a variable is no key.
        let text = text.replace("FEEDRATE_DROP_CACHES", "");
        assert!(!text.contains("FEEDRATE"), "{}", path.display());
    }
    said.keeping_quiet_about("FEEDRATE");
}

fn has_all_files(folder: &Path) {
    let is_stamp = |name: &str| {
        name.len() >= 15
            && name.bytes().take(15).enumerate().all(|(at, byte)| match at {
                8 => byte == b'_',
                _ => byte.is_ascii_digit(),
            })
    };
    assert!(is_stamp(folder.file_name().unwrap().to_str().unwrap()), "{}", folder.display());
    let mut expected: Vec<String> =
        ["report.md", "sweep.json", "sweep.tsv"].map(str::to_owned).to_vec();
    for np in [1, 2] {
        let runs = folder.join(format!("NP{np}/training/retinanet/run"));
        let stamps: Vec<String> = fs::read_dir(&runs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(stamps.len() == 1 && is_stamp(&stamps[0]), "{stamps:?}");
        let ranks = (0..np).flat_map(|rank| {
            [format!("{rank}_output.json"), format!("{rank}_per_epoch_stats.json")]
        });
        let others = ["config", "hydra", "overrides"]
            .map(|name| format!("dlio_config/{name}.yaml"))
            .into_iter()
            .chain(["dlio.log", "feedrate.json", "summary.json"].map(str::to_owned));
        let run = format!("NP{np}/training/retinanet/run/{}", stamps[0]);
        expected.extend(ranks.chain(others).map(|name| format!("{run}/{name}")));
        expected.push(format!("{run}/report.md"));
    }
    expected.sort();
    let found: Vec<String> = files_below(folder)
        .iter()
        .map(|path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(found, expected);

    let page = fs::read_to_string(folder.join("report.md")).unwrap();
    for word in ["AU", "samples/s", "MiB/s", "efficiency", "322,957", "retinanet_b200", "192"] {
        assert!(page.contains(word), "no {word:?} in {page}");
    }
    let table = fs::read_to_string(folder.join("sweep.tsv")).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
}

fn has_all_keys_and_sums(sweep: &Value) {
    assert_eq!(sweep["model"], "retinanet");
    assert_eq!(sweep["files"], 192);
    assert_eq!(sweep["epochs"], 2);
    assert_eq!(sweep["record_length_bytes"], RECORD);
    let runs = sweep["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for (run, np) in runs.iter().zip([1_u64, 2]) {
        let steps = 192 / 24 / np;
        assert_eq!(run["np"], np);
        assert_eq!(run["bytes_read"], steps * 24 * np * RECORD * 2);
        assert_eq!(run["gets"], 192 * 2);
        assert_eq!(run["retries"], 0);
        assert!(run["au_met"].is_boolean() && run["verdict"].is_string(), "{run}");
        let per_epoch = numbers(&run["au_percent_per_epoch"]);
        assert_eq!(per_epoch.len(), 2);
        within(
            number(&run["au_percent_mean"]),
            per_epoch.iter().sum::<f64>() / 2.0,
            1e-9,
            "mean of the epochs' AU",
        );
        within(
            number(&run["au_percent_stdev"]),
            (per_epoch[0] - per_epoch[1]).abs() / 2.0,
            1e-9,
            "population standard deviation of the epochs' AU",
        );
        within(
            number(&run["io_mib_per_second_mean"]),
            number(&run["samples_per_second_mean"]) * RECORD as f64 / 1_048_576.0,
            1e-6,
            "MiB/s",
        );
        for positive in [
            "wall_au_percent_mean",
            "samples_per_second_mean",
            "wall_seconds",
            "scaling_efficiency_percent",
            "client_peak_rss_bytes",
        ] {
            assert!(number(&run[positive]) > 0.0, "{positive}: {run}");
        }
        for not_negative in [
            "samples_per_second_stdev",
            "client_cpu_seconds",
            "client_cpu_seconds_per_gib",
            "server_cpu_seconds",
        ] {
            assert!(number(&run[not_negative]) >= 0.0, "{not_negative}: {run}");
        }
        for latency in ["get_latency_ms", "get_first_byte_ms"] {
            let percentiles = ["p50", "p90", "p99", "max"].map(|name| number(&run[latency][name]));
            assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{latency}: {percentiles:?}");
        }
    }
    let each = |run: &Value, np: f64| number(&run["samples_per_second_mean"]) / np;
    within(number(&runs[0]["scaling_efficiency_percent"]), 100.0, 1e-9, "efficiency");
    within(
        number(&runs[1]["scaling_efficiency_percent"]),
        100.0 * each(&runs[1], 2.0) / each(&runs[0], 1.0),
        1e-9,
        "efficiency",
    );
}

#[test]
fn the_report_of_a_sweep_comes_out_again_byte_for_byte() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("sweep t0.yaml --np 1,2 --generate").on(&server).succeeds();
    let folder = place.sweep("t0");
    let files = ["sweep.tsv", "report.md"].map(|name| folder.join(name));
    let before = files.each_ref().map(|path| fs::read(path).unwrap());
    for path in &files {
        fs::remove_file(path).unwrap();
    }
    let said = place.feedrate("report results").succeeds();
    assert!(said.stdout.contains("efficiency"), "{}", said.stdout);
    assert_eq!(files.each_ref().map(|path| fs::read(path).unwrap()), before);

    let json = place.feedrate("report --json").arg(&folder).succeeds().json();
    assert_eq!(json, sweep_json(&folder));
}

#[test]
fn json_is_the_saved_record_and_quiet_says_nothing_but_the_result() {
    let (place, server) = (Place::new(), serve().start());
    let sweep = |line: &str| {
        place.feedrate("sweep t0.yaml --np 1 --generate").args(line).on(&server).succeeds()
    };
    let json = sweep("--json").json();
    assert_eq!(json, sweep_json(&place.sweep("t0")));
    assert_eq!(json["runs"][0]["gets"], 16);
    let quiet = sweep("--quiet");
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("AU %"), "{}", quiet.stdout);

    // One sample is left over for every note to be worth making.
    let uneven = "run t0.yaml --set reader.batch_size=5";
    place.feedrate(uneven).on(&server).succeeds().telling(&["dropped"]);
    let quiet = place.feedrate(uneven).arg("--quiet").on(&server).succeeds();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn against_a_given_store_a_sweep_only_reads_and_lists_once_a_process() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    server.reset();
    place.feedrate("sweep t0.yaml --np 2,1 --epochs 3").on(&server).succeeds();
    // The sweep looks before it starts, and each of its two runs does.
    let expected = RequestCounts { get: 2 * 3 * 16, list: 3, ..RequestCounts::default() };
    assert_eq!(server.status().requests, expected);
    let sweep = sweep_json(&place.sweep("t0"));
    assert_eq!(sweep["runs"][0]["np"], 1);
    assert!(
        sweep["runs"].as_array().unwrap().iter().all(|run| run["server_cpu_seconds"].is_null())
    );
}

/// Ends the server of a sweep, which outlives it.
struct Kept(Pid);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::TERM);
    }
}

#[test]
fn a_server_that_is_kept_answers_with_the_printed_keys_which_stand_nowhere_else() {
    let place = Place::new();
    let small = "sweep retinanet_b200 --np 1 --files 48 --epochs 2 --keep-server";
    let mut sweep = place.feedrate(small).start();
    let children = watch(&mut sweep);
    let server = task(&children, "serve-task")[0];
    let kept = Kept(Pid::from_raw(server.pid.cast_signed()).unwrap());
    let said = sweep.ends().with_code(0);
    assert!(server.is_alive());
    // It lets go of the sweep's stderr, whose reader would otherwise wait for it.
    let stderr = format!("/proc/{}/fd/2", server.pid);
    let deadline = Instant::now() + Duration::from_secs(5);
    while fs::read_link(&stderr).unwrap() != Path::new("/dev/null") {
        assert!(Instant::now() < deadline, "{}", fs::read_link(&stderr).unwrap().display());
        thread::sleep(Duration::from_millis(2));
    }
    let exports = said.stderr.lines().find(|line| line.starts_with("export ")).unwrap();
    let environment = environment_of(exports);

    let secrets = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| &environment[name]);
    for secret in secrets {
        assert!(secret.len() >= 16);
        assert_eq!(said.stderr.matches(secret.as_str()).count(), 1);
        assert!(!said.stdout.contains(secret.as_str()));
        assert!(children.iter().all(|child| !child.told.contains(secret.as_str())));
        for path in files_below(&place.directory()) {
            let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
            assert!(!text.contains(secret.as_str()), "{}", path.display());
        }
    }

    let run = "run retinanet_b200 --files 48 --epochs 1 --bucket feedrate --verify";
    let call =
        environment.iter().fold(place.feedrate(run), |call, (name, value)| call.env(name, value));
    call.succeeds();
    drop(kept);
}

#[test]
fn a_sweep_that_evaluates_makes_and_finds_both_sets() {
    let (place, server) = (Place::new(), serve().start());
    let sets = ["dataset.num_files_eval=4", "workflow.evaluation=true", "reader.pin_memory=true"];
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let sweep = |line: &str| {
        place.feedrate(&format!("sweep t0.yaml --np 1,2 {line}")).set(&sets).on(&server)
    };
    let said = sweep("").fails(1).telling(&["0 of 4 files found", "valid/", "feedrate datagen"]);
    assert_eq!(said.stderr.matches("accepted without effect").count(), 1, "{said:?}");
    sweep("--generate").succeeds();
    // Each time with what they were made with.
    assert_eq!(server.status().requests.put, (16 + 1) + (16 + 4 + 1));
    sweep("").succeeds();
    server.reset();
    sweep("").set(&["dataset.skip_listing=true"]).succeeds();
    assert_eq!(server.status().requests.list, 0);
}
