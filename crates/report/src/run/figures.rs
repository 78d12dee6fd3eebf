//! All figures of a run, computed once from its record by the pure functions of the metrics.

use std::collections::BTreeMap;

use feedrate_metrics::decode::DecodeSummary;
use feedrate_metrics::process::CpuByPhase;
use feedrate_metrics::record::{CacheDrops, EpochRecord, RetryCounts};
use feedrate_metrics::requests::{EndpointCounts, LatencySummary};
use feedrate_metrics::stats::{all_known, mean, stdev};
use feedrate_metrics::throughput::{
    epoch_wall_mib_per_second, epoch_wall_samples_per_second, nominal_mib_per_second,
};
use feedrate_metrics::units::{ByteCount, Seconds};
use feedrate_metrics::utilization::epoch_wall_au_percent;
use feedrate_metrics::verdict::{Verdict, verdict};
use serde::{Deserialize, Serialize};

use super::phase::PhaseFigures;
use super::{Breakdown, InFlightFigures, NodeFigures, RankFigure, RunReport};
use crate::text::{UNKNOWN, counted, numbers, pass, percent, plus_minus, rate};

/// What is computed from a run's record. Field names are the keys of `sweep.json`'s runs and of the
/// `feedrate` object in `summary.json`; `None` is null and means not known. Means and (population)
/// standard deviations are over epochs, and known only when every epoch's value is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// DLIO's AU (spec/dlio.md 7), mean over epochs.
    pub au_percent_mean: Option<f64>,
    /// Its standard deviation.
    pub au_percent_stdev: Option<f64>,
    /// DLIO's AU of each epoch, mean over ranks.
    pub au_percent_per_epoch: Vec<Option<f64>>,
    /// Whether the mean AU reaches `metric.au`.
    pub au_met: Option<bool>,
    /// AU by the wall clock, no step left out: mean over epochs.
    pub wall_au_percent_mean: Option<f64>,
    /// AU by the wall clock of each epoch.
    pub wall_au_percent_per_epoch: Vec<Option<f64>>,
    /// DLIO's throughput, mean over epochs.
    pub samples_per_second_mean: Option<f64>,
    /// Its standard deviation.
    pub samples_per_second_stdev: Option<f64>,
    /// DLIO's throughput of each epoch, sum over ranks.
    pub samples_per_second_per_epoch: Vec<Option<f64>>,
    /// DLIO's throughput × nominal record length.
    pub io_mib_per_second_mean: Option<f64>,
    /// Its standard deviation.
    pub io_mib_per_second_stdev: Option<f64>,
    /// What the evaluations measured; `None` when there was none.
    #[serde(default)]
    pub evaluation: Option<EvaluationFigures>,
    /// What became of the checkpoints between the steps of training; absent when none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Skipped>,
    /// What became of the page cache before the epochs.
    #[serde(default)]
    pub cache_drops: CacheDrops,
    /// Samples over the epochs' wall time, mean over epochs.
    pub wall_samples_per_second_mean: Option<f64>,
    /// Bytes that arrived over the epochs' wall time, mean over epochs.
    pub wall_mib_per_second_mean: Option<f64>,
    /// User and system time of the run's processes.
    pub client_cpu_seconds: Option<Seconds>,
    /// The same apart by phases; `None` where the run's processes did not note them.
    #[serde(default)]
    pub client_cpu_seconds_by_phase: Option<CpuByPhase>,
    /// The same for each GiB read.
    pub client_cpu_seconds_per_gib: Option<f64>,
    /// The most memory each of the run's processes had resident at once, added up.
    pub client_peak_rss_bytes: Option<ByteCount>,
    /// From sending a GET to its last byte.
    pub get_latency_ms: Percentiles,
    /// From sending a GET to its first byte.
    pub get_first_byte_ms: Percentiles,
    /// Bytes that GETs brought in all epochs.
    pub bytes_read: Option<ByteCount>,
    /// GETs that succeeded in all epochs.
    pub gets: Option<u64>,
    /// Attempts that failed and were repeated.
    pub retries: Option<u64>,
    /// What each endpoint of the store did, by its URL; empty for a folder.
    #[serde(default)]
    pub endpoints: BTreeMap<String, EndpointCounts>,
    /// What the ranks waited for.
    pub verdict: Option<Verdict>,
    /// The rank whose steps took longest over all epochs; `None` where there is one rank, or none is
    /// slower than another.
    pub slowest_rank: Option<RankFigure>,
    /// The rank whose steps took least time.
    pub fastest_rank: Option<RankFigure>,
    /// How many nodes the ranks were on.
    pub nodes: Option<u32>,
    /// Each of them, that of rank 0 first.
    #[serde(default)]
    pub per_node: Vec<NodeFigures>,
    /// GETs in flight, and who decided on their number; `None` where one file is read at a time.
    #[serde(default)]
    pub in_flight: Option<InFlightFigures>,
    /// What was decoded; `None` where nothing was.
    #[serde(default)]
    pub decoded: Option<DecodeSummary>,
    /// Where the time went.
    pub breakdown: Option<Breakdown>,
    /// Repeated attempts by kind.
    pub retries_by_kind: RetryCounts,
    /// From the start of the process to the end of the first step.
    pub time_to_first_step_seconds: Option<Seconds>,
    /// Steps of each rank in an epoch.
    pub steps_per_epoch: u64,
    /// Epochs that were finished.
    pub epochs_finished: u32,
    /// Whether those are all that were asked for.
    #[serde(default)]
    pub complete: bool,
    /// Files that the readers' windows may hold, as a share of an epoch's.
    pub window_share_of_epoch: Option<f64>,
    /// The bound on memory for batches that was in force.
    pub byte_budget_bytes: Option<ByteCount>,
    /// There are epochs, but DLIO's figures do not exist for them.
    pub not_measurable: bool,
    /// Why.
    pub not_measurable_reason: Option<String>,
}

/// What was asked for and is not done: the text `skipped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Skipped {
    /// Asked for, not done.
    Skipped,
}

/// What the evaluations of a run measured (spec/dlio.md 7.4). A value for each evaluated epoch, over
/// all ranks; with a compat setting DLIO's list of one for each of them and each rank (D13).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationFigures {
    /// AU, mean over the list below.
    pub au_percent_mean: Option<f64>,
    /// Its standard deviation.
    pub au_percent_stdev: Option<f64>,
    /// AU of each evaluated epoch, mean over ranks.
    pub au_percent_per_epoch: Vec<Option<f64>>,
    /// Whether the mean AU reaches `metric.au`.
    pub au_met: Option<bool>,
    /// Throughput, mean over the list below.
    pub samples_per_second_mean: Option<f64>,
    /// Its standard deviation.
    pub samples_per_second_stdev: Option<f64>,
    /// Throughput of each evaluated epoch, sum over ranks.
    pub samples_per_second_per_epoch: Vec<Option<f64>>,
    /// Throughput × nominal record length.
    pub io_mib_per_second_mean: Option<f64>,
    /// Its standard deviation.
    pub io_mib_per_second_stdev: Option<f64>,
    /// Steps of each rank in an evaluation.
    pub steps: u64,
    /// Evaluated epochs.
    pub evaluations_finished: u32,
}

/// Percentiles of a latency in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
}

impl From<&LatencySummary> for Percentiles {
    fn from(summary: &LatencySummary) -> Self {
        let LatencySummary { p50, p90, p99, max, .. } = *summary;
        Self { p50, p90, p99, max }
    }
}

impl RunFigures {
    /// Computes all figures of `report`.
    pub(super) fn of(report: &RunReport) -> Self {
        let record = &report.record;
        let phases = PhaseFigures::of(report);
        let per_epoch = |figure: &dyn Fn(&EpochRecord) -> Option<f64>| -> Vec<Option<f64>> {
            record.epochs.iter().map(figure).collect()
        };
        let io = |samples_per_second: f64| {
            nominal_mib_per_second(samples_per_second, report.workload.record_bytes())
        };

        let au = per_epoch(&|epoch| phases.epoch_au_percent(epoch));
        let wall_au = per_epoch(&epoch_wall_au_percent);
        let samples = per_epoch(&|epoch| phases.epoch_samples_per_second(epoch));
        let au_mean = mean_of(&au);
        let not_measurable = !record.epochs.is_empty() && au_mean.is_none();
        let bytes_read = record.requests.bytes;
        let cpu = record.process.cpu;
        let [slowest_rank, fastest_rank] =
            RankFigure::extremes(&record.epochs).map_or([None, None], |both| both.map(Some));
        Self {
            au_percent_mean: au_mean,
            au_percent_stdev: stdev_of(&au),
            au_met: au_mean.map(|mean| mean >= 100.0 * report.workload.metric.au),
            au_percent_per_epoch: au,
            wall_au_percent_mean: mean_of(&wall_au),
            wall_au_percent_per_epoch: wall_au,
            samples_per_second_mean: mean_of(&samples),
            samples_per_second_stdev: stdev_of(&samples),
            io_mib_per_second_mean: mean_of(&samples).map(io),
            io_mib_per_second_stdev: stdev_of(&samples).map(io),
            samples_per_second_per_epoch: samples,
            evaluation: EvaluationFigures::of(report),
            checkpoint: (report.workload.workflow.train && report.workload.workflow.checkpoint)
                .then_some(Skipped::Skipped),
            cache_drops: record.cache_drops.clone(),
            wall_samples_per_second_mean: mean_of(&per_epoch(&epoch_wall_samples_per_second)),
            wall_mib_per_second_mean: mean_of(&per_epoch(&epoch_wall_mib_per_second)),
            client_cpu_seconds: Some(cpu),
            client_cpu_seconds_by_phase: record.process.phases,
            client_cpu_seconds_per_gib: per_gib(Some(cpu), Some(bytes_read)),
            client_peak_rss_bytes: Some(record.process.peak_rss),
            get_latency_ms: Percentiles::from(&record.requests.last_byte_ms),
            get_first_byte_ms: Percentiles::from(&record.requests.first_byte_ms),
            bytes_read: Some(bytes_read),
            gets: Some(record.requests.gets),
            retries: Some(record.requests.retries_total()),
            endpoints: record.requests.endpoints.clone(),
            verdict: verdict(record),
            slowest_rank,
            fastest_rank,
            nodes: Some(report.nodes.count() as u32),
            per_node: NodeFigures::of(report),
            in_flight: InFlightFigures::of(record),
            decoded: Some(record.decoded).filter(|decoded| decoded.pieces > 0),
            breakdown: Breakdown::of(record),
            retries_by_kind: record.requests.retries.clone(),
            time_to_first_step_seconds: record.time_to_first_step,
            steps_per_epoch: record.steps_per_epoch,
            epochs_finished: record.epochs.len() as u32,
            complete: record.epochs.len() == report.workload.train.epochs as usize,
            window_share_of_epoch: Some(record.window_share_of_epoch),
            byte_budget_bytes: Some(record.byte_budget),
            not_measurable,
            not_measurable_reason: not_measurable.then(|| not_measurable_reason(report)),
        }
    }

    /// DLIO's AU in percent, mean and σ.
    pub(crate) fn au_in_words(&self) -> String {
        plus_minus(self.au_percent_mean, self.over_epochs(self.au_percent_stdev), 2)
    }

    /// DLIO's samples/s, mean and σ.
    pub(crate) fn samples_in_words(&self) -> String {
        rate(self.samples_per_second_mean, self.over_epochs(self.samples_per_second_stdev))
    }

    /// DLIO's MiB/s, mean and σ.
    pub(crate) fn io_in_words(&self) -> String {
        rate(self.io_mib_per_second_mean, self.over_epochs(self.io_mib_per_second_stdev))
    }

    /// The σ of a single epoch is 0 by its formula; shown, it would pass for a steady run.
    fn over_epochs(&self, stdev: Option<f64>) -> Option<f64> {
        stdev.filter(|_| self.epochs_finished > 1)
    }

    /// What the ranks waited for, with the criterion; a dash when nothing is known.
    pub(crate) fn verdict_in_words(&self) -> String {
        match (self.verdict, &self.breakdown) {
            (Some(verdict), Some(breakdown)) => breakdown.explain(verdict),
            _ => UNKNOWN.to_owned(),
        }
    }

    /// What the accelerators waited for, in shares; `None` when nothing is known.
    pub(crate) fn waits_in_words(&self) -> Option<String> {
        Some(self.breakdown.as_ref()?.waits?.in_words())
    }

    /// `2: a with ranks 0, 2; b with rank 1`; of many nodes the first.
    pub(crate) fn nodes_in_words(&self) -> String {
        const MOST_NAMED: usize = 8;
        let node = |node: &NodeFigures| {
            let noun = if node.ranks.len() == 1 { "rank" } else { "ranks" };
            format!("{} with {noun} {}", node.host, numbers(&node.ranks))
        };
        let named: Vec<String> = self.per_node.iter().take(MOST_NAMED).map(node).collect();
        let more = if self.per_node.len() > MOST_NAMED { "; …" } else { "" };
        format!("{}: {}{more}", self.per_node.len(), named.join("; "))
    }

    /// `3: 2 × 503, 1 × reset`
    /// What decoding took, apart from reading.
    pub(crate) fn decoding_in_words(&self) -> Option<String> {
        let DecodeSummary { pieces, bytes, time } = self.decoded?;
        let waited = self.breakdown.as_ref().map_or(0.0, |breakdown| breakdown.work_ms_per_step);
        Some(format!(
            "{pieces} reads, {bytes}, {:.3} ms each, {:.1} s of all threads; ranks waited {waited:.3} ms \
             a step for it",
            1e3 * time.0 / pieces as f64,
            time.0,
        ))
    }

    pub(crate) fn retries_in_words(&self) -> String {
        match self.retries {
            None => UNKNOWN.to_owned(),
            Some(0) => "none".to_owned(),
            Some(total) => {
                let kinds: Vec<String> = self
                    .retries_by_kind
                    .iter()
                    .map(|(kind, count)| format!("{count} × {kind}"))
                    .collect();
                format!("{total}: {}", kinds.join(", "))
            }
        }
    }
}

impl EvaluationFigures {
    /// `None` when no epoch of `report` was evaluated.
    fn of(report: &RunReport) -> Option<Self> {
        let phases = PhaseFigures::of(report);
        let epochs = &report.record.epochs;
        let evaluated = |epoch: &&EpochRecord| epoch.ranks.iter().any(|r| r.evaluation.is_some());
        let evaluations_finished = epochs.iter().filter(evaluated).count() as u32;
        if evaluations_finished == 0 {
            return None;
        }
        let io = |samples_per_second: f64| {
            nominal_mib_per_second(samples_per_second, report.workload.record_bytes())
        };
        let au = phases.evaluation_au_percent(epochs);
        let samples = phases.evaluation_samples_per_second(epochs);
        let au_mean = mean_of(&au);
        Some(Self {
            au_percent_mean: au_mean,
            au_percent_stdev: stdev_of(&au),
            au_met: au_mean.map(|mean| mean >= 100.0 * report.workload.metric.au),
            au_percent_per_epoch: au,
            samples_per_second_mean: mean_of(&samples),
            samples_per_second_stdev: stdev_of(&samples),
            io_mib_per_second_mean: mean_of(&samples).map(io),
            io_mib_per_second_stdev: stdev_of(&samples).map(io),
            samples_per_second_per_epoch: samples,
            steps: report.record.evaluation_steps,
            evaluations_finished,
        })
    }

    /// AU, samples/s, MiB/s, in this order, mean and σ.
    pub(crate) fn each_in_words(&self) -> [String; 3] {
        // The σ of a single value is 0 by its formula; shown, it would pass for a steady run.
        let over = |stdev: Option<f64>| stdev.filter(|_| self.evaluations_finished > 1);
        [
            plus_minus(self.au_percent_mean, over(self.au_percent_stdev), 2),
            rate(self.samples_per_second_mean, over(self.samples_per_second_stdev)),
            rate(self.io_mib_per_second_mean, over(self.io_mib_per_second_stdev)),
        ]
    }

    /// `2 × 5 steps: AU 96.13 ± 0.47 %, target 90 %: PASS; 95.2 ± 0.4 samples/s, 23.4 MiB/s`
    pub(crate) fn in_words(&self, target: f64) -> String {
        let [au, samples, io] = self.each_in_words();
        format!(
            "{} × {}: AU {au} %, target {} %: {}; {samples} samples/s, {io} MiB/s",
            self.evaluations_finished,
            counted(self.steps, "step"),
            percent(target),
            pass(self.au_met),
        )
    }
}

/// Mean of values that are all known.
fn mean_of(values: &[Option<f64>]) -> Option<f64> {
    mean(&all_known(values)?)
}

/// Population standard deviation of values that are all known.
fn stdev_of(values: &[Option<f64>]) -> Option<f64> {
    stdev(&all_known(values)?)
}

/// CPU time for each GiB; `None` without either, or when nothing was read.
pub(crate) fn per_gib(cpu: Option<Seconds>, bytes: Option<ByteCount>) -> Option<f64> {
    let gib = bytes?.gib();
    (gib > 0.0).then_some(cpu?.0 / gib)
}

fn not_measurable_reason(report: &RunReport) -> String {
    let window = report.window();
    let outside = window.exclude_start + window.exclude_end;
    if window.expected_steps > outside {
        return "an epoch has no step, or no time, inside the metric window".to_owned();
    }
    format!(
        "the metric window is 0 steps: an epoch has {}, output.metric leaves out the first {} and \
         the last {}",
        window.expected_steps, window.exclude_start, window.exclude_end
    )
}

#[cfg(test)]
mod tests {
    use feedrate_workload::Compat;

    use super::*;
    use crate::fixtures;

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("the figure is known");
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    /// 11 steps of 100 ms waiting and 100 ms computing, batch 1, 64 KiB records.
    #[test]
    fn known_delays_give_half_the_accelerator() {
        let figures = fixtures::known_delays().figures();
        close(figures.au_percent_mean, 50.0);
        close(figures.au_percent_stdev, 0.0);
        close(figures.samples_per_second_mean, 5.0);
        close(figures.io_mib_per_second_mean, 0.3125);
        close(figures.wall_au_percent_mean, 50.0);
        assert_eq!(figures.au_met, Some(false));
        assert_eq!(figures.verdict, Some(Verdict::StorageBound));
        assert!(!figures.not_measurable);
    }

    #[test]
    fn an_empty_window_is_unknown_and_says_why() {
        let figures = fixtures::one_step().figures();
        assert_eq!(figures.au_percent_per_epoch, [None]);
        assert_eq!(figures.samples_per_second_mean, None);
        assert_eq!(figures.io_mib_per_second_mean, None);
        assert_eq!(figures.au_met, None);
        assert!(figures.not_measurable);
        assert!(figures.not_measurable_reason.unwrap().contains("window is 0 steps"));
        close(figures.wall_au_percent_mean, 50.0);
    }

    #[test]
    fn before_the_first_epoch_nothing_is_called_not_measurable() {
        let mut report = fixtures::known_delays();
        report.record.epochs.clear();
        let figures = report.figures();
        assert_eq!(figures.au_percent_mean, None);
        assert!(!figures.not_measurable);
    }

    /// Two ranks, 20 samples in 5 steps of 100 ms waiting and 100 ms computing each, batch 2.
    #[test]
    fn evaluations_are_averaged_over_ranks_in_au_and_summed_in_throughput() {
        let mut report = fixtures::evaluated(2, 2);
        let figures = report.figures().evaluation.unwrap();
        assert_eq!((figures.steps, figures.evaluations_finished), (5, 2));
        assert_eq!(figures.au_percent_per_epoch.len(), 2);
        close(figures.au_percent_mean, 50.0);
        close(figures.samples_per_second_mean, 20.0);
        close(figures.io_mib_per_second_mean, 1.25);
        assert_eq!(figures.au_met, Some(false));

        report.workload.compat = Compat::Mlcommons;
        let figures = report.figures().evaluation.unwrap();
        assert_eq!(figures.au_percent_per_epoch.len(), 4);
        close(figures.au_percent_mean, 25.0);
        close(figures.samples_per_second_mean, 10.0);
        assert_eq!(figures.evaluations_finished, 2);
    }

    #[test]
    fn json_names_the_nodes_and_the_slowest_and_the_fastest_rank() {
        let json = serde_json::to_value(fixtures::two_nodes().figures()).unwrap();
        assert_eq!((&json["nodes"], &json["per_node"][1]["host"]), (&2.into(), &"b".into()));
        for (key, rank, host) in [("slowest_rank", 1, "b"), ("fastest_rank", 0, "a")] {
            assert_eq!((&json[key]["rank"], &json[key]["host"]), (&rank.into(), &host.into()));
            assert!(json[key]["seconds"].is_f64(), "{json}");
        }
        let alone = fixtures::known_delays().figures();
        assert_eq!((alone.nodes, alone.slowest_rank, alone.fastest_rank), (Some(1), None, None));
    }

    #[test]
    fn of_many_nodes_the_first_are_named() {
        let mut figures = fixtures::two_nodes().figures();
        assert_eq!(figures.nodes_in_words(), "2: a with ranks 0, 2; b with rank 1");
        figures.per_node = figures.per_node.into_iter().cycle().take(9).collect();
        let words = figures.nodes_in_words();
        assert!(words.starts_with("9: a with") && words.ends_with("b with rank 1; …"), "{words}");
    }

    #[test]
    fn what_was_not_asked_for_has_no_figures() {
        let mut report = fixtures::known_delays();
        let figures = report.figures();
        assert_eq!((figures.evaluation, figures.checkpoint), (None, None));
        report.workload.workflow.checkpoint = true;
        let json = serde_json::to_value(report.figures()).unwrap();
        assert_eq!(json["checkpoint"], "skipped");
    }

    /// Steps - 2 over the time of the window of 10 steps (spec/dlio.md D2).
    #[test]
    fn upstreams_throughput_is_there_for_those_who_compare_with_it() {
        let mut report = fixtures::known_delays();
        report.workload.compat = Compat::Upstream;
        close(report.figures().samples_per_second_mean, 4.5);
        report.workload.compat = Compat::Mlcommons;
        close(report.figures().samples_per_second_mean, 5.0);
    }

    /// A public v1.0 result (cases.md, golden check). Its samples/s are those of all steps over the
    /// block's time, which is our wall clock; the published times are rounded to 10 ms.
    #[test]
    fn the_golden_result_has_its_published_figures() {
        let figures = fixtures::golden().figures();
        let within = |value: Option<f64>, expected: f64, error: f64| {
            let value = value.expect("the figure is known");
            assert!((value - expected).abs() < error, "{value} is not {expected}");
        };
        within(figures.au_percent_mean, 92.3514, 1e-4);
        within(figures.au_percent_stdev, 0.1356, 1e-4);
        assert_eq!(figures.au_met, Some(true));
        within(figures.wall_samples_per_second_mean, 39.771, 0.005);
        within(figures.wall_mib_per_second_mean, 5_560.36, 1.0);
        within(Some(nominal_mib_per_second(39.77104, 146_600_628.0)), 5_560.36, 0.005);
    }

    #[test]
    fn one_epoch_is_shown_without_a_spread() {
        assert_eq!(fixtures::known_delays().figures().au_in_words(), "50.00");
        assert!(fixtures::run(1, 2, 10).figures().samples_in_words().contains(" ± "));
    }

    #[test]
    fn cpu_per_gib_needs_bytes() {
        close(per_gib(Some(Seconds(3.0)), Some(ByteCount(2 << 30))), 1.5);
        assert_eq!(per_gib(Some(Seconds(3.0)), Some(ByteCount(0))), None);
    }
}
