//! One function that sends any bytes through everything that reads what users write, for the fuzz
//! target in `fuzz/` and for the tests that do the same for a moment.
//!
//! No file is opened, whatever the input names: the YAML is held in memory, and of the configuration
//! files only those in the program are reached.

use std::hint::black_box;
use std::path::PathBuf;

use jiff::civil::date;
use jiff::tz::TimeZone;

use crate::environment::parse_dotenv;
use crate::hydra::{CommandLine, Composition, query};
use crate::overrides::Override;
use crate::resolve::{
    Request, ResolveError, Resolved, Source, compose, compose_text, resolve, resolve_text,
};
use crate::schedule::Schedule;
use crate::schema;

/// The line between the parts of an input.
const DIVIDER: &str = "\n%%\n";

/// Composes and resolves `input`: a workload file, arguments one per line, and the lines of a `.env` file,
/// with lines `%%` between them. Whatever is found wrong with them is fine.
///
/// The arguments are taken as options of `--set` and as those of `dlio_benchmark`, and the latter meet
/// the file as well as the presets.
///
/// # Panics
/// Never: that is what it is for.
pub fn exercise(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut parts = input.splitn(3, DIVIDER);
    let mut part = || parts.next().unwrap_or_default();
    let (file, arguments, environment) = (part(), part(), part());
    let arguments: Vec<_> = arguments.lines().map(str::to_owned).collect();
    let mut request = Request {
        overrides: arguments.iter().map(|argument| Override::set(argument)).collect(),
        environment: parse_dotenv(environment),
        started: date(2026, 3, 4).at(5, 6, 7, 89_000_000).to_zoned_datetime(TimeZone::UTC).ok(),
        directory: PathBuf::from("/work"),
        ..Request::default()
    };
    of_text(file, &request);

    let line = match CommandLine::parse(&arguments) {
        Ok(line) => line,
        Err(error) => return show(&error),
    };
    let CommandLine { composition, overrides, strict, aws, .. } = line;
    request = Request { overrides, aws, strict, ..request };
    of_text(file, &request);
    let composition = Composition { config_dirs: Vec::new(), config_path: None, ..composition };
    request.workload = Source::Composed(composition);
    for interpolate in [false, true] {
        show(&compose(&request, interpolate));
    }
    judge(&resolve(&request));
}

/// What becomes of the workload file `file`.
fn of_text(file: &str, request: &Request) {
    for interpolate in [false, true] {
        show(&compose_text("input.yaml", file, request, interpolate));
    }
    judge(&resolve_text("input.yaml", file, request));
}

/// Asks of what was resolved what the program asks of it, or shows the error.
fn judge(resolved: &Result<Resolved, ResolveError>) {
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) => return show(&error.to_string()),
    };
    show(resolved);
    for ranks in [1, 8, u32::MAX] {
        show(&Schedule::new(&resolved.workload, ranks));
        show(&Schedule::evaluation(&resolved.workload, ranks));
    }
    for (key, _) in schema::KEYS {
        show(&query(resolved, key));
    }
}

/// Makes the text, which nobody reads.
fn show(value: &impl std::fmt::Debug) {
    black_box(format!("{value:?}"));
}
