//! Ctrl-C and SIGTERM in the middle of a sweep with the embedded server.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Place, Process, Running, children_of, files_below};

/// Long enough to be interrupted: eight steps of 50 ms an epoch, for minutes.
const SWEEP: &str = "sweep retinanet_b200 --np 1 --files 192 --epochs 500";

/// A sweep that has finished an epoch, and its child processes.
fn under_way(place: &Place) -> (Running, Vec<Process>) {
    let mut sweep = place.feedrate(SWEEP).start();
    let deadline = Instant::now() + Duration::from_secs(30);
    let finished_an_epoch = || {
        let results = place.directory().join("results");
        results.exists() && files_below(&results).iter().any(|path| path.ends_with("summary.json"))
    };
    while !finished_an_epoch() {
        assert!(sweep.is_running() && Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
    let children = children_of(sweep.pid());
    let tasks = |name| children.iter().filter(|child| child.told.contains(name)).count();
    assert_eq!((tasks("serve-task"), tasks("train-task")), (1, 1), "{children:?}");
    (sweep, children)
}

/// Interrupts a sweep by `signal`, and looks at everything that must hold afterwards.
fn interrupted_by(signal: impl Fn(&Running)) {
    let place = Place::new();
    let (sweep, children) = under_way(&place);
    let interrupted = Instant::now();
    signal(&sweep);
    sweep.ends().with_code(130).telling(&["interrupted"]).keeping_quiet_about("error");
    let limit = Duration::from_secs(2);
    while children.iter().any(Process::is_alive) {
        assert!(interrupted.elapsed() < limit, "still there: {children:?}");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(interrupted.elapsed() < limit, "took {:?}", interrupted.elapsed());

    let files = files_below(&place.sweep("retinanet"));
    for name in ["summary.json", "feedrate.json", "0_output.json", "0_per_epoch_stats.json"] {
        let path = files.iter().find(|path| path.ends_with(name)).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let saved: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(name != "summary.json" || saved["epochs"].as_u64().unwrap() >= 1);
    }
}

#[test]
fn ctrl_c_in_a_terminal_ends_a_sweep_at_once_and_leaves_nothing_behind() {
    interrupted_by(|sweep| sweep.signal_group(Signal::INT));
}

#[test]
fn sigint_to_the_sweep_alone_does_the_same() {
    interrupted_by(|sweep| sweep.signal(Signal::INT));
}

#[test]
fn sigterm_does_the_same() {
    interrupted_by(|sweep| sweep.signal(Signal::TERM));
}

/// Nothing can be said or cleaned up then; the children see to themselves.
#[test]
fn a_sweep_that_is_killed_leaves_no_process_behind() {
    let place = Place::new();
    let (sweep, children) = under_way(&place);
    sweep.signal(Signal::KILL);
    drop(sweep);
    let deadline = Instant::now() + Duration::from_secs(2);
    while children.iter().any(Process::is_alive) {
        assert!(Instant::now() < deadline, "still there: {children:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
