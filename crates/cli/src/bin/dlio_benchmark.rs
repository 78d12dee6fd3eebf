//! DLIO's command line, in front of Feedrate.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedrate_cli::dlio_benchmark()
}
