//! Taking a data set away again: the files that its names say, and nothing else.

use feedrate_storage::{Store, StoreError};
use futures::{StreamExt, TryStreamExt, stream};

use crate::Layout;

/// Files that are removed at a time.
const IN_FLIGHT: usize = 64;

/// Why files were left.
#[derive(Debug, thiserror::Error)]
#[error("removing the data set stopped, {done} of {files} files are removed")]
pub struct RemoveError {
    /// Files that the store was asked to remove before, and did not refuse.
    pub done: u64,
    /// Files of all sets.
    pub files: u64,
    /// What failed, on which key, where and why.
    pub source: StoreError,
}

/// Removes all files of the sets of `layouts`, each of as many as it was generated with, which are
/// more than a run reads if it was found in a larger set, and what stands beside them. Returns how many the store was asked to
/// remove: it does not tell which of them were there. What else is in their folders stays, and so
/// do the folders if anything does.
pub async fn remove(store: &dyn Store, layouts: &[Layout]) -> Result<u64, RemoveError> {
    let files =
        layouts.iter().flat_map(|layout| (0..layout.total()).map(move |file| (layout, file)));
    let removals = stream::iter(files).map(async |(layout, file)| {
        // It goes before those beside it: where a file is, they are.
        for key in layout.keys(file) {
            store.delete(&key).await?;
        }
        Ok(())
    });
    let mut removals = removals.buffer_unordered(IN_FLIGHT);
    let mut done = 0;
    let files = layouts.iter().map(Layout::total).sum();
    while let Some(()) =
        removals.try_next().await.map_err(|source| RemoveError { done, files, source })?
    {
        done += 1;
    }
    let folders = stream::iter(layouts.iter().flat_map(Layout::folders));
    folders.for_each_concurrent(IN_FLIGHT, async |folder| store.tidy(&folder).await).await;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use feedrate_storage::{Listed, LocalStore, MemoryStore, ObjectKey, SimulatedStore};
    use feedrate_workload::{Dataset, Format, Split};

    use super::*;
    use crate::testing::{dataset, files};

    fn layouts() -> [Layout; 2] {
        let set = Dataset {
            num_files_eval: 3,
            num_subfolders_train: 10,
            ..dataset(Format::Npz, 120, 1000.0)
        };
        [Split::Train, Split::Valid].map(|split| Layout::new(&set, split, "data", set.files(split)))
    }

    const FOREIGN: [&str; 4] = [
        "data/notes.txt",
        "data/train/00/img_0_of_2.npz",
        "data/train/img_000_of_120.npz",
        "data/valid/img_0_of_3.NPZ",
    ];

    /// Fills a store with the sets and more, removes the sets, and checks that the rest is left.
    async fn check(store: &dyn Store) {
        let layouts = layouts();
        let named = layouts.iter().flat_map(|set| (0..set.total()).map(|file| set.key(file)));
        for key in named.chain(FOREIGN.map(ObjectKey::new)) {
            store.put(&key, Bytes::from_static(b"x")).await.unwrap();
        }
        assert_eq!(remove(store, &layouts).await.unwrap(), 123);
        let mut left = Vec::new();
        let mut keep = |page: Vec<Listed>| left.extend(page.into_iter().map(|it| it.key));
        store.list("", &mut keep).await.unwrap();
        assert_eq!(left, FOREIGN.map(ObjectKey::new));
        assert_eq!(remove(store, &layouts).await.unwrap(), 123, "nothing is left to remove");
    }

    #[tokio::test]
    async fn the_named_files_go_and_all_others_stay() {
        check(&MemoryStore::new()).await;
        let folder = tempfile::tempdir().unwrap();
        check(&LocalStore::new(folder.path()).unwrap()).await;
    }

    #[tokio::test]
    async fn the_folders_of_a_set_go_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path()).unwrap();
        for layout in layouts() {
            for file in 0..layout.total() {
                store.put(&layout.key(file), Bytes::from_static(b"x")).await.unwrap();
            }
        }
        // One that was left of an earlier attempt.
        std::fs::create_dir_all(folder.path().join("data/train/00")).unwrap();
        std::fs::create_dir(folder.path().join("other")).unwrap();
        remove(&store, &layouts()).await.unwrap();
        let left =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["other"]);
    }

    #[tokio::test]
    async fn a_set_that_a_run_reads_a_part_of_goes_whole() {
        let store = MemoryStore::new();
        let [whole, _] = layouts();
        for file in 0..whole.total() {
            store.put(&whole.key(file), Bytes::from_static(b"x")).await.unwrap();
        }
        let part = Dataset { num_subfolders_train: 10, ..dataset(Format::Npz, 7, 1000.0) };
        let found =
            crate::discover(&store, &part, &files(&part, Split::Train), Split::Train, "data")
                .await
                .unwrap()
                .layout;
        assert_eq!(remove(&store, &[found]).await.unwrap(), 120);
        store.list("", &mut |page| panic!("{page:?} is left")).await.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_ends_it_and_says_how_far_it_came() {
        let error = remove(&SimulatedStore::new(1), &layouts()).await.unwrap_err();
        assert_eq!((error.done, error.files), (0, 123));
        assert!(error.to_string().contains("0 of 123 files"), "{error}");
    }
}
