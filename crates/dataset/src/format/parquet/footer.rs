//! Footers as far as reads need them: which rows a row group has, and where in the file the columns lie
//! that are wanted.
//!
//! A footer is read once per file and kept for the run, and there may be a thousand files of a thousand
//! row groups of a hundred columns. So it is gone through field by field and only that is kept, relative
//! to where the row group begins: row groups, and files, that are laid out alike share one
//! [`Places`]. Nothing that a footer says is believed beyond what its bytes can hold. The schema, which
//! is small, becomes the one of the `parquet` crate, by which values are decoded.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedrate_workload::Dataset;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::CompressionCodec;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

use super::super::files::Undecodable;
use super::super::guard::guarded;
use super::MAGIC;
use super::column::{Column, FLOAT16_TYPE, describe};
use super::thrift::read::{BINARY, Kind, LIST, Malformed, Reader, STRUCT};
use super::thrift::{self, Struct};

/// Bytes that follow the footer: its length and the magic number.
const TAIL: u64 = 8;

/// The end of a file that is worth reading before the footer's length is known: most footers are in it.
pub const FOOTER_GUESS: u64 = 64 << 10;

/// Bytes that a footer can have, and more than any useful one has.
pub(super) const LARGEST_FOOTER: u64 = 1 << 30;

/// Groups in each other that a schema can have.
const DEEPEST_SCHEMA: usize = 64;

// Fields of `SchemaElement` of parquet.thrift.
const NAME: i64 = 4;
const CHILDREN: usize = 5;
const LOGICAL: i64 = 10;

/// Reads the footers of a set's files, which have much in common.
#[derive(Debug)]
pub struct Footers {
    /// The columns that are wanted; all if not given.
    wanted: Option<Vec<String>>,
    /// What `dataset.parquet.columns` says of the columns, if it does.
    configured: Vec<Column>,
    /// `dataset.num_samples_per_file`.
    rows: u64,
    shared: Mutex<Shared>,
}

/// What files have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) schemas: Vec<Arc<Schema>>,
    pub(super) places: HashSet<Arc<Places>>,
}

/// What of a file's footer reads need.
#[derive(Debug, Clone)]
pub struct Footer {
    pub(super) schema: Arc<Schema>,
    groups: Vec<Group>,
}

/// A row group that has rows.
#[derive(Debug, Clone)]
pub struct Group {
    /// The first of its rows, counted in the file.
    pub first_row: u64,
    /// How many rows it has.
    pub rows: u64,
    /// Where its first wanted column chunk begins.
    start: u64,
    places: Arc<Places>,
}

/// Where the wanted column chunks of a row group lie, from the beginning of the first of them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Places {
    /// In the order of the schema.
    pub(super) chunks: Box<[Place]>,
    /// All of them, ascending, those that touch as one.
    ranges: Box<[Range<u64>]>,
}

/// Where a column chunk lies, and what it takes to decode it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Where the pages of values begin, if a dictionary comes before them.
    pub(super) data: Option<u64>,
    /// Bytes before compression.
    pub(super) plain: u64,
    pub(super) values: u64,
    pub(super) codec: Codec,
}

/// Compression of a column chunk, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Codec(u8);

/// The columns of a file.
#[derive(Debug)]
pub(super) struct Schema {
    /// As [`canonical_schema`] writes it.
    canonical: Vec<u8>,
    /// For each value in a row of the file's schema, whether its column is wanted.
    wanted: Vec<bool>,
    /// The wanted columns.
    pub(super) read: SchemaDescPtr,
    /// Their types in Arrow.
    types: arrow_schema::Schema,
}

impl Codec {
    /// As the `parquet` crate knows it.
    pub(super) fn known(self) -> Option<CompressionCodec> {
        match self.0 {
            0 => Some(CompressionCodec::UNCOMPRESSED),
            1 => Some(CompressionCodec::SNAPPY),
            2 => Some(CompressionCodec::GZIP),
            5 => Some(CompressionCodec::LZ4),
            6 => Some(CompressionCodec::ZSTD),
            7 => Some(CompressionCodec::LZ4_RAW),
            _ => None,
        }
    }
}

impl Schema {
    /// The name of the column that a value of the read rows belongs to.
    pub(super) fn name(&self, leaf: usize) -> &str {
        self.read.get_column_root(leaf).name()
    }
}

impl Group {
    /// Its rows, counted in the file.
    pub fn samples(&self) -> Range<u64> {
        self.first_row..self.first_row + self.rows
    }

    /// The ranges of the file that hold the wanted columns, ascending: columns that touch are in one
    /// range, and nothing else is in any, so that the bytes of the ranges are those of the columns.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        let start = self.start;
        self.places.ranges.iter().map(move |range| start + range.start..start + range.end)
    }

    /// The wanted column chunks: where each begins in the file, and what else is known.
    pub(super) fn chunks(&self) -> impl ExactSizeIterator<Item = (u64, &Place)> {
        self.places.chunks.iter().map(|place| (self.start + place.start, place))
    }
}

impl Footer {
    /// The row groups that have rows, in order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}

impl Footers {
    /// Reads footers of `dataset` for `columns`, or for all.
    pub fn new(dataset: &Dataset, columns: Option<&[String]>) -> Self {
        Self {
            wanted: columns.map(<[_]>::to_vec),
            configured: super::columns(dataset),
            rows: dataset.num_samples_per_file,
            shared: Mutex::default(),
        }
    }

    /// How many bytes of the end of a file of `file_len` bytes [`parse`](Self::parse) needs, given the
    /// last 8 or more.
    pub fn needs(tail: &[u8], file_len: u64) -> Result<u64, Undecodable> {
        let magic = MAGIC.len() as u64;
        if file_len < magic + TAIL {
            let what = format!("it has {file_len} bytes, fewer than any Parquet file");
            return Err(Undecodable::file(what));
        }
        let Some((rest, last)) = tail.split_last_chunk::<4>() else {
            return Err(Undecodable::file("of its end fewer than 8 bytes were read"));
        };
        if last == b"PARE" {
            return Err(Undecodable::file("it is encrypted, which is not supported"));
        }
        if last != MAGIC {
            return Err(Undecodable::file(
                "it does not end with PAR1: it is no Parquet file, or is cut off",
            ));
        }
        let Some(len) = rest.last_chunk() else {
            return Err(Undecodable::file("of its end fewer than 8 bytes were read"));
        };
        let len = u64::from(u32::from_le_bytes(*len));
        if len > LARGEST_FOOTER || len + TAIL + magic > file_len {
            return Err(Undecodable::file(format!(
                "its footer is said to have {len} bytes, but the file has {file_len}: it is damaged",
            )));
        }
        Ok(len + TAIL)
    }

    /// The footer of a file of `file_len` bytes, given its last bytes, as many as
    /// [`needs`](Self::needs) says or more.
    ///
    /// # Errors
    /// Also if the file lacks a wanted column or has it of another type than
    /// `dataset.parquet.columns` says, or has another number of rows than
    /// `dataset.num_samples_per_file`.
    pub fn parse(&self, end: &[u8], file_len: u64) -> Result<Footer, Undecodable> {
        let needed = Self::needs(end, file_len)?;
        let missing = || Undecodable::file("of its footer only a part was read");
        let skipped = (end.len() as u64).checked_sub(needed).ok_or_else(missing)?;
        let bytes = &end[skipped as usize..end.len() - TAIL as usize];
        let mut parser = Parser {
            footers: self,
            bytes,
            before: file_len - needed,
            schema: None,
            rows: None,
            groups: Vec::new(),
            next_row: 0,
            ordinal: 0,
        };
        parser.parse()?;
        self.finish(parser)
    }

    fn finish(&self, parser: Parser<'_>) -> Result<Footer, Undecodable> {
        let Parser { schema, rows, groups, next_row, .. } = parser;
        let schema = schema.ok_or_else(|| Undecodable::file("its footer has no schema"))?;
        if rows != Some(next_row) {
            return Err(Undecodable::file(format!(
                "its footer is damaged: the row groups have {next_row} rows, but the file {}",
                rows.map_or("no number of them".to_owned(), |rows| rows.to_string())
            )));
        }
        if next_row != self.rows {
            return Err(Undecodable::file(format!(
                "it stores {next_row} samples, but dataset.num_samples_per_file is {}: generate the data \
                 anew, or set the key to what is stored",
                self.rows
            )));
        }
        let footer = Footer { schema, groups };
        self.check_types(&footer)?;
        Ok(footer)
    }

    /// Compares the wanted columns with what `dataset.parquet.columns` says of them.
    fn check_types(&self, footer: &Footer) -> Result<(), Undecodable> {
        let schema = &footer.schema;
        for column in &self.configured {
            let Ok(field) = schema.types.field_with_name(&column.name) else { continue };
            let mut leaves = 0..schema.read.num_columns();
            let leaf = leaves.find(|&leaf| schema.name(leaf) == column.name);
            let count = leaf.and_then(|leaf| count(leaf, &footer.groups));
            let found = describe(field.data_type(), count);
            let wanted = column.values.to_string();
            if found != wanted {
                return Err(Undecodable::file(format!(
                    "Parquet of another schema: the column {:?} is {found}, but {wanted} in \
                     dataset.parquet.columns",
                    column.name
                )));
            }
        }
        Ok(())
    }

    /// The schema that was found, and what of it is wanted.
    fn schema(&self, canonical: Vec<u8>) -> Result<Arc<Schema>, Undecodable> {
        let known = |schema: &&Arc<Schema>| schema.canonical == canonical;
        if let Some(known) = self.shared().schemas.iter().find(known) {
            return Ok(Arc::clone(known));
        }
        let all = guarded(|| ParquetMetaDataReader::decode_schema(&canonical))?;
        let fields = all.root_schema().get_fields();
        let is_wanted = |name: &str| match &self.wanted {
            Some(wanted) => wanted.iter().any(|wanted| wanted == name),
            None => true,
        };
        let named = self.wanted.as_deref().unwrap_or_default().iter().map(String::as_str);
        let configured = self.configured.iter().map(|column| column.name.as_str());
        let expected = configured.filter(|name| is_wanted(name));
        for name in named.chain(expected) {
            if !fields.iter().any(|field| field.name() == name) {
                return Err(Undecodable::file(format!(
                    "Parquet of another schema: it has no column {name:?}, but {}",
                    names(fields.iter().map(|field| field.name()))
                )));
            }
        }
        let read = fields.iter().filter(|field| is_wanted(field.name())).cloned().collect();
        let (read, types) = guarded(|| {
            let root = Type::group_type_builder("schema").with_fields(read).build()?;
            let read = SchemaDescriptor::new(Arc::new(root));
            let types = parquet_to_arrow_schema(&read, None)?;
            Ok::<_, parquet::errors::ParquetError>((Arc::new(read), types))
        })?;
        let wanted = (0..all.num_columns()).map(|leaf| is_wanted(all.get_column_root(leaf).name()));
        let wanted = wanted.collect();
        let schema = Arc::new(Schema { canonical, wanted, read, types });
        self.shared().schemas.push(Arc::clone(&schema));
        Ok(schema)
    }

    /// The one [`Places`] of all that are alike.
    fn share(&self, places: Places) -> Arc<Places> {
        let mut shared = self.shared();
        if let Some(known) = shared.places.get(&places) {
            return Arc::clone(known);
        }
        let places = Arc::new(places);
        shared.places.insert(Arc::clone(&places));
        places
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        // What it holds is complete at any time.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Values of a row, if all rows have the same number.
fn count(leaf: usize, groups: &[Group]) -> Option<u64> {
    let values = |group: &Group| {
        let values = group.places.chunks.get(leaf)?.values;
        values.is_multiple_of(group.rows).then_some(values / group.rows)
    };
    let first = values(groups.first()?)?;
    groups.iter().all(|group| values(group) == Some(first)).then_some(first)
}

/// The first of some names, and how many more there are.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 10;
    let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A footer that is being gone through.
struct Parser<'a> {
    footers: &'a Footers,
    bytes: &'a [u8],
    /// Bytes of the file before the footer.
    before: u64,
    schema: Option<Arc<Schema>>,
    /// Rows of the file.
    rows: Option<u64>,
    groups: Vec<Group>,
    /// Rows of the row groups so far.
    next_row: u64,
    /// Row groups so far, those without rows too.
    ordinal: u64,
}

impl From<Malformed> for Undecodable {
    fn from(malformed: Malformed) -> Self {
        Self::file(format!("its footer is damaged: {malformed}"))
    }
}

/// What a row group says.
#[derive(Default)]
struct Found {
    chunks: Vec<Place>,
    columns: usize,
    rows: Option<u64>,
}

impl Parser<'_> {
    /// `FileMetaData` of parquet.thrift.
    fn parse(&mut self) -> Result<(), Undecodable> {
        Reader::new(self.bytes).fields(|number, kind, reader| {
            match number {
                2 => self.schema = Some(self.footers.schema(canonical_schema(kind, reader)?)?),
                3 => self.rows = Some(unsigned(kind, reader, "rows")?),
                4 => {
                    let no_schema = || Undecodable::file("its footer has no schema");
                    let schema = self.schema.clone().ok_or_else(no_schema)?;
                    is(kind, LIST)?;
                    reader.list(STRUCT, |_, reader| self.group(&schema, reader))?;
                }
                8 => return Err(Undecodable::file("it is encrypted, which is not supported")),
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    /// `RowGroup`.
    fn group(&mut self, schema: &Schema, reader: &mut Reader<'_>) -> Result<(), Undecodable> {
        let mut found = Found::default();
        reader.fields(|number, kind, reader| {
            match number {
                1 => {
                    is(kind, LIST)?;
                    reader.list(STRUCT, |index, reader| {
                        found.columns = index + 1;
                        if !schema.wanted.get(index).copied().unwrap_or(false) {
                            return Ok(reader.fields(|_, _, _| Ok::<_, Malformed>(false))?);
                        }
                        found.chunks.push(self.chunk(reader)?);
                        Ok::<_, Undecodable>(())
                    })?;
                }
                3 => found.rows = Some(unsigned(kind, reader, "rows")?),
                _ => return Ok(false),
            }
            Ok::<_, Undecodable>(true)
        })?;
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let wrong = |what| Undecodable::file(format!("row group {ordinal}: {what}"));
        if found.columns != schema.wanted.len() {
            let (columns, schema) = (found.columns, schema.wanted.len());
            return Err(wrong(format!("it has {columns} columns, but the schema {schema}")));
        }
        let rows = found.rows.ok_or_else(|| wrong("it has no number of rows".to_owned()))?;
        let first_row = self.next_row;
        self.next_row =
            first_row.checked_add(rows).ok_or_else(|| wrong("it has too many rows".to_owned()))?;
        if rows > 0 {
            let (start, places) = places(found.chunks);
            let places = self.footers.share(places);
            self.groups.push(Group { first_row, rows, start, places });
        }
        Ok(())
    }

    /// `ColumnChunk`; its place is in the file.
    fn chunk(&self, reader: &mut Reader<'_>) -> Result<Place, Undecodable> {
        let ordinal = self.ordinal;
        let wrong = |what: &str| Undecodable::file(format!("row group {ordinal}: {what}"));
        let [mut values, mut plain, mut len, mut data, mut dictionary] = [None; 5];
        let mut codec = None;
        reader.fields(|number, kind, reader| {
            match number {
                1 => return Err(wrong("a column is in another file, which is not supported")),
                3 => {
                    is(kind, STRUCT)?;
                    // `ColumnMetaData`.
                    reader.fields(|number, kind, reader| {
                        let field = match number {
                            4 => &mut codec,
                            5 => &mut values,
                            6 => &mut plain,
                            7 => &mut len,
                            9 => &mut data,
                            11 => &mut dictionary,
                            _ => return Ok(false),
                        };
                        *field = Some(unsigned(kind, reader, "bytes or values of a column")?);
                        Ok::<_, Undecodable>(true)
                    })?;
                }
                8 | 9 => return Err(wrong("a column is encrypted, which is not supported")),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let (Some(values), Some(plain), Some(len), Some(data), Some(codec)) =
            (values, plain, len, data, codec)
        else {
            return Err(wrong("a column does not say where it is"));
        };
        // Some writers give no dictionary the offset 0.
        let start = match dictionary {
            Some(dictionary) if dictionary > 0 && dictionary < data => dictionary,
            _ => data,
        };
        let inside = start >= MAGIC.len() as u64
            && start.checked_add(len).is_some_and(|end| end <= self.before)
            && data - start <= len;
        let codec = u8::try_from(codec).map_err(|_| wrong("a compression does not exist"))?;
        if !inside {
            return Err(Undecodable::file(format!(
                "row group {ordinal}: a column is said to be at bytes {start} to {}, but columns end at \
                 {}: the file is damaged or cut off",
                start.saturating_add(len),
                self.before
            )));
        }
        let data = (data > start).then_some(data - start);
        Ok(Place { start, len, data, plain, values, codec: Codec(codec) })
    }
}

/// Brings column chunks, which may lie in any order, below each other, and tells where they begin.
fn places(mut chunks: Vec<Place>) -> (u64, Places) {
    let start = chunks.iter().map(|chunk| chunk.start).min().unwrap_or(0);
    for chunk in &mut chunks {
        chunk.start -= start;
    }
    let mut sorted: Vec<_> =
        chunks.iter().map(|chunk| chunk.start..chunk.start + chunk.len).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in sorted.into_iter().filter(|range| !range.is_empty()) {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    (start, Places { chunks: chunks.into(), ranges: ranges.into() })
}

/// Writes the schema anew, as the `parquet` crate decodes it, with what tells how values are stored.
///
/// That crate believes what elements say of their children, and reads fields by their numbers whatever
/// types they are said to have, so it gets to see only what was understood here.
fn canonical_schema(kind: Kind, reader: &mut Reader<'_>) -> Result<Vec<u8>, Undecodable> {
    let wrong = || Undecodable::file("its footer is damaged: its schema is no tree");
    is(kind, LIST)?;
    // How many children of each group are still to come, from the root down.
    let mut open: Vec<u64> = vec![1];
    let mut elements = Vec::new();
    let mut count = 0;
    reader.list(STRUCT, |index, reader| {
        count = index + 1;
        let mut numbers = [None; LOGICAL as usize];
        let mut name = None;
        let mut half = false;
        reader.fields(|number, kind, reader| {
            match number {
                NAME => {
                    is(kind, BINARY)?;
                    name = Some(reader.binary()?);
                }
                1..=9 => numbers[number as usize] = Some(reader.number_of(kind)?),
                LOGICAL => {
                    is(kind, STRUCT)?;
                    reader.fields(|number, _, _| {
                        half |= number == i64::from(FLOAT16_TYPE);
                        Ok::<_, Malformed>(false)
                    })?;
                }
                _ => return Ok(false),
            }
            Ok::<_, Malformed>(true)
        })?;
        let name = name.filter(|name| str::from_utf8(name).is_ok()).ok_or_else(wrong)?;
        let children = u64::try_from(numbers[CHILDREN].unwrap_or(0)).map_err(|_| wrong())?;
        while open.last() == Some(&0) {
            open.pop();
        }
        *open.last_mut().ok_or_else(wrong)? -= 1;
        if children > 0 {
            open.push(children);
        }
        if open.len() > DEEPEST_SCHEMA {
            return Err(Undecodable::file("its schema is too deep"));
        }
        let mut element = Struct::new(&mut elements);
        for number in 1..=9 {
            if i64::from(number) == NAME {
                element = element.binary(number, name);
            } else if let Some(value) = numbers[usize::from(number)] {
                element = element.i32(number, i32::try_from(value).map_err(|_| wrong())?);
            }
        }
        if half {
            element = element
                .nested(LOGICAL as u8, |logical| logical.nested(FLOAT16_TYPE, |empty| empty));
        }
        element.end();
        Ok(())
    })?;
    if open.iter().any(|&children| children > 0) {
        return Err(wrong());
    }
    let mut schema = Vec::with_capacity(elements.len() + 16);
    Struct::new(&mut schema)
        .list(2, thrift::Type::Struct, count, |out| out.append(&mut elements))
        .end();
    Ok(schema)
}

fn is(kind: Kind, expected: Kind) -> Result<(), Malformed> {
    if kind == expected { Ok(()) } else { Err(Malformed::Type) }
}

/// A number that must not be negative.
fn unsigned(kind: Kind, reader: &mut Reader<'_>, of: &str) -> Result<u64, Undecodable> {
    let number = reader.number_of(kind)?;
    u64::try_from(number)
        .map_err(|_| Undecodable::file(format!("its footer is damaged: it has {number} {of}")))
}
