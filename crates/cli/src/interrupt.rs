//! Ctrl-C and SIGTERM.

use std::io;

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::INTERRUPTED;
use crate::output::tell;

/// The signals by which a user or a launcher ends a process. From the first value of
/// this type on they do nothing by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen. To be called on a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Completes with the next signal: SIGINT or SIGTERM.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }
}

/// Ends this process with code 130 on the first SIGINT or SIGTERM, after saying `what_stays`.
///
/// Nothing else needs to be done: finished epochs are on disk, and child processes (a training, the
/// embedded server) end by themselves when the pipe from this process closes. They are in process
/// groups of their own, so that a terminal's Ctrl-C does not end them first, which would look like a
/// failure of theirs.
pub(crate) fn exit_on_signal(runtime: &Handle, what_stays: &'static str) {
    runtime.spawn(async move {
        let Ok(mut signals) = Signals::new() else { return };
        signals.next().await;
        tell(format_args!("\ninterrupted; {what_stays}"));
        std::process::exit(i32::from(INTERRUPTED));
    });
}
