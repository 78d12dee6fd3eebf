//! One module a subcommand, and what they share.

mod config;
mod datagen;
mod report;
pub(crate) mod run;
mod serve;
mod sweep;
mod workloads;

use std::thread;

use anyhow::Context;
use clap::CommandFactory;
use feedrate_loader::check_payload;
use feedrate_workload::{Resolved, Workload};
use tokio::runtime::Runtime;

use crate::args::{Args, Command, ReadArgs};
use crate::embedded;
use crate::exit::{Outcome, usage};
use crate::output::{note, say};
use crate::training;

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Command::Sweep(args) => sweep::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Datagen(args) => datagen::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Report(args) => report::run(&args),
        Command::Workloads => Ok(workloads::run()),
        Command::Config(args) => config::run(&args),
        Command::Completions { shell } => {
            // Into memory first: clap_complete panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "feedrate", &mut script);
            say(String::from_utf8_lossy(&script).trim_end());
            Ok(Outcome::Finished)
        }
        Command::TrainTask(args) => training::train_task(args.options()),
        Command::ServeTask => embedded::serve_task(),
    }
}

/// The one I/O runtime of a process: a thread per CPU.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(thread::available_parallelism().map_or(1, usize::from))
        .thread_name("io")
        .enable_all()
        .build()
        .context("cannot start the I/O threads")
}

/// Refuses what cannot be done while reading.
fn check_reading(workload: &Workload, read: &ReadArgs) -> anyhow::Result<()> {
    if read.verify && !workload.reads_storage() {
        return Err(usage(
            "the workload simulates its I/O, so there is nothing to verify: leave --verify off",
        ));
    }
    check_payload(workload.reader.payload, read.verify).map_err(|error| usage(error.to_string()))
}

/// Says what is odd about workloads, and what in them makes no difference; once what several have in
/// common.
pub(crate) fn note_warnings<'a>(quiet: bool, resolved: impl IntoIterator<Item = &'a Resolved>) {
    let mut said = Vec::new();
    for resolved in resolved {
        let warnings = resolved.warnings.iter().map(|remark| ("warning", remark));
        let notes = resolved.notes.iter().map(|remark| ("note", remark));
        for remark in warnings.chain(notes) {
            if !said.contains(&remark) {
                let (kind, text) = remark;
                note(quiet, format_args!("{kind}: {text}"));
                said.push(remark);
            }
        }
    }
}

/// The workload of a run with `ranks_here` ranks on this machine, or on the one that has most of them.
pub(crate) fn settled(resolved: &Resolved, ranks_here: u32) -> Workload {
    let mut workload = resolved.workload.clone();
    settle(&mut workload, ranks_here);
    workload
}

/// Sets what follows from this machine's cores.
pub(crate) fn settle(workload: &mut Workload, ranks_here: u32) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    workload.settle_threads(ranks_here, cores as u32);
}
