//! `feedrate run`: one training in this process.

use std::path::PathBuf;

use anyhow::anyhow;
use feedrate_metrics::record::Stamp;
use feedrate_report::dlio::write_own_snapshot;
use feedrate_report::folders::create_run_folder;
use feedrate_report::{ConfiguredValue, RunReport};
use feedrate_workload::{Resolved, Schedule};
use tokio::runtime::Handle;

use super::datagen::command_line;
use super::{check_reading, note_warnings, runtime, settled};
use crate::args::RunArgs;
use crate::crew::Crew;
use crate::data::{self, Input, with_hint};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::output::{say, say_json};
use crate::progress;
use crate::store::{Access, require_named, resolve_workload};
use crate::training::{Play, Results, Task, nodes, show};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let crew = Crew::join(&environment, args.crew.options())?;
    let result = play(args, &environment, &crew);
    crew.close(result)
}

fn play(args: &RunArgs, environment: &Environment, crew: &Crew) -> anyhow::Result<Outcome> {
    let quiet = args.output.show.quiet || !crew.is_first();
    let runtime = runtime()?;
    crew.watch_signals(runtime.handle(), "epochs that were finished are kept");
    let mut input = None;
    let task = crew.share(|| {
        let (task, found) = prepare(args, environment, crew, runtime.handle(), quiet)?;
        input = found;
        Ok(task)
    })?;
    let nodes = nodes(crew, task.np)?;
    let steps = if task.workload.workflow.train {
        Schedule::new(&task.workload, task.np)?.steps
    } else {
        0
    };
    let bar = progress::training(steps * u64::from(task.workload.train.epochs), task.np, quiet);
    let begin = |nodes| {
        let bar = bar.clone();
        Results::begin(task.clone(), nodes, move |message| show(&bar, steps, quiet, message))
    };
    // A run that makes nothing but data has no results.
    let has_results = !task.workload.workflow.generates_only();
    let results = nodes.filter(|_| has_results).map(begin).transpose()?;
    let results = results.as_ref();
    let outcome =
        Play { crew, task: &task, results, runtime: runtime.handle(), quiet }.everything(input);
    bar.finish_and_clear();
    let played = outcome.inspect_err(|error| {
        if let Some(results) = results {
            results.failed(error);
        }
    })?;
    let Some(report) = played.report else {
        if let Some(generated) = played.generated.filter(|_| !has_results) {
            say(generated);
        }
        return Ok(Outcome::Finished);
    };
    if args.output.show.json {
        say_json(&report.figures())?;
    } else {
        say(format_args!("{report}results in {}", task.folder.display()));
    }
    outcome_of(&report, args.workload.strict, args.require_au)
}

/// Everything that the run needs, and its input if that is there already.
fn prepare(
    args: &RunArgs,
    environment: &Environment,
    crew: &Crew,
    runtime: &Handle,
    quiet: bool,
) -> anyhow::Result<(Task, Option<Input>)> {
    let np = crew.ranks(args.np.map(u32::from))?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), environment)?;
    note_warnings(quiet, [&resolved]);
    let workload = settled(&resolved, crew.most_on_a_node(np));
    data::check(&workload, np)?;
    require_named(&resolved, "run")?;
    check_reading(&workload, &args.read)?;
    let access = Access::new(&resolved, &args.upload, environment)?;
    // A run that finds no data leaves no folder.
    let input = if workload.workflow.generate_data {
        None
    } else {
        let input = Input::open(&access, &workload, args.read.verify, runtime);
        let command = || {
            let files = workload.dataset.num_files_train;
            let command = command_line(&args.workload, &args.store, files);
            format!(".\nTo generate it, run\n  {command}")
        };
        Some(input.map_err(|error| with_hint(error, command))?)
    };
    let folder = match &workload.output.folder {
        _ if workload.workflow.generates_only() => PathBuf::new(),
        // The flag stands above file and environment.
        Some(folder) if args.output.results_dir.is_none() => folder.clone(),
        _ => create_run_folder(args.output.results_dir(), &workload.model.name, Stamp::now())?,
    };
    let origin = environment.origin("feedrate", &args.workload.workload);
    if !workload.workflow.generates_only() {
        let Resolved { composed, overrides, .. } = &resolved;
        write_own_snapshot(&folder, composed, overrides, &origin.workload_name)?;
    }
    let task = Task {
        workload,
        configuration: resolved.values.iter().map(ConfiguredValue::from).collect(),
        np,
        access,
        origin,
        verify: args.read.verify,
        byte_budget: args.read.byte_budget(),
        folder,
        log_on_stderr: false,
    };
    Ok((task, input))
}

/// What a finished run means for the exit code.
pub(crate) fn outcome_of(
    report: &RunReport,
    strict: bool,
    require_au: bool,
) -> anyhow::Result<Outcome> {
    let figures = report.figures();
    if let Some(reason) = figures.not_measurable_reason.as_ref().filter(|_| strict) {
        return Err(anyhow!("AU is not measurable, which --strict does not accept: {reason}"));
    }
    let met = figures.au_met == Some(true);
    Ok(if require_au && !met { Outcome::TargetMissed } else { Outcome::Finished })
}
