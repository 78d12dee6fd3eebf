//! `feedrate sweep`: the same workload at several numbers of accelerators, each in a process of its
//! own, and the table of them all. Several pipelines or accelerators are series that take turns, and
//! are compared in the end.

mod child;
mod data;
mod plan;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use feedrate_metrics::process::ProcessUsage;
use feedrate_metrics::record::Stamp;
use feedrate_metrics::units::Seconds;
use feedrate_report::dlio::write_own_snapshot;
use feedrate_report::folders::{create_np_folder, create_sweep_folder};
use feedrate_report::{
    ConfiguredValue, HostFacts, Origin, ProcessFacts, RunReport, Series, Study, Sweep, SweepRun,
};

use feedrate_workload::Workload;

use self::child::{Launch, run_child};
use self::plan::{Planned, plan};
use super::serve::exports;
use super::{check_reading, runtime, settled};
use crate::args::SweepArgs;
use crate::embedded::EmbeddedServer;
use crate::environment::Environment;
use crate::exit::{Outcome, usage};
use crate::interrupt::exit_on_signal;
use crate::launcher::refuse_ranks;
use crate::output::{note, say, say_json, tell};
use crate::store::Access;
use crate::training::Task;

pub(super) fn run(args: &SweepArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    refuse_ranks(&environment.variables)?;
    let mut planned = plan(args, &environment)?;
    note_warnings(args.output.show.quiet, &planned);
    for series in &planned {
        let workload = &series.resolved.workload;
        check_reading(workload, &args.read)?;
        if !workload.workflow.train {
            return Err(usage(
                "a sweep trains, but workflow.train is false; for the data set alone there is \
                 `feedrate datagen`",
            ));
        }
        for np in &args.np {
            crate::data::check(workload, np.get())
                .with_context(|| format!("{}NP {np}", series.at()))?;
        }
    }
    let store_is_named = planned.iter().all(|series| series.resolved.store_named.is_some());
    Launch(&args.launcher).check(&args.np, store_is_named)?;
    data::keep_apart(&mut planned, args, &environment)?;
    let runtime = runtime()?;
    exit_on_signal(runtime.handle(), "epochs that were finished are kept");

    let server = if store_is_named {
        None
    } else {
        data::check_memory(&planned)?;
        Some(EmbeddedServer::start()?)
    };
    let accesses = planned
        .iter_mut()
        .map(|series| match &server {
            Some(server) => Access::embedded(server, &mut series.resolved, &args.upload),
            None => Access::new(&series.resolved, &args.upload, &environment),
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    data::provide(args, &planned, &accesses, runtime.handle())?;

    let lanes = planned
        .iter()
        .zip(&accesses)
        .map(|(planned, access)| Lane {
            planned,
            access,
            origin: environment.origin("feedrate", &planned.workload.workload),
        })
        .collect();
    let turns = Turns { args, lanes, server_pid: server.as_ref().map(EmbeddedServer::pid) };
    let measured = turns.run()?;
    measured.show(args)?;
    if let (Some(server), true) = (server, args.keep_server) {
        let endpoint = server.endpoint_url();
        tell(exports(&endpoint, Some(&server.keep()?)));
    }
    measured.outcome(args)
}

/// Says what is odd about the workloads, and what several have in common once.
fn note_warnings(quiet: bool, planned: &[Planned]) {
    let any =
        |what: fn(&Workload) -> bool| planned.iter().any(|series| what(&series.resolved.workload));
    if any(|workload| workload.output.folder.is_some()) {
        note(
            quiet,
            "warning: output.folder has no effect on a sweep, which has a folder for each run below \
             --results-dir",
        );
    }
    if any(|workload| !workload.dataset.keep_files) {
        note(
            quiet,
            "warning: dataset.keep_files has no effect on a sweep, which reads its set often",
        );
    }
    super::note_warnings(quiet, planned.iter().map(|series| &series.resolved));
}

/// One series with all that its runs need.
struct Lane<'a> {
    planned: &'a Planned,
    access: &'a Access,
    origin: Origin,
}

/// The runs of a sweep: all series at one NP, then all at the next, so that a change of a machine that
/// others use, too, meets all of them.
struct Turns<'a> {
    args: &'a SweepArgs,
    lanes: Vec<Lane<'a>>,
    server_pid: Option<u32>,
}

/// What came of them.
struct Measured {
    study: Study,
    folder: PathBuf,
    /// Which runs failed, and why.
    failures: Vec<String>,
}

impl Turns<'_> {
    fn run(&self) -> anyhow::Result<Measured> {
        let start = Stamp::now();
        let host = HostFacts::read()?;
        let series: Vec<Series> = self
            .lanes
            .iter()
            .map(|Lane { planned, access, origin }| {
                let workload = planned.resolved.workload.clone();
                let shown = access.shown.clone();
                let sweep = Sweep::new(start, origin.clone(), workload, &host, shown);
                Series { name: planned.name.clone(), sweep }
            })
            .collect();
        let model = series.first().map_or("", |series| &series.sweep.model);
        let folder = create_sweep_folder(self.args.output.results_dir(), model, start)?;
        let mut measured = Measured { study: Study { series }, folder, failures: Vec::new() };
        for np in &self.args.np {
            for (number, lane) in self.lanes.iter().enumerate() {
                let at = lane.planned.at();
                if !at.is_empty() {
                    note(self.args.output.show.quiet, format_args!("{at}NP {np}"));
                }
                let place = measured.place(number);
                let run = self.run_np(lane, np.get(), &place)?;
                measured
                    .failures
                    .extend(run.failed.iter().map(|why| format!("{at}NP {np}: {why}")));
                measured.study.series[number].sweep.add(run);
                measured.save()?;
            }
        }
        Ok(measured)
    }

    /// Runs one NP of a series in a child process. `sweep` is the series' folder.
    fn run_np(&self, lane: &Lane, np: u32, sweep: &Path) -> anyhow::Result<SweepRun> {
        let (args, resolved) = (self.args, &lane.planned.resolved);
        let folder = create_np_folder(sweep, np, &resolved.workload.model.name, Stamp::now())?;
        let (config, overrides) = (&resolved.composed, &resolved.overrides);
        let name = &lane.origin.workload_name;
        write_own_snapshot(&folder, config, overrides, name)?;
        let task = Task {
            workload: settled(resolved, np),
            configuration: resolved.values.iter().map(ConfiguredValue::from).collect(),
            np,
            access: lane.access.clone(),
            origin: lane.origin.clone(),
            verify: args.read.verify,
            byte_budget: args.read.byte_budget(),
            folder: folder.clone(),
            log_on_stderr: false,
        };
        let server_cpu_before = self.server_cpu();
        let started = Instant::now();
        let failure = run_child(&task, &Launch(&args.launcher), args.output.show.quiet)?;
        let facts = ProcessFacts {
            wall: Some(Seconds::from(started.elapsed())),
            server_cpu: self
                .server_cpu()
                .zip(server_cpu_before)
                .map(|(after, before)| after - before),
        };
        let report = RunReport::load(&folder).map_err(anyhow::Error::from);
        let place = folder.strip_prefix(sweep).unwrap_or(&folder).to_string_lossy();
        Ok(match (&failure, &report) {
            (None, Ok(report)) => SweepRun::finished(report, place, facts),
            (None, Err(error)) => {
                let why = format!("it left no report that can be read: {error:#}");
                SweepRun::failed(np, None, place, facts, why)
            }
            // One that failed in its first epoch has not written any.
            (Some(why), report) => SweepRun::failed(np, report.as_ref().ok(), place, facts, why),
        })
    }

    fn server_cpu(&self) -> Option<Seconds> {
        ProcessUsage::of_pid(self.server_pid?).ok().map(|usage| usage.cpu)
    }
}

impl Measured {
    /// The folder of a series: its own below the sweep's, or that itself when there is only one.
    fn place(&self, number: usize) -> PathBuf {
        self.folder.join(&self.study.series[number].name)
    }

    fn save(&self) -> anyhow::Result<()> {
        match self.study.series.as_slice() {
            [only] => only.sweep.save(&self.folder)?,
            _ => self.study.save(&self.folder)?,
        }
        Ok(())
    }

    fn show(&self, args: &SweepArgs) -> anyhow::Result<()> {
        match (self.study.series.as_slice(), args.output.show.json) {
            ([only], true) => return say_json(&only.sweep),
            (_, true) => return say_json(&self.study.to_json()?),
            ([only], false) => say(only.sweep.console_table()),
            (_, false) => say(self.study.console()),
        }
        say(format_args!("report and raw results in {}", self.folder.display()));
        Ok(())
    }

    fn outcome(&self, args: &SweepArgs) -> anyhow::Result<Outcome> {
        if !self.failures.is_empty() {
            bail!(
                "{} of {} runs failed:\n  {}\nwhat was measured is in {}",
                self.failures.len(),
                self.study.series.len() * args.np.len(),
                self.failures.join("\n  "),
                self.folder.display()
            );
        }
        let met = self.study.series.iter().all(|series| series.sweep.target_met() == Some(true));
        Ok(if args.require_au && !met { Outcome::TargetMissed } else { Outcome::Finished })
    }
}
