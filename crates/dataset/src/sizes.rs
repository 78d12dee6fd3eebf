//! How big each file's samples are (spec/dlio.md 4.1): a square of side int(sqrt(record length)), or
//! with a deviation two sides drawn per file.

use feedrate_workload::Dataset;

use crate::mersenne::Mersenne;

/// The two sides of every file's samples, in elements of one byte.
#[derive(Debug)]
pub(crate) enum Sizes {
    /// All samples are squares of this side.
    Square(u64),
    /// The sides of file i at index i. A table, since the stream that they come from has no random
    /// access: 8 bytes a file.
    PerFile(Vec<[u32; 2]>),
}

impl Sizes {
    /// The sizes of `dataset`, the same on every rank and for any number of ranks.
    pub(crate) fn new(dataset: &Dataset) -> Self {
        let root = dataset.record_length_bytes.sqrt();
        let side = root as u64;
        if dataset.record_length_bytes_stdev <= 0.0 {
            return Self::Square(side);
        }
        // The original's generator takes a seed of 32 bits.
        let mut stream = Mersenne::new(dataset.seed as u32);
        let stdev = dataset.record_length_bytes_stdev / 2.0 / root;
        let mut draw = || (stream.normal(side as f64, stdev) as u32).max(1);
        Self::PerFile((0..dataset.num_files_train).map(|_| [draw(), draw()]).collect())
    }

    /// Rows and columns of the samples in `file`.
    pub(crate) fn sides(&self, file: u64) -> [u64; 2] {
        match self {
            Self::Square(side) => [*side, *side],
            Self::PerFile(sides) => sides[file as usize].map(u64::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::Format;

    use super::*;
    use crate::testing::dataset;

    fn sides(files: u64, record_length: f64, stdev: f64) -> Vec<[u64; 2]> {
        let set = Dataset {
            record_length_bytes_stdev: stdev,
            ..dataset(Format::Npz, files, record_length)
        };
        let sizes = Sizes::new(&set);
        (0..files).map(|file| sizes.sides(file)).collect()
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
