//! A sweep as a table: tab-separated for programs, aligned for a terminal.

use std::fmt::Write;

use feedrate_workload::Payload;
use serde_json::Value;

use super::{Sweep, SweepRun};
use crate::table::Table;
use crate::text::{UNKNOWN, fixed, pass, percent, rate, shortened};

/// How much of the reason for a failure a table shows; the page and the record have all of it.
const LONGEST_REASON: usize = 100;

/// The columns of `sweep.tsv`: keys of a run in `sweep.json`, `/` going one level deeper and
/// becoming `_` in the header.
const COLUMNS: [&str; 29] = [
    "np",
    "au_percent_mean",
    "au_percent_stdev",
    "au_percent_per_epoch",
    "wall_au_percent_mean",
    "samples_per_second_mean",
    "samples_per_second_stdev",
    "io_mib_per_second_mean",
    "wall_seconds",
    "au_met",
    "scaling_efficiency_percent",
    "client_cpu_seconds",
    "client_cpu_seconds_per_gib",
    "client_peak_rss_bytes",
    "server_cpu_seconds",
    "get_latency_ms/p50",
    "get_latency_ms/p90",
    "get_latency_ms/p99",
    "get_latency_ms/max",
    "get_first_byte_ms/p50",
    "get_first_byte_ms/p90",
    "get_first_byte_ms/p99",
    "get_first_byte_ms/max",
    "bytes_read",
    "gets",
    "retries",
    "verdict",
    "failed",
    "folder",
];

impl SweepRun {
    /// What the run waited for, or why it failed, in a cell of a table.
    pub(crate) fn verdict_or_failure(&self) -> String {
        match (&self.failed, self.figures.verdict) {
            (Some(why), _) => format!("failed: {}", shortened(cause(why), LONGEST_REASON)),
            (None, Some(verdict)) => verdict.name().to_owned(),
            (None, None) => UNKNOWN.to_owned(),
        }
    }
}

/// Of a failed request the reason alone: a status and its code say more in a cell than which of many
/// requests met it.
fn cause(why: &str) -> &str {
    let told = why.split_once(" failed after ").and_then(|(_, after)| after.split_once(": "));
    told.map_or(why, |(_, cause)| cause)
}

impl Sweep {
    /// One header line and a line for each run, tabs between; the numbers of `sweep.json`, an empty
    /// cell where that says null, commas between the values of a list.
    pub fn to_tsv(&self) -> String {
        let mut text = COLUMNS.map(|column| column.replace('/', "_")).join("\t") + "\n";
        for run in &self.runs {
            let run = serde_json::to_value(run).unwrap_or_default();
            let cell =
                |column: &str| run.pointer(&format!("/{column}")).map_or_else(String::new, cell);
            text.push_str(&COLUMNS.map(cell).join("\t"));
            text.push('\n');
        }
        text
    }

    /// The results for a terminal, a line for each run.
    pub fn console_table(&self) -> String {
        let target = percent(self.workload.metric.au);
        let mut table = Table::new([
            "NP".to_owned(),
            "AU %".to_owned(),
            "wall AU %".to_owned(),
            "samples/s".to_owned(),
            "MiB/s".to_owned(),
            "wall s".to_owned(),
            "efficiency %".to_owned(),
            format!("AU ≥ {target} %"),
            "verdict".to_owned(),
        ]);
        for run in &self.runs {
            let figures = &run.figures;
            table.row([
                run.np.to_string(),
                figures.au_in_words(),
                fixed(figures.wall_au_percent_mean, 2),
                figures.samples_in_words(),
                rate(figures.io_mib_per_second_mean, None),
                fixed(run.wall_seconds.map(|wall| wall.0), 1),
                fixed(run.scaling_efficiency_percent, 1),
                pass(figures.au_met).to_owned(),
                run.verdict_or_failure(),
            ]);
        }
        let mut text = table.aligned();
        for run in &self.runs {
            if let Some(reason) = &run.figures.not_measurable_reason {
                let _ = writeln!(text, "AU at NP {} is not measurable: {reason}", run.np);
            }
        }
        for run in &self.runs {
            if let Some(evaluation) = &run.figures.evaluation {
                let words = evaluation.in_words(self.workload.metric.au);
                let _ = writeln!(text, "evaluation at NP {}: {words}", run.np);
            }
        }
        if self.runs.iter().any(|run| run.figures.checkpoint.is_some()) {
            text += "checkpoint: skipped, none was written between the steps\n";
        }
        if self.workload.reader.payload == Payload::Discard {
            text += "payload discard: bytes are received, counted and dropped; nothing lands in \
                     memory\n";
        }
        text
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\t', '\n', '\r'], " "),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessFacts, Skipped, fixtures};

    #[test]
    fn the_table_for_programs() {
        insta::assert_snapshot!(fixtures::sweep().to_tsv());
    }

    #[test]
    fn the_table_for_a_terminal() {
        insta::assert_snapshot!(fixtures::sweep().console_table());
    }

    #[test]
    fn evaluations_and_skipped_checkpoints_are_told_below_the_table() {
        let mut sweep = fixtures::evaluated_sweep();
        let table = sweep.console_table();
        let line = "evaluation at NP 2: 2 × 5 steps: AU 50.00 ± 0.00 %, target 90 %: FAIL; 20.0 ± 0.0 \
                    samples/s, 1.250 ± 0.000 MiB/s\n";
        assert!(table.contains(line), "{table}");
        assert!(!table.contains("checkpoint"), "{table}");
        sweep.runs[0].figures.checkpoint = Some(Skipped::Skipped);
        assert!(sweep.console_table().contains("checkpoint: skipped"));
    }

    #[test]
    fn every_row_has_every_column_whatever_a_run_left() {
        let mut sweep = fixtures::sweep();
        let why = "first line\n\tsecond line";
        sweep.add(SweepRun::failed(8, None, "NP8", ProcessFacts::default(), why));
        let text = sweep.to_tsv();
        assert_eq!(text.lines().count(), 5);
        for line in text.lines() {
            assert_eq!(line.split('\t').count(), COLUMNS.len(), "{line}");
        }
        assert!(sweep.console_table().ends_with("failed: first line\n"));
    }

    #[test]
    fn the_row_of_a_failed_request_says_the_reason() {
        let mut sweep = fixtures::sweep();
        let why = "rank 0: GET data/train/img_000000001_of_600000000.jpeg at s3://data at \
                   http://storage.example:9000 failed after 1 attempt in 830.2µs: 403 \
                   AccessDenied: no (signed with access key AK… from the environment). Check that \
                   these are the keys of this endpoint and that they may do this";
        sweep.add(SweepRun::failed(8, None, "NP8", ProcessFacts::default(), why));
        let table = sweep.console_table();
        assert!(table.lines().last().unwrap().contains("failed: 403 AccessDenied: no"), "{table}");
    }

    #[test]
    fn every_column_is_a_key_of_the_record() {
        let run = serde_json::to_value(&fixtures::sweep().runs[0]).unwrap();
        for column in COLUMNS {
            assert!(run.pointer(&format!("/{column}")).is_some(), "{column}");
        }
    }
}
