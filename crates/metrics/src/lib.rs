//! Records of a run, and the pure functions that turn them into figures.
//!
//! Three layers, each knowing only the one before it:
//! 1. **Records** ([`record`], [`requests`], [`decode`], [`process`]): what was measured, with no opinion. Ranks
//!    write [`record::StepRecord`]s, storage writes [`requests::RequestStats`].
//! 2. **Figures** ([`utilization`], [`throughput`], [`evaluation`], [`extremes`], [`verdict`],
//!    [`stats`]): pure functions of records. A figure that cannot be known is `None`, never zero, and
//!    nothing is capped to look plausible.
//! 3. Showing them is the report's business.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Feedrate runs on Linux on x86_64 and aarch64 only.");

pub mod decode;
pub mod evaluation;
pub mod extremes;
pub mod in_flight;
pub mod process;
pub mod record;
pub mod requests;
pub mod stats;
pub mod throughput;
pub mod units;
pub mod utilization;
pub mod verdict;
