//! Results on standard output, everything else on standard error. Whoever reads may stop at any time
//! (`feedrate workloads | head -1`): what nobody reads any more is not worth an error, let alone a
//! panic.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

use serde::Serialize;

/// A result, on a line of its own.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(stdout(), "{text}").and_then(|()| stdout().flush());
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
