//! `dlio_postprocessor`: a text report from the folder of a run (spec/dlio.md 8.7).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use feedrate_report::postprocess::{Options, postprocess};

use crate::args::VERSION;
use crate::exit::Outcome;
use crate::output::{say, tell};

/// Make a text report from the output folder of dlio_benchmark
///
/// What is not given is taken from the folder: ranks from its files, the rest from the configuration
/// snapshot in it. Works on the folders of Feedrate, of DLIO and of mlpstorage.
#[derive(Debug, Parser)]
#[command(name = "dlio_postprocessor", version = VERSION, max_term_width = 100)]
#[expect(clippy::doc_markdown, reason = "this is the help that people read in a terminal")]
pub(crate) struct Args {
    /// Folder of the results (also -of)
    #[arg(long, value_name = "DIR", default_value = "./output")]
    output_folder: PathBuf,
    /// Folder of the configuration snapshot, below the output folder (also -hf)
    #[arg(long, value_name = "DIR", default_value = "./.hydra")]
    hydra_folder: PathBuf,
    /// Number of ranks (also -np)
    #[arg(long, value_name = "N")]
    num_proc: Option<u32>,
    /// Number of epochs
    #[arg(short, long, value_name = "N")]
    epochs: Option<u32>,
    /// Samples of a rank's training step (also -bs)
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Whether evaluations are shown (also -de)
    #[arg(long, value_name = "BOOL", value_parser = truth)]
    do_eval: Option<bool>,
    /// Samples of a rank's evaluation step (also -bse)
    #[arg(long, value_name = "N")]
    batch_size_eval: Option<u64>,
    /// Whether checkpoints are shown
    #[arg(short = 'c', long, value_name = "BOOL", value_parser = truth)]
    do_checkpoint: Option<bool>,
    /// Accepted without effect: there is nothing to debug
    #[arg(short, long, value_name = "BOOL", value_parser = truth)]
    debug: Option<bool>,
    /// Name of the run, in place of the model's
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
}

/// The short options of several letters, which the original has and clap has not.
const SHORT: [(&str, &str); 6] = [
    ("-of", "--output-folder"),
    ("-hf", "--hydra-folder"),
    ("-np", "--num-proc"),
    ("-bse", "--batch-size-eval"),
    ("-bs", "--batch-size"),
    ("-de", "--do-eval"),
];

impl Args {
    /// The arguments of the process.
    pub(crate) fn of_process() -> Self {
        Self::parse_from(std::env::args_os().map(spelled_out))
    }
}

/// `-of` is `--output-folder`; also `-of=DIR`.
fn spelled_out(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else { return argument };
    let (option, value) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
    match (SHORT.iter().find(|(short, _)| *short == option), value) {
        (None, _) => argument,
        (Some((_, long)), None) => (*long).into(),
        (Some((_, long)), Some(value)) => format!("{long}={value}").into(),
    }
}

/// The words that the original takes.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "t" | "y" | "1" => Ok(true),
        "no" | "false" | "f" | "n" | "0" => Ok(false),
        _ => Err("accepts yes, no, true, false, t, f, y, n, 1, 0".to_owned()),
    }
}

/// Writes the report and prints it.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let report = postprocess(&Options {
        output_folder: args.output_folder,
        hydra_folder: args.hydra_folder,
        num_proc: args.num_proc,
        epochs: args.epochs,
        batch_size: args.batch_size,
        do_eval: args.do_eval,
        batch_size_eval: args.batch_size_eval,
        do_checkpoint: args.do_checkpoint,
        name: args.name,
    })?;
    for warning in &report.warnings {
        tell(format_args!("warning: {warning}"));
    }
    say(report.text.trim_end());
    tell(format_args!("report in {}", report.path.display()));
    Ok(Outcome::Finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        let words = ["dlio_postprocessor"].into_iter().chain(line.split_whitespace());
        Args::try_parse_from(words.map(|word| spelled_out(word.into()))).unwrap()
    }

    #[test]
    fn every_option_of_the_original_is_understood() {
        let short = args("-of o -hf h -np 2 -e 3 -bs 4 -de yes -bse 5 -c F -d 1 -n x");
        let long = args(
            "--output-folder=o --hydra-folder h --num-proc 2 --epochs=3 --batch-size 4 \
             --do-eval true --batch-size-eval=5 --do-checkpoint no --debug y --name x",
        );
        assert_eq!(format!("{short:?}"), format!("{long:?}"));
        assert_eq!((short.do_eval, short.do_checkpoint), (Some(true), Some(false)));
        assert_eq!(args("-of=o").output_folder, PathBuf::from("o"));
        assert_eq!(args("").output_folder, PathBuf::from("./output"));
        assert!(truth("maybe").is_err());
    }
}
