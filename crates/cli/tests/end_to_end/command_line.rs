//! What the command line takes, and what it says to what it does not take.

use crate::support::{B0, Place, serve};

#[test]
fn an_unknown_flag_is_a_usage_error() {
    Place::new().feedrate("sweep retinanet_b200 --fast").fails(2).telling(&["--fast", "Usage"]);
}

#[test]
fn an_unknown_workload_is_a_usage_error_that_knows_the_nearest_name() {
    for command in ["sweep", "run", "datagen", "config"] {
        Place::new()
            .feedrate(command)
            .arg("retinanet_b20")
            .fails(2)
            .telling(&["retinanet_b20", "did you mean retinanet_b200?"]);
    }
}

#[test]
fn run_and_datagen_without_a_store_say_which_there_are() {
    for command in ["run retinanet_b200", "datagen retinanet_b200"] {
        Place::new().feedrate(command).fails(2).telling(&[
            "--endpoint-url",
            "--local",
            "feedrate serve",
        ]);
    }
}

#[test]
fn yaml_that_cannot_be_read_is_shown_by_line_and_column() {
    let place = Place::new();
    place.write("bad.yaml", "model: {name: t0}\nreader: {batch_size: [4}\n");
    let said = place.feedrate("run bad.yaml").fails(1).telling(&["bad.yaml:2:"]);
    assert_eq!(said.stderr.matches("bad.yaml:2:").count(), 1, "{}", said.stderr);
}

#[test]
fn all_problems_of_a_workload_come_at_once_each_with_its_place() {
    let place = Place::new();
    let text = B0.replace("batch_size: 4", "batch_size: four").replace("npz", "webp");
    place.write("t0.yaml", &text.replace("au: 0.90", "au: 0.90, agility: 3"));
    place.feedrate("run t0.yaml --endpoint-url http://127.0.0.1:1").fails(1).telling(&[
        "t0.yaml:6:11",
        "dataset.format",
        "webp",
        "t0.yaml:10:44",
        "reader.batch_size",
        "four",
    ]);
}

#[test]
fn the_version_names_the_commit() {
    let said = Place::new().feedrate("--version").succeeds();
    let commit = said.stdout.split("commit ").nth(1).unwrap().split([',', ')']).next().unwrap();
    let is_hash = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{}", said.stdout);
    assert!(said.stdout.starts_with(concat!("feedrate ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn bash_reads_the_completions() {
    let place = Place::new();
    let said = place.feedrate("completions bash").succeeds();
    assert!(said.stdout.contains("--endpoint-url"));
    place.write("completions.bash", &said.stdout);
    place.shell("bash -n completions.bash && bash -c '. ./completions.bash'").succeeds();
}

#[test]
fn a_reader_that_stops_is_no_failure_and_a_full_disk_is_one() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_feedrate");
    for command in ["completions bash", "workloads", "config retinanet_b200"] {
        let piped = format!("set -o pipefail; {program} {command} | true");
        let said = place.shell(&format!("bash -c '{piped}'")).succeeds();
        assert_eq!(said.stderr, "");
        let said = place.shell(&format!("{program} {command} > /dev/full")).fails(1);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        assert!(said.stderr.contains("cannot write to standard output"), "{}", said.stderr);
    }
}

#[test]
fn the_built_in_workloads_are_listed_and_can_be_looked_into() {
    let place = Place::new();
    let listed = place.feedrate("workloads").succeeds().stdout;
    for (name, files) in [
        ("retinanet_b200", "1170301"),
        ("retinanet_mi355", "1170301"),
        ("retinanet_h100_draft", "1743042"),
        ("retinanet_a100_draft", "1743042"),
    ] {
        let line = listed.lines().find(|line| line.trim().starts_with(name)).expect(name);
        assert_eq!(line.contains("superseded"), name.ends_with("_draft"), "{line}");
        let values = place.feedrate("config").arg(name).succeeds().stdout;
        assert!(values.contains("dataset.num_files_train") && values.contains(files));
    }
}

#[test]
fn a_server_never_prints_the_keys_it_was_given() {
    let place = Place::new();
    let mut server = place
        .feedrate("serve --listen 127.0.0.1:0")
        .env("AWS_ACCESS_KEY_ID", "GIVENKEYID")
        .env("AWS_SECRET_ACCESS_KEY", "given-secret-key")
        .start();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(server.is_running());
    server.signal(rustix::process::Signal::TERM);
    let said = server.ends().with_code(0);
    assert!(said.stdout.starts_with("export AWS_ENDPOINT_URL=http://127.0.0.1:"));
    said.keeping_quiet_about("GIVENKEYID").keeping_quiet_about("given-secret-key");
}

#[test]
fn a_fault_rule_that_means_nothing_is_a_usage_error() {
    Place::new()
        .feedrate("serve --listen 127.0.0.1:0 --fault")
        .arg("get status=200")
        .fails(2)
        .telling(&["status=200", "400 to 599"]);
    drop(serve().fault("get status=503 count=1").start());
}
