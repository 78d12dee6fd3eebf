//! DLIO YAML, overrides and environment into one checked workload.

mod schedule;
mod workload;

pub use schedule::{Schedule, ScheduleError};
pub use workload::{
    DataLoader, Dataset, Format, Framework, Metric, Model, Output, Reader, Shuffle, Storage,
    Target, Time, Train, Workflow, Workload,
};
