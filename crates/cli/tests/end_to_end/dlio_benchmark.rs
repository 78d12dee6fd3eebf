//! `dlio_benchmark` and its companions, called as scripts and wrappers call DLIO.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Call, Place, RunFolder, Server, files_below, number, numbers, serve};

/// A place whose `configs` folder holds the base workload as wrappers have it: a file to run and one
/// to generate with.
fn with_configs() -> Place {
    let place = Place::new();
    let b0 = crate::support::B0;
    place.write("configs/workload/t0_h100.yaml", b0);
    let generate = "{generate_data: True, train: False, checkpoint: False}";
    let datagen = b0.replace("{generate_data: False, train: True, checkpoint: False}", generate);
    place.write("configs/workload/t0_datagen.yaml", &datagen);
    place
}

/// With the data set of the base workload in a server.
fn with_data() -> (Place, Server) {
    let (place, server) = (with_configs(), serve().start());
    place.dlio("workload=t0_datagen hydra.run.dir=gen --config-dir=configs").on(&server).succeeds();
    server.reset();
    (place, server)
}

fn names(folder: &Path) -> Vec<String> {
    let below = |path: &PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    files_below(folder).iter().map(below).collect()
}

fn read(place: &Place, name: &str) -> String {
    let path = place.directory().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_command_of_the_wrapper_works_word_for_word() {
    let (place, server) = (with_configs(), serve().start());
    let command = |workload: &str, folder: &str| {
        let line = format!(
            "workload={workload} ++hydra.run.dir=results/training/t0/{folder}/20261130_064754 \
             ++hydra.output_subdir=dlio_config ++workload.dataset.num_files_train=12 \
             ++workload.dataset.data_folder=data/t0 --config-dir=configs"
        );
        place.dlio(&line).on(&server)
    };
    command("t0_datagen", "datagen").succeeds();
    let datagen = place.directory().join("results/training/t0/datagen/20261130_064754");
    let snapshot = [
        "dlio.log",
        "dlio_config/config.yaml",
        "dlio_config/hydra.yaml",
        "dlio_config/overrides.yaml",
    ];
    let mut expected = snapshot.map(str::to_owned).to_vec();
    assert_eq!(names(&datagen), expected);
    let log = fs::read_to_string(datagen.join("dlio.log")).unwrap();
    for line in [
        " Running DLIO [Generating data] with 1 process(es)\n",
        " Starting data generation\n",
        " Generation done\n",
    ] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
    assert_eq!(server.status().requests.put, 13);

    let said = command("t0_h100", "run").succeeds();
    let run = place.directory().join("results/training/t0/run/20261130_064754");
    expected.extend(
        ["0_output.json", "0_per_epoch_stats.json", "feedrate.json", "report.md", "summary.json"]
            .map(str::to_owned),
    );
    expected.sort();
    assert_eq!(names(&run), expected);
    let said = said.telling(&[
        "[OUTPUT] ",
        " Running DLIO [Training] with 1 process(es)",
        " Max steps per epoch: 3 = 1 * 12 / 4 / 1 (samples per file * num files / batch size / comm size)",
        " Starting epoch 1: 3 steps expected",
        " Ending epoch 1 - 3 steps completed in ",
        "[METRIC] Number of Simulated Accelerators: 1 \n",
        "[METRIC] Training Accelerator Utilization [AU] (%): ",
        "[METRIC] Training Throughput (samples/second): ",
        "[METRIC] Training I/O Throughput (MiB/second): ",
        "[METRIC] train_au_meet_expectation: ",
    ]);
    // The console shows what the log holds.
    let log = fs::read_to_string(run.join("dlio.log")).unwrap();
    for line in log.lines() {
        assert!(said.stderr.contains(line), "no {line:?} in {}", said.stderr);
    }
    let summary = RunFolder(run.clone()).summary();
    assert_eq!(summary["num_accelerators"], 1);
    assert_eq!(numbers(&summary["metric"]["train_au_percentage"]).len(), 1);
    let overrides = fs::read_to_string(run.join("dlio_config/overrides.yaml")).unwrap();
    assert_eq!(
        overrides,
        "- workload=t0_h100\n- ++workload.dataset.num_files_train=12\n\
         - ++workload.dataset.data_folder=data/t0\n"
    );
    let config = fs::read_to_string(run.join("dlio_config/config.yaml")).unwrap();
    for line in
        ["workload:\n", "    num_files_train: 12\n", "    name: t0\n", "    batch_size: 4\n"]
    {
        assert!(config.contains(line), "no {line:?} in {config}");
    }
}

#[test]
fn ranks_in_one_process_share_the_epoch() {
    let (place, server) = with_data();
    place
        .dlio("--np 2 workload=t0_h100 hydra.run.dir=run --config-dir configs")
        .on(&server)
        .succeeds();
    let run = RunFolder(place.directory().join("run"));
    assert_eq!(run.summary()["num_accelerators"], 2);
    for rank in 0..2 {
        assert_eq!(run.steps(rank, 1, "load").len(), 2);
        assert!(run.0.join(format!("{rank}_per_epoch_stats.json")).exists());
    }
    assert_eq!(server.status().requests.get, 16);
}

/// With MPI it is one of them.
#[cfg(not(feature = "mpi"))]
#[test]
fn one_of_several_ranks_of_a_launcher_refuses_to_be_a_benchmark_of_its_own() {
    let place = with_configs();
    let line = "workload=t0_h100 --config-dir=configs";
    for call in [place.dlio(line), place.feedrate("run t0.yaml"), place.feedrate("datagen t0.yaml")]
    {
        let said = call.env("OMPI_COMM_WORLD_SIZE", "4").env("OMPI_COMM_WORLD_RANK", "2").fails(2);
        assert_eq!(said.stderr.trim().lines().count(), 1, "{said:?}");
        said.telling(&["4 ranks", "without MPI", "--np 4"]);
    }
    assert!(!place.directory().join("hydra_log").exists());
}

#[test]
fn the_composed_configuration_is_printed_without_a_run_or_a_folder() {
    let place = with_configs();
    let job = place
        .dlio("--cfg job workload=t0_h100 ++workload.reader.batch_size=8 --config-dir=configs")
        .succeeds();
    assert!(job.stdout.starts_with("workload:\n  model:\n    name: t0\n"), "{}", job.stdout);
    assert!(job.stdout.contains("    batch_size: 8\n"), "{}", job.stdout);
    let help = place.dlio("--help").succeeds();
    for text in ["unet3d_h100", "llama3_8b", "workload=", "num_files_train: 64"] {
        assert!(help.stdout.contains(text), "no {text:?} in {}", help.stdout);
    }
    let text = "\
model: {name: t0}
dataset: {data_folder: 'data/${workload.model.name}', format: npz, file_prefix: '${oc.env:NOSUCH,img}'}
reader: {data_loader: pytorch}
framework: pytorch
";
    place.write("configs/workload/x.yaml", text);
    let composed = |option: &str| {
        place.dlio(&format!("workload=x -c job {option} --config-dir=configs")).succeeds().stdout
    };
    assert!(composed("").contains("data/${workload.model.name}"), "{}", composed(""));
    let resolved = composed("--resolve");
    assert!(resolved.contains("data_folder: data/t0\n"), "{resolved}");
    assert!(resolved.contains("file_prefix: img\n"), "{resolved}");
    let made = names(&place.directory());
    assert!(made.iter().all(|name| name.starts_with("configs/") || name == "t0.yaml"), "{made:?}");
}

#[test]
fn mistakes_end_with_the_exit_codes_of_hydra_and_say_what_would_be_right() {
    let place = with_configs();
    for (line, code, told) in [
        ("workload=unet3d_h10", 1, &["unet3d_h10", "unet3d_h100", "default"][..]),
        ("workload.reader.batch_sise=3", 1, &["workload.reader.batch_sise", "++"]),
        ("+workload.reader.batch_size=3", 1, &["workload.reader.batch_size", "++"]),
        ("~workload.reader.nosuch", 1, &["workload.reader.nosuch"]),
        ("++reader.batch_size=3 ++workload.x=1,2", 1, &["1,2"]),
        ("reader.batch_size=3", 1, &["workload.reader.batch_size"]),
        ("++workload.reader.batch_size=0", 1, &["reader.batch_size", "whole number from 1"]),
        ("--config-dir=nosuch", 1, &["nosuch"]),
        ("--config-name nosuch", 1, &["nosuch"]),
        ("--multirun", 2, &["--multirun"]),
        ("--confg-dir=configs", 2, &["--confg-dir", "--config-dir"]),
        ("--cfg all", 2, &["job"]),
        ("++workload", 1, &["++workload"]),
    ] {
        place.dlio(line).fails(code).telling(told);
    }
    assert!(!place.directory().join("hydra_log").exists(), "nothing is made for what cannot start");
}

#[test]
fn what_a_workload_needs_and_is_not_there_yet_is_said_before_anything_is_read() {
    let (place, server) = with_data();
    let told = ["checkpoint", "not supported yet"];
    place.dlio("workload=llama3_8b").on(&server).fails(1).telling(&told);
    place.feedrate("run llama3_8b --bucket bench").on(&server).fails(1).telling(&told);
    assert_eq!(server.status().requests, feedrate_s3_server::RequestCounts::default());
    let made = names(&place.directory());
    assert!(made.iter().all(|name| !name.starts_with("results")), "{made:?}");
}

#[test]
fn a_workload_whose_checkpoints_alone_are_missing_runs_without_them_and_says_so() {
    let (place, server) = with_data();
    let said = place
        .dlio("workload=t0_h100 ++workload.workflow.checkpoint=True hydra.run.dir=run --config-dir=configs")
        .on(&server)
        .succeeds();
    assert_eq!(said.stderr.matches("checkpoints are not written").count(), 1, "{}", said.stderr);
    let run = RunFolder(place.directory().join("run"));
    assert_eq!(run.figures()["checkpoint"], "skipped");
}

#[test]
fn both_front_ends_make_the_same_workload_of_the_same_words() {
    let (place, server) = with_data();
    let options = [
        "reader.batch_size=2",
        "train.computation_time={type: uniform, min: 0.001, max: 0.002}",
        "dataset.record_length=65536",
        "reader.read_threads=1",
    ];
    let workload = |run: &RunFolder| run.json("feedrate.json")["workload"].take();
    let mut call =
        place.dlio("workload=t0_h100 hydra.run.dir=run --config-dir=configs").on(&server);
    for option in options {
        call = call.arg(format!("++workload.{option}"));
    }
    call.succeeds();
    place.feedrate("run configs/workload/t0_h100.yaml").set(&options).on(&server).succeeds();
    let by_dlio = RunFolder(place.directory().join("run"));
    assert_eq!(workload(&by_dlio), workload(&place.run()));
    let origin_of = |run: &RunFolder, key: &str| {
        let values = run.figures()["configuration"].take();
        let value = values.as_array().unwrap().iter().find(|value| value["key"] == key).cloned();
        value.unwrap()["origin"].clone()
    };
    assert_eq!(origin_of(&by_dlio, "reader.batch_size"), "++workload.reader.batch_size=2");
    assert_eq!(origin_of(&place.run(), "reader.batch_size"), "--set reader.batch_size=2");
    assert_eq!(origin_of(&by_dlio, "train.seed"), "default");
}

#[test]
fn config_and_cfg_job_agree_on_every_key_that_a_preset_gives() {
    let place = Place::new();
    for preset in ["unet3d_h100", "resnet50_a100", "dlrm_b200", "llama3_405b"] {
        let values = place.feedrate(&format!("config {preset} --json")).succeeds().json();
        let job = place.dlio(&format!("--cfg job --resolve workload={preset}")).succeeds().stdout;
        let mut given = 0;
        for value in values.as_array().unwrap() {
            let origin = value["origin"].as_str().unwrap();
            if !origin.starts_with("preset ") {
                continue;
            }
            given += 1;
            let key = value["key"].as_str().unwrap().rsplit('.').next().unwrap();
            assert!(job.contains(&format!("{key}:")), "{preset}: no {key} in {job}");
            let text = value["value"].as_str().unwrap();
            let as_printed = [text.to_owned(), capitalized(text), format!("{text}/")];
            let found = job.lines().any(|line| {
                let line = line.trim();
                as_printed.iter().any(|text| line == format!("{key}: {text}"))
            });
            let nested = text.starts_with('[') || text.ends_with("columns") || text.contains('(');
            assert!(found || nested, "{preset}: {key} is not {text} in {job}");
        }
        assert!(given > 10, "{preset}: {given} values");
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn the_query_prints_one_value_as_python_would() {
    let place = with_configs();
    for (key, text) in [
        ("reader.batch_size", "4"),
        ("workflow.train", "True"),
        ("workflow.generate_data", "False"),
        ("storage.storage_type", "s3"),
        ("train.computation_time", "0.01"),
        ("reader.preprocess_time", "0"),
        ("metric.au", "0.9"),
        ("dataset.nosuch", "None"),
    ] {
        let line = format!(
            "workload=t0_h100 ++workload.workflow.query={key} hydra.run.dir=query --config-dir=configs"
        );
        let said = place.dlio_query(&line).env("AWS_ENDPOINT_URL", "http://127.0.0.1:9").succeeds();
        assert_eq!(said.stdout, format!("{text}\n"), "{key}");
    }
    assert!(place.directory().join("query/.hydra/config.yaml").exists());
}

#[test]
fn the_postprocessor_makes_a_report_of_a_run() {
    let (place, server) = with_data();
    place
        .dlio("workload=t0_h100 --np 2 hydra.run.dir=run --config-dir=configs")
        .on(&server)
        .succeeds();
    let said = place.dlio_postprocessor("-of run").succeeds();
    for text in ["DLIO v1.0 Report", "t0", "Block 1", "Samples/s"] {
        assert!(said.stdout.contains(text), "no {text:?} in {}", said.stdout);
    }
    assert!(said.stdout.contains(&read(&place, "run/DLIO_t0_report.txt")[..200]));
    place.dlio_postprocessor("-of nosuch").fails(1).telling(&["nosuch"]);
}

#[test]
fn results_go_to_the_output_folder_and_the_snapshot_stays_in_the_run_folder() {
    let (place, server) = with_data();
    let run = |line: &str| -> Call {
        place.dlio(&format!("workload=t0_h100 --config-dir=configs {line}")).on(&server)
    };
    run("hydra.run.dir=a").env("DLIO_OUTPUT_FOLDER", "out").succeeds();
    assert!(names(&place.directory().join("a")).iter().all(|name| name.starts_with(".hydra/")));
    assert!(place.directory().join("out/summary.json").exists());
    run("hydra.run.dir=b ++workload.output.folder=there hydra.output_subdir=null")
        .env("DLIO_OUTPUT_FOLDER", "out2")
        .succeeds();
    assert!(place.directory().join("there/summary.json").exists());
    assert!(!place.directory().join("out2").exists());
    assert!(!place.directory().join("b/.hydra").exists());
    run("").succeeds();
    let log = place.directory().join("hydra_log/t0");
    let folder = fs::read_dir(&log).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join(".hydra/hydra.yaml").exists() && folder.join("summary.json").exists());
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name.len(), "2026-11-30-06-47-54".len(), "{name}");
}

#[test]
fn a_built_in_workload_goes_before_a_users_of_the_same_name_unless_told_otherwise() {
    let place = with_configs();
    place.write("configs/workload/unet3d_h100.yaml", crate::support::B0);
    let job = |option: &str| {
        place
            .dlio(&format!("--cfg job workload=unet3d_h100 {option} --config-dir=configs"))
            .succeeds()
    };
    let shadowed = job("").telling(&["unet3d_h100", "--prefer-user"]);
    assert!(shadowed.stdout.contains("name: unet3d\n"), "{}", shadowed.stdout);
    let preferred = job("--prefer-user");
    assert!(preferred.stdout.contains("name: t0\n"), "{}", preferred.stdout);
}

#[test]
fn an_endpoint_in_the_environment_alone_does_not_make_files_objects() {
    let (place, server) = (Place::new(), serve().start());
    let quick = "++workload.workflow.generate_data=True ++workload.workflow.evaluation=False \
                 ++workload.train.computation_time=0 ++workload.train.epochs=1 hydra.run.dir=run";
    place.dlio(quick).on(&server).succeeds();
    assert!(place.directory().join("data/default/train/0/img_00_of_64.npz").exists());
    place.dlio(quick).arg("++workload.storage.storage_type=s3").on(&server).fails(1);
    let bucket = "++workload.storage.storage_root=bench";
    place.dlio(quick).args("++workload.storage.storage_type=s3").arg(bucket).on(&server).succeeds();
    assert_eq!(server.status().requests.get, 64);
}

#[test]
fn a_bare_call_runs_the_default_workload_in_the_working_directory() {
    let place = Place::new();
    place.dlio("").fails(1).telling(&["0 of 64 files", "++workload.workflow.generate_data=True"]);
    let quick = "++workload.train.computation_time=0.001 ++workload.evaluation.eval_time=0.001 \
                 ++workload.train.epochs=2 hydra.run.dir=run";
    place.dlio(&format!("++workload.workflow.generate_data=True {quick}")).succeeds();
    for name in ["train/0/img_00_of_64.npz", "train/1/img_01_of_64.npz", "valid/0/img_0_of_8.npz"] {
        assert!(place.directory().join("data/default").join(name).exists(), "{name}");
    }
    let run = RunFolder(place.directory().join("run"));
    assert_eq!(run.steps(0, 2, "compute").len(), 16);
    let output = run.json("0_output.json");
    assert_eq!(numbers(&output["1"]["load"]["eval"]).len(), 8);
    let metric: Value = run.summary()["metric"].take();
    assert_eq!(numbers(&metric["eval_au_percentage"]).len(), 2);
    assert!(number(&metric["eval_throughput_mean_samples_per_second"]) > 0.0);
    let stats = run.json("0_per_epoch_stats.json");
    let keys: Vec<_> = stats["1"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["start", "block1", "eval", "end", "duration"]);
}
