//! The figures that are compared.

use feedrate_metrics::stats::all_known;
use feedrate_metrics::throughput::nominal_mib_per_second;

use crate::{Sweep, SweepRun};

/// A figure that two runs are compared by.
pub(super) struct Figure {
    /// Its name in JSON.
    pub(super) key: &'static str,
    /// Its name in tables.
    pub(super) label: &'static str,
    /// Digits behind the point.
    pub(super) decimals: usize,
    /// Its values: one an epoch, or a single one of the whole run. `None` when any is unknown.
    pub(super) values: fn(&Sweep, &SweepRun) -> Option<Vec<f64>>,
}

pub(super) static FIGURES: [Figure; 7] = [
    Figure {
        key: "au_percent",
        label: "AU %",
        decimals: 2,
        values: |_, run| all_known(&run.figures.au_percent_per_epoch),
    },
    Figure {
        key: "wall_au_percent",
        label: "wall AU %",
        decimals: 2,
        values: |_, run| all_known(&run.figures.wall_au_percent_per_epoch),
    },
    Figure {
        key: "samples_per_second",
        label: "samples/s",
        decimals: 1,
        values: |_, run| all_known(&run.figures.samples_per_second_per_epoch),
    },
    Figure {
        key: "io_mib_per_second",
        label: "MiB/s",
        decimals: 1,
        values: |sweep, run| {
            let samples = all_known(&run.figures.samples_per_second_per_epoch)?;
            let io = |rate| nominal_mib_per_second(rate, sweep.record_length_bytes);
            Some(samples.into_iter().map(io).collect())
        },
    },
    Figure {
        key: "client_cpu_seconds_per_gib",
        label: "client CPU-s/GiB",
        decimals: 3,
        values: |_, run| Some(vec![run.figures.client_cpu_seconds_per_gib?]),
    },
    Figure {
        key: "get_latency_ms_p50",
        label: "GET p50 ms",
        decimals: 2,
        values: |_, run| Some(vec![run.figures.get_latency_ms.p50?]),
    },
    Figure {
        key: "get_latency_ms_p99",
        label: "GET p99 ms",
        decimals: 2,
        values: |_, run| Some(vec![run.figures.get_latency_ms.p99?]),
    },
];
