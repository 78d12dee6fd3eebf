//! One store behind several endpoints.
//!
//! Two servers with the same keys and the same objects stand for two endpoints of a cluster.

use std::net::TcpListener;

use feedrate_s3_server::RequestCounts;
use serde_json::{Value, json};

use crate::support::{Call, Place, Server, number, serve, within};

/// Two endpoints of one store, and a place to call them from.
struct Cluster {
    place: Place,
    servers: [Server; 2],
}

impl Cluster {
    fn new() -> Self {
        let first = serve().start();
        let second = serve().beside(&first).start();
        Self { place: Place::new(), servers: [first, second] }
    }

    /// With `files` files behind both, and nothing counted yet.
    fn holding(files: u32) -> Self {
        let cluster = Self::new();
        for server in &cluster.servers {
            cluster.feedrate(&format!("datagen t0.yaml --files {files}")).on(server).succeeds();
            server.reset();
        }
        cluster
    }

    /// A call with the keys in its environment, and no endpoint.
    fn feedrate(&self, line: &str) -> Call {
        self.with_keys(self.place.feedrate(line))
    }

    fn with_keys(&self, call: Call) -> Call {
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
            .iter()
            .fold(call, |call, name| call.env(name, &self.servers[0].environment()[*name]))
    }

    fn endpoints(&self) -> [&str; 2] {
        self.servers.each_ref().map(Server::endpoint)
    }

    /// `--endpoint-url` for both.
    fn flags(&self) -> String {
        self.endpoints().map(|endpoint| format!("--endpoint-url {endpoint}")).join(" ")
    }

    fn requests(&self) -> [RequestCounts; 2] {
        self.servers.each_ref().map(|server| server.status().requests)
    }

    /// What was counted for each endpoint in a saved run.
    fn counts(&self, report: &Value) -> [Value; 2] {
        let counted = &report["record"]["requests"]["endpoints"];
        assert_eq!(counted.as_object().map(serde_json::Map::len), Some(2), "{counted}");
        self.endpoints().map(|endpoint| counted[endpoint].clone())
    }
}

/// Asserts that each has half of `of`, give or take five per cent.
#[track_caller]
fn halves(parts: [u64; 2], of: u64) {
    assert_eq!(parts[0] + parts[1], of);
    for part in parts {
        within(100.0 * part as f64 / of as f64, 50.0, 5.0, "share of an endpoint in per cent");
    }
}

#[test]
fn a_run_reads_half_from_each_endpoint_and_counts_what_they_served() {
    let cluster = Cluster::holding(64);
    let run = "run t0.yaml --files 64 --epochs 2 --np 2 --verify";
    cluster.feedrate(run).args(&cluster.flags()).succeeds();

    let requests = cluster.requests();
    halves(requests.map(|requests| requests.get), 128);
    let report = cluster.place.run().json("feedrate.json");
    for ((counts, requests), server) in
        cluster.counts(&report).iter().zip(requests).zip(&cluster.servers)
    {
        assert_eq!(counts["gets"], requests.get);
        assert_eq!(counts["lists"], requests.list);
        assert_eq!((&counts["puts"], &counts["retries"]), (&json!(0), &json!(0)));
        // The server counts the bodies of listings, too.
        let listings = server.status().body_bytes_out.0 as f64 - number(&counts["bytes"]);
        assert!(listings >= 0.0 && (listings > 0.0) == (requests.list > 0), "{listings}");
    }
    let total: f64 = cluster.counts(&report).iter().map(|counts| number(&counts["bytes"])).sum();
    assert_eq!(total.to_bits(), number(&report["record"]["requests"]["bytes"]).to_bits());
    assert_eq!(report["store"]["endpoint"], cluster.endpoints().join(", "));
    assert_eq!(report["store"]["co_located"], true);
}

#[test]
fn every_process_of_a_sweep_reads_from_all_endpoints_of_the_variable() {
    let cluster = Cluster::holding(64);
    cluster
        .feedrate("sweep t0.yaml --files 64 --np 1,4")
        .env("S3_ENDPOINT_URIS", cluster.endpoints().join(","))
        .env("AWS_ENDPOINT_URL", "http://one-endpoint.invalid")
        .succeeds();
    halves(cluster.requests().map(|requests| requests.get), 128);
    for file in crate::support::files_below(&cluster.place.sweep("t0")) {
        if file.ends_with("feedrate.json") {
            let report = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            halves(cluster.counts(&report).map(|counts| counts["gets"].as_u64().unwrap()), 64);
        }
    }
}

#[test]
fn uploads_are_spread_and_a_list_in_the_file_names_the_endpoints_too() {
    let cluster = Cluster::new();
    let endpoints = cluster.endpoints();
    let options =
        format!("storage_options: {{endpoint_url: ['{}', '{}']}}", endpoints[0], endpoints[1]);
    let root = "storage_root: bench";
    let text = crate::support::B0.replace(root, &format!("{root}, {options}"));
    cluster.place.write("both.yaml", &text);
    cluster.feedrate("datagen both.yaml --files 64").succeeds();
    halves(cluster.requests().map(|requests| requests.put), 65);
}

#[test]
fn a_throttled_read_goes_to_the_next_endpoint() {
    let first = serve().fault("get attempt=1 status=503").start();
    let second = serve().beside(&first).start();
    let cluster = Cluster { place: Place::new(), servers: [first, second] };
    for server in &cluster.servers {
        cluster.feedrate("datagen t0.yaml --files 64").on(server).succeeds();
        server.reset();
    }
    cluster.feedrate("run t0.yaml --files 64 --verify").args(&cluster.flags()).succeeds();
    let counts = cluster.counts(&cluster.place.run().json("feedrate.json"));
    let [first, second] =
        counts.map(|counts| counts["gets"].as_u64().zip(counts["retries"].as_u64()));
    assert_eq!(first, Some((0, 32)), "each file that it was asked for was asked for once");
    assert_eq!(second, Some((64, 0)));
    assert_eq!(cluster.requests().map(|requests| requests.get), [32, 64]);
}

#[test]
fn a_wrong_endpoint_is_named_and_not_covered_up_by_the_other() {
    let cluster = Cluster::holding(16);
    let good = cluster.servers[0].endpoint();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = format!("http://127.0.0.1:{port}");
    let (last, first) = ([good, &closed].join(","), [&closed, good].join(","));
    for (command, uris) in [
        ("run t0.yaml", &first),
        ("run t0.yaml", &last),
        ("datagen t0.yaml", &last),
        ("sweep t0.yaml --np 1", &last),
    ] {
        let failed = format!("at s3://bench at {closed} failed");
        let call = cluster.feedrate(command).env("S3_ENDPOINT_URIS", uris);
        call.fails(1).in_less_than(10).telling(&[&failed, "refused"]);
    }
}

#[test]
fn an_endpoint_without_the_objects_is_named() {
    let (cluster, without) = (Cluster::holding(16), serve());
    let without = without.beside(&cluster.servers[0]).start();
    let uris = [cluster.servers[0].endpoint(), without.endpoint()].join(",");
    cluster
        .feedrate("run t0.yaml")
        .env("S3_ENDPOINT_URIS", uris)
        .fails(1)
        .in_less_than(5)
        .telling(&[&format!("at s3://bench at {} failed", without.endpoint()), "404"]);
}

#[test]
fn an_endpoint_given_twice_is_refused() {
    let cluster = Cluster::holding(1);
    let endpoint = cluster.servers[0].endpoint();
    let line = format!("run t0.yaml --endpoint-url {endpoint} --endpoint-url {endpoint}/");
    cluster.feedrate(&line).fails(1).telling(&[&format!("{endpoint} is given twice")]);
    assert_eq!(cluster.requests()[0], RequestCounts::default());
}

#[test]
fn the_command_that_makes_missing_data_names_all_endpoints() {
    let cluster = Cluster::new();
    let said = cluster.feedrate("sweep t0.yaml --np 1").args(&cluster.flags()).fails(1);
    let command = said.stderr.lines().find(|line| line.starts_with("  feedrate datagen ")).unwrap();
    assert!(command.contains(&cluster.flags()), "{command}");
    cluster.with_keys(cluster.place.shell(command)).succeeds();
    halves(cluster.requests().map(|requests| requests.put), 17);
}
