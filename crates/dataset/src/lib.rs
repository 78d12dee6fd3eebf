//! What a data set is: its files' names, who reads which of them when, and every byte inside.
//!
//! All of it is arithmetic, so memory does not grow with the number of files or samples, but for 8 bytes
//! a file where sizes deviate:
//! - [`Layout`] turns a file's index into its [`ObjectKey`](feedrate_storage::ObjectKey).
//!   [`discover()`] finds out, by one listing, what a store holds of a set; [`trusted()`] does without
//!   and looks for a few of the files.
//! - [`Plan`] turns (epoch, rank) into the [`Visits`] of that rank, which are its reads in order, through
//!   keyed [`Permutation`]s instead of shuffled tables; a [`Cut`] says in which pieces files are read.
//! - [`FileFormat`] turns a file's index into its bytes, from counters, so that any file can be made
//!   again to check what a store returned, and decodes them; [`generate()`] makes them all and uploads
//!   them, and [`remove()`] takes them away.
//!
//! A format never knows where bytes come from or go to.

mod content;
mod cut;
mod discover;
mod format;
mod generate;
mod layout;
mod manifest;
mod mersenne;
mod permutation;
mod plan;
mod remove;
mod resume;
mod sizes;
mod trusted;

pub use cut::Cut;
pub use discover::{DiscoverError, Odd, Stored, discover};
pub use format::{
    ColumnMismatch, FOOTER_GUESS, FileFormat, Footer, Footers, FormatError, Group, Length,
    Mismatch, Side, Undecodable,
};
pub use generate::{
    FileSet, GenerateError, GenerateOptions, GenerateProgress, GenerateSummary, Part, generate,
};
pub use layout::Layout;
pub use manifest::{Difference, MadeSet, Manifest, ManifestError};
pub use permutation::Permutation;
pub use plan::{Plan, Visit, Visits};
pub use remove::{RemoveError, remove};
pub use resume::Present;
pub use trusted::{TrustError, trusted};

#[cfg(test)]
mod testing;
