//! `feedrate sweep`: the same workload at several numbers of accelerators, each in a process of its
//! own, and the table of them all.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use feedrate_dataset::{DiscoverError, FileFormat, discover};
use feedrate_metrics::process::{ProcessUsage, available_memory};
use feedrate_metrics::record::Stamp;
use feedrate_metrics::requests::RequestStats;
use feedrate_metrics::units::{ByteCount, MIB, Seconds};
use feedrate_report::folders::{create_np_folder, create_sweep_folder};
use feedrate_report::{HostFacts, Origin, ProcessFacts, Sweep, SweepRun};
use feedrate_workload::{Override, Resolved, Schedule, presets};
use tokio::runtime::Handle;

use super::datagen::{generate_into, told};
use super::run::show;
use super::serve::exports;
use super::{note, note_warnings, runtime};
use crate::args::{StoreArgs, SweepArgs, WorkloadArgs};
use crate::embedded::EmbeddedServer;
use crate::environment::Environment;
use crate::exit::Outcome;
use crate::interrupt::exit_on_signal;
use crate::output::{say, say_json, tell};
use crate::progress;
use crate::store::{Access, resolve_workload};
use crate::training::{Message, Task, saved_report};

/// What a sweep makes of a built-in workload unless told otherwise: small enough for a laptop, long
/// enough to mean something.
const FILES: u64 = 6_000;
const EPOCHS: u32 = 3;
/// The embedded server's memory store may take this share of the memory that is free.
const MEMORY_SHARE: f64 = 0.60;

pub(super) fn run(args: &SweepArgs) -> anyhow::Result<Outcome> {
    let quiet = args.output.show.quiet;
    let environment = Environment::capture()?;
    let mut resolved = resolve_workload(&args.workload, &args.store, defaults(args), &environment)?;
    note_warnings(quiet, &resolved);
    for np in &args.np {
        Schedule::new(&resolved.workload, np.get()).with_context(|| format!("NP {np}"))?;
    }
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "epochs that were finished are kept");

    let server = if resolved.store_named.is_some() {
        None
    } else {
        check_memory(&resolved)?;
        Some(EmbeddedServer::start()?)
    };
    let access = match &server {
        Some(server) => Access::embedded(server, &mut resolved, &args.upload),
        None => Access::new(&resolved, &args.upload, &environment)?,
    };
    if needs_generation(args, &access, &resolved, runtime.handle())? {
        let (summary, location) =
            generate_into(&access, &resolved.workload, runtime.handle(), quiet)?;
        note(quiet, format_args!("{} in {location}", told(&summary)));
    }

    let series = Series {
        args,
        resolved: &resolved,
        access: &access,
        origin: environment.origin(&args.workload.workload),
        server_pid: server.as_ref().map(EmbeddedServer::pid),
    };
    let outcome = series.run();
    if let (Some(server), true, Ok(_)) = (server, args.keep_server, &outcome) {
        let endpoint = server.endpoint_url();
        tell(exports(&endpoint, Some(&server.keep()?)));
    }
    outcome
}

/// A built-in workload's set is far too large for a first look; a file says itself what it wants.
fn defaults(args: &SweepArgs) -> Vec<Override> {
    if args.full || presets::get(&args.workload.workload).is_none() {
        return Vec::new();
    }
    let default = |key: &str, value: u64| {
        Override::flag("the default of sweep (--full for the workload's own)", key, value)
    };
    vec![default("dataset.num_files_train", FILES), default("train.epochs", u64::from(EPOCHS))]
}

/// A set that does not fit the memory is refused before anything is made.
fn check_memory(resolved: &Resolved) -> anyhow::Result<()> {
    let bytes = FileFormat::new(&resolved.workload.dataset)?.total_bytes();
    let free = available_memory().context("cannot tell how much memory is free")?;
    if bytes as f64 > MEMORY_SHARE * free.0 as f64 {
        bail!(
            "the data set has {}, more than {:.0} % of the {free} of memory that is free, and the \
             embedded server keeps it in memory. Use fewer files (--files), or a real store \
             (--endpoint-url and --bucket, or --local DIR)",
            ByteCount(bytes),
            100.0 * MEMORY_SHARE,
        );
    }
    Ok(())
}

/// Whether the data set has to be made first. A given store is only read, unless `--generate`.
fn needs_generation(
    args: &SweepArgs,
    access: &Access,
    resolved: &Resolved,
    runtime: &Handle,
) -> anyhow::Result<bool> {
    if access.shown.embedded {
        return Ok(true);
    }
    let store = access.open(RequestStats::new().into())?;
    let dataset = &resolved.workload.dataset;
    match runtime.block_on(discover(&*store, dataset, access.prefix())) {
        Ok(_) => Ok(false),
        Err(DiscoverError::List(error)) => Err(error.into()),
        Err(_) if args.generate => Ok(true),
        Err(missing) => Err(anyhow!(
            "{missing}.\nTo generate it, run\n  {}\nor give this command --generate",
            datagen_command(&args.workload, &args.store, dataset.num_files_train)
        )),
    }
}

/// The command that generates what a sweep misses.
fn datagen_command(workload: &WorkloadArgs, store: &StoreArgs, files: u64) -> String {
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

/// The runs of a sweep.
struct Series<'a> {
    args: &'a SweepArgs,
    resolved: &'a Resolved,
    access: &'a Access,
    origin: Origin,
    server_pid: Option<u32>,
}

impl Series<'_> {
    fn run(&self) -> anyhow::Result<Outcome> {
        let Self { args, resolved, access, origin, .. } = self;
        let start = Stamp::now();
        let model = &resolved.workload.model.name;
        let folder = create_sweep_folder(&args.output.results_dir, model, start)?;
        let mut sweep = Sweep::new(
            start,
            origin.clone(),
            resolved.workload.clone(),
            &HostFacts::read()?,
            access.shown.clone(),
        );
        for np in &args.np {
            let failure = self.run_np(np.get(), &folder, &mut sweep)?;
            sweep.save(&folder)?;
            if let Some(failure) = failure {
                bail!("NP {np}: {failure}\nwhat was measured is in {}", folder.display());
            }
        }
        if args.output.show.json {
            say_json(&sweep)?;
        } else {
            say(sweep.console_table());
            say(format_args!("report and raw results in {}", folder.display()));
        }
        let missed = args.require_au && sweep.target_met() != Some(true);
        Ok(if missed { Outcome::TargetMissed } else { Outcome::Finished })
    }

    /// Runs one NP in a child process and adds it to `sweep`; returns why it failed, if it did.
    fn run_np(&self, np: u32, folder: &Path, sweep: &mut Sweep) -> anyhow::Result<Option<String>> {
        let Self { args, resolved, access, origin, .. } = self;
        let run_folder = create_np_folder(folder, np, &resolved.workload.model.name, Stamp::now())?;
        let task = Task {
            workload: resolved.workload.clone(),
            np,
            access: (*access).clone(),
            origin: origin.clone(),
            verify: args.read.verify,
            byte_budget: ByteCount(args.read.byte_budget.get() * MIB as u64),
            config: serde_json::to_value(&resolved.composed)?,
            overrides: resolved.overrides.clone(),
            folder: run_folder.clone(),
        };
        let server_cpu_before = self.server_cpu();
        let started = Instant::now();
        let failure = run_child(&task, args.output.show.quiet)?;
        let facts = ProcessFacts {
            wall: Some(Seconds::from(started.elapsed())),
            server_cpu: self
                .server_cpu()
                .zip(server_cpu_before)
                .map(|(after, before)| after - before),
        };
        let report = saved_report(&run_folder);
        let place = run_folder.strip_prefix(folder).unwrap_or(&run_folder).to_string_lossy();
        sweep.add(match (&failure, &report) {
            (None, Some(report)) => SweepRun::finished(report, place, facts),
            (None, None) => SweepRun::failed(np, None, place, facts, "it left no report"),
            (Some(why), report) => SweepRun::failed(np, report.as_ref(), place, facts, why),
        });
        Ok(failure.or_else(|| report.is_none().then(|| "the run left no report".to_owned())))
    }

    fn server_cpu(&self) -> Option<Seconds> {
        ProcessUsage::of_pid(self.server_pid?).ok().map(|usage| usage.cpu)
    }
}

/// Runs `task` in a child process, showing its progress; returns why it failed, if it did.
fn run_child(task: &Task, quiet: bool) -> anyhow::Result<Option<String>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut child = Command::new(program)
        .arg("train-task")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A terminal's Ctrl-C is for the parent; see `interrupt`.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start the process of NP {}", task.np))?;
    let told = follow(&mut child, task, quiet);
    if told.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().context("waiting for the process of a run")?;
    let failure = told?;
    Ok(match (status.success(), failure) {
        (true, None) => None,
        (_, Some(why)) => Some(why),
        (false, None) => Some(format!("its process ended without a word ({status})")),
    })
}

/// Hands `task` to the child and listens until it has nothing more to say.
fn follow(child: &mut Child, task: &Task, quiet: bool) -> anyhow::Result<Option<String>> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the process of NP {} has no pipes", task.np);
    };
    // The child lives as long as this pipe: it is closed when `input` is dropped.
    writeln!(input, "{}", serde_json::to_string(task)?)?;
    let steps = Schedule::new(&task.workload, task.np)?.steps;
    let bar = progress::training(steps * u64::from(task.workload.train.epochs), task.np, quiet);
    let mut failure = None;
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            Message::Failed(why) => failure = Some(why),
            message => show(&bar, steps, quiet, message),
        }
    }
    bar.finish_and_clear();
    Ok(failure)
}
