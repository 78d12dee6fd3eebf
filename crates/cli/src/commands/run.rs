//! `feedrate run`: one training in this process.

use anyhow::{Context, anyhow};
use feedrate_metrics::record::Stamp;
use feedrate_report::dlio::write_own_snapshot;
use feedrate_report::folders::create_run_folder;
use feedrate_report::{ConfiguredValue, RunReport};
use feedrate_workload::Schedule;

use super::datagen::command_line;
use super::{check_reading, note_warnings, runtime, settled};
use crate::args::RunArgs;
use crate::data::{self, Input, generate_into, told, with_hint};
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::interrupt::exit_on_signal;
use crate::launcher::refuse_ranks;
use crate::output::{say, say_json};
use crate::progress;
use crate::store::{Access, require_named, resolve_workload};
use crate::training::{Results, Task, show};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let quiet = args.output.show.quiet;
    let np = args.np.get();
    let environment = Environment::capture()?;
    refuse_ranks(&environment.variables)?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), &environment)?;
    note_warnings(quiet, [&resolved]);
    let workload = settled(&resolved, np);
    let workflow = workload.workflow;
    data::check(&workload, np)?;
    require_named(&resolved, "run")?;
    check_reading(&workload, &args.read)?;
    let access = Access::new(&resolved, &args.upload, &environment)?;
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "epochs that were finished are kept");
    if workflow.generates_only() {
        let (summary, location) = generate_into(&access, &workload, runtime.handle(), quiet)?;
        say(format_args!("{} in {location}", told(&summary)));
        return Ok(Outcome::Finished);
    }
    // A run that finds no data leaves no folder.
    let input = if workflow.generate_data {
        None
    } else {
        let input = Input::open(&access, &workload, args.read.verify, runtime.handle());
        let command = || {
            let files = workload.dataset.num_files_train;
            let command = command_line(&args.workload, &args.store, files);
            format!(".\nTo generate it, run\n  {command}")
        };
        Some(input.map_err(|error| with_hint(error, command))?)
    };
    let folder = match &workload.output.folder {
        // The flag stands above file and environment.
        Some(folder) if args.output.results_dir.is_none() => folder.clone(),
        _ => create_run_folder(args.output.results_dir(), &workload.model.name, Stamp::now())?,
    };
    let origin = environment.origin("feedrate", &args.workload.workload);
    let (config, overrides) = (&resolved.composed, &resolved.overrides);
    write_own_snapshot(&folder, config, overrides, &origin.workload_name)?;

    let steps = Schedule::new(&workload, np)?.steps;
    let bar = progress::training(steps * u64::from(workload.train.epochs), np, quiet);
    let task = Task {
        workload,
        configuration: resolved.values.iter().map(ConfiguredValue::from).collect(),
        np,
        access,
        origin,
        verify: args.read.verify,
        byte_budget: args.read.byte_budget(),
        folder: folder.clone(),
        log_on_stderr: false,
    };
    let results = Results::begin(task, {
        let bar = bar.clone();
        move |message| show(&bar, steps, quiet, message)
    })?;
    let outcome = results.play(input, runtime.handle(), quiet);
    bar.finish_and_clear();
    let report = outcome.inspect_err(|error| results.failed(error))?;
    let report = report.context("the run left no report")?;
    if args.output.show.json {
        say_json(&report.figures())?;
    } else {
        say(format_args!("{report}results in {}", folder.display()));
    }
    outcome_of(&report, args.workload.strict, args.require_au)
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
