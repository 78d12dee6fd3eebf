//! How many GETs a process has in flight over time, and how many it might have.
//!
//! A [`Series`] is written whenever one of the two changes and takes the same memory however long a run
//! is: time is cut into intervals of one length, and when there are too many, two and two of them become
//! one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::Seconds;

/// The length of an interval at first.
const SHORTEST: Duration = Duration::from_millis(10);
/// No more intervals than these.
const MOST_INTERVALS: usize = 256;

/// The GETs of a process's training, and what it knew when it sent them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// With `reader.window` `auto`; `None` where the windows decide.
    pub learnt: Option<Learnt>,
    /// What was in flight, and what might have been.
    pub series: Series,
}

/// From what a process concluded how many GETs it needs in flight, and how far ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// Files, or pieces of files, that its accelerators consume in a second if they never wait; `None`
    /// for steps that take no time.
    pub wanted_per_second: Option<f64>,
    /// The quickest read of one.
    pub quickest: Option<Seconds>,
    /// How often the number in flight was doubled because ranks had to wait.
    pub doubled: u32,
    /// How often it was halved since that brought no less, or since nobody had to wait any more.
    pub halved: u32,
    /// Batches that are asked for ahead of a rank; `None` for as many as the windows allow.
    pub batches_ahead: Option<u64>,
    /// The most that ever were.
    pub most_batches_ahead: Option<u64>,
}

/// What was in flight, interval by interval, from the first GET on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Columns", into = "Columns")]
pub struct Series {
    interval: Duration,
    intervals: Vec<Interval>,
    /// The one that is not over.
    open: Interval,
    /// Up to when it is told.
    told: Duration,
    in_flight: usize,
}

/// What happened in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Interval {
    /// GETs in flight, averaged over its time.
    pub mean: f64,
    /// The most at once.
    pub most: usize,
    /// GETs that might have been in flight, at its end.
    pub allowed: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            interval: SHORTEST,
            intervals: Vec::new(),
            open: Interval::default(),
            told: Duration::ZERO,
            in_flight: 0,
        }
    }
}

impl Series {
    /// From `at` on, measured from the beginning, there are so many in flight of those that are allowed.
    pub fn set(&mut self, at: Duration, in_flight: usize, allowed: usize) {
        self.tell(at);
        self.in_flight = in_flight;
        self.open.most = self.open.most.max(in_flight);
        self.open.allowed = allowed;
    }

    /// How long an interval is.
    pub fn interval(&self) -> Seconds {
        Seconds::from(self.interval)
    }

    /// The intervals, with the one at the end that is perhaps not over yet.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let begun = !self.rest().is_zero();
        self.intervals.iter().copied().chain(begun.then(|| self.last()))
    }

    /// How much of the open interval is told.
    fn rest(&self) -> Duration {
        self.told.saturating_sub(self.interval.saturating_mul(self.intervals.len() as u32))
    }

    /// The open interval as if it ended where it is told.
    fn last(&self) -> Interval {
        let share = self.rest().div_duration_f64(self.interval);
        Interval { mean: self.open.mean / share, ..self.open }
    }

    /// Time passes until `at`.
    fn tell(&mut self, at: Duration) {
        loop {
            let end = self.interval.saturating_mul(self.intervals.len() as u32 + 1);
            let until = at.min(end);
            let share = until.saturating_sub(self.told).div_duration_f64(self.interval);
            self.open.mean += self.in_flight as f64 * share;
            self.told = self.told.max(until);
            if at < end {
                return;
            }
            let next = Interval { mean: 0.0, most: self.in_flight, allowed: self.open.allowed };
            self.intervals.push(std::mem::replace(&mut self.open, next));
            if self.intervals.len() == MOST_INTERVALS {
                self.make_longer();
            }
        }
    }

    /// Two intervals become one. The open one is empty.
    fn make_longer(&mut self) {
        self.interval = self.interval.saturating_mul(2);
        let both = |pair: &[Interval]| Interval {
            mean: pair.iter().map(|one| one.mean).sum::<f64>() / pair.len() as f64,
            most: pair.iter().map(|one| one.most).max().unwrap_or_default(),
            allowed: pair.last().map_or(0, |one| one.allowed),
        };
        self.intervals = self.intervals.chunks(2).map(both).collect();
    }
}

/// A [`Series`] in a file: a list for each of its columns.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Columns {
    interval_seconds: f64,
    mean: Vec<f64>,
    most: Vec<usize>,
    allowed: Vec<usize>,
}

impl From<Series> for Columns {
    fn from(series: Series) -> Self {
        // More digits say nothing.
        let hundredths = |mean: f64| (100.0 * mean).round() / 100.0;
        Self {
            interval_seconds: series.interval.as_secs_f64(),
            mean: series.intervals().map(|one| hundredths(one.mean)).collect(),
            most: series.intervals().map(|one| one.most).collect(),
            allowed: series.intervals().map(|one| one.allowed).collect(),
        }
    }
}

impl From<Columns> for Series {
    fn from(columns: Columns) -> Self {
        let Columns { interval_seconds, mean, most, allowed } = columns;
        let intervals: Vec<_> = mean
            .into_iter()
            .zip(most)
            .zip(allowed)
            .map(|((mean, most), allowed)| Interval { mean, most, allowed })
            .collect();
        let interval = Duration::try_from_secs_f64(interval_seconds).unwrap_or(SHORTEST);
        Self {
            interval,
            told: interval.saturating_mul(intervals.len() as u32),
            intervals,
            open: Interval::default(),
            in_flight: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn intervals(series: &Series) -> Vec<(f64, usize, usize)> {
        series.intervals().map(|one| (one.mean, one.most, one.allowed)).collect()
    }

    #[test]
    fn an_interval_has_the_mean_over_its_time_and_the_most_at_once() {
        let mut series = Series::default();
        series.set(Duration::ZERO, 4, 16);
        series.set(5 * MILLI, 8, 16);
        series.set(10 * MILLI, 2, 32);
        series.set(20 * MILLI, 0, 32);
        series.set(40 * MILLI, 0, 32);
        assert_eq!(intervals(&series), [(6.0, 8, 16), (2.0, 8, 32), (0.0, 2, 32), (0.0, 0, 32)]);
    }

    #[test]
    fn the_last_interval_counts_as_far_as_it_went() {
        let mut series = Series::default();
        series.set(Duration::ZERO, 4, 16);
        series.set(12 * MILLI, 7, 16);
        series.set(13 * MILLI, 7, 16);
        let last = series.intervals().last().unwrap();
        assert!((last.mean - 5.0).abs() < 1e-9, "{last:?}");
    }

    #[test]
    fn a_long_series_has_few_intervals_and_keeps_its_mean_and_its_peaks() {
        let mut series = Series::default();
        for second in 0..10_000 {
            let in_flight = if second == 5000 { 500 } else { second as usize % 2 };
            series.set(second * 1000 * MILLI, in_flight, 64);
        }
        series.set(10_000_000 * MILLI, 0, 64);
        let intervals = intervals(&series);
        assert!((MOST_INTERVALS / 2..=MOST_INTERVALS).contains(&intervals.len()));
        assert!(intervals.iter().any(|(_, most, _)| *most == 500));
        let time: f64 = series.interval().0 * intervals.len() as f64;
        assert!((10_000.0..10_000.0 + series.interval().0).contains(&time), "{time}");
        let early = intervals[10].0;
        assert!((early - 0.5).abs() < 0.02, "{early}");
    }

    #[test]
    fn a_series_in_a_file_is_the_same_to_its_reader() {
        let mut series = Series::default();
        series.set(Duration::ZERO, 3, 16);
        series.set(25 * MILLI, 0, 16);
        let text = serde_json::to_string(&series).unwrap();
        let read: Series = serde_json::from_str(&text).unwrap();
        assert_eq!(intervals(&read), intervals(&series));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
