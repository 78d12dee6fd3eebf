//! Which rank holds up the others, and which one has time to spare.

use serde::{Deserialize, Serialize};

use crate::record::{EpochRecord, RankEpoch, StepRecord};
use crate::units::Seconds;

/// A rank and the time it needed by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// Its number.
    pub rank: u32,
    /// The name of the host it ran on.
    pub host: String,
    /// What all steps of its training took, waiting for batches and computing. Waiting for other ranks
    /// in barriers is not in it, since that makes all ranks' epochs equally long.
    pub seconds: Seconds,
}

/// The slowest and the fastest rank of an epoch. They are one rank where there is no other, or where
/// all took equally long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankExtremes {
    /// The rank that needed most time; of several, the lowest.
    pub slowest: RankTime,
    /// The rank that needed least time; of several, the lowest.
    pub fastest: RankTime,
}

impl RankExtremes {
    /// Of the training of `epoch`. `None` for an epoch without ranks.
    pub fn of(epoch: &EpochRecord) -> Option<Self> {
        let times: Vec<RankTime> = epoch.ranks.iter().map(RankTime::of).collect();
        let by_time =
            |one: &&RankTime, other: &&RankTime| one.seconds.0.total_cmp(&other.seconds.0);
        let fastest = times.iter().min_by(by_time)?.clone();
        // Of equals `max_by` takes the last.
        let slowest = times.iter().rev().max_by(by_time)?.clone();
        Some(Self { slowest, fastest })
    }
}

impl RankTime {
    fn of(rank: &RankEpoch) -> Self {
        let steps = rank.blocks.iter().flat_map(|block| &block.steps);
        Self {
            rank: rank.rank,
            host: rank.host.clone(),
            seconds: steps.map(StepRecord::proc).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utilization::tests::{rank, step};

    fn epoch(steps: &[(f64, f64)]) -> EpochRecord {
        let ranks = (0..).zip(steps).map(|(number, &(wait, barrier))| {
            let steps = vec![step(wait, 0.5, barrier); 2];
            RankEpoch { host: format!("host-{number}"), ..rank(number, vec![steps.clone(), steps]) }
        });
        EpochRecord { epoch: 1, ranks: ranks.collect() }
    }

    #[test]
    fn a_rank_is_slow_by_its_own_time_however_long_it_waits_for_others() {
        let extremes = RankExtremes::of(&epoch(&[(0.25, 0.5), (0.75, 0.0), (0.0, 9.0)])).unwrap();
        let time = |rank, seconds| RankTime {
            rank,
            host: format!("host-{rank}"),
            seconds: Seconds(seconds),
        };
        assert_eq!(extremes, RankExtremes { slowest: time(1, 5.0), fastest: time(2, 2.0) });
    }

    #[test]
    fn of_equals_the_first_is_named_and_without_ranks_there_is_none() {
        let extremes = RankExtremes::of(&epoch(&[(0.25, 0.0); 3])).unwrap();
        assert_eq!((extremes.slowest.rank, extremes.fastest.rank), (0, 0));
        assert_eq!(RankExtremes::of(&epoch(&[])), None);
    }
}
