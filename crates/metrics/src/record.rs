//! What a run measured: steps, blocks, epochs, ranks. Ratios are never stored, only what they are
//! made of, so ranks merge records and every figure can be computed again.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::decode::DecodeSummary;
use crate::in_flight::InFlight;
use crate::process::{ProcessUsage, WaitingCpu};
use crate::requests::RequestSummary;
use crate::units::{ByteCount, Seconds};

/// A moment of wall-clock time, for people and result files. Durations never come from two stamps:
/// they are measured on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(Timestamp);

impl Stamp {
    /// Now.
    pub fn now() -> Self {
        Self(Timestamp::now())
    }

    /// Local time without a zone, `YYYY-MM-DDTHH:MM:SS.ffffff`, as DLIO's files have it
    /// (spec/dlio.md 8.1).
    pub fn dlio(self) -> String {
        self.0.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
    }

    /// Local time as a folder name, `YYYYMMDD_HHMMSS`.
    pub fn folder(self) -> String {
        self.0.to_zoned_datetime(TimeZone::system()).strftime("%Y%m%d_%H%M%S").to_string()
    }

    /// Local time for a report's head, `YYYY-MM-DD HH:MM`.
    pub fn minute(self) -> String {
        self.0.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// The moment `duration` later; the same one if that is no length of time.
    pub fn later(self, duration: Seconds) -> Self {
        let duration = SignedDuration::try_from_secs_f64(duration.0).unwrap_or_default();
        Self(self.0.saturating_add(duration).unwrap_or(self.0))
    }
}

/// One step of one rank: wait for a batch, compute, meet the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// From asking for the batch to holding it, every byte of it in memory (DLIO's `load`).
    pub wait: Seconds,
    /// The measured length of the simulated computation (DLIO's `compute`).
    pub compute: Seconds,
    /// The compute time that was drawn for this step: what an exact sleep would have taken.
    pub drawn: Seconds,
    /// From arriving at the step's barrier to leaving it. Inside the block's time, in no other
    /// figure of the step.
    pub barrier: Seconds,
    /// The part of `wait` in which every byte was there and readers still worked on samples: decoding,
    /// verification, `reader.preprocess_time`.
    #[serde(default, skip_serializing_if = "Seconds::is_zero")]
    pub work: Seconds,
}

impl StepRecord {
    /// DLIO's `proc`: wait and compute together.
    pub fn proc(&self) -> Seconds {
        self.wait + self.compute
    }
}

/// What waits for batches went by. A batch is there when the last piece that it needs is, so a wait is
/// cut along the way of that piece, and the parts add up to the wait:
///
/// ```text
///  held back │ waits for its turn │ attempts that fail │ to the first byte │ to the last │ work │ rest
/// ```
///
/// Where a rank reads its files itself, one after the other (`read_threads: 0`), the ways of all of them
/// are added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitParts {
    /// The piece was not asked for yet, as the window or the chunk had no place for it. What a rank
    /// waits for the byte budget always lets through.
    pub queued_for_window: Seconds,
    /// Its request was held back in favour of other requests of the process: first batches go first,
    /// earlier batches before later ones, and no more at a time than is called for.
    pub queued_for_turn: Seconds,
    /// Before the request of the attempt that succeeded: attempts that failed, waits between them,
    /// making a connection.
    pub retries: Seconds,
    /// From that request to the first byte.
    pub first_byte: Seconds,
    /// From the first byte to the last.
    pub transfer: Seconds,
    /// Readers' work on it: decoding, verification, `reader.preprocess_time`.
    pub work: Seconds,
    /// The rest: putting the batch together, handing it over, waking up.
    pub handover: Seconds,
}

impl WaitParts {
    /// Queued in the client, for whatever reason.
    pub fn queued(&self) -> Seconds {
        self.queued_for_window + self.queued_for_turn
    }

    /// The waits.
    pub fn total(&self) -> Seconds {
        let Self { retries, first_byte, transfer, work, handover, .. } = *self;
        self.queued() + retries + first_byte + transfer + work + handover
    }
}

impl AddAssign for WaitParts {
    fn add_assign(&mut self, other: Self) {
        self.queued_for_window += other.queued_for_window;
        self.queued_for_turn += other.queued_for_turn;
        self.retries += other.retries;
        self.first_byte += other.first_byte;
        self.transfer += other.transfer;
        self.work += other.work;
        self.handover += other.handover;
    }
}

/// The steps between two checkpoints of one rank; an epoch has one or more blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockRecord {
    /// From 1, within the epoch.
    pub number: u32,
    /// When its clock started: directly behind a barrier, with an empty pipeline in the first block.
    pub start: Stamp,
    /// When its clock stopped.
    pub end: Stamp,
    /// The monotonic time between the two (T1 - T0 of spec/dlio.md 7.2).
    pub duration: Seconds,
    /// Its steps, in order.
    pub steps: Vec<StepRecord>,
}

/// One epoch as one rank lived it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankEpoch {
    /// From 0.
    pub rank: u32,
    /// The name of the host it ran on.
    pub host: String,
    /// When its epoch clock started: behind a barrier, with an empty pipeline.
    pub start: Stamp,
    /// When its training was over, the barrier behind the last step included.
    pub end: Stamp,
    /// The monotonic time between the two.
    pub duration: Seconds,
    /// Its blocks, in order.
    pub blocks: Vec<BlockRecord>,
    /// Samples it trained on.
    pub samples: u64,
    /// Bytes of its samples' files that arrived, read once per visit to a file.
    pub bytes: ByteCount,
    /// What the waits of its steps went by, added up; all zero where nobody noted it.
    #[serde(default)]
    pub waited: WaitParts,
    /// The evaluation behind the training of this epoch, if one was due.
    pub evaluation: Option<Evaluation>,
    /// When everything of the epoch was over, evaluation included (DLIO's `end`).
    pub over: Stamp,
    /// `/proc/meminfo` at the end of the epoch, in the kernel's order.
    pub host_meminfo: Vec<(String, String)>,
}

/// The evaluation of one rank's epoch (spec/dlio.md 6.6): load and compute, no barriers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// When its clock started.
    pub start: Stamp,
    /// When its clock stopped.
    pub end: Stamp,
    /// The monotonic time between the two (T1 - T0 of spec/dlio.md 7.4).
    pub duration: Seconds,
    /// Its steps, in order; they have no barrier.
    pub steps: Vec<StepRecord>,
    /// Samples it evaluated.
    pub samples: u64,
    /// Bytes of its samples' files that arrived.
    pub bytes: ByteCount,
}

/// What became of the page caches of all nodes before the epochs of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheDrops {
    /// Epochs before which every node dropped it.
    pub dropped: u32,
    /// Epochs before which that took longer than it may on some node, so that nobody knows.
    pub timed_out: u32,
    /// Why it was not dropped, or not asked to be, with the names of the nodes unless it holds for all
    /// of them; `None` when it always was.
    pub not_dropped: Option<String>,
}

/// One process of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The number of its first rank.
    pub first_rank: u32,
    /// How many ranks it has; their numbers follow each other.
    pub ranks: u32,
    /// The name of the host it ran on.
    pub host: String,
    /// Its CPU and memory.
    pub usage: ProcessUsage,
    /// GETs that its training had in flight; `None` where its ranks read one file at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
}

/// One epoch over all ranks, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: u32,
    /// One entry a rank.
    pub ranks: Vec<RankEpoch>,
}

/// Everything a run measured so far. Grows by an epoch at a time and is saved after each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// When the run started, before listing.
    pub start: Stamp,
    /// When the last epoch so far was over.
    pub end: Stamp,
    /// Steps of an epoch on each rank, from the schedule.
    pub steps_per_epoch: u64,
    /// Steps of an evaluation on each rank, from the schedule; 0 without evaluation.
    pub evaluation_steps: u64,
    /// What became of the page cache before each epoch.
    pub cache_drops: CacheDrops,
    /// From the start of the process of rank 0 to the moment its first step was over.
    pub time_to_first_step: Option<Seconds>,
    /// The finished epochs.
    pub epochs: Vec<EpochRecord>,
    /// All requests of trainings and evaluations up to now, over all processes. Counts and histograms
    /// hold both: a request does not know which set its file is of.
    pub requests: RequestSummary,
    /// What was decoded, over all processes; nothing where `reader.decode` is `none`.
    #[serde(default)]
    pub decoded: DecodeSummary,
    /// CPU and memory of all processes: the sums, and the age of the oldest.
    pub process: ProcessUsage,
    /// The processes, in the order of their first ranks.
    #[serde(default)]
    pub processes: Vec<ProcessRecord>,
    /// How busy the CPUs were while ranks waited for batches of a training, over all processes; waits in
    /// evaluations do not count.
    pub waiting_cpu: WaitingCpu,
    /// The most samples that the readers of all ranks can hold at once ÷ the samples of the data set, for
    /// the report's warning.
    pub window_share_of_epoch: f64,
    /// The bound of the batches' memory in a process that was in force; of the processes, the largest.
    pub byte_budget: ByteCount,
}

/// Counts by kind of retry (`503`, `reset`, `timeout` …).
pub type RetryCounts = BTreeMap<String, u64>;
