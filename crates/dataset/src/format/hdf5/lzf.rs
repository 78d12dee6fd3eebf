//! LZF compression (as of liblzf 1.5): literals and references to what came at most 8 KiB before.
//!
//! A literal run is its length less 1, below 32, and the bytes. A reference is three bits of length
//! less 2 (7: another byte, which is added), and 13 bits of distance less 1.

const MOST_LITERALS: usize = 1 << 5;
const MOST_DISTANCE: usize = 1 << 13;
/// Length less 2 that three bits and a byte hold.
const LEAST_MATCH: usize = 3;
const MOST_MATCH: usize = 2 + 7 + 255;
const TABLE_BITS: u32 = 14;

/// Where three bytes of a certain hash came last, as offsets plus 1.
pub(super) struct Table(Vec<u32>);

impl Default for Table {
    fn default() -> Self {
        Self(vec![0; 1 << TABLE_BITS])
    }
}

/// Appends the compressed `input`, fewer than 4 GiB, to `out`; `false`, with something left there, if
/// that takes no fewer bytes.
pub(super) fn compress(input: &[u8], table: &mut Table, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    table.0.fill(0);
    let mut literals = 0;
    let mut at = 0;
    while at < input.len() {
        if out.len() - start + (at - literals) >= input.len() {
            return false;
        }
        let Some((distance, len)) = table.longest(input, at) else {
            at += 1;
            continue;
        };
        push_literals(&input[literals..at], out);
        let (len_less_2, distance) = (len - 2, distance - 1);
        let high = (distance >> 8) as u8;
        if len_less_2 < 7 {
            out.push((len_less_2 as u8) << 5 | high);
        } else {
            out.extend_from_slice(&[7 << 5 | high, (len_less_2 - 7) as u8]);
        }
        out.push(distance as u8);
        at += len;
        literals = at;
    }
    push_literals(&input[literals..], out);
    out.len() - start < input.len()
}

impl Table {
    /// How far before `at` the same bytes are, and how many, if that saves something.
    fn longest(&mut self, input: &[u8], at: usize) -> Option<(usize, usize)> {
        let &[a, b, c] = input[at..].first_chunk()?;
        let bytes = u32::from_le_bytes([a, b, c, 0]);
        let slot = bytes.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS);
        let before = std::mem::replace(&mut self.0[slot as usize], at as u32 + 1);
        let before = before.checked_sub(1)? as usize;
        let distance = at - before;
        if distance > MOST_DISTANCE {
            return None;
        }
        let most = MOST_MATCH.min(input.len() - at);
        let same = input[at..at + most].iter().zip(&input[before..]).take_while(|(a, b)| a == b);
        Some((distance, same.count())).filter(|&(_, len)| len >= LEAST_MATCH)
    }
}

fn push_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(MOST_LITERALS) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}
