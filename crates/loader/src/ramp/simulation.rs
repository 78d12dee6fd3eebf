//! Trainings on a store that is a queueing model, in simulated time: what a [`Ramp`] settles at, and
//! what the accelerators lose meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::{Demand, Ramp};

const MILLI: Duration = Duration::from_millis(1);

/// A GET is on its way for what `way` draws, and then queues for one of the servers, each of which takes
/// `service` for it.
struct Store {
    way: Box<dyn FnMut(&mut StdRng) -> Duration>,
    servers: usize,
    service: Duration,
    /// No server begins with anything in this time, counted from the beginning.
    stall: Range<Duration>,
    /// How many times as long as otherwise a service takes that begins in the n-th 20 ms.
    slowdown: fn(u32) -> u32,
}

impl Store {
    /// One with room for everything.
    fn distant(way: Duration) -> Self {
        Self {
            way: Box::new(move |_| way),
            servers: usize::MAX,
            service: Duration::ZERO,
            stall: Duration::ZERO..Duration::ZERO,
            slowdown: |_| 1,
        }
    }

    /// Two cores that are busy with a GET for 0.17 ms: enough for 23 accelerators of RetinaNet.
    fn near() -> Self {
        Self { servers: 2, service: MILLI.mul_f64(0.17), ..Self::distant(MILLI / 10) }
    }

    /// The same two cores, of which other programs take half or all but an eighth, now and again for as
    /// long as 60 ms.
    fn near_and_shared() -> Self {
        let slowdown = |slot: u32| {
            [1, 1, 2, 1, 8, 1, 1, 2][(slot / 3).wrapping_mul(0x9e37_79b9) as usize >> 29]
        };
        Self { slowdown, ..Self::near() }
    }

    /// One of a hundred GETs takes ten times as long as the others.
    fn with_a_slow_tail(way: Duration) -> Self {
        let draw = move |draw: &mut StdRng| if draw.random_bool(0.01) { 10 * way } else { way };
        Self { way: Box::new(draw), ..Self::distant(way) }
    }

    /// Nobody is as quick as the quickest: on their way for 8 ms, and then for 25 ms in the mean.
    fn with_a_spread() -> Self {
        let draw =
            |draw: &mut StdRng| MILLI.mul_f64(8.0 - 25.0 * (1.0 - draw.random::<f64>()).ln());
        Self { way: Box::new(draw), ..Self::distant(MILLI) }
    }

    /// 32 disks of 4 ms, 16 ms away: 8,000 GETs in a second, which keep 160 in flight.
    fn of_disks() -> Self {
        Self { servers: 32, service: 4 * MILLI, ..Self::distant(16 * MILLI) }
    }
}

/// Ranks of one process, each with a `window`, that meet behind each step.
#[derive(Debug, Clone, Copy)]
struct Training {
    ranks: usize,
    batch: usize,
    step: Duration,
    steps: usize,
    window: usize,
    /// Whether windows alone decide.
    fixed: bool,
}

/// `RetinaNet` on B200s.
fn retinanet(ranks: usize) -> Training {
    let step = Duration::from_micros(47_550);
    Training { ranks, batch: 24, step, steps: 400, window: 512, fixed: false }
}

/// What came of a training.
#[derive(Debug)]
struct Outcome {
    /// The share of the time that accelerators computed, in percent; the first step is left out.
    au: f64,
    /// How long all waited for their first batches.
    first: Duration,
    /// Of the waits of later steps, by the half of the training that they were in.
    waits: [Duration; 2],
    /// The target behind each step.
    targets: Vec<usize>,
    most_ahead: Duration,
}

impl Outcome {
    fn settled_at(&self) -> usize {
        let mut late = self.targets[self.targets.len() / 2..].to_vec();
        late.sort_unstable();
        late[late.len() / 2]
    }
}

impl Training {
    fn with_fixed_windows(self) -> Self {
        Self { fixed: true, ..self }
    }

    fn run(self, store: Store) -> Outcome {
        Simulation::new(self, store).run()
    }
}

struct Simulation {
    training: Training,
    store: Store,
    draw: StdRng,
    ramp: Ramp,
    began: Instant,
    now: Instant,
    /// GETs in flight, by when they land: the rank, its batch, when it was sent.
    landings: BinaryHeap<Reverse<(Instant, usize, usize, Instant)>>,
    /// When each busy server is free.
    busy: BinaryHeap<Reverse<Instant>>,
    /// How many wait for their turn, by batch and rank.
    waiting: BTreeMap<(usize, usize), usize>,
    asked: Vec<usize>,
    /// Files of each batch that have landed, for each rank.
    landed: Vec<Vec<usize>>,
}

impl Simulation {
    fn new(training: Training, store: Store) -> Self {
        let now = Instant::now();
        let files_per_step = (training.ranks * training.batch) as f64;
        Self {
            training,
            store,
            draw: StdRng::seed_from_u64(7),
            ramp: Ramp::new(Demand {
                pieces_per_second: files_per_step / training.step.as_secs_f64(),
                ..Demand::endless(training.ranks * training.window)
            }),
            began: now,
            now,
            landings: BinaryHeap::new(),
            busy: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            asked: vec![0; training.ranks],
            landed: vec![vec![0; training.steps]; training.ranks],
        }
    }

    fn run(mut self) -> Outcome {
        let Training { batch, step, steps, .. } = self.training;
        let mut first = Duration::ZERO;
        let mut waits = [Duration::ZERO; 2];
        let mut targets = Vec::new();
        self.ramp.epoch_starts(self.now);
        for taken in 0..steps {
            let asked = self.now;
            self.ask(taken);
            let short = self.landed.iter().any(|landed| landed[taken] < batch);
            while self.landed.iter().any(|landed| landed[taken] < batch) {
                self.land(taken);
            }
            if taken == 0 {
                first = self.now - asked;
            } else {
                waits[2 * taken / (steps + 1)] += self.now - asked;
                if short {
                    self.ramp.fell_short(self.now);
                }
            }
            self.ask(taken + 1);
            let computed = self.now + step;
            while self.landings.peek().is_some_and(|Reverse((at, ..))| *at <= computed) {
                self.land(taken + 1);
            }
            self.now = computed;
            targets.push(self.ramp.target());
        }
        let computed = step * (steps as u32 - 1);
        let waited: Duration = waits.iter().sum();
        let au = 100.0 * computed.div_duration_f64(computed + waited);
        Outcome { au, first, waits, targets, most_ahead: self.ramp.most_ahead() }
    }

    /// Ranks that have taken so many batches ask for what they may.
    fn ask(&mut self, taken: usize) {
        let Training { batch, step, steps, window, fixed, .. } = self.training;
        let batches = self.ramp.ahead().div_duration_f64(step).ceil() as usize;
        let ahead = if fixed { steps } else { batches.clamp(2, steps) };
        let (by_depth, by_window) = ((taken + ahead) * batch, taken * batch + window);
        let end = by_depth.min(by_window).min(steps * batch);
        for (rank, asked) in self.asked.iter_mut().enumerate() {
            while *asked < end {
                *self.waiting.entry((*asked / batch, rank)).or_default() += 1;
                *asked += 1;
            }
        }
        let at_a_time = if fixed { usize::MAX } else { self.ramp.target() };
        while self.landings.len() < at_a_time
            && let Some(mut first) = self.waiting.first_entry()
        {
            let (batch, rank) = *first.key();
            *first.get_mut() -= 1;
            if *first.get() == 0 {
                first.remove();
            }
            let lands = self.lands();
            self.landings.push(Reverse((lands, rank, batch, self.now)));
        }
    }

    /// When a GET that is sent now lands.
    fn lands(&mut self) -> Instant {
        let Store { way, servers, service, stall, slowdown } = &mut self.store;
        let mut begins = self.now + way(&mut self.draw);
        if stall.contains(&(begins - self.began)) {
            begins = self.began + stall.end;
        }
        if *servers < usize::MAX {
            while self.busy.peek().is_some_and(|Reverse(free)| *free <= begins) {
                self.busy.pop();
            }
            if self.busy.len() >= *servers
                && let Some(Reverse(free)) = self.busy.pop()
            {
                begins = free;
            }
        }
        let slot = (begins - self.began).as_millis() / 20;
        let ends = begins + *service * slowdown(slot as u32);
        if *servers < usize::MAX {
            self.busy.push(Reverse(ends));
        }
        ends
    }

    /// The next GET lands.
    fn land(&mut self, taken: usize) {
        let Some(Reverse((at, rank, batch, sent))) = self.landings.pop() else { return };
        self.now = self.now.max(at);
        self.landed[rank][batch] += 1;
        let first = self.waiting.first_key_value().map(|((batch, _), _)| *batch);
        self.ramp.landed(self.now, self.now - sent, first.is_some(), first == Some(0));
        self.ask(taken);
    }
}

#[test]
fn a_near_store_is_asked_for_no_more_than_keeps_it_busy() {
    for ranks in [1, 4, 8, 16, 22] {
        let outcome = retinanet(ranks).run(Store::near());
        assert!(outcome.au > 99.9, "{ranks} ranks: {outcome:?}");
        assert_eq!(outcome.settled_at(), 8, "{ranks} ranks: {outcome:?}");
        assert_eq!(outcome.most_ahead, super::AHEAD, "{ranks} ranks");
    }
}

#[test]
fn a_distant_store_is_asked_for_what_latency_and_demand_call_for() {
    for ranks in [1, 2, 4, 16] {
        for millis in [5, 20, 100] {
            let outcome = retinanet(ranks).run(Store::distant(millis * MILLI));
            assert!(outcome.au > 99.7, "{ranks} ranks, {millis} ms: {outcome:?}");
            // One latency to find out, and as fast as twice the demand from then on.
            let first = 2 * millis * MILLI + retinanet(ranks).step / 2;
            assert!(outcome.first <= first, "{ranks} ranks, {millis} ms: {outcome:?}");
            let busy = f64::from(millis) / 1e3 * (ranks * 24) as f64 / 0.04755;
            let expected = ((2.0 * busy) as usize).max(8);
            assert_eq!(outcome.settled_at(), expected, "{ranks} ranks, {millis} ms: {outcome:?}");
        }
    }
}

#[test]
fn where_most_reads_are_slower_than_the_quickest_more_are_let_go() {
    for ranks in [1, 4, 16] {
        let outcome = retinanet(ranks).run(Store::with_a_spread());
        let busy = 0.034 * (ranks * 24) as f64 / 0.04755;
        assert!(outcome.au > 99.0, "{ranks} ranks: {outcome:?}");
        assert!(outcome.waits[1] < 100 * MILLI, "{ranks} ranks: {outcome:?}");
        let settled = outcome.settled_at() as f64;
        assert!((busy..8.0 * busy).contains(&settled), "{ranks} ranks: {outcome:?}");
    }
}

#[test]
fn a_saturated_store_is_not_pushed() {
    let near = retinanet(32).run(Store::near());
    assert_eq!(near.settled_at(), 8, "{near:?}");
    assert!(near.targets.iter().all(|target| *target <= 16), "{near:?}");
    // Twice as much as it can bring: what latency and demand call for would be four times what
    // keeps it busy.
    let training = Training { steps: 1000, ..retinanet(32) };
    let outcome = training.run(Store::of_disks());
    let fixed = training.with_fixed_windows().run(Store::of_disks());
    assert!(outcome.au > 0.98 * fixed.au, "{outcome:?} for {}", fixed.au);
    assert!((100..330).contains(&outcome.settled_at()), "{outcome:?}");
}

#[test]
fn what_other_programs_do_to_the_rate_is_not_taken_for_room() {
    for ranks in [8, 12, 16, 24] {
        let training = Training { steps: 2000, ..retinanet(ranks) };
        let outcome = training.run(Store::near_and_shared());
        let fixed = training.with_fixed_windows().run(Store::near_and_shared());
        assert!(outcome.au > 0.99 * fixed.au, "{ranks} ranks: {} for {outcome:?}", fixed.au);
        assert!(outcome.settled_at() <= 16, "{ranks} ranks: {outcome:?}");
        assert!(outcome.targets.iter().all(|target| *target <= 64), "{ranks} ranks: {outcome:?}");
    }
}

#[test]
fn a_store_that_is_nearly_saturated_loses_nothing() {
    let outcome = retinanet(14).run(Store::of_disks());
    assert!(outcome.au > 99.9, "{outcome:?}");
}

#[test]
fn steps_that_take_no_time_get_all_that_the_store_can_bring() {
    let training = Training { step: Duration::from_nanos(1), steps: 4000, ..retinanet(4) };
    let time = |training: Training| {
        let mut simulation = Simulation::new(training, Store::of_disks());
        simulation.ramp = Ramp::new(Demand::endless(4 * 512));
        let outcome = simulation.run();
        (outcome.waits.iter().sum::<Duration>(), outcome)
    };
    let ((auto, outcome), (fixed, _)) = (time(training), time(training.with_fixed_windows()));
    assert!(auto < fixed.mul_f64(1.1), "{auto:?} for {fixed:?}: {outcome:?}");
    assert!((100..660).contains(&outcome.settled_at()), "{outcome:?}");
}

#[test]
fn steps_that_take_no_time_fill_small_windows_of_a_distant_store() {
    let step = Duration::from_nanos(1);
    let training = Training { ranks: 1, batch: 16, step, steps: 200, window: 128, fixed: false };
    let mut simulation = Simulation::new(training, Store::distant(20 * MILLI));
    simulation.ramp = Ramp::new(Demand::endless(128));
    let outcome = simulation.run();
    assert_eq!(outcome.targets[0], 8, "{outcome:?}");
    assert_eq!(outcome.settled_at(), 128, "{outcome:?}");
}

#[test]
fn a_slow_tail_costs_what_it_takes_to_learn_of_it() {
    for ranks in [1, 4, 8] {
        let outcome = retinanet(ranks).run(Store::with_a_slow_tail(20 * MILLI));
        assert!(outcome.au > 99.0, "{ranks} ranks: {outcome:?}");
        let training = Training { steps: 2000, ..retinanet(ranks) };
        let outcome = training.run(Store::with_a_slow_tail(100 * MILLI));
        assert!(outcome.au > 98.0, "{ranks} ranks: {outcome:?}");
        assert!(outcome.waits[1] < 200 * MILLI, "{ranks} ranks: {outcome:?}");
        assert!(outcome.most_ahead >= 1000 * MILLI, "{ranks} ranks: {outcome:?}");
    }
}

#[test]
fn hiccups_are_ridden_out_and_what_a_long_one_called_for_is_given_back() {
    let stalled = |millis: u32| {
        let stall = 5000 * MILLI..(5000 + millis) * MILLI;
        retinanet(8).run(Store { stall, ..Store::near() })
    };
    let short = stalled(150);
    assert_eq!(short.waits, [Duration::ZERO; 2], "{short:?}");
    let long = stalled(400);
    let waited: Duration = long.waits.iter().sum();
    assert!(waited < 300 * MILLI, "{long:?}");
    assert!(long.most_ahead >= 400 * MILLI, "{long:?}");
    assert_eq!(long.targets.last(), Some(&8), "{long:?}");
}
