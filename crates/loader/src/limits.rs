//! How much a rank may read ahead.

use std::time::Duration;

use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_workload::{Payload, Pipeline, Shuffle, Split, Workload};

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
    /// The bounds of one of `ranks` ranks that go through a set of `workload` and share
    /// `process_budget`, when a file of the set has at most `file_bytes`.
    ///
    /// Ready batches are W × ceil(`prefetch_size` / W) for W readers, and 2 W for `prefetch_size` 0
    /// (spec/dlio.md 6.4). The budget is raised to two batches where the share is smaller: one that
    /// the rank holds and one that comes together. Readers start a mean computation time of a step
    /// apart (spec/dlio.md 2.3).
    pub fn new(
        workload: &Workload,
        split: Split,
        file_bytes: u64,
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
        let files = most_files_per_batch(workload, split);
        let two_batches = files.saturating_mul(2).saturating_mul(file_bytes);
        Self {
            readers: reader.read_threads,
            read_ahead,
            ready_batches,
            payload: reader.payload,
            byte_budget: ByteCount((process_budget.0 / u64::from(ranks.max(1))).max(two_batches)),
            two_batches: ByteCount(two_batches),
        }
    }

    /// Files in flight or landed but not yet in a batch, over all readers of the rank, as far as the
    /// budget allows: the windows, or two chunks a reader.
    pub fn most_files_ahead(&self) -> u64 {
        match self.read_ahead {
            ReadAhead::Sliding { window } => window,
            ReadAhead::Chunked { chunk, .. } => {
                (2 * u64::from(self.readers)).saturating_mul(chunk).max(1)
            }
        }
    }

    /// The most files that can be in flight, landed or in batches of the rank at once. Files that are
    /// discarded take no budget once they have landed.
    pub fn most_files_held(&self, batch_size: u64, samples_per_file: u64, file_bytes: u64) -> u64 {
        let ready_samples = self.ready_batches.saturating_mul(batch_size);
        let by_count =
            self.most_files_ahead().saturating_add(ready_samples.div_ceil(samples_per_file));
        match self.payload {
            Payload::Land => by_count.min(self.byte_budget.0 / file_bytes.max(1)),
            Payload::Discard => by_count,
        }
    }
}

/// The most files that one batch's samples can be in. In order they lie together, but for a first and
/// a last file that are shared with the batches beside it; shuffled, each can be in another file.
fn most_files_per_batch(workload: &Workload, split: Split) -> u64 {
    let samples = workload.reader.batch(split);
    match workload.reader.sample_shuffle {
        Shuffle::Off => (samples.div_ceil(workload.dataset.num_samples_per_file) + 1).min(samples),
        Shuffle::Seed | Shuffle::Random => samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::workload;

    const MIB: u64 = 1 << 20;

    fn with(options: &[&str]) -> Workload {
        let usual = ["reader.batch_size=24", "storage.storage_options.prefetch_window=64"];
        workload(&[&usual[..], options].concat())
    }

    fn limits(read_threads: u32, prefetch_size: u32) -> Limits {
        let threads = format!("reader.read_threads={read_threads}");
        let prefetch = format!("reader.prefetch_size={prefetch_size}");
        Limits::new(&with(&[&threads, &prefetch]), Split::Train, 1000, ByteCount(MIB), 4)
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
        let large = Limits::new(&with(&[]), Split::Train, MIB, ByteCount(MIB), 4);
        assert_eq!(large.byte_budget, ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn shuffled_samples_may_each_need_a_file_of_their_own() {
        let budget = |shuffle| {
            let workload = with(&["dataset.num_samples_per_file=8", shuffle]);
            Limits::new(&workload, Split::Train, MIB, ByteCount(0), 1).byte_budget
        };
        assert_eq!(budget("reader.sample_shuffle=off"), ByteCount(2 * 4 * MIB));
        assert_eq!(budget("reader.sample_shuffle=seed"), ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn readers_of_chunks_start_a_mean_computation_time_apart_unless_told_otherwise() {
        let stagger = |options: &[&str]| {
            let options = [&["reader.pipeline=chunked"], options].concat();
            match Limits::new(&with(&options), Split::Train, MIB, ByteCount(0), 1).read_ahead {
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
        let limits = |split| Limits::new(&workload, split, MIB, ByteCount(0), 1);
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
            Limits::new(&with(&options), Split::Train, 1000, ByteCount(budget), 1)
                .most_files_held(24, 1, 1000)
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
            let limits = Limits::new(&workload, Split::Train, u64::from(u32::MAX), ByteCount(0), 1);
            assert_eq!(limits.byte_budget, ByteCount(u64::MAX));
            assert!(limits.most_files_held(workload.reader.batch_size, 1, 1) > 1 << 62);
        }
    }
}
