//! `feedrate report`: tables and pages again, from what was saved.

use feedrate_report::rebuild;

use crate::args::ReportArgs;
use crate::exit::Outcome;

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    print!("{}", rebuild(&args.dir)?);
    Ok(Outcome::Finished)
}
