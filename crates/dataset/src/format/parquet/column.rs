//! What a column holds: its type in Parquet and in Arrow.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use feedrate_workload::{ColumnType, ElementType, ParquetColumn};

use super::thrift::Struct;

// Numbers of parquet.thrift (format 2.10). FieldRepetitionType:
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
// ConvertedType:
const UTF8: i32 = 0;
const LIST: i32 = 3;
// The fields of the union LogicalType:
const STRING_TYPE: u8 = 1;
const LIST_TYPE: u8 = 3;
const INTEGER_TYPE: u8 = 10;
pub(super) const FLOAT16_TYPE: u8 = 15;

/// A column's content begins at a multiple of this power of 2 in the content of the file, that of its
/// index.
const APART: u32 = 44;

/// Bytes of content that a column of a file can have, so that no two share one.
pub(super) const LARGEST: u64 = 1 << APART;

/// Columns that a file can have, so that none lies outside of its file's content.
pub(super) const MOST_COLUMNS: usize = 1 << (u64::BITS - APART);

/// A column of a file.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) values: Values,
    /// Where its content begins in that of a file.
    pub(super) start: u64,
}

/// What a row has in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// One number, or a list of so many.
    Numbers(ElementType, Option<u64>),
    /// True or false.
    Bool,
    /// A short text.
    Text,
    /// So many bytes.
    Bytes(u64),
}

impl Column {
    /// The column of a set without `dataset.parquet.columns`: the bytes of a sample, at least one.
    pub(super) fn of_bytes(count: u64) -> Self {
        let values = Values::Numbers(ElementType::Uint8, Some(count.max(1)));
        Self { name: "data".to_owned(), values, start: 0 }
    }

    /// A configured column, by its place among them.
    pub(super) fn of(column: &ParquetColumn, index: usize) -> Self {
        let name = column.name.clone();
        Self { name, values: Values::of(column), start: (index as u64) << APART }
    }

    /// The column as Arrow knows it.
    pub(super) fn field(&self) -> Field {
        Field::new(&self.name, self.values.data_type(), true)
    }

    /// Writes the elements of the schema that make the column.
    pub(super) fn push_schema(&self, out: &mut Vec<u8>) {
        let Values::Numbers(_, Some(_)) = self.values else {
            return self.values.push_leaf(&self.name, out);
        };
        Struct::new(out)
            .i32(3, OPTIONAL)
            .binary(4, self.name.as_bytes())
            .i32(5, 1)
            .i32(6, LIST)
            .nested(10, |logical| logical.nested(LIST_TYPE, |empty| empty))
            .end();
        Struct::new(out).i32(3, REPEATED).binary(4, b"list").i32(5, 1).end();
        self.values.push_leaf("element", out);
    }

    /// Elements of the schema that make the column.
    pub(super) fn schema_elements(&self) -> usize {
        if self.values.is_list() { 3 } else { 1 }
    }

    /// The names on the way to the column's values.
    pub(super) fn path(&self) -> impl ExactSizeIterator<Item = &str> {
        let path = [self.name.as_str(), "list", "element"];
        path.into_iter().take(self.schema_elements())
    }
}

/// How a value is stored: the enum Type of parquet.thrift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    Boolean = 0,
    Int32 = 1,
    Int64 = 2,
    Float = 4,
    Double = 5,
    ByteArray = 6,
    FixedLenByteArray = 7,
}

impl Values {
    fn of(column: &ParquetColumn) -> Self {
        let list = (column.size > 1).then_some(column.size);
        let numbers = |element| Self::Numbers(element, list);
        match column.dtype {
            ColumnType::Int8 => numbers(ElementType::Int8),
            ColumnType::Int16 => numbers(ElementType::Int16),
            ColumnType::Int32 => numbers(ElementType::Int32),
            ColumnType::Int64 => numbers(ElementType::Int64),
            ColumnType::Uint8 => numbers(ElementType::Uint8),
            ColumnType::Uint16 => numbers(ElementType::Uint16),
            ColumnType::Uint32 => numbers(ElementType::Uint32),
            ColumnType::Uint64 => numbers(ElementType::Uint64),
            ColumnType::Float16 => numbers(ElementType::Float16),
            ColumnType::Float32 => numbers(ElementType::Float32),
            ColumnType::Float64 => numbers(ElementType::Float64),
            ColumnType::Bool => Self::Bool,
            ColumnType::String => Self::Text,
            ColumnType::Binary => Self::Bytes(column.size),
            ColumnType::List => Self::Numbers(ElementType::Float32, Some(column.size)),
        }
    }

    /// Values of a row, which levels stand for.
    pub(super) fn per_row(self) -> u64 {
        match self {
            Self::Numbers(_, Some(count)) => count,
            _ => 1,
        }
    }

    /// Bytes of a row, about.
    pub(super) fn about_bytes(self) -> u64 {
        match self {
            Self::Numbers(element, _) => self.per_row().saturating_mul(element.size()),
            Self::Bool => 1,
            Self::Text => 16,
            Self::Bytes(len) => len.saturating_add(4),
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Numbers(_, Some(_)))
    }

    pub(super) fn physical(self) -> Physical {
        use ElementType::{
            Float16, Float32, Float64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
        };
        match self {
            Self::Bool => Physical::Boolean,
            Self::Text | Self::Bytes(_) => Physical::ByteArray,
            Self::Numbers(element, _) => match element {
                Int8 | Int16 | Int32 | Uint8 | Uint16 | Uint32 => Physical::Int32,
                Int64 | Uint64 => Physical::Int64,
                Float16 => Physical::FixedLenByteArray,
                Float32 => Physical::Float,
                Float64 => Physical::Double,
            },
        }
    }

    /// The type in Arrow.
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Text => DataType::Utf8,
            Self::Bytes(_) => DataType::Binary,
            Self::Numbers(element, None) => number(element),
            Self::Numbers(element, Some(count)) => {
                let field = Field::new("element", number(element), true);
                DataType::FixedSizeList(Arc::new(field), count as i32)
            }
        }
    }

    /// Writes the element of the schema that values are described by.
    fn push_leaf(self, name: &str, out: &mut Vec<u8>) {
        let physical = self.physical();
        let mut leaf = Struct::new(out).i32(1, physical as i32);
        if physical == Physical::FixedLenByteArray {
            leaf = leaf.i32(2, 2);
        }
        leaf = leaf.i32(3, OPTIONAL).binary(4, name.as_bytes());
        let leaf = match self {
            Self::Text => {
                leaf.i32(6, UTF8).nested(10, |logical| logical.nested(STRING_TYPE, |empty| empty))
            }
            Self::Numbers(ElementType::Float16, _) => {
                leaf.nested(10, |logical| logical.nested(FLOAT16_TYPE, |empty| empty))
            }
            Self::Numbers(element, _) => match integer(element) {
                Some((converted, bits, signed)) => leaf.i32(6, converted).nested(10, |logical| {
                    logical.nested(INTEGER_TYPE, |integer| integer.byte(1, bits).bool(2, signed))
                }),
                None => leaf,
            },
            Self::Bool | Self::Bytes(_) => leaf,
        };
        leaf.end();
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&self.data_type(), Some(self.per_row())))
    }
}

/// A type in words, of lists with the number of their values if it is the same for all.
pub(super) fn describe(data_type: &DataType, count: Option<u64>) -> String {
    match data_type {
        DataType::Boolean => "bool".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::List(field) | DataType::FixedSizeList(field, _) => {
            let of = describe(field.data_type(), None);
            match count {
                Some(count) => format!("a list of {count} {of}"),
                None => format!("a list of {of}"),
            }
        }
        other => other.to_string().to_lowercase(),
    }
}

/// The `ConvertedType`, width in bits and sign of the integers that are not just what is stored.
fn integer(element: ElementType) -> Option<(i32, u8, bool)> {
    match element {
        ElementType::Uint8 => Some((11, 8, false)),
        ElementType::Uint16 => Some((12, 16, false)),
        ElementType::Uint32 => Some((13, 32, false)),
        ElementType::Uint64 => Some((14, 64, false)),
        ElementType::Int8 => Some((15, 8, true)),
        ElementType::Int16 => Some((16, 16, true)),
        _ => None,
    }
}

fn number(element: ElementType) -> DataType {
    match element {
        ElementType::Uint8 => DataType::UInt8,
        ElementType::Uint16 => DataType::UInt16,
        ElementType::Uint32 => DataType::UInt32,
        ElementType::Uint64 => DataType::UInt64,
        ElementType::Int8 => DataType::Int8,
        ElementType::Int16 => DataType::Int16,
        ElementType::Int32 => DataType::Int32,
        ElementType::Int64 => DataType::Int64,
        ElementType::Float16 => DataType::Float16,
        ElementType::Float32 => DataType::Float32,
        ElementType::Float64 => DataType::Float64,
    }
}
