//! What the keys of a workload mean for a run: sets of files, evaluation, what is kept, what is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use feedrate_s3_server::RequestCounts;

use crate::support::{Place, Server, files_below, number, numbers, serve, within};

/// A place and a server that holds the base workload with `overrides`.
fn holding(overrides: &[&str]) -> (Place, Server) {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").set(overrides).on(&server).succeeds();
    server.reset();
    (place, server)
}

#[test]
fn total_training_steps_limit_each_epoch_and_the_log_announces_exactly_that() {
    let (place, server) = holding(&[]);
    let run = |steps: &str| {
        let steps = format!("train.total_training_steps={steps}");
        let overrides = ["reader.batch_size=2", "train.epochs=2", steps.as_str()];
        place.feedrate("run t0.yaml").set(&overrides).on(&server)
    };
    for (wanted, steps) in [("3", 3), ("8", 8), ("-1", 8)] {
        run(wanted).succeeds();
        for epoch in 1..=2 {
            assert_eq!(place.run().steps(0, epoch, "compute").len(), steps, "{wanted}");
        }
    }
    run("3").succeeds();
    let log = place.run().log();
    for line in [
        "Total training steps is set to be 3. Will only run up to 3 steps in each epoch, 6 in all",
        "Starting epoch 2: Overriding number of steps to 3.",
    ] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
    server.reset();
    run("9").fails(1).telling(&["is 9", "has 8 steps"]);
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn sizes_that_deviate_are_those_of_the_original_and_rates_stay_nominal() {
    let deviating = ["dataset.num_files_train=4", "dataset.record_length_bytes_stdev=16384"];
    let (place, server) = holding(&deviating);
    let batch = ["reader.batch_size=1", "train.computation_time=0"];
    place.feedrate("run t0.yaml --np 2").set(&deviating).set(&batch).on(&server).succeeds();
    let figures = place.run().figures();
    // Payloads 82,844, 52,530, 63,800 and 68,376, each in a file of its own.
    let framing = number(&figures["bytes_read"]) - 267_550.0;
    assert!((4.0 * 400.0..4.0 * 600.0).contains(&framing), "{framing}");
    let samples = number(&figures["samples_per_second_mean"]);
    let io = number(&figures["io_mib_per_second_mean"]);
    within(io / samples, 0.0625, 1e-9, "nominal MiB of a sample");

    let local = |ranks: u32| {
        let folder = format!("local{ranks}");
        place.feedrate(&format!("datagen t0.yaml --local {folder}")).set(&deviating).succeeds();
        let files = files_below(&place.directory().join(folder).join("data/t0/train"));
        files.iter().map(|file| fs::metadata(file).unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(local(1), local(2));
    assert_eq!(local(1)[0] - local(1)[1], 82_844 - 52_530);
    place
        .feedrate("run t0.yaml")
        .set(&["dataset.record_dims=[256,256]", "dataset.record_length_bytes_stdev=1"])
        .on(&server)
        .fails(1)
        .telling(&["dataset.record_dims", "dataset.record_length_bytes_stdev"]);
}

#[test]
fn subfolders_are_named_by_their_number_and_found_with_and_without_listing() {
    for (subfolders, names) in [
        ("10", ["train/03/img_03_of_12.npz", "train/01/img_11_of_12.npz"]),
        ("1", ["train/img_03_of_12.npz", "train/img_11_of_12.npz"]),
    ] {
        let place = Place::new();
        let subfolders = format!("dataset.num_subfolders_train={subfolders}");
        let call = |line: &str| {
            place.feedrate(&format!("{line} t0.yaml --files 12 --local here")).set(&[&subfolders])
        };
        call("datagen").succeeds();
        for name in names {
            assert!(place.directory().join("here/data/t0").join(name).exists(), "{name}");
        }
        for listing in ["false", "true"] {
            call("run").set(&[&format!("dataset.skip_listing={listing}")]).succeeds();
            assert_eq!(place.run().figures()["gets"], 12);
        }
        let (place, server) = (Place::new(), serve().start());
        let call = |line: &str| {
            place.feedrate(&format!("{line} t0.yaml --files 12")).set(&[&subfolders]).on(&server)
        };
        call("datagen").succeeds();
        server.reset();
        call("run").succeeds();
        let requests = server.status().requests;
        assert_eq!((requests.get, requests.list, requests.head), (12, 1, 0));
        // What the wrapper makes beside the sets is no part of them.
        server.reset();
        call("run").set(&["dataset.skip_listing=true"]).succeeds();
        let requests = server.status().requests;
        assert_eq!((requests.get, requests.list, requests.head), (12, 0, 2));
    }
}

#[test]
fn without_listing_some_files_are_looked_for_and_a_missing_one_is_named() {
    let (place, server) = holding(&["dataset.num_files_train=40"]);
    let run = |overrides: &[&str]| {
        let skip = ["dataset.num_files_train=40", "dataset.skip_listing=true"];
        place.feedrate("run t0.yaml").set(&skip).set(overrides).on(&server)
    };
    run(&["dataset.listing_validation_interval=10"]).succeeds();
    assert_eq!(server.status().requests.head, 5);
    server.reset();
    run(&["dataset.listing_validation_interval=0"]).succeeds();
    assert_eq!(server.status().requests.head, 0);
    run(&["dataset.num_files_train=41"]).fails(1).telling(&["_of_41.npz", "s3://bench"]);
    let generates = ["workflow.generate_data=true", "dataset.num_files_stored=60"];
    run(&generates).fails(1).telling(&["dataset.num_files_stored is 60", "a set of 40 files"]);
    // A larger set lends its first files where its size is known.
    run(&["dataset.num_files_train=16", "dataset.num_files_stored=40"]).succeeds();
    assert_eq!(place.run().figures()["gets"], 16);
}

#[test]
fn evaluations_read_their_own_set_and_are_reported_apart() {
    let sets = ["dataset.num_files_eval=9", "dataset.num_subfolders_eval=2"];
    let (place, server) = holding(&sets);
    let evaluate = [
        "workflow.evaluation=True",
        "reader.batch_size_eval=2",
        "evaluation.eval_time=0.02",
        "evaluation.eval_after_epoch=2",
        "train.epochs=3",
    ];
    place.feedrate("run t0.yaml --np 2").set(&sets).set(&evaluate).on(&server).succeeds();
    let run = place.run();
    // Two of three epochs, two steps of two ranks and two samples each, one left out.
    assert_eq!(server.status().requests.get, 3 * 16 + 2 * 8);
    assert_eq!(server.status().requests.list, 2);
    let metric = run.summary()["metric"].take();
    let au = numbers(&metric["eval_au_percentage"]);
    assert_eq!(au.len(), 2);
    assert!(au.iter().all(|&au| (50.0..=100.0).contains(&au)), "{au:?}");
    let rates = numbers(&metric["eval_throughput_samples_per_second"]);
    // Two ranks, two samples in at least 20 ms.
    assert!(rates.iter().all(|&rate| rate > 20.0 && rate <= 200.0), "{rates:?}");
    assert_eq!(run.summary()["num_files_eval"], 9);
    for rank in 0..2 {
        let output = run.json(&format!("{rank}_output.json"));
        assert!(output["1"]["load"].get("eval").is_none());
        let compute = numbers(&output["3"]["compute"]["eval"]);
        assert_eq!(compute.len(), 2);
        assert!(compute.iter().all(|&seconds| (0.02..0.08).contains(&seconds)), "{compute:?}");
    }
    let log = run.log();
    for line in [
        "Running DLIO [Training & Evaluation] with 2 process(es)",
        "Steps per eval: 2 = 1 * 9 / 2 / 2 (samples per file * num files / batch size eval / comm size)",
        "Starting eval - 2 steps expected",
        "Ending eval - 2 steps completed in",
        "Epoch 2 [Eval] Accelerator Utilization [AU] (%): ",
        "[METRIC] Eval Throughput (samples/second): ",
        "[METRIC] eval_au_meet_expectation: ",
    ] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
    place
        .feedrate("run t0.yaml --np 2 --compat upstream")
        .set(&sets)
        .set(&evaluate)
        .on(&server)
        .succeeds();
    let metric = place.run().summary()["metric"].take();
    assert_eq!(numbers(&metric["eval_au_percentage"]).len(), 4, "an entry for each rank");
}

#[test]
fn an_evaluation_without_a_step_is_refused_before_any_request() {
    let (place, server) = (Place::new(), serve().start());
    place
        .feedrate("run t0.yaml --np 2")
        .set(&["workflow.evaluation=True", "dataset.num_files_eval=3", "reader.batch_size_eval=2"])
        .on(&server)
        .fails(1)
        .telling(&["0 steps of evaluation", "3 samples", "2 x 2", "dataset.num_files_eval"]);
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn files_that_are_not_kept_are_removed_and_nothing_else_is() {
    let generate =
        ["workflow.generate_data=true", "dataset.keep_files=false", "dataset.num_files_eval=2"];
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml --files 20").on(&server).succeeds();
    place.feedrate("run t0.yaml").set(&generate).on(&server).succeeds();
    assert_eq!(server.status().requests.delete, 18);
    place.feedrate("run t0.yaml --files 20").on(&server).succeeds();

    // Of a larger set the run has read the first files; it goes as a whole.
    place
        .feedrate("run t0.yaml")
        .set(&["dataset.keep_files=false"])
        .on(&server)
        .succeeds()
        .telling(&["20 files"]);
    place.feedrate("run t0.yaml").on(&server).fails(1).telling(&["0 of 16 files"]);

    place.write("here/data/t0/train/mine.txt", "kept");
    place.feedrate("run t0.yaml --local here").set(&generate).succeeds();
    let left = files_below(&place.directory().join("here"));
    assert_eq!(left, [place.directory().join("here/data/t0/train/mine.txt")]);
    assert!(!place.directory().join("here/data/t0/valid").exists());
}

#[test]
fn an_object_store_gets_time_to_settle_between_generating_and_reading() {
    let (place, server) = (Place::new(), serve().start());
    let settle = ["workflow.generate_data=true", "storage.post_generation_settle_seconds=1.5"];
    let said = place.feedrate("run t0.yaml").set(&settle).on(&server).succeeds();
    assert!(said.elapsed.as_secs_f64() > 1.5, "{said:?}");
    said.telling(&["1.5 s"]);
    let said = place.feedrate("run t0.yaml --local here").set(&settle).succeeds();
    assert!(!said.stderr.contains("1.5 s"), "a file system needs none: {said:?}");
}

#[test]
fn io_that_is_simulated_reaches_no_store() {
    let (place, server) = (Place::new(), serve().start());
    for option in ["storage.storage_options.simulate_io=true", "reader.data_loader=synthetic"] {
        place.feedrate("run t0.yaml --np 2").set(&[option]).on(&server).succeeds();
        assert_eq!(server.status().requests, RequestCounts::default(), "{option}");
        assert_eq!(place.run().steps(1, 1, "load").len(), 2);
        assert_eq!(place.run().figures()["gets"], 16);
        place.feedrate("sweep t0.yaml --np 1 --bucket bench").set(&[option]).on(&server).succeeds();
        let place = Place::new();
        let nowhere =
            crate::support::B0.replace("storage: {storage_type: s3, storage_root: bench}", "");
        place.write("t0.yaml", &nowhere);
        place.feedrate("run t0.yaml").set(&[option]).succeeds();
        for call in ["datagen t0.yaml", "run t0.yaml --set workflow.generate_data=true"] {
            place.feedrate(call).set(&[option]).fails(2).telling(&["needs a store"]);
        }
    }
}

#[test]
fn a_request_is_attempted_as_often_as_the_options_say() {
    let (place, server) = (Place::new(), serve().fault("get key=*img_03* status=503").start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    server.reset();
    let attempts = ["storage.storage_options.s3_max_attempts=2"];
    place.feedrate("run t0.yaml").set(&attempts).on(&server).fails(1).telling(&[
        "img_03",
        "503",
        "2 attempts",
    ]);
}

#[test]
fn old_spellings_count() {
    let (place, server) = (Place::new(), serve().start());
    let old = crate::support::B0.replace("record_length_bytes: 65536", "record_length: 131072");
    place.write("t0.yaml", &old);
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    place.feedrate("run t0.yaml").on(&server).succeeds();
    let figures = place.run().figures();
    let ratio =
        number(&figures["io_mib_per_second_mean"]) / number(&figures["samples_per_second_mean"]);
    within(ratio, 0.125, 1e-9, "MiB of a sample");
}

#[test]
fn loaders_that_cannot_read_the_format_or_are_not_the_frameworks_are_refused() {
    let (place, server) = (Place::new(), serve().start());
    for (options, told) in [
        (&["dataset.format=tfrecord"][..], ["reader.data_loader", "tfrecord"]),
        (&["framework=tensorflow"], ["reader.data_loader", "framework is tensorflow"]),
    ] {
        for command in ["run", "datagen"] {
            let call = place.feedrate(&format!("{command} t0.yaml")).set(options).on(&server);
            call.fails(1).telling(&told);
        }
    }
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn the_log_has_the_lines_that_its_level_asks_for() {
    let (place, server) = holding(&[]);
    let log = |level: &str| {
        place.feedrate("run t0.yaml --np 2").env("DLIO_LOG_LEVEL", level).on(&server).succeeds();
        place.run().log()
    };
    let usual = log("WARNING");
    assert!(usual.contains("[OUTPUT] ") && !usual.contains("[INFO] "), "{usual}");
    let info = log("info");
    for rank in 0..2 {
        for step in 1..=2 {
            let loaded = format!(" Rank {rank} step {step}: loaded 4 samples in ");
            let processed = format!(" Rank {rank} step {step} processed 4 samples in ");
            assert!(info.contains(&loaded) && info.contains(&processed), "{info}");
        }
    }
    assert!(log("debug").contains(".rs:"));
    assert!(!log("error").contains("[OUTPUT] Averaged"));
    place
        .feedrate("run t0.yaml")
        .env("DLIO_LOG_LEVEL", "loud")
        .on(&server)
        .fails(1)
        .telling(&["DLIO_LOG_LEVEL", "loud"]);
}

#[test]
fn strict_refuses_what_nobody_knows_and_what_cannot_be_measured() {
    let (place, server) = holding(&[]);
    let unknown = ["reader.batch_sise=4"];
    place
        .feedrate("run t0.yaml")
        .set(&unknown)
        .on(&server)
        .succeeds()
        .telling(&["reader.batch_size?"]);
    place
        .feedrate("run t0.yaml --strict")
        .set(&unknown)
        .on(&server)
        .fails(1)
        .telling(&["reader.batch_size?"]);
    place
        .feedrate("run t0.yaml --strict")
        .env("DLIO_OUTPUT_FODLER", "x")
        .on(&server)
        .fails(1)
        .telling(&["DLIO_OUTPUT_FOLDER?"]);
    let one_step = ["reader.batch_size=16"];
    place.feedrate("run t0.yaml").set(&one_step).on(&server).succeeds();
    place
        .feedrate("run t0.yaml --strict")
        .set(&one_step)
        .on(&server)
        .fails(1)
        .telling(&["not measurable"]);
    assert_eq!(place.run().figures()["not_measurable"], true);
    let note = ["reader.pin_memory=true"];
    place
        .feedrate("run t0.yaml --strict")
        .set(&note)
        .on(&server)
        .succeeds()
        .telling(&["reader.pin_memory", "without effect"]);
}

#[test]
fn what_became_of_the_page_cache_is_recorded() {
    let (place, server) = holding(&[]);
    place.feedrate("run t0.yaml").env("FEEDRATE_DROP_CACHES", "auto").on(&server).succeeds();
    let drops = place.run().figures()["cache_drops"].take();
    assert_eq!(drops["dropped"], 0);
    assert!(drops["not_dropped"].as_str().unwrap().contains("object"), "{drops}");

    place.feedrate("datagen t0.yaml --local here").succeeds();
    place.feedrate("run t0.yaml --local here").succeeds();
    let drops = place.run().figures()["cache_drops"].take();
    assert!(drops["not_dropped"].as_str().unwrap().contains("storage.drop_caches"), "{drops}");
    // Root may; others have a sudo without a password, or none.
    place.feedrate("run t0.yaml --local here").env("FEEDRATE_DROP_CACHES", "auto").succeeds();
    let drops = place.run().figures()["cache_drops"].take();
    let tried =
        drops["dropped"] == 1 || drops["timed_out"] == 1 || drops["not_dropped"].is_string();
    assert!(tried, "{drops}");
}

#[test]
fn iostat_runs_beside_a_run_that_is_profiled() {
    let (place, server) = holding(&[]);
    place.write(
        "bin/iostat",
        "#!/bin/sh\necho \"{\\\"arguments\\\": \\\"$*\\\"\"\ntrap 'echo \"}\"; exit 0' INT\nwhile :; do sleep 0.01; done\n",
    );
    let program = place.directory().join("bin/iostat");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let profile = ["workflow.profiling=true", "profiling.iostat_devices=[sda,sdb]"];
    place.feedrate("run t0.yaml").set(&profile).env("PATH", path).on(&server).succeeds();
    assert_eq!(place.run().json("iostat.json")["arguments"], "-mdxtcy -o JSON sda sdb 1");
    // One that refuses its arguments is no silent hole in the results.
    place.write("bin/iostat", "#!/bin/sh\necho 'unknown device' >&2\nexit 1\n");
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    place
        .feedrate("run t0.yaml")
        .set(&profile)
        .set(&["train.computation_time=0.1"])
        .env("PATH", path)
        .on(&server)
        .succeeds()
        .telling(&["iostat ended before the run did", "unknown device"]);
    place
        .feedrate("run t0.yaml")
        .set(&profile)
        .env("PATH", place.directory().join("nosuch"))
        .on(&server)
        .fails(1)
        .telling(&["iostat", "sysstat", "profiling.profiler"]);
}
