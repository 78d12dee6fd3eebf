//! `feedrate workloads`: what is built in.

use feedrate_workload::presets;

use crate::exit::Outcome;

pub(super) fn run() -> anyhow::Result<Outcome> {
    let width = presets::names().map(str::len).max().unwrap_or(0);
    for preset in presets::all() {
        println!("{:width$}  {}", preset.name, preset.description);
    }
    Ok(Outcome::Finished)
}
