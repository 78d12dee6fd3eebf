//! A text report from the folder of a DLIO run.

use std::process::ExitCode;

fn main() -> ExitCode {
    feedrate_cli::dlio_postprocessor()
}
