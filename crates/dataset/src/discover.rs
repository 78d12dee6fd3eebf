//! What a store holds of a set: one listing that is held against the layout.
//!
//! A listing sees everything below the set's folder, subfolders included, so flat sets and those in
//! subfolders are told apart and counted alike. Whatever else lies there is passed over.

use std::collections::BTreeMap;

use feedrate_storage::{Listed, Store, StoreError};
use feedrate_workload::{Dataset, Split};

use crate::layout::{Name, Subfolder, digits};
use crate::{FileFormat, Layout};

/// What a store holds of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The names under which the files are stored.
    pub layout: Layout,
    /// Bytes of the files that the workload uses, together.
    pub bytes: u64,
    /// Those that are not as long as the workload would make them.
    pub odd: Odd,
}

/// Files of a set that are not as long as the workload would make them, as far as that is known
/// beforehand: made by another program, with other settings, or cut off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Odd {
    /// How many of the files that the workload uses.
    pub files: u64,
    /// How many were looked at.
    pub looked_at: u64,
    /// The index of one of them, its size in bytes and the one that the workload would give it.
    pub example: Option<(u64, u64, u64)>,
}

impl Odd {
    /// Looks at a file with index `index` of `size` bytes.
    pub(crate) fn look(&mut self, index: u64, size: u64, format: &FileFormat) {
        self.looked_at += 1;
        if let Some(expected) = format.length(index).exact().filter(|&expected| expected != size) {
            self.files += 1;
            self.example.get_or_insert((index, size, expected));
        }
    }
}

/// Why a stored set cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The listing itself failed.
    #[error(transparent)]
    List(#[from] StoreError),
    /// No file of the set is there.
    #[error(
        "0 of {configured} files found: no {wanted} in {searched}{}. Generate the data set, or correct \
         dataset.data_folder, dataset.file_prefix or dataset.format",
        other.as_ref().map(|name| format!(" (but others, such as {name})")).unwrap_or_default()
    )]
    Nothing {
        /// `dataset.num_files_train` or `dataset.num_files_eval`
        configured: u64,
        /// Where below the folder the first file is wanted.
        wanted: String,
        /// Folder and store.
        searched: String,
        /// The name of some other file that lies there.
        other: Option<String>,
    },
    /// Some of the files are there.
    #[error(
        "{found} of {configured} files found in {searched}; the first one missing is {missing}. \
         Generate the data set again, or lower {}",
        split.files_key()
    )]
    TooFew {
        /// The set.
        split: Split,
        /// Files of the set that are there.
        found: u64,
        /// `dataset.num_files_train` or `dataset.num_files_eval`
        configured: u64,
        /// Folder and store.
        searched: String,
        /// The first file that is not there.
        missing: String,
    },
    /// The files are there, but in other subfolders.
    #[error(
        "{found} of {configured} files found where {key} = {subfolders} has them in {searched}, but \
         others elsewhere, such as {example}. {}",
        match used {
            Some(used) => format!("Set {} to {used}", split.subfolders_key()),
            None => "No number of subfolders gives these places: generate the data set again".to_owned(),
        },
        key = split.subfolders_key()
    )]
    OtherSubfolders {
        /// The set.
        split: Split,
        /// Files of the set that are where they should be.
        found: u64,
        /// `dataset.num_files_train` or `dataset.num_files_eval`
        configured: u64,
        /// `dataset.num_subfolders_train` or `dataset.num_subfolders_eval`
        subfolders: u64,
        /// Folder and store.
        searched: String,
        /// A file that is elsewhere.
        example: String,
        /// The number of subfolders that all files found agree with, if there is one.
        used: Option<u64>,
    },
    /// Files of several sets are there, none of them whole.
    #[error(
        "no complete set of {configured} files in {searched}, only parts of several: {parts}. \
         Remove them and generate the data set again, or lower {}",
        split.files_key()
    )]
    Mixed {
        /// The set.
        split: Split,
        /// `dataset.num_files_train` or `dataset.num_files_eval`
        configured: u64,
        /// Folder and store.
        searched: String,
        /// How many files of which total.
        parts: String,
    },
}

/// Finds the set that `dataset` describes, whose files are of `format`, below `prefix` in `store`, by
/// one listing of its folder:
/// any stored total of at least the configured number of files will do if the first files of it are
/// all there. Of several such totals the smallest is taken, so a set of exactly the configured size
/// wins. A set of no files is there without looking.
///
/// Memory: one bit per configured file and set found.
pub async fn discover(
    store: &dyn Store,
    dataset: &Dataset,
    format: &FileFormat,
    split: Split,
    prefix: &str,
) -> Result<Stored, DiscoverError> {
    let configured = dataset.files(split);
    let layout = Layout::new(dataset, split, prefix, configured);
    if configured == 0 {
        return Ok(Stored { layout, bytes: 0, odd: Odd::default() });
    }
    let mut census = Census {
        layout: &layout,
        format,
        sets: BTreeMap::new(),
        places: Places::default(),
        other: None,
    };
    store
        .list(layout.folder(), &mut |page| page.iter().for_each(|file| census.count(file)))
        .await?;
    census.judge(split, dataset.subfolders(split), &store.location())
}

/// The listed files, by the set that they belong to.
struct Census<'a> {
    /// The layout wanted; its total is the configured number of files.
    layout: &'a Layout,
    format: &'a FileFormat,
    /// By total, and by which of the layout's suffixes they have.
    sets: BTreeMap<(u64, usize), Part>,
    places: Places,
    /// A file that belongs to no set.
    other: Option<String>,
}

/// The files of one set among the first configured ones.
#[derive(Default)]
struct Part {
    seen: Vec<u64>,
    found: u64,
    bytes: u64,
    odd: Odd,
}

impl Part {
    fn add(&mut self, index: u64, size: u64, format: &FileFormat) {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.found += 1;
            self.bytes += size;
            self.odd.look(index, size, format);
        }
    }

    fn first_missing(&self) -> u64 {
        let full = self.seen.iter().take_while(|&&word| word == u64::MAX).count();
        let ones = self.seen.get(full).map_or(0, |word| word.trailing_ones());
        full as u64 * 64 + u64::from(ones)
    }
}

/// In which subfolders all the files lie, told from their indices.
#[derive(Default)]
struct Places {
    /// A file that is not where it should be.
    misplaced: Option<String>,
    flat: bool,
    /// Of those in subfolders.
    nested: Option<Nested>,
}

/// What the files in subfolders have in common.
struct Nested {
    width: usize,
    /// The highest number of a subfolder.
    highest: u64,
    /// The greatest common divisor of index minus subfolder, which the count divides. 0 while no file
    /// has come round.
    round: u64,
    agree: bool,
}

impl Places {
    fn add(&mut self, name: &Name) {
        let Some(Subfolder { number, width }) = name.subfolder else {
            self.flat = true;
            return;
        };
        let nested = self.nested.get_or_insert(Nested { width, highest: 0, round: 0, agree: true });
        nested.agree &= nested.width == width && number <= name.index;
        nested.highest = nested.highest.max(number);
        nested.round = common_divisor(nested.round, name.index.saturating_sub(number));
    }

    /// The number of subfolders that puts every file where it is.
    fn subfolders(&self) -> Option<u64> {
        let Some(nested) = &self.nested else { return Some(0) };
        let least = (nested.highest + 1).max(2);
        let count = match nested.round {
            // As many as any number of this width that is large enough.
            0 => least.max(10_u64.checked_pow(nested.width as u32 - 1)?),
            round => round,
        };
        let fits = count >= least && digits(count) == nested.width;
        (fits && nested.agree && !self.flat).then_some(count)
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Census<'_> {
    fn count(&mut self, file: &Listed) {
        let inside = file.key.as_str().strip_prefix(self.layout.folder());
        let Some(path) = inside.and_then(|rest| rest.strip_prefix('/')) else { return };
        let Some(name) = self.layout.parse(path) else {
            self.other.get_or_insert_with(|| path.to_owned());
            return;
        };
        self.places.add(&name);
        if !self.layout.is_in_place(&name) {
            self.places.misplaced.get_or_insert_with(|| path.to_owned());
        } else if name.index < self.layout.total() {
            self.sets.entry((name.total, name.suffix)).or_default().add(
                name.index,
                file.size,
                self.format,
            );
        }
    }

    fn judge(self, split: Split, subfolders: u64, location: &str) -> Result<Stored, DiscoverError> {
        let configured = self.layout.total();
        let searched = format!("{}/ of {location}", self.layout.folder());
        let layout = |(total, suffix)| self.layout.stored_as(total, suffix);
        if let Some((&set, part)) = self.sets.iter().find(|(_, part)| part.found == configured) {
            let (bytes, odd) = (part.bytes, part.odd.clone());
            return Ok(Stored { layout: layout(set), bytes, odd });
        }
        if let Some(example) = &self.places.misplaced {
            return Err(DiscoverError::OtherSubfolders {
                split,
                found: self.sets.values().map(|part| part.found).max().unwrap_or(0),
                configured,
                subfolders,
                searched,
                example: example.clone(),
                used: self.places.subfolders(),
            });
        }
        let mut sets = self.sets.iter();
        match (sets.next(), sets.next()) {
            (None, _) => Err(DiscoverError::Nothing {
                configured,
                wanted: self.layout.path(0),
                searched,
                other: self.other,
            }),
            (Some((&set, part)), None) => Err(DiscoverError::TooFew {
                split,
                found: part.found,
                configured,
                searched,
                missing: layout((set.0.max(configured), set.1)).path(part.first_missing()),
            }),
            _ => {
                let part = |(&(total, suffix), part): (&(u64, usize), &Part)| {
                    let layout = layout((total, suffix));
                    format!("{} of _of_{total}.{}", part.found, layout.suffix())
                };
                let parts: Vec<String> = self.sets.iter().map(part).collect();
                Err(DiscoverError::Mixed { split, configured, searched, parts: parts.join(", ") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use bytes::Bytes;
    use feedrate_storage::{MemoryStore, ObjectKey};
    use feedrate_workload::Format;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{dataset, files};

    /// A set in subfolders.
    fn set(files: u64, subfolders: u64) -> Dataset {
        Dataset { num_subfolders_train: subfolders, ..dataset(Format::Npz, files, 1000.0) }
    }

    /// What is discovered in a store of files with these names, each of 100 bytes.
    fn discovered_set(
        set: &Dataset,
        split: Split,
        paths: impl IntoIterator<Item = String>,
    ) -> Result<Stored, DiscoverError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            for path in paths {
                let key = ObjectKey::new(format!("data/t0/{path}"));
                store.put(&key, Bytes::from_static(&[0; 100])).await.unwrap();
            }
            discover(&store, set, &files(set, split), split, "data/t0").await
        })
    }

    fn discovered(
        configured: u64,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Stored, DiscoverError> {
        let paths = names.into_iter().map(|name| format!("train/{name}"));
        discovered_set(&set(configured, 0), Split::Train, paths)
    }

    fn names(total: u64, indices: Range<u64>) -> impl Iterator<Item = String> {
        nested(total, 0, indices)
    }

    fn nested(total: u64, subfolders: u64, indices: Range<u64>) -> impl Iterator<Item = String> {
        let layout = Layout::new(&set(total, subfolders), Split::Train, "", total);
        indices.map(move |index| layout.path(index))
    }

    #[test]
    fn a_larger_set_lends_its_first_files() {
        let stored = discovered(10, names(100, 0..100)).unwrap();
        assert_eq!(stored.layout.total(), 100);
        assert_eq!(stored.layout.key(9).as_str(), "data/t0/train/img_009_of_100.npz");
        assert_eq!(stored.bytes, 10 * 100);
    }

    #[test]
    fn an_upper_case_suffix_is_kept_in_the_keys() {
        let stored = discovered(2, names(2, 0..2).map(|name| name.replace("npz", "NPZ"))).unwrap();
        assert_eq!(stored.layout.key(1).as_str(), "data/t0/train/img_1_of_2.NPZ");
    }

    #[test]
    fn of_several_sets_a_complete_one_is_taken() {
        let listed = names(10, 0..7).chain(names(20, 0..20)).chain(names(30, 0..30));
        assert_eq!(discovered(10, listed).unwrap().layout.total(), 20);
        let listed = names(20, 0..20).chain(names(10, 0..10));
        assert_eq!(discovered(10, listed).unwrap().layout.total(), 10);
    }

    #[test]
    fn a_set_in_subfolders_is_found_and_its_larger_kin_too() {
        for total in [12, 40] {
            let listed = nested(total, 10, 0..total).map(|path| format!("train/{path}"));
            let stored = discovered_set(&set(12, 10), Split::Train, listed).unwrap();
            assert_eq!((stored.layout.total(), stored.bytes), (total, 12 * 100));
            let key = format!("data/t0/train/01/img_11_of_{total}.npz");
            assert_eq!(stored.layout.key(11).as_str(), key);
        }
    }

    #[test]
    fn each_set_is_looked_for_in_its_own_folder() {
        let set = Dataset { num_files_eval: 3, num_subfolders_eval: 2, ..set(4, 0) };
        let valid = Layout::new(&set, Split::Valid, "", 3);
        let train = Layout::new(&set, Split::Train, "", 4);
        let keys = |layout: &Layout, files: u64| -> Vec<String> {
            (0..files).map(|file| layout.key(file).to_string()).collect()
        };
        // What other tools leave beside and among the files.
        let foreign = ["test/img_0_of_4.npz", "train/_SUCCESS", "train/0/.keep"].map(str::to_owned);
        let all = || [keys(&train, 4), keys(&valid, 3), foreign.to_vec()].concat();
        let stored = |split| discovered_set(&set, split, all()).map(|stored| stored.bytes);
        assert_eq!(stored(Split::Train).unwrap(), 400);
        assert_eq!(stored(Split::Valid).unwrap(), 300);
        let text = discovered_set(&set, Split::Valid, keys(&valid, 2)).unwrap_err().to_string();
        assert!(text.contains("lower dataset.num_files_eval"), "{text}");
        assert!(text.contains("missing is 0/img_2_of_3.npz"), "{text}");
    }

    #[test]
    fn no_files_need_no_listing() {
        let stored = discovered_set(&set(4, 0), Split::Valid, []).unwrap();
        assert_eq!((stored.bytes, stored.layout.total()), (0, 0));
    }

    #[test]
    fn other_subfolders_are_told_with_the_number_to_set() {
        let elsewhere = |configured, stored: Vec<String>| {
            let paths = stored.into_iter().map(|path| format!("train/{path}"));
            discovered_set(&set(12, configured), Split::Train, paths).unwrap_err().to_string()
        };
        for (configured, used) in [(0, 10), (1, 2), (10, 0), (10, 2), (2, 10), (10, 11), (5, 25)] {
            let text = elsewhere(configured, nested(12, used, 0..12).collect());
            // Fewer files than subfolders: any count of their width is as good.
            let used = if used == 25 { 12 } else { used };
            let advice = format!("Set dataset.num_subfolders_train to {used}");
            assert!(text.ends_with(&advice), "{configured}, not {used}: {text}");
            let place = format!("where dataset.num_subfolders_train = {configured} has them in");
            assert!(text.contains(&place) && text.contains("data/t0/train/ of memory"), "{text}");
        }
        let text = elsewhere(0, nested(12, 10, 0..12).collect());
        assert!(text.contains("0 of 12") && text.contains("such as 00/img_00_of_12.npz"), "{text}");

        let narrow = (0..12).map(|index| format!("{}/img_{index:02}_of_12.npz", index % 10));
        let text = elsewhere(10, narrow.collect());
        assert!(text.ends_with("generate the data set again"), "{text}");
        let both = nested(12, 2, 0..6).chain(names(12, 6..12));
        let text = elsewhere(2, both.collect());
        assert!(text.contains("6 of 12") && text.ends_with("again"), "{text}");
    }

    proptest! {
        #[test]
        fn the_number_to_set_puts_every_file_where_it_is(
            files in 1_u64..300, used in 2_u64..150, configured in 0_u64..150,
        ) {
            let stored: Vec<_> = nested(files, used, 0..files).collect();
            let paths = stored.iter().map(|path| format!("train/{path}"));
            match discovered_set(&set(files, configured), Split::Train, paths) {
                Ok(found) => prop_assert_eq!(found.bytes, files * 100),
                Err(DiscoverError::OtherSubfolders { used: Some(told), .. }) => {
                    prop_assert_eq!(nested(files, told, 0..files).collect::<Vec<_>>(), stored);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn a_file_listed_twice_counts_once() {
        let format = files(&dataset(Format::Jpeg, 3, 300.0), Split::Train);
        let mut part = Part::default();
        for (index, size) in [(0, 300), (1, 200), (0, 100)] {
            part.add(index, size, &format);
        }
        assert_eq!((part.found, part.bytes, part.first_missing()), (2, 500, 2));
        assert_eq!(part.odd, Odd { files: 1, looked_at: 2, example: Some((1, 200, 300)) });
    }

    #[test]
    fn too_few_files_name_both_numbers_the_place_and_the_first_one_missing() {
        let text = discovered(10, names(10, 0..7)).unwrap_err().to_string();
        for part in ["7 of 10 files", "data/t0/train/ of memory", "img_07_of_10.npz"] {
            assert!(text.contains(part), "{text}");
        }
        let text = discovered(10, names(7, 0..7)).unwrap_err().to_string();
        assert!(text.contains("7 of 10 files"), "{text}");
        let hole = names(200, 0..64).chain(names(200, 65..200));
        let text = discovered(100, hole).unwrap_err().to_string();
        assert!(text.contains("99 of 100 files") && text.contains("img_064_of_200.npz"), "{text}");
    }

    #[test]
    fn an_empty_folder_says_what_was_wanted_and_what_lies_there_instead() {
        let text = discovered(10, []).unwrap_err().to_string();
        assert!(text.contains("0 of 10 files") && text.contains("img_00_of_10.npz"), "{text}");
        let text = discovered(10, ["part_00_of_10.npz".to_owned()]).unwrap_err().to_string();
        assert!(text.contains("such as part_00_of_10.npz"), "{text}");
    }

    #[test]
    fn parts_of_several_sets_are_told_apart() {
        let text = discovered(10, names(10, 0..7).chain(names(20, 1..4))).unwrap_err().to_string();
        assert!(text.contains("7 of _of_10.npz, 3 of _of_20.npz"), "{text}");
    }
}
