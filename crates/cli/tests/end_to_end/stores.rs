//! Which store is meant, how it is reached, and what is said when it cannot be.

use std::net::TcpListener;

use feedrate_s3_server::RequestCounts;

use crate::support::{B0, Place, Said, serve};

#[test]
fn missing_data_is_an_error_with_the_command_that_makes_it() {
    let (place, server) = (Place::new(), serve().start());
    let overrides = ["dataset.data_folder=\"data/it's here\"", "dataset.file_prefix=a b"];
    let sweep = || place.feedrate("sweep t0.yaml --np 1 --files 8").set(&overrides).on(&server);
    let said = sweep().fails(1).in_less_than(5).telling(&["0 of 8 files", "--generate"]);
    assert_eq!(server.status().requests.put, 0);

    let command = said.stderr.lines().find(|line| line.starts_with("  feedrate datagen "));
    let command = command.unwrap_or_else(|| panic!("no command in {}", said.stderr));
    place.shell(command).on(&server).succeeds();
    sweep().succeeds();
    assert_eq!(server.status().requests.put, 9);
}

#[test]
fn a_run_shows_the_command_that_makes_what_it_misses() {
    let (place, server) = (Place::new(), serve().start());
    let said = place.feedrate("run t0.yaml").on(&server).fails(1).telling(&["0 of 16 files"]);
    let command = said.stderr.lines().find(|line| line.starts_with("  feedrate datagen ")).unwrap();
    place.shell(command).on(&server).succeeds();
    place.feedrate("run t0.yaml").on(&server).succeeds();
}

#[test]
fn the_command_names_the_store_that_the_flags_named() {
    let (place, server) = (Place::new(), serve().start());
    let line = format!(
        "sweep retinanet_b200 --np 1 --files 24 --epochs 1 --bucket bench --endpoint-url {}",
        server.endpoint()
    );
    let keys = |name: &str| server.environment()[name].clone();
    let with_keys = |call: crate::support::Call| {
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
            .iter()
            .fold(call, |call, name| call.env(name, keys(name)))
    };
    let said = with_keys(place.feedrate(&line)).fails(1);
    let command = said.stderr.lines().find(|line| line.starts_with("  feedrate datagen ")).unwrap();
    with_keys(place.shell(command)).succeeds();
    with_keys(place.feedrate(&line)).succeeds();

    let local = "sweep t0.yaml --np 1 --local store";
    let said = place.feedrate(local).fails(1).telling(&["0 of 16 files", "store/data/t0"]);
    let command = said.stderr.lines().find(|line| line.starts_with("  feedrate datagen ")).unwrap();
    place.shell(command).succeeds();
    place.feedrate(local).succeeds();
}

#[test]
fn generate_makes_what_is_missing_and_only_that() {
    let (place, server) = (Place::new(), serve().start());
    for _ in 0..2 {
        place.feedrate("sweep t0.yaml --np 1,2 --generate").on(&server).succeeds();
        assert_eq!(server.status().requests.put, 17);
    }
}

#[test]
fn a_missing_bucket_is_named_with_its_endpoint() {
    let (place, server) = (Place::new(), serve().start());
    for command in ["run", "sweep", "datagen"] {
        server.reset();
        place
            .feedrate(command)
            .args("t0.yaml --bucket nosuch")
            .on(&server)
            .fails(1)
            .in_less_than(5)
            .telling(&["NoSuchBucket", "nosuch", server.endpoint()]);
        let one = RequestCounts { list: 1, ..RequestCounts::default() };
        assert_eq!(server.status().requests, one, "{command} went on");
    }
}

#[test]
fn a_wrong_secret_costs_one_request_and_is_shown_nowhere() {
    const WRONG: &str = "wrong-secret-0123456789abcdefghijklmnopq";
    let (place, server) = (Place::new(), serve().start());
    let key = &server.environment()["AWS_ACCESS_KEY_ID"];
    for command in ["run t0.yaml", "sweep t0.yaml --np 1", "datagen t0.yaml"] {
        server.reset();
        place
            .feedrate(command)
            .on(&server)
            .env("AWS_SECRET_ACCESS_KEY", WRONG)
            .fails(1)
            .in_less_than(5)
            .telling(&["403", "SignatureDoesNotMatch", "bench", server.endpoint(), &key[..4]])
            .keeping_quiet_about(WRONG)
            .keeping_quiet_about(key);
        let one_list = RequestCounts { list: 1, ..RequestCounts::default() };
        assert_eq!(server.status().requests, one_list, "{command}");
    }
    for path in crate::support::files_below(&place.directory()) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains(WRONG), "{}", path.display());
    }
}

#[test]
fn missing_keys_send_nothing_and_say_where_they_were_looked_for() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("run t0.yaml --endpoint-url").arg(server.endpoint()).fails(1).telling(&[
        "AWS_ACCESS_KEY_ID",
        ".aws/credentials",
        "bench",
    ]);
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn an_endpoint_that_is_not_there_is_named_within_seconds() {
    let place = Place::new();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = format!("http://127.0.0.1:{port}");
    for (endpoint, cause) in
        [(closed.as_str(), "refused"), ("http://no-such-host.invalid:9000", "cannot connect")]
    {
        place
            .feedrate("run t0.yaml --endpoint-url")
            .arg(endpoint)
            .env("AWS_ACCESS_KEY_ID", "ANY")
            .env("AWS_SECRET_ACCESS_KEY", "any")
            .fails(1)
            .in_less_than(5)
            .telling(&[endpoint, cause]);
    }
}

#[test]
fn keys_without_an_endpoint_never_mean_the_public_cloud() {
    let place = Place::new();
    let with_keys = |line: &str| {
        place
            .feedrate(line)
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    };
    // Nothing names a store; a bucket names one, but not where it is.
    with_keys("run retinanet_b200").fails(2).in_less_than(5).telling(&["--endpoint-url"]);
    for command in ["run t0.yaml", "datagen t0.yaml", "sweep t0.yaml --np 1"] {
        with_keys(command).fails(1).in_less_than(5).telling(&[
            "no endpoint is known",
            "--endpoint-url",
            "--aws",
        ]);
    }
    with_keys("sweep retinanet_b200 --np 1 --files 24 --epochs 1").succeeds();
    let page = std::fs::read_to_string(place.sweep("retinanet").join("report.md")).unwrap();
    assert!(page.contains("http://127.0.0.1:") && !page.contains("amazonaws"), "{page}");
}

#[test]
fn the_profile_of_the_shared_files_reaches_its_endpoint() {
    let (place, server) = (Place::new(), serve().start());
    let variable = |name: &str| &server.environment()[name];
    place.write(
        "../home/.aws/config",
        &format!("[default]\nregion = eu-x\n[profile lab]\nendpoint_url = {}\n", server.endpoint()),
    );
    place.write(
        "../home/.aws/credentials",
        &format!(
            "[lab]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            variable("AWS_ACCESS_KEY_ID"),
            variable("AWS_SECRET_ACCESS_KEY")
        ),
    );
    let lab = |line: &str| place.feedrate(line).env("AWS_PROFILE", "lab");
    let (value, origin) = endpoint(&lab("config t0.yaml --json").succeeds());
    assert_eq!(value, server.endpoint());
    assert!(origin.contains("lab") && origin.contains(".aws/config"), "{origin}");
    lab("config t0.yaml").succeeds().keeping_quiet_about(variable("AWS_SECRET_ACCESS_KEY"));
    lab("datagen t0.yaml").succeeds();
    lab("run t0.yaml").succeeds();
}

/// The endpoint that `feedrate config --json` shows, and where it came from.
fn endpoint(said: &Said) -> (String, String) {
    let values = said.json();
    let key = "storage.storage_options.endpoint_url";
    let found = values.as_array().unwrap().iter().find(|value| value["key"] == key).unwrap();
    let text = |name: &str| found[name].as_str().unwrap_or_default().trim_matches('"').to_owned();
    (text("value"), text("origin"))
}

#[test]
fn the_command_line_beats_the_file_the_environment_dotenv_and_the_profile() {
    let place = Place::new();
    place.write("../home/.aws/config", "[default]\nendpoint_url = http://profile:1\n");
    let shown = |line: &str, variable: Option<&str>| {
        let call = place.feedrate(line);
        let call = match variable {
            Some(variable) => call.env("AWS_ENDPOINT_URL", variable),
            None => call,
        };
        endpoint(&call.succeeds())
    };
    let line = "config t0.yaml --json";
    assert_eq!(shown(line, None).0, "http://profile:1");
    place.write(".env", "AWS_ENDPOINT_URL=http://dotenv:1\n");
    assert_eq!(shown(line, None).0, "http://dotenv:1");
    let (value, origin) = shown(line, Some("http://environment:1"));
    assert_eq!(value, "http://environment:1");
    assert!(origin.contains("AWS_ENDPOINT_URL"), "{origin}");
    let in_file = "storage_root: bench, storage_options: {endpoint_url: 'http://file:1'}";
    place.write("t0.yaml", &B0.replace("storage_root: bench", in_file));
    let (value, origin) = shown(line, Some("http://environment:1"));
    assert_eq!(value, "http://file:1");
    assert!(origin.starts_with("t0.yaml:"), "{origin}");
    let flagged = "config t0.yaml --json --endpoint-url http://flag:1";
    let (value, origin) = shown(flagged, Some("http://environment:1"));
    assert_eq!(value, "http://flag:1");
    assert!(origin.contains("--endpoint-url"), "{origin}");
}

#[test]
fn a_data_set_too_large_for_memory_is_refused_before_anything_is_made() {
    let place = Place::new();
    place
        .feedrate("sweep retinanet_b200 --files 1000000000")
        .fails(1)
        .in_less_than(5)
        .telling(&["--files", "--endpoint-url", "memory"])
        .keeping_quiet_about("generated");
    assert!(!place.directory().join("results").exists());
}

#[test]
fn results_go_where_the_flag_says_and_else_where_the_workload_says() {
    let place = Place::new();
    place.feedrate("datagen t0.yaml --local store").succeeds();
    let call = |line: &str| place.feedrate(line).args("t0.yaml --local store");
    let has = |path: &str| place.directory().join(path).exists();
    call("run").env("DLIO_OUTPUT_FOLDER", "own").succeeds();
    assert!(has("own/summary.json") && !has("results"));
    call("run --results-dir flag").env("DLIO_OUTPUT_FOLDER", "other").succeeds();
    assert!(has("flag/training/t0/run") && !has("other"));
    call("sweep --np 1").env("DLIO_OUTPUT_FOLDER", "other").succeeds().telling(&["output.folder"]);
    assert!(has("results/t0_np_sweep") && !has("other"));
}
