//! Names and places of result folders.
//!
//! A sweep lies in `RESULTS/<model>_np_sweep/<stamp>/`, its runs below that in
//! `NP<n>/training/<model>/run/<stamp>/`; a run of its own in `RESULTS/training/<model>/run/<stamp>/`.
//! A stamp is `YYYYMMDD_HHMMSS`; a taken one gets `_2`, `_3` … Creating the folder decides which name
//! is free, so two programs started in the same second never share one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use feedrate_metrics::record::Stamp;

use crate::{ReportError, postprocess, run, sweep};

/// Makes the folder of a new sweep below `results`.
pub fn create_sweep_folder(
    results: &Path,
    model: &str,
    stamp: Stamp,
) -> Result<PathBuf, ReportError> {
    create_free(&results.join(format!("{}_np_sweep", part(model))), &stamp.folder())
}

/// Makes the folder of a sweep's run at `np` accelerators.
pub fn create_np_folder(
    sweep: &Path,
    np: u32,
    model: &str,
    stamp: Stamp,
) -> Result<PathBuf, ReportError> {
    create_run_folder(&sweep.join(format!("NP{np}")), model, stamp)
}

/// Makes the folder of a run of its own below `results`.
pub fn create_run_folder(
    results: &Path,
    model: &str,
    stamp: Stamp,
) -> Result<PathBuf, ReportError> {
    let runs = results.join("training").join(part(model)).join("run");
    create_free(&runs, &stamp.folder())
}

fn create_free(parent: &Path, name: &str) -> Result<PathBuf, ReportError> {
    let failed = |path: &Path, source| ReportError::CreateFolder { path: path.to_owned(), source };
    fs::create_dir_all(parent).map_err(|source| failed(parent, source))?;
    let mut path = parent.join(name);
    let mut number = 1;
    loop {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                path = parent.join(format!("{name}_{number}"));
            }
            Err(source) => return Err(failed(&path, source)),
        }
    }
}

/// Removes the results of an earlier run from `folder`, which a workload may name for every run
/// (`output.folder`): if the new run fails in its first epoch, or has fewer ranks, nothing of the old
/// one may pass for its own. Other files stay.
///
/// # Errors
///
/// The folder cannot be read, or a result in it cannot be removed.
pub fn remove_results(folder: &Path) -> Result<(), ReportError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ReportError::read(folder)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(ReportError::read(folder))?;
        if entry.file_name().to_str().is_some_and(is_result) {
            fs::remove_file(entry.path()).map_err(ReportError::write(&entry.path()))?;
        }
    }
    Ok(())
}

/// Whether a file of this name in a run's folder is a result: what a run writes into it for other
/// programs, its profiler's output, and what the postprocessor makes of them.
pub fn is_result(name: &str) -> bool {
    let of_rank = ["_output.json", "_per_epoch_stats.json"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .is_some_and(|rank| !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit()));
    let of_run = ["summary.json", run::FILE_NAME, sweep::PAGE_NAME, postprocess::IOSTAT_FILE];
    of_rank || of_run.contains(&name) || postprocess::is_report(name)
}

/// `model` as one part of a path: what could leave the folder or trouble a shell becomes `_`.
fn part(model: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = model.chars().map(safe).collect();
    if name.chars().all(|c| c == '.') { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_stamp_gets_a_suffix() {
        let root = tempfile::tempdir().unwrap();
        let stamp = Stamp::now();
        let folders: Vec<PathBuf> =
            (0..3).map(|_| create_sweep_folder(root.path(), "retinanet", stamp).unwrap()).collect();
        let parent = root.path().join("retinanet_np_sweep");
        let name = stamp.folder();
        assert_eq!(folders, ["", "_2", "_3"].map(|suffix| parent.join(format!("{name}{suffix}"))));
    }

    #[test]
    fn programs_that_start_at_once_get_folders_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let stamp = Stamp::now();
        let create = || create_run_folder(root.path(), "m", stamp).unwrap();
        let mut folders: Vec<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), 8);
    }

    #[test]
    fn a_run_of_a_sweep_lies_below_its_np() {
        let root = tempfile::tempdir().unwrap();
        let stamp = Stamp::now();
        let folder = create_np_folder(root.path(), 4, "retinanet", stamp).unwrap();
        let expected = format!("NP4/training/retinanet/run/{}", stamp.folder());
        assert_eq!(folder, root.path().join(expected));
    }

    #[test]
    fn only_results_are_removed_from_a_folder_that_is_used_again() {
        let root = tempfile::tempdir().unwrap();
        let others = [
            "notes_output.json",
            "_output.json",
            "plan.txt",
            "train_summary.json",
            "my_iostat.json",
            "DLIO_notes.txt",
            "DLIO_annualreport.txt",
            "DLIO__report.txt",
        ];
        let results = [
            "summary.json",
            "feedrate.json",
            "report.md",
            "12_output.json",
            "0_per_epoch_stats.json",
            "iostat.json",
            "DLIO_report.txt",
            "DLIO_unet3d_report.txt",
        ];
        for name in others.iter().chain(&results) {
            fs::write(root.path().join(name), "").unwrap();
            assert_eq!(is_result(name), results.contains(name), "{name}");
        }
        remove_results(root.path()).unwrap();
        assert!(others.iter().all(|name| root.path().join(name).exists()));
        assert!(results.iter().all(|name| !root.path().join(name).exists()));
        remove_results(&root.path().join("not there")).unwrap();
    }

    #[test]
    fn a_model_name_cannot_leave_the_results() {
        assert_eq!(part("../x y"), ".._x_y");
        assert_eq!(part(".."), "_..");
        assert_eq!(part(""), "_");
        assert_eq!(part("unet3d-v1.1"), "unet3d-v1.1");
    }
}
