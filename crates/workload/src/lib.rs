//! DLIO YAML, overrides and environment into one checked workload.
//!
//! [`resolve()`] takes a [`Request`] (a preset's name, a file or a composition of files, options of
//! the command line, the environment as a map) and gives a [`Workload`], in which every value is
//! present and every rule kept, or all the problems at once. On the way a file becomes a tree of
//! nodes that know where they stand ([`tree`]), options change it ([`Override`]), and old spellings
//! become present ones. The command line of `dlio_benchmark` is in [`hydra`]. Layers, highest
//! first: command line, workload file, environment, `.env`, shared configuration of other tools,
//! default.

#[cfg(test)]
mod documentation;
mod environment;
#[cfg(feature = "testing")]
pub mod fuzzing;
pub mod hydra;
mod interpolation;
mod location;
mod origin;
mod overrides;
pub mod presets;
mod resolve;
mod schedule;
mod schema;
mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;
mod workload;

pub use environment::{Variables, parse_dotenv};
pub use location::clean_prefix;
pub use origin::{Origin, Remark};
pub use overrides::Override;
pub use resolve::{
    Configuration, Request, ResolveError, Resolved, ResolvedValue, Secrets, SharedValue, Source,
    StoreDefaults, compose, resolve,
};
pub use schedule::{Schedule, ScheduleError};
pub use schema::names_secret;
pub use tree::yaml::YamlError;
pub use workload::{
    CHUNKED_GETS_IN_FLIGHT, Checkpoint, CheckpointMode, ColumnType, Compat, Compression,
    DataLoader, Dataset, Datatype, Decode, DropCaches, ElementType, Evaluation, Format, Framework,
    GetEngine, Hdf5, LogLevel, Metric, Model, Output, Parallelism, Parquet, ParquetColumn, Payload,
    Pipeline, Profiler, Profiling, RangeSize, Reader, Shuffle, Split, Storage, Target, Time, Train,
    Transformer, Window, Workflow, Workload,
};
