//! How many GETs a rank aims to keep in flight, between "enough" and "as the window allows".

use std::time::Duration;

/// Weight of the newest latency in the moving average.
const NEWEST: f64 = 1.0 / 16.0;
/// Twice the GETs in flight at less than this times the latency brought more bytes: the store had
/// room. At twice the latency they brought nothing, and more would only queue.
const ROOM_BELOW: f64 = 1.5;

/// The target. It starts low and is doubled when the rank had to wait for a batch while the target
/// held GETs back, unless the last doubling only made each GET slower.
#[derive(Debug)]
pub(crate) struct Ramp {
    target: usize,
    most: usize,
    latency_seconds: Option<f64>,
    latency_when_raised: Option<f64>,
}

impl Ramp {
    pub(crate) fn new(start: usize, most: usize) -> Self {
        Self { target: start.min(most), most, latency_seconds: None, latency_when_raised: None }
    }

    pub(crate) fn target(&self) -> usize {
        self.target
    }

    pub(crate) fn landed(&mut self, latency: Duration) {
        let newest = latency.as_secs_f64();
        self.latency_seconds = Some(match self.latency_seconds {
            None => newest,
            Some(average) => average + NEWEST * (newest - average),
        });
    }

    /// The rank waited while this target held GETs back.
    pub(crate) fn fell_short(&mut self) {
        let Some(latency) = self.latency_seconds else { return };
        if self.latency_when_raised.is_none_or(|before| latency < ROOM_BELOW * before) {
            self.latency_when_raised = Some(latency);
            self.target = (2 * self.target).min(self.most);
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
        assert_eq!(after(&mut ramp, 50, 80), 64);
        assert_eq!(after(&mut ramp, 50, 85), 100);
    }

    #[test]
    fn a_saturated_store_is_not_pushed_further() {
        let mut ramp = Ramp::new(16, 512);
        assert_eq!(after(&mut ramp, 100, 2), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
        assert_eq!(after(&mut ramp, 100, 4), 32);
    }

    #[test]
    fn nothing_is_learnt_before_the_first_file_has_landed() {
        let mut ramp = Ramp::new(16, 512);
        ramp.fell_short();
        assert_eq!(ramp.target(), 16);
    }
}
