//! `feedrate report`: tables and pages again, from what was saved; or two saved results compared.

use feedrate_report::{compare, rebuild};

use crate::args::ReportArgs;
use crate::exit::Outcome;
use crate::output::{say, say_json};

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let (json, text) = if let Some(other) = &args.other {
        let comparison = compare(&args.dir, other)?;
        (serde_json::to_value(&comparison)?, comparison.to_string())
    } else {
        let rebuilt = rebuild(&args.dir)?;
        (rebuilt.to_json()?, rebuilt.to_string())
    };
    if args.json {
        say_json(&json)?;
    } else {
        say(text.trim_end());
    }
    Ok(Outcome::Finished)
}
