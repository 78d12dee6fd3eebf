//! How many files a process reads at a time, and how far ahead of its ranks: between "enough" and "as
//! the windows allow".
//!
//! **At a time.** By Little's law, files per second that the accelerators consume × seconds that a read
//! takes when it does not queue, for which the quickest of the run stands, × headroom; never fewer than
//! keep two busy cores busy. Latencies that were queued for are no reason for more: more in flight would
//! make them longer still, without end.
//!
//! That is too little where most reads take longer than the quickest, and too much for a store that
//! cannot deliver what is consumed. So ranks are watched as well. While they fall short and files wait
//! for their turn, the number is doubled as long as this lets more files land in a second, and halved as
//! long as that lets no fewer: a store with room brings more of them, a saturated one, or a client out of
//! CPU, only makes each wait longer. What a change does is seen only once the files from before it have
//! passed by, so a round of measuring begins when as many have landed as are in flight, and only landings
//! behind which others wait count.
//!
//! **Ahead.** So much time before a rank takes a batch its files are asked for; it outlasts a short
//! hiccup of the store or the host. If a rank falls short and a read took about as long or longer, the
//! time is doubled until it is longer than that. What is asked for further ahead goes behind everything
//! that is needed earlier, so this costs nothing but memory.
//!
//! Doublings are taken back when nobody has fallen short for a while, and the while doubles each time
//! that proves to have been too soon.

#[cfg(test)]
mod simulation;

use std::time::Duration;

use feedrate_metrics::units::Seconds;
use tokio::time::Instant;

/// GETs that are let go in any case: four for each of two cores, which are busy with as many.
const LEAST: usize = 8;
/// GETs that are let go before the first of them has landed. A near store needs fewer; to find out that
/// one is distant takes a whole latency.
const FIRST: usize = 32;
/// What latency and demand call for is a mean; as much again rides out the slower reads.
const HEADROOM: f64 = 2.0;
/// With twice as many in flight this many times as many files must land in a second to be worth it: what
/// other programs do to the rate is less.
const GAIN: f64 = 1.25;
/// With half as many in flight no less than this share of them must land in a second.
const LOSS: f64 = 0.95;
/// A round of measuring has twice as many landings as are in flight, and so many or lasts so long.
const ROUND: (usize, Duration) = (256, Duration::from_millis(100));
/// How far ahead files are asked for at first.
const AHEAD: Duration = Duration::from_millis(200);
/// So much longer than the slowest read files are asked for ahead, since they also wait for their turn;
/// and so many more than Little's law says may be in flight before any is taken back.
const SLACK: f64 = 4.0 / 3.0;
/// How long nobody must have fallen short before a doubling is taken back, and before one that was
/// futile is tried again; at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(1)];
/// Weight of the newest latency in the moving average.
const NEWEST: f64 = 1.0 / 256.0;

/// What is known of a process's reads before the first. A piece, most often a whole file, is what a read
/// brings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Pieces that its accelerators together consume in a second; endless for steps that take no time.
    pub pieces_per_second: f64,
    /// GETs by which a piece comes at once, at least 1.
    pub gets_per_piece: usize,
    /// Pieces that its ranks together may have in flight or ready.
    pub most: usize,
    /// The mean time of a step; zero where the windows alone say how far ahead a rank may read.
    pub step: Seconds,
    /// How long readers work on a batch before it is ready.
    pub work: Seconds,
}

impl Demand {
    /// Of steps that take no time, with windows that hold so many pieces, each of which is one GET.
    pub fn endless(most: usize) -> Self {
        Self {
            pieces_per_second: f64::INFINITY,
            gets_per_piece: 1,
            most,
            step: Seconds(0.0),
            work: Seconds(0.0),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ramp {
    demand: Demand,
    quickest: Option<Duration>,
    /// Moving average of the latencies, in seconds.
    latency: f64,
    at_a_time: Doublings,
    round: Round,
    /// A rank fell short in this round, or waits for its first batch.
    missed: bool,
    /// Files that landed in a second before the number was doubled, which is on trial.
    doubled_from: Option<f64>,
    /// Files that have to land in a second for the number to stay halved.
    halved_from: Option<f64>,
    /// Doubling was futile, and halving harmful, not long ago.
    futile: Rest,
    harmful: Rest,
    ahead: Doublings,
    most_ahead: Duration,
    /// The slowest read since a rank last fell short.
    slowest: Duration,
}

impl Ramp {
    pub(crate) fn new(demand: Demand) -> Self {
        Self {
            demand,
            quickest: None,
            latency: 0.0,
            at_a_time: Doublings::none(),
            round: Round::default(),
            missed: false,
            doubled_from: None,
            halved_from: None,
            futile: Rest::none(),
            harmful: Rest::none(),
            ahead: Doublings::none(),
            most_ahead: AHEAD,
            slowest: Duration::ZERO,
        }
    }

    /// How many reads there should be at a time.
    pub(crate) fn target(&self) -> usize {
        let Demand { pieces_per_second, most, .. } = self.demand;
        let least = self.least(LEAST);
        let enough = match self.quickest {
            None => self.least(FIRST),
            // Endless demand asks for everything at once, which tells nothing about what is enough.
            Some(_) if pieces_per_second.is_infinite() => least,
            Some(latency) => (HEADROOM * pieces_per_second * latency.as_secs_f64()) as usize,
        };
        self.at_a_time.of(enough.max(least)).max(least).min(most)
    }

    fn least(&self, gets: usize) -> usize {
        gets.div_ceil(self.demand.gets_per_piece.max(1))
    }

    /// How long before they are needed files are asked for.
    pub(crate) fn ahead(&self) -> Duration {
        AHEAD.saturating_mul(self.ahead.of(1).try_into().unwrap_or(u32::MAX))
    }

    /// The longest that ever was.
    pub(crate) fn most_ahead(&self) -> Duration {
        self.most_ahead
    }

    /// The quickest read until now.
    pub(crate) fn quickest(&self) -> Option<Duration> {
        self.quickest
    }

    /// How often the number at a time was doubled, and halved.
    pub(crate) fn changes(&self) -> (u32, u32) {
        (self.at_a_time.doubled, self.at_a_time.halved)
    }

    /// An epoch starts with nothing in flight.
    pub(crate) fn epoch_starts(&mut self, now: Instant) {
        self.round = Round::default();
        self.slowest = Duration::ZERO;
        self.at_a_time.were_needed(now);
        self.ahead.were_needed(now);
    }

    /// A read took `latency`. `waiting` is whether others wait for their turn, and `urgent` whether a
    /// rank has nothing to do before it has what they bring.
    pub(crate) fn landed(&mut self, now: Instant, latency: Duration, waiting: bool, urgent: bool) {
        self.quickest = Some(self.quickest.map_or(latency, |quickest| quickest.min(latency)));
        self.latency += NEWEST * (latency.as_secs_f64() - self.latency);
        self.slowest = self.slowest.max(latency);
        self.missed |= urgent;
        if self.ahead.take_back_if_idle(now) {
            self.slowest = Duration::ZERO;
        }
        let in_flight = self.demand.pieces_per_second * self.latency;
        if SLACK * in_flight > (self.target() / 2) as f64 {
            // By Little's law: with half as many, files would land more slowly than they are consumed.
            self.at_a_time.were_needed(now);
        } else if self.at_a_time.take_back_if_idle(now) {
            self.begin_anew();
        }
        self.round.landed(now, waiting, self.target());
        if let Some(rate) = self.round.rate(self.target()) {
            self.round.begin_again();
            self.measured(now, rate);
        }
    }

    /// A rank had to wait for a batch.
    pub(crate) fn fell_short(&mut self, now: Instant) {
        self.missed = true;
        self.at_a_time.were_needed(now);
        self.ahead.were_needed(now);
        while self.ahead() < self.slowest.mul_f64(SLACK) {
            self.ahead.double(now);
        }
        self.most_ahead = self.most_ahead.max(self.ahead());
        self.slowest = Duration::ZERO;
    }

    /// A round is over, in which so many files a second landed.
    fn measured(&mut self, now: Instant, rate: f64) {
        if !std::mem::take(&mut self.missed) {
            return;
        }
        let doubled_from = self.doubled_from.take();
        if doubled_from.is_some_and(|before| rate < GAIN * before) {
            self.futile.begin(now);
            self.at_a_time.halve(now);
            self.begin_anew();
        } else if self.halved_from.is_some_and(|before| rate < LOSS * before) {
            self.harmful.begin(now);
            self.at_a_time.double(now);
            self.begin_anew();
        } else if self.target() < self.demand.most && self.futile.is_over(now) {
            self.at_a_time.double(now);
            self.begin_anew();
            self.doubled_from = Some(rate);
        } else if self.target() > self.least(LEAST) && self.harmful.is_over(now) {
            self.at_a_time.halve(now);
            self.begin_anew();
            self.halved_from = Some(rate);
        }
    }

    /// The number has changed: nothing is known of what this one brings.
    fn begin_anew(&mut self) {
        (self.doubled_from, self.halved_from) = (None, None);
        self.round = Round::default();
    }
}

/// A time in which something is not tried again; each is twice as long as the one before.
#[derive(Debug)]
struct Rest {
    until: Option<Instant>,
    next: Duration,
}

impl Rest {
    fn none() -> Self {
        Self { until: None, next: PATIENCE[0] }
    }

    fn begin(&mut self, now: Instant) {
        self.until = Some(now + self.next);
        self.next = PATIENCE[1].min(2 * self.next);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

/// Landings behind which others wait.
#[derive(Debug, Default)]
struct Round {
    /// Since the first behind which others waited.
    full: usize,
    /// When the last was that counts.
    last: Option<Instant>,
    landed: usize,
    time: Duration,
}

impl Round {
    /// Something landed, with so many in flight.
    fn landed(&mut self, now: Instant, waiting: bool, in_flight: usize) {
        if !waiting {
            (self.full, self.last) = (0, None);
            return;
        }
        self.full += 1;
        if self.full < in_flight {
            return;
        }
        if let Some(last) = self.last.replace(now) {
            self.landed += 1;
            self.time += now - last;
        }
    }

    /// Landings per second, when there were enough.
    fn rate(&self, in_flight: usize) -> Option<f64> {
        let (landings, time) = ROUND;
        let enough = self.landed >= 2 * in_flight && (self.landed >= landings || self.time >= time);
        (enough && !self.time.is_zero()).then(|| self.landed as f64 / self.time.as_secs_f64())
    }

    /// The next round begins at once.
    fn begin_again(&mut self) {
        (self.landed, self.time) = (0, Duration::ZERO);
    }
}

/// How often something is doubled, or below 0 halved, as was found necessary.
#[derive(Debug)]
struct Doublings {
    exponent: i32,
    /// How often it ever was.
    doubled: u32,
    halved: u32,
    patience: Duration,
    needed: Option<Instant>,
    taken_back: Option<Instant>,
}

impl Doublings {
    fn none() -> Self {
        let patience = PATIENCE[0];
        Self { exponent: 0, doubled: 0, halved: 0, patience, needed: None, taken_back: None }
    }

    fn of(&self, number: usize) -> usize {
        let factor = 1_usize.checked_shl(self.exponent.unsigned_abs()).unwrap_or(usize::MAX);
        if self.exponent < 0 { number / factor } else { number.saturating_mul(factor) }
    }

    /// All there is was needed at this moment.
    fn were_needed(&mut self, now: Instant) {
        self.needed = Some(now);
    }

    fn double(&mut self, now: Instant) {
        if self.taken_back.take().is_some_and(|when| now - when < self.patience) {
            self.patience = PATIENCE[1].min(2 * self.patience);
        }
        self.exponent += 1;
        self.doubled += 1;
        self.needed = Some(now);
    }

    fn halve(&mut self, now: Instant) {
        self.exponent -= 1;
        self.halved += 1;
        self.needed = Some(now);
    }

    /// Takes back a doubling that nobody has needed for a while, and tells whether it did.
    fn take_back_if_idle(&mut self, now: Instant) -> bool {
        let needed = *self.needed.get_or_insert(now);
        let due = self.exponent > 0 && now - needed >= self.patience;
        if due {
            self.halve(now);
            self.taken_back = Some(now);
        }
        due
    }
}
