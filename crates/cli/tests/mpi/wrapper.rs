//! The command line by which wrappers start the program over MPI (spec/dlio.md 1.5).

use crate::launcher::mpirun;
use crate::support::{B0, DLIO, Place, RunFolder, files_below, serve};

#[test]
fn the_command_of_the_wrapper_works_word_for_word() {
    let (place, server) = (Place::new(), serve().start());
    place.write("configs/workload/t0_h100.yaml", B0);
    let generate = "{generate_data: True, train: False, checkpoint: False}";
    let datagen = B0.replace("{generate_data: False, train: True, checkpoint: False}", generate);
    place.write("configs/workload/t0_datagen.yaml", &datagen);
    let command = |workload: &str, folder: &str| {
        let line = format!(
            "-n 2 -host 127.0.0.1:2 --oversubscribe --allow-run-as-root {DLIO} workload={workload} \
             ++hydra.run.dir=results/training/t0/{folder}/20261130_064754 \
             ++hydra.output_subdir=dlio_config ++workload.dataset.num_files_train=12 \
             ++workload.reader.batch_size=2 ++workload.dataset.data_folder=data/t0 \
             --config-dir=configs"
        );
        place.call("mpirun").env("TMPDIR", place.home()).args(&line).on(&server)
    };
    command("t0_datagen", "datagen").succeeds();
    assert_eq!(server.status().requests.put, 13);

    let said = command("t0_h100", "run").succeeds();
    let said = said.telling(&[
        " Running DLIO [Training] with 2 process(es)",
        " Max steps per epoch: 3 = 1 * 12 / 2 / 2 (samples per file * num files / batch size / comm size)",
        "[METRIC] Number of Simulated Accelerators: 2 \n",
        "[METRIC] Training Accelerator Utilization [AU] (%): ",
    ]);
    // Open MPI gives each of two processes one CPU, which is told where there are more; nothing else is odd.
    let mut warnings = said.stderr.lines().filter(|line| line.contains("warning"));
    assert!(warnings.all(|line| line.contains("the launcher binds")), "{}", said.stderr);
    assert_eq!(server.status().requests.get, 12);
    let run = RunFolder(place.directory().join("results/training/t0/run/20261130_064754"));
    let summary = run.summary();
    assert_eq!((&summary["num_accelerators"], &summary["num_hosts"]), (&2.into(), &1.into()));
    let names: Vec<String> = files_below(&run.0)
        .iter()
        .map(|file| file.strip_prefix(&run.0).unwrap().display().to_string())
        .collect();
    for name in [
        "0_output.json",
        "0_per_epoch_stats.json",
        "1_output.json",
        "1_per_epoch_stats.json",
        "dlio.log",
        "dlio_config/config.yaml",
        "dlio_config/hydra.yaml",
        "dlio_config/overrides.yaml",
        "summary.json",
    ] {
        assert!(names.iter().any(|one| one == name), "no {name} in {names:?}");
    }
}

#[test]
fn what_is_printed_instead_of_a_run_is_printed_once() {
    let place = Place::new();
    place.write("configs/workload/t0_h100.yaml", B0);
    for (line, told) in [
        ("--version", "dlio_benchmark "),
        ("--help", "== Workloads =="),
        ("--cfg job workload=t0_h100 --config-dir=configs", "workload:\n"),
    ] {
        let said = mpirun(&place, 2, DLIO, line).succeeds();
        assert_eq!(said.stdout.matches(told).count(), 1, "{line}: {}", said.stdout);
    }
}
