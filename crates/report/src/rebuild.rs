//! Making tables and pages again from saved records, and comparing them.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde_json::Value;

use crate::{Comparison, ReportError, RunReport, Study, Sweep, run, study, sweep};

/// A result whose tables and page are written again. Its text is the result for a terminal and the
/// page's path.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Rebuilt {
    /// Several sweeps side by side.
    Study {
        /// What was read.
        study: Box<Study>,
        /// The page that was written.
        page: PathBuf,
    },
    /// A sweep.
    Sweep {
        /// What was read.
        sweep: Box<Sweep>,
        /// The page that was written.
        page: PathBuf,
    },
    /// A run of its own, or one of a sweep's.
    Run {
        /// What was read.
        report: Box<RunReport>,
        /// The page that was written.
        page: PathBuf,
    },
}

impl Rebuilt {
    /// The figures, as `sweep` and `run` give them in JSON: sweeps whole, of a run what is computed.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        match self {
            Self::Study { study, .. } => study.to_json(),
            Self::Sweep { sweep, .. } => serde_json::to_value(sweep),
            Self::Run { report, .. } => serde_json::to_value(report.figures()),
        }
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = match self {
            Self::Study { study, page } => {
                writeln!(f, "{}", study.console())?;
                page
            }
            Self::Sweep { sweep, page } => {
                writeln!(f, "{}", sweep.console_table())?;
                page
            }
            Self::Run { report, page } => {
                writeln!(f, "{report}")?;
                page
            }
        };
        writeln!(f, "Report: {}", page.display())
    }
}

/// Writes the tables and the page of the result in `folder` again.
///
/// `folder` is a study's (it holds `comparison.json`), a sweep's (`sweep.json`), a run's
/// (`feedrate.json`), or any folder above exactly one of them; the sweeps of a study and the runs of a
/// sweep belong to it and are not counted.
///
/// # Errors
/// [`ReportError::NothingFound`] and [`ReportError::Several`] when `folder` does not tell what is
/// meant; otherwise what went wrong with which file.
pub fn rebuild(folder: &Path) -> Result<Rebuilt, ReportError> {
    let result = only_result(folder)?;
    if is_study(&result) {
        let study = Box::new(Study::load(&result)?);
        let page = study.save_tables(&result)?;
        return Ok(Rebuilt::Study { study, page });
    }
    if is_sweep(&result) {
        let sweep = Box::new(Sweep::load(&result)?);
        let page = sweep.save_tables(&result)?;
        return Ok(Rebuilt::Sweep { sweep, page });
    }
    let report = Box::new(RunReport::load(&result)?);
    let page = report.save_page(&result)?;
    Ok(Rebuilt::Run { report, page })
}

/// Compares the result in the folder `b` with that in `a`; writes nothing. Each folder is a sweep's, a
/// run's (a sweep of one NP), or one above exactly one of them.
///
/// # Errors
/// As [`rebuild()`]; [`ReportError::Several`] for a study, too, which lists its series.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, ReportError> {
    let (a_sweep, b_sweep) = (load_one(a)?, load_one(b)?);
    Ok(Comparison::new(
        ("A", &a.to_string_lossy(), &a_sweep),
        ("B", &b.to_string_lossy(), &b_sweep),
    ))
}

fn load_one(folder: &Path) -> Result<Sweep, ReportError> {
    let result = only_result(folder)?;
    if is_study(&result) {
        let found = Study::names(&result)?.iter().map(|name| result.join(name)).collect();
        return Err(ReportError::Several { path: folder.to_owned(), found });
    }
    if is_sweep(&result) {
        Sweep::load(&result)
    } else {
        Ok(Sweep::of_run(&RunReport::load(&result)?))
    }
}

/// The folder of the one result at or below `folder`.
fn only_result(folder: &Path) -> Result<PathBuf, ReportError> {
    let mut found = Vec::new();
    find(folder, &mut found)?;
    match found.len() {
        0 => Err(ReportError::NothingFound { path: folder.to_owned() }),
        1 => Ok(found.remove(0)),
        _ => Err(ReportError::Several { path: folder.to_owned(), found }),
    }
}

fn is_study(folder: &Path) -> bool {
    folder.join(study::FILE_NAME).is_file()
}

fn is_sweep(folder: &Path) -> bool {
    folder.join(sweep::FILE_NAME).is_file()
}

/// Collects the result folders at and below `folder` in the order of their names. Links are not
/// followed.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), ReportError> {
    if is_study(folder) || is_sweep(folder) || folder.join(run::FILE_NAME).is_file() {
        found.push(folder.to_owned());
        return Ok(());
    }
    let mut below = Vec::new();
    for entry in fs::read_dir(folder).map_err(ReportError::read(folder))? {
        let entry = entry.map_err(ReportError::read(folder))?;
        if entry.file_type().map_err(ReportError::read(folder))?.is_dir() {
            below.push(entry.path());
        }
    }
    below.sort();
    below.iter().try_for_each(|folder| find(folder, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Series, fixtures};

    #[test]
    fn a_sweep_is_found_from_above_and_written_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("retinanet_np_sweep/20260512_173956");
        let sweep = fixtures::sweep();
        sweep.save(&folder).unwrap();
        fixtures::run(1, 1, 2).save(&folder.join("NP1/training/retinanet/run/x")).unwrap();
        let page = folder.join(sweep::PAGE_NAME);
        let before = fs::read_to_string(&page).unwrap();
        fs::remove_file(&page).unwrap();
        fs::remove_file(folder.join(sweep::TABLE_NAME)).unwrap();

        let rebuilt = rebuild(root.path()).unwrap();
        let json = serde_json::to_value(&sweep).unwrap();
        assert_eq!(rebuilt.to_json().unwrap(), json);
        let text = rebuilt.to_string();
        assert!(text.starts_with(&sweep.console_table()), "{text}");
        assert!(text.contains(page.to_str().unwrap()), "{text}");
        assert_eq!(fs::read_to_string(&page).unwrap(), before);
        assert_eq!(fs::read_to_string(folder.join(sweep::TABLE_NAME)).unwrap(), sweep.to_tsv());
    }

    #[test]
    fn a_run_of_a_sweep_can_be_shown_alone() {
        let root = tempfile::tempdir().unwrap();
        fixtures::sweep().save(root.path()).unwrap();
        let folder = root.path().join("NP1/training/retinanet/run/x");
        let report = fixtures::run(1, 1, 2);
        report.save(&folder).unwrap();
        let rebuilt = rebuild(&root.path().join("NP1")).unwrap();
        let json = serde_json::to_value(report.figures()).unwrap();
        assert_eq!(rebuilt.to_json().unwrap(), json);
        let text = rebuilt.to_string();
        assert!(text.starts_with(&report.to_string()), "{text}");
        assert!(folder.join(sweep::PAGE_NAME).is_file());
    }

    fn study() -> Study {
        let series = |name: &str, sweep| Series { name: name.to_owned(), sweep };
        Study {
            series: vec![
                series("sliding", fixtures::sweep()),
                series("chunked", fixtures::chunked_sweep()),
            ],
        }
    }

    #[test]
    fn a_study_is_found_from_above_and_all_its_pages_are_written_as_they_were() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("retinanet_np_sweep/20260512_173956");
        study().save(&folder).unwrap();
        let pages = ["comparison.md", "sliding/report.md", "chunked/sweep.tsv"]
            .map(|name| folder.join(name));
        let before = pages.each_ref().map(|page| fs::read(page).unwrap());
        for page in &pages {
            fs::remove_file(page).unwrap();
        }
        let rebuilt = rebuild(root.path()).unwrap();
        assert_eq!(pages.each_ref().map(|page| fs::read(page).unwrap()), before);
        assert_eq!(rebuilt.to_json().unwrap(), study().to_json().unwrap());
        assert!(rebuilt.to_string().contains("comparison.md"), "{rebuilt}");
        assert!(matches!(rebuild(&folder.join("chunked")).unwrap(), Rebuilt::Sweep { .. }));
    }

    #[test]
    fn saved_results_are_compared_without_a_file_being_written() {
        let root = tempfile::tempdir().unwrap();
        study().save(root.path()).unwrap();
        let [a, b] = ["sliding", "chunked"].map(|name| root.path().join(name));
        fs::remove_file(a.join(sweep::PAGE_NAME)).unwrap();
        let comparison = compare(&a, &b).unwrap();
        assert_eq!(comparison.nps.len(), 3);
        assert_eq!(comparison.a.folder, a.to_string_lossy());
        assert!(!a.join(sweep::PAGE_NAME).exists());

        let run = root.path().join("run");
        fixtures::run(2, 3, 10).save(&run).unwrap();
        let comparison = compare(&a, &run).unwrap();
        assert_eq!(comparison.nps.iter().map(|np| np.np).collect::<Vec<_>>(), [2]);

        let error = compare(root.path(), &a).unwrap_err().to_string();
        assert!(error.contains("2 results") && error.contains("/chunked"), "{error}");
    }

    #[test]
    fn an_empty_folder_says_what_was_looked_for() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let error = rebuild(root.path()).unwrap_err().to_string();
        for word in ["sweep.json", "feedrate.json", root.path().to_str().unwrap()] {
            assert!(error.contains(word), "{error}");
        }
        let missing = rebuild(&root.path().join("nosuch")).unwrap_err();
        assert!(matches!(missing, ReportError::Read { .. }), "{missing}");
    }

    #[test]
    fn two_results_are_listed_instead_of_one_being_guessed() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fixtures::run(1, 1, 2).save(&root.path().join(name)).unwrap();
        }
        let error = rebuild(root.path()).unwrap_err().to_string();
        assert!(error.contains("2 results") && error.contains("/b"), "{error}");
    }
}
