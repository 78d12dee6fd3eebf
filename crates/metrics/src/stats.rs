//! Mean and spread of a few values, and whether two sets of them differ by more than their noise.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// POPULATION standard deviation, as DLIO and `MLPerf` Storage report it (spec/dlio.md 7.3); `None`
/// for no values.
pub fn stdev(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / values.len() as f64).sqrt())
}

/// Mean and spread of the values that one figure had, one an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Population standard deviation, as in every table; `None` for a single value, which has no
    /// spread that could be known.
    pub stdev: Option<f64>,
    /// How many values.
    pub values: u32,
}

impl Spread {
    /// Of `values`; `None` for no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            mean: mean(values)?,
            stdev: if values.len() > 1 { stdev(values) } else { None },
            values: values.len() as u32,
        })
    }

    /// The squared standard error of the mean: the SAMPLE variance over the number of values. The
    /// population's would make a few epochs look steadier than they are.
    fn squared_error(&self) -> Option<f64> {
        Some(self.stdev?.powi(2) / f64::from(self.values - 1))
    }
}

/// What there is to say about a figure of B against that of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The means are closer than their noise.
    Same,
    /// B's mean is higher by more than the noise.
    Higher,
    /// B's mean is lower by more than the noise.
    Lower,
    /// A or B is a single value: nothing tells noise from difference.
    SpreadUnknown,
}

/// In plain words.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Same => "same within the noise",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::SpreadUnknown => "spread unknown",
        })
    }
}

/// A figure of B against that of A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// B's mean ÷ A's; `None` when A's is 0.
    pub ratio: Option<f64>,
    /// How far from 1 chance alone takes the ratio, in 95 of 100 cases; `None` without a spread.
    pub noise: Option<f64>,
    /// The two in a word.
    pub finding: Finding,
}

/// Compares the means of `a` and `b` by Welch's t-test at 95 %: they differ when
/// |mean(b) − mean(a)| > t · √(s²(a)/n(a) + s²(b)/n(b)), with sample variances s² and the two-sided
/// 95 % quantile t of Student's distribution at the degrees of freedom of Welch and Satterthwaite
/// (B. L. Welch, Biometrika 34, 1947).
///
/// A fixed factor of 2 standard errors would call noise a difference far too often where there are
/// two or three epochs; t is 4.3 for two of each and 2.8 for three. The test takes the values as
/// independent draws, so it sees the noise between the epochs of a run and not what differs from one
/// run to the next.
pub fn compare(a: Spread, b: Spread) -> Comparison {
    let difference = b.mean - a.mean;
    let noise = noise(a, b);
    let finding = match noise {
        None => Finding::SpreadUnknown,
        Some(noise) if difference.abs() <= noise => Finding::Same,
        Some(_) if difference > 0.0 => Finding::Higher,
        Some(_) => Finding::Lower,
    };
    let relative = |value: f64| (a.mean != 0.0).then(|| value / a.mean.abs());
    Comparison {
        ratio: (a.mean != 0.0).then(|| b.mean / a.mean),
        noise: noise.and_then(relative),
        finding,
    }
}

/// The largest difference of the means that is called noise.
fn noise(a: Spread, b: Spread) -> Option<f64> {
    let (a_error, b_error) = (a.squared_error()?, b.squared_error()?);
    let squared = a_error + b_error;
    if squared == 0.0 {
        return Some(0.0);
    }
    let share = |error: f64, spread: Spread| error.powi(2) / f64::from(spread.values - 1);
    let freedom = squared.powi(2) / (share(a_error, a) + share(b_error, b));
    Some(student_t(freedom) * squared.sqrt())
}

/// The two-sided 95 % quantile of Student's t distribution. Degrees of freedom between two entries
/// take the wider one; from 30 on its 2.042 stands, at most 4 % above the normal distribution's.
fn student_t(freedom: f64) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Equal variances give a whole number, which rounding must not take one down.
    let whole = (freedom + 1e-6) as usize;
    QUANTILES[whole.clamp(1, QUANTILES.len()) - 1]
}

/// The values, if every one is known: a mean over the others would hide the gap.
pub fn all_known(values: &[Option<f64>]) -> Option<Vec<f64>> {
    values.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_unknown_value_makes_the_set_unknown() {
        assert_eq!(all_known(&[Some(1.0), Some(2.0)]), Some(vec![1.0, 2.0]));
        assert_eq!(all_known(&[Some(1.0), None]), None);
    }

    /// The per-epoch AU values of a public v1.0 result (cases.md, golden check).
    #[test]
    fn the_golden_result_has_its_published_mean_and_stdev() {
        let au = [92.2816, 92.5284, 92.1299, 92.4151, 92.4020];
        assert!((mean(&au).unwrap() - 92.3514).abs() < 1e-4);
        assert!((stdev(&au).unwrap() - 0.1356).abs() < 1e-4);
    }

    fn compared(a: &[f64], b: &[f64]) -> Comparison {
        compare(Spread::of(a).unwrap(), Spread::of(b).unwrap())
    }

    #[test]
    fn a_shift_beyond_the_noise_is_a_difference() {
        // s² = 1 each, so the error of the difference is √(2/3), at 4 degrees of freedom.
        let found = compared(&[10.0, 11.0, 12.0], &[13.0, 14.0, 15.0]);
        assert_eq!(found.finding, Finding::Higher);
        assert!((found.ratio.unwrap() - 14.0 / 11.0).abs() < 1e-12);
        let noise = 2.776 * (2.0_f64 / 3.0).sqrt() / 11.0;
        assert!((found.noise.unwrap() - noise).abs() < 1e-12, "{found:?}");
        assert_eq!(compared(&[13.0, 14.0, 15.0], &[10.0, 11.0, 12.0]).finding, Finding::Lower);
        assert_eq!(compared(&[10.0, 11.0, 12.0], &[12.0, 13.0, 14.0]).finding, Finding::Same);
    }

    /// Two epochs each, 2.8 standard errors apart: far from 4.3, where chance becomes unlikely.
    #[test]
    fn two_epochs_that_differ_by_more_than_two_standard_errors_may_still_be_noise() {
        let (a, b) = ([96.0, 98.0], [100.0, 102.0]);
        let error = Spread::of(&a).unwrap().squared_error().unwrap().sqrt();
        assert!((error - 1.0).abs() < 1e-12);
        assert_eq!(compared(&a, &b).finding, Finding::Same);
        assert_eq!(compared(&a, &[104.0, 106.0]).finding, Finding::Higher);
    }

    /// The spread of B alone counts: one degree of freedom remains.
    #[test]
    fn a_steady_run_does_not_lend_its_steadiness_to_the_other() {
        let found = compared(&[10.0; 30], &[10.0, 12.0]);
        assert_eq!(found.finding, Finding::Same);
        assert!((found.noise.unwrap() - 12.706 / 10.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn without_any_spread_only_equal_means_are_the_same() {
        assert_eq!(compared(&[5.0, 5.0], &[5.0, 5.0]).finding, Finding::Same);
        assert_eq!(compared(&[5.0, 5.0], &[5.1, 5.1]).finding, Finding::Higher);
    }

    #[test]
    fn one_epoch_has_a_ratio_but_no_finding() {
        let found = compared(&[10.0], &[12.0, 13.0]);
        assert_eq!(found.finding, Finding::SpreadUnknown);
        assert_eq!((found.ratio, found.noise), (Some(1.25), None));
        assert_eq!(Spread::of(&[10.0]).unwrap().stdev, None);
    }

    #[test]
    fn nothing_can_be_said_in_multiples_of_zero() {
        let found = compared(&[0.0, 0.0], &[1.0, 1.0]);
        assert_eq!((found.ratio, found.noise, found.finding), (None, None, Finding::Higher));
    }

    proptest! {
        #[test]
        fn a_finding_is_what_the_shown_ratio_and_noise_say(
            a in vec(1.0..100.0_f64, 2..8),
            b in vec(1.0..100.0_f64, 2..8),
        ) {
            let found = compared(&a, &b);
            let (ratio, noise) = (found.ratio.unwrap(), found.noise.unwrap());
            // At the very border rounding decides.
            prop_assume!(((ratio - 1.0).abs() - noise).abs() > 1e-9);
            let expected = match ratio {
                _ if (ratio - 1.0).abs() <= noise => Finding::Same,
                _ if ratio > 1.0 => Finding::Higher,
                _ => Finding::Lower,
            };
            prop_assert_eq!(found.finding, expected);
            let back = compared(&b, &a).finding;
            prop_assert_eq!(back == Finding::Same, found.finding == Finding::Same);
            prop_assert_eq!(back == Finding::Lower, found.finding == Finding::Higher);
        }
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(mean(&[]), None);
        assert_eq!(stdev(&[]), None);
        assert_eq!(Spread::of(&[]), None);
    }
}
