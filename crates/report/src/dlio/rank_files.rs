//! The two files of each rank (spec/dlio.md 8.4, 8.5).

use feedrate_metrics::record::{RankEpoch, StepRecord};
use feedrate_metrics::units::Seconds;
use serde::Serialize;

use super::{Ordered, potential_caching};
use crate::RunReport;
use crate::run::phase::{Phase, PhaseFigures};

/// `<rank>_output.json`.
#[derive(Debug, Serialize)]
pub(super) struct Output<'a> {
    #[serde(rename = "host_memory_GB")]
    host_memory_gib: f64,
    host_cpu_count: u32,
    host_processor_name: &'a str,
    potential_caching: u8,
    host_cpuinfo: Ordered<String>,
    host_meminfo: Ordered<String>,
    #[serde(flatten)]
    epochs: Ordered<Epoch>,
    hostname: &'a str,
}

#[derive(Debug, Serialize)]
struct Epoch {
    load: Ordered<Vec<f64>>,
    proc: Ordered<Vec<f64>>,
    throughput: Ordered<f64>,
    au: Ordered<f64>,
    compute: Ordered<Vec<f64>>,
    host_meminfo: Ordered<String>,
    end: String,
}

impl<'a> Output<'a> {
    /// Of `rank` with its `epochs`; the facts are those of its own node.
    pub(super) fn of(report: &'a RunReport, rank: u32, epochs: &[(u32, &'a RankEpoch)]) -> Self {
        let node = report.nodes.of(rank).unwrap_or(report.nodes.first());
        let host = &node.host;
        Self {
            host_memory_gib: host.memory.gib(),
            host_cpu_count: host.logical_cpus,
            host_processor_name: &host.cpu_model,
            potential_caching: potential_caching(report, node),
            host_cpuinfo: Ordered::pairs(&host.cpuinfo),
            host_meminfo: Ordered::pairs(&host.meminfo),
            epochs: Ordered(
                epochs
                    .iter()
                    .map(|(epoch, rank)| (epoch.to_string(), Epoch::of(report, rank)))
                    .collect(),
            ),
            hostname: &host.hostname,
        }
    }
}

impl Epoch {
    fn of(report: &RunReport, rank: &RankEpoch) -> Self {
        let figures = PhaseFigures::of(report);
        let steps = |value: fn(&StepRecord) -> Seconds| {
            per_phase(rank, |phase| phase.steps().iter().map(|step| value(step).0).collect())
        };
        Self {
            load: steps(|step| step.wait),
            proc: steps(StepRecord::proc),
            throughput: per_phase(rank, |phase| figures.samples_per_second(phase).unwrap_or(0.0)),
            au: per_phase(rank, |phase| figures.au_percent(phase).unwrap_or(0.0)),
            compute: steps(|step| step.compute),
            host_meminfo: Ordered::pairs(&rank.host_meminfo),
            end: rank.over.dlio(),
        }
    }
}

fn per_phase<T>(rank: &RankEpoch, value: impl Fn(&Phase) -> T) -> Ordered<T> {
    Ordered(Phase::all(rank).map(|phase| (phase.key(), value(&phase))).collect())
}

/// An epoch of `<rank>_per_epoch_stats.json`; keys in the order of time.
#[derive(Debug, Serialize)]
pub(super) struct EpochTimes {
    start: String,
    #[serde(flatten)]
    phases: Ordered<Span>,
    /// Behind the evaluation.
    end: String,
    /// Of the training alone.
    duration: String,
}

#[derive(Debug, Serialize)]
struct Span {
    start: String,
    end: String,
    duration: String,
}

/// `<rank>_per_epoch_stats.json`.
pub(super) fn per_epoch_stats(epochs: &[(u32, &RankEpoch)]) -> Ordered<EpochTimes> {
    let times = |rank: &RankEpoch| EpochTimes {
        start: rank.start.dlio(),
        phases: per_phase(rank, |phase| {
            let (start, end, duration) = phase.span();
            Span { start: start.dlio(), end: end.dlio(), duration: duration_text(duration) }
        }),
        end: rank.over.dlio(),
        duration: duration_text(rank.duration),
    };
    Ordered(epochs.iter().map(|(epoch, rank)| (epoch.to_string(), times(rank))).collect())
}

/// DLIO writes these durations as texts.
fn duration_text(duration: Seconds) -> String {
    format!("{:.2}", duration.0)
}
