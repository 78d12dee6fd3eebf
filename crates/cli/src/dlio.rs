//! `dlio_benchmark` and `dlio_benchmark_query`: DLIO's command line in front of the same run.

use std::fs;

use anyhow::{Context, anyhow};
use feedrate_report::ConfiguredValue;
use feedrate_report::dlio::{write_snapshot, yaml};
use feedrate_workload::hydra::{self, Action, CommandLine};
use feedrate_workload::tree::{Node, Value};
use feedrate_workload::{Request, Resolved, Source, compose, resolve};

use crate::args::{UploadArgs, VERSION, default_byte_budget};
use crate::commands::run::outcome_of;
use crate::commands::{note_warnings, runtime, settled};
use crate::crew::{Crew, CrewOptions};
use crate::data::{self, with_hint};
use crate::environment::Environment;
use crate::exit::{Outcome, logged, usage};
use crate::launcher;
use crate::output::{say, tell};
use crate::store::Access;
use crate::training::{Message, Play, Played, Results, Task, nodes};

/// What a call is made of.
struct Call {
    environment: Environment,
    command_line: CommandLine,
    request: Request,
}

impl Call {
    /// The one that started this process.
    fn capture() -> anyhow::Result<Self> {
        let environment = Environment::capture()?;
        let command_line = CommandLine::parse(environment.arguments())
            .map_err(|error| usage(error.to_string()))?;
        let request = Request {
            workload: Source::Composed(command_line.composition.clone()),
            overrides: command_line.overrides.clone(),
            environment: environment.variables.clone(),
            dotenv: environment.dotenv.clone(),
            store_defaults: environment.store_defaults(),
            aws: command_line.aws,
            strict: command_line.strict,
            started: Some(environment.started.clone()),
            directory: environment.directory.clone(),
        };
        Ok(Self { environment, command_line, request })
    }

    /// The composed configuration as YAML.
    fn composed(&self, interpolate: bool) -> anyhow::Result<String> {
        let configuration = compose(&self.request, interpolate)?;
        for warning in &configuration.warnings {
            tell(format_args!("warning: {warning}"));
        }
        yaml(&configuration.root).context("cannot show the configuration")
    }

    fn help(&self, interpolate: bool) -> anyhow::Result<()> {
        let workloads = self.command_line.composition.workloads()?.join("\n  ");
        say(format_args!(
            "{HELP}\n== Workloads ==\nworkload=NAME takes one of\n  {workloads}\n\n== Configuration ==\n\
             What this command line comes to (override anything by ++workload.KEY=VALUE)\n\n{}",
            self.composed(interpolate)?.trim_end()
        ));
        Ok(())
    }
}

const HELP: &str = "\
dlio_benchmark of Feedrate: replays the I/O of AI training, simulates the accelerators, and writes DLIO's
result files.

Usage: dlio_benchmark [OPTION | OVERRIDE]...

  workload=NAME              the workload; without it, `default`
  KEY=VALUE                  change a key that is there, such as workload.reader.batch_size=4
  +KEY=VALUE                 add a key that is not
  ++KEY=VALUE                set a key, there or not
  ~KEY, ~KEY=VALUE           remove a key (only if it has this value)
  hydra.run.dir=DIR          the run's folder
  hydra.output_subdir=NAME   the folder of the configuration snapshot in it; null for none

  --config-dir, -cd DIR      look for workloads in DIR/workload, too
  --config-path, -cp DIR     use the configuration files of DIR instead of the built-in ones
  --config-name, -cn NAME    the primary configuration file
  --cfg, -c job              print the composed configuration and end
  --resolve                  with --cfg or --help: replace ${...} by what they stand for
  --np N                     ranks, all in this process (default 1)
  --ranks-per-process N      under an MPI launcher: ranks of each process (default 1)
  --heartbeat SECONDS        how often processes tell each other that they are alive (default 1)
  --dead-after SECONDS       a process that was not heard of for so long is lost (default 6)
  --compat WHOSE             numbers and defaults as in one of the originals: mlcommons, upstream
  --strict                   refuse unknown keys and variables, and AU that cannot be measured
  --prefer-user              of workloads with one name, the one in --config-dir and not the built-in one
  --aws                      S3 without an endpoint means the public cloud
  --help, -h                 this text
  --version                  the version
";

/// `dlio_benchmark`.
pub(crate) fn benchmark() -> anyhow::Result<Outcome> {
    let call = Call::capture()?;
    // What is printed instead of a run is printed once.
    let prints = launcher::rank(&call.environment.variables).is_none_or(|rank| rank == 0);
    match call.command_line.action {
        Action::Run => return run(&call),
        _ if !prints => {}
        Action::Help { resolve } => call.help(resolve)?,
        Action::Version => say(format_args!("dlio_benchmark {VERSION}")),
        Action::ShowConfig { resolve } => say(call.composed(resolve)?.trim_end()),
    }
    Ok(Outcome::Finished)
}

fn run(call: &Call) -> anyhow::Result<Outcome> {
    let crew = Crew::join(&call.environment, crew_options(&call.command_line))?;
    let result = play(call, &crew);
    crew.close(result)
}

fn crew_options(line: &CommandLine) -> CrewOptions {
    let usual = CrewOptions::default();
    CrewOptions {
        ranks_per_process: line.ranks_per_process.map(u32::from),
        heartbeat: line.heartbeat.unwrap_or(usual.heartbeat),
        dead_after: line.dead_after.unwrap_or(usual.dead_after),
    }
}

fn play(call: &Call, crew: &Crew) -> anyhow::Result<Outcome> {
    let runtime = runtime()?;
    crew.watch_signals(runtime.handle(), "epochs that were finished are kept");
    let task = crew.share(|| prepare(call, crew))?;
    let begin = |nodes| {
        Results::begin(task.clone(), nodes, |message| {
            if let Message::Note(text) = message {
                tell(text);
            }
        })
    };
    let results = nodes(crew, task.np)?.map(begin).transpose()?;
    let results = results.as_ref();
    let quiet = !crew.is_first();
    let play = Play { crew, task: &task, results, runtime: runtime.handle(), quiet };
    match play.everything(None) {
        Ok(Played { report: None, .. }) => Ok(Outcome::Finished),
        Ok(Played { report: Some(report), .. }) => {
            say(report.to_string().trim_end());
            outcome_of(&report, call.command_line.strict, false)
        }
        Err(error) => {
            let how = || ". To generate it, add ++workload.workflow.generate_data=True".to_owned();
            let error = with_hint(error, how);
            Err(match results {
                // The log is on stderr, too.
                Some(results) => {
                    results.failed(&error);
                    logged(error)
                }
                None => error,
            })
        }
    }
}

/// Everything that the run needs, with its folder and the snapshot in it.
fn prepare(call: &Call, crew: &Crew) -> anyhow::Result<Task> {
    let Call { environment, command_line, request } = call;
    let np = crew.ranks(command_line.np.map(u32::from))?;
    let resolved = resolve(request)?;
    note_warnings(false, [&resolved]);
    let workload = settled(&resolved, crew.most_on_a_node(np));
    data::check(&workload, np)?;
    let access = Access::new(&resolved, &UploadArgs::default(), environment)?;
    let run = keep_snapshot(&resolved)?;
    let folder = workload.output.folder.clone().unwrap_or_else(|| run.dir.clone());
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the output folder {}", folder.display()))?;
    Ok(Task {
        workload,
        configuration: resolved.values.iter().map(ConfiguredValue::from).collect(),
        np,
        access,
        origin: environment.origin("dlio_benchmark", &workload_name(run)),
        verify: false,
        byte_budget: default_byte_budget(),
        folder,
        log_on_stderr: true,
    })
}

/// Makes the run's folder with the snapshot of the configuration in it.
fn keep_snapshot(resolved: &Resolved) -> anyhow::Result<&hydra::Run> {
    let run = resolved.run.as_ref().context("a composed workload has a run folder")?;
    fs::create_dir_all(&run.dir)
        .with_context(|| format!("cannot make the run's folder {}", run.dir.display()))?;
    let Resolved { composed, overrides, .. } = resolved;
    write_snapshot(&run.dir, run.output_subdir.as_deref(), composed, overrides, &run.node)?;
    Ok(run)
}

/// The workload's name on the command line.
fn workload_name(run: &hydra::Run) -> String {
    match run.node.get("runtime.choices.workload").map(|node| &node.value) {
        Some(Value::Text(name)) => name.clone(),
        _ => "default".to_owned(),
    }
}

/// `dlio_benchmark_query`: prints the value of the key that `workflow.query` names.
pub(crate) fn query() -> anyhow::Result<Outcome> {
    let call = Call::capture()?;
    match call.command_line.action {
        Action::Version => say(format_args!("dlio_benchmark_query {VERSION}")),
        Action::Help { .. } | Action::ShowConfig { .. } => {
            return Err(usage(
                "dlio_benchmark_query takes overrides, one of them ++workload.workflow.query=SECTION.KEY",
            ));
        }
        Action::Run => {
            let resolved = resolve(&call.request)?;
            note_warnings(false, [&resolved]);
            let key = resolved.composed.get("workflow.query").filter(|node| !node.is_null());
            let Some(Node { value: Value::Text(key), .. }) = key else {
                return Err(anyhow!(
                    "no key is asked for: name one by ++workload.workflow.query=SECTION.KEY"
                ));
            };
            keep_snapshot(&resolved)?;
            say(hydra::query(&resolved, key));
        }
    }
    Ok(Outcome::Finished)
}
