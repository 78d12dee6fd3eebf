//! Compares the columns of a row group, as they were fetched, with what they are made from.

use bytes::Bytes;

use super::super::out::{Comparison, Verdict};
use super::Parquet;
use super::chunk::Pages;
use super::decode::slice;
use super::footer::Footer;

/// How the columns of a row group differ from those that should be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnMismatch {
    /// The file is cut differently, or has other columns.
    #[error(
        "row group {group} is not as it is generated: {what}; it was made with other dataset settings or \
         by another program"
    )]
    Foreign {
        /// The row group.
        group: usize,
        /// In which way.
        what: String,
    },
    /// Some bytes are wrong.
    #[error(
        "the column {column:?} differs from what was generated, first at byte {offset} of the file, in \
         sample {sample}"
    )]
    Content {
        /// The column's name.
        column: String,
        /// Offset in the file of the first byte that differs.
        offset: u64,
        /// The sample that it belongs to; the first of the page, where a page is compressed or the byte
        /// belongs to no single one.
        sample: u64,
    },
    /// A whole column is another one.
    #[error(
        "the column {column:?} has nothing in common with what dataset.seed {seed} makes for file {file}: \
         it was made with another seed, for another file, or by another program"
    )]
    Unrelated {
        /// The column's name.
        column: String,
        /// `dataset.seed`
        seed: u64,
        /// Index of the file it should be.
        file: u64,
    },
}

impl Parquet {
    /// Checks that the wanted columns of a row group are those of `file`, byte for byte. `fetched` are
    /// its [`ranges`](super::Group::ranges): for each its offset in the file, and what it holds.
    pub(in super::super) fn verify(
        &self,
        file: u64,
        footer: &Footer,
        group: usize,
        fetched: &[(u64, Bytes)],
    ) -> Result<(), ColumnMismatch> {
        let foreign = |what| ColumnMismatch::Foreign { group, what };
        let layout =
            self.layout(file).ok_or_else(|| foreign("there is no such file".to_owned()))?;
        let Some(place) = footer.groups().get(group) else {
            return Err(foreign("it does not exist".to_owned()));
        };
        let rows = place.samples();
        if group as u64 >= layout.groups.len() || layout.groups.get(group as u64) != rows {
            let found = footer.groups().len();
            let what = format!(
                "it has rows {} to {}, as one of {found}, but there should be {}",
                rows.start,
                rows.end,
                layout.groups.len()
            );
            return Err(foreign(what));
        }
        let mut pages = Pages::new(&self.content, file, layout.codec);
        for (leaf, (start, chunk)) in place.chunks().enumerate() {
            let name = footer.schema.name(leaf);
            let generated = layout.chunks(rows.clone()).find(|chunk| chunk.column.name == name);
            let generated =
                generated.ok_or_else(|| foreign(format!("it has a column {name:?}")))?;
            let range = start..start + chunk.len;
            let found = slice(fetched, &range)
                .ok_or_else(|| foreign(format!("column {name:?} was not read as a whole")))?;
            let mut whole = Comparison::new(&found);
            // A comparison goes on to the end.
            let _ = pages.write_chunk(&generated, &mut whole);
            match whole.verdict() {
                Verdict::Same => {}
                Verdict::Foreign => {
                    let column = name.to_owned();
                    return Err(ColumnMismatch::Unrelated { column, seed: self.seed, file });
                }
                Verdict::Differs(at) => {
                    let sample = pages.row_at(&generated, at);
                    let column = name.to_owned();
                    return Err(ColumnMismatch::Content { column, offset: start + at, sample });
                }
            }
        }
        Ok(())
    }
}
