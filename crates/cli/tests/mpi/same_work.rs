//! Processes do what ranks of one process do: the same samples, in the same steps, read once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::launcher::mpirun;
use crate::support::{DLIO, FEEDRATE, Place, RunFolder, Server, files_below, numbers, serve};

/// 32 files, two epochs, and a server that has them.
fn with_files(files: u32) -> (Place, Server) {
    let (place, server) = (Place::new(), serve().start());
    let text =
        crate::support::B0.replace("num_files_train: 16", &format!("num_files_train: {files}"));
    let text = text.replace("epochs: 1", "epochs: 2");
    place.write("t0.yaml", &text);
    place.write("configs/workload/t0_h100.yaml", &text);
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    server.reset();
    (place, server)
}

/// What a run asked of the server, which then counts from zero again: how often it read each file, and
/// how often it listed.
fn asked(server: &Server) -> (BTreeMap<String, u32>, u64) {
    let mut reads = BTreeMap::new();
    for name in server.gets() {
        *reads.entry(name).or_default() += 1;
    }
    let requests = server.status().requests;
    assert_eq!(requests.get, u64::from(reads.values().sum::<u32>()));
    server.reset();
    (reads, requests.list)
}

/// The names of a run's files.
fn names(run: &RunFolder) -> Vec<String> {
    let files = files_below(&run.0);
    files.iter().map(|file| file.strip_prefix(&run.0).unwrap().display().to_string()).collect()
}

/// `value` without what two runs of a workload may differ in: what a number or a text says.
fn form(value: &Value) -> Value {
    match value {
        Value::Number(_) => "a number".into(),
        Value::String(_) => "a text".into(),
        Value::Array(list) => list.iter().map(form).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), form(value))).collect()
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

/// Asserts that `processes` are `ranks` ranks that took the steps of `in_one` and wrote the same files.
#[track_caller]
fn assert_same(processes: &RunFolder, in_one: &RunFolder, ranks: u32, steps: usize) {
    assert_eq!(names(processes), names(in_one));
    assert_eq!(processes.summary()["num_accelerators"], ranks);
    let mut names = vec!["summary.json".to_owned()];
    for rank in 0..ranks {
        names.extend([format!("{rank}_output.json"), format!("{rank}_per_epoch_stats.json")]);
        for run in [processes, in_one] {
            assert_eq!(run.steps(rank, 2, "load").len(), steps, "rank {rank}");
            assert_eq!(run.steps(rank, 2, "compute").len(), steps, "rank {rank}");
        }
    }
    for name in names {
        let (of_processes, of_one) = (form(&processes.json(&name)), form(&in_one.json(&name)));
        for (key, value) in of_one.as_object().unwrap() {
            if key != "feedrate" {
                assert_eq!(of_processes[key], *value, "{name}: {key}");
            }
        }
        assert_eq!(keys(&of_processes), keys(&of_one), "{name}");
        assert_eq!(keys(&of_processes["feedrate"]), keys(&of_one["feedrate"]), "{name}");
    }
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().map(|object| object.keys().collect()).unwrap_or_default()
}

#[test]
fn four_processes_read_the_samples_and_take_the_steps_of_four_ranks_in_one() {
    let (place, server) = with_files(32);
    place.feedrate("run t0.yaml --np 4 --results-dir one").on(&server).succeeds();
    let of_one = asked(&server);
    assert_eq!(of_one.0.len(), 32);
    assert!(of_one.0.values().all(|&reads| reads == 2), "each sample once in each epoch");
    mpirun(&place, 4, FEEDRATE, "run t0.yaml --results-dir processes").on(&server).succeeds();
    assert_eq!(asked(&server), of_one);
    let run = |folder: &str| {
        let runs = std::fs::read_dir(place.directory().join(folder).join("training/t0/run"));
        RunFolder(runs.unwrap().next().unwrap().unwrap().path())
    };
    assert_same(&run("processes"), &run("one"), 4, 2);
}

#[test]
fn dlio_benchmark_does_so_too_and_speaks_once() {
    let (place, server) = with_files(32);
    let line =
        |folder: &str| format!("workload=t0_h100 hydra.run.dir={folder} --config-dir=configs");
    place.dlio(&line("one")).args("--np 4").on(&server).succeeds();
    let of_one = asked(&server);
    let said = mpirun(&place, 4, DLIO, &line("processes")).on(&server).succeeds();
    assert_eq!(asked(&server), of_one);
    let run = |folder: &str| RunFolder(place.directory().join(folder));
    assert_same(&run("processes"), &run("one"), 4, 2);
    for text in [
        " Running DLIO [Training] with 4 process(es)",
        " Starting epoch 2: 2 steps expected",
        "[METRIC] Number of Simulated Accelerators: 4 \n",
    ] {
        assert_eq!(said.stderr.matches(text).count(), 1, "{text:?} in {}", said.stderr);
    }
}

/// Steps are those that all ranks can take: what is over is dropped, and nobody waits for it.
#[test]
fn files_that_do_not_fill_a_step_on_all_ranks_are_dropped_and_the_run_ends() {
    let (place, server) = with_files(145);
    let line = "run t0.yaml --epochs 1 --set reader.batch_size=16";
    let said = mpirun(&place, 3, FEEDRATE, line).on(&server).succeeds();
    said.telling(&["1 of 145 samples are dropped in each epoch"]);
    let (reads, lists) = asked(&server);
    assert_eq!((reads.len(), reads.values().sum::<u32>(), lists), (144, 144, 1));
    for rank in 0..3 {
        assert_eq!(place.run().steps(rank, 1, "compute").len(), 3);
    }
}

#[test]
fn ranks_of_several_processes_are_one_world_and_one_host() {
    let (place, server) = with_files(32);
    let line = "run t0.yaml --ranks-per-process 2 --epochs 1";
    mpirun(&place, 4, FEEDRATE, line).on(&server).succeeds();
    let (reads, lists) = asked(&server);
    assert_eq!(reads.len(), 32);
    assert!(reads.values().all(|&reads| reads == 1), "{reads:?}");
    assert_eq!(lists, 1, "one process looks for the files, for all");
    let run = place.run();
    let summary = run.summary();
    assert_eq!((&summary["num_accelerators"], &summary["num_hosts"]), (&8.into(), &1.into()));
    for key in ["host_memory_GB", "host_cpu_count", "potential_caching"] {
        assert_eq!(numbers(&summary[key]).len(), 1, "{key}");
    }
    for rank in 0..8 {
        assert_eq!(run.steps(rank, 1, "load").len(), 1);
    }
}

#[test]
fn four_processes_make_each_file_once() {
    let (place, server) = (Place::new(), serve().start());
    let said = mpirun(&place, 4, FEEDRATE, "datagen t0.yaml").on(&server).succeeds();
    assert_eq!(server.status().requests.put, 17);
    assert_eq!(said.stdout.lines().count(), 1, "{}", said.stdout);
    // What they made is what one process makes.
    place.feedrate("run t0.yaml --verify").on(&server).succeeds();
}
