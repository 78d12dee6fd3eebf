//! Ctrl-C and SIGTERM.

use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::INTERRUPTED;
use crate::output::tell;

/// Ends this process with code 130 on the first SIGINT or SIGTERM, after saying `what_stays`.
///
/// Nothing else needs to be done: finished epochs are on disk, and child processes (a training, the
/// embedded server) end by themselves when the pipe from this process closes. They are in process
/// groups of their own, so that a terminal's Ctrl-C does not end them first, which would look like a
/// failure of theirs.
pub(crate) fn exit_on_signal(runtime: &Handle, what_stays: &'static str) {
    runtime.spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tell(format_args!("\ninterrupted; {what_stays}"));
        std::process::exit(i32::from(INTERRUPTED));
    });
}
