//! The programs: `feedrate`, and those that stand where DLIO's stood. Each binary in `src/bin` is one
//! call of a function here.

mod args;
mod commands;
mod crew;
mod data;
mod dlio;
mod embedded;
mod environment;
mod exit;
mod interrupt;
mod launcher;
mod output;
mod postprocessor;
mod profiler;
mod progress;
mod store;
mod training;

use std::process::ExitCode;

use clap::Parser;

/// `feedrate`.
pub fn feedrate() -> ExitCode {
    let args = args::Args::parse();
    exit::code(commands::run(args))
}

/// `dlio_benchmark`.
pub fn dlio_benchmark() -> ExitCode {
    exit::code(dlio::benchmark())
}

/// `dlio_benchmark_query`.
pub fn dlio_benchmark_query() -> ExitCode {
    exit::code(dlio::query())
}

/// `dlio_postprocessor`.
pub fn dlio_postprocessor() -> ExitCode {
    exit::code(postprocessor::run(postprocessor::Args::of_process()))
}
