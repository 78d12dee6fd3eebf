use super::*;

const PIPELINES: [&str; 2] = ["reader.pipeline=sliding", "reader.pipeline=chunked"];

/// Takes the batches of an epoch and tells how long that took by the wall clock. The clock of the
/// runtime takes no time, so what is measured is the work on the samples.
fn elapsed(options: &[&str]) -> (Rig, Duration) {
    let options = [options, &["reader.batch_size=4", "train.computation_time=0"]].concat();
    let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
    let mut loader = rig.loader();
    let start = Instant::now();
    rig.start(&mut loader, 0);
    rig.take_all(&mut loader, 0);
    (rig, start.elapsed())
}

/// Never shorter than the work of the readers. How much longer depends on the host, but half of the
/// readers would take twice as long.
fn assert_takes(elapsed: Duration, work: Duration, what: &str) {
    assert!(elapsed >= work, "{elapsed:?} for {work:?} with {what}");
    assert!(elapsed < work.mul_f64(1.8), "{elapsed:?} for {work:?} with {what}");
}

#[test]
fn as_many_samples_are_worked_on_at_once_as_there_are_readers() {
    let options = ["dataset.num_files_train=48", "reader.preprocess_time=0.01"];
    for pipeline in PIPELINES {
        for (readers, at_once) in [(0, 1), (1, 1), (2, 2), (4, 4)] {
            let readers = format!("reader.read_threads={readers}");
            let (_, elapsed) = elapsed(&[&options[..], &[pipeline, &readers]].concat());
            assert_takes(elapsed, 480 * MILLI / at_once, &format!("{pipeline}, {readers}"));
        }
    }
}

#[test]
fn the_samples_of_a_large_file_keep_all_readers_busy() {
    let options = [
        "dataset.num_files_train=2",
        "dataset.num_samples_per_file=24",
        "reader.preprocess_time=0.01",
        "reader.read_threads=4",
    ];
    for pipeline in PIPELINES {
        let (_, elapsed) = elapsed(&[&options[..], &[pipeline]].concat());
        assert_takes(elapsed, 120 * MILLI, pipeline);
    }
}

#[test]
fn files_are_asked_for_while_readers_work() {
    for pipeline in PIPELINES {
        let options = ["reader.read_threads=2", "reader.preprocess_time=60", pipeline];
        let options = in_order(&[&options[..], &["dataset.num_files_train=40"]].concat());
        let options = [&options[..], &["reader.batch_size=4"]].concat();
        let rig = Rig::with_store(&options, 1, |store| store.delayed(|_, _| MILLI));
        let mut loader = rig.loader();
        rig.start(&mut loader, 0);
        rig.runtime.pass(SETTLED);
        assert_eq!(rig.store.seen().keys.len(), 40, "{pipeline}");
    }
}

#[test]
fn waiting_for_the_readers_work_is_no_reason_to_ask_for_more_at_once() {
    let options = ["dataset.num_files_train=40", "reader.preprocess_time=0.01"];
    let rig = Rig::new(&[&options[..], &["reader.batch_size=4"]].concat(), 1);
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    rig.runtime.pass(MILLI);
    loader.next_batch().unwrap();
    loader.next_batch().unwrap();
    let State::Feeding { ready, .. } = &loader.state else { panic!("readers feed") };
    assert_eq!(ready.waits(), 0);
}

#[test]
fn a_file_of_several_batches_is_worked_on_batch_by_batch_without_readers() {
    let options = [
        "dataset.num_files_train=2",
        "dataset.num_samples_per_file=6",
        "reader.batch_size=4",
        "reader.read_threads=0",
        "reader.preprocess_time=0.01",
    ];
    let rig = Rig::new(&options, 1);
    let mut loader = rig.loader();
    rig.start(&mut loader, 0);
    for _ in 0..3 {
        let start = Instant::now();
        loader.next_batch().unwrap();
        assert_takes(start.elapsed(), 40 * MILLI, "a batch of 4");
    }
}
