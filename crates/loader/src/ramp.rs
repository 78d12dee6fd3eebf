//! How many GETs that read ahead a process aims to keep in flight, between "enough" and "as the
//! windows allow".

use std::time::Duration;

/// Never fewer: a client and a server that share two cores are busy with as many.
const LEAST: f64 = 16.0;
/// What latency and demand call for is a mean; as much again rides out the slower GETs.
const HEADROOM: f64 = 2.0;
/// GETs over which the quickest latency is looked for.
const RECENT: u32 = 256;
/// Weight of the newest latency in the moving average.
const NEWEST: f64 = 1.0 / 16.0;
/// Twice the GETs in flight at less than this times the latency brought more bytes: the store had
/// room. At twice the latency they brought nothing, and more would only queue.
const ROOM_BELOW: f64 = 1.5;

/// The headroom is halved again when this many times the target have landed and no rank had to wait:
/// what a passing bad moment of the store or the host called for is not kept for ever.
const CALM: usize = 64;

/// The target, by Little's law: files per second that the accelerators consume × seconds that a GET
/// takes when it does not queue, for which the quickest recent one stands, × headroom. The headroom
/// is doubled when a rank had to wait for a batch while the target held GETs back, unless doubling it
/// the last time only made each GET slower; it is halved when all has been well for a while.
///
/// What a doubling does to latencies is only seen once the GETs from before it have passed by: as
/// many as the target land before the next ones are measured.
#[derive(Debug)]
pub(crate) struct Ramp {
    files_per_second: f64,
    most: usize,
    headroom: f64,
    quickest: Quickest,
    /// GETs landed since the headroom was changed or the epoch began.
    landed: usize,
    /// GETs landed since a rank had to wait or the headroom was changed.
    calm: usize,
    average: Option<f64>,
    average_when_raised: Option<f64>,
}

impl Ramp {
    /// For accelerators that together consume `files_per_second`, which may be endless, and windows
    /// that hold `most` files.
    pub(crate) fn new(files_per_second: f64, most: usize) -> Self {
        Self {
            // Endless demand asks for everything at once, which tells nothing about what is enough.
            files_per_second: if files_per_second.is_finite() { files_per_second } else { 0.0 },
            most,
            headroom: HEADROOM,
            quickest: Quickest::default(),
            landed: 0,
            calm: 0,
            average: None,
            average_when_raised: None,
        }
    }

    pub(crate) fn target(&self) -> usize {
        let latency = self.quickest.seconds().unwrap_or(0.0);
        let needed = (self.files_per_second * latency).max(LEAST / HEADROOM);
        ((self.headroom * needed) as usize).min(self.most)
    }

    /// An epoch starts with nothing in flight: its first GETs are quick and say nothing about a
    /// doubling, either.
    pub(crate) fn epoch_starts(&mut self) {
        self.landed = 0;
        self.average = None;
    }

    /// A GET landed.
    pub(crate) fn landed(&mut self, latency: Duration) {
        let newest = latency.as_secs_f64();
        self.quickest.add(newest);
        self.landed += 1;
        if self.landed > self.target() {
            let average = self.average.get_or_insert(newest);
            *average += NEWEST * (newest - *average);
        }
        self.calm += 1;
        if self.headroom > HEADROOM && self.calm > CALM * self.target() {
            self.average_when_raised = None;
            self.change(self.headroom / 2.0);
        }
    }

    /// A rank waited while the target held GETs back.
    pub(crate) fn fell_short(&mut self) {
        self.calm = 0;
        let Some(average) = self.average else { return };
        if self.landed < 2 * self.target() || self.target() == self.most {
            return;
        }
        if self.average_when_raised.is_none_or(|before| average < ROOM_BELOW * before) {
            self.average_when_raised = Some(average);
            self.change(self.headroom * 2.0);
        }
    }

    fn change(&mut self, headroom: f64) {
        self.headroom = headroom;
        self.landed = 0;
        self.calm = 0;
        self.average = None;
    }
}

/// The smallest of the last [`RECENT`] latencies or up to as many more, in seconds.
#[derive(Debug, Default)]
struct Quickest {
    seen: u32,
    this: Option<f64>,
    last: Option<f64>,
}

impl Quickest {
    fn add(&mut self, seconds: f64) {
        self.this = Some(self.this.map_or(seconds, |quickest| quickest.min(seconds)));
        self.seen += 1;
        if self.seen == RECENT {
            *self = Self { seen: 0, this: None, last: self.this };
        }
    }

    fn seconds(&self) -> Option<f64> {
        match (self.this, self.last) {
            (Some(this), Some(last)) => Some(this.min(last)),
            (this, last) => this.or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ramp: &mut Ramp, gets: usize, millis: u64) -> usize {
        for _ in 0..gets {
            ramp.landed(Duration::from_millis(millis));
        }
        ramp.fell_short();
        ramp.target()
    }

    #[test]
    fn a_near_store_gets_the_least() {
        let mut ramp = Ramp::new(500.0, 512);
        assert_eq!(ramp.target(), 16);
        ramp.landed(Duration::from_millis(2));
        assert_eq!(ramp.target(), 16);
    }

    #[test]
    fn a_distant_store_gets_what_latency_and_demand_call_for_as_soon_as_they_are_known() {
        let mut ramp = Ramp::new(500.0, 512);
        ramp.landed(Duration::from_millis(80));
        assert_eq!(ramp.target(), 80);
        let mut bounded = Ramp::new(500.0, 64);
        bounded.landed(Duration::from_millis(80));
        assert_eq!(bounded.target(), 64);
    }

    #[test]
    fn a_burst_that_queued_is_not_taken_for_distance() {
        let mut ramp = Ramp::new(500.0, 512);
        for millis in 1..200 {
            ramp.landed(Duration::from_millis(millis));
        }
        assert_eq!(ramp.target(), 16);
    }

    #[test]
    fn a_store_that_has_become_slower_is_noticed() {
        let mut ramp = Ramp::new(500.0, 512);
        ramp.landed(Duration::from_millis(2));
        for _ in 0..2 * RECENT {
            ramp.landed(Duration::from_millis(80));
        }
        assert_eq!(ramp.target(), 80);
    }

    #[test]
    fn falling_short_doubles_until_the_windows_are_full() {
        let mut ramp = Ramp::new(f64::INFINITY, 100);
        assert_eq!(after(&mut ramp, 50, 80), 32);
        assert_eq!(after(&mut ramp, 64, 80), 64);
        assert_eq!(after(&mut ramp, 128, 85), 100);
    }

    #[test]
    fn what_a_bad_moment_called_for_is_given_back_when_all_is_well() {
        let mut ramp = Ramp::new(500.0, 512);
        assert_eq!(after(&mut ramp, 50, 4), 32);
        for _ in 0..=2 * CALM * 32 {
            ramp.landed(Duration::from_millis(4));
        }
        assert_eq!(ramp.target(), 16);
    }

    #[test]
    fn a_saturated_store_is_not_pushed_further() {
        let mut ramp = Ramp::new(f64::INFINITY, 512);
        assert_eq!(after(&mut ramp, 100, 2), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
    }

    #[test]
    fn the_quick_first_gets_of_an_epoch_are_not_taken_for_room() {
        let mut ramp = Ramp::new(f64::INFINITY, 512);
        assert_eq!(after(&mut ramp, 100, 4), 32);
        for _ in 0..4 {
            assert_eq!(after(&mut ramp, 100, 8), 32);
            ramp.epoch_starts();
            assert_eq!(after(&mut ramp, 32, 1), 32);
        }
    }

    #[test]
    fn nothing_is_learnt_before_the_pipeline_was_full_for_a_while() {
        let mut ramp = Ramp::new(f64::INFINITY, 512);
        ramp.fell_short();
        assert_eq!(ramp.target(), 16);
        assert_eq!(after(&mut ramp, 31, 80), 16);
        assert_eq!(after(&mut ramp, 1, 80), 32);
    }

    #[test]
    fn what_was_issued_before_a_doubling_says_nothing_about_it() {
        let mut ramp = Ramp::new(f64::INFINITY, 512);
        assert_eq!(after(&mut ramp, 32, 2), 32);
        assert_eq!(after(&mut ramp, 32, 2), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
    }
}
