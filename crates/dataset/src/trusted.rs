//! A set whose names are trusted instead of listed, as a set of many millions of files is best.
//!
//! A few of the files are looked for, so that a wrong folder or number is told before the run and not
//! in the middle of it.

use feedrate_storage::{Cause, ObjectKey, Store, StoreError};
use feedrate_workload::{Dataset, Split};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{FileFormat, Layout, Odd};

/// Files that are looked for at a time: enough that 50,000 of them take seconds, also far away.
const IN_FLIGHT: usize = 64;

/// Why a set's names cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file that was looked for is not there.
    #[error(
        "{key} is missing at {location}: it is number {looked_at} of the {sample} of {files} files that \
         were looked for, because dataset.skip_listing takes their names from the configuration. \
         Generate the data set, correct dataset.data_folder, dataset.num_files_stored or {}, or set \
         dataset.skip_listing to False",
        split.files_key()
    )]
    Missing {
        /// The set.
        split: Split,
        /// The first file that is missing, of those looked for.
        key: ObjectKey,
        /// Where it is missing.
        location: String,
        /// Files looked for up to this one.
        looked_at: u64,
        /// Files to look for in all.
        sample: u64,
        /// Files of the set.
        files: u64,
    },
    /// A file could not be looked for.
    #[error(transparent)]
    Look(#[from] StoreError),
}

/// The layout of a set by arithmetic alone (`dataset.skip_listing`): the stored total is
/// `dataset.num_files_stored`, or the configured number of files, and always that for the evaluation
/// set. The first, the last and every `dataset.listing_validation_interval`-th file are looked for in
/// `store`; none if that is 0. Tells of those whether they are as long as files of `format`.
///
/// Memory does not grow with the number of files.
pub async fn trusted(
    store: &dyn Store,
    dataset: &Dataset,
    format: &FileFormat,
    split: Split,
    prefix: &str,
) -> Result<(Layout, Odd), TrustError> {
    let files = dataset.files(split);
    let total = match split {
        Split::Train => dataset.num_files_stored.unwrap_or(files),
        Split::Valid => files,
    };
    let layout = Layout::new(dataset, split, prefix, total);
    let sample = Sample { files, interval: dataset.listing_validation_interval };
    let layout_ref = &layout;
    let looks = stream::iter(sample.indices().zip(1..)).map(async |(file, looked_at)| {
        let key = layout_ref.key(file);
        match store.size(&key).await {
            Ok(size) => Ok((file, size)),
            Err(error) if matches!(*error.cause, Cause::NotFound { .. }) => {
                let (location, sample) = (store.location(), sample.len());
                Err(TrustError::Missing { split, key, location, looked_at, sample, files })
            }
            Err(error) => Err(error.into()),
        }
    });
    // In order, so that of several missing files the first is told.
    let mut odd = Odd::default();
    let mut looks = looks.buffered(IN_FLIGHT);
    while let Some((file, size)) = looks.try_next().await? {
        odd.look(file, size, format);
    }
    drop(looks);
    Ok((layout, odd))
}

/// Which files of a set are looked for.
#[derive(Debug, Clone, Copy)]
struct Sample {
    files: u64,
    /// 0 is none.
    interval: u64,
}

impl Sample {
    fn len(self) -> u64 {
        if self.files == 0 || self.interval == 0 {
            return 0;
        }
        (self.files - 1).div_ceil(self.interval) + 1
    }

    /// Ascending, each once.
    fn indices(self) -> impl Iterator<Item = u64> {
        let Self { files, interval } = self;
        (0..self.len()).map(move |at| at.saturating_mul(interval).min(files - 1))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use feedrate_storage::{MemoryStore, SimulatedStore};
    use feedrate_workload::Format;

    use super::*;
    use crate::testing::{dataset, files};

    fn set(files: u64, interval: u64) -> Dataset {
        Dataset { listing_validation_interval: interval, ..dataset(Format::Npz, files, 1000.0) }
    }

    /// A store with these files of a set.
    async fn holding(set: &Dataset, total: u64, files: impl Iterator<Item = u64>) -> MemoryStore {
        let (store, layout) = (MemoryStore::new(), Layout::new(set, Split::Train, "d", total));
        for file in files {
            store.put(&layout.key(file), Bytes::from_static(b"x")).await.unwrap();
        }
        store
    }

    #[test]
    fn the_first_the_last_and_every_nth_file_are_looked_for() {
        let indices = |files, interval| {
            let sample = Sample { files, interval };
            let indices: Vec<_> = sample.indices().collect();
            assert_eq!(indices.len() as u64, sample.len());
            indices
        };
        assert_eq!(indices(10, 3), [0, 3, 6, 9]);
        assert_eq!(indices(11, 3), [0, 3, 6, 9, 10]);
        assert_eq!(indices(10, 1), (0..10).collect::<Vec<_>>());
        assert_eq!(indices(10, 100), [0, 9]);
        assert_eq!(indices(1, 5), [0]);
        assert_eq!(indices(10, 0), [0_u64; 0]);
        assert_eq!(indices(0, 5), [0_u64; 0]);
        assert_eq!(Sample { files: u64::MAX, interval: u64::MAX }.len(), 2);
    }

    #[tokio::test]
    async fn subfolders_are_those_that_a_listing_would_find() {
        let set = Dataset { num_subfolders_train: 10, ..set(12, 1) };
        let store = holding(&set, 12, 0..12).await;
        let (layout, _) =
            trusted(&store, &set, &files(&set, Split::Train), Split::Train, "d").await.unwrap();
        assert_eq!(layout.key(3).as_str(), "d/train/03/img_03_of_12.npz");
        let listed = crate::discover(&store, &set, &files(&set, Split::Train), Split::Train, "d")
            .await
            .unwrap();
        assert_eq!(listed.layout, layout);
    }

    #[tokio::test]
    async fn a_larger_stored_set_is_named_by_its_total() {
        let set = Dataset { num_files_stored: Some(100), num_files_eval: 4, ..set(12, 5) };
        // Files 0, 5, 10 and 11 are all that is looked for.
        let store = holding(&set, 100, [0, 5, 10, 11].into_iter()).await;
        let (layout, _) =
            trusted(&store, &set, &files(&set, Split::Train), Split::Train, "d").await.unwrap();
        assert_eq!(layout.key(11).as_str(), "d/train/img_011_of_100.npz");
        let set = Dataset { listing_validation_interval: 0, ..set };
        let (valid, _) =
            trusted(&store, &set, &files(&set, Split::Valid), Split::Valid, "d").await.unwrap();
        assert_eq!(valid.key(3).as_str(), "d/valid/img_3_of_4.npz");
    }

    #[tokio::test]
    async fn the_first_missing_file_is_told_with_how_many_were_looked_at() {
        let set = set(1000, 100);
        let store =
            holding(&set, 1000, (0..1000).filter(|file| *file != 300 && *file != 999)).await;
        let error =
            trusted(&store, &set, &files(&set, Split::Train), Split::Train, "d").await.unwrap_err();
        let text = error.to_string();
        for part in [
            "d/train/img_0300_of_1000.npz is missing at memory",
            "number 4 of the 11 of 1000 files",
            "or dataset.num_files_train, or set dataset.skip_listing to False",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[tokio::test]
    async fn fifty_million_files_are_as_good_as_a_few() {
        let store = SimulatedStore::new(1000);
        let set = set(50_000_000, 1000);
        let (layout, _) =
            trusted(&store, &set, &files(&set, Split::Train), Split::Train, "d").await.unwrap();
        assert_eq!(layout.key(49_999_999).as_str(), "d/train/img_49999999_of_50000000.npz");
    }
}
