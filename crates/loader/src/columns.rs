//! Reading Parquet files: their footers once a run, and of row groups the columns that are wanted.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use feedrate_dataset::{Cut, FOOTER_GUESS, Footer, Footers, Group};
use feedrate_storage::{ObjectKey, Store};
use feedrate_workload::{Dataset, Storage};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::source::LoadError;

/// The footers of a set's files, each read when it is first needed.
#[derive(Debug)]
pub struct Columns {
    footers: Footers,
    found: Mutex<HashMap<u64, Arc<OnceCell<Arc<Footer>>>>>,
    /// Bytes of the end of a file that have held every footer so far: files of a set are much alike.
    end: AtomicU64,
}

/// How the files of a set are made up, by the footer of the first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowGroups {
    /// In which pieces files are read.
    pub cut: Cut,
    /// Bytes of the wanted columns in a row.
    pub bytes_per_sample: f64,
}

impl Columns {
    /// For the files of `dataset`, of which the columns are read that `storage` names, or all.
    pub fn new(dataset: &Dataset, storage: &Storage) -> Self {
        Self {
            footers: Footers::new(dataset, storage.columns.as_deref()),
            found: Mutex::default(),
            end: AtomicU64::new(FOOTER_GUESS),
        }
    }

    /// What the footer of `file` says that its set is made up of.
    ///
    /// # Errors
    /// The footer cannot be read, or is not that of a file of this set.
    pub async fn look(
        &self,
        store: &dyn Store,
        key: &ObjectKey,
        file: u64,
    ) -> Result<RowGroups, LoadError> {
        let Found { footer, .. } = self.footer(store, key, file).await?;
        let groups = footer.groups();
        let bytes: u64 =
            groups.iter().flat_map(Group::ranges).map(|range| range.end - range.start).sum();
        let rows: u64 = groups.iter().map(|group| group.rows).sum();
        Ok(RowGroups {
            cut: Cut::Groups(groups.iter().map(|group| group.first_row).collect()),
            bytes_per_sample: bytes as f64 / rows.max(1) as f64,
        })
    }

    /// The footer of `file`.
    pub(crate) async fn footer(
        &self,
        store: &dyn Store,
        key: &ObjectKey,
        file: u64,
    ) -> Result<Found, LoadError> {
        let cell = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(found.entry(file).or_default())
        };
        if let Some(footer) = cell.get() {
            return Ok(Found { footer: Arc::clone(footer), read: 0, waited: Duration::ZERO });
        }
        let asked = Instant::now();
        let mut read = 0;
        let footer = cell.get_or_try_init(async || self.read(store, key, &mut read).await).await?;
        Ok(Found { footer: Arc::clone(footer), read, waited: asked.elapsed() })
    }

    async fn read(
        &self,
        store: &dyn Store,
        key: &ObjectKey,
        read: &mut u64,
    ) -> Result<Arc<Footer>, LoadError> {
        let undecodable = |cause| LoadError::Undecodable { key: key.clone(), cause };
        let mut end = Vec::new();
        let guess = self.end.load(Ordering::Relaxed);
        let (fetched, length) = store.get_tail(key, guess, &mut end).await?;
        *read += fetched.bytes;
        if length == 0 {
            return Err(LoadError::Empty { key: key.clone() });
        }
        let needed = Footers::needs(&end, length).map_err(undecodable)?;
        let missing = needed.saturating_sub(end.len() as u64);
        if missing > 0 {
            let before = length - end.len() as u64;
            let mut whole = Vec::new();
            let fetched = store.get(key, Some(before - missing..before), &mut whole).await?;
            *read += fetched.bytes;
            whole.append(&mut end);
            end = whole;
            self.end.fetch_max(needed, Ordering::Relaxed);
        }
        self.footers.parse(&end, length).map(Arc::new).map_err(undecodable)
    }
}

/// A footer.
pub(crate) struct Found {
    pub(crate) footer: Arc<Footer>,
    /// The bytes that reading it took, if nobody had.
    pub(crate) read: u64,
    /// How long that took, whoever did.
    pub(crate) waited: Duration,
}

/// The row groups of a file that a visit needs.
#[derive(Debug)]
pub(crate) struct FetchedGroups {
    pub(crate) footer: Arc<Footer>,
    /// Their numbers.
    pub(crate) numbers: Range<usize>,
}

impl FetchedGroups {
    /// Those that have any of `samples`. A file whose groups are not those of the set's first one may
    /// have some that several visits need.
    pub(crate) fn of(footer: Arc<Footer>, samples: &Range<u64>) -> Self {
        let groups = footer.groups();
        let first = groups.partition_point(|group| group.samples().end <= samples.start);
        let end = groups.partition_point(|group| group.first_row < samples.end);
        Self { numbers: first..end, footer }
    }

    /// Where their wanted columns lie in the file.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.groups().iter().flat_map(Group::ranges)
    }

    /// How many places those are.
    pub(crate) fn ranges_count(&self) -> usize {
        self.groups().iter().map(|group| group.ranges().len()).sum()
    }

    fn groups(&self) -> &[Group] {
        &self.footer.groups()[self.numbers.clone()]
    }

    /// The bytes of each range with its offset, from the buffers that they came in, one or several a
    /// range.
    pub(crate) fn put_together(
        &self,
        mut buffers: impl Iterator<Item = Vec<u8>>,
    ) -> Vec<(u64, Bytes)> {
        let whole = |range: Range<u64>| {
            let length = (range.end - range.start) as usize;
            let mut bytes = buffers.next().unwrap_or_default();
            while bytes.len() < length {
                let Some(more) = buffers.next() else { break };
                bytes.extend_from_slice(&more);
            }
            (range.start, Bytes::from(bytes))
        };
        self.ranges().map(whole).collect()
    }
}
