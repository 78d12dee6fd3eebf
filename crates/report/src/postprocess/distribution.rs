//! Seven figures that stand for many.

use feedrate_metrics::stats::mean;

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Distribution {
    mean: f64,
    std: f64,
    min: f64,
    median: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Distribution {
    /// The names of the figures, in their order.
    pub(super) const NAMES: [&str; 7] = ["mean", "std", "min", "median", "p90", "p99", "max"];

    /// Of `values`, with the SAMPLE standard deviation, as DLIO's postprocessor has it; `None` for
    /// less than two.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let mean = mean(&values)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            std: (squares / (values.len() - 1) as f64).sqrt(),
            min: values[0],
            median: quantile(&values, 0.5),
            p90: quantile(&values, 0.9),
            p99: quantile(&values, 0.99),
            max: values[values.len() - 1],
        })
    }

    /// The figures, in the order of [`Self::NAMES`].
    pub(super) fn figures(&self) -> [f64; 7] {
        [self.mean, self.std, self.min, self.median, self.p90, self.p99, self.max]
    }
}

/// The inclusive quantile of `sorted` values: the lowest is the quantile of 0, the highest that of
/// 1, and between two values it runs straight (type 7 of Hyndman and Fan, The American Statistician
/// 50, 1996).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's `statistics`: `stdev`, and `quantiles(n=100, method="inclusive")`.
    #[test]
    fn the_figures_are_those_of_pythons_statistics() {
        let values = vec![7.5, 1.0, 4.0, 2.0, 10.0];
        let figures = Distribution::of(values).unwrap().figures();
        let expected = [4.9, 3.781_534_080_237_807_2, 1.0, 4.0, 9.0, 9.9, 10.0];
        for (figure, expected) in figures.into_iter().zip(expected) {
            assert!((figure - expected).abs() < 1e-12, "{figures:?}");
        }
    }

    #[test]
    fn one_value_has_no_distribution() {
        assert_eq!(Distribution::of(vec![]), None);
        assert_eq!(Distribution::of(vec![1.0]), None);
        assert!(Distribution::of(vec![3.0, 1.0]).is_some());
    }
}
