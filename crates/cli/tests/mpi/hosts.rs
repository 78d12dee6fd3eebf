//! Runs over two hosts, and what becomes of them when the one loses the other.

use std::time::Duration;

use rustix::process::Signal;

use crate::failures::{IN_TIME, assert_lost, slow, until_second_step};
use crate::launcher::Job;
use crate::network::{Network, is_skipped};
use crate::support::{FEEDRATE, Place, Server, numbers};

/// What losing a host may take: its silence is noticed after 6 s.
const LOST_HOST: Duration = Duration::from_secs(12);

#[test]
fn two_hosts_are_one_run_with_the_facts_of_both() {
    if is_skipped("two_hosts_are_one_run_with_the_facts_of_both") {
        return;
    }
    let (place, network) = (Place::new(), Network::new());
    let server = network.serve();
    let job = |line: &str| {
        let call = network.mpirun(&place, 4, FEEDRATE, line).on(&server);
        Job::start(&place, call).ends().with_code(0)
    };
    job("datagen t0.yaml");
    assert_eq!(network.beside_the_server(|| server.status()).requests.put, 17);
    let said = job("run t0.yaml --set reader.batch_size=2 --verify");
    let mut read = network.beside_the_server(|| server.gets());
    assert_eq!(read.len(), 16);
    read.sort();
    read.dedup();
    assert_eq!(read.len(), 16, "{read:?}");

    let run = place.run();
    let summary = run.summary();
    assert_eq!((&summary["num_accelerators"], &summary["num_hosts"]), (&4.into(), &2.into()));
    for key in ["host_memory_GB", "host_cpu_count", "potential_caching"] {
        assert_eq!(numbers(&summary[key]).len(), 2, "{key}");
    }
    let [first, second] = network.hosts();
    assert_eq!(summary["hostname"], first);
    for (rank, host) in [(0, first), (1, first), (2, second), (3, second)] {
        assert_eq!(run.json(&format!("{rank}_output.json"))["hostname"], host, "rank {rank}");
        assert_eq!(run.steps(rank, 1, "compute").len(), 2);
    }
    let nodes = run.json("feedrate.json")["nodes"].take();
    for (node, (host, ranks)) in [(first, [0, 1]), (second, [2, 3])].into_iter().enumerate() {
        assert_eq!(nodes[node]["host"]["hostname"], host, "{nodes}");
        assert_eq!(nodes[node]["ranks"], serde_json::json!(ranks), "{nodes}");
    }
    assert!(said.stdout.contains(first) || said.stdout.contains(second), "{}", said.stdout);
}

/// A slow run of a process on each host, in the second step of its second epoch.
fn under_way(network: &Network, place: &Place, server: &Server) -> Job {
    slow(place);
    let job = |line: &str| Job::start(place, network.mpirun(place, 2, FEEDRATE, line).on(server));
    job("datagen slow.yaml").ends().with_code(0);
    let mut run = job("run slow.yaml");
    until_second_step(&mut run, place);
    run
}

#[test]
fn a_host_whose_link_is_cut_ends_the_run_which_names_it() {
    if is_skipped("a_host_whose_link_is_cut_ends_the_run_which_names_it") {
        return;
    }
    let (place, network) = (Place::new(), Network::new());
    let server = network.serve();
    let job = under_way(&network, &place, &server);
    network.cut();
    assert_lost(job, &place, 1, network.hosts()[1], LOST_HOST);
}

#[test]
fn a_rank_that_is_killed_on_another_host_ends_the_run_which_names_it() {
    if is_skipped("a_rank_that_is_killed_on_another_host_ends_the_run_which_names_it") {
        return;
    }
    let (place, network) = (Place::new(), Network::new());
    let server = network.serve();
    let job = under_way(&network, &place, &server);
    job.signal(1, Signal::KILL);
    assert_lost(job, &place, 1, network.hosts()[1], IN_TIME);
}
