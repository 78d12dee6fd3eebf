//! Exit codes: chosen here and nowhere else.

use std::fmt;
use std::process::ExitCode;

use crate::output::{results_were_lost, tell};

/// How a command that did its work can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything asked for was done. An AU below its target is a result like any other.
    Finished,
    /// The target was missed and `--require-au` was given.
    TargetMissed,
}

/// A mistake in how the program was called or in what it was given, found before any work: exit
/// code 2 instead of 1.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A [`UsageError`] as the error of a command.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// Marks an error that the user has been told.
#[derive(Debug)]
struct Logged;

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the run failed")
    }
}

/// `error`, which a log on stderr has shown already.
pub(crate) fn logged(error: anyhow::Error) -> anyhow::Error {
    error.context(Logged)
}

/// Tells the user of `error`, unless that has been done.
pub(crate) fn tell_error(error: &anyhow::Error) {
    if !error.is::<Logged>() {
        tell(format_args!("error: {error:#}"));
    }
}

/// Ended by Ctrl-C, as shells have it: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Prints the error, if there is one, and turns the result into the exit code: 0 finished, 1 failed,
/// 2 usage, 3 target missed under `--require-au`.
pub(crate) fn code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(_) if results_were_lost() => ExitCode::FAILURE,
        Ok(Outcome::Finished) => ExitCode::SUCCESS,
        Ok(Outcome::TargetMissed) => ExitCode::from(3),
        Err(error) => {
            tell_error(&error);
            match error.downcast_ref::<UsageError>() {
                Some(_) => ExitCode::from(2),
                None => ExitCode::FAILURE,
            }
        }
    }
}
