//! How much a rank may read ahead.

use feedrate_metrics::units::ByteCount;
use feedrate_workload::{Reader, Shuffle};

/// The bounds of one rank's loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `read_threads`: 0 reads in the rank's own thread, one file at a time.
    pub readers: u32,
    /// Files in flight or landed but not yet in a batch, over all readers of the rank.
    pub window: usize,
    /// Batches that may wait, complete, for the rank.
    pub ready_batches: u64,
    /// Bytes in flight, landed and in batches of the rank.
    pub byte_budget: ByteCount,
}

impl Limits {
    /// The bounds of one of `ranks` ranks that share `process_budget`, when a file has at most
    /// `file_bytes` and holds `samples_per_file` samples.
    ///
    /// Ready batches are W × ceil(`prefetch_size` / W) for W readers, and 2 W for `prefetch_size` 0
    /// (spec/dlio.md 6.4). The budget is raised to two batches where the share is smaller: one that
    /// the rank holds and one that comes together.
    pub fn new(
        reader: &Reader,
        prefetch_window: u32,
        samples_per_file: u64,
        file_bytes: u64,
        process_budget: ByteCount,
        ranks: u32,
    ) -> Self {
        let readers = u64::from(reader.read_threads);
        let ready_batches = match (readers, u64::from(reader.prefetch_size)) {
            (0, _) => 0,
            (readers, 0) => 2 * readers,
            (readers, batches) => readers * batches.div_ceil(readers),
        };
        let files = most_files_per_batch(reader, samples_per_file);
        let two_batches = files.saturating_mul(2).saturating_mul(file_bytes);
        let window = (readers * u64::from(prefetch_window)).max(1) as usize;
        Self {
            readers: reader.read_threads,
            window,
            ready_batches,
            byte_budget: ByteCount((process_budget.0 / u64::from(ranks.max(1))).max(two_batches)),
        }
    }

    /// The most files that the rank's readers can hold at once.
    pub fn most_files_held(&self, batch_size: u64, samples_per_file: u64, file_bytes: u64) -> u64 {
        let ready_samples = self.ready_batches.saturating_mul(batch_size);
        let by_count =
            (self.window as u64).saturating_add(ready_samples.div_ceil(samples_per_file));
        by_count.min(self.byte_budget.0 / file_bytes.max(1))
    }
}

/// The most files that one batch's samples can be in. In order they lie together, but for a first and
/// a last file that are shared with the batches beside it; shuffled, each can be in another file.
fn most_files_per_batch(reader: &Reader, samples_per_file: u64) -> u64 {
    match reader.sample_shuffle {
        Shuffle::Off => (reader.batch_size.div_ceil(samples_per_file) + 1).min(reader.batch_size),
        Shuffle::Seed | Shuffle::Random => reader.batch_size,
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{DataLoader, Payload, Pipeline};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn reader(read_threads: u32, prefetch_size: u32) -> Reader {
        Reader {
            data_loader: DataLoader::Pytorch,
            batch_size: 24,
            read_threads,
            prefetch_size,
            file_shuffle: Shuffle::Seed,
            sample_shuffle: Shuffle::Seed,
            pipeline: Pipeline::Sliding,
            payload: Payload::Land,
        }
    }

    fn limits(read_threads: u32, prefetch_size: u32) -> Limits {
        Limits::new(&reader(read_threads, prefetch_size), 64, 1, 1000, ByteCount(1 << 20), 4)
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
        let large = Limits::new(&reader(8, 2), 64, 1, 1 << 20, ByteCount(1 << 20), 4);
        assert_eq!(large.byte_budget, ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn shuffled_samples_may_each_need_a_file_of_their_own() {
        let budget = |sample_shuffle| {
            let reader = Reader { sample_shuffle, ..reader(8, 2) };
            Limits::new(&reader, 64, 8, 1 << 20, ByteCount(0), 1).byte_budget
        };
        assert_eq!(budget(Shuffle::Off), ByteCount(2 * 4 * MIB));
        assert_eq!(budget(Shuffle::Seed), ByteCount(2 * 24 * MIB));
    }

    #[test]
    fn the_largest_values_saturate() {
        let reader = Reader { batch_size: u64::from(u32::MAX), ..reader(u32::MAX, u32::MAX) };
        let limits = Limits::new(&reader, u32::MAX, 1, u64::from(u32::MAX), ByteCount(0), 1);
        assert_eq!(limits.byte_budget, ByteCount(u64::MAX));
        assert!(limits.most_files_held(reader.batch_size, 1, 1) > 1 << 62);
    }
}
