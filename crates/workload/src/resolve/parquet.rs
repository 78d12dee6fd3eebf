//! Parquet: the columns of the files, how their rows are cut, and which columns are read.

use super::dataset::LONGEST_RECORD;
use super::keys::VERY_MANY;
use crate::schema;
use crate::settings::{Choices, Setting, Settings, file_name, list, text, whole};
use crate::tree::Node;
use crate::workload::{ColumnType, Dataset, Format, Parquet, ParquetColumn};

const COLUMN_TYPES: Choices<ColumnType> = Choices {
    supported: &[
        ("float32", ColumnType::Float32),
        ("float64", ColumnType::Float64),
        ("float16", ColumnType::Float16),
        ("int8", ColumnType::Int8),
        ("int16", ColumnType::Int16),
        ("int32", ColumnType::Int32),
        ("int64", ColumnType::Int64),
        ("uint8", ColumnType::Uint8),
        ("uint16", ColumnType::Uint16),
        ("uint32", ColumnType::Uint32),
        ("uint64", ColumnType::Uint64),
        ("list", ColumnType::List),
        ("string", ColumnType::String),
        ("binary", ColumnType::Binary),
        ("bool", ColumnType::Bool),
    ],
    not_supported: &[],
};

const COLUMNS: &str = "dataset.parquet.columns";
const PARTITION_BY: &str = "dataset.parquet.partition_by";

/// `dataset.parquet.*`.
pub(super) fn parquet(settings: &mut Settings<'_>) -> Parquet {
    let columns = settings.optional(COLUMNS, columns);
    let shown = columns.as_ref().map(|columns| Setting {
        value: format!("{} columns", columns.value.len()),
        origin: columns.origin.clone(),
    });
    settings.record_optional(COLUMNS, shown.as_ref());
    let parquet = Parquet {
        columns: columns.map(|columns| columns.value).unwrap_or_default(),
        row_group_size: settings
            .whole("dataset.parquet.row_group_size", 1..=VERY_MANY, 1_024)
            .value,
        partition_by: settings.optional_text(PARTITION_BY, file_name).map(|column| column.value),
        generation_batch_size: settings
            .whole("dataset.parquet.generation_batch_size", 0..=VERY_MANY, 0)
            .value,
    };
    if parquet.row_bytes() as f64 > LONGEST_RECORD {
        settings.object_to_value(COLUMNS, "a row of them is longer than 1 TiB");
    }
    if !settings.has_problem_of(COLUMNS) {
        check_partition(settings, &parquet);
    }
    parquet
}

/// Columns, no two of one name.
fn columns(node: &Node) -> Result<Vec<ParquetColumn>, String> {
    let columns = list(node, column)?;
    let mut names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    match twice(&mut names) {
        Some(name) => Err(format!("two columns are called {name:?}: accepts distinct names")),
        None => Ok(columns),
    }
}

/// A name that stands in `names` more than once. Sorts them.
fn twice<'a>(names: &mut [&'a str]) -> Option<&'a str> {
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// `{name, dtype, size}`, each of which has a default (spec/dlio.md 4.3).
fn column(node: &Node) -> Result<ParquetColumn, String> {
    if node.as_mapping().is_none() {
        return Err(format!("{node} is no column: accepts mappings of name, dtype and size"));
    }
    let field = |name| node.get(name).filter(|node| !node.is_null());
    let name = field("name").map_or(Ok("data".to_owned()), text)?;
    if name.is_empty() {
        return Err("a column has an empty name".to_owned());
    }
    let dtype = field("dtype").map_or(Ok(ColumnType::Float32), |dtype| {
        let unknown = |text| format!("the dtype {dtype} of {name:?} is not known: {text}");
        COLUMN_TYPES.parse(dtype).map_err(unknown)
    })?;
    let size = field("size").map_or(Ok(1), |size| whole(size, &(1..=VERY_MANY)))?;
    Ok(ParquetColumn { size: if dtype == ColumnType::Bool { 1 } else { size }, name, dtype })
}

/// Values of the column that partitions become names of folders, and leave the files.
fn check_partition(settings: &mut Settings<'_>, parquet: &Parquet) {
    let Some(by) = &parquet.partition_by else { return };
    let columns = &parquet.columns;
    let text = match columns.iter().find(|column| column.name == *by) {
        None if columns.is_empty() => {
            format!("is {by:?}, but no {COLUMNS} are given: the one of bytes does not partition")
        }
        None => format!(
            "is {by:?}, which is none of {COLUMNS}{}",
            hint(by, columns.iter().map(|column| column.name.as_str()))
        ),
        Some(_) if columns.len() == 1 => {
            format!("is {by:?}, the only one of {COLUMNS}: nothing would be left for the files")
        }
        Some(column) if !names_folders(column) => format!(
            "is {by:?}, a column of {} with size {}: accepts one of a string or of an integer type \
             with size 1",
            COLUMN_TYPES.name(column.dtype),
            column.size
        ),
        Some(_) => return,
    };
    settings.object_to_value(PARTITION_BY, text);
}

/// Whether every value of the column is one whole number or one text.
fn names_folders(column: &ParquetColumn) -> bool {
    use ColumnType::{Int8, Int16, Int32, Int64, String, Uint8, Uint16, Uint32, Uint64};
    match column.dtype {
        String => true,
        Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64 => column.size == 1,
        _ => false,
    }
}

/// `storage.storage_options.columns`: the columns to read, if not all are.
pub(super) fn columns_to_read(
    settings: &mut Settings<'_>,
    dataset: &Dataset,
) -> Option<Vec<String>> {
    const READ: &str = "storage.storage_options.columns";
    let read = settings.optional_texts(READ).filter(|read| !read.is_empty())?;
    if dataset.format != Format::Parquet {
        let text = format!(
            "has no effect: dataset.format is {}, and only parquet has columns",
            dataset.format.suffix()
        );
        settings.warn_of_value(READ, text);
        return Some(read);
    }
    let mut names: Vec<_> = read.iter().map(String::as_str).collect();
    if let Some(name) = twice(&mut names) {
        settings.object_to_value(READ, format!("names {name:?} twice"));
    }
    let parquet = &dataset.parquet;
    let stored = || parquet.columns.iter().map(|column| column.name.as_str());
    for name in &read {
        if parquet.partition_by.as_ref() == Some(name) {
            let text = format!("names {name:?}, which is in no file: {PARTITION_BY} names folders");
            settings.object_to_value(READ, text);
        } else if !parquet.columns.is_empty() && !stored().any(|stored| stored == name) {
            let text =
                format!("names {name:?}, which is none of {COLUMNS}{}", hint(name, stored()));
            settings.object_to_value(READ, text);
        }
    }
    Some(read)
}

/// The one of `known` that `name` may be meant to be, as the end of a sentence.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    schema::nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}
