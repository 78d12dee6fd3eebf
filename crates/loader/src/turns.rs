//! Whose GET goes next, among all ranks of a process.
//!
//! Windows are upper bounds, not targets. More in flight than the demand needs costs CPU and
//! stretches the tail of latencies: the one late file of a rank's next batch then waits behind other
//! ranks' files of batches that nobody needs yet. So
//! - **first batches first**: at the start of an epoch every rank waits for its first batch at once.
//!   Those GETs all go out, and none that reads ahead does before every rank has its first batch
//!   ([`FirstBatches`]);
//! - **earlier batches first**: GETs that read ahead take turns in the order in which batches need
//!   the files, whichever rank's they are;
//! - **no more than needed**: there are as many turns as [`Ramp`] finds to be enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::first_batches::{FirstBatches, Gate};
use crate::ramp::Ramp;

/// The order of GETs; shared by the loaders of a process.
#[derive(Debug)]
pub struct Turns {
    first_batches: FirstBatches,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ramp: Ramp,
    in_flight: usize,
    /// GETs that wait, by the batch that needs them, then in the order in which they were asked for.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<Turn>>,
    asked: u64,
}

/// The right to have one GET in flight; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Turns>>);

impl Turns {
    /// For `ranks` ranks whose accelerators together consume `files_per_second` (endless for steps
    /// that take no time) and whose windows together hold `most` files.
    pub fn new(ranks: u32, files_per_second: f64, most: usize) -> Arc<Self> {
        let state = State {
            ramp: Ramp::new(files_per_second, most),
            in_flight: 0,
            waiting: BTreeMap::new(),
            asked: 0,
        };
        Arc::new(Self { first_batches: FirstBatches::new(ranks), state: Mutex::new(state) })
    }

    /// Asks for a turn for a file that `batch` (from 0, within the epoch) needs. Asking decides the
    /// order; the turn may come later.
    pub(crate) fn ask(self: &Arc<Self>, batch: u64) -> oneshot::Receiver<Turn> {
        let (grant, granted) = oneshot::channel();
        {
            let mut state = self.lock();
            state.asked += 1;
            if batch == 0 {
                state.ramp.epoch_starts();
            }
            let place = (batch, state.asked);
            state.waiting.insert(place, grant);
        }
        self.grant();
        granted
    }

    /// A GET took `latency` to its last byte.
    pub(crate) fn landed(&self, latency: Duration) {
        self.lock().ramp.landed(latency);
    }

    /// A rank had to wait for a batch, not its first.
    pub(crate) fn fell_short(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            if !state.waiting.is_empty() {
                state.ramp.fell_short();
            }
        }
        self.grant();
    }

    /// Whether all ranks have their first batch of the epoch with this number, from 1.
    pub(crate) fn gate(&self, epoch: u64) -> Gate {
        self.first_batches.gate(epoch)
    }

    /// A rank has its first batch of the epoch, or will never have it. Once an epoch for each rank.
    pub(crate) fn first_batch_complete(&self) {
        self.first_batches.complete_one();
    }

    /// Gives turns to those for whom there are any.
    fn grant(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                let Some(entry) = state.waiting.first_entry() else { return };
                let (batch, _) = *entry.key();
                if batch > 0 && state.in_flight >= state.ramp.target() {
                    return;
                }
                let Some((_, next)) = state.waiting.pop_first() else { return };
                state.in_flight += 1;
                next
            };
            // A GET that was cancelled while it waited leaves its turn to the next.
            if let Err(mut unused) = next.send(Turn(Some(Arc::clone(self)))) {
                unused.0 = None;
                self.lock().in_flight -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.lock().in_flight -= 1;
            turns.grant();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of which 16 are taken, and those who took them.
    fn all_taken() -> (Arc<Turns>, Vec<Turn>) {
        let turns = Turns::new(1, 1.0, 100);
        let taken = (0..16).map(|_| turns.ask(1).try_recv().unwrap()).collect();
        (turns, taken)
    }

    #[test]
    fn first_batches_are_not_made_to_wait() {
        let (turns, _taken) = all_taken();
        assert!(turns.ask(0).try_recv().is_ok());
        assert!(turns.ask(1).try_recv().is_err());
    }

    #[test]
    fn earlier_batches_go_first_whoever_asked_first() {
        let (turns, mut taken) = all_taken();
        let mut asked: Vec<_> = [5, 3, 4, 3].map(|batch| turns.ask(batch)).into();
        let mut order = Vec::new();
        for _ in 0..4 {
            taken.pop();
            let (place, turn) = asked
                .iter_mut()
                .enumerate()
                .find_map(|(place, asked)| asked.try_recv().ok().map(|turn| (place, turn)))
                .unwrap();
            order.push(place);
            taken.insert(0, turn);
        }
        assert_eq!(order, [1, 3, 2, 0]);
    }

    #[test]
    fn a_cancelled_get_leaves_its_turn_to_the_next() {
        let (turns, mut taken) = all_taken();
        drop(turns.ask(2));
        let mut next = turns.ask(3);
        taken.pop();
        assert!(next.try_recv().is_ok());
        drop(taken);
        assert_eq!(turns.lock().in_flight, 0);
    }

    #[test]
    fn a_turn_that_was_granted_and_never_picked_up_is_given_back() {
        let turns = Turns::new(1, 1.0, 100);
        drop(turns.ask(1));
        assert_eq!(turns.lock().in_flight, 0);
    }
}
