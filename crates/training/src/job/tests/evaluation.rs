use feedrate_metrics::evaluation::evaluation_au_percent;
use feedrate_metrics::record::Evaluation;

use super::*;

/// Two epochs of 12 files, evaluated on 8, that compute nothing, unless `more` says otherwise.
fn evaluating<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let usual = [
        "workflow.evaluation=true",
        "dataset.num_files_train=12",
        "dataset.num_files_eval=8",
        "reader.batch_size=2",
        "reader.batch_size_eval=1",
        "train.epochs=2",
        "evaluation.eval_time=0",
        IN_ORDER[0],
        IN_ORDER[1],
    ];
    [&usual[..], more].concat()
}

fn evaluations(record: &RunRecord, rank: usize) -> Vec<Option<&Evaluation>> {
    record.epochs.iter().map(|epoch| epoch.ranks[rank].evaluation.as_ref()).collect()
}

/// The evaluation file with this number, of 8.
fn eval_key(file: u64) -> ObjectKey {
    ObjectKey::new(format!("valid/img_{file}_of_8.npz"))
}

#[test]
fn every_second_epoch_from_the_second_on_is_evaluated() {
    let options = evaluating(&[
        "train.epochs=5",
        "evaluation.eval_after_epoch=2",
        "evaluation.epochs_between_evals=2",
    ]);
    let played = play(&options, 2);
    let record = played.record();
    assert_eq!((record.steps_per_epoch, record.evaluation_steps), (3, 4));
    let file = played.source.format.file_len(0);
    for rank in 0..2 {
        let evaluated = evaluations(record, rank);
        let when: Vec<_> = evaluated.iter().map(Option::is_some).collect();
        assert_eq!(when, [false, true, false, true, false]);
        for evaluation in evaluated.into_iter().flatten() {
            assert_eq!((evaluation.steps.len(), evaluation.samples), (4, 4));
            assert_eq!(evaluation.bytes.0, 4 * file);
            assert!(evaluation.start <= evaluation.end);
        }
    }
    assert_eq!(played.store.asked()[&eval_key(7)], 2);
}

#[test]
fn without_evaluation_none_is_recorded() {
    let played = play(&["dataset.num_files_train=12", "reader.batch_size=2"], 1);
    assert_eq!(played.record().evaluation_steps, 0);
    assert_eq!(evaluations(played.record(), 0), [None]);
    let epoch = &played.record().epochs[0].ranks[0];
    assert_eq!(epoch.over, epoch.end);
}

#[test]
fn training_and_evaluation_read_nothing_before_their_time() {
    for [pipeline, payload] in PIPELINES {
        let options = evaluating(&[pipeline, payload, "train.epochs=3"]);
        // Rank 1 is late with its evaluation: rank 0 must not begin the next epoch without it.
        let late: BTreeSet<_> = (4..8).map(eval_key).collect();
        let played = play_on(&options, 2, Notes::default(), |store| {
            store.delayed(move |key, _| if late.contains(key) { 10 * MILLI } else { MILLI })
        });
        played.record();
        let sets: Vec<_> = played
            .keys()
            .iter()
            .map(|key| key.as_str().split('/').next() == Some("valid"))
            .collect();
        let epoch = [vec![false; 12], vec![true; 8]].concat();
        assert_eq!(sets, epoch.repeat(3), "{pipeline}, {payload}");
    }
}

#[test]
fn an_evaluation_lies_behind_the_epochs_training_and_has_no_barrier() {
    let options = evaluating(&["evaluation.eval_time=0.02", "reader.read_threads=0"]);
    let slow: BTreeSet<_> = (4..8).map(eval_key).collect();
    let played = play_on(&options, 2, Notes::default(), |store| {
        store.delayed(move |key, _| if slow.contains(key) { 60 * MILLI } else { Duration::ZERO })
    });
    for epoch in &played.record().epochs {
        for rank in &epoch.ranks {
            let evaluation = rank.evaluation.as_ref().unwrap();
            assert!(rank.end <= evaluation.start && evaluation.end <= rank.over);
            assert!(evaluation.duration.0 >= 0.08);
            for step in &evaluation.steps {
                assert_eq!((step.drawn, step.barrier), (Seconds(0.02), Seconds(0.0)));
                assert!(step.compute.0 >= 0.02, "{step:?}");
            }
            let steps: Seconds = evaluation.steps.iter().map(StepRecord::proc).sum();
            assert!(steps <= evaluation.duration);
        }
        let [fast, slow] = [0, 1].map(|rank| epoch.ranks[rank].evaluation.as_ref().unwrap());
        assert!(slow.duration.0 >= 0.32);
        assert!(fast.duration.0 < slow.duration.0 / 1.5, "rank 0 does not wait for rank 1");
        assert!(fast.steps.iter().all(|step| step.wait.0 < slow.steps[0].wait.0));
    }
}

#[test]
fn known_delays_give_half_the_accelerator_in_evaluation_too() {
    let options = evaluating(&["evaluation.eval_time=0.03", "reader.read_threads=0"]);
    let played = play_on(&options, 1, Notes::default(), |store| {
        store.delayed(|key, _| if key.as_str().starts_with("valid") { 30 * MILLI } else { MILLI })
    });
    let expected_steps = played.record().evaluation_steps;
    let window = MetricWindow { exclude_start: 1, exclude_end: 0, expected_steps };
    for evaluation in evaluations(played.record(), 0) {
        let au = evaluation_au_percent(evaluation.unwrap(), &window).unwrap();
        assert!((42.0..=58.0).contains(&au), "AU {au}");
    }
}

#[test]
fn waits_of_an_evaluation_are_no_waits_of_the_training() {
    let options = evaluating(&["reader.read_threads=0"]);
    let played = play_on(&options, 1, Notes::default(), |store| {
        store.delayed(|key, _| if key.as_str().starts_with("valid") { 50 * MILLI } else { MILLI })
    });
    let record = played.record();
    let evaluations = evaluations(record, 0).into_iter().flatten();
    let waited: Seconds =
        evaluations.flat_map(|evaluation| &evaluation.steps).map(|step| step.wait).sum();
    assert!(waited.0 >= 0.8, "{waited:?}");
    assert!(record.waiting_cpu.waited.0 < 0.2, "{:?}", record.waiting_cpu);
}

#[test]
fn evaluation_times_come_from_a_stream_of_their_own_on_each_rank_and_repeat() {
    let time = "{type: uniform, min: 0.001, max: 0.002}";
    let (training, evaluation) =
        (format!("train.computation_time={time}"), format!("evaluation.eval_time={time}"));
    let options = evaluating(&[&training, &evaluation]);
    let drawn = || {
        let played = play(&options, 2);
        let epoch = &played.record().epochs[0];
        let first_two =
            |steps: &[StepRecord]| [steps[0].drawn.0.to_bits(), steps[1].drawn.0.to_bits()];
        let of_evaluation = |rank: &RankEpoch| first_two(&rank.evaluation.as_ref().unwrap().steps);
        [
            first_two(steps(&epoch.ranks[0])),
            of_evaluation(&epoch.ranks[0]),
            of_evaluation(&epoch.ranks[1]),
        ]
    };
    let once = drawn();
    assert_eq!(once, drawn());
    assert!(once[0] != once[1] && once[1] != once[2], "{once:?}");
}

#[test]
fn a_failed_read_of_an_evaluation_names_its_rank_and_file() {
    for readers in ["reader.read_threads=2", "reader.read_threads=0"] {
        let options = evaluating(&[readers]);
        let played = play_on(&options, 2, Notes::default(), |store| {
            store.failing(|key, _| *key == eval_key(5))
        });
        let error = played.error();
        assert!(error.contains("rank 1") && error.contains("valid/img_5_of_8.npz"), "{error}");
        assert!(played.elapsed < Duration::from_secs(5), "{:?}", played.elapsed);
        assert_eq!(played.notes.told(), ["epoch 1 of 3 steps"]);
    }
}

#[test]
fn readers_work_on_the_samples_of_both_sets() {
    for readers in ["reader.read_threads=1", "reader.read_threads=0"] {
        let options = evaluating(&[readers, "reader.preprocess_time=0.01", "train.epochs=1"]);
        let played = play(&options, 1);
        let rank = &played.record().epochs[0].ranks[0];
        assert!(rank.duration.0 >= 0.12, "{:?}", rank.duration);
        let evaluation = rank.evaluation.as_ref().unwrap();
        assert!(evaluation.duration.0 >= 0.08, "{:?}", evaluation.duration);
        let waited: Seconds = evaluation.steps.iter().map(|step| step.wait).sum();
        assert!(waited.0 >= 0.08, "{waited:?}");
    }
}

#[test]
fn progress_is_that_of_the_training() {
    let played = play(&evaluating(&["train.computation_time=0.01"]), 1);
    let now = played.progress;
    assert_eq!((now.epoch, now.steps), (2, 6));
    let au = now.wall_au_percent.unwrap();
    let at_the_end = epoch_wall_au_percent(&played.record().epochs[1]).unwrap();
    assert!((au / at_the_end - 1.0).abs() < 0.2, "{au} and not {at_the_end}");
}

#[test]
fn the_larger_of_the_two_sets_batches_bounds_memory() {
    let runtime = runtime();
    let file = play(&evaluating(&[]), 1).source.format.file_len(0);
    for (train, evaluation, files) in [(2, 4, 2 * 4), (6, 1, 2 * 6)] {
        let batches =
            [format!("reader.batch_size={train}"), format!("reader.batch_size_eval={evaluation}")];
        let options = evaluating(&[&batches[0], &batches[1], "train.epochs=1"]);
        let (mut job, _) = job(&options, 2, &runtime, |store| store);
        job.byte_budget = ByteCount(0);
        assert_eq!(job.most_held(2), ByteCount(2 * files * file), "{batches:?}");
        let expected = job.most_held(2);
        let record = run_here(job, Arc::new(Notes::default()), Arc::default()).unwrap();
        assert_eq!(record.byte_budget, expected);
    }
}
