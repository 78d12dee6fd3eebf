//! How many GETs a rank aims to keep in flight, between "enough" and "as the window allows".

use std::time::Duration;

/// Weight of the newest latency in the moving average.
const NEWEST: f64 = 1.0 / 16.0;
/// Twice the GETs in flight at less than this times the latency brought more bytes: the store had
/// room. At twice the latency they brought nothing, and more would only queue.
const ROOM_BELOW: f64 = 1.5;

/// The target. It starts low and is doubled when the rank had to wait for a batch while the target
/// held GETs back, unless the last doubling only made each GET slower.
///
/// What a target does to latencies is only seen while it is what bounds the GETs in flight, and once
/// the pipeline is full: as many GETs as the target pass by before the next ones are measured.
#[derive(Debug)]
pub(crate) struct Ramp {
    target: usize,
    most: usize,
    /// GETs landed at this target in this epoch.
    landed: usize,
    latency_seconds: Option<f64>,
    latency_when_raised: Option<f64>,
}

impl Ramp {
    pub(crate) fn new(start: usize, most: usize) -> Self {
        Self {
            target: start.min(most),
            most,
            landed: 0,
            latency_seconds: None,
            latency_when_raised: None,
        }
    }

    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// An epoch starts: the pipeline is empty.
    pub(crate) fn start_over(&mut self) {
        self.landed = 0;
        self.latency_seconds = None;
    }

    /// A GET landed while this target held others back.
    pub(crate) fn landed(&mut self, latency: Duration) {
        self.landed += 1;
        if self.landed <= self.target {
            return;
        }
        let newest = latency.as_secs_f64();
        self.latency_seconds = Some(match self.latency_seconds {
            None => newest,
            Some(average) => average + NEWEST * (newest - average),
        });
    }

    /// The rank waited while this target held GETs back.
    pub(crate) fn fell_short(&mut self) {
        let Some(latency) = self.latency_seconds else { return };
        if self.landed < 2 * self.target {
            return;
        }
        if self.latency_when_raised.is_none_or(|before| latency < ROOM_BELOW * before) {
            self.latency_when_raised = Some(latency);
            self.target = (2 * self.target).min(self.most);
            self.start_over();
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
    fn a_distant_store_gets_more_in_flight_until_the_window_is_full() {
        let mut ramp = Ramp::new(16, 100);
        assert_eq!(after(&mut ramp, 50, 80), 32);
        assert_eq!(after(&mut ramp, 64, 80), 64);
        assert_eq!(after(&mut ramp, 128, 85), 100);
    }

    #[test]
    fn a_saturated_store_is_not_pushed_further() {
        let mut ramp = Ramp::new(16, 512);
        assert_eq!(after(&mut ramp, 100, 2), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
    }

    #[test]
    fn nothing_is_learnt_before_the_pipeline_was_full_for_a_while() {
        let mut ramp = Ramp::new(16, 512);
        ramp.fell_short();
        assert_eq!(ramp.target(), 16);
        assert_eq!(after(&mut ramp, 31, 80), 16);
        assert_eq!(after(&mut ramp, 1, 80), 32);
    }

    #[test]
    fn what_was_issued_before_a_doubling_says_nothing_about_it() {
        let mut ramp = Ramp::new(16, 512);
        assert_eq!(after(&mut ramp, 32, 2), 32);
        assert_eq!(after(&mut ramp, 32, 2), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
    }

    #[test]
    fn the_quick_reads_into_an_empty_pipeline_do_not_count() {
        let mut ramp = Ramp::new(16, 512);
        assert_eq!(after(&mut ramp, 32, 2), 32);
        for _ in 0..5 {
            ramp.start_over();
            assert_eq!(after(&mut ramp, 32, 2), 32);
            assert_eq!(after(&mut ramp, 100, 4), 32);
        }
    }
}
