//! What `dlio_benchmark` takes from Hydra: its command line, and the composition of a configuration
//! from groups of files (spec/dlio.md 1.2 to 1.6).
//!
//! [`CommandLine`] sorts the arguments into options and overrides. [`Composition`] says where
//! configuration files are looked for; together with the overrides it is the source of a
//! [`Request`](crate::Request), which [`resolve()`](crate::resolve()) makes a workload of like any other,
//! and [`compose`](crate::compose()) a tree to print. A primary file, `config`, has a list of defaults
//! that names one file for each group; `workload=NAME` on the command line chooses another for the
//! group `workload`. What the files say is laid over one another, then come the overrides, each below
//! the root of the tree, where `workload` is one node. The `hydra` node beside it says where the run
//! keeps its files ([`Run`]).

mod command_line;
mod composition;
mod defaults;
mod query;
mod run;
mod search_path;

pub use command_line::{Action, CommandLine, UsageError};
pub(crate) use composition::Composed;
pub use composition::Composition;
pub use query::query;
pub use run::Run;
pub(crate) use run::{concerns, run};
