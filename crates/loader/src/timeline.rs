//! What a rank's wait for a batch went by.
//!
//! A batch is there when the last piece that it needs is, so a wait is told by the way of that piece:
//!
//! ```text
//!  not asked for │ waits for its turn │ attempts fail │ first byte │ the others │ worked on │ handed over
//!              asked                 turn           sent        first         last        done
//! ```
//!
//! The wait is cut where it meets these moments. What of the way lies before the wait does not count:
//! a piece that has landed by then costs the rank nothing.

use std::time::{Duration, Instant};

use feedrate_metrics::record::WaitParts;
use feedrate_metrics::units::Seconds;

/// What keeps the next file from being asked for, or its request from going out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The window or the chunk is full.
    Window,
    /// Others of the process go first.
    Turns,
}

/// How long the store took for what was asked of it one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GetTimes {
    /// To the first bytes, from the requests that succeeded.
    pub(crate) first_byte: Duration,
    /// From there to the last ones.
    pub(crate) transfer: Duration,
}

/// The way of a piece; no moment is before the one above it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    /// What kept it from being asked for earlier.
    pub(crate) held_back_by: Bound,
    /// It was asked for.
    pub(crate) asked: Instant,
    /// Its turn came.
    turn: Instant,
    /// The request went out that succeeded.
    sent: Instant,
    first_byte: Instant,
    last_byte: Instant,
    /// It could be part of a batch.
    pub(crate) done: Instant,
}

impl Timeline {
    /// A piece whose turn came as soon as it was asked for, and which the store took `times` for, up to
    /// `last_byte`. Nothing was done with it yet.
    ///
    /// Where it came by several requests these are the times of those that the last byte had to wait
    /// for. They count as those of one request: all first bytes first.
    pub(crate) fn of_read(turn: Instant, times: GetTimes, last_byte: Instant) -> Self {
        let before = |moment: Instant, span| moment.checked_sub(span).unwrap_or(turn).max(turn);
        let first_byte = before(last_byte, times.transfer);
        Self {
            held_back_by: Bound::Window,
            asked: turn,
            turn,
            sent: before(first_byte, times.first_byte),
            first_byte,
            last_byte,
            done: last_byte,
        }
    }

    /// When its last byte was there.
    pub(crate) fn last_byte(&self) -> Instant {
        self.last_byte
    }

    /// The parts of a wait that began and ended at these moments; they add up to it.
    pub(crate) fn cut(&self, began: Instant, ended: Instant) -> WaitParts {
        let mut reached = began;
        let mut until = |moment: Instant| {
            let moment = moment.min(ended).max(reached);
            Seconds::from(moment - std::mem::replace(&mut reached, moment))
        };
        let held_back = until(self.asked);
        let mut parts = WaitParts {
            queued_for_turn: until(self.turn),
            retries: until(self.sent),
            first_byte: until(self.first_byte),
            transfer: until(self.last_byte),
            work: until(self.done),
            handover: until(ended),
            ..WaitParts::default()
        };
        match self.held_back_by {
            Bound::Window => parts.queued_for_window = held_back,
            Bound::Turns => parts.queued_for_turn += held_back,
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Asked for at 10 ms, its turn came at 30, its request went out at 60, its first byte was there at
    /// 100, its last at 150, it was worked on until 210.
    fn timeline(start: Instant, held_back_by: Bound) -> Timeline {
        let times = GetTimes { first_byte: 40 * MILLI, transfer: 50 * MILLI };
        Timeline {
            held_back_by,
            asked: start + 10 * MILLI,
            done: start + 210 * MILLI,
            ..Timeline::of_read(start + 30 * MILLI, times, start + 150 * MILLI)
        }
    }

    fn in_millis(parts: &WaitParts) -> [i64; 7] {
        let WaitParts { queued_for_window, queued_for_turn, retries, first_byte, .. } = *parts;
        let WaitParts { transfer, work, handover, .. } = *parts;
        [queued_for_window, queued_for_turn, retries, first_byte, transfer, work, handover]
            .map(|part| part.millis().round() as i64)
    }

    #[test]
    fn a_wait_that_saw_all_of_the_way_is_cut_at_each_moment() {
        let start = Instant::now();
        let cut = |bound| timeline(start, bound).cut(start, start + 220 * MILLI);
        assert_eq!(in_millis(&cut(Bound::Window)), [10, 20, 30, 40, 50, 60, 10]);
        assert_eq!(in_millis(&cut(Bound::Turns)), [0, 30, 30, 40, 50, 60, 10]);
    }

    #[test]
    fn what_happened_before_the_wait_is_no_part_of_it() {
        let start = Instant::now();
        let timeline = timeline(start, Bound::Window);
        let cut = |from| in_millis(&timeline.cut(start + from * MILLI, start + 220 * MILLI));
        assert_eq!(cut(20), [0, 10, 30, 40, 50, 60, 10]);
        assert_eq!(cut(80), [0, 0, 0, 20, 50, 60, 10]);
        assert_eq!(cut(140), [0, 0, 0, 0, 10, 60, 10]);
        assert_eq!(cut(215), [0, 0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn a_store_that_says_it_took_longer_than_was_waited_for_it_is_not_believed() {
        let start = Instant::now();
        let times = GetTimes { first_byte: 500 * MILLI, transfer: 20 * MILLI };
        let parts =
            Timeline::of_read(start, times, start + 100 * MILLI).cut(start, start + 100 * MILLI);
        assert_eq!(in_millis(&parts), [0, 0, 0, 80, 20, 0, 0]);
    }

    proptest! {
        #[test]
        fn the_parts_add_up_to_the_wait(
            turn in 0_u64..1_000_000,
            first_byte in 0_u64..1_000_000,
            transfer in 0_u64..1_000_000,
            last in 0_u64..3_000_000,
            from in 0_u64..3_000_000,
            length in 0_u64..3_000_000,
        ) {
            let start = Instant::now();
            let at = |nanos| start + Duration::from_nanos(nanos);
            let span = Duration::from_nanos;
            let times = GetTimes { first_byte: span(first_byte), transfer: span(transfer) };
            let timeline = Timeline::of_read(at(turn), times, at(turn + last));
            let parts = timeline.cut(at(from), at(from + length));
            prop_assert!((parts.total().0 - length as f64 / 1e9).abs() < 1e-12, "{parts:?}");
            prop_assert!(in_millis(&parts).iter().all(|part| *part >= 0));
        }
    }
}
