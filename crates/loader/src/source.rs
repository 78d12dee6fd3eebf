//! Where samples come from: the reads that bring a [`Visit`]'s bytes, and what is done with them before
//! they are part of a batch.
//!
//! A visit is one piece of a file: all of it, or samples that lie together. A large piece comes by
//! several GETs at once, each of a range, if the sizes of the files are known for certain. What was read
//! is decoded or compared with what was generated where that is asked for: by as many threads at a time
//! as there are CPUs to do it, behind the last byte, so the store's time is never mixed with it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_dataset::{Cut, FileFormat, Layout, Mismatch, Undecodable, Visit};
use feedrate_metrics::decode::DecodeStats;
use feedrate_storage::{ObjectKey, Store, StoreError};
use feedrate_workload::Payload;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time;

use crate::batch::{Arrival, Held, Landed};
use crate::pool::BufferPool;

/// Ranges of one piece that are in flight at a time.
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

    /// Work of at most `threads` threads at a time, at least one.
    pub fn new(verify: bool, decode: bool, stats: Arc<DecodeStats>, threads: usize) -> Arc<Self> {
        Arc::new(Self { verify, decode, stats, threads: Semaphore::new(threads.max(1)) })
    }
}

/// What is known of the pieces that a rank reads before they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieceSizes {
    /// The fewest samples of a piece; at the ends of files and shares there may be fewer.
    pub least_samples: u64,
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
        let share = |bytes: u64, of: f64| (bytes as f64 * of / samples as f64).ceil() as u64;
        PieceSizes {
            least_samples: least,
            mean_samples: mean,
            most_bytes: share(self.format.largest_file(), most as f64),
            mean_bytes: share(self.format.total_bytes() / files, mean),
        }
    }

    /// The bytes that `visit` brings, as far as they are known before.
    pub(crate) fn expected_bytes(&self, visit: &Visit) -> u64 {
        let place = self.place(visit);
        place.map_or_else(|| self.format.file_len(visit.file), |place| place.end - place.start)
    }

    /// Where a piece lies that is not all of its file.
    fn place(&self, visit: &Visit) -> Option<Range<u64>> {
        match self.cut {
            Cut::Samples(_) => self.format.place(visit.file, visit.samples.clone()),
            Cut::Whole | Cut::Groups(_) => None,
        }
    }

    /// Reads the piece of `visit` when its `turn` has come, keeps that turn until the last byte is
    /// there, and does with them what is asked for.
    pub(crate) async fn read(
        self: &Arc<Self>,
        visit: &Visit,
        payload: Payload,
        turn: impl Future<Output: Send>,
    ) -> Result<Read, LoadError> {
        let key = self.layout.key(visit.file);
        let turn = turn.await;
        let asked = time::Instant::now();
        let body = self.fetch(&key, visit, payload).await?;
        let (latency, last_byte) = (asked.elapsed(), Instant::now());
        drop(turn);
        self.check_length(&key, visit, body.bytes())?;
        let body = match body {
            Body::Kept(pieces) if self.work.is_any() => {
                Body::Kept(self.work_on(key, visit, pieces).await?)
            }
            body => body,
        };
        Ok(Read { body, latency, last_byte })
    }

    async fn fetch(
        &self,
        key: &ObjectKey,
        visit: &Visit,
        payload: Payload,
    ) -> Result<Body, StoreError> {
        let place = self.place(visit);
        let Some(ranges) = self.ranges(visit, place.clone()) else {
            return match payload {
                Payload::Discard => {
                    Ok(Body::Counted(self.store.get_discarding(key, place).await?.bytes))
                }
                Payload::Land => {
                    let expected = self.expected_bytes(visit);
                    Ok(Body::Kept(Pieces::One(self.get(key, place, expected).await?)))
                }
            };
        };
        let gets = stream::iter(ranges);
        match payload {
            Payload::Discard => {
                let get = async |range| self.store.get_discarding(key, Some(range)).await;
                let counts = gets.map(get).buffer_unordered(RANGES_IN_FLIGHT);
                let count = async |sum, fetched: feedrate_storage::Fetched| Ok(sum + fetched.bytes);
                Ok(Body::Counted(counts.try_fold(0, count).await?))
            }
            Payload::Land => {
                let get = async |range: Range<u64>| {
                    let bytes = range.end - range.start;
                    self.get(key, Some(range), bytes).await
                };
                let landed = gets.map(get).buffered(RANGES_IN_FLIGHT).try_collect().await?;
                Ok(Body::Kept(Pieces::Several(landed)))
            }
        }
    }

    async fn get(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        expected: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let mut buffer = self.pool.take(expected as usize);
        self.store.get(key, range, &mut buffer).await?;
        Ok(buffer)
    }

    /// The ranges that a piece at `place`, or a whole file, comes by, if it does not come by one GET.
    fn ranges(
        &self,
        visit: &Visit,
        place: Option<Range<u64>>,
    ) -> Option<impl Iterator<Item = Range<u64>> + use<>> {
        let step = self.range_bytes?;
        let exact = || self.format.length(visit.file).exact();
        let known = || exact().filter(|_| self.known == Known::AsMade);
        let Range { start, end } = place.or_else(|| known().map(|length| 0..length))?;
        let starts = move |nth| start + nth * step;
        (end - start > step).then(move || {
            (0..(end - start).div_ceil(step)).map(move |nth| starts(nth)..starts(nth + 1).min(end))
        })
    }

    /// No sample has no bytes, and a file whose length is known has that length.
    fn check_length(&self, key: &ObjectKey, visit: &Visit, found: u64) -> Result<(), LoadError> {
        if found == 0 {
            return Err(LoadError::Empty { key: key.clone() });
        }
        let whole = self.known == Known::AsMade && self.place(visit).is_none();
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
    ) -> Result<Pieces, LoadError> {
        let stopped = |error: &dyn std::fmt::Display| LoadError::Stopped(error.to_string());
        let turn = self.work.threads.acquire().await.map_err(|error| stopped(&error))?;
        let (source, visit) = (Arc::clone(self), visit.clone());
        let worked = tokio::task::spawn_blocking(move || {
            let found = pieces.joined();
            let Visit { file, samples, .. } = visit;
            if source.work.verify {
                let verdict = source.format.verify(file, samples.clone(), &found);
                verdict.map_err(|mismatch| LoadError::Mismatch { key: key.clone(), mismatch })?;
            }
            if source.work.decode {
                let began = Instant::now();
                let decoded = source.format.decode(file, samples, &found);
                source.work.stats.decoded(found.len() as u64, began.elapsed());
                decoded.map_err(|cause| LoadError::Undecodable { key, cause })?;
            }
            drop(found);
            Ok(pieces)
        })
        .await;
        drop(turn);
        worked.map_err(|error| stopped(&error))?
    }

    /// Counts what `body` holds in `held` from here on.
    pub(crate) fn arrival(&self, body: Body, held: &Arc<Held>) -> Arrival {
        match body {
            Body::Kept(pieces) => Arrival::Kept(Arc::new(Landed::new(pieces, &self.pool, held))),
            Body::Counted(bytes) => Arrival::Counted(bytes),
        }
    }
}

/// A finished read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) body: Body,
    /// How long the store took.
    pub(crate) latency: Duration,
    /// When the last byte was there.
    pub(crate) last_byte: Instant,
}

/// What a read brought.
#[derive(Debug)]
pub(crate) enum Body {
    /// The bytes.
    Kept(Pieces),
    /// Their number.
    Counted(u64),
}

impl Body {
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
