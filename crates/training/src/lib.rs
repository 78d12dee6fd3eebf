//! Epochs, steps and the simulated accelerator.
//!
//! [`run`] plays a whole training on the ranks of one process, together with the processes that have
//! the other ranks: every rank is an OS thread that loops over the steps of an epoch (wait for a batch,
//! compute, meet the others) and, where one is due, through an evaluation behind them. Before each
//! epoch the page cache of each node is emptied; after each epoch rank 0 gathers the records, adds
//! them to the [`RunRecord`](feedrate_metrics::record::RunRecord) and hands it to the [`Observer`],
//! which puts it on disk before the next epoch starts.
//!
//! The timed path is synchronous: the only things a step does are taking a batch from the loader's
//! queue, sleeping to an absolute deadline, and a barrier. It allocates nothing, and asks the kernel only
//! to wait and to wake others; where waits are short and CPUs are idle, ranks spin at their ends instead.

mod clock;
mod cpu;
mod epoch;
mod job;
mod page_cache;
mod phase;
mod progress;
mod report;
mod waiting;
mod waits;

pub use job::{EvaluationSet, Job, Observer, RunError, run};
pub use progress::{Progress, ProgressNow};
