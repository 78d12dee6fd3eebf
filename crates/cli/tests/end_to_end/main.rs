//! The program as its users meet it: the real binary, its exit codes, its words and its files, against
//! its own S3 server with faults on demand.
//!
//! A test makes a [`support::Place`] (a working directory with a home of its own and the base workload
//! in `t0.yaml`), perhaps a [`support::Server`], and calls `feedrate` there as a shell would. What is
//! about time stands in [`timing`], which runs alone (`.config/nextest.toml`) and asserts shapes.

mod command_line;
mod damage;
mod dlio_benchmark;
mod endpoints;
mod engines;
mod files;
mod formats;
mod interrupts;
mod made_by_dlio;
mod manifests;
mod order;
mod pipelines;
mod reading;
mod retries;
mod semantics;
mod series;
mod steps;
mod stores;
mod support;
mod sweep;
mod timing;
mod verdicts;
mod window;
