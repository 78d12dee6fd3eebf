//! `summary.json` (spec/dlio.md 8.2, 8.3). The order of the fields is the order of the keys.

use feedrate_metrics::stats::{mean, stdev};
use feedrate_metrics::throughput::nominal_mib_per_second;
use feedrate_workload::Compat;
use serde::Serialize;

use super::{Ordered, data_size_gib, potential_caching};
use crate::log::expectation;
use crate::{ConfiguredValue, RunFigures, RunReport, Store};

#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    start: String,
    num_accelerators: u32,
    num_hosts: usize,
    hostname: &'a str,
    metric: Ordered<MetricValue>,
    num_files_train: u64,
    num_files_eval: u64,
    num_samples_per_file: u64,
    host_cpu_count: Vec<u32>,
    host_processor_name: &'a str,
    potential_caching: Vec<u8>,
    host_cpuinfo: Ordered<String>,
    host_meminfo: Ordered<String>,
    #[serde(rename = "host_memory_GB")]
    host_memory_gib: Vec<f64>,
    /// What the ranks of one node share; where nodes have different numbers of ranks, the largest.
    #[serde(rename = "data_size_per_host_GB")]
    data_size_per_host_gib: f64,
    epochs: u32,
    end: String,
    feedrate: Ours<'a>,
}

/// A value of the `metric` object. Figures are numbers with a decimal point, whole or not.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum MetricValue {
    List(Vec<f64>),
    Number(f64),
    Text(&'static str),
}

/// What DLIO has no key for.
#[derive(Debug, Serialize)]
struct Ours<'a> {
    tool_version: &'a str,
    workload_name: &'a str,
    compat: Compat,
    store: &'a Store,
    batch_size: u64,
    read_threads: u32,
    prefetch_size: u32,
    prefetch_window: u32,
    #[serde(flatten)]
    figures: &'a RunFigures,
    configuration: &'a [ConfiguredValue],
}

impl<'a> Summary<'a> {
    pub(super) fn of(report: &'a RunReport, figures: &'a RunFigures) -> Self {
        let RunReport { workload, nodes, record, .. } = report;
        let host = report.host();
        let data_sizes = nodes.iter().map(|node| data_size_gib(report, node));
        Self {
            start: record.start.dlio(),
            num_accelerators: report.np(),
            num_hosts: nodes.count(),
            hostname: &host.hostname,
            metric: Ordered(metric(report, figures)),
            num_files_train: workload.dataset.num_files_train,
            num_files_eval: workload.dataset.num_files_eval,
            num_samples_per_file: workload.dataset.num_samples_per_file,
            host_cpu_count: nodes.iter().map(|node| node.host.logical_cpus).collect(),
            host_processor_name: &host.cpu_model,
            potential_caching: nodes.iter().map(|node| potential_caching(report, node)).collect(),
            host_cpuinfo: Ordered::pairs(&host.cpuinfo),
            host_meminfo: Ordered::pairs(&host.meminfo),
            host_memory_gib: nodes.iter().map(|node| node.host.memory.gib()).collect(),
            data_size_per_host_gib: data_sizes.fold(0.0, f64::max),
            epochs: figures.epochs_finished,
            end: record.end.dlio(),
            feedrate: Ours {
                tool_version: &report.origin.tool_version,
                workload_name: &report.origin.workload_name,
                compat: workload.compat,
                store: &report.store,
                batch_size: workload.reader.batch_size,
                read_threads: workload.reader.read_threads,
                prefetch_size: workload.reader.prefetch_size,
                prefetch_window: workload.storage.prefetch_window,
                figures,
                configuration: &report.configuration,
            },
        }
    }
}

/// The keys of the phases that ran, in DLIO's order.
fn metric(report: &RunReport, figures: &RunFigures) -> Vec<(String, MetricValue)> {
    let record_bytes = report.workload.record_bytes();
    let mut metric = Vec::new();
    if report.workload.workflow.train {
        metric.extend(of_phase(
            "train",
            &figures.au_percent_per_epoch,
            figures.au_met,
            &figures.samples_per_second_per_epoch,
            record_bytes,
        ));
    }
    if let Some(evaluation) = &figures.evaluation {
        metric.extend(of_phase(
            "eval",
            &evaluation.au_percent_per_epoch,
            evaluation.au_met,
            &evaluation.samples_per_second_per_epoch,
            record_bytes,
        ));
    }
    metric
}

/// The keys of one phase from its lists of values.
fn of_phase(
    phase: &str,
    au: &[Option<f64>],
    au_met: Option<bool>,
    samples_per_second: &[Option<f64>],
    record_bytes: f64,
) -> [(String, MetricValue); 9] {
    use MetricValue::{List, Number, Text};

    let or_zero = |values: &[Option<f64>]| -> Vec<f64> {
        values.iter().map(|value| value.unwrap_or(0.0)).collect()
    };
    let (au, throughput) = (or_zero(au), or_zero(samples_per_second));
    let mean = |values: &[f64]| mean(values).unwrap_or(0.0);
    let stdev = |values: &[f64]| stdev(values).unwrap_or(0.0);
    let io = |samples_per_second| nominal_mib_per_second(samples_per_second, record_bytes);
    let (throughput_mean, throughput_stdev) = (mean(&throughput), stdev(&throughput));
    let (au_mean, au_stdev) = (mean(&au), stdev(&au));
    [
        ("au_percentage", List(au)),
        ("au_mean_percentage", Number(au_mean)),
        ("au_meet_expectation", Text(expectation(au_met))),
        ("au_stdev_percentage", Number(au_stdev)),
        ("throughput_samples_per_second", List(throughput)),
        ("throughput_mean_samples_per_second", Number(throughput_mean)),
        ("throughput_stdev_samples_per_second", Number(throughput_stdev)),
        // MiB by their value, MB by DLIO's name.
        ("io_mean_MB_per_second", Number(io(throughput_mean))),
        ("io_stdev_MB_per_second", Number(io(throughput_stdev))),
    ]
    .map(|(key, value)| (format!("{phase}_{key}"), value))
}
