//! The process of one run of a sweep, or its processes.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU32;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use feedrate_metrics::process::hostname;
use feedrate_workload::Schedule;

use crate::args::LauncherArgs;
use crate::exit::usage;
use crate::output::note;
use crate::progress;
use crate::training::{Message, Task, show};

/// How a child is started: by itself, or as several processes by an MPI launcher.
#[derive(Debug)]
pub(super) struct Launch<'a>(pub(super) &'a LauncherArgs);

/// What makes Open MPI's launcher notice that a host is lost, instead of waiting for it for ever, and leave
/// every process all CPUs of its host. Launchers of other makes do not look at it.
const OPEN_MPI: [(&str, &str); 4] = [
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_oob_tcp_keepalive_time", "2"),
    ("OMPI_MCA_oob_tcp_keepalive_intvl", "1"),
    ("OMPI_MCA_oob_tcp_keepalive_probes", "2"),
];

impl Launch<'_> {
    /// Refuses what no launcher could do, before anything is started.
    pub(super) fn check(&self, nps: &[NonZeroU32], store_is_named: bool) -> anyhow::Result<()> {
        let LauncherArgs { mpi_bin, hosts, crew, .. } = self.0;
        let each = crew.ranks_per_process.map_or(1, u32::from);
        if mpi_bin.is_none() {
            return match crew.ranks_per_process {
                None => Ok(()),
                Some(_) => Err(usage("--ranks-per-process goes with --mpi-bin")),
            };
        }
        if cfg!(not(feature = "mpi")) {
            return Err(usage(
                "--mpi-bin needs a program that was built with MPI: cargo build --release --features mpi",
            ));
        }
        if let Some(np) = nps.iter().find(|np| !np.get().is_multiple_of(each)) {
            return Err(usage(format!(
                "NP {np} cannot be made of processes of {each} ranks (--ranks-per-process)"
            )));
        }
        let is_here = |host: &str| {
            let name = host.split(':').next().unwrap_or_default();
            name == "localhost"
                || name.starts_with("127.")
                || hostname().is_ok_and(|own| own == name)
        };
        if let Some(hosts) = hosts.as_ref().filter(|hosts| !hosts.split(',').all(is_here))
            && !store_is_named
        {
            return Err(usage(format!(
                "--hosts {hosts} needs a store that all of them reach: name one with --endpoint-url and \
                 --bucket, or --local DIR on a shared file system"
            )));
        }
        Ok(())
    }

    fn command(&self, np: u32) -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let LauncherArgs { mpi_bin, hosts, mpi_args, crew } = self.0;
        let Some(launcher) = mpi_bin else {
            let mut command = Command::new(program);
            command.arg("train-task");
            return Ok(command);
        };
        let each = crew.ranks_per_process.map_or(1, u32::from);
        let mut command = Command::new(launcher);
        command.args(["-n", &(np / each).to_string()]);
        if let Some(hosts) = hosts {
            command.args(["-host", hosts]);
        }
        command.args(mpi_args.iter().flat_map(|args| args.split_whitespace()));
        command.arg(program).arg("train-task").args(["--ranks-per-process", &each.to_string()]);
        command.args(["--heartbeat", &crew.heartbeat.as_secs_f64().to_string()]);
        command.args(["--dead-after", &crew.dead_after.as_secs_f64().to_string()]);
        let unset = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
        command.envs(OPEN_MPI.into_iter().filter(unset));
        Ok(command)
    }
}

/// Runs `task` in a child process, showing its progress; returns why it failed, if it did.
///
/// # Errors
/// When no process can be started, which would be no different for the next run.
pub(super) fn run_child(
    task: &Task,
    launch: &Launch<'_>,
    quiet: bool,
) -> anyhow::Result<Option<String>> {
    let mut command = launch.command(task.np)?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A terminal's Ctrl-C is for the parent; see `interrupt`.
        .process_group(0)
        .spawn()
        .with_context(|| {
            format!("cannot start {} for NP {}", command.get_program().display(), task.np)
        })?;
    let told = follow(&mut child, task, quiet);
    if told.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().context("waiting for the process of a run")?;
    Ok(match (told, status.success()) {
        (Ok(None), true) => None,
        (Ok(None), false) => Some(format!("its process ended without a word ({status})")),
        (Ok(Some(why)), _) => Some(why),
        (Err(error), _) => {
            Some(format!("its process cannot be followed any more: {error:#} ({status})"))
        }
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
        let line = line?;
        match serde_json::from_str(&line) {
            Ok(Message::Failed(why)) => failure = Some(why),
            Ok(message) => show(&bar, steps, quiet, message),
            // A launcher may have something to say, too.
            Err(_) => bar.suspend(|| note(quiet, &line)),
        }
    }
    bar.finish_and_clear();
    Ok(failure)
}
