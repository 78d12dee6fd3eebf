//! From a list of files to ready batches: shard, window, prefetch, backpressure.
//!
//! A [`Loader`] serves one rank for the whole run. At the start of an epoch it gets that epoch's
//! visits (a visit reads a file, or a piece of it, once, for one or more consecutive samples) and from
//! then on hands out batches in order, each complete in memory.
//!
//! ```text
//!  visits ──► in flight ──► landed, out of order ──► batch being assembled ──► ready ──► rank
//!             └───────────── the window ──────────┘                            └ bound ┘
//! ```
//!
//! Everything left of `ready` belongs to one asynchronous task, the `feeder`, so its state needs no
//! lock; the reads themselves are done by tasks that it hands them to, the `readers`. `ready` is a bounded
//! queue that the rank's thread blocks on. When the next GET may go out is
//! the one thing that the two values of `reader.pipeline` decide differently: `Pipeline` is the trait,
//! `Sliding` and `Chunked` are the two. Batches, their samples and their order are the same in both.
//!
//! `sliding` issues a GET when all of these allow it, in the order in which batches need the files:
//!
//! - the **window**: a reader may have `prefetch_window` files in flight or landed but not yet part
//!   of a batch. Visits go to readers in turn, so the bound of all is readers × window;
//! - the **ready bound**: batches beyond it are not assembled, and their files stay in the window;
//! - the **byte budget** of the rank: bytes in flight, landed and in batches, until the rank has
//!   dropped the batch. Files of the next batch are let through regardless, so a batch that is larger
//!   than the budget still comes together; [`Limits`] raises the budget to two batches for that;
//! - its **turn**: windows are upper bounds, not targets. Among all ranks of the process first batches
//!   go first, then earlier batches before later ones, and no more at a time, and no further ahead, than
//!   latency and demand call for ([`Turns`]). With `reader.window` `fixed` there are no turns.
//!
//! `chunked` is the way of DLIO's S3 loader, with none of these refinements: readers that fetch chunk
//! after chunk, each for itself; the ready bound and the byte budget are the same. Its module tells
//! the rest.
//!
//! Each batch knows how it came together, so that what a rank waited for it can be told apart: held back
//! by a bound, by failed attempts, before the first byte, in transfer, in work on samples ([`Batch::waited`]).
//!
//! With `reader.preprocess_time` a reader works on each sample before its batch is ready; the module
//! `preprocessing` tells how.
//!
//! With `reader.payload` `discard` a file's bytes are received and counted and nothing is kept of
//! them, so only what is in flight counts in the budget.

mod batch;
mod chunked;
mod columns;
mod feeder;
mod first_batches;
mod limits;
mod loader;
mod pipeline;
mod pool;
mod preprocessing;
mod ramp;
mod readers;
mod ready;
mod sliding;
mod source;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeline;
mod times;
mod turns;

pub use batch::Batch;
pub use columns::{Columns, RowGroups};
pub use limits::{Limits, ReadAhead};
pub use loader::Loader;
pub use pool::BufferPool;
pub use preprocessing::Preprocess;
pub use ramp::Demand;
pub use source::{Known, LoadError, NothingToVerify, PieceSizes, Source, Work, check_payload};
pub use times::{Stream, Times};
pub use turns::Turns;
