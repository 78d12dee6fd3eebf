//! `feedrate report`: tables and pages again, from what was saved.

use feedrate_report::rebuild;

use crate::args::ReportArgs;
use crate::exit::Outcome;

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let rebuilt = rebuild(&args.dir)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rebuilt.to_json()?)?);
    } else {
        print!("{rebuilt}");
    }
    Ok(Outcome::Finished)
}
