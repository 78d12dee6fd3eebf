//! Progress on stderr: bars that only draw, gone when stderr is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, hidden under `--quiet` and where stderr is no terminal.
fn bar(length: u64, quiet: bool, template: &str) -> ProgressBar {
    let target =
        if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    // A template is a constant; one that does not parse leaves the plain bar.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Bytes of a data set being generated.
pub(crate) fn generation(total_bytes: u64, quiet: bool) -> ProgressBar {
    bar(
        total_bytes,
        quiet,
        "generating {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  \
         {msg}  ETA {eta}",
    )
}

/// Steps of all epochs of one run.
pub(crate) fn training(total_steps: u64, np: u32, quiet: bool) -> ProgressBar {
    bar(
        total_steps,
        quiet,
        &format!("NP {np:<3} {{wide_bar}} step {{pos}}/{{len}}  {{msg}}  ETA {{eta}}"),
    )
}
