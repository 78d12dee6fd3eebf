//! Several sweeps that one command made side by side, run by run in turns: each pipeline, each
//! accelerator. A folder of such a study holds a whole sweep folder for each of its series, and on
//! top of them `comparison.json` and `comparison.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::comparison::HOW_TO_READ;
use crate::table::Table;
use crate::text::{fixed, pass, wrapped};
use crate::{Comparison, ReportError, Sweep, file, sweep};

/// The name of the record, which makes a folder a study's.
pub(crate) const FILE_NAME: &str = "comparison.json";
/// The name of the page for people.
pub(crate) const PAGE_NAME: &str = "comparison.md";
/// The form of the record that this program writes and reads.
const FORMAT_VERSION: u32 = 1;

/// Sweeps over the same NPs, to be compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// In the order in which they take turns; at least one.
    pub series: Vec<Series>,
}

/// One sweep of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// What it is called, which is its folder in the study's too: `chunked`, `b200-sliding`.
    pub name: String,
    /// What was measured.
    pub sweep: Sweep,
}

impl Series {
    /// What tells series of a study apart: the accelerator's workload and the pipeline.
    fn axes(&self) -> (&str, feedrate_workload::Pipeline) {
        (&self.sweep.origin.workload_name, self.sweep.workload.reader.pipeline)
    }

    fn folder(&self, study: &Path) -> PathBuf {
        study.join(&self.name)
    }
}

/// `comparison.json`: the names of the series, whose figures are in their own folders, and how they
/// compare.
#[derive(Serialize)]
struct Record<'a, S> {
    format_version: u32,
    series: Vec<S>,
    comparisons: &'a [Comparison],
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

impl Study {
    /// Each series against the first one that differs from it in the accelerator alone, and against
    /// the first that differs in the pipeline alone.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        for (number, series) in self.series.iter().enumerate() {
            let (workload, pipeline) = series.axes();
            let before = || self.series[..number].iter();
            let other_pipeline = before().find(|base| base.axes().0 == workload);
            let other_accelerator = before().find(|base| base.axes().1 == pipeline);
            for base in [other_pipeline, other_accelerator].into_iter().flatten() {
                comparisons.push(Comparison::new(
                    (&base.name, &base.name, &base.sweep),
                    (&series.name, &series.name, &series.sweep),
                ));
            }
        }
        comparisons
    }

    /// The whole study: every series with its sweep, and the comparisons.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(Record {
            format_version: FORMAT_VERSION,
            series: self.series.iter().collect(),
            comparisons: &self.comparisons(),
        })
    }

    /// The results for a terminal: the table of each series, then the comparisons.
    pub fn console(&self) -> String {
        let mut text = String::new();
        for Series { name, sweep } in &self.series {
            let _ = writeln!(text, "{name}\n{}", sweep.console_table());
        }
        let comparisons = self.comparisons();
        for comparison in &comparisons {
            let _ = writeln!(text, "{}", comparison.title());
            if let Some(table) = comparison.figure_table() {
                let _ = writeln!(text, "{}", table.aligned());
            }
            for remark in &comparison.remarks {
                let _ = writeln!(text, "{remark}");
            }
            if !comparison.remarks.is_empty() {
                text.push('\n');
            }
        }
        text + &wrapped(HOW_TO_READ, 100) + "\n"
    }

    /// Writes every series into its folder below `folder`, and the comparison on top of them.
    pub fn save(&self, folder: &Path) -> Result<(), ReportError> {
        for series in &self.series {
            series.sweep.save(&series.folder(folder))?;
        }
        let record = Record {
            format_version: FORMAT_VERSION,
            series: self.series.iter().map(|series| Name { name: &series.name }).collect(),
            comparisons: &self.comparisons(),
        };
        file::write_json(&folder.join(FILE_NAME), &record)?;
        self.save_page(folder)?;
        Ok(())
    }

    /// Writes the tables and pages of all series and `comparison.md` again, and returns its path.
    pub(crate) fn save_tables(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        for series in &self.series {
            series.sweep.save_tables(&series.folder(folder))?;
        }
        self.save_page(folder)
    }

    fn save_page(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let page = folder.join(PAGE_NAME);
        file::write(&page, self.to_markdown().as_bytes())?;
        Ok(page)
    }

    /// Reads the study in `folder`: which series it has, and each series from its own folder.
    pub fn load(folder: &Path) -> Result<Self, ReportError> {
        let series = Self::names(folder)?
            .into_iter()
            .map(|name| {
                let sweep = Sweep::load(&folder.join(&name))?;
                Ok(Series { name, sweep })
            })
            .collect::<Result<_, ReportError>>()?;
        Ok(Self { series })
    }

    /// The names of the series of the study in `folder`.
    pub(crate) fn names(folder: &Path) -> Result<Vec<String>, ReportError> {
        #[derive(Deserialize)]
        struct Saved {
            series: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let saved: Saved = file::read_record(&folder.join(FILE_NAME), FORMAT_VERSION)?;
        Ok(saved.series.into_iter().map(|series| series.name).collect())
    }

    /// The page for people.
    pub fn to_markdown(&self) -> String {
        let Some(first) = self.series.first().map(|series| &series.sweep) else {
            return String::new();
        };
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        // Two blanks end a line in Markdown.
        let mut page = format!(
            "# {} NP scaling: {}\n\nSweep date: {}  \nfeedrate {}  \nCommand: `{}`\n\n",
            first.model,
            names.join(", "),
            first.start.minute(),
            first.origin.tool_version,
            first.origin.command().replace('`', "'"),
        );
        page += &self.results_section();
        for comparison in self.comparisons() {
            let _ = write!(page, "## {}\n\n", comparison.title());
            if let Some(table) = comparison.difference_table() {
                let _ = write!(page, "Settings that differ:\n\n{}", table.markdown());
            }
            page += &comparison.figure_table().map_or_else(String::new, |table| table.markdown());
            for remark in &comparison.remarks {
                let _ = writeln!(page, "- {remark}");
            }
            if !comparison.remarks.is_empty() {
                page.push('\n');
            }
        }
        let _ = write!(page, "## How to read this\n\n{HOW_TO_READ}\n\n## Reports\n\n");
        for name in names {
            let _ = writeln!(page, "- [{name}]({name}/{})", sweep::PAGE_NAME);
        }
        page
    }

    fn results_section(&self) -> String {
        let mut table = Table::new([
            "NP",
            "Series",
            "AU% (mean ± σ)",
            "Wall AU%",
            "Samples/s (mean ± σ)",
            "I/O MiB/s (mean ± σ)",
            "Client CPU-s/GiB",
            "AU target",
            "Waited for",
        ]);
        let mut nps: Vec<u32> =
            self.series.iter().flat_map(|series| &series.sweep.runs).map(|run| run.np).collect();
        nps.sort_unstable();
        nps.dedup();
        for np in nps {
            for Series { name, sweep } in &self.series {
                let Some(run) = sweep.run(np) else { continue };
                let figures = &run.figures;
                table.row([
                    np.to_string(),
                    name.clone(),
                    figures.au_in_words(),
                    fixed(figures.wall_au_percent_mean, 2),
                    figures.samples_in_words(),
                    figures.io_in_words(),
                    fixed(figures.client_cpu_seconds_per_gib, 3),
                    pass(figures.au_met).to_owned(),
                    run.verdict_or_failure(),
                ]);
            }
        }
        format!(
            "## Results\n\n{}The series took turns, a run of each at an NP before the next NP, so that \
             a change of the machine or the store meets all of them. MiB is 2^20 bytes, GiB 2^30. \
             What a column includes is told in the report of each series.\n\n",
            table.markdown()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures;
    use crate::{ProcessFacts, SweepRun};

    fn series(name: &str, workload: &str, sweep: Sweep) -> Series {
        let mut series = Series { name: name.to_owned(), sweep };
        workload.clone_into(&mut series.sweep.origin.workload_name);
        series
    }

    fn pipelines() -> Study {
        Study {
            series: vec![
                series("sliding", "retinanet_b200", fixtures::sweep()),
                series("chunked", "retinanet_b200", fixtures::chunked_sweep()),
            ],
        }
    }

    #[test]
    fn the_page_of_a_study() {
        let page = pipelines().to_markdown();
        insta::assert_snapshot!(page.replace(&fixtures::stamp().minute(), "2026-05-12 17:39"));
    }

    #[test]
    fn the_text_of_a_study() {
        insta::assert_snapshot!(pipelines().console());
    }

    #[test]
    fn series_are_compared_where_one_thing_differs() {
        let study = Study {
            series: vec![
                series("b200-sliding", "retinanet_b200", fixtures::sweep()),
                series("b200-chunked", "retinanet_b200", fixtures::chunked_sweep()),
                series("mi355-sliding", "retinanet_mi355", fixtures::sweep()),
                series("mi355-chunked", "retinanet_mi355", fixtures::chunked_sweep()),
            ],
        };
        let titles: Vec<String> = study.comparisons().iter().map(Comparison::title).collect();
        assert_eq!(
            titles,
            [
                "b200-chunked ÷ b200-sliding",
                "mi355-sliding ÷ b200-sliding",
                "mi355-chunked ÷ mi355-sliding",
                "mi355-chunked ÷ b200-chunked",
            ]
        );
    }

    #[test]
    fn a_saved_study_is_read_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let study = pipelines();
        study.save(folder.path()).unwrap();
        assert_eq!(Study::load(folder.path()).unwrap(), study);
        for file in ["comparison.md", "sliding/report.md", "chunked/sweep.tsv"] {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
        let saved = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        let saved: Value = serde_json::from_str(&saved).unwrap();
        assert_eq!(saved["comparisons"].as_array().unwrap().len(), 1);
        assert!(saved["series"][1].get("sweep").is_none());
        let json = study.to_json().unwrap();
        assert_eq!(json["comparisons"], saved["comparisons"]);
        assert_eq!(json["series"][1]["sweep"]["workload"]["reader"]["pipeline"], "chunked");
    }

    #[test]
    fn a_run_that_failed_says_why_in_its_row() {
        let mut study = pipelines();
        let failed = SweepRun::failed(8, None, "NP8", ProcessFacts::default(), "503 SlowDown");
        study.series[1].sweep.add(failed);
        let page = study.to_markdown();
        assert!(page.contains("| 8 | chunked | – | – | – | – | – | – | failed: 503 SlowDown |"));
        assert!(page.contains("NP 8 is not compared: only chunked has it."), "{page}");
    }
}
