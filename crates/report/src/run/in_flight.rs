//! How many GETs a run had in flight, how many it might have had, and why.

use std::fmt::Write;

use feedrate_metrics::in_flight::{InFlight, Interval, Learnt};
use feedrate_metrics::record::RunRecord;
use serde::{Deserialize, Serialize};

use crate::table::Table;
use crate::text::{counted, fixed};

/// What the training's processes had in flight. Each has its own; over several, the least, the median
/// and the most are those of all of them together, and what else there is one of in each process is the
/// largest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InFlightFigures {
    /// Who said how many there may be, `reader.window`: `auto` or `fixed`.
    pub window: String,
    /// How many processes there were.
    pub processes: u32,
    /// GETs that might have been in flight in a process.
    pub allowed: Course,
    /// When the last change of that was, in seconds from the first GET of its process.
    pub allowed_since_seconds: f64,
    /// GETs that were: the average of an interval; the most is the most at once.
    pub gets: Course,
    /// Files, or pieces of files, that the accelerators of a process consume in a second if they never
    /// wait; null for steps that take no time, and with `fixed`.
    pub wanted_per_second: Option<f64>,
    /// The quickest read of one; null with `fixed`.
    pub quickest_ms: Option<f64>,
    /// How often the number was doubled because ranks had to wait.
    pub doubled: u32,
    /// How often it was halved since that brought no less, or since nobody had to wait any more.
    pub halved: u32,
    /// Batches that are asked for ahead of a rank, at the end; null for as many as the windows hold.
    pub batches_ahead: Option<u64>,
    /// The most that ever were.
    pub batches_ahead_max: Option<u64>,
}

/// A number over time. Times in which nothing was in flight do not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// In the first interval.
    pub first: f64,
    /// The least.
    pub min: f64,
    /// The median of the intervals, which are all of one length.
    pub median: f64,
    /// The most.
    pub max: f64,
    /// In the last interval.
    pub last: f64,
}

impl Course {
    /// Of intervals that are those of one process after another, each with its length.
    fn of(processes: &[Vec<Interval>], number: impl Fn(&Interval) -> f64) -> Option<Self> {
        let largest =
            |values: &mut dyn Iterator<Item = &Interval>| values.map(&number).reduce(f64::max);
        let mut all: Vec<f64> = processes.iter().flatten().map(&number).collect();
        all.sort_unstable_by(f64::total_cmp);
        Some(Self {
            first: largest(&mut processes.iter().filter_map(|process| process.first()))?,
            min: *all.first()?,
            median: *all.get(all.len() / 2)?,
            max: *all.last()?,
            last: largest(&mut processes.iter().filter_map(|process| process.last()))?,
        })
    }

    /// `8 / 12.5 / 64`
    fn in_words(&self) -> String {
        [self.min, self.median, self.max].map(|number| fixed(Some(number), 0)).join(" / ")
    }
}

impl InFlightFigures {
    /// `None` where no process noted it.
    pub(super) fn of(record: &RunRecord) -> Option<Self> {
        let noted: Vec<&InFlight> =
            record.processes.iter().filter_map(|process| process.in_flight.as_ref()).collect();
        let busy = |one: &&InFlight| -> Vec<Interval> {
            one.series.intervals().filter(|interval| interval.most > 0).collect()
        };
        let processes: Vec<Vec<Interval>> = noted.iter().map(busy).collect();
        let learnt = || noted.iter().filter_map(|one| one.learnt);
        let most = |number: fn(&Learnt) -> Option<f64>| {
            learnt().filter_map(|learnt| number(&learnt)).reduce(f64::max)
        };
        let changed = |one: &&InFlight| {
            let allowed: Vec<usize> =
                one.series.intervals().map(|interval| interval.allowed).collect();
            let settled = allowed.iter().rev().take_while(|at| Some(*at) == allowed.last()).count();
            (allowed.len() - settled) as f64 * one.series.interval().0
        };
        let mut gets = Course::of(&processes, |interval| interval.mean)?;
        gets.max = processes.iter().flatten().map(|one| one.most).max()? as f64;
        Some(Self {
            window: if learnt().next().is_some() { "auto" } else { "fixed" }.to_owned(),
            processes: noted.len() as u32,
            allowed: Course::of(&processes, |interval| interval.allowed as f64)?,
            allowed_since_seconds: noted.iter().map(changed).fold(0.0, f64::max),
            gets,
            wanted_per_second: most(|learnt| learnt.wanted_per_second),
            quickest_ms: learnt()
                .filter_map(|learnt| Some(1e3 * learnt.quickest?.0))
                .reduce(f64::min),
            doubled: learnt().map(|learnt| learnt.doubled).max().unwrap_or_default(),
            halved: learnt().map(|learnt| learnt.halved).max().unwrap_or_default(),
            batches_ahead: learnt().filter_map(|learnt| learnt.batches_ahead).max(),
            batches_ahead_max: learnt().filter_map(|learnt| learnt.most_batches_ahead).max(),
        })
    }

    fn is_auto(&self) -> bool {
        self.window == "auto"
    }

    /// `auto: 32 at first, 8 since 0.02 s; in flight 5.1 in the median, at most 32`
    pub(crate) fn in_words(&self) -> String {
        let each = if self.processes > 1 { " in each process" } else { "" };
        format!(
            "{}: {} may be{each}; in flight {} in the median, at most {}",
            self.window,
            self.course_in_words(),
            fixed(Some(self.gets.median), 1),
            fixed(Some(self.gets.max), 0),
        )
    }

    /// `32 at first, 8 since 0.02 s`
    fn course_in_words(&self) -> String {
        let Course { first, last, .. } = self.allowed;
        if self.allowed.max - self.allowed.min < 0.5 {
            return fixed(Some(last), 0);
        }
        format!(
            "{first:.0} at first, {last:.0} since {} s",
            fixed(Some(self.allowed_since_seconds), 2)
        )
    }

    /// How the number came about.
    fn reason(&self) -> String {
        let mut text = match (self.wanted_per_second, self.quickest_ms) {
            (Some(wanted), Some(quickest)) => format!(
                "{wanted:.0} files/s wanted × {} ms for the quickest = {} at a time",
                fixed(Some(quickest), 2),
                fixed(Some(wanted * quickest / 1e3), 1),
            ),
            (None, Some(quickest)) => format!(
                "steps take no time, the quickest read took {} ms",
                fixed(Some(quickest), 2)
            ),
            _ => "no read came to its end".to_owned(),
        };
        for (number, how) in [(self.doubled, "doubled"), (self.halved, "halved")] {
            if number > 0 {
                let _ = write!(text, ", {how} {}", counted(u64::from(number), "time"));
            }
        }
        if let (Some(ahead), Some(most)) = (self.batches_ahead, self.batches_ahead_max) {
            let _ = write!(text, "; {ahead} batches ahead");
            if most > ahead {
                let _ = write!(text, ", at most {most}");
            }
        }
        text
    }
}

/// The part of a page on what was in flight, of runs that are each given with their NP; empty where none
/// has noted it.
pub(crate) fn in_flight_section(runs: &[(u32, Option<&InFlightFigures>)]) -> String {
    let known = || runs.iter().filter_map(|(np, figures)| Some((np, (*figures)?)));
    if known().next().is_none() {
        return String::new();
    }
    let mut table = Table::new([
        "NP",
        "reader.window",
        "Might be in flight, least / median / most",
        "Course",
        "In flight, median",
        "Most at once",
    ]);
    let mut reasons = String::new();
    for (np, figures) in known() {
        table.row([
            np.to_string(),
            figures.window.clone(),
            figures.allowed.in_words(),
            figures.course_in_words(),
            fixed(Some(figures.gets.median), 1),
            fixed(Some(figures.gets.max), 0),
        ]);
        if figures.is_auto() {
            let _ = writeln!(reasons, "- NP {np}: {}.", figures.reason());
        }
    }
    let each = if known().any(|(_, figures)| figures.processes > 1) {
        "Each process has its own; these are of all of them. "
    } else {
        ""
    };
    let why = if reasons.is_empty() {
        "The windows say how many there may be.\n".to_owned()
    } else {
        format!(
            "With `auto` as many may be as demand and latency call for, twice over and at least 8, and \
             more if ranks wait and more of them bring more:\n\n{reasons}"
        )
    };
    format!("### GETs in flight\n\n{}{each}{why}\n", table.markdown())
}

#[cfg(test)]
mod tests {
    use feedrate_metrics::in_flight::Series;
    use feedrate_metrics::units::Seconds;
    use serde_json::json;

    use super::*;
    use crate::{RunReport, fixtures};

    const LEARNT: Learnt = Learnt {
        wanted_per_second: Some(4037.0),
        quickest: Some(Seconds(0.000_25)),
        doubled: 1,
        halved: 0,
        batches_ahead: Some(5),
        most_batches_ahead: Some(10),
    };

    /// Ten ms each: 32 allowed, then 8; idle in the third interval.
    fn in_flight(learnt: Option<Learnt>) -> InFlight {
        let series: Series = serde_json::from_value(json!({
            "interval_seconds": 0.01,
            "mean": [20.0, 6.0, 0.0, 2.0],
            "most": [32, 8, 0, 4],
            "allowed": [32, 8, 8, 8],
        }))
        .unwrap();
        InFlight { learnt, series }
    }

    fn report(of_each: &[Option<InFlight>]) -> RunReport {
        let mut report = fixtures::two_nodes();
        let processes = &mut report.record.processes;
        processes.truncate(of_each.len());
        for (process, in_flight) in processes.iter_mut().zip(of_each) {
            process.in_flight.clone_from(in_flight);
        }
        report
    }

    #[test]
    fn idle_times_do_not_count_and_the_last_change_has_its_time() {
        let figures = report(&[Some(in_flight(Some(LEARNT)))]).figures().in_flight.unwrap();
        let expected = Course { first: 32.0, min: 8.0, median: 8.0, max: 32.0, last: 8.0 };
        assert_eq!(figures.allowed, expected);
        let expected = Course { first: 20.0, min: 2.0, median: 6.0, max: 32.0, last: 2.0 };
        assert_eq!(figures.gets, expected);
        assert!((figures.allowed_since_seconds - 0.01).abs() < 1e-9);
        assert_eq!((figures.window.as_str(), figures.processes), ("auto", 1));
    }

    #[test]
    fn a_page_says_how_it_began_where_it_settled_and_why() {
        let page = report(&[Some(in_flight(Some(LEARNT)))]).to_markdown("x".as_ref());
        for part in [
            "### GETs in flight\n",
            "| auto | 8 / 8 / 32 | 32 at first, 8 since 0.01 s | 6.0 | 32 |",
            ": 4037 files/s wanted × 0.25 ms for the quickest = 1.0 at a time, doubled 1 time; 5 batches \
             ahead, at most 10.\n",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("Each process"), "{page}");
    }

    #[test]
    fn fixed_windows_need_no_reason() {
        let both = [Some(in_flight(None)), Some(in_flight(None))];
        let report = report(&both);
        let page = report.to_markdown("x".as_ref());
        assert!(page.contains("| fixed | 8 / 8 / 32 |"), "{page}");
        assert!(page.contains("Each process has its own"), "{page}");
        assert!(page.contains("The windows say how many there may be."), "{page}");
        assert!(report.to_string().contains("in flight      fixed: 32 at first"), "{report}");
    }

    #[test]
    fn a_record_without_it_has_no_figures() {
        let report = report(&[None, None]);
        assert_eq!(report.figures().in_flight, None);
        assert!(!report.to_markdown("x".as_ref()).contains("in flight\n"));
        assert!(!report.to_string().contains("in flight  "));
    }

    #[test]
    fn the_figures_are_read_back_as_they_were() {
        let figures = report(&[Some(in_flight(Some(LEARNT)))]).figures().in_flight.unwrap();
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<InFlightFigures>(&json).unwrap(), figures);
    }
}
