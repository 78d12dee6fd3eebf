//! Holds docs/coming-from-dlio.md, the page for users of DLIO, to what the tables of this crate say.

use std::collections::{BTreeMap, BTreeSet};

use crate::environment::{IGNORED, READ_BESIDE, VARIABLES};
use crate::schema::{ALIASES, KEYS, Support};
use crate::{Origin, Request, resolve};

const PAGE: &str = include_str!("../../../docs/coming-from-dlio.md");

/// The header of the tables of keys.
const KEY_TABLES: &[&str] = &["key", "default", "state", "what to know"];

/// The cells of all rows of the page's tables with this header, in the order of the page.
fn rows(header: &[&str]) -> Vec<Vec<&'static str>> {
    let mut rows = Vec::new();
    let mut is_wanted = None;
    for line in PAGE.lines() {
        let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = cells else {
            is_wanted = None;
            continue;
        };
        let cells: Vec<_> = cells.split('|').map(str::trim).collect();
        match is_wanted {
            None => is_wanted = Some(cells == header),
            Some(true) if !cells[0].starts_with("---") => {
                assert_eq!(cells.len(), header.len(), "cells of {line}");
                rows.push(cells);
            }
            Some(_) => {}
        }
    }
    assert!(!rows.is_empty(), "no table {header:?}");
    rows
}

/// What stands between backticks in `cell`.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_key_has_one_row_and_no_row_is_of_another_key() {
    let on_page: Vec<_> = rows(KEY_TABLES).iter().flat_map(|row| code(row[0])).collect();
    let distinct: BTreeSet<_> = on_page.iter().copied().collect();
    assert_eq!(distinct.len(), on_page.len(), "a key has two rows");
    let known: BTreeSet<_> = KEYS.iter().map(|(key, _)| *key).collect();
    assert_eq!(distinct, known);
}

#[test]
fn the_state_of_a_key_is_what_becomes_of_it() {
    let explained: BTreeSet<_> = rows(&["state", "means"]).into_iter().map(|row| row[0]).collect();
    let states: BTreeMap<_, _> = rows(KEY_TABLES)
        .iter()
        .map(|row| (code(row[0]).next().unwrap_or_default(), row[2]))
        .collect();
    for (key, support) in KEYS {
        let state = states[key];
        let possible: &[_] = match support {
            Support::Read => &["same", "better", "partly", "later", "ours"],
            Support::Ignored(_) => &["ignored"],
            Support::RefusedUnless(..) => &["refused"],
        };
        assert!(possible.contains(&state), "{key} is {support:?}, not {state}");
        assert!(explained.contains(state), "{state} is not explained");
    }
}

#[test]
fn the_defaults_are_those_of_an_empty_workload() {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(&file, "{}").unwrap();
    let workload = file.path().to_str().unwrap().to_owned();
    let resolved = resolve(&Request { workload: workload.into(), ..Request::default() }).unwrap();
    let mut defaults = BTreeMap::new();
    for value in &resolved.values {
        assert_eq!(value.origin, Origin::Default, "{}", value.key);
        defaults.insert(value.key, format!("`{}`", value.value));
    }
    for row in rows(KEY_TABLES) {
        let key = code(row[0]).next().unwrap_or_default();
        let default = defaults.remove(key).unwrap_or_else(|| "–".to_owned());
        assert_eq!(row[1], default, "{key}");
    }
    assert!(defaults.is_empty(), "no row for {defaults:?}");
}

#[test]
fn every_old_spelling_is_named_with_its_meaning() {
    let rows = rows(&["old", "means"]);
    for (old, new) in ALIASES {
        let row = rows.iter().find(|row| code(row[0]).any(|word| word == *old));
        let row = row.unwrap_or_else(|| panic!("no row for {old}"));
        assert_eq!(code(row[1]).next(), Some(*new), "{old}");
    }
}

#[test]
fn every_variable_has_one_row_and_none_is_named_that_nobody_knows() {
    let rows = rows(&["variable", "state", "what it does"]);
    let state_of = |variable: &str| {
        let named: Vec<_> =
            rows.iter().filter(|row| code(row[0]).any(|name| name == variable)).collect();
        assert_eq!(named.len(), 1, "rows of {variable}");
        named[0][1]
    };
    let read: BTreeSet<_> = VARIABLES
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .chain(READ_BESIDE.iter().copied())
        .collect();
    for variable in &read {
        assert!(["same", "better", "ours"].contains(&state_of(variable)), "{variable}");
    }
    for (variable, _) in IGNORED {
        assert_eq!(state_of(variable), "ignored", "{variable}");
    }
    let named = rows.iter().flat_map(|row| code(row[0]));
    for variable in named.filter(|name| name.starts_with("DLIO_") || name.starts_with("FEEDRATE_"))
    {
        let ignored = IGNORED.iter().any(|(name, _)| *name == variable);
        assert!(read.contains(variable) || ignored, "{variable} is not known");
    }
}

#[test]
fn every_deviation_of_the_specification_has_one_row_in_order() {
    let rows = rows(&["#", "DLIO", "ours", "old one with `--compat`"]);
    let numbers: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
    let all: Vec<_> = (1..=53).map(|number| format!("D{number}")).collect();
    assert_eq!(numbers, all);
}
