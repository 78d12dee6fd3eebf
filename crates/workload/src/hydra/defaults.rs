//! The list `defaults:` of a configuration file, which says what it is built on, and the comment line
//! `# @package NAME`, which says where in the tree it stands.

use crate::origin::Origin;
use crate::overrides::{is_dotted, is_name};
use crate::tree::yaml::YamlError;
use crate::tree::{Entry, Node, Value};

/// One entry of the list.
#[derive(Debug, PartialEq)]
pub(super) enum Default {
    /// `_self_`: here the file itself is laid over what stands before.
    Itself,
    /// Another file.
    File(File),
}

/// A file that an entry names.
#[derive(Debug, PartialEq)]
pub(super) struct File {
    /// The group as written: with a slash in front it counts from the top, otherwise from the group of
    /// the file that has the list. Empty for a file of that same group.
    pub(super) group: String,
    /// The name in the group; `None` for none.
    pub(super) name: Option<String>,
    /// What stands behind `@`.
    pub(super) package: Option<String>,
    /// Whether it may be absent.
    pub(super) optional: bool,
    pub(super) origin: Origin,
}

/// The entries of `list`. Those that concern Hydra itself are left out.
pub(super) fn parse(list: Node) -> Result<Vec<Default>, YamlError> {
    let Value::Sequence(nodes) = list.value else {
        return Err(refused(&list.origin, "accepts a list such as [_self_, workload: default]"));
    };
    let mut entries = Vec::new();
    for node in nodes {
        match node.value {
            Value::Text(text) if text == "_self_" => entries.push(Default::Itself),
            Value::Text(text) => entries.extend(by_path(&text, node.origin)?),
            Value::Mapping(mapping) => match mapping.into_entries().as_slice() {
                [entry] => entries.extend(by_group(entry)?),
                _ => return Err(refused(&node.origin, "an entry names one group")),
            },
            _ => return Err(refused(&node.origin, "accepts _self_, a file, or GROUP: NAME")),
        }
    }
    Ok(entries)
}

/// `name`, `sub/name` or `/group/name`, perhaps with `@package`.
fn by_path(text: &str, origin: Origin) -> Result<Option<Default>, YamlError> {
    let (path, package) = address(text, &origin)?;
    let (group, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((group, name)) => (group, name),
        None => ("", path),
    };
    file(group, package, Some(name.to_owned()), false, origin)
}

/// `group: name`, perhaps with words in front of the group.
fn by_group(entry: &Entry) -> Result<Vec<Default>, YamlError> {
    let mut words: Vec<_> = entry.name.split_whitespace().collect();
    let group = words.pop().unwrap_or_default();
    let origin = &entry.origin;
    let (group, package) = address(group, origin)?;
    let concerns_hydra = is_hydras(group);
    let (mut optional, mut replaces) = (false, false);
    for word in words {
        match word {
            "optional" => optional = true,
            "override" => replaces = true,
            _ => return Err(refused(origin, "accepts optional or override before a group")),
        }
    }
    if concerns_hydra {
        return Ok(Vec::new());
    }
    if replaces {
        let text = format!("a file cannot choose for {group} here: choose with {group}=NAME");
        return Err(refused(origin, &text));
    }
    let name_in = |node: &Node| match (&node.value, &node.written) {
        (Value::Null, _) => Ok(None),
        (Value::Text(name), _) | (_, Some(name)) => Ok(Some(name.clone())),
        _ => Err(refused(&node.origin, "accepts the name of a file in the group")),
    };
    let names = match &entry.node.value {
        Value::Sequence(nodes) => nodes.iter().map(name_in).collect::<Result<_, _>>()?,
        _ => vec![name_in(&entry.node)?],
    };
    let files = names.into_iter().map(|name| file(group, package, name, optional, origin.clone()));
    Ok(files.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn is_hydras(group: &str) -> bool {
    let group = group.trim_start_matches('/');
    group == "hydra" || group.starts_with("hydra/")
}

/// A path and the package behind `@`.
fn address<'a>(text: &'a str, origin: &Origin) -> Result<(&'a str, Option<&'a str>), YamlError> {
    let (path, package) = text.split_once('@').map_or((text, None), |(p, q)| (p, Some(q)));
    if text.contains("${") || package.is_some_and(|package| !is_dotted(package)) {
        return Err(refused(origin, "accepts names alone, without interpolations"));
    }
    Ok((path, package))
}

fn file(
    group: &str,
    package: Option<&str>,
    name: Option<String>,
    optional: bool,
    origin: Origin,
) -> Result<Option<Default>, YamlError> {
    let parts = group.strip_prefix('/').unwrap_or(group);
    if !parts.is_empty() && !parts.split('/').all(is_name) {
        return Err(refused(&origin, "a group is names joined by slashes"));
    }
    if is_hydras(group) {
        return Ok(None);
    }
    let (group, package) = (group.to_owned(), package.map(str::to_owned));
    Ok(Some(Default::File(File { group, name, package, optional, origin })))
}

pub(super) fn refused(origin: &Origin, text: &str) -> YamlError {
    YamlError { origin: origin.clone(), text: format!("the list of defaults: {text}") }
}

/// What stands behind `@package` in the comments at the head of `text`.
pub(super) fn package_header(text: &str) -> Option<&str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take_while(|line| line.starts_with('#'))
        .find_map(|line| line.trim_start_matches(['#', ' ']).strip_prefix("@package "))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tree::yaml;

    fn read(list: &str) -> Result<Vec<String>, YamlError> {
        let list = yaml::read(&Arc::from("t.yaml"), list).unwrap();
        let shown = |entry: &Default| match entry {
            Default::Itself => "self".to_owned(),
            Default::File(File { group, name, package, optional, .. }) => {
                format!("{group}|{name:?}|{package:?}|{optional}").replace("Some", "")
            }
        };
        parse(list).map(|entries| entries.iter().map(shown).collect())
    }

    #[test]
    fn entries_name_files_by_path_or_by_group() {
        for (list, expected) in [
            ("[_self_]", vec!["self"]),
            ("[base]", vec![r#"|("base")|None|false"#]),
            ("[sub/base]", vec![r#"sub|("base")|None|false"#]),
            ("[/workload/base@_here_]", vec![r#"/workload|("base")|("_here_")|false"#]),
            ("[/base]", vec![r#"/|("base")|None|false"#]),
            ("[workload: x]", vec![r#"workload|("x")|None|false"#]),
            ("[workload@a.b: x]", vec![r#"workload|("x")|("a.b")|false"#]),
            ("[optional workload: x]", vec![r#"workload|("x")|None|true"#]),
            ("[workload: null]", vec!["workload|None|None|false"]),
            ("[workload: 1]", vec![r#"workload|("1")|None|false"#]),
            ("[a: [x, y]]", vec![r#"a|("x")|None|false"#, r#"a|("y")|None|false"#]),
            ("[override hydra/job_logging: disabled, hydra/x: y, hydra: z, /hydra/a/b]", vec![]),
            ("[]", vec![]),
        ] {
            assert_eq!(read(list).unwrap(), expected, "{list}");
        }
    }

    #[test]
    fn what_no_entry_can_be_is_refused_with_its_place() {
        for (list, part) in [
            ("a: b", "accepts a list"),
            ("[3]", "accepts _self_"),
            ("[{a: b, c: d}]", "names one group"),
            ("[override workload: x]", "choose with workload=NAME"),
            ("[strange workload: x]", "optional or override"),
            ("[a: {b: c}]", "the name of a file"),
            ("[a: '${b}', '${c}']", "without interpolations"),
            ("[../a/b: c]", "names joined by slashes"),
            ("[a@b c]", "names alone"),
        ] {
            let message = read(list).unwrap_err().to_string();
            assert!(
                message.starts_with("t.yaml:1:") && message.contains(part),
                "{list}: {message}"
            );
        }
    }

    #[test]
    fn the_package_stands_in_a_comment_at_the_head() {
        for (text, expected) in [
            ("# @package _global_\na: 1\n", Some("_global_")),
            ("\n# comment\n#@package a.b \na: 1\n", Some("a.b")),
            ("a: 1\n# @package x\n", None),
            ("# package x\na: 1\n", None),
            ("", None),
        ] {
            assert_eq!(package_header(text), expected, "{text}");
        }
    }
}
