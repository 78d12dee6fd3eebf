//! A file from its first byte to its last: row groups, one column chunk behind the other, and the footer
//! that says where they are.
//!
//! Nothing but one page is held while a file is written, the footer included: where all lengths follow
//! from the types, offsets are computed again when the footer's turn comes; else there is a table of
//! them, 24 bytes a column chunk.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_schema::Schema;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};

use super::super::FormatError;
use super::super::files::Length;
use super::super::out::{Counted, Out, Stopped};
use super::MAGIC;
use super::chunk::{Chunk, ChunkLen, LARGEST_PAGE, Pages};
use super::codec::Codec;
use super::column::{Column, LARGEST, Values};
use super::footer::LARGEST_FOOTER;
use super::groups::Groups;
use super::thrift::{self, Struct, Type};
use crate::content::Content;

/// Version of the format's footer: since 2.4 and up to 2.10 it is this.
const VERSION: i32 = 2;

/// Who wrote the file, in the form that readers parse.
const CREATED_BY: &str = concat!("feedrate version ", env!("CARGO_PKG_VERSION"));

/// The footer is written in pieces of about this size.
const PIECE: usize = 64 << 10;

/// What files of one shape look like.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) columns: Vec<Column>,
    pub(super) groups: Groups,
    pub(super) codec: Codec,
    /// For each number of rows that a row group has the lengths of its column chunks, if they can be
    /// told.
    lengths: Option<Vec<(u64, Vec<ChunkLen>)>>,
    length: OnceLock<u64>,
}

impl Layout {
    /// The layout of files of these columns.
    pub(super) fn new(
        columns: Vec<Column>,
        groups: Groups,
        codec: Codec,
    ) -> Result<Self, FormatError> {
        for column in &columns {
            check_column(column, groups)?;
        }
        // A column chunk takes fewer than 100 bytes of the footer, but for the names.
        let names: u64 = columns.iter().map(|column| 100 + column.name.len() as u64).sum();
        if names.saturating_mul(groups.len()) > LARGEST_FOOTER {
            let why = format!(
                "makes {} row groups of {} columns in a file, more than a footer can list: raise it",
                groups.len(),
                columns.len()
            );
            return Err(FormatError::Unfit { key: "dataset.parquet.row_group_size", why });
        }
        let lengths_of = |rows| {
            columns
                .iter()
                .map(|column| Chunk::new(column, 0..rows).len())
                .collect::<Option<Vec<_>>>()
        };
        let lengths = match codec {
            Codec::None => {
                groups.sizes().into_iter().map(|rows| Some((rows, lengths_of(rows)?))).collect()
            }
            _ => None,
        };
        Ok(Self { columns, groups, codec, lengths, length: OnceLock::new() })
    }

    /// The column chunks of a row group of these rows.
    pub(super) fn chunks(&self, rows: Range<u64>) -> impl Iterator<Item = Chunk<'_>> {
        self.columns.iter().map(move |column| Chunk::new(column, rows.clone()))
    }

    /// How long a file is.
    pub(super) fn length(&self) -> Length {
        let length = *self.length.get_or_init(|| {
            let Some(lengths) = &self.lengths else { return self.about() };
            let mut count = Counted(MAGIC.len() as u64);
            for rows in self.groups.iter() {
                let stored = lengths_for(lengths, &rows).iter().map(|len| len.stored);
                count.0 = count.0.saturating_add(stored.sum());
            }
            // Nothing stops who only counts.
            let _ = self.write_footer(|group, column| self.told(group, column), &mut count);
            count.0
        });
        match self.lengths {
            Some(_) => Length::Exact(length),
            None => Length::About(length),
        }
    }

    /// What a file would have with row groups like the first one, if nothing was compressed.
    fn about(&self) -> u64 {
        let rows = self.groups.iter().next().unwrap_or(0..1);
        let len = rows.end - rows.start;
        let about = |chunk: &Chunk<'_>| len.saturating_mul(chunk.column.values.about_bytes());
        let chunks = self.chunks(rows);
        let group: u64 =
            chunks.map(|chunk| chunk.len().map_or_else(|| about(&chunk), |len| len.plain)).sum();
        (u128::from(group) * u128::from(self.groups.rows()) / u128::from(len)) as u64
    }

    /// Lengths of a column chunk, where all can be told.
    fn told(&self, group: u64, column: usize) -> ChunkLen {
        let lengths = self.lengths.as_deref().unwrap_or_default();
        lengths_for(lengths, &self.groups.get(group)).get(column).copied().unwrap_or_default()
    }

    /// Writes a file.
    pub(super) fn write(
        &self,
        content: &Content,
        file: u64,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        out.framing(MAGIC)?;
        let mut pages = Pages::new(content, file, self.codec);
        let mut table = Vec::new();
        for rows in self.groups.iter() {
            for chunk in self.chunks(rows) {
                let len = pages.write_chunk(&chunk, out)?;
                if self.lengths.is_none() {
                    table.push(len);
                }
            }
        }
        let columns = self.columns.len();
        self.write_footer(
            |group, column| match self.lengths {
                Some(_) => self.told(group, column),
                None => table[group as usize * columns + column],
            },
            out,
        )
    }

    /// Writes the footer, its length and the magic number. `len` tells lengths of column chunks.
    fn write_footer(
        &self,
        len: impl Fn(u64, usize) -> ChunkLen,
        out: &mut dyn Out,
    ) -> Result<(), Stopped> {
        let mut footer = Footer { piece: Vec::with_capacity(2 * PIECE), sent: 0, out };
        let columns = i32::try_from(self.columns.len()).unwrap_or(i32::MAX);
        let elements: usize = self.columns.iter().map(Column::schema_elements).sum();
        let last = Struct::new(&mut footer.piece)
            .i32(1, VERSION)
            .list(2, Type::Struct, elements + 1, |out| {
                Struct::new(out).binary(4, b"schema").i32(5, columns).end();
                self.columns.iter().for_each(|column| column.push_schema(out));
            })
            .i64(3, self.groups.rows())
            .list(4, Type::Struct, self.groups.len() as usize, |_| ())
            .pause();
        let mut offset = MAGIC.len() as u64;
        for (group, rows) in (0..).zip(self.groups.iter()) {
            let start = offset;
            let mut plain = 0;
            let last_of_group = Struct::new(&mut footer.piece)
                .list(1, Type::Struct, self.columns.len(), |_| ())
                .pause();
            for (index, chunk) in self.chunks(rows.clone()).enumerate() {
                let len = len(group, index);
                push_chunk(&chunk, self.codec, len, offset, &mut footer.piece);
                offset += len.stored;
                plain += len.plain;
                footer.send(PIECE)?;
            }
            Struct::after(last_of_group, &mut footer.piece)
                .i64(2, plain)
                .i64(3, rows.end - rows.start)
                .i64(5, start)
                .i64(6, offset - start)
                .end();
        }
        let fields: Vec<_> = self.columns.iter().map(Column::field).collect();
        let schema = encode_arrow_schema(&Schema::new(fields));
        Struct::after(last, &mut footer.piece)
            .list(5, Type::Struct, 1, |out| {
                let key = ARROW_SCHEMA_META_KEY.as_bytes();
                Struct::new(out).binary(1, key).binary(2, schema.as_bytes()).end();
            })
            .binary(6, CREATED_BY.as_bytes())
            .end();
        footer.send(0)?;
        let len = footer.sent as u32;
        footer.piece.extend(len.to_le_bytes());
        footer.piece.extend(MAGIC);
        footer.send(0)
    }

    /// Which row the byte at `offset` of a file belongs to.
    pub(super) fn row_at(&self, offset: u64) -> Option<u64> {
        let lengths = self.lengths.as_ref()?;
        let mut start = MAGIC.len() as u64;
        for rows in self.groups.iter() {
            for (chunk, len) in self.chunks(rows.clone()).zip(lengths_for(lengths, &rows)) {
                if offset < start + len.stored {
                    return chunk.row_at(offset.checked_sub(start)?);
                }
                start += len.stored;
            }
        }
        None
    }
}

/// The lengths that column chunks of these rows have.
fn lengths_for<'a>(lengths: &'a [(u64, Vec<ChunkLen>)], rows: &Range<u64>) -> &'a [ChunkLen] {
    let len = rows.end - rows.start;
    lengths.iter().find(|(rows, _)| *rows == len).map_or(&[], |(_, lengths)| lengths)
}

/// The footer on its way out.
struct Footer<'a> {
    piece: Vec<u8>,
    sent: u64,
    out: &'a mut dyn Out,
}

impl Footer<'_> {
    /// Sends what there is, if it is `least` bytes.
    fn send(&mut self, least: usize) -> Result<(), Stopped> {
        if self.piece.len() >= least {
            self.out.framing(&self.piece)?;
            self.sent += self.piece.len() as u64;
            self.piece.clear();
        }
        Ok(())
    }
}

/// Writes what the footer says of a column chunk at `offset`.
fn push_chunk(chunk: &Chunk<'_>, codec: Codec, len: ChunkLen, offset: u64, out: &mut Vec<u8>) {
    let path = chunk.column.path();
    let encodings = chunk.encodings();
    Struct::new(out)
        .i64(2, 0)
        .nested(3, |data| {
            let data = data
                .i32(1, chunk.column.values.physical() as i32)
                .list(2, Type::I32, encodings.len(), |out| {
                    for &encoding in encodings {
                        thrift::zigzag(encoding.into(), out);
                    }
                })
                .list(3, Type::Binary, path.len(), |out| {
                    path.for_each(|name| thrift::binary(name.as_bytes(), out));
                })
                .i32(4, codec.number())
                .i64(5, chunk.values())
                .i64(6, len.plain)
                .i64(7, len.stored)
                .i64(9, offset + len.dictionary);
            if len.dictionary > 0 { data.i64(11, offset) } else { data }
        })
        .end();
}

/// Looks whether a file can have such a column.
fn check_column(column: &Column, groups: Groups) -> Result<(), FormatError> {
    let Column { name, values, .. } = column;
    let fits = match *values {
        Values::Numbers(_, Some(count)) | Values::Bytes(count) => count <= LARGEST_PAGE,
        _ => true,
    };
    // Only of what fits can the page be computed.
    if !fits || Chunk::new(column, 0..1).largest_page() > LARGEST_PAGE {
        let why =
            format!("one value of the column {name:?} is larger than a page can be, about 2 GB");
        return Err(FormatError::Unfit { key: "dataset.parquet.columns", why });
    }
    if values.about_bytes().saturating_mul(groups.rows()) > LARGEST {
        let why = format!("{} of the column {name:?} are more than 16 TiB", groups.rows());
        return Err(FormatError::Unfit { key: "dataset.num_samples_per_file", why });
    }
    Ok(())
}
