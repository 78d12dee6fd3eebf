//! The random bytes of a data set: AES-128 in counter mode, so that any byte of any file can be
//! computed again without what comes before it.
//!
//! The key is (seed, split), the counter (file, offset). A block cipher never gives two counters the
//! same block under one key, so no two files, and no two places of one file, are alike.

use aes::Aes128Enc;
use aes::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper, StreamCipherSeek};
use ctr::{Ctr64BE, CtrCore};

/// Bytes to fill at a time: several fit into the first-level cache with what is done to them there,
/// and the cost of starting a piece is lost in it.
pub(crate) const PIECE: usize = 8192;

/// The random content of one split of a data set.
#[derive(Clone)]
pub(crate) struct Content {
    cipher: Aes128Enc,
}

/// The random bytes of one file, in order.
pub(crate) struct Stream(Ctr64BE<Aes128Enc>);

impl Content {
    /// The content that belongs to `seed` and `split`; of the split's name the first 8 bytes count.
    pub(crate) fn new(seed: u64, split: &str) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        for (byte, letter) in key[8..].iter_mut().zip(split.bytes()) {
            *byte = letter;
        }
        Self { cipher: Aes128Enc::new(&key.into()) }
    }

    /// The bytes of `file` from `offset` on.
    pub(crate) fn stream(&self, file: u64, offset: u64) -> Stream {
        let mut counter = [0; 16];
        counter[..8].copy_from_slice(&file.to_be_bytes());
        let core = CtrCore::inner_iv_init(self.cipher.clone(), &counter.into());
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        stream.seek(offset);
        Stream(stream)
    }
}

impl Stream {
    /// Fills `piece` with the next bytes.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        self.0.write_keystream(piece);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
    fn the_bytes_stay_what_they_are() {
        // Sets that were generated once must verify later: AES-128 of counter 0 under the key
        // (10, "train"), as any other implementation computes it.
        let content = Content::new(10, "train");
        assert_eq!(bytes(&content, 0, 0, 8), 0x4574_e09e_3eba_3315_u64.to_be_bytes());
    }
}
