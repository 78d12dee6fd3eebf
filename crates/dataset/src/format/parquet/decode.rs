//! From the bytes of a row group's columns to Arrow's arrays.
//!
//! The `parquet` crate does it. It gets a description of the one row group with the wanted columns,
//! made from what was kept of the footer, and what was fetched as if it were the file. Since it trusts
//! the headers of pages as to how much there will be, these are looked through first.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use bytes::buf::Reader as BytesReader;
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::CompressionCodec;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};

use super::super::files::Undecodable;
use super::super::guard::guarded;
use super::footer::{Footer, Group, Place};
use super::thrift::read::{Malformed, Reader, STRUCT};

/// Bytes of a column that are decoded at a time, about, and rows at most.
const BATCH: u64 = 8 << 20;
const BATCH_ROWS: u64 = 8192;

/// What a compressed page may become: so many times its size, which is as much as Deflate gets out of
/// anything, or this if it is more.
const MOST_EXPANSION: u64 = 1100;
const SMALL_PAGE: u64 = 16 << 20;

/// Values that a page may have however few bytes they take.
const FEW_VALUES: u64 = 16 << 20;

impl Footer {
    /// Decodes all values of a row group from its [`ranges`](Group::ranges): for each its offset in the
    /// file, and what it holds.
    ///
    /// # Errors
    /// Names the row group and the column.
    pub fn decode(&self, group: usize, fetched: &[(u64, Bytes)]) -> Result<(), Undecodable> {
        let wrong = |column: &str, error: &dyn std::fmt::Display| {
            Undecodable::file(format!("row group {group}, column {column:?}: {error}"))
        };
        let Some(place) = self.groups().get(group) else {
            return Err(Undecodable::file(format!("it has no row group {group}")));
        };
        let fetched = Fetched(fetched.into());
        for (leaf, (start, chunk)) in place.chunks().enumerate() {
            let pages = fetched.get(start..start + chunk.len);
            let checked = pages.ok_or(Malformed::Ends.to_string());
            checked
                .and_then(|pages| check_pages(&pages, chunk))
                .map_err(|error| wrong(self.schema.name(leaf), &error))?;
        }
        let metadata = guarded(|| self.metadata(place))?;
        let fields = self.schema.read.root_schema().get_fields();
        for (column, field) in fields.iter().enumerate() {
            guarded(|| decode_column(&metadata, &fetched, column, place))
                .map_err(|error| wrong(field.name(), &error))?;
        }
        Ok(())
    }

    /// What a file would say that consisted of the wanted columns of a row group.
    fn metadata(&self, group: &Group) -> ParquetResult<ArrowReaderMetadata> {
        let schema = &self.schema.read;
        let column = |(leaf, (start, place)): (usize, (u64, &Place))| {
            let unknown = || ParquetError::General("its compression is not supported".to_owned());
            ColumnChunkMetaData::builder(schema.column(leaf))
                .set_compression_codec(place.codec.known().ok_or_else(unknown)?)
                .set_num_values(place.values.cast_signed())
                .set_total_compressed_size(place.len.cast_signed())
                .set_total_uncompressed_size(place.plain.cast_signed())
                .set_data_page_offset((start + place.data.unwrap_or(0)).cast_signed())
                .set_dictionary_page_offset(place.data.map(|_| start.cast_signed()))
                .build()
        };
        let columns: ParquetResult<Vec<_>> = group.chunks().enumerate().map(column).collect();
        let rows = group.rows.cast_signed();
        let row_group = RowGroupMetaData::builder(Arc::clone(schema))
            .set_num_rows(rows)
            .set_column_metadata(columns?)
            .build()?;
        let file = FileMetaData::new(2, rows, None, None, Arc::clone(schema), None);
        let metadata = Arc::new(ParquetMetaData::new(file, vec![row_group]));
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        ArrowReaderMetadata::try_new(metadata, options)
    }
}

/// Decodes a wanted column.
fn decode_column(
    metadata: &ArrowReaderMetadata,
    fetched: &Fetched,
    column: usize,
    group: &Group,
) -> ParquetResult<()> {
    let plain: u64 = group.chunks().map(|(_, place)| place.plain).max().unwrap_or(0);
    let row = plain.div_ceil(group.rows).max(1);
    let batch = (BATCH / row).clamp(1, BATCH_ROWS);
    let mask = ProjectionMask::roots(metadata.parquet_schema(), [column]);
    let batches =
        ParquetRecordBatchReaderBuilder::new_with_metadata(fetched.clone(), metadata.clone())
            .with_projection(mask)
            .with_batch_size(batch as usize)
            .build()?;
    let mut rows = 0;
    for batch in batches {
        rows += black_box(batch?).num_rows() as u64;
    }
    if rows != group.rows {
        let what = format!("it has {rows} rows, but the row group {}", group.rows);
        return Err(ParquetError::General(what));
    }
    Ok(())
}

/// Goes from page to page of a column chunk: there is no more in them than the footer and their size
/// justify.
fn check_pages(mut pages: &[u8], place: &Place) -> Result<(), String> {
    let mut values = 0_u64;
    while !pages.is_empty() {
        let mut reader = Reader::new(pages);
        let header = PageHeader::read(&mut reader).map_err(|error| error.to_string())?;
        let body = &pages[pages.len() - reader.left()..];
        let header = header.ok_or("a page has an impossible header")?;
        let stored = usize::try_from(header.stored).ok().filter(|&stored| stored <= body.len());
        let stored = stored.ok_or("a page is longer than what is left of the column")?;
        let most = match place.codec.known() {
            Some(CompressionCodec::UNCOMPRESSED) => header.stored,
            _ => header.stored.saturating_mul(MOST_EXPANSION).max(SMALL_PAGE),
        };
        let most_values = header.plain.saturating_mul(8).max(FEW_VALUES);
        if header.plain > most || header.values > most_values {
            return Err(format!(
                "a page of {} bytes is said to hold {} bytes of {} values",
                header.stored, header.plain, header.values
            ));
        }
        if !header.dictionary {
            values = values.saturating_add(header.values);
        }
        pages = &body[stored..];
    }
    if values != place.values {
        return Err(format!("its pages have {values} values, but the footer {}", place.values));
    }
    Ok(())
}

/// What the header of a page says.
#[derive(Debug)]
struct PageHeader {
    dictionary: bool,
    plain: u64,
    stored: u64,
    values: u64,
}

impl PageHeader {
    /// `PageHeader` of parquet.thrift. `None` if a number is negative or lacks.
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let [mut plain, mut stored, mut values] = [None; 3];
        let mut dictionary = false;
        reader.fields(|number, kind, reader| {
            match number {
                2 => plain = Some(reader.number_of(kind)?),
                3 => stored = Some(reader.number_of(kind)?),
                5 | 7 | 8 if kind == STRUCT => {
                    dictionary = number == 7;
                    reader.fields(|number, kind, reader| {
                        if number == 1 {
                            values = Some(reader.number_of(kind)?);
                        }
                        Ok::<_, Malformed>(number == 1)
                    })?;
                }
                _ => return Ok(false),
            }
            Ok::<_, Malformed>(true)
        })?;
        let number = |number: Option<i64>| u64::try_from(number?).ok();
        // A page of an index has no values.
        let values = number(values.or(Some(0)));
        Ok(number(plain).zip(number(stored)).zip(values).map(|((plain, stored), values)| Self {
            dictionary,
            plain,
            stored,
            values,
        }))
    }
}

/// What was fetched of a file, as the file.
#[derive(Debug, Clone)]
struct Fetched(Arc<[(u64, Bytes)]>);

impl Fetched {
    /// The bytes of a range of the file, if they are there.
    fn get(&self, range: Range<u64>) -> Option<Bytes> {
        slice(&self.0, &range)
    }
}

/// The bytes of a range of the file, if they were fetched in one piece.
pub(super) fn slice(fetched: &[(u64, Bytes)], range: &Range<u64>) -> Option<Bytes> {
    fetched.iter().find_map(|(offset, bytes)| {
        let start = usize::try_from(range.start.checked_sub(*offset)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(*offset)?).ok()?;
        (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
    })
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.0.iter().map(|(offset, bytes)| offset + bytes.len() as u64).max().unwrap_or(0)
    }
}

impl ChunkReader for Fetched {
    type T = BytesReader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let from = |(offset, bytes): &(u64, Bytes)| {
            let skipped = usize::try_from(start.checked_sub(*offset)?).ok()?;
            (skipped <= bytes.len()).then(|| bytes.slice(skipped..))
        };
        let rest = self.0.iter().find_map(from);
        rest.map(Buf::reader).ok_or_else(|| not_fetched(start))
    }

    fn get_bytes(&self, start: u64, len: usize) -> ParquetResult<Bytes> {
        let range = start..start.saturating_add(len as u64);
        self.get(range).ok_or_else(|| not_fetched(start))
    }
}

fn not_fetched(start: u64) -> ParquetError {
    ParquetError::EOF(format!("what is at byte {start} was not read"))
}
