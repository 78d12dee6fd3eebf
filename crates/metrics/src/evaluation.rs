//! Figures of evaluations (spec/dlio.md 7.4): of one rank, and the list that a run has of them.

use crate::record::{EpochRecord, Evaluation, RankEpoch};
use crate::stats::all_known;
use crate::utilization::{MetricWindow, mean_over_ranks, sums_of};

/// What a run's list of a figure has an entry for (spec/dlio.md D13).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EvaluationEntries {
    /// Each evaluated epoch: the mean of the ranks' AU, the sum of their throughputs.
    #[default]
    PerEpoch,
    /// Each rank and evaluated epoch, all of rank 0 first: the rank's AU ÷ ranks, and its own
    /// throughput. DLIO's lists, so that with two ranks an AU of 96 % is reported as 48 %.
    PerRank,
}

/// AU of one rank's evaluation in percent: measured compute inside the window over the evaluation's
/// time less the steps outside it. `None` when the window holds no step.
pub fn evaluation_au_percent(evaluation: &Evaluation, window: &MetricWindow) -> Option<f64> {
    sums_of(&evaluation.steps, evaluation.duration, window)
        .map(|sums| 100.0 * sums.compute.0 / sums.duration.0)
}

/// Throughput of one rank's evaluation in samples/s: ALL its steps × batch over its time, whatever the
/// window is. `None` for no time.
pub fn evaluation_samples_per_second(evaluation: &Evaluation, batch_size: u64) -> Option<f64> {
    let samples = evaluation.steps.len() as f64 * batch_size as f64;
    (evaluation.duration.0 > 0.0).then(|| samples / evaluation.duration.0)
}

/// The AU of a run's evaluations in percent. `window` counts the steps of an evaluation.
pub fn evaluation_au_entries(
    epochs: &[EpochRecord],
    window: &MetricWindow,
    entries: EvaluationEntries,
) -> Vec<Option<f64>> {
    let of_rank = |rank: &RankEpoch| evaluation_au_percent(rank.evaluation.as_ref()?, window);
    match entries {
        EvaluationEntries::PerEpoch => {
            evaluated(epochs).map(|epoch| mean_over_ranks(epoch, of_rank)).collect()
        }
        EvaluationEntries::PerRank => per_rank(epochs, |rank, ranks| Some(of_rank(rank)? / ranks)),
    }
}

/// The throughputs of a run's evaluations in samples/s.
pub fn evaluation_samples_entries(
    epochs: &[EpochRecord],
    batch_size: u64,
    entries: EvaluationEntries,
) -> Vec<Option<f64>> {
    let of_rank =
        |rank: &RankEpoch| evaluation_samples_per_second(rank.evaluation.as_ref()?, batch_size);
    match entries {
        EvaluationEntries::PerEpoch => evaluated(epochs)
            .map(|epoch| {
                let rates: Vec<_> = epoch.ranks.iter().map(of_rank).collect();
                Some(all_known(&rates)?.iter().sum())
            })
            .collect(),
        EvaluationEntries::PerRank => per_rank(epochs, |rank, _| of_rank(rank)),
    }
}

/// The epochs behind which there was an evaluation.
fn evaluated(epochs: &[EpochRecord]) -> impl Iterator<Item = &EpochRecord> {
    epochs.iter().filter(|epoch| epoch.ranks.iter().any(|rank| rank.evaluation.is_some()))
}

/// `figure` of each rank, given their number, in each evaluated epoch.
fn per_rank(
    epochs: &[EpochRecord],
    figure: impl Fn(&RankEpoch, f64) -> Option<f64>,
) -> Vec<Option<f64>> {
    let ranks = epochs.iter().map(|epoch| epoch.ranks.len()).max().unwrap_or(0);
    let of_rank = |number| {
        let figure = &figure;
        evaluated(epochs)
            .map(move |epoch| figure(epoch.ranks.get(number)?, epoch.ranks.len() as f64))
    };
    (0..ranks).flat_map(of_rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Stamp;
    use crate::units::{ByteCount, Seconds};
    use crate::utilization::tests::{close, rank, step, window};

    /// An evaluation of `steps` steps of `wait` and 0.1 s computing, one sample each.
    fn evaluation(steps: usize, wait: f64) -> Evaluation {
        Evaluation {
            start: Stamp::now(),
            end: Stamp::now(),
            duration: Seconds(steps as f64 * (wait + 0.1)),
            steps: vec![step(wait, 0.1, 0.0); steps],
            samples: steps as u64,
            bytes: ByteCount(0),
        }
    }

    fn epoch(number: u32, evaluations: Vec<Option<Evaluation>>) -> EpochRecord {
        let ranks = (0..).zip(evaluations).map(|(number, evaluation)| RankEpoch {
            evaluation,
            ..rank(number, vec![vec![step(0.0, 0.1, 0.0); 4]])
        });
        EpochRecord { epoch: number, ranks: ranks.collect() }
    }

    /// The wait beside 0.1 s of computing that gives this AU.
    fn wait_for(au_percent: f64) -> f64 {
        10.0 / au_percent - 0.1
    }

    #[test]
    fn au_leaves_the_first_step_out_and_throughput_counts_all() {
        let mut evaluation = evaluation(11, 0.1);
        evaluation.steps[0].wait = Seconds(1.1);
        evaluation.duration.0 += 1.0;
        close(evaluation_au_percent(&evaluation, &window(11)), 50.0);
        close(evaluation_samples_per_second(&evaluation, 4), 44.0 / 3.2);
    }

    #[test]
    fn a_single_step_has_no_au_and_still_a_throughput() {
        let one = evaluation(1, 0.1);
        assert_eq!(evaluation_au_percent(&one, &window(1)), None);
        close(evaluation_samples_per_second(&one, 2), 10.0);
        let epochs = [epoch(1, vec![Some(one)])];
        let au = evaluation_au_entries(&epochs, &window(1), EvaluationEntries::PerEpoch);
        assert_eq!(au, [None]);
    }

    /// Appendix C of the specification, row "evaluation, N 2".
    #[test]
    fn two_ranks_have_the_mean_of_their_au_and_the_sum_of_their_rates() {
        let ranks = [97.14, 96.30].map(|au| Some(evaluation(20, wait_for(au))));
        let mut epochs = [epoch(1, ranks.to_vec())];
        let au = |entries| evaluation_au_entries(&epochs, &window(20), entries);
        let ours = au(EvaluationEntries::PerEpoch);
        assert_eq!(ours.len(), 1);
        close(ours[0], 96.72);
        let theirs = au(EvaluationEntries::PerRank);
        assert_eq!(theirs.len(), 2);
        close(theirs[0], 48.57);
        close(theirs[1], 48.15);

        for (rank, rate) in epochs[0].ranks.iter_mut().zip([48.37, 47.02]) {
            rank.evaluation.as_mut().unwrap().duration = Seconds(20.0 / rate);
        }
        let rates = |entries| evaluation_samples_entries(&epochs, 1, entries);
        let ours = rates(EvaluationEntries::PerEpoch);
        assert_eq!(ours.len(), 1);
        close(ours[0], 95.39);
        let theirs = rates(EvaluationEntries::PerRank);
        assert_eq!(theirs.len(), 2);
        close(theirs[0], 48.37);
        close(theirs[1], 47.02);
    }

    #[test]
    fn epochs_without_evaluation_have_no_entry_and_ranks_come_one_after_the_other() {
        let two = |steps: [usize; 2]| steps.map(|steps| Some(evaluation(steps, 0.0))).to_vec();
        let epochs = [
            epoch(1, vec![None, None]),
            epoch(2, two([10, 20])),
            epoch(3, vec![None, None]),
            epoch(4, two([30, 40])),
        ];
        let batches = |entries| evaluation_samples_entries(&epochs, 1, entries);
        assert_eq!(batches(EvaluationEntries::PerEpoch).len(), 2);
        assert_eq!(batches(EvaluationEntries::PerRank).len(), 4);
        let mut epochs = epochs;
        for (epoch, rates) in [(1, [1.0, 2.0]), (3, [3.0, 4.0])] {
            for (rank, rate) in epochs[epoch].ranks.iter_mut().zip(rates) {
                let evaluation = rank.evaluation.as_mut().unwrap();
                evaluation.duration = Seconds(evaluation.steps.len() as f64 / rate);
            }
        }
        let theirs = evaluation_samples_entries(&epochs, 1, EvaluationEntries::PerRank);
        for (found, expected) in theirs.into_iter().zip([1.0, 3.0, 2.0, 4.0]) {
            close(found, expected);
        }
    }

    #[test]
    fn a_rank_without_the_figure_makes_the_epoch_unknown() {
        let epochs = [epoch(1, vec![Some(evaluation(10, 0.0)), None])];
        let entries = EvaluationEntries::PerEpoch;
        assert_eq!(evaluation_au_entries(&epochs, &window(10), entries), [None]);
        assert_eq!(evaluation_samples_entries(&epochs, 1, entries), [None]);
    }
}
