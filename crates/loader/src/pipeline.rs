//! What the two ways of reading ahead have in common, and where they may differ.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_dataset::Visit;

use crate::batch::Held;
use crate::limits::Limits;
use crate::source::Source;

/// Decides which file of a rank's epoch is asked for next, and when. Everything else (reading,
/// counting bytes, forming batches in order, handing them over) is the [`Feeder`](crate::feeder)'s.
///
/// Visits are known by their number in the epoch, from 0: the order in which batches need them.
pub(crate) trait Pipeline: Send + 'static {
    /// What a GET waits for before it goes out; it keeps the outcome until it is over. Turns come in the
    /// order in which they were asked for.
    type Turn: Future<Output: Send + 'static> + Send + Unpin + 'static;

    /// The next visit to ask for, if one may be asked for now that the rank has taken `taken`
    /// batches.
    fn next(&mut self, taken: u64) -> Option<(u64, Visit)>;

    /// The turn of the GET of a visit that [`next`](Self::next) has just given.
    fn turn(&mut self, visit: &Visit) -> Self::Turn;

    /// The file of visit `number` is here; the store took `latency`.
    fn landed(&mut self, number: u64, latency: Duration);

    /// Lets readers use what has landed, as far as batches before the one numbered `batches` go.
    /// Called before each look at [`usable_since`](Self::usable_since).
    fn go_on(&mut self, taken: u64, batches: u64);

    /// Since when visit `number`, which has `landed`, may become part of a batch; `None` when it may
    /// not yet.
    fn usable_since(&self, number: u64, landed: Instant) -> Option<Instant>;

    /// Visit `number` has become part of its last batch.
    fn used(&mut self, number: u64);

    /// A batch is complete.
    fn batch_made(&mut self) {}

    /// The rank has waited `waits` times for a batch, its first not counted.
    fn waited(&mut self, _waits: u64) {}

    /// Whether all visits were asked for.
    fn is_at_end(&mut self) -> bool;

    /// Returns when [`next`](Self::next) may have another answer for a reason of the pipeline's own.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// A rank's byte budget, as one that wants to ask for a file sees it.
#[derive(Debug)]
pub(crate) struct Room {
    source: Arc<Source>,
    held: Arc<Held>,
    batch_size: u64,
    budget: u64,
}

impl Room {
    /// `kept_free` bytes of the budget are for files of the next batch alone.
    pub(crate) fn new(
        source: &Arc<Source>,
        held: &Arc<Held>,
        limits: &Limits,
        batch_size: u64,
        kept_free: u64,
    ) -> Self {
        Self {
            source: Arc::clone(source),
            held: Arc::clone(held),
            batch_size,
            budget: limits.byte_budget.0.saturating_sub(kept_free),
        }
    }

    /// Whether `visit`'s file may be held, too: it fits, or the batch that the rank takes next, behind
    /// the `taken` it has, needs it.
    pub(crate) fn has_place_for(&self, visit: &Visit, taken: u64) -> bool {
        let needed_next = visit.first_position < (taken + 1) * self.batch_size;
        needed_next || self.held.bytes() + self.source.expected_bytes(visit) <= self.budget
    }

    /// The batch that needs `visit` first.
    pub(crate) fn batch(&self, visit: &Visit) -> u64 {
        visit.first_position / self.batch_size
    }
}
