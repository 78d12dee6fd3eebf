//! Two sweeps, figure by figure at each NP they share: A is the base, B is held against it.
//!
//! What differs in their settings comes first, so that nobody takes a difference of the question for
//! one of the answer. Then each figure with its spread over epochs, the ratio B ÷ A, and whether that
//! is more than noise ([`feedrate_metrics::stats::compare`]).

mod figures;
mod settings;

use std::fmt;

use feedrate_metrics::record::Stamp;
use feedrate_metrics::stats::{self, Spread, compare};
use serde::{Serialize, Serializer};

use crate::table::Table;
use crate::text::{UNKNOWN, counted, plus_minus};
use crate::{Sweep, SweepRun};

use figures::{FIGURES, Figure};

pub use settings::Difference;

/// How the figures are to be read; one paragraph for text and Markdown.
pub(crate) const HOW_TO_READ: &str = "\
The ± behind a mean is its σ over epochs. The ± behind a ratio is how far from 1 chance alone takes \
it in 95 of 100 cases, by Welch's t-test on the epochs; closer to 1 than that is \"same within the \
noise\". CPU time and GET latencies are one value a run, so their spread is unknown. The test sees the \
noise between the epochs of a run: runs at different times can differ by more, so repeat them before \
trusting a small difference.";

/// Two sweeps side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The base.
    pub a: Side,
    /// What is held against it.
    pub b: Side,
    /// Every setting that is not the same in both.
    pub differences: Vec<Difference>,
    /// The NPs that both measured to the end, ascending.
    pub nps: Vec<NpComparison>,
    /// Why an NP of one of them is not compared, and which runs have no spread.
    pub remarks: Vec<String>,
}

/// Which sweep one side of a comparison is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What it is called in the comparison.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// When it started.
    pub start: Stamp,
    /// The command that made it.
    pub command: String,
}

impl Side {
    /// `sweep` under a name of its own; `folder` is where it lies.
    fn new(name: impl Into<String>, folder: impl Into<String>, sweep: &Sweep) -> Self {
        Self {
            name: name.into(),
            folder: folder.into(),
            start: sweep.start,
            command: sweep.origin.command(),
        }
    }
}

/// The figures of two runs at the same NP.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NpComparison {
    /// Simulated accelerators.
    pub np: u32,
    /// By the key of the figure.
    #[serde(serialize_with = "by_key")]
    pub figures: Vec<(&'static str, FigureComparison)>,
}

fn by_key<S: Serializer>(
    figures: &[(&'static str, FigureComparison)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(key, figure)| (key, figure)))
}

/// One figure of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FigureComparison {
    /// The base's; `None` when it is not known.
    pub a: Option<Spread>,
    /// What is held against it.
    pub b: Option<Spread>,
    /// The two compared, when both are known.
    #[serde(flatten)]
    pub compared: Option<stats::Comparison>,
}

impl FigureComparison {
    fn new(a: Option<Spread>, b: Option<Spread>) -> Self {
        Self { a, b, compared: a.zip(b).map(|(a, b)| compare(a, b)) }
    }
}

impl Comparison {
    /// Compares `b` with `a`. Each comes with what it is called here and where it lies.
    pub fn new(
        (a_name, a_folder, a): (&str, &str, &Sweep),
        (b_name, b_folder, b): (&str, &str, &Sweep),
    ) -> Self {
        let mut comparison = Self {
            a: Side::new(a_name, a_folder, a),
            b: Side::new(b_name, b_folder, b),
            differences: settings::differences(a, b),
            nps: Vec::new(),
            remarks: Vec::new(),
        };
        let mut nps: Vec<u32> = a.runs.iter().chain(&b.runs).map(|run| run.np).collect();
        nps.sort_unstable();
        nps.dedup();
        for np in nps {
            comparison.add(np, (a, a.run(np)), (b, b.run(np)));
        }
        comparison.remark_single_epochs(a_name, a);
        comparison.remark_single_epochs(b_name, b);
        comparison
    }

    fn add(
        &mut self,
        np: u32,
        (a, a_run): (&Sweep, Option<&SweepRun>),
        (b, b_run): (&Sweep, Option<&SweepRun>),
    ) {
        let (Some(a_run), Some(b_run)) = (a_run, b_run) else {
            let only = if a_run.is_some() { &self.a } else { &self.b };
            self.remarks.push(format!("NP {np} is not compared: only {} has it.", only.name));
            return;
        };
        for (side, run) in [(&self.a, a_run), (&self.b, b_run)] {
            if run.failed.is_some() {
                let remark = format!("NP {np} is not compared: it failed in {}.", side.name);
                self.remarks.push(remark);
                return;
            }
        }
        let figures = FIGURES
            .iter()
            .map(|figure| {
                let spread = |sweep, run| Spread::of(&(figure.values)(sweep, run)?);
                (figure.key, FigureComparison::new(spread(a, a_run), spread(b, b_run)))
            })
            .collect();
        self.nps.push(NpComparison { np, figures });
    }

    fn remark_single_epochs(&mut self, name: &str, sweep: &Sweep) {
        let nps: Vec<String> = self
            .nps
            .iter()
            .filter(|compared| {
                sweep.run(compared.np).is_some_and(|run| run.figures.epochs_finished == 1)
            })
            .map(|compared| compared.np.to_string())
            .collect();
        if !nps.is_empty() {
            self.remarks.push(format!(
                "{name} has 1 epoch at NP {}: the spread of its figures is unknown.",
                nps.join(", ")
            ));
        }
    }

    /// `chunked ÷ sliding`
    pub(crate) fn title(&self) -> String {
        format!("{} ÷ {}", self.b.name, self.a.name)
    }

    /// A line for each NP and figure; `None` when no NP is compared.
    pub(crate) fn figure_table(&self) -> Option<Table> {
        let (a, b) = (self.a.name.as_str(), self.b.name.as_str());
        let mut table = Table::new(["NP", "figure", a, b, &self.title(), "finding"]);
        for NpComparison { np, figures } in &self.nps {
            // An NP is named once, so that it stands out as the head of its figures.
            let heads = std::iter::once(np.to_string()).chain(std::iter::repeat(String::new()));
            let rows = heads.zip(FIGURES.iter().zip(figures));
            for (head, (Figure { label, decimals, .. }, (_, figure))) in rows {
                let shown = |spread: Option<Spread>| {
                    plus_minus(
                        spread.map(|spread| spread.mean),
                        spread.and_then(|spread| spread.stdev),
                        *decimals,
                    )
                };
                let compared = figure.compared;
                table.row([
                    head,
                    (*label).to_owned(),
                    shown(figure.a),
                    shown(figure.b),
                    plus_minus(
                        compared.and_then(|compared| compared.ratio),
                        compared.and_then(|compared| compared.noise),
                        3,
                    ),
                    compared.map_or(UNKNOWN.to_owned(), |compared| compared.finding.to_string()),
                ]);
            }
        }
        (!self.nps.is_empty()).then_some(table)
    }

    /// A line for each setting that differs; `None` when none does.
    pub(crate) fn difference_table(&self) -> Option<Table> {
        let mut table = Table::new(["setting", self.a.name.as_str(), self.b.name.as_str()]);
        for Difference { setting, a, b } in &self.differences {
            table.row([setting, a, b]);
        }
        (!self.differences.is_empty()).then_some(table)
    }
}

/// The comparison for a terminal.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Side { name, folder, start, command } in [&self.a, &self.b] {
            writeln!(f, "{name}: {folder}, {}, {command}", start.minute())?;
        }
        match self.difference_table() {
            None => writeln!(f, "\nNo setting differs.\n")?,
            Some(table) => {
                let count = counted(self.differences.len() as u64, "setting");
                let differ = if self.differences.len() == 1 { "differs" } else { "differ" };
                writeln!(f, "\n{count} {differ}:\n{}", table.aligned())?;
            }
        }
        if let Some(table) = self.figure_table() {
            writeln!(f, "{}", table.aligned())?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(f, "{remark}"))?;
        writeln!(f, "{}", crate::text::wrapped(HOW_TO_READ, 100))
    }
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::stats::Finding;

    use super::*;
    use crate::fixtures;
    use crate::{ProcessFacts, Store};

    fn compared(a: &Sweep, b: &Sweep) -> Comparison {
        Comparison::new(("A", "results/a", a), ("B", "results/b", b))
    }

    fn text(comparison: &Comparison) -> String {
        // The zone of the machine that runs the test decides the hour.
        comparison.to_string().replace(&fixtures::stamp().minute(), "2026-05-12 17:39")
    }

    fn finding(comparison: &Comparison, np: u32, key: &str) -> Finding {
        let np = comparison.nps.iter().find(|compared| compared.np == np).unwrap();
        let (_, figure) = np.figures.iter().find(|(known, _)| *known == key).unwrap();
        figure.compared.unwrap().finding
    }

    #[test]
    fn the_text_of_a_comparison() {
        insta::assert_snapshot!(text(&compared(&fixtures::sweep(), &fixtures::chunked_sweep())));
    }

    #[test]
    fn a_sweep_is_the_same_as_itself() {
        let sweep = fixtures::sweep();
        let comparison = compared(&sweep, &sweep);
        assert_eq!(comparison.differences, []);
        assert_eq!(comparison.nps.iter().map(|np| np.np).collect::<Vec<_>>(), [1, 2, 4]);
        for np in &comparison.nps {
            for (key, figure) in &np.figures {
                let compared = figure.compared.unwrap();
                assert_eq!(compared.ratio, Some(1.0), "{key}");
                let single = key.starts_with("client") || key.starts_with("get");
                let expected = if single { Finding::SpreadUnknown } else { Finding::Same };
                assert_eq!(compared.finding, expected, "{key}");
            }
        }
        assert!(text(&comparison).contains("No setting differs."));
    }

    #[test]
    fn a_run_that_waits_longer_is_lower_by_more_than_its_noise() {
        let comparison = compared(&fixtures::sweep(), &fixtures::chunked_sweep());
        for key in ["au_percent", "wall_au_percent", "samples_per_second", "io_mib_per_second"] {
            assert_eq!(finding(&comparison, 4, key), Finding::Lower, "{key}");
        }
        assert_eq!(finding(&comparison, 4, "get_latency_ms_p99"), Finding::SpreadUnknown);
    }

    #[test]
    fn one_epoch_is_said_to_have_no_spread() {
        let single = fixtures::sweep_of(1);
        let comparison = compared(&fixtures::sweep(), &single);
        assert_eq!(finding(&comparison, 1, "au_percent"), Finding::SpreadUnknown);
        let remark = "B has 1 epoch at NP 1, 2, 4: the spread of its figures is unknown.";
        assert_eq!(comparison.remarks, [remark]);
        assert!(comparison.differences.iter().any(|found| found.setting == "train.epochs"));
    }

    #[test]
    fn what_only_one_has_or_failed_is_remarked_and_not_compared() {
        let (mut a, mut b) = (fixtures::sweep(), fixtures::sweep());
        a.runs.retain(|run| run.np != 1);
        b.runs.retain(|run| run.np != 2);
        b.add(SweepRun::failed(2, None, "NP2", ProcessFacts::default(), "no route"));
        let comparison = compared(&a, &b);
        assert_eq!(comparison.nps.iter().map(|np| np.np).collect::<Vec<_>>(), [4]);
        assert_eq!(
            comparison.remarks,
            ["NP 1 is not compared: only B has it.", "NP 2 is not compared: it failed in B.",]
        );
    }

    #[test]
    fn settings_stores_and_hosts_that_differ_are_listed() {
        let (a, mut b) = (fixtures::sweep(), fixtures::sweep());
        b.workload.reader.batch_size = 32;
        b.environment.hostname = "other".to_owned();
        b.environment.store = Store::folder("/data");
        b.origin.tool_version = "0.2.0".to_owned();
        let differences = compared(&a, &b).differences;
        let found: Vec<[&str; 3]> = differences
            .iter()
            .map(|found| [found.setting.as_str(), found.a.as_str(), found.b.as_str()])
            .collect();
        assert_eq!(
            found,
            [
                ["reader.batch_size", "24", "32"],
                ["store", "feedrate's own server, on the client's host", "file system"],
                ["store's location", "bench/data/t0", "/data"],
                ["host", "vm", "other"],
                ["feedrate", "0.1.0", "0.2.0"],
            ]
        );
    }

    #[test]
    fn the_port_of_an_embedded_server_is_no_difference() {
        let (a, mut b) = (fixtures::sweep(), fixtures::sweep());
        b.environment.store.endpoint = Some("http://127.0.0.1:9999".to_owned());
        assert_eq!(compared(&a, &b).differences, []);
    }

    #[test]
    fn figures_are_found_by_their_keys_in_json() {
        let json =
            serde_json::to_value(compared(&fixtures::sweep(), &fixtures::chunked_sweep())).unwrap();
        let au = &json["nps"][0]["figures"]["au_percent"];
        assert_eq!(au["a"]["values"], 3);
        assert!(au["ratio"].is_f64() && au["noise"].is_f64(), "{au}");
        assert_eq!(au["finding"], "lower");
        assert_eq!(json["nps"][0]["figures"]["get_latency_ms_p50"]["finding"], "spread_unknown");
        assert_eq!(json["differences"][0]["setting"], "reader.pipeline");
    }
}
