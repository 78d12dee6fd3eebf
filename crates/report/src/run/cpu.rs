//! What a run's processes used their CPU time for.

use feedrate_metrics::process::{CpuByPhase, CpuTime};

use crate::table::Table;

/// A part of a page on the phases of runs, each given with its NP; empty where none has noted them. The
/// evaluation has a column where there was any.
pub(crate) fn phases_section(runs: &[(u32, Option<CpuByPhase>)]) -> String {
    let known = || runs.iter().filter_map(|(np, phases)| Some((np, phases.as_ref()?)));
    if known().next().is_none() {
        return String::new();
    }
    let evaluated = known().any(|(_, phases)| phases.evaluation != CpuTime::default());
    let mut header = vec!["NP", "Start", "Training", "Between epochs"];
    if evaluated {
        header.insert(3, "Evaluation");
    }
    let mut table = Table::new(header);
    for (np, CpuByPhase { start, training, evaluation, between }) in known() {
        let mut row = vec![np.to_string(), in_words(start), in_words(training), in_words(between)];
        if evaluated {
            row.insert(3, in_words(evaluation));
        }
        table.row(row);
    }
    format!(
        "Client CPU-s by phase, user + system:\n\n{}Start is everything until the clock of the first \
         epoch starts. Training lies inside the clocks of the epochs. Between epochs records are brought \
         together and results written.\n\n",
        table.markdown()
    )
}

/// `0.50 + 0.25`
fn in_words(time: &CpuTime) -> String {
    format!("{:.2} + {:.2}", time.user.0, time.system.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn runs_that_know_their_phases_have_a_row() {
        let phases = fixtures::known_delays().figures().client_cpu_seconds_by_phase;
        let text = phases_section(&[(1, phases), (2, None)]);
        assert!(text.contains("| NP | Start | Training | Between epochs |\n"), "{text}");
        assert!(text.contains("\n| 1 | 0.20 + 0.05 | 1.00 + 0.50 | 0.15 + 0.10 |\n\n"), "{text}");
        assert_eq!(phases_section(&[(1, None)]), "");
    }

    #[test]
    fn the_evaluation_has_a_column_where_there_was_one() {
        let mut phases = fixtures::known_delays().figures().client_cpu_seconds_by_phase.unwrap();
        std::mem::swap(&mut phases.evaluation, &mut phases.between);
        let text = phases_section(&[(1, Some(phases))]);
        assert!(text.contains("| Training | Evaluation | Between epochs |"), "{text}");
        assert!(text.contains(" | 0.15 + 0.10 | 0.00 + 0.00 |"), "{text}");
    }

    #[test]
    fn json_has_the_phases_and_an_earlier_record_none() {
        let mut report = fixtures::known_delays();
        let json = serde_json::to_value(report.figures()).unwrap();
        let training = &json["client_cpu_seconds_by_phase"]["training"];
        assert_eq!((&training["user"], &training["system"]), (&1.0.into(), &0.5.into()));
        report.record.process.phases = None;
        assert_eq!(report.figures().client_cpu_seconds_by_phase, None);
        assert!(!report.to_markdown("results".as_ref()).contains("by phase"));
    }
}
