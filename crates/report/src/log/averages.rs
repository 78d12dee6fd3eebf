//! The block of averages that ends a log.

use std::fmt;

use feedrate_workload::Compat;

use super::event::measured;
use crate::RunReport;

/// The block of averages that ends the log, without the newline behind it. What cannot be measured is
/// said to be so; with a compat setting it is DLIO's 0 (spec/dlio.md D24).
#[derive(Debug)]
pub(super) struct Averages<'a>(pub(super) &'a RunReport);

/// The words of a phase's lines, and the decimals of its throughput.
struct Words {
    phase: &'static str,
    io: &'static str,
    verdict: &'static str,
    decimals: usize,
}

const TRAINING: Words =
    Words { phase: "Training", io: "Training I/O", verdict: "train", decimals: 4 };
const EVALUATION: Words = Words { phase: "Eval", io: "Eval", verdict: "eval", decimals: 6 };

/// Mean and standard deviation.
type Spread = (Option<f64>, Option<f64>);

impl fmt::Display for Averages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RULE: &str = "==========================================================";
        let Self(report) = self;
        let figures = report.figures();
        let unknown = (report.workload.compat != Compat::None).then_some((0.0, 0.0));
        let shown = |(mean, stdev): Spread, decimals: usize| {
            mean.zip(stdev).or(unknown).map_or_else(
                || measured(None),
                |(mean, stdev)| format!("{mean:.decimals$} ({stdev:.decimals$})"),
            )
        };
        let lines = |words: &Words, [au, samples, mib]: [Spread; 3], met| {
            let Words { phase, io, verdict, decimals } = words;
            let (samples, mib) = (shown(samples, *decimals), shown(mib, *decimals));
            format!(
                "[METRIC] {phase} Accelerator Utilization [AU] (%): {}\n\
                 [METRIC] {phase} Throughput (samples/second): {samples}\n\
                 [METRIC] {io} Throughput (MiB/second): {mib}\n\
                 [METRIC] {verdict}_au_meet_expectation: {}",
                shown(au, 4),
                expectation(met),
            )
        };
        writeln!(f, "Averaged metric over all steps/epochs")?;
        writeln!(f, "[METRIC] {RULE}")?;
        // DLIO ends this line with a blank.
        writeln!(f, "[METRIC] Number of Simulated Accelerators: {} ", report.np())?;
        if report.workload.workflow.train {
            let spreads = [
                (figures.au_percent_mean, figures.au_percent_stdev),
                (figures.samples_per_second_mean, figures.samples_per_second_stdev),
                (figures.io_mib_per_second_mean, figures.io_mib_per_second_stdev),
            ];
            writeln!(f, "{}", lines(&TRAINING, spreads, figures.au_met))?;
        }
        if let Some(figures) = &figures.evaluation {
            let spreads = [
                (figures.au_percent_mean, figures.au_percent_stdev),
                (figures.samples_per_second_mean, figures.samples_per_second_stdev),
                (figures.io_mib_per_second_mean, figures.io_mib_per_second_stdev),
            ];
            writeln!(f, "{}", lines(&EVALUATION, spreads, figures.au_met))?;
        }
        write!(f, "[METRIC] {RULE}")
    }
}

/// DLIO knows two answers; what cannot be measured has not met anything.
pub(crate) fn expectation(met: Option<bool>) -> &'static str {
    if met == Some(true) { "success" } else { "fail" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_final_block_has_dlios_lines_and_its_blank() {
        assert_eq!(
            Averages(&fixtures::known_delays()).to_string(),
            "Averaged metric over all steps/epochs\n\
             [METRIC] ==========================================================\n\
             [METRIC] Number of Simulated Accelerators: 1 \n\
             [METRIC] Training Accelerator Utilization [AU] (%): 50.0000 (0.0000)\n\
             [METRIC] Training Throughput (samples/second): 5.0000 (0.0000)\n\
             [METRIC] Training I/O Throughput (MiB/second): 0.3125 (0.0000)\n\
             [METRIC] train_au_meet_expectation: fail\n\
             [METRIC] =========================================================="
        );
    }

    #[test]
    fn an_evaluation_adds_its_lines_with_six_decimals() {
        let text = Averages(&fixtures::evaluated(2, 2)).to_string();
        let lines: Vec<&str> = text.lines().skip(7).collect();
        assert_eq!(
            lines,
            [
                "[METRIC] Eval Accelerator Utilization [AU] (%): 50.0000 (0.0000)",
                "[METRIC] Eval Throughput (samples/second): 20.000000 (0.000000)",
                "[METRIC] Eval Throughput (MiB/second): 1.250000 (0.000000)",
                "[METRIC] eval_au_meet_expectation: fail",
                "[METRIC] ==========================================================",
            ]
        );
    }

    #[test]
    fn what_cannot_be_measured_is_said_unless_dlios_zero_is_asked_for() {
        let mut report = fixtures::one_step();
        let text = Averages(&report).to_string();
        assert!(text.contains("[AU] (%): not measurable\n"), "{text}");
        for compat in [Compat::Mlcommons, Compat::Upstream] {
            report.workload.compat = compat;
            let text = Averages(&report).to_string();
            assert!(text.contains("[AU] (%): 0.0000 (0.0000)\n"), "{text}");
        }
    }
}
