//! The random bytes of a data set: AES-128 in counter mode, so that any byte of any file can be
//! computed again without what comes before it.
//!
//! The key is (seed, split), the counter (file, offset). A block cipher never gives two counters the
//! same block under one key, so no two files, and no two places of one file, are alike. Only where a
//! workload asks for it are they: `dataset.dedup_ratio` lets neighbouring files have one content, and
//! `dataset.compressibility` puts zeros behind the random bytes of every 4 KiB.

mod keystream;

use feedrate_workload::{Dataset, ElementType, Split};

use self::keystream::Keystream;

/// Bytes to fill at a time: several fit into the first-level cache with what is done to them there,
/// and the cost of starting a piece is lost in it. A multiple of every element's size.
pub(crate) const PIECE: usize = 8192;

/// Room for a piece, aligned so that no vector that is stored there lies in two lines of a cache.
#[repr(align(64))]
pub(crate) struct Scratch([u8; PIECE]);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self([0; PIECE])
    }

    /// Room for the next of `left` bytes: for all, if they are no more than a piece.
    pub(crate) fn piece(&mut self, left: u64) -> &mut [u8] {
        &mut self.0[..left.min(PIECE as u64) as usize]
    }
}

/// Where content is less than random, a block of this size has as much of its share of zeros as any
/// other: that of the smallest unit that stores compress.
const BLOCK: u64 = 4096;

/// The random content of one split of a data set.
#[derive(Clone)]
pub(crate) struct Content {
    keys: Keystream,
    /// Random bytes of each [`BLOCK`].
    random: u64,
    /// Files that have one content, on average.
    alike: f64,
}

/// The random bytes of one file, in order.
pub(crate) struct Stream {
    keys: Keystream,
    file: u64,
    element: ElementType,
    random: u64,
    position: u64,
}

impl Content {
    /// The content that belongs to `seed` and `split`; of the split's name the first 8 bytes count.
    pub(crate) fn new(seed: u64, split: &str) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        for (byte, letter) in key[8..].iter_mut().zip(split.bytes()) {
            *byte = letter;
        }
        Self { keys: Keystream::new(key), random: BLOCK, alike: 1.0 }
    }

    /// The content of a set, as compressible and as often repeated as `dataset` says.
    pub(crate) fn of(dataset: &Dataset, split: Split) -> Self {
        let random = (BLOCK as f64 / dataset.compressibility).ceil() as u64;
        let own = Self::new(dataset.seed, split.folder());
        Self { random: random.clamp(1, BLOCK), alike: dataset.dedup_ratio.max(1.0), ..own }
    }

    /// The bytes of `file` from `offset` on.
    pub(crate) fn stream(&self, file: u64, offset: u64) -> Stream {
        self.elements(file, offset, ElementType::Uint8)
    }

    /// As [`stream`](Self::stream), little-endian elements of a type, floats finite and otherwise of
    /// random bits. `offset` is in bytes, a multiple of the element's size.
    pub(crate) fn elements(&self, file: u64, offset: u64, element: ElementType) -> Stream {
        debug_assert!(offset.is_multiple_of(element.size()));
        // Rounding down gives each content to as many files as the ratio says, on average.
        let own = if self.alike > 1.0 { (file as f64 / self.alike) as u64 } else { file };
        let keys = self.keys.clone();
        Stream { keys, file: own, element, random: self.random, position: offset }
    }
}

impl Stream {
    /// Fills `piece`, whole elements of it, with the next bytes.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        debug_assert!((piece.len() as u64).is_multiple_of(self.element.size()));
        self.keys.fill(self.file, self.position, piece);
        if self.random < BLOCK {
            thin(piece, self.position, self.random);
        }
        make_finite(piece, self.element);
        self.position += piece.len() as u64;
    }
}

/// Zeroes what lies behind the first `random` bytes of each block, in a `piece` that begins at
/// `position`.
fn thin(piece: &mut [u8], position: u64, random: u64) {
    let mut at = 0;
    while at < piece.len() {
        let inside = (position + at as u64) % BLOCK;
        let end = piece.len().min(at + (BLOCK - inside) as usize);
        let zeros = at + random.saturating_sub(inside) as usize;
        if zeros < end {
            piece[zeros..end].fill(0);
        }
        at = end;
    }
}

/// Makes numbers of what would be an infinity or none in elements of a float type, by clearing one bit
/// of an exponent of all ones (IEEE 754).
pub(crate) fn make_finite(piece: &mut [u8], element: ElementType) {
    macro_rules! clear {
        ($bits:ty, $exponent:expr) => {{
            const EXPONENT: $bits = $exponent;
            const LOWEST: $bits = EXPONENT & EXPONENT.wrapping_neg();
            let (elements, _) = piece.as_chunks_mut::<{ size_of::<$bits>() }>();
            for element in elements {
                let bits = <$bits>::from_le_bytes(*element);
                let cleared = if bits & EXPONENT == EXPONENT { LOWEST } else { 0 };
                *element = (bits & !cleared).to_le_bytes();
            }
        }};
    }
    match element {
        ElementType::Float16 => clear!(u16, 0x7c00),
        ElementType::Float32 => clear!(u32, 0x7f80_0000),
        ElementType::Float64 => clear!(u64, 0x7ff0_0000_0000_0000),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use feedrate_workload::Format;

    use super::*;
    use crate::testing::dataset;

    fn bytes(content: &Content, file: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        content.stream(file, offset).fill(&mut bytes);
        bytes
    }

    #[test]
    fn any_offset_gives_the_bytes_of_the_whole() {
        let content = Content::new(10, "train");
        let whole = bytes(&content, 7, 0, 20_000);
        for offset in [1, 15, 16, 4096, 12_345] {
            assert_eq!(bytes(&content, 7, offset as u64, 3000), whole[offset..offset + 3000]);
        }
        let mut pieces = vec![0; 20_000];
        let mut stream = content.stream(7, 0);
        pieces.chunks_mut(333).for_each(|piece| stream.fill(piece));
        assert_eq!(pieces, whole);
    }

    #[test]
    fn seeds_splits_and_files_share_no_block() {
        let mut seen = HashSet::new();
        for (seed, split) in [(10, "train"), (11, "train"), (10, "valid")] {
            for file in [0, 1, 2, u64::MAX] {
                let content = Content::new(seed, split);
                for block in bytes(&content, file, 0, 4096).chunks(16) {
                    assert!(seen.insert(block.to_vec()), "a block occurs twice");
                }
            }
        }
    }

    #[test]
    fn floats_are_finite_and_else_random() {
        let content = Content::new(10, "train");
        let bytes = |element| {
            let mut bytes = vec![0; 1 << 20];
            content.elements(3, 0, element).fill(&mut bytes);
            bytes
        };
        let plain = bytes(ElementType::Uint8);
        let half = bytes(ElementType::Float16);
        let exponent = |half: &[u8; 2]| u16::from_le_bytes(*half) & 0x7c00;
        assert!(half.as_chunks().0.iter().all(|half| exponent(half) != 0x7c00));
        let changed = half.iter().zip(&plain).filter(|(a, b)| a != b).count();
        // One exponent in 32 was all ones.
        assert!((15_000..18_000).contains(&changed), "{changed}");
        let single = bytes(ElementType::Float32);
        assert!(single.as_chunks().0.iter().all(|&single| f32::from_le_bytes(single).is_finite()));
        let double = bytes(ElementType::Float64);
        assert!(double.as_chunks().0.iter().all(|&double| f64::from_le_bytes(double).is_finite()));
        for floats in [single, double] {
            assert_ne!(floats, plain);
            assert!(floats.iter().zip(&plain).filter(|(a, b)| a != b).count() < 4000);
        }
    }

    #[test]
    fn compressible_content_has_its_share_of_zeros_at_any_offset() {
        let set = Dataset { compressibility: 4.0, ..dataset(Format::Npz, 2, 1.0) };
        let content = Content::of(&set, Split::Train);
        let whole = bytes(&content, 0, 0, 64 << 10);
        for block in whole.chunks(4096) {
            assert!(block[1024..].iter().all(|&byte| byte == 0));
            assert!(block[..1024].iter().map(|&byte| u32::from(byte == 0)).sum::<u32>() < 20);
        }
        for offset in [1, 1023, 1024, 1025, 4095, 4096, 5000] {
            assert_eq!(bytes(&content, 0, offset as u64, 9000), whole[offset..offset + 9000]);
        }
    }

    #[test]
    fn as_many_files_have_one_content_as_asked_for() {
        for (ratio, different) in [(1.0, 120), (1.5, 80), (2.0, 60), (10.0, 12), (1e6, 1)] {
            let set = Dataset { dedup_ratio: ratio, ..dataset(Format::Npz, 120, 1.0) };
            let content = Content::of(&set, Split::Train);
            let files: HashSet<_> = (0..120).map(|file| bytes(&content, file, 0, 64)).collect();
            assert_eq!(files.len(), different, "{ratio}");
        }
    }

    #[test]
    fn the_bytes_stay_what_they_are() {
        // Sets that were generated once must verify later: AES-128 of counter 0 under the key
        // (10, "train"), as any other implementation computes it.
        let content = Content::new(10, "train");
        assert_eq!(bytes(&content, 0, 0, 8), 0x4574_e09e_3eba_3315_u64.to_be_bytes());
    }
}
