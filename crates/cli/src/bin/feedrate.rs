//! Feedrate: how many accelerators can this storage keep fed?

use std::process::ExitCode;

fn main() -> ExitCode {
    feedrate_cli::feedrate()
}
