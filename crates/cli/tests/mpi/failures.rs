//! One fails, all end: in time, with one line that says who and why, and with what was finished.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::launcher::{Job, mpirun};
use crate::support::{B0, DLIO, FEEDRATE, Place, Said, Server, serve};

/// What a failing job may take to end, all told.
pub(crate) const IN_TIME: Duration = Duration::from_secs(10);

/// `slow.yaml`: two epochs of ten steps of half a second, on two ranks.
pub(crate) fn slow(place: &Place) {
    let text = B0
        .replace("num_files_train: 16", "num_files_train: 20")
        .replace("batch_size: 4", "batch_size: 1")
        .replace("epochs: 1", "epochs: 2")
        .replace("computation_time: 0.01", "computation_time: 0.5");
    place.write("slow.yaml", &text);
}

/// Our one line on stderr, whatever the launcher says around it.
#[track_caller]
pub(crate) fn our_line(said: &Said) -> String {
    let lines: Vec<&str> = said.stderr.lines().filter(|line| line.contains("error:")).collect();
    assert_eq!(lines.len(), 1, "{said:#?}");
    lines[0].to_owned()
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

#[test]
fn a_missing_data_set_is_told_once_and_leaves_no_process() {
    let (place, server) = (Place::new(), serve().start());
    let call = mpirun(&place, 4, FEEDRATE, "run t0.yaml").on(&server);
    let said = Job::start(&place, call).ends().with_code(1).telling(&["feedrate datagen t0.yaml"]);
    our_line(&said);
    assert!(!place.directory().join("results").exists());

    place.write("configs/workload/t0_h100.yaml", B0);
    let line = "workload=t0_h100 --config-dir=configs hydra.run.dir=run";
    let said = Job::start(&place, mpirun(&place, 4, DLIO, line).on(&server)).ends().with_code(1);
    let hint = "++workload.workflow.generate_data=True";
    assert_eq!(said.stderr.matches(hint).count(), 1, "{said:#?}");
}

#[test]
fn a_number_of_ranks_that_does_not_fit_is_a_mistake_of_the_call() {
    let place = Place::new();
    for (line, told) in [
        ("run t0.yaml --np 3", &["--np 3", "2 processes"][..]),
        ("run t0.yaml --np 2 --ranks-per-process 2", &["--np 2", "2 processes of 2 ranks"]),
    ] {
        let call = mpirun(&place, 2, FEEDRATE, line);
        let said = Job::start(&place, call).ends().with_code(2).telling(told);
        our_line(&said);
    }
}

/// In the second epoch a file is gone that was there in the first.
#[test]
fn a_file_that_goes_away_names_the_rank_and_keeps_the_finished_epochs() {
    let rule = "get key=*img_07* attempt=2+ status=404";
    let (place, server) = (Place::new(), serve().fault(rule).start());
    place.feedrate("datagen t0.yaml").on(&server).succeeds();
    let call = mpirun(&place, 4, FEEDRATE, "run t0.yaml --epochs 3").on(&server);
    let said = Job::start(&place, call).ends().with_code(1).in_less_than(10);
    let line = our_line(&said);
    let on = format!(" on {} failed", hostname());
    for text in ["rank ", &on, "img_07", "after 1 of 3 epochs"] {
        assert!(line.contains(text), "no {text:?} in {line}");
    }
    assert_eq!(place.run().summary()["epochs"], 1);
    assert_finished(&place, 1);
}

/// Asserts that the newest run has results of `epochs` epochs, and of no more.
#[track_caller]
fn assert_finished(place: &Place, epochs: u32) {
    let run = place.run();
    let stats = run.json("0_per_epoch_stats.json");
    assert!(stats[epochs.to_string()].is_object(), "{stats}");
    assert!(stats[(epochs + 1).to_string()].is_null(), "{stats}");
}

/// Waits until the run of [`slow`] is in the second step of its second epoch.
#[track_caller]
pub(crate) fn until_second_step(job: &mut Job, place: &Place) {
    let runs = place.directory().join("results/training/t0/run");
    job.until_exists(&runs);
    job.until_exists(&place.run().0.join("summary.json"));
    thread::sleep(Duration::from_millis(750));
}

/// Asserts that the run of [`slow`] that lost `rank` ends within `limit` from now, told by one line
/// that names it, with the first epoch on disk.
#[track_caller]
pub(crate) fn assert_lost(job: Job, place: &Place, rank: u32, host: &str, limit: Duration) {
    let since = Instant::now();
    let said = job.ends();
    assert!(since.elapsed() < limit, "{:?} {said:#?}", since.elapsed());
    assert_ne!(said.code(), 0, "{said:#?}");
    let line = our_line(&said);
    let lost = format!("rank {rank} on {host} failed: its process");
    assert!(line.contains(&lost), "{line}");
    assert_finished(place, 1);
}

/// A run of [`slow`] by two processes, in the second step of its second epoch.
fn under_way(place: &Place, server: &Server, options: &str) -> Job {
    slow(place);
    place.feedrate("datagen slow.yaml").on(server).succeeds();
    let line = format!("run slow.yaml {options}");
    let mut job = Job::start(place, mpirun(place, 2, FEEDRATE, &line).on(server));
    until_second_step(&mut job, place);
    job
}

#[track_caller]
fn a_killed_rank_ends_the_run(rank: u32) {
    let (place, server) = (Place::new(), serve().start());
    let job = under_way(&place, &server, "");
    job.signal(rank, Signal::KILL);
    assert_lost(job, &place, rank, &hostname(), IN_TIME);
}

#[test]
fn a_rank_that_is_killed_ends_the_run_which_names_it() {
    a_killed_rank_ends_the_run(1);
}

#[test]
fn the_first_rank_can_be_killed_too() {
    a_killed_rank_ends_the_run(0);
}

/// It is still there, but nothing is heard of it.
#[test]
fn a_rank_that_hangs_is_lost_after_the_time_that_was_given() {
    let (place, server) = (Place::new(), serve().start());
    let job = under_way(&place, &server, "--heartbeat 0.2 --dead-after 1");
    job.signal(1, Signal::STOP);
    assert_lost(job, &place, 1, &hostname(), Duration::from_secs(5));
}

#[test]
fn a_step_that_takes_longer_than_that_is_no_failure() {
    let (place, server) = (Place::new(), serve().start());
    place.feedrate("datagen t0.yaml --files 2").on(&server).succeeds();
    let line = "run t0.yaml --files 2 --set reader.batch_size=1 --set train.computation_time=3 \
                --heartbeat 0.2 --dead-after 1";
    mpirun(&place, 2, FEEDRATE, line).on(&server).succeeds();
    assert!(place.run().steps(1, 1, "compute")[0] >= 3.0);
}

#[test]
fn ctrl_c_ends_all_and_keeps_the_finished_epochs() {
    let (place, server) = (Place::new(), serve().start());
    let job = under_way(&place, &server, "");
    let interrupted = Instant::now();
    job.signal_launcher(Signal::INT);
    let said = job.ends();
    assert!(interrupted.elapsed() < IN_TIME, "{:?} {said:#?}", interrupted.elapsed());
    assert_ne!(said.code(), 0, "{said:#?}");
    let line = our_line(&said);
    assert!(line.contains("SIGTERM from the launcher"), "{line}");
    assert_finished(&place, 1);
}
