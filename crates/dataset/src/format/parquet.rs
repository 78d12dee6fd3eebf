//! Parquet: rows in row groups, in each one column behind the other, and a footer that says where they
//! are.
//!
//! Every value follows from the file, the column and the row, so a file is written page by page as a
//! stream, however large it is, and any column of any row group can be made again to be compared. That
//! is why pages and footers are written here, field by field, and not by a library that collects row
//! groups. What is written, and what other programs wrote, is read in steps:
//!
//! 1. [`Footers`] reads the end of a file. A [`Footer`] keeps of it which rows a row group has, and in
//!    which ranges of the file the columns lie that are wanted. The caller fetches those.
//! 2. [`Footer::decode`] makes Arrow's arrays of them, by the `parquet` crate, and
//!    [`Parquet::verify`] compares them with what they were made from.
//!
//! Format: apache/parquet-format 2.10, `parquet.thrift` and `Encodings.md`.

mod chunk;
mod codec;
mod column;
mod decode;
mod footer;
mod groups;
mod layout;
mod thrift;
mod verify;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use feedrate_workload::{self as workload, Dataset};

use self::codec::Codec;
use self::column::{Column, MOST_COLUMNS};
pub use self::footer::{FOOTER_GUESS, Footer, Footers, Group};
use self::groups::Groups;
use self::layout::Layout;
pub use self::verify::ColumnMismatch;
use super::files::{Files, Length, Undecodable};
use super::out::{Out, Stopped};
use super::{FormatError, Ingredients};
use crate::Cut;
use crate::content::Content;
use crate::sizes::Sizes;

/// What files begin and end with.
const MAGIC: &[u8; 4] = b"PAR1";

/// The Parquet files of a set.
#[derive(Clone)]
pub(super) struct Parquet {
    content: Content,
    seed: u64,
    groups: Groups,
    codec: Codec,
    kind: Kind,
    /// For the footers of whole files.
    footers: Arc<Footers>,
}

/// What the files look like.
#[derive(Clone)]
enum Kind {
    /// All alike.
    Same(Arc<Layout>),
    /// One column of bytes, of which a file has as many in a row as its sizes say.
    PerFile(Sizes),
}

impl Parquet {
    pub(super) fn new(made_from: Ingredients<'_>) -> Result<Self, FormatError> {
        let Ingredients { dataset, content, sizes } = made_from;
        let parquet = &dataset.parquet;
        let groups = Groups::new(
            dataset.num_samples_per_file,
            parquet.generation_batch_size,
            parquet.row_group_size,
        );
        let codec = Codec::of(dataset)?;
        let columns = columns(dataset);
        if columns.len() > MOST_COLUMNS {
            let why = format!("{} are more than a file can have, {MOST_COLUMNS}", columns.len());
            return Err(FormatError::Unfit { key: "dataset.parquet.columns", why });
        }
        let same = |columns| Layout::new(columns, groups, codec).map(Arc::new).map(Kind::Same);
        let kind = match sizes {
            _ if !columns.is_empty() => same(columns)?,
            Sizes::Same(_) => same(vec![Column::of_bytes(sizes.elements(0))])?,
            drawn @ Sizes::PerFile { .. } => Kind::PerFile(drawn),
        };
        let footers = Arc::new(Footers::new(dataset, None));
        Ok(Self { content, seed: dataset.seed, groups, codec, kind, footers })
    }

    /// What `file` looks like. `None` if no file can.
    fn layout(&self, file: u64) -> Option<Arc<Layout>> {
        match &self.kind {
            Kind::Same(layout) => Some(Arc::clone(layout)),
            Kind::PerFile(sizes) => {
                let columns = vec![Column::of_bytes(sizes.elements(file))];
                Layout::new(columns, self.groups, self.codec).ok().map(Arc::new)
            }
        }
    }
}

impl Files for Parquet {
    fn length(&self, file: u64) -> Length {
        self.layout(file).map_or(Length::Exact(u64::MAX), |layout| layout.length())
    }

    fn write(&self, file: u64, _: Range<u64>, out: &mut dyn Out) -> Result<(), Stopped> {
        self.layout(file).ok_or(Stopped)?.write(&self.content, file, out)
    }

    fn sample_at(&self, file: u64, offset: u64) -> Option<u64> {
        self.layout(file)?.row_at(offset)
    }

    fn cut(&self) -> Cut {
        Cut::Groups(self.groups.iter().map(|rows| rows.start).collect())
    }

    fn decode(&self, _: u64, _: Range<u64>, found: &[u8]) -> Result<(), Undecodable> {
        let footer = self.footers.parse(found, found.len() as u64)?;
        let fetched = [(0, Bytes::copy_from_slice(found))];
        (0..footer.groups().len()).try_for_each(|group| footer.decode(group, &fetched))
    }
}

impl fmt::Debug for Parquet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, codec, .. } = self;
        f.debug_struct("Parquet")
            .field("groups", groups)
            .field("codec", codec)
            .finish_non_exhaustive()
    }
}

/// The columns that files have: those of `dataset.parquet.columns`, but for the one whose values are
/// names of folders.
fn columns(dataset: &Dataset) -> Vec<Column> {
    let workload::Parquet { columns, partition_by, .. } = &dataset.parquet;
    let in_file = |column: &workload::ParquetColumn| partition_by.as_ref() != Some(&column.name);
    let all = columns.iter().enumerate();
    all.filter(|(_, column)| in_file(column))
        .map(|(index, column)| Column::of(column, index))
        .collect()
}
