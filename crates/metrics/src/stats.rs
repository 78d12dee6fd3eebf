//! Mean and spread of a few values.

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

/// The values, if every one is known: a mean over the others would hide the gap.
pub fn all_known(values: &[Option<f64>]) -> Option<Vec<f64>> {
    values.iter().copied().collect()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(mean(&[]), None);
        assert_eq!(stdev(&[]), None);
    }
}
