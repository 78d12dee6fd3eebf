//! How many steps a run makes, what it reads for them, and what it refuses.

use feedrate_s3_server::RequestCounts;

use crate::support::{Place, number, numbers, serve, within};

/// The base workload in both formats; a JPEG of this length is as small as they get.
const FORMATS: [&[&str]; 2] = [&[], &["dataset.format=jpeg", "dataset.record_length_bytes=65536"]];

#[test]
fn the_last_samples_are_dropped_where_ranks_do_not_divide_them() {
    let cases = [
        // Files, batch, ranks; steps of each rank, samples trained.
        (145, 16, 3, 3, 144),
        (100, 3, 7, 4, 84),
    ];
    for format in FORMATS {
        for (files, batch, ranks, steps, trained) in cases {
            let (place, server) = (Place::new(), serve().start());
            let batch = format!("reader.batch_size={batch}");
            let call = |line: String| place.feedrate(&line).set(format).set(&[&batch]).on(&server);
            call(format!("datagen t0.yaml --files {files}")).succeeds();
            server.reset();
            call(format!("run t0.yaml --files {files} --np {ranks}"))
                .succeeds()
                .telling(&[&format!("{} of {files} samples are dropped", files - trained)]);

            assert_eq!(server.status().requests.get, trained, "{files} files on {ranks} ranks");
            let run = place.run();
            for rank in 0..ranks {
                assert_eq!(run.steps(rank, 1, "compute").len(), steps, "rank {rank}");
            }
            assert_eq!(run.summary()["num_accelerators"], ranks);
            assert_eq!(run.figures()["gets"], trained);
            assert!(run.log().contains("[WARNING]"), "{}", run.log());
        }
    }
}

#[test]
fn a_batch_larger_than_the_data_set_is_refused_before_any_request() {
    let (place, server) = (Place::new(), serve().start());
    place
        .feedrate("run t0.yaml --files 3")
        .on(&server)
        .fails(1)
        .telling(&["0 steps", "3 samples", "4 x 1"])
        .keeping_quiet_about("AU");
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn a_computation_time_that_means_nothing_is_refused_before_any_request() {
    let (place, server) = (Place::new(), serve().start());
    for (time, told) in [
        ("{type: nromal, mean: 0.01, stdev: 0}", ["train.computation_time.type", "nromal"]),
        ("{type: normal, mean: 0.05}", ["train.computation_time", "stdev"]),
    ] {
        place
            .feedrate("run t0.yaml")
            .set(&[&format!("train.computation_time={time}")])
            .on(&server)
            .fails(1)
            .telling(&told);
    }
    assert_eq!(server.status().requests, RequestCounts::default());
}

#[test]
fn too_few_files_are_refused_with_both_numbers_and_the_place() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml --files 7").on(&server).succeeds();
    server.reset();
    place.feedrate("run t0.yaml --files 10").on(&server).fails(1).in_less_than(5).telling(&[
        "7 of 10 files",
        "data/t0/train",
        "s3://bench",
        server.endpoint(),
    ]);
    assert_eq!(server.status().requests.get, 0);
}

#[test]
fn files_that_were_lost_are_missed_by_name() {
    let place = Place::new();
    place.feedrate("datagen t0.yaml --files 10 --local store").succeeds();
    for lost in [2, 5, 9] {
        let name = format!("store/data/t0/train/img_{lost:02}_of_10.npz");
        std::fs::remove_file(place.directory().join(name)).unwrap();
    }
    place.feedrate("run t0.yaml --files 10 --local store").fails(1).telling(&[
        "7 of 10 files",
        "store/data/t0",
        "img_02_of_10.npz",
    ]);
}

#[test]
fn sixteen_files_cost_sixteen_gets_and_one_list() {
    for format in FORMATS {
        let (place, server) = (Place::new(), serve().start());
        place.feedrate("datagen t0.yaml").set(format).on(&server).succeeds();
        assert_eq!(server.status().requests.put, 17, "the files and what they were made with");
        server.reset();
        place.feedrate("run t0.yaml").set(format).on(&server).succeeds();
        let expected = RequestCounts { get: 16, list: 1, ..RequestCounts::default() };
        assert_eq!(server.status().requests, expected);
    }
}

#[test]
fn mib_per_second_are_the_samples_per_second_also_when_the_run_generates_its_data() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("run t0.yaml").set(&["workflow.generate_data=True"]).on(&server).succeeds();
    let requests = server.status().requests;
    // And what the set was made with.
    assert_eq!((requests.put, requests.get), (17, 16));
    let metric = &place.run().summary()["metric"];
    let samples = number(&metric["train_throughput_mean_samples_per_second"]);
    let mib = number(&metric["train_io_mean_MB_per_second"]);
    within(mib, samples * 65_536.0 / 1_048_576.0, 1e-6, "MiB/s");
    assert!(samples > 0.0);
}

#[test]
fn an_empty_metric_window_is_said_to_be_not_measurable_and_is_never_negative() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml --files 4").on(&server).succeeds();
    let said = place.feedrate("run t0.yaml --files 4").on(&server).succeeds();
    assert!(said.stdout.contains("not measurable"), "{}", said.stdout);

    let run = place.run();
    let figures = run.figures();
    assert_eq!(figures["steps_per_epoch"], 1);
    assert_eq!(figures["not_measurable"], true);
    let reason = figures["not_measurable_reason"].as_str().unwrap();
    assert!(reason.contains("window is 0 steps"), "{reason}");
    for unknown in
        ["au_percent_mean", "samples_per_second_mean", "io_mib_per_second_mean", "au_met"]
    {
        assert!(figures[unknown].is_null(), "{unknown}: {figures}");
    }

    let metric = &run.summary()["metric"];
    assert_eq!(numbers(&metric["train_au_percentage"]), [0.0]);
    assert_eq!(numbers(&metric["train_throughput_samples_per_second"]), [0.0]);
    for (key, value) in metric.as_object().unwrap() {
        match key.as_str() {
            "train_au_meet_expectation" => assert_eq!(value, "fail"),
            "train_au_percentage" | "train_throughput_samples_per_second" => {}
            _ => within(number(value), 0.0, 0.0, key),
        }
    }
}

#[test]
fn a_step_without_computation_computes_nothing() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    place.feedrate("run t0.yaml").set(&["train.computation_time=0"]).on(&server).succeeds();
    let compute = place.run().steps(0, 1, "compute");
    assert_eq!(compute, [0.0; 4]);
}

#[test]
fn a_run_does_the_parts_that_its_workflow_names() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("run t0.yaml").set(&["workflow.train=false"]).on(&server).fails(2).telling(&[
        "nothing to do",
        "workflow.train",
        "workflow.generate_data",
    ]);
    let generated = place
        .feedrate("run t0.yaml")
        .set(&["workflow.train=false", "workflow.generate_data=true"])
        .on(&server)
        .succeeds();
    assert!(generated.stdout.contains("generated 16 files"), "{generated:?}");
    let requests = server.status().requests;
    assert_eq!((requests.put, requests.get), (17, 0));
}
