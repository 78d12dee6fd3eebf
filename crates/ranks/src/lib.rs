//! Who am I among how many: barrier, gather and broadcast over the ranks of a job.
//!
//! A rank sees the others only through [`World`]. [`in_process`] makes worlds whose ranks are threads
//! of one process; with the feature `mpi`, the module `mpi` makes worlds whose ranks are threads of
//! many processes on many hosts. Every collective call can end in [`Aborted`]: a rank that fails calls
//! [`World::abort`] with its error, and whoever waits in a collective, now or later, gets that error
//! instead of waiting for ever.

pub mod in_process;
mod meeting;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod spinning;
mod team;

use std::fmt;
use std::sync::Arc;

use self::spinning::Spinning;

/// Why a collective call did not complete: some rank failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}{} failed: {cause}", on(host.as_deref()))]
pub struct Aborted {
    /// The rank that failed first.
    pub rank: u32,
    /// The host that it ran on, where ranks run on more than one.
    pub host: Option<String>,
    /// Its error.
    pub cause: String,
}

fn on(host: Option<&str>) -> String {
    host.map(|host| format!(" on {host}")).unwrap_or_default()
}

/// One rank's view of the job. Collectives are called by all ranks in the same order.
pub trait World: Send + Sync + fmt::Debug {
    /// This rank's number, from 0.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// Whether it is the lowest rank on its node, and so the one that does there what is done once on
    /// each node.
    fn leads_node(&self) -> bool;

    /// Whether the ranks of this process may spin; its barrier goes by that.
    fn spinning(&self) -> &Arc<Spinning>;

    /// Returns when all ranks have called it.
    fn barrier(&self) -> Result<(), Aborted>;

    /// Brings every rank's `payload` to rank 0, in the order of ranks; the others get `None`.
    fn gather(&self, payload: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted>;

    /// Gives rank 0's `payload` to every rank; the others' payloads are ignored.
    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted>;

    /// Ends the job: every rank's current or next collective fails with this rank's `cause`. Only
    /// the first call counts.
    fn abort(&self, cause: String);
}
