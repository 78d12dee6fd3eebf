//! Where samples come from: the reads that bring a [`Visit`]'s bytes, and what is done with them before
//! they are part of a batch.
//!
//! A visit is one piece of a file: all of it, or samples that lie together. A large piece comes by
//! several GETs at once, each of a range, if the sizes of the files are known for certain. What was read
//! is decoded or compared with what was generated where that is asked for: by as many threads at a time
//! as there are CPUs to do it, behind the last byte, so the store's time is never mixed with it.

use std::borrow::Cow;
use std::iter::Enumerate;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedrate_dataset::{ColumnMismatch, Cut, FileFormat, Layout, Mismatch, Undecodable, Visit};
use feedrate_metrics::decode::DecodeStats;
use feedrate_storage::{Fetched, ObjectKey, Store, StoreError};
use feedrate_workload::Payload;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::columns::{Columns, FetchedGroups, Found};
use crate::pool::BufferPool;
use crate::timeline::{GetTimes, Timeline};

/// Ranges of one piece that are in flight at a time; together they have one turn.
const RANGES_IN_FLIGHT: usize = 8;

/// Why a batch could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file has no byte, so it cannot hold a sample.
    #[error("{key} is empty: it holds no sample. Generate the data set again")]
    Empty {
        /// The file.
        key: ObjectKey,
    },
    /// A file is not as long as the generator made it.
    #[error(
        "{key} has {found} bytes, but {expected} were generated: it is cut off or was replaced. \
         Generate the data set again"
    )]
    Length {
        /// The file.
        key: ObjectKey,
        /// Bytes it has.
        found: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// A file is not what the generator must have written.
    #[error("{key} is not what was generated: {mismatch}")]
    Mismatch {
        /// The file.
        key: ObjectKey,
        /// Where it differs.
        mismatch: Mismatch,
    },
    /// Columns are not what the generator must have written.
    #[error("{key} is not what was generated: {mismatch}")]
    Columns {
        /// The file.
        key: ObjectKey,
        /// Where they differ.
        mismatch: ColumnMismatch,
    },
    /// A file cannot be decoded.
    #[error("{key} cannot be decoded: {cause}")]
    Undecodable {
        /// The file.
        key: ObjectKey,
        /// What is wrong with it.
        cause: Undecodable,
    },
    /// The visits of the epoch were fewer than its batches need.
    #[error("the epoch has no further batch")]
    Exhausted,
    /// The loader's task ended without a result.
    #[error("the loader stopped: {0}")]
    Stopped(String),
}

/// Files are to be verified, but none of their bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "reader.payload is discard, so no byte is kept that could be verified. Leave verification off, \
     or set reader.payload to land"
)]
pub struct NothingToVerify;

/// Whether files whose bytes go the way of `payload` can be verified, if `verify` asks for that.
///
/// # Errors
/// Bytes that are discarded cannot.
pub fn check_payload(payload: Payload, verify: bool) -> Result<(), NothingToVerify> {
    match payload {
        Payload::Discard if verify => Err(NothingToVerify),
        Payload::Discard | Payload::Land => Ok(()),
    }
}

/// What is done with bytes behind the last of them.
#[derive(Debug)]
pub struct Work {
    /// Compare every byte that is kept with what the generator must have written; see
    /// [`check_payload`].
    pub verify: bool,
    /// Decode what is read as a training would.
    pub decode: bool,
    /// Counts what is decoded.
    pub stats: Arc<DecodeStats>,
    threads: Semaphore,
}

impl Work {
    /// Nothing is to be done.
    pub fn none() -> Arc<Self> {
        Self::new(false, false, Arc::default(), 1)
    }

    /// Whether there is anything to do.
    pub(crate) fn is_any(&self) -> bool {
        self.verify || self.decode
    }

    /// Decodes `bytes` bytes, and counts what that takes.
    fn timed<T>(&self, bytes: u64, decode: impl FnOnce() -> T) -> T {
        let began = std::time::Instant::now();
        let decoded = decode();
        self.stats.decoded(bytes, began.elapsed());
        decoded
    }

    /// Work of at most `threads` threads at a time, at least one.
    pub fn new(verify: bool, decode: bool, stats: Arc<DecodeStats>, threads: usize) -> Arc<Self> {
        Arc::new(Self { verify, decode, stats, threads: Semaphore::new(threads.max(1)) })
    }
}

/// What is known of the pieces that a rank reads before they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieceSizes {
    /// The fewest samples of a piece.
    pub least_samples: u64,
    /// How many pieces that lie together may have fewer.
    pub smaller: u64,
    /// Samples of a piece.
    pub mean_samples: f64,
    /// Bytes of the largest piece.
    pub most_bytes: u64,
    /// Bytes of a piece.
    pub mean_bytes: u64,
}

/// What is known of the stored files before they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// They are as long as their format makes them, as far as anybody has looked.
    AsMade,
    /// Some are not: they were made by another program, or with other settings.
    Different,
    /// There are none: reads are answered from nowhere.
    Simulated,
}

impl Known {
    /// In which pieces files of `format` are read: where samples lie is only known of those that are
    /// as they were made.
    pub fn cut(self, format: &FileFormat) -> Cut {
        match self {
            Self::AsMade | Self::Simulated => format.cut(),
            Self::Different => Cut::Whole,
        }
    }
}

/// Where files come from and what they must be; shared by the loaders of a process.
#[derive(Debug)]
pub struct Source {
    /// The store, with retries and counters around it.
    pub store: Arc<dyn Store>,
    /// Names of the files.
    pub layout: Layout,
    /// Sizes and contents of the files.
    pub format: FileFormat,
    /// What is known of the files that are stored.
    pub known: Known,
    /// In which pieces they are read; see [`Known::cut`].
    pub cut: Cut,
    /// Reads the columns that are wanted, where files are Parquet and there are any.
    pub columns: Option<Columns>,
    /// Bytes of the wanted columns of a sample, where not all of a file is read.
    pub wanted_bytes_per_sample: Option<f64>,
    /// Pieces larger than this come by ranges of as many bytes, several at a time.
    pub range_bytes: Option<u64>,
    /// What is done with what was read.
    pub work: Arc<Work>,
    /// Buffers that files land in.
    pub pool: Arc<BufferPool>,
}

impl Source {
    /// What is known beforehand of the pieces that a rank reads, whose samples are `shuffled` or not.
    pub fn piece_sizes(&self, shuffled: bool) -> PieceSizes {
        let (cut, samples) = (&self.cut, self.format.samples_per_file());
        let files = self.format.files().max(1);
        let (least, most, mean) = match cut {
            // Each for itself.
            Cut::Samples(_) if shuffled => (1, 1, 1.0),
            _ => {
                let (least, most) = cut.sizes(samples).into_inner();
                (least, most, samples as f64 / cut.pieces(samples) as f64)
            }
        };
        let bytes = |file: u64, samples: f64| (self.bytes_per_sample(file) * samples).ceil() as u64;
        PieceSizes {
            least_samples: least,
            // The rest of a file; and where pieces are shuffled, those that two ranks share.
            smaller: u64::from(*cut != Cut::Whole) + if shuffled { 2 } else { 0 },
            mean_samples: mean,
            most_bytes: bytes(self.format.largest_file(), most as f64),
            mean_bytes: bytes(self.format.total_bytes() / files, mean),
        }
    }

    /// GETs by which one of the `pieces` comes at once.
    pub fn gets_per_piece(&self, pieces: &PieceSizes) -> usize {
        let most = self.range_bytes.unwrap_or(u64::MAX).max(1);
        pieces.mean_bytes.div_ceil(most).clamp(1, RANGES_IN_FLIGHT as u64) as usize
    }

    /// Bytes that reading a sample takes, of a file of so many.
    fn bytes_per_sample(&self, file_bytes: u64) -> f64 {
        match self.wanted_bytes_per_sample {
            // They are those of the first file, which others are larger or smaller than.
            Some(wanted) => wanted * file_bytes as f64 / self.format.file_len(0).max(1) as f64,
            None => file_bytes as f64 / self.format.samples_per_file() as f64,
        }
    }

    /// The bytes that `visit` brings, as far as they are known before.
    pub(crate) fn expected_bytes(&self, visit: &Visit) -> u64 {
        if let Some(place) = self.place(visit) {
            return place.end - place.start;
        }
        let file = self.format.file_len(visit.file);
        match self.cut {
            Cut::Groups(_) => {
                let samples = self.format.samples_per_file();
                let group = self.cut.samples_of(self.cut.piece_of(visit.samples.start), samples);
                (self.bytes_per_sample(file) * (group.end - group.start) as f64).ceil() as u64
            }
            Cut::Whole | Cut::Samples(_) => file,
        }
    }

    /// Where a piece lies that is not all of its file, if that is known without reading.
    fn place(&self, visit: &Visit) -> Option<Range<u64>> {
        match self.cut {
            Cut::Samples(_) => self.format.place(visit.file, visit.samples.clone()),
            Cut::Whole | Cut::Groups(_) => None,
        }
    }

    /// Reads the piece of `visit`, whose `turn` has come and is kept until the last byte is there, and
    /// does with the bytes what is asked for.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        visit: &Visit,
        payload: Payload,
        turn: T,
    ) -> Result<Read, LoadError> {
        let came = Instant::now();
        let key = self.layout.key(visit.file);
        let Piece { body, more, groups, times } = self.fetch(&key, visit, payload).await?;
        let last_byte = Instant::now();
        drop(turn);
        self.check_length(&key, visit, body.bytes() + more, groups.is_some())?;
        let mut timeline = Timeline::of_read(came.into_std(), times, last_byte.into_std());
        let body = match body {
            Body::Kept(pieces) if self.work.is_any() => {
                let pieces = self.work_on(key, visit, pieces, groups).await?;
                timeline.done = Instant::now().into_std();
                Body::Kept(pieces)
            }
            body => body,
        };
        Ok(Read { body, more, latency: last_byte - came, timeline })
    }

    async fn fetch(
        &self,
        key: &ObjectKey,
        visit: &Visit,
        payload: Payload,
    ) -> Result<Piece, LoadError> {
        if let Some(columns) = &self.columns {
            let Found { footer, read, waited } =
                columns.footer(&*self.store, key, visit.file).await?;
            let groups = FetchedGroups::of(footer, &visit.samples);
            let (ranges, count) = (groups.ranges(), groups.ranges_count());
            let (body, mut times) = self.get_ranges(key, ranges, count, payload).await?;
            // The piece's first byte had to wait for it.
            times.first_byte += waited;
            return Ok(Piece { body, more: read, groups: Some(groups), times });
        }
        let expected = self.expected_bytes(visit);
        let (body, times) = match self.range(visit, expected) {
            Some(range) if self.is_split(expected) => {
                self.get_ranges(key, std::iter::once(range), 1, payload).await?
            }
            range => {
                let mut times = GetTimes::default();
                let body = match self.get(key, range, expected, payload, &mut times).await? {
                    Body::Kept(buffer) => Body::Kept(Pieces::One(buffer)),
                    Body::Counted(bytes) => Body::Counted(bytes),
                };
                (body, times)
            }
        };
        Ok(Piece { body, more: 0, groups: None, times })
    }

    /// The range that a visit's `expected` bytes come by; `None` is the file, whatever its length.
    fn range(&self, visit: &Visit, expected: u64) -> Option<Range<u64>> {
        let known = match self.known {
            // A range costs nothing, and says how much to make up.
            Known::Simulated => true,
            // Only a file that is too large for one GET is asked for by its length.
            Known::AsMade => {
                self.is_split(expected) && self.format.length(visit.file).exact().is_some()
            }
            Known::Different => false,
        };
        let whole = || 0..expected.min(self.format.file_len(visit.file));
        self.place(visit).or_else(|| known.then(whole))
    }

    fn is_split(&self, bytes: u64) -> bool {
        self.range_bytes.is_some_and(|most| bytes > most)
    }

    /// Gets all `ranges` of an object, of which there are `count`, several at a time, and those that are
    /// too large for one GET by several; in order.
    async fn get_ranges(
        &self,
        key: &ObjectKey,
        ranges: impl Iterator<Item = Range<u64>> + Send,
        count: usize,
        payload: Payload,
    ) -> Result<(Body<Pieces>, GetTimes), StoreError> {
        let most = self.range_bytes.unwrap_or(u64::MAX);
        let cut = |Range { start, end }: Range<u64>| {
            (0..(end - start).div_ceil(most)).map(move |nth| {
                let from = start + nth * most;
                from..from.saturating_add(most).min(end)
            })
        };
        let parts = Mutex::new(Parts {
            left: ranges.flat_map(cut).enumerate(),
            buffers: Vec::with_capacity(if payload == Payload::Land { count } else { 0 }),
            counted: 0,
            times: GetTimes::default(),
        });
        let parts = || parts.lock().unwrap_or_else(PoisonError::into_inner);
        let one_after_the_other = async || {
            let mut times = GetTimes::default();
            let mut next = parts().left.next();
            while let Some((place, part)) = next {
                let expected = part.end - part.start;
                let body = self.get(key, Some(part), expected, payload, &mut times).await?;
                next = parts().land(place, body, times);
            }
            Ok(())
        };
        try_join_all((0..RANGES_IN_FLIGHT).map(|_| one_after_the_other())).await?;
        let mut parts = parts();
        let body = match payload {
            Payload::Land => Body::Kept(Pieces::Several(std::mem::take(&mut parts.buffers))),
            Payload::Discard => Body::Counted(parts.counted),
        };
        Ok((body, parts.times))
    }

    /// One GET, which is expected to bring so many bytes and is added to `times`.
    ///
    /// There is room for one byte more: a store can then see in a single read that there are no more
    /// than there should be.
    async fn get(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        expected: u64,
        payload: Payload,
        times: &mut GetTimes,
    ) -> Result<Body<Vec<u8>>, StoreError> {
        let (body, fetched) = match payload {
            Payload::Discard => {
                let fetched = self.store.get_discarding(key, range).await?;
                (Body::Counted(fetched.bytes), fetched)
            }
            Payload::Land => {
                let mut buffer = self.pool.take((expected as usize).saturating_add(1));
                let fetched = self.store.get(key, range, &mut buffer).await?;
                (Body::Kept(buffer), fetched)
            }
        };
        let Fetched { first_byte, last_byte, .. } = fetched;
        times.first_byte += first_byte;
        times.transfer += last_byte.saturating_sub(first_byte);
        Ok(body)
    }

    /// No sample has no bytes, and a file whose length is known has that length.
    fn check_length(
        &self,
        key: &ObjectKey,
        visit: &Visit,
        found: u64,
        in_groups: bool,
    ) -> Result<(), LoadError> {
        if found == 0 {
            return Err(LoadError::Empty { key: key.clone() });
        }
        let whole = !in_groups && self.known == Known::AsMade && self.place(visit).is_none();
        match self.format.length(visit.file).exact().filter(|_| whole) {
            Some(expected) if expected != found => {
                Err(LoadError::Length { key: key.clone(), found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Verifies and decodes, on a thread that may block.
    async fn work_on(
        self: &Arc<Self>,
        key: ObjectKey,
        visit: &Visit,
        pieces: Pieces,
        groups: Option<FetchedGroups>,
    ) -> Result<Pieces, LoadError> {
        let stopped = |error: &dyn std::fmt::Display| LoadError::Stopped(error.to_string());
        let turn = self.work.threads.acquire().await.map_err(|error| stopped(&error))?;
        let (source, visit) = (Arc::clone(self), visit.clone());
        let worked = tokio::task::spawn_blocking(move || match groups {
            Some(groups) => source.work_on_groups(key, visit.file, pieces, &groups),
            None => source.work_on_file(key, visit, pieces),
        })
        .await;
        drop(turn);
        worked.map_err(|error| stopped(&error))?
    }

    fn work_on_file(
        &self,
        key: ObjectKey,
        Visit { file, samples, .. }: Visit,
        pieces: Pieces,
    ) -> Result<Pieces, LoadError> {
        let found = pieces.joined();
        if self.work.verify {
            let verdict = self.format.verify(file, samples.clone(), &found);
            verdict.map_err(|mismatch| LoadError::Mismatch { key: key.clone(), mismatch })?;
        }
        if self.work.decode {
            let decode = || self.format.decode(file, samples, &found);
            let decoded = self.work.timed(found.len() as u64, decode);
            decoded.map_err(|cause| LoadError::Undecodable { key, cause })?;
        }
        drop(found);
        Ok(pieces)
    }

    fn work_on_groups(
        &self,
        key: ObjectKey,
        file: u64,
        pieces: Pieces,
        groups: &FetchedGroups,
    ) -> Result<Pieces, LoadError> {
        let bytes = pieces.bytes();
        let fetched = groups.put_together(pieces.into_buffers());
        let FetchedGroups { footer, numbers, .. } = groups;
        if self.work.verify {
            for group in numbers.clone() {
                let verdict = self.format.verify_columns(file, footer, group, &fetched);
                verdict.map_err(|mismatch| LoadError::Columns { key: key.clone(), mismatch })?;
            }
        }
        if self.work.decode {
            let decode = || numbers.clone().try_for_each(|group| footer.decode(group, &fetched));
            let decoded = self.work.timed(bytes, decode);
            decoded.map_err(|cause| LoadError::Undecodable { key, cause })?;
        }
        Ok(Pieces::Several(fetched.into_iter().map(|(_, bytes)| bytes.into()).collect()))
    }
}

/// What was fetched for a visit.
struct Piece {
    body: Body<Pieces>,
    /// Bytes that were read besides.
    more: u64,
    /// What the body is of, where it is columns.
    groups: Option<FetchedGroups>,
    times: GetTimes,
}

/// The parts of a piece that comes by several GETs at once.
struct Parts<I> {
    /// Those that nobody has asked for yet, with their places.
    left: Enumerate<I>,
    /// What came, by place.
    buffers: Vec<Vec<u8>>,
    /// Bytes that came and are gone.
    counted: u64,
    /// Those of the part that landed last, and of those that it had to wait for.
    times: GetTimes,
}

impl<I: Iterator<Item = Range<u64>>> Parts<I> {
    /// Takes in a part, and gives the next one to whoever asked for it.
    fn land(
        &mut self,
        place: usize,
        body: Body<Vec<u8>>,
        times: GetTimes,
    ) -> Option<(usize, Range<u64>)> {
        match body {
            Body::Kept(buffer) => {
                if self.buffers.len() <= place {
                    self.buffers.resize_with(place + 1, Vec::new);
                }
                self.buffers[place] = buffer;
            }
            Body::Counted(bytes) => self.counted += bytes,
        }
        self.times = times;
        self.left.next()
    }
}

/// A finished read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) body: Body<Pieces>,
    /// Bytes that were read besides: the file's footer.
    pub(crate) more: u64,
    /// How long the store took.
    pub(crate) latency: Duration,
    /// How it went, as if it had been asked for when its turn came.
    pub(crate) timeline: Timeline,
}

/// What a read brought.
#[derive(Debug)]
pub(crate) enum Body<Kept> {
    /// The bytes.
    Kept(Kept),
    /// Their number.
    Counted(u64),
}

impl Body<Pieces> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Kept(pieces) => pieces.bytes(),
            Self::Counted(bytes) => *bytes,
        }
    }
}

/// The bytes of a read, in the buffers that they landed in.
#[derive(Debug)]
pub(crate) enum Pieces {
    /// All in one, without a list of them.
    One(Vec<u8>),
    /// One behind the other.
    Several(Vec<Vec<u8>>),
}

impl Pieces {
    pub(crate) fn bytes(&self) -> u64 {
        self.buffers().map(|buffer| buffer.len() as u64).sum()
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Vec<u8>> {
        let buffers = match self {
            Self::One(buffer) => std::slice::from_ref(buffer),
            Self::Several(buffers) => buffers,
        };
        buffers.iter()
    }

    pub(crate) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        let (one, several) = match self {
            Self::One(buffer) => (Some(buffer), Vec::new()),
            Self::Several(buffers) => (None, buffers),
        };
        one.into_iter().chain(several)
    }

    /// All bytes in a row; copied where they are in several buffers.
    fn joined(&self) -> Cow<'_, [u8]> {
        match self {
            Self::One(buffer) => Cow::Borrowed(buffer),
            Self::Several(buffers) => Cow::Owned(buffers.concat()),
        }
    }
}
