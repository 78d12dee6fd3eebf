//! `feedrate workloads`: what is built in.

use feedrate_workload::presets;

use crate::exit::Outcome;
use crate::output::say;

pub(super) fn run() -> Outcome {
    let width = presets::names().map(str::len).max().unwrap_or(0);
    for preset in presets::all() {
        say(format_args!("{:width$}  {}", preset.name, preset.description));
    }
    Outcome::Finished
}
