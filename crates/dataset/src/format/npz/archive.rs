//! The framing of a ZIP archive: what stands before each member, and the directory at the end.
//!
//! It is written here, since a general ZIP writer neither gives exact lengths beforehand nor writes
//! into a reused buffer. Stamps are fixed: equal inputs, equal bytes. A size or an offset that 32 bits
//! do not hold goes to the 64-bit extension, and only such: an archive below 4 GiB has none of it.
//!
//! Source: APPNOTE.TXT 6.3.

/// What a field of 32 bits does not hold: this value itself says that the extension holds it.
const WIDE: u64 = u32::MAX as u64;

const LOCAL_HEADER: u64 = 30;
const LISTED: u64 = 46;
const END: u64 = 22;
/// The wide end of the directory, and what says where it is.
const WIDE_END: u64 = 56;
const WIDE_END_LOCATOR: u64 = 20;

/// Id of the extra field with wide values, which follow its length.
const WIDE_FIELD: u16 = 1;
/// Versions that readers need: of plain members, and of those with wide values.
const VERSION: u16 = 20;
const WIDE_VERSION: u16 = 45;
/// Made on Unix.
const UNIX: u16 = 3 << 8;
/// Unix mode 0600 in the upper half, as `NumPy`'s writer has it.
const ATTRIBUTES: u32 = 0o600 << 16;
/// 1980-01-01 00:00, the earliest stamp that a ZIP can hold: time, then date.
const STAMP: [u8; 4] = [0, 0, 0x21, 0];
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// What the archive says of a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) deflated: bool,
    /// Checksum of the content.
    pub(super) crc: u32,
    /// Bytes of the content.
    pub(super) size: u64,
    /// Bytes that it takes in the archive.
    pub(super) packed: u64,
    /// Where its header begins.
    pub(super) offset: u64,
}

impl Member {
    /// Whether the member's own header needs wide sizes. That must be known before the content is
    /// packed, which can make it larger: no Deflate takes more than 9 bits for 8, and headers.
    fn wide(&self) -> bool {
        let most = if self.deflated { self.size.saturating_add(self.size / 7) } else { self.size };
        most >= WIDE
    }

    /// Bytes of the member's own header.
    pub(super) fn header_len(&self) -> u64 {
        let extra = if self.wide() { extra_len(2) } else { 0 };
        LOCAL_HEADER + self.name.len() as u64 + extra
    }

    /// Offset of what follows the member; [`u64::MAX`] if that is too much.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.header_len()).saturating_add(self.packed)
    }

    /// The member's own header.
    pub(super) fn header(&self) -> Vec<u8> {
        let wide = self.wide();
        let mut out = b"PK\x03\x04".to_vec();
        let sizes = [self.packed, self.size].map(|size| if wide { WIDE } else { size });
        // Here, both sizes are wide or none is.
        let extra = if wide { extra(&[self.size, self.packed]) } else { Vec::new() };
        self.push_common(if wide { WIDE_VERSION } else { VERSION }, sizes, &extra, &mut out);
        out.extend_from_slice(self.name.as_bytes());
        out.extend(extra);
        out
    }

    /// The values of the directory's entry that 32 bits do not hold, in the order of the extra field.
    fn wide_values(&self) -> impl Iterator<Item = u64> {
        [self.size, self.packed, self.offset].into_iter().filter(|&value| value >= WIDE)
    }

    fn listed_len(&self) -> u64 {
        let wide = self.wide_values().count();
        LISTED + self.name.len() as u64 + if wide == 0 { 0 } else { extra_len(wide as u64) }
    }

    /// Writes the member's entry in the directory.
    fn push_listed(&self, out: &mut Vec<u8>) {
        let wide: Vec<_> = self.wide_values().collect();
        let extra = if wide.is_empty() { Vec::new() } else { extra(&wide) };
        let version = if wide.is_empty() && !self.wide() { VERSION } else { WIDE_VERSION };
        out.extend_from_slice(b"PK\x01\x02");
        push_u16(UNIX | version, out);
        self.push_common(version, [self.packed, self.size], &extra, out);
        // No comment, first disk, no internal attributes.
        out.extend_from_slice(&[0; 6]);
        push_u32(ATTRIBUTES.into(), out);
        push_u32(self.offset, out);
        out.extend_from_slice(self.name.as_bytes());
        out.extend(extra);
    }

    /// What both headers of a member have: version, flags, method, stamp, checksum, both sizes,
    /// lengths of name and extra field.
    fn push_common(&self, version: u16, sizes: [u64; 2], extra: &[u8], out: &mut Vec<u8>) {
        push_u16(version, out);
        push_u16(0, out);
        push_u16(if self.deflated { DEFLATED } else { STORED }, out);
        out.extend_from_slice(&STAMP);
        out.extend_from_slice(&self.crc.to_le_bytes());
        for size in sizes {
            push_u32(size, out);
        }
        push_u16(self.name.len() as u16, out);
        push_u16(extra.len() as u16, out);
    }
}

/// Bytes of the directory of `members`, the last of which ends where it begins.
pub(super) fn directory_len(members: [&Member; 2]) -> u64 {
    let listed = members.map(Member::listed_len).iter().sum::<u64>();
    let wide = if members[1].end() >= WIDE { WIDE_END + WIDE_END_LOCATOR } else { 0 };
    listed + wide + END
}

/// The directory of `members`, the last of which ends where it begins.
pub(super) fn directory(members: [&Member; 2]) -> Vec<u8> {
    let start = members[1].end();
    let count = members.len() as u16;
    let mut out = Vec::new();
    for member in members {
        member.push_listed(&mut out);
    }
    let listed = out.len() as u64;
    if start >= WIDE {
        out.extend_from_slice(b"PK\x06\x06");
        // What follows this number.
        push_u64(WIDE_END - 12, &mut out);
        push_u16(UNIX | WIDE_VERSION, &mut out);
        push_u16(WIDE_VERSION, &mut out);
        // This disk, and that of the directory.
        out.extend_from_slice(&[0; 8]);
        for value in [count.into(), count.into(), listed, start] {
            push_u64(value, &mut out);
        }
        out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        push_u64(start + listed, &mut out);
        // Disks.
        push_u32(1, &mut out);
    }
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    for _ in 0..2 {
        push_u16(count, &mut out);
    }
    push_u32(listed, &mut out);
    push_u32(start, &mut out);
    // No comment.
    push_u16(0, &mut out);
    out
}

/// Bytes of an extra field of so many wide values.
fn extra_len(values: u64) -> u64 {
    4 + 8 * values
}

fn extra(values: &[u64]) -> Vec<u8> {
    let mut extra = Vec::new();
    push_u16(WIDE_FIELD, &mut extra);
    push_u16(8 * values.len() as u16, &mut extra);
    for &value in values {
        push_u64(value, &mut extra);
    }
    extra
}

fn push_u16(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a value, or the mark that it is among the wide ones.
fn push_u32(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.min(WIDE) as u32).to_le_bytes());
}

fn push_u64(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Seek, SeekFrom};

    use zip::ZipArchive;

    use super::*;

    /// An archive whose content is zeros that nobody holds.
    struct Sparse {
        /// Where there is framing, and what.
        framing: Vec<(u64, Vec<u8>)>,
        len: u64,
        at: u64,
    }

    impl Sparse {
        fn of([x, y]: [&Member; 2]) -> Self {
            let directory = directory([x, y]);
            let len = y.end() + directory.len() as u64;
            let framing =
                vec![(x.offset, x.header()), (y.offset, y.header()), (y.end(), directory)];
            Self { framing, len, at: 0 }
        }
    }

    impl Read for Sparse {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = (buffer.len() as u64).min(self.len.saturating_sub(self.at)) as usize;
            for (at, byte) in (self.at..).zip(&mut buffer[..count]) {
                let here = |(start, bytes): &(u64, Vec<u8>)| {
                    bytes.get(at.checked_sub(*start)? as usize).copied()
                };
                *byte = self.framing.iter().find_map(here).unwrap_or(0);
            }
            self.at += count as u64;
            Ok(count)
        }
    }

    impl Seek for Sparse {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.at = match to {
                SeekFrom::Start(at) => at,
                SeekFrom::End(by) => self.len.saturating_add_signed(by),
                SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            };
            Ok(self.at)
        }
    }

    fn members(deflated: bool, x_size: u64, x_packed: u64, y_size: u64) -> [Member; 2] {
        let x = Member { name: "x", deflated, crc: 1, size: x_size, packed: x_packed, offset: 0 };
        let y = Member {
            name: "y",
            deflated: false,
            crc: 2,
            size: y_size,
            packed: y_size,
            offset: x.end(),
        };
        [x, y]
    }

    #[test]
    fn members_of_any_size_are_found_where_they_are() {
        let edge = WIDE - 200;
        let around = (edge..WIDE + 200).step_by(7).chain([WIDE - 1, WIDE, WIDE + 1]);
        let mut cases: Vec<_> = around.map(|x| members(false, x, x, 8)).collect();
        cases.push(members(false, 5 << 40, 5 << 40, 6 << 40));
        cases.push(members(false, 8, 8, 5 << 30));
        cases.push(members(true, 5 << 30, 5 << 30, 8));
        cases.push(members(true, 5 << 30, 1 << 20, 8));
        cases.push(members(true, WIDE - 1, WIDE + 1, 8));
        cases.push(members(true, WIDE / 9 * 8, WIDE - 1, 8));
        for [x, y] in cases {
            let sparse = Sparse::of([&x, &y]);
            assert_eq!(sparse.len, y.end() + directory_len([&x, &y]));
            for member in [&x, &y] {
                assert_eq!(member.header().len() as u64, member.header_len());
            }
            let mut archive = ZipArchive::new(sparse).unwrap_or_else(|e| panic!("{x:?}: {e}"));
            assert_eq!(archive.len(), 2);
            for (index, member) in [x, y].iter().enumerate() {
                let found = archive.by_index_raw(index).unwrap();
                assert_eq!(found.name().unwrap(), member.name);
                assert_eq!(found.crc32(), member.crc);
                assert_eq!(found.size(), member.size);
                assert_eq!(found.compressed_size(), member.packed);
                assert_eq!(found.header_start(), member.offset);
                assert_eq!(found.data_start(), Some(member.offset + member.header_len()));
            }
        }
    }

    #[test]
    fn what_32_bits_hold_has_no_extension() {
        let [x, y] = members(false, WIDE - 1000, WIDE - 1000, 8);
        assert_eq!(
            directory_len([&x, &y]) + x.header_len() + y.header_len(),
            2 * (30 + 46 + 2) + 22
        );
        let [x, y] = members(false, WIDE, WIDE, 8);
        let both = 2 * (30 + 46 + 2) + 22;
        // Both sizes in x's headers, the offset of y in its entry; the end and where it is.
        let extension = 20 + 20 + 12 + 76;
        assert_eq!(directory_len([&x, &y]) + x.header_len() + y.header_len(), both + extension);
    }
}
