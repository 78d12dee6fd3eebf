//! The lines of `dlio.log` (spec/dlio.md 8.6), which tools around DLIO parse.
//!
//! A record is `[LEVEL] text`, written at once at the end of the file and, if asked for, to stderr.
//! An [`Event`] has DLIO's words and is stamped; what happens at the start of a run or an epoch is
//! written then, the rest of an epoch when it is over, from its record, so that nothing is logged
//! while its clock runs. `Averages` end the log.

mod averages;
mod epoch;
mod event;

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};

use feedrate_metrics::record::Stamp;
use feedrate_workload::LogLevel;

use crate::{ReportError, RunReport};

use averages::Averages;
pub(crate) use averages::expectation;
pub use event::Event;

/// What a record is to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Info,
    Warning,
    /// DLIO's own level between WARNING and ERROR.
    Output,
    Error,
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Output => "OUTPUT",
            Self::Error => "ERROR",
        }
    }

    /// Whether a log of `level` has it.
    fn is_logged_at(self, level: LogLevel) -> bool {
        level
            <= match self {
                Self::Info => LogLevel::Info,
                Self::Warning | Self::Output => LogLevel::Warning,
                // No error is logged but the one that ends the run.
                Self::Error => LogLevel::Critical,
            }
    }
}

/// The log of a run.
#[derive(Debug)]
pub struct DlioLog {
    path: PathBuf,
    file: File,
    level: LogLevel,
    on_stderr: bool,
}

impl DlioLog {
    /// Starts a new log at `path` that has what `level` asks for; an old one is removed, the folder is
    /// made.
    ///
    /// # Errors
    /// [`ReportError`] when the folder or the file cannot be made.
    pub fn create(path: &Path, level: LogLevel) -> Result<Self, ReportError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| ReportError::CreateFolder { path: folder.to_owned(), source })?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ReportError::write(path)(error));
            }
            _ => {}
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(ReportError::write(path))?;
        Ok(Self { path: path.to_owned(), file, level, on_stderr: false })
    }

    /// Every record goes to stderr, too, as DLIO's do. That nobody may read it there is no error.
    #[must_use]
    pub fn also_on_stderr(self) -> Self {
        Self { on_stderr: true, ..self }
    }

    /// Appends `event` with the time it is now.
    ///
    /// # Errors
    /// [`ReportError::Write`], as of all that append.
    #[track_caller]
    pub fn event(&self, event: &Event<'_>) -> Result<(), ReportError> {
        self.append(Severity::Output, &format!("{} {event}", Stamp::now().dlio()))
    }

    /// Appends a warning.
    ///
    /// # Errors
    /// [`ReportError::Write`]
    #[track_caller]
    pub fn warning(&self, text: &str) -> Result<(), ReportError> {
        self.append(Severity::Warning, text)
    }

    /// Appends what ends the run; every level has it.
    ///
    /// # Errors
    /// [`ReportError::Write`]
    #[track_caller]
    pub fn error(&self, text: &str) -> Result<(), ReportError> {
        self.append(Severity::Error, text)
    }

    /// Appends all that there is to say of the last epoch in `report` behind [`Event::EpochStarting`]
    /// and the first [`Event::BlockStarting`]: its steps (at level INFO), blocks and evaluation.
    ///
    /// # Errors
    /// [`ReportError::Write`]
    #[track_caller]
    pub fn epoch(&self, report: &RunReport) -> Result<(), ReportError> {
        let Some(epoch) = report.record.epochs.last() else { return Ok(()) };
        let steps = Severity::Info.is_logged_at(self.level);
        for line in epoch::lines(report, epoch, steps) {
            self.append(line.severity, &format!("{} {}", line.stamp.dlio(), line.event))?;
        }
        Ok(())
    }

    /// Appends the averages of a finished run.
    ///
    /// # Errors
    /// [`ReportError::Write`]
    #[track_caller]
    pub fn averages(&self, report: &RunReport) -> Result<(), ReportError> {
        self.append(Severity::Output, &Averages(report).to_string())
    }

    #[track_caller]
    fn append(&self, severity: Severity, text: &str) -> Result<(), ReportError> {
        if !severity.is_logged_at(self.level) {
            return Ok(());
        }
        let mut record = format!("[{}] {text}", severity.label());
        if self.level == LogLevel::Debug {
            let caller = Location::caller();
            let _ = write!(record, " [{}:{}]", caller.file(), caller.line());
        }
        record.push('\n');
        if self.on_stderr {
            let _ = io::stderr().write_all(record.as_bytes());
        }
        (&self.file).write_all(record.as_bytes()).map_err(ReportError::write(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_new_log_replaces_the_old_one_and_stamps_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/dlio.log");
        DlioLog::create(&path, LogLevel::Warning).unwrap().warning("old").unwrap();
        let log = DlioLog::create(&path, LogLevel::Warning).unwrap();
        log.event(&Event::BlockStarting { block: 1 }).unwrap();
        log.warning("careful").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let (stamp, rest) = lines[0]["[OUTPUT] ".len()..].split_at(26);
        assert_eq!(stamp.as_bytes()[10], b'T');
        assert_eq!(rest, " Starting block 1");
        assert_eq!(lines[1], "[WARNING] careful");
    }

    /// One record of each kind, as a log of `level` has them.
    fn logged_at(level: LogLevel) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dlio.log");
        let report = fixtures::known_delays();
        let log = DlioLog::create(&path, level).unwrap();
        log.event(&Event::BlockStarting { block: 1 }).unwrap();
        log.warning("careful").unwrap();
        log.epoch(&report).unwrap();
        log.averages(&report).unwrap();
        log.error("the store is gone").unwrap();
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn each_level_has_what_is_at_least_as_important() {
        let labels = |level| {
            let mut labels: Vec<String> = logged_at(level)
                .lines()
                .filter_map(|line| Some(line.split_once(']')?.0.trim_start_matches('[').to_owned()))
                .filter(|label| label != "METRIC")
                .collect();
            labels.sort();
            labels.dedup();
            labels.join(" ")
        };
        assert_eq!(labels(LogLevel::Debug), "ERROR INFO OUTPUT WARNING");
        assert_eq!(labels(LogLevel::Info), "ERROR INFO OUTPUT WARNING");
        assert_eq!(labels(LogLevel::Warning), "ERROR OUTPUT WARNING");
        assert_eq!(logged_at(LogLevel::Error), "[ERROR] the store is gone\n");
        assert_eq!(logged_at(LogLevel::Critical), "[ERROR] the store is gone\n");
    }

    #[test]
    fn a_log_for_finding_faults_tells_the_place_of_each_record() {
        let text = logged_at(LogLevel::Debug);
        let here = format!(" [{}:", file!());
        let records = text.lines().filter(|line| !line.starts_with("[METRIC]")).skip(1);
        for record in records.filter(|line| !line.contains("Averaged metric")) {
            assert!(record.contains(&here) && record.ends_with(']'), "{record}");
        }
        let rule = text.lines().rfind(|line| line.contains("[METRIC] ===")).unwrap();
        assert!(rule.contains(&here), "{rule}");
        assert!(!logged_at(LogLevel::Info).contains(&here));
    }
}
