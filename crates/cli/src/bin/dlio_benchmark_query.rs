//! Prints one value of a configuration.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedrate_cli::dlio_benchmark_query()
}
