//! `feedrate datagen`: a workload's data set, made in a store.

use feedrate_report::Origin;
use serde_json::json;

use super::{note_warnings, runtime};
use crate::args::{DatagenArgs, StoreArgs, WorkloadArgs};
use crate::data::{generate_into, told};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::interrupt::exit_on_signal;
use crate::launcher::refuse_ranks;
use crate::output::{say, say_json};
use crate::store::{Access, require_named, resolve_workload};

pub(super) fn run(args: &DatagenArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    refuse_ranks(&environment.variables)?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), &environment)?;
    require_named(&resolved, "datagen")?;
    note_warnings(args.show.quiet, [&resolved]);
    let access = Access::new(&resolved, &args.upload, &environment)?;
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "files that were stored stay where they are");
    let (summary, location) =
        generate_into(&access, &resolved.workload, runtime.handle(), args.show.quiet)?;
    if args.show.json {
        let figures = json!({
            "files": summary.files,
            "bytes": summary.bytes,
            "seconds": summary.elapsed.as_secs_f64(),
            "location": location,
        });
        say_json(&figures)?;
    } else {
        say(format_args!("{} in {location}", told(&summary)));
    }
    Ok(Outcome::Finished)
}

/// The command that generates what another one misses.
pub(super) fn command_line(workload: &WorkloadArgs, store: &StoreArgs, files: u64) -> String {
    let mut command = vec!["feedrate".to_owned(), "datagen".to_owned(), workload.workload.clone()];
    let mut option = |name: &str, value: &str| command.extend([name.to_owned(), value.to_owned()]);
    option("--files", &files.to_string());
    for set in &workload.set {
        option("--set", set);
    }
    for endpoint in &store.endpoint_urls {
        option("--endpoint-url", endpoint);
    }
    for (name, value) in [("--bucket", &store.bucket), ("--region", &store.region)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    if let Some(folder) = &store.local {
        option("--local", &folder.to_string_lossy());
    }
    if store.aws {
        command.push("--aws".to_owned());
    }
    Origin::new("", command, "").command()
}
