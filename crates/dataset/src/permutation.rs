//! A shuffle without a table: a keyed bijection of 0..n that is computed index by index.
//!
//! A Feistel network permutes the smallest square power of two that holds n; an image outside 0..n
//! is permuted again until it falls inside (cycle walking), which keeps it a bijection. The domain
//! is less than 4 n, so that takes fewer than four passes on average.

/// Rounds of the network. Four make one random function look like a random permutation; the halves
/// of small domains are one or two bits, where more rounds are what mixes.
const ROUNDS: u64 = 8;

/// 2^64 divided by the golden ratio, the step of splitmix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every bit of `value` reaches every bit
/// of the result.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A permutation of 0..n chosen by a key: constant memory, constant expected time an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `key`. Neighbouring keys give unrelated ones.
    pub fn new(len: u64, key: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), key: mix(key.wrapping_add(STEP)) }
    }

    /// Where `index`, which is below the length, goes.
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.len, "index {index} of a permutation of {}", self.len);
        let mut image = self.network(index);
        while image >= self.len {
            image = self.network(image);
        }
        image
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            let round_key = mix(self.key.wrapping_add(round.wrapping_mul(STEP)));
            (left, right) = (right, left ^ (mix(right ^ round_key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn images(len: u64, key: u64) -> Vec<u64> {
        let permutation = Permutation::new(len, key);
        (0..len).map(|index| permutation.at(index)).collect()
    }

    fn assert_bijection(len: u64, key: u64) {
        let mut images = images(len, key);
        images.sort_unstable();
        assert!(images.into_iter().eq(0..len), "not a bijection of {len} under {key}");
    }

    #[test]
    fn every_small_length_and_both_sides_of_powers_of_two_are_bijections() {
        let around = |power: u64| [power - 1, power, power + 1];
        for len in (1..70).chain((7..15).flat_map(|bits| around(1 << bits))) {
            assert_bijection(len, len * 31);
        }
    }

    proptest! {
        #[test]
        fn any_length_under_any_key_is_a_bijection(len in 1_u64..5000, key: u64) {
            assert_bijection(len, key);
        }
    }

    #[test]
    fn the_largest_lengths_stay_in_range() {
        for len in [u64::MAX, (1 << 62) + 1, 1 << 63] {
            let permutation = Permutation::new(len, 5);
            assert!((0..100).all(|index| permutation.at(index) < len));
        }
    }

    #[test]
    fn every_order_of_a_few_items_is_about_as_likely() {
        for (len, orders) in [(2, 2), (3, 6), (4, 24), (5, 120)] {
            let mut seen: HashMap<Vec<u64>, u64> = HashMap::new();
            let keys = orders * 500;
            for key in 0..keys {
                *seen.entry(images(len, key)).or_default() += 1;
            }
            assert_eq!(seen.len() as u64, orders, "orders of {len} items");
            for (order, count) in seen {
                assert!((350..650).contains(&count), "{order:?} came {count} times of {keys}");
            }
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let images = images(10_000, 124);
        let together = images.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        // A random order keeps 2 of 10,000 pairs together on average.
        assert!(together < 15, "{together} pairs stayed together");
        let fixed = images.iter().enumerate().filter(|&(at, &image)| at as u64 == image).count();
        assert!(fixed < 10, "{fixed} items stayed where they were");
    }

    #[test]
    fn neighbouring_keys_share_no_pattern() {
        let same = images(10_000, 124).into_iter().zip(images(10_000, 125));
        let same = same.filter(|(a, b)| a == b).count();
        assert!(same < 10, "{same} images are equal");
    }
}
