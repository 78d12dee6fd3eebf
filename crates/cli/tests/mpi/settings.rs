//! What the first process knows, the others need not be told by their environment.

use std::fs;

use crate::launcher::launcher;
use crate::support::{B0, DLIO, FEEDRATE, Place, Server, files_below, serve};

const KEYS: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// A launcher that starts `program` twice, the second time in an environment without a store.
fn one_knows(place: &Place, server: &Server, program: &str, line: &str) -> crate::support::Call {
    let without: Vec<String> = KEYS.iter().map(|name| format!("-u {name}")).collect();
    let without = without.join(" ");
    let line = format!("-n 1 {program} {line} : -n 1 env {without} {program} {line}");
    launcher(place).args(&line).on(server)
}

#[test]
fn a_process_without_endpoint_and_keys_works_and_no_secret_is_written() {
    let (place, server) = (Place::new(), serve().start());
    place.write("configs/workload/t0_h100.yaml", B0);
    let secret = &server.environment()["AWS_SECRET_ACCESS_KEY"];
    for (program, line) in [
        (FEEDRATE, "datagen t0.yaml"),
        (FEEDRATE, "run t0.yaml"),
        (DLIO, "workload=t0_h100 --config-dir=configs hydra.run.dir=results/dlio"),
    ] {
        one_knows(&place, &server, program, line).succeeds().keeping_quiet_about(secret);
    }
    let requests = server.status().requests;
    assert_eq!((requests.put, requests.get), (17, 32));
    let files = files_below(&place.directory()).into_iter().chain(files_below(&place.home()));
    let mut looked_at = 0;
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret.as_str()), "the secret is in {}", file.display());
        looked_at += 1;
    }
    assert!(looked_at > 10, "{looked_at} files");
}

/// The file of the workload is needed by the first process alone.
#[test]
fn a_process_in_another_directory_works() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let line = format!(
        "-n 1 {FEEDRATE} run t0.yaml : -n 1 -wdir {} {FEEDRATE} run t0.yaml",
        place.home().display()
    );
    launcher(&place).args(&line).on(&server).succeeds();
    assert_eq!(place.run().summary()["num_accelerators"], 2);
    assert!(!place.home().join("results").exists());
}
