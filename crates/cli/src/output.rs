//! Results on standard output, everything else on standard error. Whoever reads may stop at any time
//! (`feedrate workloads | head -1`): what nobody reads any more is not worth an error, let alone a
//! panic. What somebody wants and does not get (`--json > FILE` on a full disk) is a failure.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// Whether a result could not be written though somebody was reading.
static LOST: AtomicBool = AtomicBool::new(false);

/// A result, on a line of its own. See [`results_were_lost`].
pub(crate) fn say(text: impl Display) {
    let written = writeln!(stdout(), "{text}").and_then(|()| stdout().flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        tell(format_args!("error: cannot write to standard output: {error}"));
    }
}

/// Whether something that was said did not arrive; the user knows already why.
pub(crate) fn results_were_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// A result as JSON.
pub(crate) fn say_json(value: &impl Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Something beside the results.
pub(crate) fn tell(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}

/// Something beside the results, unless told to be quiet.
pub(crate) fn note(quiet: bool, text: impl Display) {
    if !quiet {
        tell(text);
    }
}
