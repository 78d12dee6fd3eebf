//! Workloads for tests, of this crate and of those that use it.

use crate::{Override, Request, Workload, resolve};

/// A workload of small npz files that is `retinanet_b200` in all that `options` (`KEY=VALUE`) do not
/// say.
///
/// # Panics
/// When they do not resolve.
pub fn workload(options: &[&str]) -> Workload {
    let small = ["dataset.format=npz", "dataset.record_length_bytes=4096"];
    let overrides = small.iter().chain(options).map(|&option| Override::set(option)).collect();
    let workload = "retinanet_b200".into();
    resolve(&Request { workload, overrides, ..Request::default() })
        .unwrap_or_else(|error| panic!("{error}"))
        .workload
}
