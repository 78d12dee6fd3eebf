//! Who reads which sample when (spec/dlio.md 5.4).
//!
//! One global order G of an epoch: the files in (shuffled) order, the samples of a file ascending.
//! Of G every rank takes one block, steps x batch positions long, and walks it in order or, with
//! `sample_shuffle`, in an order of its own. What is left at the end of G is dropped in that epoch.
//! Nothing is stored: reads are computed one after the other.
//!
//! What one read brings is a [`Cut`]'s matter. Where samples can be read alone, shuffling takes them one
//! by one. Where they cannot, it takes the pieces that can: every piece is read once by each rank that
//! has samples of it, and those stay together (spec/dlio.md 4.5).

use std::ops::Range;

use feedrate_workload::{Schedule, Shuffle, Split, Workload};

use crate::Cut;
use crate::permutation::{Permutation, mix};

/// Keys of the two shuffles are told apart by these, so that one seed can serve both.
const FILES: u64 = 0x6669_6c65_7300_0000;
const SAMPLES: u64 = 0x7361_6d70_6c65_7300;

/// What is added to the keys of evaluations, so that one seed gives both sets orders of their own.
const VALID: u64 = 0x7661_6c69_6400_0000;

/// The order in which the ranks read the samples of one epoch, or of one evaluation. Every rank
/// computes the same plan; it depends on the workload, the number of ranks, the epoch and the cut, not
/// on readers or timing.
#[derive(Debug, Clone)]
pub struct Plan {
    files: FileOrder,
    cut: Cut,
    samples_per_file: u64,
    samples_per_rank: u64,
    sample_key: Option<u64>,
}

impl Plan {
    /// The plan of `epoch`, which counts from 1, for the set of `schedule`, whose files are read as
    /// `cut` says; an evaluation's epoch is the one that it follows. `entropy` is drawn afresh for each
    /// run, the same on all ranks; it takes the seed's place where a shuffle is [`Shuffle::Random`].
    pub fn new(
        workload: &Workload,
        schedule: &Schedule,
        cut: &Cut,
        epoch: u32,
        entropy: u64,
    ) -> Self {
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
            cut: cut.clone(),
            samples_per_file,
            samples_per_rank: schedule.samples_per_rank(),
            sample_key: key(workload.reader.sample_shuffle),
        }
    }

    /// Samples that each rank reads in the epoch: its positions are `0..samples_per_rank()`.
    pub fn samples_per_rank(&self) -> u64 {
        self.samples_per_rank
    }

    /// The reads that serve all positions of `rank`, in order.
    pub fn visits(&self, rank: u32) -> Visits {
        let start = u64::from(rank) * self.samples_per_rank;
        let share = start..start + self.samples_per_rank;
        let shuffled = self.sample_key.map(|key| {
            let pieces = match self.cut {
                // Each of them alone.
                Cut::Samples(_) => share.clone(),
                _ if share.is_empty() => 0..0,
                _ => self.piece_at(share.start)..self.piece_at(share.end - 1) + 1,
            };
            let key = mix(key ^ SAMPLES).wrapping_add(u64::from(rank));
            Shuffled { order: Permutation::new(pieces.end - pieces.start, key), pieces, next: 0 }
        });
        Visits { plan: self.clone(), share, position: 0, shuffled }
    }

    /// The number of the piece that the sample at `place` of G is in, counted through all of G.
    fn piece_at(&self, place: u64) -> u64 {
        let (file, sample) = (place / self.samples_per_file, place % self.samples_per_file);
        file * self.cut.pieces(self.samples_per_file) + self.cut.piece_of(sample)
    }

    /// The places in G of a piece's samples.
    fn places(&self, piece: u64) -> Range<u64> {
        let pieces = self.cut.pieces(self.samples_per_file);
        let samples = self.cut.samples_of(piece % pieces, self.samples_per_file);
        let first = piece / pieces * self.samples_per_file;
        first + samples.start..first + samples.end
    }
}

/// One read: consecutive positions of a rank that one piece of a file serves, whatever the batch size,
/// so a piece of many samples is fetched once and may serve several batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Index of the file to read.
    pub file: u64,
    /// The samples of the file that are served, at least one.
    pub samples: Range<u64>,
    /// The position that the first of them has; the others follow.
    pub first_position: u64,
}

impl Visit {
    /// How many samples are served.
    pub fn count(&self) -> u64 {
        self.samples.end - self.samples.start
    }

    /// The positions that are served.
    pub fn positions(&self) -> Range<u64> {
        self.first_position..self.first_position + self.count()
    }
}

/// The reads of a rank's positions, made one by one: see [`Plan::visits`].
#[derive(Debug, Clone)]
pub struct Visits {
    plan: Plan,
    /// The rank's places in G.
    share: Range<u64>,
    /// The first position that no read serves yet.
    position: u64,
    shuffled: Option<Shuffled>,
}

/// The order of what is shuffled in a rank's share.
#[derive(Debug, Clone)]
struct Shuffled {
    order: Permutation,
    /// Pieces of G; samples of G where they are read alone.
    pieces: Range<u64>,
    next: u64,
}

impl Visits {
    /// The places in G of the next read.
    fn next_places(&mut self) -> Option<Range<u64>> {
        let Some(Shuffled { order, pieces, next }) = &mut self.shuffled else {
            let start = self.share.start + self.position;
            let piece = (start < self.share.end).then(|| self.plan.piece_at(start))?;
            return Some(start..self.plan.places(piece).end.min(self.share.end));
        };
        if *next == pieces.end - pieces.start {
            return None;
        }
        let piece = pieces.start + order.at(*next);
        *next += 1;
        if matches!(self.plan.cut, Cut::Samples(_)) {
            return Some(piece..piece + 1);
        }
        // The first and the last piece of a share may be shared with the ranks beside it.
        let places = self.plan.places(piece);
        Some(places.start.max(self.share.start)..places.end.min(self.share.end))
    }
}

impl Iterator for Visits {
    type Item = Visit;

    fn next(&mut self) -> Option<Visit> {
        let places = self.next_places()?;
        let samples_per_file = self.plan.samples_per_file;
        let first = places.start % samples_per_file;
        let visit = Visit {
            file: self.plan.files.at(places.start / samples_per_file),
            samples: first..first + (places.end - places.start),
            first_position: self.position,
        };
        self.position += visit.count();
        Some(visit)
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

    /// One sample of the set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct SampleRef {
        file: u64,
        sample: u64,
    }

    /// The samples of `rank`, in order.
    fn samples(plan: &Plan, rank: u32) -> Vec<SampleRef> {
        let of =
            |visit: Visit| visit.samples.map(move |sample| SampleRef { file: visit.file, sample });
        plan.visits(rank).flat_map(of).collect()
    }

    #[derive(Debug, Clone, Copy)]
    enum Pieces {
        Whole,
        Samples(u64),
        /// Groups of 2, 1, 2, 1 … samples.
        Groups,
    }

    impl Pieces {
        fn cut(self, samples: u64) -> Cut {
            match self {
                Self::Whole => Cut::Whole,
                Self::Samples(most) => Cut::Samples(most),
                Self::Groups => {
                    Cut::Groups((0..samples).filter(|sample| sample % 3 != 1).collect())
                }
            }
        }
    }

    #[derive(Debug, Clone, Copy)]
    struct Case {
        cut: Pieces,
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
                cut: Pieces::Samples(100),
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
            let cut = self.cut.cut(self.samples_per_file);
            Plan::new(&self.workload(), &self.schedule(), &cut, epoch, entropy)
        }

        /// Each rank's samples of an epoch, in order.
        fn shares(&self, epoch: u32) -> Vec<Vec<SampleRef>> {
            let plan = self.plan(epoch, 9);
            (0..self.ranks).map(|rank| samples(&plan, rank)).collect()
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

    fn pieces() -> impl Strategy<Value = Pieces> {
        prop_oneof![Just(Pieces::Whole), (1_u64..8).prop_map(Pieces::Samples), Just(Pieces::Groups)]
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
            cut in pieces(),
        ) -> Case {
            // Files enough for one step.
            let files = files + (batch * u64::from(ranks)).div_ceil(samples_per_file);
            let available = files * samples_per_file / batch / u64::from(ranks);
            let steps = few.map(|few| few.min(available));
            let case = Case::new(files, samples_per_file, batch, ranks);
            Case { cut, seed, seed_change_epoch, steps, ..case }.shuffled(file_shuffle, sample_shuffle)
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
        fn visits_cover_the_positions_in_order_and_each_piece_once(case in case()) {
            let cut = case.cut.cut(case.samples_per_file);
            let plan = case.plan(1, 9);
            for rank in 0..case.ranks {
                let mut next = 0;
                let mut read = BTreeSet::new();
                for visit in plan.visits(rank) {
                    prop_assert_eq!(visit.first_position, next);
                    prop_assert!(visit.count() > 0);
                    next = visit.positions().end;
                    let piece = cut.piece_of(visit.samples.start);
                    prop_assert_eq!(cut.piece_of(visit.samples.end - 1), piece);
                    let alone = matches!(cut, Cut::Samples(_)) && case.sample_shuffle != Shuffle::Off;
                    prop_assert!(read.insert((visit.file, piece)) || alone);
                    prop_assert!(visit.count() == 1 || !alone);
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
            let plan = Plan::new(&workload, &schedule, &Cut::Samples(100), epoch, entropy);
            [samples(&plan, 0), samples(&plan, 1)].concat()
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
        let plan = Plan::new(&workload, &schedule, &Cut::Whole, 1, 9);
        assert_eq!((plan.samples_per_rank(), schedule.dropped()), (12, 4));
        assert!((0..2).all(|rank| samples(&plan, rank).iter().all(|sample| sample.file < 7)));
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
        let order = |case: Case, entropy| samples(&case.plan(1, entropy), 0);
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
        let counts: Vec<_> = plan.visits(1).map(|visit| visit.count()).collect();
        assert_eq!(counts, [4; 4]);
    }

    #[test]
    fn shuffled_files_that_are_read_whole_are_read_once_by_each_rank() {
        let case = Case { cut: Pieces::Whole, ..Case::new(9, 4, 2, 2) };
        let plan = case.shuffled(Shuffle::Off, Shuffle::Seed).plan(1, 0);
        let files = |rank| plan.visits(rank).map(|visit| visit.file).collect::<Vec<_>>();
        let (mut first, mut second) = (files(0), files(1));
        assert!(!first.is_sorted() && !second.is_sorted());
        first.sort_unstable();
        second.sort_unstable();
        // The file in the middle serves both.
        assert_eq!((first, second), ((0..=4).collect(), (4..=8).collect()));
    }

    #[test]
    fn a_file_of_very_many_samples_is_one_visit_without_counting_them() {
        let case = Case { batch: 1 << 40, ..Case::new(1 << 20, 1 << 40, 1, 1) };
        let case = Case { cut: Pieces::Whole, ..case.shuffled(Shuffle::Seed, Shuffle::Off) };
        let visits = case.plan(1, 0).visits(0);
        assert_eq!(visits.take(3).map(|visit| visit.count()).collect::<Vec<_>>(), [1 << 40; 3]);
    }
}
