//! Result files and tables.
//!
//! Two saved records are the source of everything that is shown: a run's `feedrate.json`
//! ([`RunReport`]: what was asked, where it ran, what was measured) and a sweep's `sweep.json`
//! ([`Sweep`]: the figures of its runs side by side). From them come
//! - the files that tools around DLIO read ([`dlio`]) and its log lines ([`log`]),
//! - tables, Markdown and text for people ([`sweep`], [`run`]), which [`rebuild()`] can write again
//!   at any time,
//! - comparisons: of the sweeps that one command interleaved ([`Study`]), and of any two saved
//!   results ([`compare()`]).
//!
//! Figures are computed once, in [`RunFigures`], by the pure functions of `feedrate-metrics`; every
//! file and table shows those. A figure that cannot be known is null or a dash; only DLIO's own keys
//! say 0 instead, because their readers expect a number.
//!
//! Every file is written under a temporary name and renamed, so a reader never meets half a file.

mod comparison;
pub mod dlio;
mod error;
mod file;
pub mod folders;
mod host;
pub mod log;
mod nodes;
mod origin;
pub mod postprocess;
mod rebuild;
pub mod run;
mod secrets;
mod study;
pub mod sweep;
mod table;
mod text;

#[cfg(test)]
mod fixtures;

pub use comparison::{Comparison, Difference, FigureComparison, NpComparison, Side};
pub use error::ReportError;
pub use host::HostFacts;
pub use nodes::{NodeFacts, Nodes, NodesError};
pub use origin::{ConfiguredValue, Origin, Store, shell_word};
pub use rebuild::{Rebuilt, compare, rebuild};
pub use run::{
    Breakdown, Course, EvaluationFigures, InFlightFigures, NodeFigures, RankFigure, RunFigures,
    RunReport, Skipped, WaitShares,
};
pub use study::{Series, Study};
pub use sweep::{ProcessFacts, Sweep, SweepRun};
