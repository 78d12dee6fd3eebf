//! `summary.json` (spec/dlio.md 8.2, 8.3). The order of the fields is the order of the keys.

use std::collections::BTreeSet;

use feedrate_metrics::stats::{mean, stdev};
use feedrate_metrics::throughput::nominal_mib_per_second;
use serde::Serialize;

use super::{Ordered, data_size_gib, potential_caching};
use crate::log::expectation;
use crate::{RunFigures, RunReport, Store};

#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    start: String,
    num_accelerators: u32,
    num_hosts: usize,
    hostname: &'a str,
    metric: Metric,
    num_files_train: u64,
    num_files_eval: u64,
    num_samples_per_file: u64,
    host_cpu_count: [u32; 1],
    host_processor_name: &'a str,
    potential_caching: [u8; 1],
    host_cpuinfo: Ordered<String>,
    host_meminfo: Ordered<String>,
    #[serde(rename = "host_memory_GB")]
    host_memory_gib: [f64; 1],
    #[serde(rename = "data_size_per_host_GB")]
    data_size_per_host_gib: f64,
    epochs: u32,
    end: String,
    feedrate: Ours<'a>,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "DLIO's keys")]
struct Metric {
    train_au_percentage: Vec<f64>,
    train_au_mean_percentage: f64,
    train_au_meet_expectation: &'static str,
    train_au_stdev_percentage: f64,
    train_throughput_samples_per_second: Vec<f64>,
    train_throughput_mean_samples_per_second: f64,
    train_throughput_stdev_samples_per_second: f64,
    #[serde(rename = "train_io_mean_MB_per_second")]
    train_io_mean_mib_per_second: f64,
    #[serde(rename = "train_io_stdev_MB_per_second")]
    train_io_stdev_mib_per_second: f64,
}

/// What DLIO has no key for.
#[derive(Debug, Serialize)]
struct Ours<'a> {
    tool_version: &'a str,
    workload_name: &'a str,
    store: &'a Store,
    batch_size: u64,
    read_threads: u32,
    prefetch_size: u32,
    prefetch_window: u32,
    #[serde(flatten)]
    figures: &'a RunFigures,
}

impl<'a> Summary<'a> {
    pub(super) fn of(report: &'a RunReport, figures: &'a RunFigures) -> Self {
        let RunReport { workload, host, record, .. } = report;
        let hosts: BTreeSet<&str> = record
            .epochs
            .iter()
            .flat_map(|epoch| &epoch.ranks)
            .map(|rank| rank.host.as_str())
            .collect();
        Self {
            start: record.start.dlio(),
            num_accelerators: report.np,
            num_hosts: hosts.len().max(1),
            hostname: &host.hostname,
            metric: Metric::of(figures, workload.dataset.record_length_bytes),
            num_files_train: workload.dataset.num_files_train,
            num_files_eval: 0,
            num_samples_per_file: workload.dataset.num_samples_per_file,
            host_cpu_count: [host.logical_cpus],
            host_processor_name: &host.cpu_model,
            potential_caching: [potential_caching(report)],
            host_cpuinfo: Ordered::pairs(&host.cpuinfo),
            host_meminfo: Ordered::pairs(&host.meminfo),
            host_memory_gib: [host.memory.gib()],
            data_size_per_host_gib: data_size_gib(report),
            epochs: figures.epochs_finished,
            end: record.end.dlio(),
            feedrate: Ours {
                tool_version: &report.origin.tool_version,
                workload_name: &report.origin.workload_name,
                store: &report.store,
                batch_size: workload.reader.batch_size,
                read_threads: workload.reader.read_threads,
                prefetch_size: workload.reader.prefetch_size,
                prefetch_window: workload.storage.prefetch_window,
                figures,
            },
        }
    }
}

impl Metric {
    fn of(figures: &RunFigures, record_length: f64) -> Self {
        let or_zero = |values: &[Option<f64>]| -> Vec<f64> {
            values.iter().map(|value| value.unwrap_or(0.0)).collect()
        };
        let au = or_zero(&figures.au_percent_per_epoch);
        let throughput = or_zero(&figures.samples_per_second_per_epoch);
        let mean = |values: &[f64]| mean(values).unwrap_or(0.0);
        let stdev = |values: &[f64]| stdev(values).unwrap_or(0.0);
        let io = |samples_per_second| nominal_mib_per_second(samples_per_second, record_length);
        Self {
            train_au_mean_percentage: mean(&au),
            train_au_meet_expectation: expectation(figures.au_met),
            train_au_stdev_percentage: stdev(&au),
            train_throughput_mean_samples_per_second: mean(&throughput),
            train_throughput_stdev_samples_per_second: stdev(&throughput),
            train_io_mean_mib_per_second: io(mean(&throughput)),
            train_io_stdev_mib_per_second: io(stdev(&throughput)),
            train_au_percentage: au,
            train_throughput_samples_per_second: throughput,
        }
    }
}
