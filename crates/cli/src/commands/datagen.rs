//! `feedrate datagen`: a workload's data set, made in a store.

use feedrate_report::Origin;

use super::{note_warnings, runtime};
use crate::args::{DatagenArgs, StoreArgs, WorkloadArgs};
use crate::crew::Crew;
use crate::data::{Generated, Generation};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::output::{say, say_json};
use crate::store::{Access, require_named, resolve_workload};

pub(super) fn run(args: &DatagenArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let crew = Crew::join(&environment, args.crew.options())?;
    let result = generate(args, &environment, &crew);
    crew.close(result)
}

fn generate(args: &DatagenArgs, environment: &Environment, crew: &Crew) -> anyhow::Result<Outcome> {
    let quiet = args.show.quiet || !crew.is_first();
    let (workload, access) = crew.share(|| {
        let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), environment)?;
        require_named(&resolved, "datagen")?;
        note_warnings(quiet, [&resolved]);
        let access = Access::new(&resolved, &args.upload, environment)?;
        Ok((resolved.workload, access))
    })?;
    let runtime = runtime()?;
    crew.watch_signals(runtime.handle(), "files that were stored stay where they are");
    let generation = Generation {
        access: &access,
        workload: &workload,
        resume: args.resume,
        runtime: runtime.handle(),
        quiet,
    };
    crew.share(|| generation.prepare())?;
    let parts = crew.collect(|| generation.make(crew.part()))?;
    let Some(all) = parts.into_iter().reduce(Generated::and) else { return Ok(Outcome::Finished) };
    generation.conclude()?;
    if args.show.json {
        say_json(&all)?;
    } else {
        say(all);
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
