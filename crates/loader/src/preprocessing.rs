//! What readers do to each sample behind its read: `reader.preprocess_time`.
//!
//! ```text
//!  reader 0   │ batch 0: sample, sample, … │ batch 2: …
//!  reader 1   │ batch 1: sample, sample, … │ batch 3: …
//! ```
//!
//! A reader makes whole batches, as a worker of DLIO's loaders does: reader k of W those numbered k,
//! k + W, k + 2 W … It works on one sample at a time, in order, from when the sample's file is there,
//! so W samples are worked on at most at once, while files of later samples are in flight. It begins a
//! batch when that is less than the ready bound ahead of the rank.
//!
//! Nobody sleeps for it. Each reader has a moment from which it is free, and work moves that on; a batch
//! is handed over at once, with the moment of its last sample, and the rank's thread waits for that
//! moment. So throughput does not depend on how exactly a timer fires. Which files are asked for, and
//! when, does not depend on this work.

use std::collections::VecDeque;
use std::time::Instant;

use feedrate_workload::{Split, Time, Workload};

use crate::times::{Stream, Times};

/// The work on the samples of a set for one rank.
#[derive(Debug, Clone, Copy)]
pub struct Preprocess {
    time: Time,
    seed: u64,
    split: Split,
    rank: u32,
}

impl Preprocess {
    /// What `workload` asks of the readers of `rank` for each sample of `split`; `None` where that
    /// takes no time.
    pub fn new(workload: &Workload, split: Split, rank: u32) -> Option<Self> {
        let time = workload.reader.preprocess_time;
        let nothing = matches!(time, Time::Constant { mean } if mean == 0.0);
        (!nothing).then_some(Self { time, seed: workload.train.seed, split, rank })
    }

    /// The times of a reader in an epoch.
    pub(crate) fn times(&self, epoch: u64, reader: u32) -> Times {
        let Self { time, seed, split, rank } = *self;
        Times::new(&time, seed, Stream::Samples { split, rank, epoch, reader })
    }
}

/// The readers of a rank at work in one epoch.
#[derive(Debug)]
pub(crate) struct Preprocessing {
    readers: Vec<Reader>,
    /// Since when batches may be begun: those before the number, from the moment on. In order.
    allowed: VecDeque<(u64, Instant)>,
}

#[derive(Debug)]
struct Reader {
    times: Times,
    /// When it is done with all it was given.
    free: Instant,
}

impl Preprocessing {
    /// `readers` readers, at least one, that have nothing to do yet.
    pub(crate) fn new(preprocess: &Preprocess, epoch: u64, readers: u32) -> Self {
        let free = Instant::now();
        let reader = |number| Reader { times: preprocess.times(epoch, number), free };
        Self { readers: (0..readers).map(reader).collect(), allowed: VecDeque::new() }
    }

    /// From now on batches before the one numbered `batches` may be begun.
    pub(crate) fn allow(&mut self, batches: u64) {
        if self.allowed.back().is_none_or(|(before, _)| *before < batches) {
            self.allowed.push_back((batches, Instant::now()));
        }
    }

    /// The next `samples` of `batch` are there since `since`. Batches come in order. Returns when its
    /// reader is done with them.
    pub(crate) fn work(&mut self, batch: u64, samples: u64, since: Instant) -> Instant {
        while self.allowed.front().is_some_and(|(before, _)| *before <= batch) {
            self.allowed.pop_front();
        }
        let allowed = self.allowed.front().map_or(since, |(_, moment)| *moment);
        let readers = self.readers.len() as u64;
        let reader = &mut self.readers[(batch % readers) as usize];
        reader.free = reader.free.max(since).max(allowed) + reader.times.sum(samples);
        reader.free
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::workload;

    const MILLI: Duration = Duration::from_millis(1);

    fn preprocess(time: &str) -> Option<Preprocess> {
        let time = format!("reader.preprocess_time={time}");
        Preprocess::new(&workload(&[&time]), Split::Train, 0)
    }

    /// Two readers that work 20 ms on a sample, and when they began.
    fn two() -> (Preprocessing, Instant) {
        let readers = Preprocessing::new(&preprocess("0.02").unwrap(), 1, 2);
        let start = readers.readers[0].free;
        (readers, start)
    }

    #[test]
    fn no_time_is_no_work() {
        assert!(preprocess("0").is_none());
        assert!(preprocess("{type: uniform, min: 0, max: 1}").is_some());
    }

    #[test]
    fn readers_make_whole_batches_in_turn_each_one_sample_at_a_time() {
        let (mut readers, start) = two();
        let mut done = |batch, samples| readers.work(batch, samples, start) - start;
        assert_eq!(done(0, 1), 20 * MILLI);
        assert_eq!(done(0, 3), 80 * MILLI);
        assert_eq!(done(1, 4), 80 * MILLI);
        assert_eq!(done(2, 4), 160 * MILLI);
        assert_eq!(done(4, 4), 240 * MILLI);
    }

    #[test]
    fn work_begins_when_the_file_is_there_and_a_late_one_holds_up_its_own_reader_alone() {
        let (mut readers, start) = two();
        let late = start + 500 * MILLI;
        assert_eq!(readers.work(0, 1, late) - start, 520 * MILLI);
        assert_eq!(readers.work(0, 1, start) - start, 540 * MILLI);
        assert_eq!(readers.work(1, 2, start) - start, 40 * MILLI);
    }

    #[test]
    fn a_batch_is_not_begun_before_the_rank_has_made_room_for_it() {
        let (mut readers, start) = two();
        readers.allowed.extend([(2, start), (3, start + 100 * MILLI), (9, start + 300 * MILLI)]);
        readers.allow(9);
        assert_eq!(readers.allowed.len(), 3);
        let mut done = |batch| readers.work(batch, 1, start) - start;
        assert_eq!([0, 1, 2, 3, 4].map(&mut done), [20, 20, 120, 320, 320].map(|ms| ms * MILLI));
    }

    #[test]
    fn the_times_of_an_epoch_repeat() {
        let preprocess = preprocess("{type: exponential, scale: 0.02}").unwrap();
        let durations = |epoch| {
            let mut readers = Preprocessing::new(&preprocess, epoch, 2);
            let start = Instant::now();
            [0, 1, 2, 3].map(|batch| readers.work(batch, 4, start) - start)
        };
        assert_eq!(durations(1), durations(1));
        assert_ne!(durations(1), durations(2));
        let [first, second, ..] = durations(1);
        assert_ne!(first, second, "readers draw from streams of their own");
    }
}
