use std::collections::HashSet;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use feedrate_workload::{ColumnType, Compression, Dataset, Format, ParquetColumn, Split};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;
use proptest::prelude::*;

use super::super::out::Later;
use super::*;
use crate::testing::dataset;

const TYPES: [ColumnType; 15] = [
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Float16,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Uint8,
    ColumnType::Uint16,
    ColumnType::Uint32,
    ColumnType::Uint64,
    ColumnType::List,
    ColumnType::String,
    ColumnType::Binary,
    ColumnType::Bool,
];

const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Snappy,
    Compression::Zstd,
    Compression::Gzip,
    Compression::Lz4,
];

/// A set of files of `rows` rows of these columns, in row groups of 100.
fn set(rows: u64, columns: &[(&str, ColumnType, u64)]) -> Dataset {
    let column = |&(name, dtype, size): &(&str, _, _)| {
        let name = name.to_owned();
        ParquetColumn { name, dtype, size }
    };
    let parquet = workload::Parquet {
        columns: columns.iter().map(column).collect(),
        row_group_size: 100,
        partition_by: None,
        generation_batch_size: 0,
    };
    Dataset { num_samples_per_file: rows, parquet, ..dataset(Format::Parquet, 10, 1000.0) }
}

fn mixed(rows: u64) -> Dataset {
    let columns = [
        ("a", ColumnType::Float32, 7),
        ("b", ColumnType::Int8, 1),
        ("c", ColumnType::Uint8, 50),
        ("d", ColumnType::Float64, 1),
        ("e", ColumnType::Int16, 3),
    ];
    set(rows, &columns)
}

fn parquet(set: &Dataset) -> Parquet {
    let [sizes, _] = Sizes::both(set);
    let content = Content::of(set, Split::Train);
    Parquet::new(Ingredients { dataset: set, content, sizes }).expect("the set can be made")
}

fn made(parquet: &Parquet, file: u64) -> Bytes {
    let mut bytes = Vec::new();
    assert_eq!(parquet.write(file, 0..1, &mut bytes), Ok(()));
    bytes.into()
}

/// Reads a file with the `parquet` crate; also the rows of its row groups.
fn read(bytes: &Bytes) -> (Vec<RecordBatch>, Vec<i64>) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("it is Parquet");
    let groups = reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    let batches = reader.with_batch_size(1 << 20).build().expect("it can be read");
    (batches.map(|batch| batch.expect("it can be decoded")).collect(), groups)
}

fn footer(footers: &Footers, bytes: &[u8]) -> Result<Footer, Undecodable> {
    footers.parse(bytes, bytes.len() as u64)
}

/// What a reader fetches of a row group.
fn fetch(group: &Group, bytes: &Bytes) -> Vec<(u64, Bytes)> {
    let range = |range: Range<u64>| {
        let part = bytes.slice(range.start as usize..range.end as usize);
        (range.start, part)
    };
    group.ranges().map(range).collect()
}

fn error<T: fmt::Debug>(outcome: Result<T, Undecodable>) -> String {
    outcome.expect_err("it must be refused").to_string()
}

#[test]
fn every_type_is_read_back_by_another_reader() {
    for dtype in TYPES {
        for size in [1, 2, 7, 31, 32, 409] {
            let set = Dataset { seed: size, ..set(250, &[("x", dtype, size)]) };
            let parquet = parquet(&set);
            let bytes = made(&parquet, 3);
            let (batches, groups) = read(&bytes);
            assert_eq!(groups, [100, 100, 50]);
            let told = parquet.length(3);
            if dtype == ColumnType::String {
                assert_eq!(told.exact(), None);
            } else {
                assert_eq!(told, Length::Exact(bytes.len() as u64), "{dtype:?} of {size}");
            }
            let column = Column::of(&set.parquet.columns[0], 0);
            let mut rows = 0;
            for batch in &batches {
                let values = batch.column(0);
                assert_eq!(*values.data_type(), column.values.data_type());
                assert_eq!(values.null_count(), 0);
                rows += values.len();
                check_values(values, size as usize);
            }
            assert_eq!(rows, 250);
            assert_eq!(parquet.decode(3, 0..250, &bytes), Ok(()), "{dtype:?} of {size}");
        }
    }
}

/// Floats are finite, bytes as many and texts as the original has them.
fn check_values(values: &dyn Array, size: usize) {
    match values.data_type() {
        DataType::FixedSizeList(_, count) => {
            assert_eq!(*count as usize, size);
            let list = values.as_fixed_size_list();
            assert_eq!(list.values().len(), list.len() * size);
            assert_eq!(list.values().null_count(), 0);
            check_values(list.values(), size);
        }
        DataType::Float16 => {
            let values = values.as_primitive::<Float16Type>().values();
            assert!(values.iter().all(|value| value.is_finite()));
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>().values();
            assert!(values.iter().all(|value| value.is_finite()));
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().values();
            assert!(values.iter().all(|value| value.is_finite()));
        }
        DataType::Utf8 => {
            for text in values.as_string::<i32>().iter().flatten() {
                let number: u32 = text.strip_prefix("s_").unwrap().parse().unwrap();
                assert!(number < 1 << 31);
            }
        }
        DataType::Binary => {
            assert!(values.as_binary::<i32>().iter().flatten().all(|bytes| bytes.len() == size));
        }
        DataType::Boolean => {
            let set = values.as_boolean().true_count();
            assert!((20..80).contains(&(100 * set / values.len())), "{set} of {}", values.len());
        }
        _ => {}
    }
}

#[test]
fn compressed_files_hold_the_same_values() {
    let columns: Vec<_> = TYPES.iter().map(|&dtype| (format!("{dtype:?}"), dtype)).collect();
    let columns: Vec<_> = columns.iter().map(|(name, dtype)| (name.as_str(), *dtype, 9)).collect();
    let plain = set(1300, &columns);
    let (expected, _) = read(&made(&parquet(&plain), 1));
    for compression in COMPRESSIONS {
        let set = Dataset { compression, compression_level: 3, ..plain.clone() };
        let parquet = parquet(&set);
        let bytes = made(&parquet, 1);
        assert_eq!(read(&bytes).0, expected, "{compression:?}");
        let Length::About(about) = parquet.length(1) else { panic!("there are texts") };
        let part = bytes.len() as f64 / about as f64;
        assert!((0.8..1.1).contains(&part), "{compression:?}: {part} of what was said");
        assert_eq!(parquet.decode(1, 0..1300, &bytes), Ok(()), "{compression:?}");
        let footer = footer(&Footers::new(&set, None), &bytes).unwrap();
        for (index, group) in footer.groups().iter().enumerate() {
            let fetched = fetch(group, &bytes);
            assert_eq!(parquet.verify(1, &footer, index, &fetched), Ok(()), "{compression:?}");
        }
    }
}

#[test]
fn compression_makes_what_can_be_compressed_smaller() {
    let set = Dataset { compressibility: 4.0, ..set(1000, &[("x", ColumnType::Float32, 500)]) };
    let plain = made(&parquet(&set), 0).len();
    for compression in &COMPRESSIONS[1..] {
        let set = Dataset { compression: *compression, compression_level: 3, ..set.clone() };
        let packed = made(&parquet(&set), 0).len();
        assert!(packed < plain / 3, "{compression:?}: {packed} of {plain}");
    }
}

#[test]
fn without_columns_a_row_is_a_list_of_bytes() {
    // 388 x 388; several rows of such a file are a page.
    let set = Dataset { num_samples_per_file: 30, ..dataset(Format::Parquet, 2, 150_544.0) };
    let parquet = parquet(&set);
    let bytes = made(&parquet, 1);
    let (batches, groups) = read(&bytes);
    assert_eq!(groups, [30]);
    assert_eq!(batches[0].schema().field(0).name(), "data");
    let list = batches[0].column(0).as_fixed_size_list();
    assert_eq!(list.value_length(), 388 * 388);
    assert_eq!(list.value_type(), DataType::UInt8);
    // One byte a value: the rest is dictionary, levels and footer.
    let extra = bytes.len() - 30 * 388 * 388;
    assert!((1024..6000).contains(&extra), "{extra}");
    let mut content = vec![0; 30 * 388 * 388];
    Content::of(&set, Split::Train).stream(1, 0).fill(&mut content);
    let values = list.values().as_primitive::<arrow_array::types::UInt8Type>();
    assert_eq!(values.values().as_ref(), content);
}

#[test]
fn drawn_sizes_are_those_of_each_file() {
    let set =
        Dataset { record_length_bytes_stdev: 16_384.0, ..dataset(Format::Parquet, 4, 65_536.0) };
    let parquet = parquet(&set);
    for (file, pixels) in [(0, 298 * 278), (1, 206 * 255)] {
        let bytes = made(&parquet, file);
        assert_eq!(parquet.length(file), Length::Exact(bytes.len() as u64));
        let (batches, _) = read(&bytes);
        assert_eq!(batches[0].column(0).as_fixed_size_list().value_length(), pixels);
    }
}

#[test]
fn row_groups_begin_with_batches() {
    let mut set = mixed(2500);
    set.parquet.row_group_size = 1000;
    set.parquet.generation_batch_size = 1200;
    let parquet = parquet(&set);
    let bytes = made(&parquet, 0);
    assert_eq!(read(&bytes).1, [1000, 200, 1000, 200, 100]);
    assert_eq!(parquet.cut(), Cut::Groups([0, 1000, 1200, 2200, 2400].into()));
    let footer = footer(&Footers::new(&set, None), &bytes).unwrap();
    let rows: Vec<_> = footer.groups().iter().map(Group::samples).collect();
    assert_eq!(rows, [0..1000, 1000..1200, 1200..2200, 2200..2400, 2400..2500]);
}

#[test]
fn a_file_ends_with_a_footer_that_names_its_program_and_types() {
    let bytes = made(&parquet(&mixed(10)), 0);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let file = reader.metadata().file_metadata();
    let version = concat!("feedrate version ", env!("CARGO_PKG_VERSION"));
    assert_eq!((file.version(), file.created_by()), (2, Some(version)));
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, file.schema());
    let text = String::from_utf8(text).unwrap();
    for line in [
        "OPTIONAL group a (LIST) {",
        "REPEATED group list {",
        "OPTIONAL FLOAT element;",
        "OPTIONAL INT32 b (INTEGER(8,true));",
        "OPTIONAL INT32 element (INTEGER(8,false));",
        "OPTIONAL INT32 element (INTEGER(16,true));",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn the_column_of_partitions_is_in_no_file_and_changes_no_other() {
    let whole = mixed(100);
    let mut parted = whole.clone();
    parted.parquet.partition_by = Some("b".to_owned());
    let [whole_bytes, parted_bytes] = [&whole, &parted].map(|set| made(&parquet(set), 0));
    let (expected, found) = (&read(&whole_bytes).0[0], &read(&parted_bytes).0[0]);
    assert_eq!(found.num_columns(), 4);
    for name in ["a", "c", "d", "e"] {
        assert_eq!(found.column_by_name(name), expected.column_by_name(name));
    }
    assert!(footer(&Footers::new(&parted, None), &parted_bytes).is_ok());
}

#[test]
fn no_block_of_4_kib_occurs_twice_but_in_footers() {
    let mut columns = vec![("words", ColumnType::String, 1), ("bits", ColumnType::Bool, 1)];
    columns.push(("few", ColumnType::Float32, 2));
    columns.push(("many", ColumnType::Float32, 40));
    columns.push(("bytes", ColumnType::Int8, 1));
    columns.push(("wide", ColumnType::Int16, 1));
    for compression in [Compression::None, Compression::Snappy] {
        let mut set = Dataset { compression, ..set(40_000, &columns) };
        set.parquet.row_group_size = 40_000;
        let parquet = parquet(&set);
        let mut seen = HashSet::new();
        for file in 0..5 {
            let bytes = made(&parquet, file);
            let footer = Footers::needs(&bytes, bytes.len() as u64).unwrap() as usize;
            for block in bytes[..bytes.len() - footer].chunks_exact(4096) {
                assert!(seen.insert(block.to_vec()), "file {file}, {compression:?}");
            }
        }
    }
}

/// Takes what is written and remembers the largest piece.
#[derive(Default)]
struct Largest {
    bytes: u64,
    piece: usize,
    /// Bytes until nobody wants more.
    wanted: u64,
}

impl Out for Largest {
    fn framing(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.bytes += bytes.len() as u64;
        self.piece = self.piece.max(bytes.len());
        if self.bytes < self.wanted { Ok(()) } else { Err(Stopped) }
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Stopped> {
        self.framing(bytes)
    }

    fn later(&mut self, _: usize) -> Result<Later, Stopped> {
        Err(Stopped)
    }

    fn fill_in(&mut self, _: Later, _: &[u8]) {}
}

#[test]
fn what_is_written_leaves_at_once_and_a_writer_stops_when_told() {
    let mut set = set(100_000, &[("x", ColumnType::Float32, 100), ("y", ColumnType::String, 1)]);
    set.parquet.row_group_size = 100_000;
    for (compression, largest) in [(Compression::None, 2 << 20), (Compression::Lz4, 2 << 20)] {
        let parquet = parquet(&Dataset { compression, ..set.clone() });
        let mut out = Largest { wanted: u64::MAX, ..Largest::default() };
        assert_eq!(parquet.write(0, 0..1, &mut out), Ok(()));
        assert!(out.bytes > 38 << 20);
        assert!(out.piece < largest, "{compression:?}: {}", out.piece);
        let mut out = Largest { wanted: 10 << 20, ..Largest::default() };
        assert_eq!(parquet.write(0, 0..1, &mut out), Err(Stopped));
        assert!(out.bytes < 13 << 20, "{compression:?}: {}", out.bytes);
    }
}

#[test]
fn a_million_column_chunks_are_counted_and_refused_where_no_footer_lists_them() {
    let columns: Vec<_> = (0..200).map(|index| format!("feature_{index:03}")).collect();
    let columns: Vec<_> =
        columns.iter().map(|name| (name.as_str(), ColumnType::Float32, 1)).collect();
    let mut set = set(4_718_592, &columns);
    set.parquet.row_group_size = 6144;
    let length = parquet(&set).length(0).exact().unwrap();
    let values = 4_718_592 * 200 * 4;
    let framing = length - values;
    // Two headers and a description of each of 768 x 200 column chunks.
    assert!((10 << 20..25 << 20).contains(&framing), "{framing}");
    set.parquet.row_group_size = 1;
    let [sizes, _] = Sizes::both(&set);
    let content = Content::of(&set, Split::Train);
    let refused = Parquet::new(Ingredients { dataset: &set, content, sizes });
    let Err(FormatError::Unfit { key, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(key, "dataset.parquet.row_group_size");
}

#[test]
fn values_that_fit_into_no_page_are_refused() {
    for (dtype, size) in [
        (ColumnType::Float64, 1 << 28),
        (ColumnType::Uint8, 1 << 31),
        (ColumnType::Binary, u64::MAX),
        (ColumnType::List, u64::MAX),
    ] {
        let set = set(1, &[("x", dtype, size)]);
        let [sizes, _] = Sizes::both(&set);
        let content = Content::of(&set, Split::Train);
        let refused = Parquet::new(Ingredients { dataset: &set, content, sizes });
        assert!(matches!(refused, Err(FormatError::Unfit { .. })), "{dtype:?} of {size}");
    }
}

#[test]
fn the_wanted_columns_are_fetched_in_few_ranges_and_nothing_else() {
    let set = mixed(250);
    let bytes = made(&parquet(&set), 0);
    let wanted = |names: &[&str]| -> Vec<_> { names.iter().map(|&name| name.to_owned()).collect() };
    let ranges = |names: Option<Vec<String>>| {
        let footer = footer(&Footers::new(&set, names.as_deref()), &bytes).unwrap();
        footer.groups().iter().map(|group| group.ranges().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let all = ranges(None);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!((all[0][0].start, all[0][0].end), (4, all[1][0].start));
    let some = ranges(Some(wanted(&["e", "a", "b"])));
    for (some, all) in some.iter().zip(&all) {
        assert_eq!(some.len(), 2);
        assert_eq!((some[0].start, some[1].end), (all[0].start, all[0].end));
        assert!(some[0].end < some[1].start);
    }
}

#[test]
fn footers_share_what_is_alike() {
    let set = mixed(500);
    let footers = Footers::new(&set, Some(&["b".to_owned(), "d".to_owned()]));
    let files: Vec<_> =
        (0..3).map(|file| footer(&footers, &made(&parquet(&set), file)).unwrap()).collect();
    let shared = footers.shared();
    assert_eq!((shared.schemas.len(), shared.places.len()), (1, 1));
    assert!(files.iter().all(|file| Arc::ptr_eq(&file.schema, &shared.schemas[0])));
}

#[test]
fn columns_decode_from_what_was_fetched_of_them() {
    for compression in COMPRESSIONS {
        let set = Dataset { compression, compression_level: 1, ..mixed(250) };
        let parquet = parquet(&set);
        let bytes = made(&parquet, 4);
        let columns = ["b", "c", "e"].map(str::to_owned);
        let footer = footer(&Footers::new(&set, Some(&columns)), &bytes).unwrap();
        for (index, group) in footer.groups().iter().enumerate() {
            let fetched = fetch(group, &bytes);
            assert_eq!(footer.decode(index, &fetched), Ok(()));
            assert_eq!(parquet.verify(4, &footer, index, &fetched), Ok(()));
            let cut: Vec<_> = fetched
                .iter()
                .map(|(offset, bytes)| (*offset, bytes.slice(..bytes.len() - 1)))
                .collect();
            let error = error(footer.decode(index, &cut));
            assert!(error.starts_with(&format!("row group {index}, column")), "{error}");
            assert!(parquet.verify(4, &footer, index, &cut).is_err());
        }
    }
}

#[test]
fn a_flipped_bit_is_found_with_its_column_and_sample() {
    for compression in [Compression::None, Compression::Zstd] {
        let set = Dataset { compression, compression_level: 1, ..mixed(250) };
        let parquet = parquet(&set);
        let good = made(&parquet, 4);
        let footer = footer(&Footers::new(&set, None), &good).unwrap();
        let group = &footer.groups()[1];
        for (leaf, (start, place)) in group.chunks().enumerate() {
            for at in [0, 1, 30, place.len / 2, place.len - 1] {
                let offset = start + at;
                let mut bad = good.to_vec();
                bad[offset as usize] ^= 4;
                let bad = Bytes::from(bad);
                let found = parquet.verify(4, &footer, 1, &fetch(group, &bad));
                let Err(ColumnMismatch::Content { column, offset: told, sample }) = found else {
                    panic!("{found:?}")
                };
                assert_eq!((column.as_str(), told), (["a", "b", "c", "d", "e"][leaf], offset));
                assert!((100..200).contains(&sample), "{sample}");
                if compression == Compression::None && at + 1 == place.len {
                    // Indices of bytes are filled up to whole groups of 8.
                    assert!(sample >= 199 || column == "c", "{column}: {sample}");
                    assert!(parquet.sample_at(4, offset) == Some(sample) || column == "c");
                }
            }
        }
        assert_eq!(parquet.sample_at(4, 0), None);
        assert_eq!(parquet.sample_at(4, good.len() as u64 - 1), None);
    }
}

#[test]
fn samples_are_told_by_where_their_values_are() {
    let set = set(250, &[("a", ColumnType::Float32, 40), ("b", ColumnType::Binary, 10)]);
    let parquet = parquet(&set);
    let bytes = made(&parquet, 0);
    let (batches, _) = read(&bytes);
    let mut row = 0;
    for batch in &batches {
        let lists = batch.column(0).as_fixed_size_list();
        let texts = batch.column(1).as_binary::<i32>();
        for index in 0..batch.num_rows() {
            let list = lists.value(index);
            let floats = list.as_primitive::<Float32Type>().values();
            let floats: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
            for value in [&floats, texts.value(index)] {
                let at = bytes.windows(value.len()).position(|window| window == value).unwrap();
                for inside in [0, value.len() - 1] {
                    let found = parquet.sample_at(0, (at + inside) as u64);
                    assert_eq!(found, Some(row));
                }
            }
            row += 1;
        }
    }
    assert_eq!(row, 250);
}

#[test]
fn another_file_or_cut_is_told_apart_from_damage() {
    let set = mixed(250);
    let parquet = parquet(&set);
    let footers = Footers::new(&set, None);
    let other = made(&parquet, 5);
    let parsed = footer(&footers, &other).unwrap();
    let fetched = fetch(&parsed.groups()[0], &other);
    let found = parquet.verify(4, &parsed, 0, &fetched);
    assert!(matches!(found, Err(ColumnMismatch::Unrelated { file: 4, .. })), "{found:?}");
    let mut cut = set.clone();
    cut.parquet.row_group_size = 50;
    let bytes = made(&self::parquet(&cut), 4);
    let parsed = footer(&footers, &bytes).unwrap();
    let found = parquet.verify(4, &parsed, 0, &fetch(&parsed.groups()[0], &bytes));
    assert!(matches!(found, Err(ColumnMismatch::Foreign { group: 0, .. })), "{found:?}");
}

#[test]
fn a_set_of_another_schema_is_refused_by_column() {
    let stored = mixed(50);
    let bytes = made(&parquet(&stored), 0);
    let refused = |column: (&str, ColumnType, u64)| {
        let mut set = stored.clone();
        let (name, dtype, size) = column;
        let place = set.parquet.columns.iter_mut().find(|column| column.name == name).unwrap();
        *place = ParquetColumn { name: name.to_owned(), dtype, size };
        error(footer(&Footers::new(&set, None), &bytes))
    };
    for (column, found, wanted) in [
        (("a", ColumnType::Float32, 8), "a list of 7 float32", "a list of 8 float32"),
        (("a", ColumnType::Float64, 7), "a list of 7 float32", "a list of 7 float64"),
        (("a", ColumnType::Float32, 1), "a list of 7 float32", "float32"),
        (("b", ColumnType::Uint8, 1), "int8", "uint8"),
        (("c", ColumnType::Binary, 50), "a list of 50 uint8", "binary"),
        (("d", ColumnType::String, 1), "float64", "string"),
        (("e", ColumnType::Bool, 1), "a list of 3 int16", "bool"),
    ] {
        assert_eq!(
            refused(column),
            format!(
                "Parquet of another schema: the column {:?} is {found}, but {wanted} in \
                 dataset.parquet.columns",
                column.0
            )
        );
    }
    // Only what is read is compared.
    let mut other = stored.clone();
    other.parquet.columns[0].size = 9;
    assert!(footer(&Footers::new(&other, Some(&["d".to_owned()])), &bytes).is_ok());

    let lacks = |set: &Dataset, columns: Option<&[String]>| {
        error(footer(&Footers::new(set, columns), &bytes))
    };
    let text =
        "Parquet of another schema: it has no column \"z\", but \"a\", \"b\", \"c\", \"d\", \"e\"";
    assert_eq!(lacks(&stored, Some(&["a".to_owned(), "z".to_owned()])), text);
    let mut more = stored.clone();
    more.parquet.columns[4].name = "z".to_owned();
    assert_eq!(lacks(&more, None), text);
    // Without a description any columns will do.
    let plain = Dataset { num_samples_per_file: 50, ..dataset(Format::Parquet, 1, 100.0) };
    assert!(footer(&Footers::new(&plain, None), &bytes).is_ok());
}

#[test]
fn a_file_of_another_number_of_samples_is_refused() {
    let bytes = made(&parquet(&mixed(4)), 0);
    let error = error(footer(&Footers::new(&mixed(8), None), &bytes));
    assert!(error.contains("stores 4 samples, but dataset.num_samples_per_file is 8"), "{error}");
}

#[test]
fn no_end_of_a_file_is_taken_for_another() {
    let set = mixed(50);
    let footers = Footers::new(&set, None);
    let bytes = made(&parquet(&set), 0);
    for len in (0..bytes.len()).step_by(7) {
        assert!(footer(&footers, &bytes[..len]).is_err(), "cut at {len}");
    }
    let len = bytes.len() as u64;
    let needed = Footers::needs(&bytes[bytes.len() - 8..], len).unwrap();
    let tail = &bytes[bytes.len() - needed as usize..];
    assert!(footers.parse(tail, len).is_ok());
    // It would lie elsewhere in a file of another length.
    assert!(error(footers.parse(tail, len - 1)).contains("cut off"));
    assert!(error(footers.parse(&tail[1..], len)).contains("only a part"));
    assert!(error(Footers::needs(b"PAR1", 4).map(drop)).contains("fewer than any"));
    assert!(error(Footers::needs(b"....PARE", 100).map(drop)).contains("encrypted"));
    assert!(error(Footers::needs(b"....jpeg", 100).map(drop)).contains("PAR1"));
    assert!(error(Footers::needs(b"\xff\xff\0\0PAR1", 100).map(drop)).contains("65535"));
}

#[test]
fn whatever_a_footer_says_its_ranges_lie_in_the_file() {
    let set = mixed(120);
    let footers = Footers::new(&set, None);
    let good = made(&parquet(&set), 0);
    let len = good.len() as u64;
    let start = good.len() - Footers::needs(&good, len).unwrap() as usize;
    let mut accepted = 0;
    for at in start..good.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut bad = good.to_vec();
            bad[at] ^= change;
            let Ok(footer) = footer(&footers, &bad) else { continue };
            accepted += 1;
            let bad = Bytes::from(bad);
            for (index, group) in footer.groups().iter().enumerate() {
                assert!(group.ranges().all(|range| 4 <= range.start && range.end <= start as u64));
                let _ = footer.decode(index, &fetch(group, &bad));
            }
        }
    }
    // Names of no column and the like change nothing.
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn a_schema_without_end_is_refused_and_not_followed() {
    use super::thrift::{Struct, Type};
    let file = |write: &dyn Fn(&mut Vec<u8>), count| {
        let mut fields = Vec::new();
        Struct::new(&mut fields).list(2, Type::Struct, count, |out| write(out)).end();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&fields);
        bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        error(footer(&Footers::new(&mixed(1), None), &bytes))
    };
    let element = |children: i32| {
        move |out: &mut Vec<u8>| Struct::new(out).i32(3, 0).binary(4, b"x").i32(5, children).end()
    };
    let deep = |out: &mut Vec<u8>| (0..100_000).for_each(|_| element(1)(out));
    assert!(file(&deep, 100_000).contains("too deep"));
    assert!(file(&element(i32::MAX), 1).contains("no tree"));
    assert!(file(&element(-1), 1).contains("no tree"));
    assert!(file(&|_| (), 0).contains("no tree"));
}

/// Files of 20 rows that pyarrow wrote: as DLIO has it write them, and in many other ways. They are what
/// fuzzing begins with, too.
#[test]
fn files_of_another_program_are_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet");
    let set = Dataset { num_samples_per_file: 20, ..dataset(Format::Parquet, 1, 16.0) };
    let parquet = parquet(&set);
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(parquet.decode(0, 0..20, &bytes), Ok(()), "{path:?}");
        files += 1;
    }
    assert!(files >= 6, "{files}");
    let bytes = std::fs::read(format!("{folder}/dlio-legacy")).unwrap();
    let footer = footer(&Footers::new(&set, Some(&["data".to_owned()])), &bytes).unwrap();
    assert_eq!(footer.groups().iter().map(|group| group.rows).collect::<Vec<_>>(), [8, 8, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_pages_are_an_error_or_other_values(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
    ) {
        let set = Dataset { compression, compression_level: 1, ..mixed(30) };
        let good = made(&parquet(&set), 0);
        let footer = footer(&Footers::new(&set, None), &good).unwrap();
        let mut bad = good.to_vec();
        for (at, value) in changes {
            let at = at.index(bad.len());
            bad[at] = value;
        }
        let bad = Bytes::from(bad);
        for (index, group) in footer.groups().iter().enumerate() {
            let _ = footer.decode(index, &fetch(group, &bad));
        }
    }
}
