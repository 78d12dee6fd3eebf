//! `feedrate config`: what a workload comes to, and why.

use serde_json::json;

use super::note_warnings;
use crate::args::ConfigArgs;
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::output::{say, say_json};
use crate::store::resolve_workload;

pub(super) fn run(args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), &environment)?;
    note_warnings(false, [&resolved]);
    if args.json {
        let values: Vec<_> = resolved
            .values
            .iter()
            .map(|value| {
                json!({"key": value.key, "value": value.value, "origin": value.origin.to_string()})
            })
            .collect();
        say_json(&values)?;
        return Ok(Outcome::Finished);
    }
    let key_width = resolved.values.iter().map(|value| value.key.len()).max().unwrap_or(0);
    let value_width = resolved.values.iter().map(|value| value.value.len()).max().unwrap_or(0);
    for value in &resolved.values {
        say(format_args!(
            "{:key_width$}  {:value_width$}  {}",
            value.key, value.value, value.origin
        ));
    }
    Ok(Outcome::Finished)
}
