//! Which files of a set need not be made again.

use std::collections::HashMap;

use feedrate_storage::{Store, StoreError};

use crate::{FileFormat, Layout, Length};

/// Files of a set that are in a store, whole.
///
/// A store never shows a part of a file, so one that is as long as it should be is as it should be,
/// unless it was made with other settings, which the set's manifest tells.
#[derive(Debug, Default)]
pub struct Present {
    /// A bit for each file whose length is the right one.
    whole: Vec<u64>,
    /// Lengths of files for which only making them tells which is right.
    lengths: HashMap<u64, u64>,
    count: u64,
}

impl Present {
    /// Lists what `store` holds of the set of `layout`. Memory: one bit a file, or some 30 bytes where a
    /// file's length is only known when it is made.
    pub async fn find(
        store: &dyn Store,
        layout: &Layout,
        format: &FileFormat,
    ) -> Result<Self, StoreError> {
        let mut present = Self::default();
        if format.files() == 0 {
            return Ok(present);
        }
        let mut look = |page: Vec<feedrate_storage::Listed>| {
            for file in page {
                if let Some(index) = layout.index_of(&file.key).filter(|&at| at < format.files()) {
                    present.add(index, file.size, format.length(index));
                }
            }
        };
        store.list(layout.folder(), &mut look).await?;
        Ok(present)
    }

    fn add(&mut self, index: u64, size: u64, length: Length) {
        match length {
            Length::Exact(length) if length == size => {
                let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
                if word >= self.whole.len() {
                    self.whole.resize(word + 1, 0);
                }
                self.whole[word] |= bit;
                self.count += 1;
            }
            Length::Exact(_) => {}
            Length::About(_) => {
                self.lengths.insert(index, size);
                self.count += 1;
            }
        }
    }

    /// Files that are there, and perhaps whole.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether `file` is there with its right length, which `length` tells if need be.
    pub(crate) fn has(&self, file: u64, length: impl FnOnce() -> u64) -> bool {
        let (word, bit) = ((file / 64) as usize, 1 << (file % 64));
        let whole = self.whole.get(word).is_some_and(|word| word & bit != 0);
        whole || self.lengths.get(&file).is_some_and(|&found| found == length())
    }
}
