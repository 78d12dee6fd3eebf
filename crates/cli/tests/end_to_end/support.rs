//! A small language for tests of the binaries.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod call;
mod place;
mod processes;
mod python;
mod server;

pub(crate) use call::{Call, DLIO, FEEDRATE, Running, Said};
pub(crate) use place::{B0, Place, RunFolder, bytes_of_samples, files_below};
pub(crate) use processes::{Process, children_of, processes};
pub(crate) use python::{check_files, make_dlio_files, python, python_on};
pub(crate) use server::{MANIFEST, Request, Server, environment_of, serve, serve_at};

use serde_json::Value;

/// A number of a result file.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The numbers of a list in a result file.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value} is no list"));
    list.iter().map(number).collect()
}

/// Asserts that `value` is `expected`, give or take `error`.
pub(crate) fn within(value: f64, expected: f64, error: f64, what: &str) {
    assert!((value - expected).abs() <= error, "{what}: {value} is not {expected} ± {error}");
}
