//! In which pieces a file of several samples is read.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// About how many bytes a read brings of a file whose samples can be read one by one: the time until the
/// first byte is lost in it, and many of them fit into memory.
const PIECE_BYTES: u64 = 4 << 20;

/// How files are cut into what one read brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// A file is read as a whole.
    Whole,
    /// Any samples of a file can be read without the rest, at most so many at a time (at least 1).
    Samples(u64),
    /// A file is read by groups of samples, each as a whole: the first samples of the groups,
    /// ascending, the first of all being 0.
    Groups(Arc<[u64]>),
}

impl Cut {
    /// Pieces of about 4 MiB, of samples that take up at most `bytes` bytes each.
    pub(crate) fn of_samples(bytes: u64) -> Self {
        Self::Samples((PIECE_BYTES / bytes.max(1)).max(1))
    }

    /// How many pieces a file of `samples` samples has.
    pub fn pieces(&self, samples: u64) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Samples(most) => samples.div_ceil(*most),
            Self::Groups(firsts) => firsts.len() as u64,
        }
    }

    /// The piece that `sample` is in.
    pub fn piece_of(&self, sample: u64) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Samples(most) => sample / most,
            Self::Groups(firsts) => firsts.partition_point(|&first| first <= sample) as u64 - 1,
        }
    }

    /// The samples of a `piece` of a file of `samples` samples.
    pub fn samples_of(&self, piece: u64, samples: u64) -> Range<u64> {
        match self {
            Self::Whole => 0..samples,
            Self::Samples(most) => piece * most..((piece + 1) * most).min(samples),
            Self::Groups(firsts) => {
                let end = firsts.get(piece as usize + 1).copied().unwrap_or(samples);
                firsts[piece as usize]..end
            }
        }
    }

    /// The fewest and the most samples that a piece of a file of `samples` samples has; the file's
    /// rest, which may be fewer, aside.
    pub fn sizes(&self, samples: u64) -> RangeInclusive<u64> {
        match self {
            Self::Whole => samples..=samples,
            Self::Samples(most) => samples.min(*most)..=samples.min(*most),
            Self::Groups(_) => {
                let sizes = || {
                    let pieces =
                        (0..self.pieces(samples)).map(|piece| self.samples_of(piece, samples));
                    pieces.map(|piece| piece.end - piece.start)
                };
                let least = sizes().rev().skip(1).min().or(sizes().next());
                least.unwrap_or(0)..=sizes().max().unwrap_or(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_samples_is_as_large_as_it_may_be_but_never_nothing() {
        let samples = [0, 1, 2048, 114_304, 4 << 20, (4 << 20) + 1, u64::MAX].map(Cut::of_samples);
        let most = [4 << 20, 4 << 20, 2048, 36, 1, 1, 1].map(Cut::Samples);
        assert_eq!(samples, most);
    }

    #[test]
    fn pieces_are_all_samples_in_order() {
        let groups = Cut::Groups([0, 1000, 1200, 2200, 2400].into());
        for cut in [Cut::Whole, Cut::Samples(1), Cut::Samples(7), Cut::Samples(9000), groups] {
            let mut next = 0;
            for piece in 0..cut.pieces(2500) {
                let samples = cut.samples_of(piece, 2500);
                assert_eq!(samples.start, next);
                assert!(samples.clone().all(|sample| cut.piece_of(sample) == piece));
                let count = samples.end - samples.start;
                assert!(count <= *cut.sizes(2500).end());
                assert!(count >= *cut.sizes(2500).start() || samples.end == 2500);
                next = samples.end;
            }
            assert_eq!(next, 2500);
        }
    }
}
