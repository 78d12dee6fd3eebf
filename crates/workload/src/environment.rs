//! Environment variables that stand in for keys, and the `.env` file (spec/dlio.md 2.10).
//!
//! The environment arrives as a map: nothing here reads the process's own.

use std::collections::BTreeMap;

use crate::origin::{Findings, Origin, Remark};
use crate::schema;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// Which variables give a key its value when neither command line nor file does; the first that is
/// set and not empty counts.
pub(crate) const VARIABLES: &[(&str, &[&str])] = &[
    ("storage.storage_type", &["DLIO_STORAGE_TYPE"]),
    ("storage.storage_root", &["DLIO_BUCKET"]),
    (
        "storage.storage_options.endpoint_url",
        &["S3_ENDPOINT_URIS", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
    ),
    ("storage.storage_options.region", &["AWS_REGION", "AWS_DEFAULT_REGION"]),
    ("output.folder", &["DLIO_OUTPUT_FOLDER"]),
    ("output.log_level", &["DLIO_LOG_LEVEL"]),
    ("compat", &["FEEDRATE_COMPAT"]),
    ("storage.drop_caches", &["FEEDRATE_DROP_CACHES"]),
    ("storage.drop_caches_timeout", &["DLIO_DROP_CACHES_TIMEOUT"]),
];

/// Variables that are read beside the keys: see `Settings::variable`.
pub(crate) const READ_BESIDE: &[&str] = &["DLIO_MAX_AUTO_THREADS", "FEEDRATE_NODE_NAME"];

/// Variables of DLIO that make no difference here, and why.
pub(crate) const IGNORED: &[(&str, &str)] = &[
    ("DLIO_DATA_GEN", "content always comes from dataset.seed"),
    ("DLIO_STORAGE_LIBRARY", "it chooses a Python storage client"),
    ("DLIO_TORCH_SHARING_STRATEGY", "it concerns Python's loader processes; ours are threads"),
];

/// The environment, and the `.env` file below it.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    pub(crate) environment: &'a Variables,
    pub(crate) dotenv: &'a Variables,
}

impl Environment<'_> {
    /// The first of `names` that is set and not empty, in the environment before `.env`.
    pub(crate) fn first(self, names: &[&str]) -> Option<(String, Origin)> {
        let find = |variables: &Variables, origin: fn(String) -> Origin| {
            names.iter().find_map(|name| {
                let value = variables.get(*name).filter(|value| !value.is_empty())?;
                Some((value.clone(), origin((*name).to_owned())))
            })
        };
        find(self.environment, Origin::Environment).or_else(|| find(self.dotenv, Origin::Dotenv))
    }

    /// The value that a variable gives `key`.
    pub(crate) fn value_of(self, key: &str) -> Option<(String, Origin)> {
        let (_, names) = VARIABLES.iter().find(|(known, _)| *known == key)?;
        self.first(names)
    }

    /// Notes variables that look like ours or DLIO's and have no effect.
    pub(crate) fn check(self, findings: &mut Findings) {
        let known = || {
            let of_keys = VARIABLES.iter().flat_map(|(_, names)| names.iter().copied());
            of_keys.chain(READ_BESIDE.iter().copied())
        };
        let origins = |variables: &Variables, origin: fn(String) -> Origin| {
            variables.keys().map(|name| (name.clone(), origin(name.clone()))).collect::<Vec<_>>()
        };
        let mut layers = origins(self.environment, Origin::Environment);
        layers.extend(origins(self.dotenv, Origin::Dotenv));
        for (name, origin) in layers {
            let ours = name.starts_with("DLIO_") || name.starts_with("FEEDRATE_");
            if !ours || known().any(|known| known == name) {
                continue;
            }
            if let Some((_, why)) = IGNORED.iter().find(|(ignored, _)| *ignored == name) {
                let text = format!("accepted without effect: {why}");
                findings.notes.push(Remark::about_key(&origin, name, text));
                continue;
            }
            // What all names begin with says nothing about likeness.
            let (prefix, rest) = name.split_once('_').unwrap_or_default();
            let alike = known().filter_map(|known| known.strip_prefix(prefix)?.strip_prefix('_'));
            let text = match schema::nearest(rest, alike) {
                Some(known) => format!("unknown variable; did you mean {prefix}_{known}?"),
                None => "unknown variable".to_owned(),
            };
            findings.unknown.push(Remark::about_key(&origin, name, text));
        }
    }
}

/// The variables of a `.env` file: lines `KEY=VALUE`, optionally behind `export`, with `#` comment
/// lines; quotes around a value are dropped. Other lines are left out, and the last line for a name
/// counts.
pub fn parse_dotenv(text: &str) -> Variables {
    // Some editors put a byte order mark before the first line.
    text.strip_prefix('\u{feff}')
        .unwrap_or(text)
        .lines()
        .filter_map(|line| {
            let line = line.trim();
            let line = line
                .strip_prefix("export")
                .filter(|rest| rest.starts_with([' ', '\t']))
                .map_or(line, str::trim_start);
            if line.starts_with('#') {
                return None;
            }
            let (name, value) = line.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let unquoted = ['"', '\'']
                .iter()
                .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
            (!name.is_empty()).then(|| (name.to_owned(), unquoted.unwrap_or(value).to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotenv_file_is_read_line_by_line() {
        let text = "# comment\n\nA=1\nexport B = two words \nC='a # b'\nD=\"x\"\nE='\nF=\nG=a=b\n\
                    no assignment\n=x\nexported=1\nA=2\r\n";
        let expected = [
            ("A", "2"),
            ("B", "two words"),
            ("C", "a # b"),
            ("D", "x"),
            ("E", "'"),
            ("F", ""),
            ("G", "a=b"),
            ("exported", "1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = Variables::from(expected);
        assert_eq!(parse_dotenv(text), expected);
        assert_eq!(parse_dotenv(&format!("\u{feff}{text}")), expected);
        let first = parse_dotenv("\u{feff}A=1\n");
        assert_eq!(first, Variables::from([("A".to_owned(), "1".to_owned())]));
    }
}
