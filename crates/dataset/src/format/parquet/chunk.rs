//! A column chunk: the values of one column in one row group, as pages.
//!
//! A page is a header, the levels that say where lists begin and that no value is missing, and the
//! values. Its rows are whole and their values come from the file's random content at a place that
//! follows from the row, so that any page can be made without those before. Without compression it goes
//! out as it is made; with it, or where the length of a text is only known once it is made, one page is
//! held.

use std::io::Write;
use std::ops::Range;

use feedrate_workload::ElementType;

use super::super::out::{Counted, Out, Stopped, pour};
use super::codec::{Codec, Compressor};
use super::column::{Column, Values};
use super::thrift::{Struct, varint};
use crate::content::{Content, PIECE, Scratch, Stream};

/// Bytes of values that a page has at most, unless one row has more.
const PAGE: u64 = 1 << 20;

/// Bytes of levels that a page has at most. They are the same in all files, and stores would find out if
/// there were a whole block of them between what is random.
const LEVELS: u64 = 2048;

/// Bytes of a page before compression: lengths are signed numbers of 32 bits, and what cannot be
/// compressed grows by up to 1 byte in 255.
pub(super) const LARGEST_PAGE: u64 = i32::MAX as u64 - (16 << 20);

/// Lists of fewer values have one bit a value to tell where they begin, longer ones two runs a list.
const SHORT_LIST: u64 = 32;

/// The values that bytes can have, and the least number of values that are worth a dictionary of them.
const BYTES: i32 = 256;
const WORTH_A_DICTIONARY: u64 = 512;

// Numbers of parquet.thrift. PageType:
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
// Encoding:
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;

/// The values of one column in one row group.
#[derive(Debug, Clone)]
pub(super) struct Chunk<'a> {
    pub(super) column: &'a Column,
    /// Counted in the file.
    pub(super) rows: Range<u64>,
    /// Bytes are stored as indices, of a byte each, into a dictionary of all bytes: as single numbers
    /// they would take four, as much as any integer that is not longer.
    dictionary: bool,
}

/// Bytes of a column chunk, headers of pages included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChunkLen {
    /// Of the dictionary, which comes first; 0 if there is none.
    pub(super) dictionary: u64,
    pub(super) stored: u64,
    /// Before compression.
    pub(super) plain: u64,
}

/// Writes pages, and keeps what they need for it from page to page.
pub(super) struct Pages<'a> {
    content: &'a Content,
    file: u64,
    compressor: Compressor,
    header: Vec<u8>,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

/// Part of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    Dictionary,
    /// Of these rows, counted in the file.
    Data(Range<u64>),
}

impl<'a> Chunk<'a> {
    pub(super) fn new(column: &'a Column, rows: Range<u64>) -> Self {
        let values = (rows.end - rows.start).saturating_mul(column.values.per_row());
        let dictionary = match column.values {
            Values::Numbers(ElementType::Int8 | ElementType::Uint8, _) => {
                values >= WORTH_A_DICTIONARY
            }
            _ => false,
        };
        Self { column, rows, dictionary }
    }

    /// Values in the chunk.
    pub(super) fn values(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.column.values.per_row()
    }

    /// Encodings that the chunk has, by their numbers.
    pub(super) fn encodings(&self) -> &'static [i32] {
        if self.dictionary { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] }
    }

    /// The pages of the chunk, in order.
    pub(super) fn pages(&self) -> impl Iterator<Item = Page> {
        let (rows, step) = (self.rows.clone(), self.page_rows());
        let starts = rows.clone().step_by(step as usize);
        let data = starts.map(move |start| Page::Data(start..rows.end.min(start + step)));
        self.dictionary.then_some(Page::Dictionary).into_iter().chain(data)
    }

    /// Rows of a page but the last.
    fn page_rows(&self) -> u64 {
        let values = self.column.values;
        let row = match values {
            Values::Numbers(element, _) => self.width(element) * values.per_row(),
            // The content that a truth value is made from, and about what a text has.
            Values::Bool => 1,
            Values::Text => 16,
            Values::Bytes(len) => 4 + len,
        };
        let of_levels = match values {
            Values::Numbers(_, Some(count)) if count < SHORT_LIST => LEVELS * 8 / count.max(1),
            Values::Numbers(_, Some(_)) => LEVELS / self.levels(1).len() as u64,
            _ => u64::MAX,
        };
        (PAGE / row.max(1)).min(of_levels).max(1)
    }

    /// Bytes of a stored number.
    fn width(&self, element: ElementType) -> u64 {
        if self.dictionary { 1 } else { stored_size(element) }
    }

    /// Bytes of the largest page, if it can be told, and about that else.
    pub(super) fn largest_page(&self) -> u64 {
        let rows = self.page_rows().min(self.rows.end - self.rows.start);
        self.plain_len(rows).unwrap_or(PAGE)
    }

    /// The lengths that the chunk has without compression, if they can be told.
    pub(super) fn len(&self) -> Option<ChunkLen> {
        let rows = self.rows.end - self.rows.start;
        let step = self.page_rows();
        let dictionary = if self.dictionary { self.page_len(&Page::Dictionary)? } else { 0 };
        let full =
            if rows >= step { self.page_len(&Page::Data(0..step))? * (rows / step) } else { 0 };
        let rest = match rows % step {
            0 => 0,
            rest => self.page_len(&Page::Data(0..rest))?,
        };
        let plain = dictionary + full + rest;
        Some(ChunkLen { dictionary, stored: plain, plain })
    }

    /// Bytes of a page with its header and without compression, if they can be told.
    fn page_len(&self, page: &Page) -> Option<u64> {
        let plain = match page {
            Page::Dictionary => u64::from(4 * BYTES.cast_unsigned()),
            Page::Data(rows) => self.plain_len(rows.end - rows.start)?,
        };
        let mut header = Vec::new();
        self.push_header(page, plain, plain, &mut header);
        Some(header.len() as u64 + plain)
    }

    /// Which row the byte at `offset` belongs to, without compression: none in headers, levels and the
    /// dictionary, nor if it cannot be told.
    pub(super) fn row_at(&self, offset: u64) -> Option<u64> {
        let mut start = 0;
        for page in self.pages() {
            let end = start + self.page_len(&page)?;
            if offset < end {
                let Page::Data(rows) = &page else { return None };
                let plain = self.plain_len(rows.end - rows.start)?;
                let levels = self.levels(rows.end - rows.start).len() as u64;
                let row = self.row_in(rows, offset.checked_sub(end - plain + levels)?);
                return row.filter(|row| rows.contains(row));
            }
            start = end;
        }
        None
    }

    /// The row of the byte at `offset` of the values of a page.
    fn row_in(&self, rows: &Range<u64>, offset: u64) -> Option<u64> {
        let row = match self.column.values {
            Values::Numbers(element, _) => {
                let prefix = self.prefix(rows.end - rows.start).len() as u64;
                let row = self.width(element) * self.column.values.per_row();
                offset.checked_sub(prefix)? / row.max(1)
            }
            Values::Bool => offset * 8,
            Values::Bytes(bytes) => offset / (4 + bytes),
            Values::Text => return None,
        };
        Some(rows.start + row)
    }

    /// Bytes of a page of so many rows without its header and compression.
    fn plain_len(&self, rows: u64) -> Option<u64> {
        let values = rows.saturating_mul(self.column.values.per_row());
        let len = match self.column.values {
            Values::Numbers(..) if self.dictionary => {
                self.prefix(rows).len() as u64 + values.next_multiple_of(8)
            }
            Values::Numbers(element, _) => values.saturating_mul(stored_size(element)),
            Values::Bool => values.div_ceil(8),
            Values::Bytes(bytes) => rows.saturating_mul(4 + bytes),
            Values::Text => return None,
        };
        Some(len.saturating_add(self.levels(rows).len() as u64))
    }

    /// The levels of a page of so many rows: of repetition, 0 where a list begins, and of definition,
    /// the same for all values since none is missing. Each is the run-length encoding behind its
    /// length.
    fn levels(&self, rows: u64) -> Vec<u8> {
        let count = self.column.values.per_row();
        let values = rows * count;
        let mut levels = Vec::new();
        let mut part = |write: &dyn Fn(&mut Vec<u8>)| {
            let start = levels.len();
            levels.extend([0; 4]);
            write(&mut levels);
            let len = (levels.len() - start - 4) as u32;
            levels[start..start + 4].copy_from_slice(&len.to_le_bytes());
        };
        if self.column.values.is_list() {
            part(&|out| {
                if count < SHORT_LIST {
                    push_beginnings(count, values, out);
                } else {
                    for _ in 0..rows {
                        push_run(1, 0, out);
                        push_run(count - 1, 1, out);
                    }
                }
            });
        }
        let defined = if self.column.values.is_list() { 3 } else { 1 };
        part(&|out| push_run(values, defined, out));
        levels
    }

    /// What comes before the values of a page of so many rows: for indices their width in bits and the
    /// header of one run of them.
    fn prefix(&self, rows: u64) -> Vec<u8> {
        let mut prefix = Vec::new();
        if self.dictionary {
            prefix.push(8);
            push_packed((rows * self.column.values.per_row()).div_ceil(8), &mut prefix);
        }
        prefix
    }

    /// Writes the header of a page of these lengths.
    fn push_header(&self, page: &Page, plain: u64, stored: u64, out: &mut Vec<u8>) {
        let kind = match page {
            Page::Dictionary => DICTIONARY_PAGE,
            Page::Data(_) => DATA_PAGE,
        };
        let header = Struct::new(out).i32(1, kind).i32(2, plain as i32).i32(3, stored as i32);
        let header = match page {
            Page::Dictionary => {
                header.nested(7, |dictionary| dictionary.i32(1, BYTES).i32(2, PLAIN))
            }
            Page::Data(rows) => {
                let values = (rows.end - rows.start) * self.column.values.per_row();
                let encoding = if self.dictionary { RLE_DICTIONARY } else { PLAIN };
                header.nested(5, |data| {
                    data.i32(1, values as i32).i32(2, encoding).i32(3, RLE).i32(4, RLE)
                })
            }
        };
        header.end();
    }
}

impl<'a> Pages<'a> {
    /// The pages of `file`.
    pub(super) fn new(content: &'a Content, file: u64, codec: Codec) -> Self {
        let compressor = codec.compressor();
        let [header, plain, packed] = [const { Vec::new() }; 3];
        Self { content, file, compressor, header, plain, packed }
    }

    /// Writes a whole chunk.
    pub(super) fn write_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Result<ChunkLen, Stopped> {
        let mut len = ChunkLen::default();
        for page in chunk.pages() {
            let (stored, plain) = self.write(chunk, &page, out)?;
            if page == Page::Dictionary {
                len.dictionary = stored;
            }
            len.stored += stored;
            len.plain += plain;
        }
        Ok(len)
    }

    /// Writes a page with its header; returns the bytes stored, and what they were before compression.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk<'_>,
        page: &Page,
        out: &mut dyn Out,
    ) -> Result<(u64, u64), Stopped> {
        let known = match page {
            Page::Data(rows) if matches!(self.compressor, Compressor::None) => {
                chunk.plain_len(rows.end - rows.start)
            }
            _ => None,
        };
        self.header.clear();
        if let (Page::Data(rows), Some(len)) = (page, known) {
            chunk.push_header(page, len, len, &mut self.header);
            out.framing(&self.header)?;
            self.write_plain(chunk, rows, out)?;
            let bytes = self.header.len() as u64 + len;
            return Ok((bytes, bytes));
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        match page {
            Page::Dictionary => push_dictionary(chunk.column.values, &mut plain),
            Page::Data(rows) => self.write_plain(chunk, rows, &mut plain)?,
        }
        let packed = self.compressor.pack(&plain, &mut self.packed);
        let (stored, len) = (packed.len() as u64, plain.len() as u64);
        chunk.push_header(page, len, stored, &mut self.header);
        out.framing(&self.header)?;
        match page {
            Page::Dictionary => out.framing(packed)?,
            Page::Data(_) => out.content(packed)?,
        }
        self.plain = plain;
        let header = self.header.len() as u64;
        Ok((header + stored, header + len))
    }

    /// Which row the byte at `offset` of a chunk belongs to; the first of the page, where it belongs to
    /// no single one.
    pub(super) fn row_at(&mut self, chunk: &Chunk<'_>, offset: u64) -> u64 {
        if let (Compressor::None, Some(row)) = (&self.compressor, chunk.row_at(offset)) {
            return row;
        }
        let mut end = Counted(0);
        for page in chunk.pages() {
            // Nothing stops who only counts.
            let _ = self.write(chunk, &page, &mut end);
            if let (Page::Data(rows), true) = (page, offset < end.0) {
                return rows.start;
            }
        }
        chunk.rows.start
    }

    /// Writes levels and values of a page.
    fn write_plain(
        &self,
        chunk: &Chunk<'_>,
        rows: &Range<u64>,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        let Column { values, start, .. } = chunk.column;
        let len = rows.end - rows.start;
        out.framing(&chunk.levels(len))?;
        let stream = |element, row_bytes: u64| {
            self.content.elements(self.file, start + rows.start * row_bytes, element)
        };
        match *values {
            Values::Numbers(element, _) => {
                let row = values.per_row() * element.size();
                let (numbers, bytes) = (stream(element, row), len * row);
                if chunk.dictionary {
                    out.framing(&chunk.prefix(len))?;
                    pour(numbers, bytes, out, |_| ())?;
                    out.framing(&[0; 7][..(bytes.next_multiple_of(8) - bytes) as usize])
                } else if stored_size(element) == element.size() {
                    pour(numbers, bytes, out, |_| ())
                } else {
                    pour_wide(numbers, element, len * values.per_row(), out)
                }
            }
            Values::Bool => pour_bits(stream(ElementType::Uint8, 1), len, out),
            Values::Text => pour_texts(stream(ElementType::Uint32, 4), len, out),
            Values::Bytes(bytes) => pour_bytes(stream(ElementType::Uint8, bytes), bytes, len, out),
        }
    }
}

/// Bytes of a number as it is stored by itself: integers have 4 at least.
fn stored_size(element: ElementType) -> u64 {
    match element {
        ElementType::Int8 | ElementType::Uint8 | ElementType::Int16 | ElementType::Uint16 => 4,
        other => other.size(),
    }
}

/// Writes all bytes, in the order of their bits, as integers of the type.
fn push_dictionary(values: Values, out: &mut Vec<u8>) {
    let signed = matches!(values, Values::Numbers(ElementType::Int8, _));
    for byte in 0..=u8::MAX {
        let value = if signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
        out.extend(value.to_le_bytes());
    }
}

/// Writes a run of one level.
fn push_run(len: u64, level: u8, out: &mut Vec<u8>) {
    if len > 0 {
        varint(len << 1, out);
        out.push(level);
    }
}

/// Writes the header of a run of so many groups of 8 values, each by itself.
fn push_packed(groups: u64, out: &mut Vec<u8>) {
    varint(groups << 1 | 1, out);
}

/// Writes a bit for each of `values`, which is 0 at every `count`th, where a list begins.
fn push_beginnings(count: u64, values: u64, out: &mut Vec<u8>) {
    let bytes = values.div_ceil(8);
    push_packed(bytes, out);
    let start = out.len();
    out.resize(start + bytes as usize, 0xff);
    for value in (0..values as usize).step_by(count as usize) {
        out[start + value / 8] &= !(1 << (value % 8));
    }
}

/// Writes the next `count` numbers of `stream`, of an integer type of 1 or 2 bytes, as 32 bits each.
fn pour_wide(
    mut stream: Stream,
    element: ElementType,
    count: u64,
    out: &mut dyn Out,
) -> Result<(), Stopped> {
    const NUMBERS: u64 = PIECE as u64 / 4;
    let mut narrow = [0; PIECE / 2];
    let mut wide = [0; PIECE];
    for start in (0..count).step_by(NUMBERS as usize) {
        let len = NUMBERS.min(count - start) as usize;
        let narrow = &mut narrow[..len * element.size() as usize];
        stream.fill(narrow);
        let (numbers, _) = wide[..4 * len].as_chunks_mut();
        let pairs = narrow.as_chunks().0;
        match element {
            ElementType::Uint8 => widen(numbers, narrow, |&byte| i32::from(byte)),
            ElementType::Int8 => widen(numbers, narrow, |&byte| i32::from(byte.cast_signed())),
            ElementType::Uint16 => {
                widen(numbers, pairs, |&pair| i32::from(u16::from_le_bytes(pair)));
            }
            _ => widen(numbers, pairs, |&pair| i32::from(i16::from_le_bytes(pair))),
        }
        out.content(&wide[..4 * len])?;
    }
    Ok(())
}

fn widen<T>(wide: &mut [[u8; 4]], narrow: &[T], value: impl Fn(&T) -> i32) {
    for (wide, narrow) in wide.iter_mut().zip(narrow) {
        *wide = value(narrow).to_le_bytes();
    }
}

/// Writes `count` bits, each the lowest of the next byte of `stream`.
fn pour_bits(mut stream: Stream, count: u64, out: &mut dyn Out) -> Result<(), Stopped> {
    let mut scratch = Scratch::new();
    let mut bits = [0; PIECE / 8];
    for start in (0..count).step_by(PIECE) {
        let bytes = scratch.piece(count - start);
        stream.fill(bytes);
        let bits = &mut bits[..bytes.len().div_ceil(8)];
        for (bits, bytes) in bits.iter_mut().zip(bytes.chunks(8)) {
            *bits = bytes.iter().rfold(0, |bits, byte| bits << 1 | byte & 1);
        }
        out.content(bits)?;
    }
    Ok(())
}

/// Writes `count` texts of a number below 2^31, each behind its length.
fn pour_texts(mut stream: Stream, count: u64, out: &mut dyn Out) -> Result<(), Stopped> {
    const TEXTS: usize = PIECE / 16;
    let mut numbers = [0; 4 * TEXTS];
    let mut texts = Vec::with_capacity(PIECE);
    for start in (0..count).step_by(TEXTS) {
        let numbers = &mut numbers[..4 * (count - start).min(TEXTS as u64) as usize];
        stream.fill(numbers);
        texts.clear();
        for &number in numbers.as_chunks().0 {
            let at = texts.len();
            texts.extend([0; 4]);
            let _ = write!(texts, "s_{}", u32::from_le_bytes(number) >> 1);
            let len = (texts.len() - at - 4) as u32;
            texts[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
        out.content(&texts)?;
    }
    Ok(())
}

/// Writes `count` values of so many bytes, each behind its length.
fn pour_bytes(
    mut stream: Stream,
    bytes: u64,
    count: u64,
    out: &mut dyn Out,
) -> Result<(), Stopped> {
    let mut scratch = Scratch::new();
    let len = (bytes as u32).to_le_bytes();
    for _ in 0..count {
        out.framing(&len)?;
        let mut left = bytes;
        while left > 0 {
            let piece = scratch.piece(left);
            stream.fill(piece);
            out.content(piece)?;
            left -= piece.len() as u64;
        }
    }
    Ok(())
}
