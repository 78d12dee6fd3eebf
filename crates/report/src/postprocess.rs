//! `dlio_postprocessor`: a text report made from the output folder of a DLIO run, ours or another's
//! (spec/dlio.md 8.7).
//!
//! Each file of the folder is read by a module of its own:
//! 1. `recorded`: the rank files, which say when each phase began and how long each step took,
//! 2. `settings`: the configuration snapshot, which says what a step's time is worth: batch sizes
//!    and record length,
//! 3. `iostat`: what disks and CPUs did meanwhile, where iostat ran beside the benchmark.
//!
//! `phases` joins the rank files with the batch sizes to epochs and their phases, `distribution`
//! condenses many values to seven, and `text` writes it all down.
//!
//! The files come from many versions of DLIO and from runs that were cut short. Only a folder
//! without rank files, and a rank file that is not JSON, stop the report; whatever else is missing is
//! `n/a` in it.

mod distribution;
mod iostat;
mod phases;
mod recorded;
mod settings;
mod text;

use std::io;
use std::path::PathBuf;

use self::iostat::Iostat;
use self::phases::{BatchSizes, Epoch, Kind};
use self::recorded::Recorded;
use self::settings::Settings;
use crate::{ReportError, file};

/// The file of a run's folder that `iostat` writes into while the run goes on.
pub const IOSTAT_FILE: &str = "iostat.json";

/// What the report is made from. What is given here replaces what the folder says.
#[derive(Debug, Clone)]
pub struct Options {
    /// The run's folder; the report is written into it.
    pub output_folder: PathBuf,
    /// The folder of the configuration snapshot, in the output folder unless absolute. Where it does
    /// not exist, `dlio_config` in the output folder is taken.
    pub hydra_folder: PathBuf,
    /// How many ranks to report: those with the lowest numbers. Default: all that left a file.
    pub num_proc: Option<u32>,
    /// How many epochs to report, from the first on. Default: all that are recorded.
    pub epochs: Option<u32>,
    /// Samples per training step and rank.
    pub batch_size: Option<u64>,
    /// Whether to report evaluations. Default: those that are recorded.
    pub do_eval: Option<bool>,
    /// Samples per evaluation step and rank.
    pub batch_size_eval: Option<u64>,
    /// Whether to report checkpoints. Default: those that are recorded.
    pub do_checkpoint: Option<bool>,
    /// The name of the run, in the report and in the name of its file. Default: the model's.
    pub name: Option<String>,
}

/// DLIO's defaults.
impl Default for Options {
    fn default() -> Self {
        Self {
            output_folder: PathBuf::from("./output"),
            hydra_folder: PathBuf::from("./.hydra"),
            num_proc: None,
            epochs: None,
            batch_size: None,
            do_eval: None,
            batch_size_eval: None,
            do_checkpoint: None,
            name: None,
        }
    }
}

/// A written report.
#[derive(Debug, Clone)]
pub struct Postprocessed {
    /// The file: `DLIO_<name>_report.txt`, or `DLIO_report.txt` for a run without a name.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
    /// What was missing or had to be guessed, in sentences for the user.
    pub warnings: Vec<String>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostprocessError {
    /// The folder or a rank file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The file system's reason.
        source: io::Error,
    },
    /// The folder holds no rank files.
    #[error(
        "no results of a DLIO run in {}: looked for <rank>_output.json, <rank>_per_epoch_stats.json \
         and per_epoch_stats.json; name the folder that holds them with --output-folder",
        folder.display()
    )]
    NoResults {
        /// The output folder.
        folder: PathBuf,
    },
    /// A rank file is not JSON, as after a run that was killed while it wrote.
    #[error("{} is not whole JSON; remove it to report the other ranks", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The report could not be written.
    #[error(transparent)]
    Write(#[from] ReportError),
}

/// Everything that the report says.
#[derive(Debug)]
struct Run {
    name: Option<String>,
    ranks: u32,
    batch_sizes: BatchSizes,
    /// Bytes of a sample.
    record_length: Option<f64>,
    epochs: Vec<Epoch>,
    iostat: Option<Iostat>,
}

/// Makes the report of the run in [`Options::output_folder`] and writes it there.
///
/// # Errors
/// When there are no rank files, one of them cannot be read, or the report cannot be written.
pub fn postprocess(options: &Options) -> Result<Postprocessed, PostprocessError> {
    let mut warnings = Vec::new();
    let recorded = Recorded::read(&options.output_folder, options.num_proc, &mut warnings)?;
    let settings = Settings::read(&options.output_folder, &options.hydra_folder, &mut warnings);
    let run = Run::of(options, &recorded, &settings, &mut warnings);

    let path = options.output_folder.join(file_name(run.name.as_deref()));
    let text = text::render(&run);
    file::write(&path, text.as_bytes())?;
    Ok(Postprocessed { path, text, warnings })
}

impl Run {
    fn of(
        options: &Options,
        recorded: &Recorded,
        settings: &Settings,
        warnings: &mut Vec<String>,
    ) -> Self {
        let given_or_found = BatchSizes {
            train: options.batch_size.or(settings.batch_size),
            eval: options.batch_size_eval.or(settings.batch_size_eval),
        };
        let batch_sizes = given_or_found.or_one();
        let mut epochs = phases::epochs(recorded, batch_sizes);

        let expected = options.epochs.or(settings.epochs).unwrap_or(0) as usize;
        if epochs.len() < expected {
            warnings.push(format!(
                "{expected} epochs were expected, {} recorded: the run may have ended early",
                match epochs.len() {
                    1 => "1 is".to_owned(),
                    count => format!("{count} are"),
                }
            ));
        }
        if let Some(count) = options.epochs {
            epochs.truncate(count as usize);
        }

        let asked = [
            (Kind::Eval, options.do_eval, "evaluation"),
            (Kind::Checkpoint, options.do_checkpoint, "checkpoint"),
        ];
        for (kind, wanted, noun) in asked {
            match wanted {
                Some(true) if !has(&epochs, kind) => {
                    warnings.push(format!("no {noun} is recorded in the epochs of the report"));
                }
                Some(false) => epochs
                    .iter_mut()
                    .for_each(|epoch| epoch.phases.retain(|phase| phase.kind != kind)),
                _ => {}
            }
        }

        let unknown = [
            (Kind::Block, given_or_found.train, "batch size", "--batch-size"),
            (Kind::Eval, given_or_found.eval, "batch size of evaluation", "--batch-size-eval"),
        ];
        for (kind, batch_size, noun, option) in unknown {
            if batch_size.is_none() && has(&epochs, kind) {
                warnings.push(format!(
                    "the {noun} is not known and taken as 1, so samples/s counts batches: give it \
                     with {option}"
                ));
            }
        }
        if settings.record_length.is_none() {
            warnings.push(
                "the length of a record is not known, so MiB/s is n/a: neither the configuration \
                 snapshot nor summary.json tells it"
                    .to_owned(),
            );
        }

        Self {
            name: options.name.clone().or_else(|| settings.name.clone()),
            ranks: options.num_proc.unwrap_or(recorded.ranks.len() as u32),
            batch_sizes,
            record_length: settings.record_length,
            epochs,
            iostat: Iostat::read(&options.output_folder.join(IOSTAT_FILE), warnings),
        }
    }
}

fn has(epochs: &[Epoch], kind: Kind) -> bool {
    epochs.iter().any(|epoch| epoch.phases.iter().any(|phase| phase.kind == kind))
}

/// The name of the report's file. What cannot stand in a file name becomes an underscore.
fn file_name(run: Option<&str>) -> String {
    let allowed = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let name = run.unwrap_or_default().trim().replace(|c| !allowed(c), "_");
    if name.is_empty() { "DLIO_report.txt".to_owned() } else { format!("DLIO_{name}_report.txt") }
}

/// Whether a report's file could have this name.
pub(crate) fn is_report(file: &str) -> bool {
    let run = file.strip_prefix("DLIO_").and_then(|rest| rest.strip_suffix("report.txt"));
    run.is_some_and(|run| run.is_empty() || run.len() > 1 && run.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::{dlio, fixtures};

    /// Two ranks and epochs of DLIO over S3, cut to five steps, without a snapshot.
    const FORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/postprocess/fork");
    const IOSTAT: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/postprocess/iostat.json");

    const NO_SNAPSHOT: &str = "no configuration snapshot";

    fn fork() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(FORK).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        folder
    }

    /// A folder with one rank's steps and spans of an epoch.
    fn folder(stats_name: &str, stats: &serde_json::Value, output: &serde_json::Value) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(stats_name), stats.to_string()).unwrap();
        fs::write(folder.path().join("0_output.json"), output.to_string()).unwrap();
        folder
    }

    fn add(folder: &TempDir, name: &str, text: &str) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn of(folder: &Path) -> Options {
        Options { output_folder: folder.to_owned(), ..Options::default() }
    }

    fn report(folder: &TempDir) -> Postprocessed {
        postprocess(&of(folder.path())).unwrap()
    }

    /// The lines of the section that is called `title`, up to the next blank line, without indent.
    fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
        let lines = text.lines().skip_while(|line| line.trim() != title);
        lines.take_while(|line| !line.is_empty()).map(str::trim).collect()
    }

    #[test]
    fn an_output_of_dlio_without_a_snapshot_is_reported() {
        let folder = fork();
        let options = Options {
            batch_size: Some(24),
            name: Some("retinanet".to_owned()),
            ..of(folder.path())
        };
        let written = postprocess(&options).unwrap();
        assert_eq!(written.path, folder.path().join("DLIO_retinanet_report.txt"));
        assert_eq!(fs::read_to_string(&written.path).unwrap(), written.text);
        assert_eq!(written.warnings.len(), 1, "{:?}", written.warnings);
        assert!(written.warnings[0].starts_with(NO_SNAPSHOT), "{:?}", written.warnings);
        insta::assert_snapshot!(written.text);
    }

    #[test]
    fn iostat_adds_what_disks_and_cpus_did_in_each_phase() {
        let folder = fork();
        add(
            &folder,
            ".hydra/config.yaml",
            "workload:\n  model: {name: retinanet}\n  reader: {batch_size: 24}\n",
        );
        add(&folder, ".hydra/overrides.yaml", "[]\n");
        fs::copy(IOSTAT, folder.path().join("iostat.json")).unwrap();
        let written = report(&folder);
        assert_eq!(written.warnings, [""; 0]);
        assert!(written.text.lines().all(|line| line.chars().count() <= 100));
        insta::assert_snapshot!(written.text);
    }

    #[test]
    fn an_older_output_with_evaluations_and_checkpoints_is_reported() {
        let span = |start: u32, end: u32| {
            json!({
                "start": format!("2023-06-27T21:27:{start:02}.000000"),
                "end": format!("2023-06-27T21:27:{end:02}.500000"),
                "duration": f64::from(end - start) + 0.5,
            })
        };
        let epoch = |at: u32| {
            let mut epoch = span(at, at + 9);
            epoch["block1"] = span(at, at + 1);
            epoch["ckpt1"] = span(at + 2, at + 3);
            epoch["block2"] = span(at + 4, at + 5);
            epoch["eval"] = span(at + 6, at + 7);
            epoch
        };
        let steps =
            json!({"block1": [0.5, 0.25], "block2": [0.5, 0.5], "eval": [0.25, 0.125, 0.25]});
        let output = json!({"load": steps, "proc": steps});
        let folder = folder(
            "per_epoch_stats.json",
            &json!({"1": epoch(10), "2": epoch(30)}),
            &json!({"1": output, "2": output, "hostname": "n1"}),
        );
        add(
            &folder,
            ".hydra/config.yaml",
            "workload:\n  model: unet3d\n  dataset: {record_length: 1048576}\n  reader:\n    \
             batch_size: 4\n    batch_size_eval: 1\n  train: {epochs: 3}\n",
        );
        add(
            &folder,
            ".hydra/overrides.yaml",
            "- workload=unet3d\n- ++workload.reader.batch_size_eval=2\n",
        );
        let written = report(&folder);
        assert_eq!(
            written.warnings,
            ["3 epochs were expected, 2 are recorded: the run may have ended early"]
        );
        insta::assert_snapshot!(written.text);

        let options = Options {
            epochs: Some(1),
            do_eval: Some(false),
            do_checkpoint: Some(false),
            ..of(folder.path())
        };
        let written = postprocess(&options).unwrap();
        assert_eq!(written.warnings, [""; 0]);
        assert!(written.text.contains("Block 2"));
        for left_out in ["Block 3", "Eval", "Checkpoint", "Epoch 2"] {
            assert!(!written.text.contains(left_out), "{left_out}");
        }
    }

    #[test]
    fn checkpoint_phases_of_current_outputs_are_numbered_over_the_run() {
        let save = json!({"duration": 0.25, "throughput": 0.0133});
        let folder = folder(
            "0_per_epoch_stats.json",
            &json!({
                "1": {"save_ckpt1": save, "load_ckpt1": {"duration": 0.5}},
                "2": {"save_ckpt1": save},
            }),
            &json!({"1": {"load": {}, "proc": {}}}),
        );
        let text = report(&folder).text;
        assert!(
            section(&text, "Checkpoint 2").iter().any(|line| line.ends_with(" 0.50")),
            "{text}"
        );
        assert!(
            section(&text, "Checkpoint 3").iter().any(|line| line.ends_with(" 0.0133")),
            "{text}"
        );
        assert!(!text.contains("Checkpoint 4"));
    }

    #[test]
    fn our_own_outputs_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let run = fixtures::run(2, 2, 3);
        dlio::write_results(folder.path(), &run).unwrap();
        let config = "{model: {name: org/model 1}, dataset: {record_length_bytes: 1048576.0}, \
                      reader: {batch_size: 2}}";
        let config = feedrate_workload::tree::yaml::read(&"config.yaml".into(), config).unwrap();
        dlio::write_own_snapshot(folder.path(), &config, &[], "t0").unwrap();
        let written = report(&folder);
        assert_eq!(written.warnings, [""; 0]);
        assert_eq!(written.path, folder.path().join("DLIO_org_model_1_report.txt"));
        assert!(written.text.contains("Block 2") && !written.text.contains("Block 3"));
        // One record is a MiB.
        let rates = section(&written.text, "Block 1");
        assert_eq!(rates.len(), 6, "{rates:?}");
        let figures = |label: &str| {
            let line = written.text.lines().find(|line| line.trim().starts_with(label)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(figures("Samples/s:"), figures("MiB/s:"));
        assert!(!written.text.contains("n/a   "), "{}", written.text);
    }

    #[test]
    fn steps_are_summed_over_the_ranks_that_have_them() {
        let folder = folder(
            "0_per_epoch_stats.json",
            &json!({"1": {"block1": {}}}),
            &json!({"1": {"proc": {"block1": [0.5, 0.5, 0.25]}, "load": {"block1": [0.1, 0.1, 0.1]}}}),
        );
        add(&folder, "1_output.json", r#"{"1": {"proc": {"block1": [0.25, 0.0]}}}"#);
        let options = Options { batch_size: Some(1), ..of(folder.path()) };
        let text = postprocess(&options).unwrap().text;
        // 2 + 4, none for the step without a time, 4.
        let expected = "Samples/s: 5.00 1.41 4.00 5.00 5.80 5.98 6.00";
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|line| words(line) == expected), "{text}");
        let block = section(&text, "Block 1");
        assert!(block.iter().any(|line| words(line) == "Avg loading time / rank (s): 0.30"));
        assert!(block.iter().any(|line| words(line) == "Avg processing time / rank (s): 0.75"));
    }

    #[test]
    fn what_is_missing_or_of_another_form_is_not_available() {
        for (stats, output) in [
            (json!({"1": {}}), json!({"1": {}})),
            (json!([]), json!(3)),
            (
                json!({"1": {"start": 5, "block1": {"start": "soon", "duration": "NaN"}, "eval": 1}}),
                json!({"1": {"load": [], "proc": {"block1": "x", "eval": [null, "y"]}}, "x": {}}),
            ),
        ] {
            let folder = folder("0_per_epoch_stats.json", &stats, &output);
            add(&folder, "iostat.json", "{\"sysstat\"");
            add(&folder, "dlio_config/config.yaml", "workload: [\n");
            add(&folder, "dlio_config/overrides.yaml", "5");
            let written = report(&folder);
            assert_eq!(written.path, folder.path().join("DLIO_report.txt"));
            assert!(written.text.contains("n/a"), "{}", written.text);
            for part in ["config.yaml", "iostat.json is left out"] {
                let warned = written.warnings.iter().any(|warning| warning.contains(part));
                assert!(warned, "{part}: {:?}", written.warnings);
            }
        }
    }

    #[test]
    fn given_ranks_and_names_replace_what_is_found() {
        let folder = fork();
        let options = Options {
            num_proc: Some(3),
            batch_size: Some(24),
            name: Some("../a b".to_owned()),
            ..of(folder.path())
        };
        let written = postprocess(&options).unwrap();
        assert_eq!(written.path, folder.path().join("DLIO_.._a_b_report.txt"));
        assert!(written.warnings[0].contains("2 of 3 ranks"), "{:?}", written.warnings);
        let one = postprocess(&Options { num_proc: Some(1), ..options }).unwrap();
        assert_ne!(section(&one.text, "Block 1"), section(&written.text, "Block 1"));
    }

    #[test]
    fn a_batch_size_that_nobody_knows_is_one_and_said() {
        let warnings = report(&fork()).warnings;
        assert!(warnings.iter().any(|warning| warning.contains("--batch-size")), "{warnings:?}");
    }

    #[test]
    fn a_folder_without_results_says_what_was_looked_for_and_where() {
        let folder = tempfile::tempdir().unwrap();
        let message = postprocess(&of(folder.path())).unwrap_err().to_string();
        assert!(message.contains(folder.path().to_str().unwrap()), "{message}");
        assert!(message.contains("<rank>_output.json"), "{message}");
        let absent = postprocess(&of(&folder.path().join("absent"))).unwrap_err();
        assert!(matches!(absent, PostprocessError::Read { .. }), "{absent}");
        add(&folder, "0_output.json", "{\"1\": {");
        let damaged = postprocess(&of(folder.path())).unwrap_err();
        assert!(damaged.to_string().contains("0_output.json"), "{damaged}");
    }
}
