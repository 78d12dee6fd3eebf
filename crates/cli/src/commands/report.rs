//! `feedrate report`: tables and pages again, from what was saved.

use feedrate_report::rebuild;

use crate::args::ReportArgs;
use crate::exit::Outcome;
use crate::output::{say, say_json};

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let rebuilt = rebuild(&args.dir)?;
    if args.json {
        say_json(&rebuilt.to_json()?)?;
    } else {
        say(rebuilt.to_string().trim_end());
    }
    Ok(Outcome::Finished)
}
