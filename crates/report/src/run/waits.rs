//! What the accelerators of a run waited for.

use feedrate_metrics::record::{RunRecord, WaitParts};
use feedrate_metrics::units::Seconds;
use feedrate_metrics::verdict::TimeShares;
use serde::{Deserialize, Serialize};

/// Shares of all the time in which accelerators waited for batches and for each other, over all epochs
/// and ranks; they add up to 100 %. A wait for a batch is told by the piece of it that came last: see
/// [`WaitParts`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WaitShares {
    /// How long an accelerator waited in all epochs, mean over ranks.
    pub seconds_per_rank: f64,
    /// From the request that succeeded to its first byte.
    pub first_byte_percent: f64,
    /// From the first byte to the last.
    pub transfer_percent: f64,
    /// Not asked for yet, for one of the two reasons below.
    pub queued_percent: f64,
    /// Held back by a full window or chunk.
    pub queued_for_window_percent: f64,
    /// Held back in favour of other reads of the process.
    pub queued_for_turn_percent: f64,
    /// Attempts that failed, waits between them, making connections.
    pub retries_percent: f64,
    /// Readers' work on samples.
    pub work_percent: f64,
    /// Putting a batch together, handing it over, waking up.
    pub handover_percent: f64,
    /// Waiting for the other ranks.
    pub barrier_percent: f64,
}

impl WaitShares {
    /// `None` when nobody noted what waits went by, or nobody waited.
    pub(super) fn of(record: &RunRecord, shares: &TimeShares) -> Option<Self> {
        let TimeShares { waited, barrier, .. } = shares;
        let total = waited.total() + *barrier;
        if waited.total().is_zero() {
            return None;
        }
        let ranks = record.epochs.iter().map(|epoch| epoch.ranks.len()).max().unwrap_or_default();
        let percent = |part: Seconds| 100.0 * part.0 / total.0;
        let WaitParts { queued_for_window, queued_for_turn, retries, first_byte, .. } = *waited;
        let WaitParts { transfer, work, handover, .. } = *waited;
        Some(Self {
            seconds_per_rank: total.0 / ranks.max(1) as f64,
            first_byte_percent: percent(first_byte),
            transfer_percent: percent(transfer),
            queued_percent: percent(waited.queued()),
            queued_for_window_percent: percent(queued_for_window),
            queued_for_turn_percent: percent(queued_for_turn),
            retries_percent: percent(retries),
            work_percent: percent(work),
            handover_percent: percent(handover),
            barrier_percent: percent(*barrier),
        })
    }

    /// `1.10 s a rank: 60 % first byte, 25 % transfer, 10 % queued in the client, 0 % retries, 0 % work on
    /// samples, 5 % hand-over, 0 % barriers`
    pub(crate) fn in_words(&self) -> String {
        let shares = self.shares().map(|(share, name)| format!("{share:.0} % {name}"));
        let barriers = self.barrier_percent;
        format!(
            "{:.2} s a rank: {}, {barriers:.0} % barriers",
            self.seconds_per_rank,
            shares.join(", ")
        )
    }

    /// The largest share of the waiting for batches, and what to do about it where it is the client's own.
    pub(super) fn mostly(&self) -> String {
        let shares = self.shares();
        let (share, name) = shares
            .iter()
            .copied()
            .fold(shares[0], |most, next| if next.0 > most.0 { next } else { most });
        let advice = match name {
            QUEUED if self.queued_for_window_percent >= self.queued_for_turn_percent => {
                " as windows were full (raise storage.storage_options.prefetch_window or \
                 reader.read_threads)"
            }
            QUEUED => {
                " in favour of other reads (reader.window: fixed lets all go out that the windows hold)"
            }
            _ => "",
        };
        format!("mostly {name}{advice}: {share:.0} % of the waiting")
    }

    /// All but the barriers, with their names.
    fn shares(&self) -> [(f64, &'static str); 6] {
        [
            (self.first_byte_percent, "first byte"),
            (self.transfer_percent, "transfer"),
            (self.queued_percent, QUEUED),
            (self.retries_percent, "retries"),
            (self.work_percent, "work on samples"),
            (self.handover_percent, "hand-over"),
        ]
    }
}

const QUEUED: &str = "queued in the client";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn of(record: &RunRecord) -> Option<WaitShares> {
        WaitShares::of(record, &TimeShares::of(record))
    }

    #[test]
    fn the_shares_add_up_to_the_whole() {
        let waits = of(&fixtures::run(4, 3, 10).record).unwrap();
        let shares = waits.shares().map(|(share, _)| share);
        let sum = shares.iter().sum::<f64>() + waits.barrier_percent;
        assert!((sum - 100.0).abs() < 1e-9, "{waits:?}");
        assert!(waits.barrier_percent > 1.0, "{waits:?}");
        let queued = waits.queued_for_window_percent + waits.queued_for_turn_percent;
        assert!((waits.queued_percent - queued).abs() < 1e-9, "{waits:?}");
        // Three epochs of ten steps, in each of which an accelerator waits 2.0 ms, or 2.1 in the last,
        // for its batch and 0.4 ms for others.
        assert!((waits.seconds_per_rank - 0.073).abs() < 1e-9, "{waits:?}");
    }

    #[test]
    fn a_run_that_did_not_note_it_has_none() {
        let mut record = fixtures::known_delays().record;
        for rank in record.epochs.iter_mut().flat_map(|epoch| &mut epoch.ranks) {
            rank.waited = WaitParts::default();
        }
        assert_eq!(of(&record), None);
    }

    #[test]
    fn the_largest_share_is_named_and_what_holds_the_client_back() {
        let of = |waited: WaitParts| {
            let mut record = fixtures::known_delays().record;
            record.epochs[0].ranks[0].waited = waited;
            of(&record).unwrap().mostly()
        };
        let mut waited = WaitParts { transfer: Seconds(1.0), ..WaitParts::default() };
        waited.first_byte = Seconds(0.5);
        assert_eq!(of(waited), "mostly transfer: 67 % of the waiting");
        waited.queued_for_window = Seconds(1.6);
        waited.queued_for_turn = Seconds(1.5);
        let words = of(waited);
        assert!(words.starts_with("mostly queued in the client as windows were full"), "{words}");
        assert!(words.contains("prefetch_window"), "{words}");
        waited.queued_for_window = Seconds(1.4);
        assert!(of(waited).contains("reader.window"), "{}", of(waited));
    }
}
