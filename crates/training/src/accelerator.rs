//! The simulated accelerator: how long each step computes.

use feedrate_metrics::units::Seconds;
use feedrate_workload::Time;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp, Gamma, Normal, Poisson, Uniform};

/// The longest a single step may compute, in seconds: what a workload may ask for as a mean. It bounds
/// the distributions that have no upper end.
const LONGEST: f64 = 1e6;

/// Draws one rank's compute times from its own stream (spec/dlio.md 6.3).
#[derive(Debug)]
pub struct Accelerator {
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

impl Accelerator {
    /// The accelerator of `rank`. Two runs with the same `seed` draw the same times on each rank.
    ///
    /// Parameters that describe no distribution (the workload's checks let none through) count as
    /// their mean.
    pub fn new(time: &Time, seed: u64, rank: u32) -> Self {
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
        // Neighbouring ranks must not draw alike, so the rank goes into other bytes than the seed.
        let mut stream_seed = [0; 32];
        stream_seed[..8].copy_from_slice(&seed.to_le_bytes());
        stream_seed[8..12].copy_from_slice(&rank.to_le_bytes());
        Self { source, stream: StdRng::from_seed(stream_seed) }
    }

    /// The next step's compute time: the absolute value of what is drawn.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(time: Time, count: usize) -> Vec<f64> {
        let mut accelerator = Accelerator::new(&time, 123, 0);
        (0..count).map(|_| accelerator.draw().0).collect()
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
    }

    #[test]
    fn poisson_with_lam_0_is_0() {
        assert!(draws(Time::Poisson { lam: 0.0 }, 5).iter().all(|time| *time == 0.0));
    }

    #[test]
    fn ranks_draw_from_streams_of_their_own_and_runs_repeat() {
        let time = Time::Uniform { min: 0.0, max: 1.0 };
        let draw = |rank| Accelerator::new(&time, 7, rank).draw();
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
    }
}
