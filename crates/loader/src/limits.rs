//! How much a rank may read ahead. What windows and chunks call files are the pieces that are read:
//! most often whole files.

use std::time::Duration;

use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_workload::{CHUNKED_GETS_IN_FLIGHT, Payload, Pipeline, Split, Workload};

use crate::source::PieceSizes;
use crate::times::duration;

/// The bounds of one rank's loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `read_threads`: 0 reads in the rank's own thread, one file at a time.
    pub readers: u32,
    /// How readers read ahead.
    pub read_ahead: ReadAhead,
    /// Batches that may wait, complete, for the rank.
    pub ready_batches: u64,
    /// What becomes of the bytes. Discarded, they count in the budget only while in flight.
    pub payload: Payload,
    /// Bytes in flight, landed and in batches of the rank.
    pub byte_budget: ByteCount,
    /// The most bytes that two batches can have: one that the rank holds, one that comes together.
    pub(crate) two_batches: ByteCount,
}

/// How the readers of a rank read ahead, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// A file that is used makes room for the next.
    Sliding {
        /// Files in flight or landed but not yet in a batch, over all readers of the rank.
        window: u64,
    },
    /// The next chunk is fetched while one is used.
    Chunked {
        /// Files of a reader's chunk.
        chunk: u64,
        /// How long after the reader before it a reader starts in each epoch.
        stagger: Duration,
    },
}

impl Limits {
    /// The bounds of one of `ranks` ranks that go through a set of `workload`, which is read in
    /// `pieces`, and share `process_budget`.
    ///
    /// Ready batches are W × ceil(`prefetch_size` / W) for W readers, and 2 W for `prefetch_size` 0
    /// (spec/dlio.md 6.4). The budget is raised to two batches where the share is smaller: one that
    /// the rank holds and one that comes together. Readers start a mean computation time of a step
    /// apart (spec/dlio.md 2.3).
    pub fn new(
        workload: &Workload,
        split: Split,
        pieces: &PieceSizes,
        process_budget: ByteCount,
        ranks: u32,
    ) -> Self {
        let Workload { reader, storage, .. } = workload;
        let readers = u64::from(reader.read_threads);
        let ready_batches = match (readers, u64::from(reader.prefetch_size)) {
            (0, _) => 0,
            (readers, 0) => 2 * readers,
            (readers, batches) => readers * batches.div_ceil(readers),
        };
        let read_ahead = match reader.pipeline {
            Pipeline::Sliding => {
                ReadAhead::Sliding { window: (readers * u64::from(storage.prefetch_window)).max(1) }
            }
            Pipeline::Chunked => ReadAhead::Chunked {
                chunk: u64::from(storage.prefetch_window),
                stagger: if storage.stagger_workers {
                    duration(Seconds(workload.step_time(split).mean()))
                } else {
                    Duration::ZERO
                },
            },
        };
        let most = most_pieces(workload.reader.batch(split).saturating_mul(2), pieces);
        let two_batches = most.saturating_mul(pieces.most_bytes);
        Self {
            readers: reader.read_threads,
            read_ahead,
            ready_batches,
            payload: reader.payload,
            byte_budget: ByteCount((process_budget.0 / u64::from(ranks.max(1))).max(two_batches)),
            two_batches: ByteCount(two_batches),
        }
    }

    /// Pieces in flight or landed but not yet in a batch, over all readers of the rank, as far as the
    /// budget allows: the windows, or two chunks a reader.
    pub fn most_pieces_ahead(&self) -> u64 {
        match self.read_ahead {
            ReadAhead::Sliding { window } => window,
            ReadAhead::Chunked { chunk, .. } => {
                (2 * u64::from(self.readers)).saturating_mul(chunk).max(1)
            }
        }
    }

    /// Pieces in flight at once, over all readers of the rank, as far as the budget allows.
    pub fn most_in_flight(&self) -> u64 {
        match self.read_ahead {
            ReadAhead::Sliding { window } => window,
            ReadAhead::Chunked { chunk, .. } => {
                u64::from(self.readers) * chunk.min(u64::from(CHUNKED_GETS_IN_FLIGHT))
            }
        }
    }

    /// The most pieces that can be in flight, landed or in batches of the rank at once. What is
    /// discarded takes no budget once it has landed.
    pub fn most_pieces_held(&self, batch_size: u64, pieces: &PieceSizes) -> u64 {
        let ready_samples = self.ready_batches.saturating_mul(batch_size);
        let ready = (ready_samples as f64 / pieces.mean_samples).ceil() as u64;
        let by_count = self.most_pieces_ahead().saturating_add(ready);
        match self.payload {
            Payload::Land => by_count.min(self.byte_budget.0 / pieces.mean_bytes.max(1)),
            Payload::Discard => by_count,
        }
    }
}

/// The most pieces that so many consecutive `samples` can be of: besides whole ones a first and a last
/// that others share.
fn most_pieces(samples: u64, pieces: &PieceSizes) -> u64 {
    match pieces.least_samples {
        0 | 1 => samples,
        least => (samples.saturating_sub(2) / least + 2 + pieces.smaller).min(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::workload;

    const MIB: u64 = 1 << 20;

    /// Pieces of one sample of so many bytes.
    fn single(bytes: u64) -> PieceSizes {
        PieceSizes {
            least_samples: 1,
            smaller: 0,
            mean_samples: 1.0,
            most_bytes: bytes,
            mean_bytes: bytes,
        }
    }

    fn with(options: &[&str]) -> Workload {
        let usual = ["reader.batch_size=24", "storage.storage_options.prefetch_window=64"];
        workload(&[&usual[..], options].concat())
    }

    fn limits(read_threads: u32, prefetch_size: u32) -> Limits {
        let threads = format!("reader.read_threads={read_threads}");
        let prefetch = format!("reader.prefetch_size={prefetch_size}");
        Limits::new(&with(&[&threads, &prefetch]), Split::Train, &single(1000), ByteCount(MIB), 4)
    }

    #[test]
    fn ready_batches_are_whole_rounds_of_the_readers() {
        assert_eq!(limits(8, 2).ready_batches, 8);
        assert_eq!(limits(2, 3).ready_batches, 4);
        assert_eq!(limits(4, 0).ready_batches, 8);
        assert_eq!(limits(0, 2).ready_batches, 0);
    }

    #[test]
    fn the_budget_is_a_share_but_holds_two_batches() {
        assert_eq!(limits(8, 2).byte_budget, ByteCount(1 << 18));
        let large = Limits::new(&with(&[]), Split::Train, &single(MIB), ByteCount(MIB), 4);
        assert_eq!(large.byte_budget, ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn the_more_samples_a_piece_has_the_fewer_pieces_a_batch_needs() {
        let budget = |least_samples| {
            let pieces = PieceSizes { least_samples, ..single(MIB) };
            Limits::new(&with(&[]), Split::Train, &pieces, ByteCount(0), 1).byte_budget
        };
        // Of 48 samples 5 pieces can be whole, and a first and a last are shared with others.
        assert_eq!(budget(8), ByteCount(7 * MIB));
        assert_eq!(budget(1000), ByteCount(2 * MIB));
        assert_eq!(budget(1), ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn readers_of_chunks_start_a_mean_computation_time_apart_unless_told_otherwise() {
        let stagger = |options: &[&str]| {
            let options = [&["reader.pipeline=chunked"], options].concat();
            match Limits::new(&with(&options), Split::Train, &single(MIB), ByteCount(0), 1)
                .read_ahead
            {
                ReadAhead::Chunked { chunk: 64, stagger } => stagger.as_millis(),
                other => panic!("{other:?}"),
            }
        };
        let uniform = "train.computation_time={type: uniform, min: 1, max: 2}";
        assert_eq!(stagger(&["train.computation_time=0.25"]), 250);
        assert_eq!(stagger(&[uniform]), 1_500);
        let off = "storage.storage_options.stagger_workers=false";
        assert_eq!(stagger(&["train.computation_time=0.25", off]), 0);
    }

    #[test]
    fn an_evaluation_has_bounds_of_its_own_batch_and_time() {
        let workload = with(&[
            "reader.batch_size_eval=48",
            "reader.pipeline=chunked",
            "train.computation_time=0.25",
            "evaluation.eval_time=0.5",
        ]);
        let limits = |split| Limits::new(&workload, split, &single(MIB), ByteCount(0), 1);
        assert_eq!(limits(Split::Train).byte_budget, ByteCount(2 * 24 * MIB));
        assert_eq!(limits(Split::Valid).byte_budget, ByteCount(2 * 48 * MIB));
        let ReadAhead::Chunked { stagger, .. } = limits(Split::Valid).read_ahead else {
            panic!("the pipeline is chunked");
        };
        assert_eq!(stagger, Duration::from_millis(500));
    }

    #[test]
    fn two_chunks_a_reader_are_ahead_and_what_is_discarded_needs_no_budget() {
        let held = |options: &[&str], budget| {
            let readers = ["reader.read_threads=4", "reader.prefetch_size=2"];
            let options = [&readers[..], options].concat();
            Limits::new(&with(&options), Split::Train, &single(1000), ByteCount(budget), 1)
                .most_pieces_held(24, &single(1000))
        };
        assert_eq!(held(&[], MIB), 4 * 64 + 4 * 24);
        assert_eq!(held(&[], 100_000), 100);
        let chunked = "reader.pipeline=chunked";
        assert_eq!(held(&[chunked], MIB), 2 * 4 * 64 + 4 * 24);
        assert_eq!(held(&[chunked], 100_000), 100);
        assert_eq!(held(&[chunked, "reader.payload=discard"], 100_000), 2 * 4 * 64 + 4 * 24);
    }

    #[test]
    fn the_largest_values_saturate() {
        for pipeline in [Pipeline::Sliding, Pipeline::Chunked] {
            let mut workload = with(&[]);
            workload.reader.pipeline = pipeline;
            workload.reader.batch_size = u64::from(u32::MAX);
            workload.reader.read_threads = u32::MAX;
            workload.reader.prefetch_size = u32::MAX;
            workload.storage.prefetch_window = u32::MAX;
            let large = single(u64::from(u32::MAX));
            let limits = Limits::new(&workload, Split::Train, &large, ByteCount(0), 1);
            assert_eq!(limits.byte_budget, ByteCount(u64::MAX));
            assert!(limits.most_pieces_held(workload.reader.batch_size, &single(1)) > 1 << 62);
        }
    }
}
