//! The arguments of `dlio_benchmark`.
//!
//! It is a grammar of its own: overrides that begin with `+` and `~` between options, and options of
//! two letters behind one dash (`-cd`). Options may stand anywhere, take their value behind `=` or as
//! the next argument, and may be shortened as long as it is clear which is meant.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::Composition;
use crate::overrides::Override;
use crate::schema;

/// A command line, sorted.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// What is asked for.
    pub action: Action,
    /// Where configuration files are looked for.
    pub composition: Composition,
    /// The overrides in their order, `workload=NAME` and those of `hydra` among them. `--compat` is
    /// one too, below all others.
    pub overrides: Vec<Override>,
    /// Ranks of the run (`--np`).
    pub np: Option<NonZeroU32>,
    /// Ranks of each process that an MPI launcher started (`--ranks-per-process`).
    pub ranks_per_process: Option<NonZeroU32>,
    /// How often processes tell each other that they are alive (`--heartbeat`).
    pub heartbeat: Option<Duration>,
    /// A process that was not heard of for so long is lost (`--dead-after`).
    pub dead_after: Option<Duration>,
    /// Whether unknown keys and variables are errors (`--strict`).
    pub strict: bool,
    /// Whether S3 without an endpoint may mean the public cloud (`--aws`).
    pub aws: bool,
}

/// What a command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To run the workload.
    Run,
    /// To print the composed configuration (`--cfg job`).
    ShowConfig {
        /// Whether interpolations are resolved (`--resolve`).
        resolve: bool,
    },
    /// To print how the program is used (`--help`).
    Help {
        /// Whether interpolations in the configuration are resolved (`--resolve`).
        resolve: bool,
    },
    /// To print the version (`--version`).
    Version,
}

/// Why a command line has no meaning; the exit status for it is 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// Nobody knows the option.
    #[error("unknown option {option}{}; --help lists them all",
        nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default())]
    Unknown {
        /// As typed, without its value.
        option: String,
        /// The option that it was perhaps meant to be.
        nearest: Option<&'static str>,
    },
    /// Shortened beyond recognition.
    #[error("{option} could mean {}: write it out", candidates.join(", "))]
    Ambiguous {
        /// As typed, without its value.
        option: String,
        /// The options that begin so.
        candidates: Vec<&'static str>,
    },
    /// An option without its value.
    #[error("{option} takes a value: {option}=VALUE or {option} VALUE")]
    NoValue {
        /// Its full name.
        option: &'static str,
    },
    /// An option that takes no value has one.
    #[error("{option} takes no value, but {value:?} is given")]
    SuperfluousValue {
        /// Its full name.
        option: &'static str,
        /// What stands behind the `=`.
        value: String,
    },
    /// A value that the option does not take.
    #[error("{option} = {value:?}: accepts {accepted}")]
    BadValue {
        /// Its full name.
        option: &'static str,
        /// As typed.
        value: String,
        /// What would be right.
        accepted: &'static str,
    },
    /// An option of Hydra that this program does not have.
    #[error("{option} is not supported: {why}")]
    Refused {
        /// Its full name.
        option: &'static str,
        /// What to do instead.
        why: &'static str,
    },
    /// `--resolve` alone.
    #[error("--resolve goes with --cfg job or --help")]
    NothingToResolve,
}

#[derive(Debug, Clone, Copy)]
enum Meaning {
    Help,
    Version,
    Run,
    Cfg,
    Resolve,
    ConfigPath,
    ConfigName,
    ConfigDir,
    Np,
    RanksPerProcess,
    Heartbeat,
    DeadAfter,
    Compat,
    Strict,
    PreferUser,
    Aws,
    Refused(&'static str),
}
use Meaning::Refused;

const SWEEP: &str =
    "one command is one run: start the program once for every combination of values";
const PRINTED: &str = "--cfg job prints the composed configuration";

/// Full name, short name, meaning.
const OPTIONS: &[(&str, Option<&str>, Meaning)] = &[
    ("--help", Some("-h"), Meaning::Help),
    ("--version", None, Meaning::Version),
    ("--run", Some("-r"), Meaning::Run),
    ("--cfg", Some("-c"), Meaning::Cfg),
    ("--resolve", None, Meaning::Resolve),
    ("--config-path", Some("-cp"), Meaning::ConfigPath),
    ("--config-name", Some("-cn"), Meaning::ConfigName),
    ("--config-dir", Some("-cd"), Meaning::ConfigDir),
    ("--np", None, Meaning::Np),
    ("--ranks-per-process", None, Meaning::RanksPerProcess),
    ("--heartbeat", None, Meaning::Heartbeat),
    ("--dead-after", None, Meaning::DeadAfter),
    ("--compat", None, Meaning::Compat),
    ("--strict", None, Meaning::Strict),
    ("--prefer-user", None, Meaning::PreferUser),
    ("--aws", None, Meaning::Aws),
    ("--multirun", Some("-m"), Refused(SWEEP)),
    ("--package", Some("-p"), Refused(PRINTED)),
    ("--info", Some("-i"), Refused(PRINTED)),
    ("--hydra-help", None, Refused("--help tells what this program takes")),
    ("--shell-completion", Some("-sc"), Refused("overrides are not completed by the shell")),
    (
        "--experimental-rerun",
        None,
        Refused("give the overrides of overrides.yaml in the run's snapshot again"),
    ),
];

type Known = &'static (&'static str, Option<&'static str>, Meaning);

/// What the options said so far.
#[derive(Default)]
struct Asked {
    what: What,
    resolve: bool,
    compat: Option<Override>,
}

/// What is asked for; what comes later here is done before the others.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    #[default]
    Run,
    Config,
    Version,
    Help,
}

impl Asked {
    fn also(&mut self, what: What) {
        self.what = self.what.max(what);
    }
}

impl CommandLine {
    /// Sorts the arguments behind the program's name. Overrides are not checked here: a mistake in one is
    /// reported when the request is resolved, together with all others.
    pub fn parse(arguments: &[String]) -> Result<Self, UsageError> {
        let mut asked = Asked::default();
        let mut line = Self {
            action: Action::Run,
            composition: Composition::default(),
            overrides: Vec::new(),
            np: None,
            ranks_per_process: None,
            heartbeat: None,
            dead_after: None,
            strict: false,
            aws: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                line.overrides.extend(arguments.map(|argument| Override::argument(argument)));
                break;
            }
            if !argument.starts_with('-') {
                line.overrides.push(Override::argument(argument));
                continue;
            }
            let (typed, value) = match argument.split_once('=') {
                Some((typed, value)) => (typed, Some(value)),
                None => (argument.as_str(), None),
            };
            line.option(&mut asked, find(typed)?, value, &mut arguments)?;
        }
        let Asked { what, resolve, compat } = asked;
        line.action = match what {
            What::Run if resolve => return Err(UsageError::NothingToResolve),
            What::Run => Action::Run,
            What::Config => Action::ShowConfig { resolve },
            What::Version => Action::Version,
            What::Help => Action::Help { resolve },
        };
        line.overrides.splice(..0, compat);
        Ok(line)
    }

    /// Takes one option; `rest` are the arguments behind it.
    fn option<'a>(
        &mut self,
        asked: &mut Asked,
        &(option, _, meaning): Known,
        value: Option<&'a str>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), UsageError> {
        let mut valued = || {
            let value = value.or_else(|| {
                let next = rest.next()?;
                (!next.starts_with('-')).then_some(next.as_str())
            });
            value.filter(|value| !value.is_empty()).ok_or(UsageError::NoValue { option })
        };
        match meaning {
            Refused(why) => return Err(UsageError::Refused { option, why }),
            Meaning::Cfg => {
                match valued()? {
                    "job" => asked.also(What::Config),
                    "hydra" | "all" => {
                        let why = "only the job's part of the configuration is printed: --cfg job";
                        return Err(UsageError::Refused { option, why });
                    }
                    value => return Err(bad(option, value, "job")),
                }
                return Ok(());
            }
            Meaning::ConfigPath => {
                self.composition.config_path = Some(PathBuf::from(valued()?));
                return Ok(());
            }
            Meaning::ConfigName => {
                valued()?.clone_into(&mut self.composition.config_name);
                return Ok(());
            }
            Meaning::ConfigDir => {
                self.composition.config_dirs.push(PathBuf::from(valued()?));
                return Ok(());
            }
            Meaning::Np => {
                self.np = Some(count(option, valued()?)?);
                return Ok(());
            }
            Meaning::RanksPerProcess => {
                self.ranks_per_process = Some(count(option, valued()?)?);
                return Ok(());
            }
            Meaning::Heartbeat => {
                self.heartbeat = Some(seconds(option, valued()?)?);
                return Ok(());
            }
            Meaning::DeadAfter => {
                self.dead_after = Some(seconds(option, valued()?)?);
                return Ok(());
            }
            Meaning::Compat => {
                let value = valued()?;
                let flag = Override::flag(&format!("--compat {value}"), "compat", value);
                asked.compat = Some(flag.unlisted());
                return Ok(());
            }
            Meaning::Help => asked.also(What::Help),
            Meaning::Version => asked.also(What::Version),
            Meaning::Run => {}
            Meaning::Resolve => asked.resolve = true,
            Meaning::Strict => self.strict = true,
            Meaning::PreferUser => self.composition.prefer_user = true,
            Meaning::Aws => self.aws = true,
        }
        match value {
            Some(value) => Err(UsageError::SuperfluousValue { option, value: value.to_owned() }),
            None => Ok(()),
        }
    }
}

fn count(option: &'static str, value: &str) -> Result<NonZeroU32, UsageError> {
    value.parse().map_err(|_| bad(option, value, "a whole number from 1"))
}

fn seconds(option: &'static str, value: &str) -> Result<Duration, UsageError> {
    let duration = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration
        .filter(|duration| (Duration::from_millis(1)..=Duration::from_hours(24)).contains(duration))
        .ok_or_else(|| bad(option, value, "seconds from 0.001 to 86400"))
}

fn bad(option: &'static str, value: &str, accepted: &'static str) -> UsageError {
    UsageError::BadValue { option, value: value.to_owned(), accepted }
}

/// The option that `typed` names in full, in short, or by its beginning.
fn find(typed: &str) -> Result<Known, UsageError> {
    let exact = OPTIONS.iter().find(|(name, short, _)| *name == typed || *short == Some(typed));
    if let Some(known) = exact {
        return Ok(known);
    }
    let long = typed.starts_with("--");
    let begin: Vec<Known> =
        OPTIONS.iter().filter(|(name, ..)| long && name.starts_with(typed)).collect();
    match begin[..] {
        [known] => Ok(known),
        [] => {
            let names = OPTIONS.iter().map(|(name, ..)| *name);
            Err(UsageError::Unknown {
                option: typed.to_owned(),
                nearest: schema::nearest(typed, names),
            })
        }
        _ => Err(UsageError::Ambiguous {
            option: typed.to_owned(),
            candidates: begin.iter().map(|(name, ..)| *name).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> Result<CommandLine, UsageError> {
        let arguments: Vec<_> =
            line.split(' ').filter(|a| !a.is_empty()).map(str::to_owned).collect();
        CommandLine::parse(&arguments)
    }

    fn overrides(line: &CommandLine) -> Vec<&str> {
        line.overrides.iter().map(Override::text).collect()
    }

    #[test]
    fn options_stand_anywhere_with_their_value_behind_an_equals_sign_or_a_blank() {
        for line in [
            "--config-dir=d --config-path=p --config-name=n --np=3 workload=x ++a.b=1",
            "--config-dir d --config-path p --config-name n --np 3 workload=x ++a.b=1",
            "workload=x -cd d -cp p ++a.b=1 -cn n --np 3",
            "workload=x ++a.b=1 -cd=d -cp=p -cn=n --np=3 -r",
            "workload=x --config-d d --config-p p --config-n n --np 2 --run --np 3 ++a.b=1",
        ] {
            let parsed = parse(line).unwrap();
            assert_eq!(parsed.action, Action::Run, "{line}");
            let Composition { config_dirs, config_path, config_name, prefer_user } =
                &parsed.composition;
            assert_eq!(*config_dirs, [PathBuf::from("d")], "{line}");
            assert_eq!(*config_path, Some(PathBuf::from("p")), "{line}");
            assert_eq!((config_name.as_str(), *prefer_user), ("n", false), "{line}");
            assert_eq!(parsed.np, NonZeroU32::new(3), "{line}");
            assert_eq!(overrides(&parsed), ["workload=x", "++a.b=1"], "{line}");
        }
    }

    #[test]
    fn all_forms_of_overrides_are_kept_as_typed_and_in_their_order() {
        let forms = ["workload=x", "a.b=1", "+a.c=2", "++a.d=[1,2]", "~a.e", "~a.f=3"];
        let parsed = parse(&forms.join(" ")).unwrap();
        assert_eq!(overrides(&parsed), forms);
        assert_eq!(overrides(&parse("a=1 -- b=2 --np").unwrap()), ["a=1", "b=2", "--np"]);
    }

    #[test]
    fn a_bare_command_runs_the_built_in_configuration() {
        let parsed = parse("").unwrap();
        assert_eq!(parsed.composition, Composition::default());
        assert_eq!(parsed.composition.config_name, "config");
        assert!(parsed.overrides.is_empty() && !parsed.strict && !parsed.aws);
    }

    #[test]
    fn what_is_asked_for_follows_from_the_options() {
        for (line, action) in [
            ("--cfg job", Action::ShowConfig { resolve: false }),
            ("-c job --resolve", Action::ShowConfig { resolve: true }),
            ("--resolve workload=x --cfg=job", Action::ShowConfig { resolve: true }),
            ("--help", Action::Help { resolve: false }),
            ("-h --version --cfg job", Action::Help { resolve: false }),
            ("--hel", Action::Help { resolve: false }),
            ("--version --cfg job", Action::Version),
            ("--run", Action::Run),
        ] {
            assert_eq!(parse(line).unwrap().action, action, "{line}");
        }
        let parsed = parse("--strict --prefer-user --aws --compat mlcommons a.b=1").unwrap();
        assert!(parsed.strict && parsed.composition.prefer_user && parsed.aws);
        assert_eq!(overrides(&parsed), ["", "a.b=1"]);
    }

    #[test]
    fn what_has_no_meaning_says_why() {
        for (line, part) in [
            ("--config-dri=x", "unknown option --config-dri; did you mean --config-dir?"),
            ("-x", "unknown option -x"),
            ("-cjob", "unknown option -cjob"),
            ("--conf x", "could mean --config-path, --config-name, --config-dir"),
            ("--config-dir", "--config-dir takes a value"),
            ("--config-dir=", "--config-dir takes a value"),
            ("--np --strict", "--np takes a value"),
            ("--np 0", "--np = \"0\": accepts a whole number from 1"),
            ("--np=x", "accepts a whole number"),
            ("--strict=yes", "--strict takes no value, but \"yes\""),
            ("--cfg hydra", "--cfg is not supported: only the job's part"),
            ("-c all", "only the job's part"),
            ("--cfg jobs", "accepts job"),
            ("--cfg", "--cfg takes a value"),
            ("--resolve", "--resolve goes with"),
            ("--multirun", "one command is one run"),
            ("-m a=1,2", "one command is one run"),
            ("--hydra-help", "not supported"),
            ("--info", "not supported"),
            ("-p x", "not supported"),
            ("--package=x", "not supported"),
            ("-sc install=bash", "not supported"),
            ("--experimental-rerun x", "not supported"),
        ] {
            let message = parse(line).unwrap_err().to_string();
            assert!(message.contains(part), "{line}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_arguments_make_parsing_panic(
            arguments in proptest::collection::vec("[-=+~a-z.é1 ]{0,12}", 0..8)
        ) {
            let _ = CommandLine::parse(&arguments);
        }
    }
}
