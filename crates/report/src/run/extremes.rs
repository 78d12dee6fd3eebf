//! Which rank the others waited for, and which one had time to spare.

use std::collections::BTreeMap;
use std::fmt;

use feedrate_metrics::extremes::{RankExtremes, RankTime};
use feedrate_metrics::record::{EpochRecord, StepRecord};
use feedrate_metrics::units::Seconds;
use serde::{Deserialize, Serialize};

/// A rank that was slower, or faster, than all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankFigure {
    /// Its number.
    pub rank: u32,
    /// The name of its node.
    pub host: String,
    /// What its steps of training took in all epochs, waiting for batches and computing, without the
    /// barriers.
    pub seconds: Seconds,
    /// In how many epochs it was the slowest, or the fastest: in all of them a rank is slow by its
    /// nature or its place, in few by chance.
    pub epochs: u32,
}

impl RankFigure {
    /// The slowest and the fastest rank of `epochs`. `None` where there is one rank, or none is slower
    /// than another.
    pub(super) fn extremes(epochs: &[EpochRecord]) -> Option<[Self; 2]> {
        let of_each: Vec<RankExtremes> = epochs.iter().filter_map(RankExtremes::of).collect();
        let mut times: BTreeMap<u32, RankTime> = BTreeMap::new();
        for rank in epochs.iter().flat_map(|epoch| &epoch.ranks) {
            let steps = rank.blocks.iter().flat_map(|block| &block.steps);
            let time = times.entry(rank.rank).or_insert_with(|| RankTime {
                rank: rank.rank,
                host: rank.host.clone(),
                seconds: Seconds::default(),
            });
            time.seconds += steps.map(StepRecord::proc).sum();
        }
        let by_time =
            |one: &&RankTime, other: &&RankTime| one.seconds.0.total_cmp(&other.seconds.0);
        let fastest = times.values().min_by(by_time)?;
        // Of equals `max_by` takes the last.
        let slowest = times.values().rev().max_by(by_time)?;
        let figure = |time: &RankTime, of: fn(&RankExtremes) -> &RankTime| Self {
            rank: time.rank,
            host: time.host.clone(),
            seconds: time.seconds,
            epochs: of_each.iter().filter(|each| of(each).rank == time.rank).count() as u32,
        };
        (slowest.rank != fastest.rank)
            .then(|| [figure(slowest, |each| &each.slowest), figure(fastest, |each| &each.fastest)])
    }
}

/// `1 on b: 4.20 s of steps`
impl fmt::Display for RankFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, host, seconds, .. } = self;
        write!(f, "{rank} on {host}: {:.2} s of steps", seconds.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_slowest_rank_is_that_of_the_whole_run_with_the_epochs_in_which_it_was() {
        let mut report = fixtures::two_nodes();
        let [slowest, fastest] = RankFigure::extremes(&report.record.epochs).unwrap();
        assert_eq!((slowest.rank, slowest.host.as_str(), slowest.epochs), (1, "b", 2));
        assert_eq!((fastest.rank, fastest.host.as_str(), fastest.epochs), (0, "a", 2));
        let expected = 20.0 * (0.0315 + 0.04755) + 10.0 * 0.0001;
        assert!((slowest.seconds.0 - expected).abs() < 1e-9, "{slowest:?}");

        // A single epoch of rank 2 outweighs both of rank 1.
        report.record.epochs[1].ranks[2].blocks[0].steps[0].wait = Seconds(10.0);
        let [slowest, _] = RankFigure::extremes(&report.record.epochs).unwrap();
        assert_eq!((slowest.rank, slowest.host.as_str(), slowest.epochs), (2, "a", 1));
    }

    #[test]
    fn ranks_that_are_alike_have_no_extremes() {
        for np in [1, 3] {
            assert_eq!(RankFigure::extremes(&fixtures::run(np, 2, 3).record.epochs), None);
        }
        assert_eq!(RankFigure::extremes(&[]), None);
    }
}
