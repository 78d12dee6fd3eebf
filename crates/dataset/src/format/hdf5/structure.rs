//! The structures that describe what is in a file: superblock, object headers, links, and the index of
//! a dataset's chunks.
//!
//! Source: HDF5 File Format Specification, version 3.0 (<https://support.hdfgroup.org/documentation/>).
//! All numbers are little-endian; addresses and lengths have 8 bytes.

use feedrate_workload::ElementType;

use super::chunks::Chunks;
use super::filter::Filter;
use crate::format::out::{Out, Stopped};

/// Bytes of the superblock.
pub(super) const SUPERBLOCK: u64 = 48;
/// An address of nothing.
const UNDEFINED: u64 = u64::MAX;
/// Children of a node in the index of chunks: twice the rank that readers assume where the file does
/// not give one.
const CHILDREN: usize = 64;
const TREE_HEADER: u64 = 24;

/// Kinds of header messages.
mod message {
    pub(super) const DATASPACE: u8 = 0x01;
    pub(super) const LINK_INFO: u8 = 0x02;
    pub(super) const DATATYPE: u8 = 0x03;
    pub(super) const FILL_VALUE: u8 = 0x05;
    pub(super) const LINK: u8 = 0x06;
    pub(super) const LAYOUT: u8 = 0x08;
    pub(super) const GROUP_INFO: u8 = 0x0a;
    pub(super) const FILTERS: u8 = 0x0b;
}

/// Where the values of a dataset are.
pub(super) enum Layout<'a> {
    /// In one piece.
    Contiguous { address: u64, size: u64 },
    /// In chunks, which the tree finds.
    Chunked { tree: u64, chunks: &'a Chunks, filter: Filter },
}

/// A chunk as it is in the file.
pub(super) struct Stored {
    pub(super) address: u64,
    pub(super) size: u32,
    /// Whether the dataset's filter, if it has one, was of use.
    pub(super) filtered: bool,
}

/// An object header in the making.
struct Header(Vec<u8>);

impl Header {
    /// Version 2, no times, and 4 bytes for the length of the messages.
    fn new() -> Self {
        Self(b"OHDR\x02\x02\0\0\0\0".to_vec())
    }

    /// Adds a message; `body` writes it.
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(&[kind, 0, 0, 0]);
        let start = self.0.len();
        body(&mut self.0);
        let len = (self.0.len() - start) as u16;
        self.0[start - 3..start - 1].copy_from_slice(&len.to_le_bytes());
    }

    fn finish(self) -> Vec<u8> {
        let mut bytes = self.0;
        let len = (bytes.len() - 10) as u32;
        bytes[6..10].copy_from_slice(&len.to_le_bytes());
        push_checksum(&mut bytes);
        bytes
    }
}

/// The superblock, version 3, of a file of `end` bytes whose root group's header is at `root`.
pub(super) fn superblock(end: u64, root: u64) -> Vec<u8> {
    // Sizes of addresses and lengths, and no flags.
    let mut bytes = b"\x89HDF\r\n\x1a\n\x03\x08\x08\0".to_vec();
    for address in [0, UNDEFINED, end, root] {
        bytes.extend_from_slice(&address.to_le_bytes());
    }
    push_checksum(&mut bytes);
    bytes
}

/// The header of the root group with links to objects, by name and address.
pub(super) fn root(links: impl Iterator<Item = (String, u64)>) -> Vec<u8> {
    let mut header = Header::new();
    header.message(message::LINK_INFO, |body| {
        body.extend_from_slice(&[0, 0]);
        // The links are all here, not in a heap that an index leads to.
        body.extend_from_slice(&UNDEFINED.to_le_bytes());
        body.extend_from_slice(&UNDEFINED.to_le_bytes());
    });
    header.message(message::GROUP_INFO, |body| body.extend_from_slice(&[0, 0]));
    for (name, address) in links {
        header.message(message::LINK, |body| {
            // Version 1, a hard link, an ASCII name.
            body.extend_from_slice(&[1, 0, name.len() as u8]);
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&address.to_le_bytes());
        });
    }
    header.finish()
}

/// The header of a dataset of `shape`, which may grow to `most`.
pub(super) fn dataset(
    shape: &[u64],
    most: Option<&[u64]>,
    element: ElementType,
    layout: &Layout<'_>,
) -> Vec<u8> {
    let mut header = Header::new();
    header.message(message::DATASPACE, |body| {
        body.extend_from_slice(&[2, shape.len() as u8, u8::from(most.is_some()), 1]);
        for dim in shape.iter().chain(most.unwrap_or_default()) {
            body.extend_from_slice(&dim.to_le_bytes());
        }
    });
    header.message(message::DATATYPE, |body| push_type(element, body));
    header.message(message::FILL_VALUE, |body| {
        // None; space is allocated late or, for chunks, as they come.
        let allocation = match layout {
            Layout::Contiguous { .. } => 2,
            Layout::Chunked { .. } => 3,
        };
        body.extend_from_slice(&[3, 2 << 2 | allocation]);
    });
    header.message(message::LAYOUT, |body| match layout {
        Layout::Contiguous { address, size } => {
            body.extend_from_slice(&[3, 1]);
            body.extend_from_slice(&address.to_le_bytes());
            body.extend_from_slice(&size.to_le_bytes());
        }
        Layout::Chunked { tree, chunks, .. } => {
            // An element's bytes count as a dimension.
            body.extend_from_slice(&[3, 2, shape.len() as u8 + 1]);
            body.extend_from_slice(&tree.to_le_bytes());
            for dim in chunks.dims().iter().chain([&element.size()]) {
                body.extend_from_slice(&(*dim as u32).to_le_bytes());
            }
        }
    });
    if let Layout::Chunked { chunks, filter, .. } = layout
        && *filter != Filter::None
    {
        header.message(message::FILTERS, |body| push_filter(*filter, chunks.bytes(), body));
    }
    header.finish()
}

/// A number type: class and version, bits, size, and where its bits are.
fn push_type(element: ElementType, body: &mut Vec<u8>) {
    use ElementType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64};
    const VERSION: u8 = 1 << 4;
    /// The mantissa's first bit is implied.
    const IMPLIED: u8 = 2 << 4;
    let size = element.size() as u8;
    let bits = size * 8;
    // Bits of the exponent and of the mantissa.
    let float = match element {
        Float16 => Some((5, 10)),
        Float32 => Some((8, 23)),
        Float64 => Some((11, 52)),
        _ => None,
    };
    let Some((exponent, mantissa)) = float else {
        let signed = u8::from(matches!(element, Int8 | Int16 | Int32 | Int64)) << 3;
        body.extend_from_slice(&[VERSION, signed, 0, 0, size, 0, 0, 0, 0, 0, bits, 0]);
        return;
    };
    // The sign is the last bit.
    body.extend_from_slice(&[VERSION | 1, IMPLIED, bits - 1, 0, size, 0, 0, 0, 0, 0, bits, 0]);
    body.extend_from_slice(&[mantissa, exponent, 0, mantissa]);
    let exponent_of_1 = (1_u32 << (exponent - 1)) - 1;
    body.extend_from_slice(&exponent_of_1.to_le_bytes());
}

/// A pipeline, version 2, of one filter. A chunk may go without it.
fn push_filter(filter: Filter, chunk: u64, body: &mut Vec<u8>) {
    const OPTIONAL: u16 = 1;
    let numbers = filter.parameters(chunk);
    body.extend_from_slice(&[2, 1]);
    body.extend_from_slice(&filter.id().to_le_bytes());
    let name = filter.name();
    if !name.is_empty() {
        body.extend_from_slice(&(name.len() as u16).to_le_bytes());
    }
    body.extend_from_slice(&OPTIONAL.to_le_bytes());
    body.extend_from_slice(&(numbers.len() as u16).to_le_bytes());
    body.extend_from_slice(name);
    for number in numbers {
        body.extend_from_slice(&number.to_le_bytes());
    }
}

/// Bytes of the tree that finds `chunks`.
pub(super) fn tree_len(chunks: &Chunks) -> u64 {
    let mut nodes = 0;
    let mut level = chunks.count();
    loop {
        level = level.div_ceil(CHILDREN as u64);
        nodes += level;
        if level <= 1 {
            return nodes.saturating_mul(node_len(chunks));
        }
    }
}

/// Nodes are of one size, however many children they have.
fn node_len(chunks: &Chunks) -> u64 {
    let key = 8 * (chunks.dims().len() as u64 + 2);
    TREE_HEADER + CHILDREN as u64 * (key + 8) + key
}

/// Writes the tree (a version 1 B-tree, leaves first) that finds the `stored` ones of `chunks` from
/// `at` on, and tells where its root is.
pub(super) fn write_tree(
    chunks: &Chunks,
    stored: &[Stored],
    mut at: u64,
    out: &mut dyn Out,
) -> Result<u64, Stopped> {
    let node_len = node_len(chunks);
    // What the level points to: the first chunk that is there, and the address.
    let mut children: Vec<(usize, u64)> =
        stored.iter().map(|chunk| chunk.address).enumerate().collect();
    let mut bytes = Vec::with_capacity(node_len as usize);
    for level in 0_u8.. {
        let nodes = children.len().div_ceil(CHILDREN);
        let address = |node: usize| at + node as u64 * node_len;
        let mut parents = Vec::with_capacity(nodes);
        for (node, below) in children.chunks(CHILDREN).enumerate() {
            bytes.clear();
            // Of chunks, not of a group.
            bytes.extend_from_slice(&[b'T', b'R', b'E', b'E', 1, level]);
            bytes.extend_from_slice(&(below.len() as u16).to_le_bytes());
            let left = node.checked_sub(1).map_or(UNDEFINED, address);
            let right = if node + 1 < nodes { address(node + 1) } else { UNDEFINED };
            bytes.extend_from_slice(&left.to_le_bytes());
            bytes.extend_from_slice(&right.to_le_bytes());
            for &(first, child) in below {
                push_key(chunks, stored, first, &mut bytes);
                bytes.extend_from_slice(&child.to_le_bytes());
            }
            let next = children.get((node + 1) * CHILDREN).map_or(stored.len(), |next| next.0);
            push_key(chunks, stored, next, &mut bytes);
            bytes.resize(node_len as usize, 0);
            out.framing(&bytes)?;
            parents.push((below[0].0, address(node)));
        }
        if nodes == 1 {
            return Ok(at);
        }
        at += nodes as u64 * node_len;
        children = parents;
    }
    Ok(at)
}

/// What the tree knows of a chunk: bytes, which filters to leave out, and where in the dataset it
/// begins. Behind the last chunk comes one that is beyond it in all dimensions.
fn push_key(chunks: &Chunks, stored: &[Stored], chunk: usize, bytes: &mut Vec<u8>) {
    if let Some(Stored { size, filtered, .. }) = stored.get(chunk) {
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&u32::from(!filtered).to_le_bytes());
        for from in chunks.origin(chunk as u64) {
            bytes.extend_from_slice(&from.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 8]);
    } else {
        bytes.extend_from_slice(&[0; 8]);
        let last = chunks.origin(chunks.count() - 1);
        for (from, dim) in last.iter().zip(chunks.dims()) {
            bytes.extend_from_slice(&(from + dim).to_le_bytes());
        }
        bytes.extend_from_slice(&chunks.element().to_le_bytes());
    }
}

/// Adds the checksum of what is there.
fn push_checksum(bytes: &mut Vec<u8>) {
    let sum = checksum(bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// Bob Jenkins' lookup3, `hashlittle` with a start of 0
/// (<https://burtleburtle.net/bob/c/lookup3.c>, in the public domain).
fn checksum(bytes: &[u8]) -> u32 {
    let mut state = [0xdead_beef_u32.wrapping_add(bytes.len() as u32); 3];
    let (last, before) = match bytes.len().checked_sub(1) {
        Some(len) => (&bytes[len / 12 * 12..], &bytes[..len / 12 * 12]),
        None => return state[2],
    };
    for block in before.chunks(12) {
        add(&mut state, block);
        let [a, b, c] = &mut state;
        for rounds in [[4, 6, 8], [16, 19, 4]] {
            mix(a, b, c, rounds[0]);
            mix(b, c, a, rounds[1]);
            mix(c, a, b, rounds[2]);
        }
    }
    add(&mut state, last);
    let [a, b, c] = &mut state;
    for (turn, bits) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let (into, from) = match turn % 3 {
            0 => (&mut *c, *b),
            1 => (&mut *a, *c),
            _ => (&mut *b, *a),
        };
        *into = (*into ^ from).wrapping_sub(from.rotate_left(bits));
    }
    *c
}

/// Adds a block of at most 12 bytes to the state, number by number.
fn add(state: &mut [u32; 3], block: &[u8]) {
    for (number, bytes) in state.iter_mut().zip(block.chunks(4)) {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        *number = number.wrapping_add(u32::from_le_bytes(word));
    }
}

/// One step of lookup3's mixing.
fn mix(a: &mut u32, b: &mut u32, c: &mut u32, bits: u32) {
    *a = a.wrapping_sub(*c) ^ c.rotate_left(bits);
    *c = c.wrapping_add(*b);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_lookup3() {
        // The vectors in lookup3.c's driver5.
        assert_eq!(checksum(b""), 0xdead_beef);
        assert_eq!(checksum(b"Four score and seven years ago"), 0x1777_0551);
    }
}
