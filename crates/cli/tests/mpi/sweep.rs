//! `feedrate sweep --mpi-bin`: each NP is a job of the launcher's.

use crate::support::{Place, RunFolder, files_below, numbers};

const SWEEP: &str = "sweep retinanet_b200 --files 192 --epochs 1 --np 2,4 --ranks-per-process 2";

#[test]
fn a_sweep_starts_each_np_by_the_launcher_and_has_one_table() {
    let place = Place::new();
    let arguments = "--allow-run-as-root --oversubscribe";
    place
        .feedrate(SWEEP)
        .args("--mpi-bin mpirun --hosts localhost:4 --mpi-args")
        .arg(arguments)
        .env("TMPDIR", place.home())
        .succeeds();
    let folder = place.sweep("retinanet");
    for np in [2, 4] {
        let files = files_below(&folder.join(format!("NP{np}")));
        let summary = files.iter().find(|file| file.ends_with("summary.json")).unwrap();
        let summary = RunFolder(summary.parent().unwrap().to_owned()).summary();
        assert_eq!(summary["num_accelerators"], np);
        assert_eq!(summary["num_hosts"], 1);
        assert_eq!(numbers(&summary["metric"]["train_au_percentage"]).len(), 1);
    }
}

#[test]
fn a_launcher_that_fails_at_once_leaves_a_cause_for_each_np() {
    let place = Place::new();
    place.feedrate(SWEEP).args("--mpi-bin false").fails(1).telling(&[
        "NP 2",
        "NP 4",
        "exit status: 1",
    ]);
}
