//! AES-128 in counter mode: block n of file f is the cipher of both numbers, 64 bits each, big-endian.
//!
//! Speed matters, since everything that is generated begins here, and memory takes it faster than the
//! cipher's library makes it: that has instructions that encrypt several blocks at once, but prepares
//! counters one by one and has data wait in memory in between. So where the processor has the widest of
//! these instructions, [`wide`] keeps all in registers; elsewhere the library does all the work.

#[cfg(target_arch = "x86_64")]
mod wide;

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// Bytes of a block of the cipher.
const BLOCK: usize = 16;

type Block = [u8; BLOCK];

/// All bytes that belong to a key.
#[derive(Clone)]
pub(super) struct Keystream {
    cipher: Aes128Enc,
    #[cfg(target_arch = "x86_64")]
    wide: Option<wide::Wide>,
}

impl Keystream {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            cipher: Aes128Enc::new(&key.into()),
            #[cfg(target_arch = "x86_64")]
            wide: wide::Wide::new(key),
        }
    }

    /// Fills `out` with the bytes of `file` from `offset` on.
    pub(super) fn fill(&self, file: u64, offset: u64, out: &mut [u8]) {
        let mut next = offset / BLOCK as u64;
        let inside = (offset % BLOCK as u64) as usize;
        let mut out = out;
        if inside > 0 {
            let head;
            (head, out) = out.split_at_mut(out.len().min(BLOCK - inside));
            head.copy_from_slice(&self.block(file, next)[inside..inside + head.len()]);
            next += 1;
        }
        let (blocks, tail) = out.as_chunks_mut();
        self.fill_blocks(file, next, blocks);
        if !tail.is_empty() {
            let last = self.block(file, next + blocks.len() as u64);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }

    fn block(&self, file: u64, number: u64) -> Block {
        let mut block = [[0; BLOCK]];
        self.fill_by_library(file, number, &mut block);
        block[0]
    }

    #[cfg(target_arch = "x86_64")]
    fn fill_blocks(&self, file: u64, first: u64, blocks: &mut [Block]) {
        let Some(wide) = &self.wide else { return self.fill_by_library(file, first, blocks) };
        let (groups, rest) = blocks.as_chunks_mut();
        wide.fill(file, first, groups);
        self.fill_by_library(file, first + groups.as_flattened().len() as u64, rest);
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fill_blocks(&self, file: u64, first: u64, blocks: &mut [Block]) {
        self.fill_by_library(file, first, blocks);
    }

    fn fill_by_library(&self, file: u64, first: u64, blocks: &mut [Block]) {
        for (number, block) in (first..).zip(&mut *blocks) {
            block[..8].copy_from_slice(&file.to_be_bytes());
            block[8..].copy_from_slice(&number.to_be_bytes());
        }
        self.cipher.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_part_is_as_the_library_makes_it_block_by_block(
            key in any::<[u8; 16]>(),
            file in any::<u64>(),
            offset in prop_oneof![0_u64..5000, (1 << 36) - 3000..(1_u64 << 36) + 3000],
            len in 0_usize..3000,
        ) {
            let keys = Keystream::new(key);
            let mut found = vec![0xaa; len];
            keys.fill(file, offset, &mut found);
            let blocks = offset / 16..=(offset + len as u64) / 16;
            let whole: Vec<u8> = blocks.flat_map(|number| keys.block(file, number)).collect();
            let start = offset as usize % 16;
            prop_assert_eq!(found, &whole[start..start + len]);
        }
    }
}
