//! Who reads which sample when (spec/dlio.md 5.4).
//!
//! One global order G of an epoch: the files in (shuffled) order, the samples of a file ascending.
//! Of G every rank takes one block, steps x batch positions long, and walks it in order or, with
//! `sample_shuffle`, in an order of its own. What is left at the end of G is dropped in that epoch.
//! Nothing is stored: the sample at a position is computed.

use std::ops::Range;

use feedrate_workload::{Schedule, Shuffle, Split, Workload};

use crate::permutation::{Permutation, mix};

/// Keys of the two shuffles are told apart by these, so that one seed can serve both.
const FILES: u64 = 0x6669_6c65_7300_0000;
const SAMPLES: u64 = 0x7361_6d70_6c65_7300;

/// What is added to the keys of evaluations, so that one seed gives both sets orders of their own.
const VALID: u64 = 0x7661_6c69_6400_0000;

/// The order in which the ranks read the samples of one epoch, or of one evaluation. Every rank
/// computes the same plan; it depends on the workload, the number of ranks and the epoch, not on
/// readers or timing.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    files: FileOrder,
    samples_per_file: u64,
    samples_per_rank: u64,
    sample_key: Option<u64>,
}

/// One sample of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleRef {
    /// Index of the file.
    pub file: u64,
    /// Index of the sample in its file.
    pub sample: u64,
}

impl Plan {
    /// The plan of `epoch`, which counts from 1, for the set of `schedule`; an evaluation's epoch is
    /// the one that it follows. `entropy` is drawn afresh for each run, the same on all ranks; it
    /// takes the seed's place where a shuffle is [`Shuffle::Random`].
    pub fn new(workload: &Workload, schedule: &Schedule, epoch: u32, entropy: u64) -> Self {
        let own = match schedule.split {
            Split::Train => 0,
            Split::Valid => VALID,
        };
        let key = |shuffle| {
            let base = match shuffle {
                Shuffle::Off => return None,
                Shuffle::Seed => workload.train.seed,
                Shuffle::Random => entropy,
            };
            let change = if workload.train.seed_change_epoch { u64::from(epoch) } else { 0 };
            Some(base.wrapping_add(change).wrapping_add(own))
        };
        let samples_per_file = workload.dataset.num_samples_per_file;
        Self {
            files: FileOrder::new(
                workload.dataset.files(schedule.split),
                schedule.dropped().div_ceil(samples_per_file),
                key(workload.reader.file_shuffle),
            ),
            samples_per_file,
            samples_per_rank: schedule.samples_per_rank(),
            sample_key: key(workload.reader.sample_shuffle),
        }
    }

    /// Samples that each rank reads in the epoch: its positions are `0..samples_per_rank()`.
    pub fn samples_per_rank(&self) -> u64 {
        self.samples_per_rank
    }

    /// The sample that `rank` takes at `position`.
    pub fn sample(&self, rank: u32, position: u64) -> SampleRef {
        debug_assert!(position < self.samples_per_rank, "position {position} is not in the share");
        let inside = match self.sample_key {
            None => position,
            Some(key) => {
                let key = mix(key ^ SAMPLES).wrapping_add(u64::from(rank));
                Permutation::new(self.samples_per_rank, key).at(position)
            }
        };
        let place = u64::from(rank) * self.samples_per_rank + inside;
        SampleRef {
            file: self.files.at(place / self.samples_per_file),
            sample: place % self.samples_per_file,
        }
    }

    /// The reads that serve `positions` of `rank`, in order.
    pub fn visits(&self, rank: u32, positions: Range<u64>) -> Visits {
        Visits { plan: *self, rank, positions }
    }

    /// How many positions from `positions.start` on, and before its end, lie in one file.
    fn run(&self, rank: u32, positions: &Range<u64>) -> u64 {
        let left = positions.end - positions.start;
        if self.sample_key.is_none() {
            let place = u64::from(rank) * self.samples_per_rank + positions.start;
            return left.min(self.samples_per_file - place % self.samples_per_file);
        }
        let file = self.sample(rank, positions.start).file;
        let further = positions.start + 1..positions.end;
        1 + further.take_while(|&next| self.sample(rank, next).file == file).count() as u64
    }
}

/// One read: consecutive positions of a rank that lie in the same file, whatever the batch size, so
/// a file of many samples is fetched once and may serve several batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Index of the file to read.
    pub file: u64,
    /// The first position served.
    pub first_position: u64,
    /// How many positions are served, at least 1.
    pub samples: u64,
}

/// The reads of a range of a rank's positions, made one by one: see [`Plan::visits`].
#[derive(Debug, Clone)]
pub struct Visits {
    plan: Plan,
    rank: u32,
    positions: Range<u64>,
}

impl Iterator for Visits {
    type Item = Visit;

    fn next(&mut self) -> Option<Visit> {
        if self.positions.is_empty() {
            return None;
        }
        let first_position = self.positions.start;
        let samples = self.plan.run(self.rank, &self.positions);
        self.positions.start += samples;
        let file = self.plan.sample(self.rank, first_position).file;
        Some(Visit { file, first_position, samples })
    }
}

/// The order of the files in G.
///
/// Shuffled, an epoch with key k is three steps: the places that are read whole are permuted among
/// themselves by k; all places are turned by k times the number of the others; a permutation that is
/// the same for all epochs scatters the result over the files. So the files at the end of G, where
/// samples are dropped, are different ones from epoch to epoch with certainty, not just most likely,
/// and over the epochs each file has its turn.
#[derive(Debug, Clone, Copy)]
struct FileOrder {
    files: u64,
    shuffle: Option<FileShuffle>,
}

#[derive(Debug, Clone, Copy)]
struct FileShuffle {
    whole: u64,
    among_whole: Permutation,
    turn: u64,
    scatter: Permutation,
}

impl FileOrder {
    /// The order of `files` files of which the last `cut` places lose samples.
    fn new(files: u64, cut: u64, key: Option<u64>) -> Self {
        let shuffle = key.map(|key| {
            // When every file loses some, none can be spared in turn.
            let cut = if cut >= files { 0 } else { cut };
            let whole = files - cut;
            FileShuffle {
                whole,
                among_whole: Permutation::new(whole, mix(key ^ FILES)),
                turn: (u128::from(key) * u128::from(cut) % u128::from(files)) as u64,
                scatter: Permutation::new(files, FILES),
            }
        });
        Self { files, shuffle }
    }

    fn at(&self, place: u64) -> u64 {
        let Some(FileShuffle { whole, among_whole, turn, scatter }) = self.shuffle else {
            return place;
        };
        let place = if place < whole { among_whole.at(place) } else { place };
        scatter.at(((u128::from(place) + u128::from(turn)) % u128::from(self.files)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use feedrate_workload::Format;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::dataset;

    #[derive(Debug, Clone, Copy)]
    struct Case {
        files: u64,
        samples_per_file: u64,
        batch: u64,
        ranks: u32,
        file_shuffle: Shuffle,
        sample_shuffle: Shuffle,
        seed: u64,
        seed_change_epoch: bool,
        steps: Option<u64>,
    }

    impl Case {
        fn new(files: u64, samples_per_file: u64, batch: u64, ranks: u32) -> Self {
            Self {
                files,
                samples_per_file,
                batch,
                ranks,
                file_shuffle: Shuffle::Seed,
                sample_shuffle: Shuffle::Seed,
                seed: 123,
                seed_change_epoch: true,
                steps: None,
            }
        }

        fn shuffled(self, file_shuffle: Shuffle, sample_shuffle: Shuffle) -> Self {
            Self { file_shuffle, sample_shuffle, ..self }
        }

        fn workload(&self) -> Workload {
            let mut set = dataset(Format::Npz, self.files, 1000.0);
            set.num_samples_per_file = self.samples_per_file;
            let mut workload = feedrate_workload::testing::workload(&[]);
            workload.dataset = set;
            workload.reader.batch_size = self.batch;
            workload.reader.file_shuffle = self.file_shuffle;
            workload.reader.sample_shuffle = self.sample_shuffle;
            workload.train.total_training_steps = self.steps;
            workload.train.seed = self.seed;
            workload.train.seed_change_epoch = self.seed_change_epoch;
            workload
        }

        fn schedule(&self) -> Schedule {
            Schedule::new(&self.workload(), self.ranks).expect("a case has steps")
        }

        fn plan(&self, epoch: u32, entropy: u64) -> Plan {
            Plan::new(&self.workload(), &self.schedule(), epoch, entropy)
        }

        /// Each rank's samples of an epoch, in order.
        fn shares(&self, epoch: u32) -> Vec<Vec<SampleRef>> {
            let plan = self.plan(epoch, 9);
            let share =
                |rank| (0..plan.samples_per_rank()).map(|at| plan.sample(rank, at)).collect();
            (0..self.ranks).map(share).collect()
        }

        fn all(&self, epoch: u32) -> Vec<SampleRef> {
            self.shares(epoch).concat()
        }

        fn trained(&self, epoch: u32) -> BTreeSet<SampleRef> {
            self.all(epoch).into_iter().collect()
        }
    }

    fn shuffle() -> impl Strategy<Value = Shuffle> {
        prop_oneof![Just(Shuffle::Off), Just(Shuffle::Seed), Just(Shuffle::Random)]
    }

    prop_compose! {
        fn case()(
            files in 1_u64..60,
            samples_per_file in 1_u64..7,
            batch in 1_u64..6,
            ranks in 1_u32..5,
            seed: u64,
            seed_change_epoch: bool,
            few in proptest::option::of(1_u64..3),
            file_shuffle in shuffle(),
            sample_shuffle in shuffle(),
        ) -> Case {
            // Files enough for one step.
            let files = files + (batch * u64::from(ranks)).div_ceil(samples_per_file);
            let available = files * samples_per_file / batch / u64::from(ranks);
            let steps = few.map(|few| few.min(available));
            let case = Case::new(files, samples_per_file, batch, ranks);
            Case { seed, seed_change_epoch, steps, ..case }.shuffled(file_shuffle, sample_shuffle)
        }
    }

    proptest! {
        #[test]
        fn an_epoch_reads_different_samples_of_the_set(case in case(), epoch in 1_u32..4) {
            let schedule = case.schedule();
            let all = case.all(epoch);
            prop_assert_eq!(all.len() as u64, schedule.samples - schedule.dropped());
            let different: BTreeSet<_> = all.iter().copied().collect();
            prop_assert_eq!(different.len(), all.len());
            prop_assert!(all.iter().all(|at| at.file < case.files && at.sample < case.samples_per_file));
        }

        #[test]
        fn the_same_inputs_give_the_same_order(case in case(), epoch in 1_u32..4) {
            prop_assert_eq!(case.shares(epoch), case.shares(epoch));
            if !case.seed_change_epoch {
                prop_assert_eq!(case.shares(epoch), case.shares(epoch + 1));
            }
        }

        #[test]
        fn samples_are_shuffled_inside_the_share_only(case in case(), epoch in 1_u32..4) {
            let still = case.shuffled(case.file_shuffle, Shuffle::Off).shares(epoch);
            for (mut moved, mut still) in case.shares(epoch).into_iter().zip(still) {
                moved.sort();
                still.sort();
                prop_assert_eq!(moved, still);
            }
        }

        #[test]
        fn with_file_shuffle_what_is_dropped_differs_from_epoch_to_epoch(
            case in case(), epoch in 1_u32..100,
        ) {
            let case = Case { seed_change_epoch: true, ..case };
            let case = case.shuffled(Shuffle::Seed, case.sample_shuffle);
            let cut = case.schedule().dropped().div_ceil(case.samples_per_file);
            prop_assume!(cut > 0 && cut < case.files);
            prop_assert_ne!(case.trained(epoch), case.trained(epoch + 1));
        }

        #[test]
        fn visits_cover_the_positions_in_order_and_are_as_long_as_can_be(case in case()) {
            let plan = case.plan(1, 9);
            for rank in 0..case.ranks {
                let mut next = 0;
                let mut last_file = None;
                for visit in plan.visits(rank, 0..plan.samples_per_rank()) {
                    prop_assert_eq!(visit.first_position, next);
                    prop_assert!(visit.samples > 0);
                    next += visit.samples;
                    for position in visit.first_position..next {
                        prop_assert_eq!(plan.sample(rank, position).file, visit.file);
                    }
                    prop_assert_ne!(last_file.replace(visit.file), Some(visit.file));
                }
                prop_assert_eq!(next, plan.samples_per_rank());
            }
        }
    }

    #[test]
    fn an_evaluation_goes_through_its_own_set_in_its_own_order() {
        let case = Case::new(24, 4, 4, 2);
        let mut workload = case.workload();
        workload.workflow.evaluation = true;
        workload.dataset.num_files_eval = 24;
        workload.reader.batch_size_eval = 4;
        let order = |epoch, entropy| {
            let schedule = Schedule::evaluation(&workload, 2).unwrap().expect("an evaluation");
            let plan = Plan::new(&workload, &schedule, epoch, entropy);
            let share = |rank| (0..plan.samples_per_rank()).map(move |at| plan.sample(rank, at));
            share(0).chain(share(1)).collect::<Vec<_>>()
        };
        let different: BTreeSet<_> = order(1, 9).into_iter().collect();
        assert_eq!(different, case.trained(1));
        assert_ne!(order(1, 9), case.all(1));
        assert_ne!(order(1, 9), order(2, 9));
        assert_eq!(order(1, 9), order(1, 8));

        // A set of its own size, with a rest of its own.
        workload.dataset.num_files_eval = 7;
        workload.reader.batch_size_eval = 3;
        let schedule = Schedule::evaluation(&workload, 2).unwrap().expect("an evaluation");
        let plan = Plan::new(&workload, &schedule, 1, 9);
        assert_eq!((plan.samples_per_rank(), schedule.dropped()), (12, 4));
        let last = plan.samples_per_rank() - 1;
        assert!((0..2).all(|rank| (0..=last).all(|at| plan.sample(rank, at).file < 7)));
    }

    #[test]
    fn every_row_of_the_specifications_steps_is_read_whole() {
        for ((files, samples, batch, ranks), steps) in [
            ((168, 1, 7, 8), 3),
            ((145, 1, 16, 3), 3),
            ((8, 4, 4, 1), 8),
            ((100, 1251, 400, 8), 39),
            ((1024, 1251, 400, 8), 400),
            ((6000, 1, 24, 2), 125),
        ] {
            let case = Case::new(files, samples, batch, ranks);
            let schedule = case.schedule();
            assert_eq!(schedule.steps, steps, "{files} x {samples}, {batch}, {ranks}");
            let plan = case.plan(1, 9);
            assert_eq!(plan.samples_per_rank(), steps * batch);
            if files * samples < 10_000 {
                assert_eq!(case.trained(1).len() as u64, steps * batch * u64::from(ranks));
            }
        }
    }

    #[test]
    fn files_need_not_divide_by_the_ranks() {
        let case = Case::new(145, 1, 16, 3);
        assert!(case.shares(1).iter().all(|share| share.len() == 48));
        assert_eq!(case.trained(1).len(), 144);
        let case = Case::new(100, 1, 3, 7);
        assert!(case.shares(1).iter().all(|share| share.len() == 12));
        assert_eq!(case.trained(1).len(), 84);
    }

    #[test]
    fn a_share_may_start_inside_a_file() {
        let case = Case::new(3, 3, 3, 3).shuffled(Shuffle::Off, Shuffle::Off);
        let case = Case { batch: 1, ranks: 2, ..case };
        let last = *case.shares(1)[0].last().expect("a share");
        assert_eq!(last, SampleRef { file: 1, sample: 0 });
        assert_eq!(case.shares(1)[1][0], SampleRef { file: 1, sample: 1 });
    }

    #[test]
    fn off_is_ascending() {
        let case = Case::new(4, 4, 2, 2).shuffled(Shuffle::Off, Shuffle::Off);
        let ascending: Vec<_> =
            (0..16).map(|at| SampleRef { file: at / 4, sample: at % 4 }).collect();
        assert_eq!(case.all(1), ascending);
        assert_eq!(case.all(2), ascending);
    }

    #[test]
    fn a_seed_that_changes_with_the_epoch_changes_the_order() {
        for (files, samples) in [
            (Shuffle::Seed, Shuffle::Off),
            (Shuffle::Off, Shuffle::Seed),
            (Shuffle::Seed, Shuffle::Seed),
        ] {
            let case = Case::new(4, 4, 2, 2).shuffled(files, samples);
            assert_ne!(case.all(1), case.all(2));
            assert_eq!(case.trained(1).len(), 16);
            let fixed = Case { seed_change_epoch: false, ..case };
            assert_eq!(fixed.all(1), fixed.all(2));
        }
    }

    #[test]
    fn file_shuffle_keeps_the_samples_of_a_file_together() {
        let case = Case::new(20, 4, 4, 1).shuffled(Shuffle::Seed, Shuffle::Off);
        let all = case.all(1);
        assert_ne!(all, case.shuffled(Shuffle::Off, Shuffle::Off).all(1));
        for file in all.chunks(4) {
            let expected: Vec<_> =
                (0..4).map(|sample| SampleRef { file: file[0].file, sample }).collect();
            assert_eq!(file, expected);
        }
    }

    #[test]
    fn random_follows_the_entropy_and_seed_does_not() {
        let order = |case: Case, entropy| {
            let plan = case.plan(1, entropy);
            (0..plan.samples_per_rank()).map(|at| plan.sample(0, at)).collect::<Vec<_>>()
        };
        let seeded = Case::new(50, 1, 5, 1);
        assert_eq!(order(seeded, 1), order(seeded, 2));
        for (files, samples) in [(Shuffle::Random, Shuffle::Off), (Shuffle::Off, Shuffle::Random)] {
            let random = seeded.shuffled(files, samples);
            assert_ne!(order(random, 1), order(random, 2));
            assert_eq!(order(random, 1), order(random, 1));
        }
    }

    #[test]
    fn over_the_epochs_every_file_is_dropped_in_turn() {
        let case = Case::new(145, 1, 16, 3);
        let dropped: BTreeSet<u64> = (1..=145)
            .flat_map(|epoch| {
                let trained = case.trained(epoch);
                (0..145).filter(move |&file| !trained.contains(&SampleRef { file, sample: 0 }))
            })
            .collect();
        assert_eq!(dropped.len(), 145);
    }

    #[test]
    fn one_read_of_a_file_serves_several_batches() {
        let plan = Case::new(8, 4, 2, 2).shuffled(Shuffle::Seed, Shuffle::Off).plan(1, 0);
        let visits: Vec<_> = plan.visits(1, 0..16).collect();
        assert_eq!(visits.len(), 4);
        assert!(visits.iter().all(|visit| visit.samples == 4));
        let part: Vec<_> = plan.visits(1, 2..7).map(|visit| visit.samples).collect();
        assert_eq!(part, [2, 3]);
    }

    #[test]
    fn a_file_of_very_many_samples_is_one_visit_without_counting_them() {
        let case = Case { batch: 1 << 40, ..Case::new(1 << 20, 1 << 40, 1, 1) };
        let case = case.shuffled(Shuffle::Seed, Shuffle::Off);
        let visits = case.plan(1, 0).visits(0, 0..1 << 60);
        assert_eq!(visits.take(3).map(|visit| visit.samples).collect::<Vec<_>>(), [1 << 40; 3]);
    }
}
