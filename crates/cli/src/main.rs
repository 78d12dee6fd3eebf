//! Feedrate: how many accelerators can this storage keep fed?

mod args;
mod commands;
mod embedded;
mod environment;
mod exit;
mod interrupt;
mod output;
mod progress;
mod store;
mod training;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    exit::code(commands::run(args))
}
