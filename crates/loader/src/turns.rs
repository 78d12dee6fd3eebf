//! Whose read goes next, among all ranks of a process, and how many there are at a time.
//!
//! Windows are upper bounds, not targets. More in flight than the demand needs costs CPU and
//! stretches the tail of latencies: the one late file of a rank's next batch then waits behind other
//! ranks' files of batches that nobody needs yet. So with `reader.window` `auto`
//! - **first batches first**: at the start of an epoch every rank waits for its first batch at once, so
//!   nothing is read ahead before all of these files are asked for ([`FirstBatches`]);
//! - **earlier batches first**: reads take turns in the order in which batches need the files, whichever
//!   rank's they are;
//! - **no more than needed**: there are as many turns as [`Ramp`] finds to be enough, and nothing is
//!   asked for further ahead than it says.
//!
//! With `fixed` nobody takes turns, as in DLIO: what windows, the ready bound and the byte budget allow
//! goes out at once. Only what is in flight is noted.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use feedrate_metrics::in_flight::{InFlight, Learnt, Series};
use feedrate_metrics::units::Seconds;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::first_batches::{FirstBatches, Gate};
use crate::ramp::{Demand, Ramp};

/// Batches that are asked for ahead of a rank however long its steps take.
const LEAST_BATCHES: u64 = 2;

/// The order of reads; shared by the loaders of a process.
#[derive(Debug)]
pub struct Turns {
    demand: Demand,
    /// `None` where nobody takes turns.
    first_batches: Option<FirstBatches>,
    /// Batches that may be asked for ahead of a rank.
    ahead: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ramp: Option<Ramp>,
    in_flight: usize,
    /// Reads that wait, by the batch that needs them, then in the order in which they were asked for.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<Turn>>,
    asked: u64,
    began: Option<Instant>,
    series: Series,
}

/// The right to have one read in flight; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Turns>>);

/// A place in the line of those who asked for a turn. There is none when the loaders are gone.
#[derive(Debug)]
pub(crate) enum Place {
    /// It came at once.
    Granted(Option<Turn>),
    /// It will come.
    Waiting(oneshot::Receiver<Turn>),
}

impl Future for Place {
    type Output = Option<Turn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Granted(turn) => Poll::Ready(turn.take()),
            Self::Waiting(granted) => Poll::Ready(ready!(Pin::new(granted).poll(context)).ok()),
        }
    }
}

impl Turns {
    /// For `ranks` ranks, which take turns.
    pub fn auto(ranks: u32, demand: Demand) -> Arc<Self> {
        Self::with(demand, Some(ranks))
    }

    /// For ranks that do not take turns.
    pub fn fixed(demand: Demand) -> Arc<Self> {
        Self::with(demand, None)
    }

    fn with(demand: Demand, ranks: Option<u32>) -> Arc<Self> {
        let state = State {
            ramp: ranks.map(|_| Ramp::new(demand)),
            in_flight: 0,
            waiting: BTreeMap::new(),
            asked: 0,
            began: None,
            series: Series::default(),
        };
        let turns = Self {
            demand,
            first_batches: ranks.map(FirstBatches::new),
            ahead: AtomicU64::new(u64::MAX),
            state: Mutex::new(state),
        };
        turns.look_ahead(&turns.lock());
        Arc::new(turns)
    }

    /// What there was until now.
    pub fn in_flight(&self) -> InFlight {
        let mut state = self.lock();
        self.note(&mut state, Instant::now());
        let learnt = state.ramp.as_ref().map(|ramp| {
            let per_second = self.demand.pieces_per_second;
            let (doubled, halved) = ramp.changes();
            Learnt {
                wanted_per_second: per_second.is_finite().then_some(per_second),
                quickest: ramp.quickest().map(Seconds::from),
                doubled,
                halved,
                batches_ahead: self.batches(ramp.ahead()),
                most_batches_ahead: self.batches(ramp.most_ahead()),
            }
        });
        InFlight { learnt, series: state.series.clone() }
    }

    /// Asks for a turn for a file that `batch` (from 0, within the epoch) needs. Asking decides the
    /// order; the turn may come later.
    pub(crate) fn ask(self: &Arc<Self>, batch: u64) -> Place {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.asked += 1;
        let now = Instant::now();
        let idle = state.in_flight == 0;
        if let Some(ramp) = &mut state.ramp {
            if batch == 0 && idle {
                ramp.epoch_starts(now);
            }
            if state.in_flight >= ramp.target() {
                let (grant, granted) = oneshot::channel();
                state.waiting.insert((batch, state.asked), grant);
                return Place::Waiting(granted);
            }
        }
        state.in_flight += 1;
        self.note(state, now);
        Place::Granted(Some(Turn(Some(Arc::clone(self)))))
    }

    /// A read took `latency` to its last byte.
    pub(crate) fn landed(self: &Arc<Self>, latency: Duration) {
        let mut state = self.lock();
        let first = state.waiting.first_key_value().map(|((batch, _), _)| *batch);
        let Some(ramp) = &mut state.ramp else { return };
        ramp.landed(Instant::now(), latency, first.is_some(), first == Some(0));
        self.look_ahead(&state);
        self.grant(state);
    }

    /// A rank had to wait for a batch, not its first.
    pub(crate) fn fell_short(self: &Arc<Self>) {
        let mut state = self.lock();
        let Some(ramp) = &mut state.ramp else { return };
        ramp.fell_short(Instant::now());
        self.look_ahead(&state);
        self.grant(state);
    }

    /// How many batches may be asked for ahead of a rank, from the one that it takes next.
    pub(crate) fn batches_ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Whether all ranks have asked for their first batch of the epoch with this number, from 1; `None`
    /// where that does not matter.
    pub(crate) fn gate(&self, epoch: u64) -> Option<Gate> {
        self.first_batches.as_ref().map(|first_batches| first_batches.gate(epoch))
    }

    /// A rank has asked for all of its first batch of the epoch, or never will. Once an epoch for each
    /// rank.
    pub(crate) fn first_batch_asked(&self) {
        if let Some(first_batches) = &self.first_batches {
            first_batches.one_asked();
        }
    }

    /// How many steps of a rank begin in so much time.
    fn batches(&self, time: Duration) -> Option<u64> {
        let Demand { step, work, .. } = self.demand;
        let batches = ((time.as_secs_f64() + work.0) / step.0).ceil();
        (step.0 > 0.0).then_some((batches as u64).max(LEAST_BATCHES))
    }

    fn look_ahead(&self, state: &State) {
        if let Some(ramp) = &state.ramp {
            let batches = self.batches(ramp.ahead()).unwrap_or(u64::MAX);
            self.ahead.store(batches, Ordering::Relaxed);
        }
    }

    /// Notes what is in flight from now on.
    fn note(&self, state: &mut State, now: Instant) {
        let at = now - *state.began.get_or_insert(now);
        let allowed = state.ramp.as_ref().map_or(self.demand.most, Ramp::target);
        let gets = |pieces: usize| pieces.saturating_mul(self.demand.gets_per_piece);
        state.series.set(at, gets(state.in_flight), gets(allowed));
    }

    /// Gives turns to those for whom there are any.
    fn grant<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        while let Some(ramp) = &state.ramp
            && state.in_flight < ramp.target()
            && let Some((_, next)) = state.waiting.pop_first()
        {
            state.in_flight += 1;
            // A read that was cancelled while it waited leaves its turn to the next.
            if let Err(mut unused) = next.send(Turn(Some(Arc::clone(self)))) {
                unused.0 = None;
                state.in_flight -= 1;
            }
        }
        self.note(&mut state, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            let mut state = turns.lock();
            state.in_flight -= 1;
            turns.grant(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn granted(asked: &mut Place) -> Option<Turn> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match Pin::new(asked).poll(&mut context) {
            Poll::Ready(turn) => Some(turn.expect("the turns are still there")),
            Poll::Pending => None,
        }
    }

    /// Turns for a store that is near, of which all are taken, and those who took them.
    fn all_taken() -> (Arc<Turns>, Vec<Turn>) {
        let turns = Turns::auto(1, Demand::endless(100));
        turns.landed(MILLI);
        let taken = (0..8).map(|_| granted(&mut turns.ask(1)).unwrap()).collect();
        assert!(granted(&mut turns.ask(0)).is_none());
        (turns, taken)
    }

    #[test]
    fn earlier_batches_go_first_whoever_asked_first() {
        let (turns, mut taken) = all_taken();
        let mut asked: Vec<_> = [5, 0, 4, 0].map(|batch| turns.ask(batch)).into();
        let mut order = Vec::new();
        for _ in 0..4 {
            taken.pop();
            let (place, turn) = asked
                .iter_mut()
                .enumerate()
                .filter(|(place, _)| !order.contains(place))
                .find_map(|(place, asked)| granted(asked).map(|turn| (place, turn)))
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
        let next = granted(&mut next).unwrap();
        drop((taken, next));
        assert_eq!(turns.lock().in_flight, 0);
    }

    #[test]
    fn a_turn_that_was_granted_and_never_picked_up_is_given_back() {
        let turns = Turns::auto(1, Demand::endless(100));
        drop(turns.ask(1));
        assert_eq!(turns.lock().in_flight, 0);
    }

    #[test]
    fn before_anything_has_landed_a_distant_store_is_possible() {
        let turns = Turns::auto(1, Demand::endless(100));
        let asked: Vec<_> = (0..100).map(|_| turns.ask(1)).collect();
        assert_eq!(turns.lock().in_flight, 32);
        drop(asked);
    }

    #[test]
    fn large_pieces_that_come_by_several_gets_take_fewer_turns() {
        let turns = Turns::auto(1, Demand { gets_per_piece: 4, ..Demand::endless(100) });
        turns.landed(MILLI);
        let _first = [turns.ask(1), turns.ask(1)];
        assert!(granted(&mut turns.ask(1)).is_none());
        let intervals: Vec<_> = turns.in_flight().series.intervals().collect();
        assert!(intervals.iter().any(|one| one.most == 8), "{intervals:?}");
    }

    #[test]
    fn nobody_waits_where_windows_are_fixed() {
        let turns = Turns::fixed(Demand::endless(100));
        turns.landed(MILLI);
        turns.fell_short();
        let asked: Vec<_> = (0..100).map(|batch| granted(&mut turns.ask(batch)).unwrap()).collect();
        assert!(turns.gate(1).is_none());
        assert_eq!(turns.batches_ahead(), u64::MAX);
        drop(asked);
        let InFlight { learnt, series } = turns.in_flight();
        assert_eq!(learnt, None);
        assert!(series.intervals().all(|one| (one.most, one.allowed) == (100, 100)), "{series:?}");
        assert_eq!(turns.lock().in_flight, 0);
    }

    #[test]
    fn batches_are_asked_for_so_much_time_ahead() {
        let ahead = |step, work| {
            let demand = Demand { step: Seconds(step), work: Seconds(work), ..Demand::endless(9) };
            Turns::auto(1, demand).batches_ahead()
        };
        assert_eq!(ahead(0.05, 0.0), 4);
        assert_eq!(ahead(0.04755, 0.0), 5);
        assert_eq!(ahead(0.000_375, 0.0), 534);
        assert_eq!(ahead(3.0, 0.0), 2);
        assert_eq!(ahead(0.05, 0.2), 8);
        assert_eq!(ahead(0.0, 1.0), u64::MAX);
        assert_eq!(ahead(1e-300, 1.0), u64::MAX);
    }

    #[test]
    fn what_was_learnt_is_told() {
        let demand =
            Demand { pieces_per_second: 500.0, step: Seconds(0.1), ..Demand::endless(100) };
        let turns = Turns::auto(1, demand);
        let learnt = |turns: &Turns| turns.in_flight().learnt.unwrap();
        assert_eq!(
            (learnt(&turns).quickest, learnt(&turns).wanted_per_second),
            (None, Some(500.0))
        );
        turns.landed(20 * MILLI);
        turns.fell_short();
        assert_eq!(learnt(&turns).batches_ahead, Some(2));
        turns.landed(500 * MILLI);
        turns.fell_short();
        let Learnt { quickest, batches_ahead, most_batches_ahead, .. } = learnt(&turns);
        assert_eq!(quickest, Some(Seconds(0.02)));
        assert_eq!((batches_ahead, most_batches_ahead), (Some(8), Some(8)));
        assert_eq!(turns.batches_ahead(), 8);
    }
}
