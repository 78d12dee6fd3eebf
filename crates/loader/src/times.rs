//! Streams of times, drawn anew for each use (spec/dlio.md 6.3): how long a step computes, how long a
//! reader works on a sample.

use std::time::Duration;

use feedrate_metrics::units::Seconds;
use feedrate_workload::{Split, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp, Gamma, Normal, Poisson, Uniform};

/// The longest single time, in seconds: what a workload may ask for as a mean. It bounds the
/// distributions that have no upper end.
const LONGEST: f64 = 1e6;

/// Whose times a stream has. No two of them draw alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The steps of a rank that goes through a set, in all epochs.
    Steps {
        /// The set.
        split: Split,
        /// The rank.
        rank: u32,
    },
    /// The samples that a reader of a rank works on in one epoch.
    Samples {
        /// The set.
        split: Split,
        /// The rank.
        rank: u32,
        /// The epoch, counted by the rank's loader.
        epoch: u64,
        /// The reader of the rank.
        reader: u32,
    },
}

impl Stream {
    /// Neighbours must not draw alike, so each number goes into bytes of its own.
    fn seed(self, seed: u64) -> [u8; 32] {
        let (split, rank, epoch, reader) = match self {
            Self::Steps { split, rank } => (split, rank, 0, 0),
            Self::Samples { split, rank, epoch, reader } => {
                (split, rank, epoch, 1 + u64::from(reader))
            }
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..12].copy_from_slice(&rank.to_le_bytes());
        bytes[12] = match split {
            Split::Train => 0,
            Split::Valid => 1,
        };
        bytes[16..24].copy_from_slice(&epoch.to_le_bytes());
        bytes[24..].copy_from_slice(&reader.to_le_bytes());
        bytes
    }
}

/// Draws times.
#[derive(Debug)]
pub struct Times {
    source: Source,
    stream: StdRng,
}

#[derive(Debug)]
enum Source {
    Constant(f64),
    Normal(Normal<f64>),
    Uniform(Uniform<f64>),
    Gamma(Gamma<f64>),
    Exponential(Exp<f64>),
    Poisson(Poisson<f64>),
}

impl Times {
    /// The times of `stream`. With the same `seed` it always draws the same.
    ///
    /// Parameters that describe no distribution (the workload's checks let none through) count as
    /// their mean.
    pub fn new(time: &Time, seed: u64, stream: Stream) -> Self {
        let constant = Source::Constant(time.mean());
        let source = match *time {
            Time::Normal { mean, stdev } => {
                Normal::new(mean, stdev).map_or(constant, Source::Normal)
            }
            Time::Uniform { min, max } => {
                Uniform::new_inclusive(min, max).map_or(constant, Source::Uniform)
            }
            Time::Gamma { shape, scale } => {
                Gamma::new(shape, scale).map_or(constant, Source::Gamma)
            }
            Time::Exponential { scale } if scale > 0.0 => {
                Exp::new(scale.recip()).map_or(constant, Source::Exponential)
            }
            Time::Poisson { lam } if lam > 0.0 => {
                Poisson::new(lam).map_or(constant, Source::Poisson)
            }
            Time::Constant { .. } | Time::Exponential { .. } | Time::Poisson { .. } => constant,
        };
        Self { source, stream: StdRng::from_seed(stream.seed(seed)) }
    }

    /// The next time: the absolute value of what is drawn.
    pub fn draw(&mut self) -> Seconds {
        let stream = &mut self.stream;
        let drawn = match &self.source {
            Source::Constant(seconds) => *seconds,
            Source::Normal(distribution) => distribution.sample(stream),
            Source::Uniform(distribution) => distribution.sample(stream),
            Source::Gamma(distribution) => distribution.sample(stream),
            Source::Exponential(distribution) => distribution.sample(stream),
            Source::Poisson(distribution) => distribution.sample(stream),
        };
        Seconds(drawn.abs().min(LONGEST))
    }

    /// The sum of the next `count` times.
    pub(crate) fn sum(&mut self, count: u64) -> Duration {
        duration(match self.source {
            Source::Constant(_) => Seconds(self.draw().0 * count as f64),
            _ => (0..count).map(|_| self.draw()).sum(),
        })
    }
}

/// `time` by its absolute value; more than a year is as good as one.
pub(crate) fn duration(time: Seconds) -> Duration {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    Duration::try_from_secs_f64(time.0.abs()).unwrap_or(YEAR).min(YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Stream = Stream::Steps { split: Split::Train, rank: 0 };

    fn draws(time: Time, count: usize) -> Vec<f64> {
        let mut times = Times::new(&time, 123, STEPS);
        (0..count).map(|_| times.draw().0).collect()
    }

    fn mean(time: Time) -> f64 {
        draws(time, 1000).iter().sum::<f64>() / 1000.0
    }

    #[test]
    fn a_constant_is_always_itself() {
        assert_eq!(draws(Time::Constant { mean: 0.05 }, 10), vec![0.05; 10]);
    }

    #[test]
    fn means_of_a_thousand_draws_are_those_of_the_distribution() {
        assert!((mean(Time::Exponential { scale: 0.02 }) / 0.02 - 1.0).abs() < 0.1);
        assert!((mean(Time::Gamma { shape: 2.0, scale: 0.01 }) / 0.02 - 1.0).abs() < 0.1);
        assert!((mean(Time::Normal { mean: 0.05, stdev: 0.001 }) / 0.05 - 1.0).abs() < 0.01);
    }

    #[test]
    fn uniform_draws_stay_inside_and_are_not_all_alike() {
        let times = draws(Time::Uniform { min: 0.02, max: 0.04 }, 200);
        assert!(times.iter().all(|time| (0.02..=0.04).contains(time)));
        assert!(times.iter().any(|time| *time < 0.025) && times.iter().any(|time| *time > 0.035));
    }

    #[test]
    fn a_negative_draw_counts_by_its_absolute_value() {
        assert!(draws(Time::Normal { mean: 0.01, stdev: 0.05 }, 200).iter().all(|t| *t >= 0.0));
        assert_eq!(draws(Time::Constant { mean: -0.25 }, 1), [0.25]);
    }

    #[test]
    fn poisson_draws_whole_seconds_and_with_lam_0_none() {
        assert!(draws(Time::Poisson { lam: 0.0 }, 5).iter().all(|time| *time == 0.0));
        assert!((mean(Time::Poisson { lam: 4.0 }) / 4.0 - 1.0).abs() < 0.1);
        assert!(draws(Time::Poisson { lam: 4.0 }, 50).iter().all(|time| time.fract() == 0.0));
    }

    #[test]
    fn each_has_a_stream_of_its_own_and_runs_repeat() {
        let time = Time::Uniform { min: 0.0, max: 1.0 };
        let samples = |split, rank, epoch, reader| Stream::Samples { split, rank, epoch, reader };
        let streams = [
            STEPS,
            Stream::Steps { split: Split::Train, rank: 1 },
            Stream::Steps { split: Split::Valid, rank: 0 },
            samples(Split::Train, 0, 1, 0),
            samples(Split::Train, 1, 1, 0),
            samples(Split::Train, 0, 2, 0),
            samples(Split::Train, 0, 1, 1),
            samples(Split::Valid, 0, 1, 0),
        ];
        let draw = |seed, stream| Times::new(&time, seed, stream).draw().0.to_bits();
        let first: std::collections::BTreeSet<_> =
            streams.iter().map(|stream| draw(7, *stream)).collect();
        assert_eq!(first.len(), streams.len());
        assert!(streams.iter().all(|stream| draw(7, *stream) == draw(7, *stream)));
        assert!(streams.iter().all(|stream| draw(7, *stream) != draw(8, *stream)));
    }

    #[test]
    fn a_sum_is_that_of_the_draws_and_bounded() {
        let time = Time::Uniform { min: 0.1, max: 0.2 };
        let sum: f64 = draws(time, 10).iter().sum();
        let drawn = Times::new(&time, 123, STEPS).sum(10).as_secs_f64();
        assert!((sum - drawn).abs() < 1e-6, "{sum}, {drawn}");
        // Added up a million times, 0.1 would be 1.3 µs too much.
        let many = Times::new(&Time::Constant { mean: 0.1 }, 0, STEPS).sum(1_000_000);
        assert_eq!(many, Duration::from_secs(100_000));
        let endless = Times::new(&Time::Constant { mean: 1e6 }, 0, STEPS).sum(1000);
        assert_eq!(endless, Duration::from_hours(365 * 24));
    }
}
