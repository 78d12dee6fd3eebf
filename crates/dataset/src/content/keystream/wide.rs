//! Blocks by instructions that encrypt four of them at once (VAES on AVX-512).

use std::arch::x86_64::{
    __m128i, __m512i, _mm_aeskeygenassist_si128, _mm_set_epi8, _mm_set_epi64x, _mm_shuffle_epi32,
    _mm_slli_si128, _mm_xor_si128, _mm512_add_epi64, _mm512_aesenc_epi128,
    _mm512_aesenclast_epi128, _mm512_broadcast_i32x4, _mm512_set_epi64, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_xor_si512,
};
use std::mem::transmute;

use super::Block;

/// Vectors that are encrypted side by side: two rounds begin in a cycle, and each takes four. With the
/// keys of all rounds they fit into the registers.
const VECTORS: usize = 8;

/// Blocks that are made at a time.
const GROUP: usize = 4 * VECTORS;

/// AES-128 under one key, on a processor that has these instructions.
#[derive(Clone)]
pub(super) struct Wide {
    rounds: [__m128i; 11],
}

impl Wide {
    /// `None` if the processor has other instructions.
    pub(super) fn new(key: [u8; 16]) -> Option<Self> {
        let usable = is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw");
        // SAFETY: the processor has the features that `expand` needs.
        usable.then(|| Self { rounds: unsafe { expand(key) } })
    }

    /// Fills groups of blocks with those of `file` from the one with the number `first` on.
    pub(super) fn fill(&self, file: u64, first: u64, groups: &mut [[Block; GROUP]]) {
        // SAFETY: the processor has the features that `encrypt` needs, or there would be no `Self`.
        unsafe { encrypt(&self.rounds, file, first, groups) }
    }
}

/// The keys of the rounds (FIPS 197, section 5.2).
#[target_feature(enable = "aes")]
fn expand(key: [u8; 16]) -> [__m128i; 11] {
    let key = u128::from_le_bytes(key).cast_signed();
    let mut round = _mm_set_epi64x((key >> 64) as i64, key as i64);
    let mut rounds = [round; 11];
    macro_rules! expand {
        ($($number:literal: $constant:literal,)+) => {$(
            let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(round));
            // Each word of 32 bits becomes the sum of itself and all before it.
            round = _mm_xor_si128(round, _mm_slli_si128::<4>(round));
            round = _mm_xor_si128(round, _mm_slli_si128::<8>(round));
            round = _mm_xor_si128(round, word);
            rounds[$number] = round;
        )+};
    }
    expand! {
        1: 0x01, 2: 0x02, 3: 0x04, 4: 0x08, 5: 0x10, 6: 0x20, 7: 0x40, 8: 0x80, 9: 0x1b, 10: 0x36,
    }
    rounds
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn encrypt(rounds: &[__m128i; 11], file: u64, first: u64, groups: &mut [[Block; GROUP]]) {
    let mut keys = [_mm512_setzero_si512(); 11];
    for (key, &round) in keys.iter_mut().zip(rounds) {
        *key = _mm512_broadcast_i32x4(round);
    }
    // Counters are numbers of 128 bits, which become big-endian when they are used.
    let reverse =
        _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    let file = file.cast_signed();
    let number = |ahead: u64| first.wrapping_add(ahead).cast_signed();
    let mut counters =
        _mm512_set_epi64(file, number(3), file, number(2), file, number(1), file, number(0));
    let ahead = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    for group in groups {
        let mut vectors = [_mm512_setzero_si512(); VECTORS];
        for vector in &mut vectors {
            *vector = _mm512_xor_si512(_mm512_shuffle_epi8(counters, reverse), keys[0]);
            counters = _mm512_add_epi64(counters, ahead);
        }
        for &key in &keys[1..10] {
            for vector in &mut vectors {
                *vector = _mm512_aesenc_epi128(*vector, key);
            }
        }
        let (fours, _) = group.as_chunks_mut::<4>();
        for (four, vector) in fours.iter_mut().zip(vectors) {
            let last = _mm512_aesenclast_epi128(vector, keys[10]);
            // SAFETY: a vector is 64 bytes, as four blocks are, of any value.
            *four = unsafe { transmute::<__m512i, [Block; 4]>(last) };
        }
    }
}
