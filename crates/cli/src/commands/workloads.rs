//! `feedrate workloads`: what is built in.

use feedrate_workload::presets;

use crate::exit::Outcome;
use crate::output::say;

pub(super) fn run() -> Outcome {
    let width = presets::names().map(str::len).max().unwrap_or(0);
    let mut group = None;
    for preset in presets::all() {
        if group.replace(preset.group) != Some(preset.group) {
            say(format_args!("\n{}", preset.group));
        }
        say(format_args!("  {:width$}  {}", preset.name, preset.description));
    }
    Outcome::Finished
}
