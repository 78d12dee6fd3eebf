//! How big each file's samples are (spec/dlio.md 4.1): as `record_dims` says, else a square of side
//! int(sqrt(record length)), or with a deviation two sides drawn per file.

use std::sync::Arc;

use feedrate_workload::Dataset;

use crate::mersenne::Mersenne;

/// The shape of the samples in every file of a set, in elements of one byte. A clone shares the
/// table.
#[derive(Debug, Clone)]
pub(crate) enum Sizes {
    /// All samples have this shape.
    Same(Vec<u64>),
    /// The sides of file i at index `first` + i. A table, since the stream that they come from has
    /// no random access: 8 bytes a file. It is of both sets, the files to evaluate on behind those
    /// to train on, as they come from one stream.
    PerFile {
        /// The sides of the files of both sets.
        sides: Arc<[[u32; 2]]>,
        /// Where the set begins.
        first: usize,
    },
}

impl Sizes {
    /// The sizes of the sets of `dataset`, the one to train on first: the same on every rank and
    /// for any number of ranks.
    pub(crate) fn both(dataset: &Dataset) -> [Self; 2] {
        if !dataset.record_dims.is_empty() {
            return [(); 2].map(|()| Self::Same(dataset.record_dims.clone()));
        }
        let root = dataset.record_length_bytes.sqrt();
        let side = root as u64;
        if dataset.record_length_bytes_stdev <= 0.0 {
            return [(); 2].map(|()| Self::Same(vec![side; 2]));
        }
        // The original's generator takes a seed of 32 bits.
        let mut stream = Mersenne::new(dataset.seed as u32);
        let stdev = dataset.record_length_bytes_stdev / 2.0 / root;
        let mut draw = || (stream.normal(side as f64, stdev) as u32).max(1);
        let train = dataset.num_files_train;
        let both = train + dataset.num_files_eval;
        let sides: Arc<[_]> = (0..both).map(|_| [draw(), draw()]).collect();
        [0, train as usize].map(|first| Self::PerFile { sides: Arc::clone(&sides), first })
    }

    /// The dimensions of the samples in `file`, the outermost first.
    pub(crate) fn dims(&self, file: u64) -> impl Iterator<Item = u64> {
        let (same, own): (&[u64], &[u32]) = match self {
            Self::Same(dims) => (dims, &[]),
            Self::PerFile { sides, first } => (&[], &sides[first + file as usize]),
        };
        same.iter().copied().chain(own.iter().copied().map(u64::from))
    }

    /// Whether there is not even a first file to ask for.
    pub(crate) fn is_of_no_file(&self) -> bool {
        matches!(self, Self::PerFile { sides, first } if sides.len() == *first)
    }

    /// Elements of a sample in `file`; [`u64::MAX`] if there are more.
    pub(crate) fn elements(&self, file: u64) -> u64 {
        self.dims(file).fold(1, u64::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{Format, Split};

    use super::*;
    use crate::testing::dataset;

    fn set(files: u64, record_length: f64, stdev: f64) -> Dataset {
        Dataset { record_length_bytes_stdev: stdev, ..dataset(Format::Npz, files, record_length) }
    }

    fn sides_of(set: &Dataset, split: Split) -> Vec<[u64; 2]> {
        let [train, valid] = Sizes::both(set);
        let sizes = if split == Split::Train { train } else { valid };
        let two = |file| {
            let dims: Vec<_> = sizes.dims(file).collect();
            assert_eq!(sizes.elements(file), dims.iter().product::<u64>());
            dims.try_into().expect("two sides")
        };
        (0..set.files(split)).map(two).collect()
    }

    fn sides(files: u64, record_length: f64, stdev: f64) -> Vec<[u64; 2]> {
        sides_of(&set(files, record_length, stdev), Split::Train)
    }

    #[test]
    fn without_a_deviation_the_side_is_the_truncated_root() {
        assert_eq!(sides(1, 4096.0, 0.0), [[64, 64]]);
        assert_eq!(sides(1, 1000.0, 0.0), [[31, 31]]);
        assert_eq!(sides(1, 114_660.07, 0.0), [[338, 338]]);
        assert_eq!(sides(1, 146_600_628.0, 0.0), [[12_107, 12_107]]);
    }

    #[test]
    fn drawn_sides_are_those_of_the_original() {
        let drawn = sides(4, 65_536.0, 16_384.0);
        assert_eq!(drawn, [[298, 278], [206, 255], [275, 232], [264, 259]]);
        let files: Vec<u64> = sides(4, 100_000.0, 40_000.0)
            .iter()
            // Appendix C gives whole npz files: 8 bytes of label and 450 of framing above these.
            .map(|[rows, columns]| rows * columns + 458)
            .collect();
        assert_eq!(files, [144_858, 69_128, 96_308, 107_362]);
    }

    #[test]
    fn both_sets_share_one_stream() {
        let all = sides(10, 65_536.0, 16_384.0);
        assert_eq!(all[..2], [[298, 278], [206, 255]]);
        let both = Dataset { num_files_eval: 4, ..set(6, 65_536.0, 16_384.0) };
        assert_eq!(sides_of(&both, Split::Train), all[..6]);
        assert_eq!(sides_of(&both, Split::Valid), all[6..]);
        let table = |sizes: &Sizes| match sizes {
            Sizes::PerFile { sides, .. } => sides.as_ptr(),
            Sizes::Same(_) => panic!("sizes deviate"),
        };
        let [train, valid] = Sizes::both(&both);
        assert_eq!(table(&train), table(&valid));
        assert_eq!(table(&train), table(&train.clone()));
    }

    #[test]
    fn sides_deviate_as_much_as_configured() {
        let drawn: Vec<_> = sides(1000, 65_536.0, 16_384.0).concat();
        let count = drawn.len() as f64;
        let mean = drawn.iter().sum::<u64>() as f64 / count;
        let square = |side: &u64| (*side as f64 - mean).powi(2);
        let stdev = (drawn.iter().map(square).sum::<f64>() / count).sqrt();
        assert!((mean - 256.0).abs() < 4.0, "mean {mean}");
        assert!((stdev - 32.0).abs() < 4.0, "standard deviation {stdev}");
    }

    #[test]
    fn record_dims_are_the_shape() {
        let set = Dataset { record_dims: vec![4, 8, 6], ..set(2, 192.0, 0.0) };
        let [sizes, _] = Sizes::both(&set);
        assert_eq!(sizes.dims(1).collect::<Vec<_>>(), [4, 8, 6]);
        assert_eq!(sizes.elements(1), 192);
    }

    #[test]
    fn unet3d_has_the_sizes_of_the_original() {
        let drawn = sides(168, 146_600_628.0, 68_341_808.0);
        assert_eq!(drawn[0], [15_865, 14_125]);
        let bytes = || drawn.iter().map(|[rows, columns]| rows * columns);
        assert_eq!(bytes().sum::<u64>(), 25_285_981_919);
        assert_eq!(bytes().min(), Some(46_888_650));
        assert_eq!(bytes().max(), Some(301_601_979));
    }

    #[test]
    fn no_side_is_below_one() {
        let drawn = sides(1000, 100.0, 1000.0);
        assert!(drawn.iter().flatten().all(|&side| side >= 1));
        assert!(drawn.iter().flatten().any(|&side| side == 1));
    }
}
