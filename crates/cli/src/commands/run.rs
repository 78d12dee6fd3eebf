//! `feedrate run`: one training in this process.

use anyhow::anyhow;
use feedrate_dataset::DiscoverError;
use feedrate_metrics::record::Stamp;
use feedrate_report::folders::create_run_folder;
use feedrate_workload::Schedule;

use super::datagen::{command_line, generate_into, told};
use super::{check_reading, note, note_warnings, runtime};
use crate::args::RunArgs;
use crate::environment::Environment;
use crate::exit::{Outcome, usage};
use crate::interrupt::exit_on_signal;
use crate::output::{say, say_json};
use crate::progress;
use crate::store::{Access, require_named, resolve_workload};
use crate::training::{Input, Message, Task, execute};

pub(super) fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let quiet = args.output.show.quiet;
    let environment = Environment::capture()?;
    let resolved = resolve_workload(&args.workload, &args.store, Vec::new(), &environment)?;
    require_named(&resolved, "run")?;
    note_warnings(quiet, &resolved);
    let workload = &resolved.workload;
    if !workload.workflow.train && !workload.workflow.generate_data {
        return Err(usage(
            "nothing to do: workflow.train and workflow.generate_data are both false. Set one of \
             them, such as --set workflow.train=true",
        ));
    }
    check_reading(workload, &args.read)?;
    let schedule = Schedule::new(workload, args.np.get())?;
    let access = Access::new(&resolved, &args.upload, &environment)?;
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "epochs that were finished are kept");
    if workload.workflow.generate_data {
        let (summary, location) = generate_into(&access, workload, runtime.handle(), quiet)?;
        if !workload.workflow.train {
            say(format_args!("{} in {location}", told(&summary)));
            return Ok(Outcome::Finished);
        }
        note(quiet, told(&summary));
    }
    let input = Input::open(&access, workload, args.read.verify, runtime.handle())
        .map_err(|error| with_command(error, args, workload.dataset.num_files_train))?;
    let folder = match &workload.output.folder {
        // The flag stands above file and environment.
        Some(folder) if args.output.results_dir.is_none() => folder.clone(),
        _ => create_run_folder(args.output.results_dir(), &workload.model.name, Stamp::now())?,
    };
    let task = Task {
        workload: workload.clone(),
        np: args.np.get(),
        access,
        origin: environment.origin(&args.workload.workload),
        verify: args.read.verify,
        byte_budget: args.read.byte_budget(),
        config: serde_json::to_value(&resolved.composed)?,
        overrides: resolved.overrides.clone(),
        folder,
    };
    let bar =
        progress::training(schedule.steps * u64::from(workload.train.epochs), args.np.get(), quiet);
    let outcome = execute(&task, input, runtime.handle(), {
        let bar = bar.clone();
        move |message| show(&bar, schedule.steps, quiet, message)
    });
    bar.finish_and_clear();
    let report = outcome?;
    if args.output.show.json {
        say_json(&report.figures())?;
    } else {
        say(format_args!("{report}results in {}", task.folder.display()));
    }
    let met = report.figures().au_met == Some(true);
    Ok(if args.require_au && !met { Outcome::TargetMissed } else { Outcome::Finished })
}

/// Shows what a training tells.
pub(super) fn show(bar: &indicatif::ProgressBar, steps: u64, quiet: bool, message: Message) {
    match message {
        Message::Progress { epoch, steps: done, wall_au_percent } => {
            bar.set_position(u64::from(epoch.saturating_sub(1)) * steps + done);
            let au = wall_au_percent.map_or_else(String::new, |au| format!("  AU {au:.1} %"));
            bar.set_message(format!("epoch {epoch}{au}"));
        }
        Message::Note(text) => bar.suspend(|| note(quiet, text)),
        Message::Failed(_) => {}
    }
}

/// Tells with a missing data set how to generate it.
fn with_command(error: anyhow::Error, args: &RunArgs, files: u64) -> anyhow::Error {
    match error.downcast_ref::<DiscoverError>() {
        None | Some(DiscoverError::List(_)) => error,
        Some(missing) => {
            let command = command_line(&args.workload, &args.store, files);
            anyhow!("{missing}.\nTo generate it, run\n  {command}")
        }
    }
}
