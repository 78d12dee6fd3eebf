//! Single changes from the command line: `--set reader.batch_size=4`, a flag that stands for a key,
//! such as `--files 600`, or one of the five forms of Hydra, such as `+workload.train.epochs=2`.
//!
//! An override names a key below the root of the configuration, says what is to be done with it, and
//! carries a value of the grammar in `value`. It is applied to the composed tree, whoever made that.

mod value;

use std::fmt;
use std::sync::Arc;

use crate::origin::{Findings, Origin, Remark};
use crate::schema;
use crate::tree::{Node, Value};

pub(crate) use value::word;

/// Longest option that is read, in bytes.
const MAX_BYTES: usize = 1 << 16;
/// Most parts of a dotted key.
const MAX_PARTS: usize = 16;
/// The node of the root that holds the workload.
pub(crate) const WORKLOAD: &str = "workload";

/// A key and what the command line does with it. `Debug` and [`Override::text`] show neither secrets
/// nor what could be one.
#[derive(Clone)]
pub struct Override {
    /// How it stands in `overrides.yaml`, if it does.
    text: Option<String>,
    origin: Origin,
    content: Result<Change, String>,
}

/// What is to be done with a key.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Dotted from the root of the configuration; for Hydra's groups with slashes and `@package`.
    pub(crate) key: String,
    pub(crate) action: Action,
}

/// The forms of an override.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// `a.b=V`: the key must be there.
    Change(Node),
    /// `+a.b=V`: the key must not be there, unless the value is a list or mapping.
    Add(Node),
    /// `++a.b=V`: either.
    Set(Node),
    /// `~a.b` and `~a.b=V`: the key must be there, and have that value.
    Delete(Option<Node>),
}

impl Override {
    /// `KEY=VALUE` as typed behind `--set`; a leading `++` and `workload.` are dropped. A mistake in
    /// it is reported when the workload is resolved, together with all others.
    pub fn set(option: &str) -> Self {
        let shown = masked(option);
        let origin = origin(&format!("--set {shown}"));
        let text = format!("++{WORKLOAD}.{}", without_prefix(&shown));
        Self::new(option, &shown, text, origin, set)
    }

    /// An argument of `dlio_benchmark` as typed: `KEY=VALUE`, `+KEY=VALUE`, `++KEY=VALUE`, `~KEY` or
    /// `~KEY=VALUE`. A mistake in it is reported when the workload is resolved.
    pub fn argument(argument: &str) -> Self {
        let shown = masked(argument);
        let origin = origin(&shown);
        Self::new(argument, &shown, shown.clone(), origin, form)
    }

    fn new(
        option: &str,
        shown: &str,
        text: String,
        origin: Origin,
        read: fn(&str, &Origin) -> Result<Change, String>,
    ) -> Self {
        let content = if option.len() > MAX_BYTES {
            Err(format!("longer than {MAX_BYTES} bytes"))
        } else {
            read(option, &origin).map_err(|text| {
                if shown == option {
                    text
                } else {
                    "not well-formed, and perhaps a secret".to_owned()
                }
            })
        };
        Self { text: Some(text), origin, content }
    }

    /// The `value` of the flag `typed` (`--files 600`), which stands for `key`. The value is taken
    /// as it is, whatever characters it has.
    pub fn flag(typed: &str, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let hidden = matches!(&value, Value::Text(text) if has_user_info(text));
        let shown = if hidden {
            format!("{} ***", typed.split(['=', ' ']).next().unwrap_or_default())
        } else {
            typed.to_owned()
        };
        let origin = origin(&shown);
        let shown_value = match &value {
            _ if hidden => "***".to_owned(),
            Value::Text(text) => value::written(text),
            _ => Node::new(value.clone(), origin.clone()).to_string(),
        };
        let text = Some(format!("++{WORKLOAD}.{key}={shown_value}"));
        let action = Action::Set(Node::new(value, origin.clone()));
        Self { text, origin, content: Ok(Change { key: format!("{WORKLOAD}.{key}"), action }) }
    }

    /// The same, but kept out of `overrides.yaml`: an option of our own, which other tools that read
    /// that file do not know.
    pub(crate) fn unlisted(self) -> Self {
        Self { text: None, ..self }
    }

    /// How DLIO's snapshots keep overrides and other tools read them: as typed, or as
    /// `++workload.KEY=VALUE` if it was not typed as an override; with `***` for what is or could be
    /// a secret. Empty if it is kept in no file.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What it does, if it is well-formed.
    pub(crate) fn change(&self) -> Option<&Change> {
        self.content.as_ref().ok()
    }

    /// Does it to `root`, in the spelling in which it was typed, but for a key that is there in another.
    pub(crate) fn apply(&self, root: &mut Node, findings: &mut Findings) {
        let result = match &self.content {
            Ok(change) => change.apply(root).map_err(|text| (change, text)),
            Err(text) => {
                return findings.problems.push(Remark::about_key(&self.origin, "override", text));
            }
        };
        if let Err((change, text)) = result {
            findings.problems.push(Remark::about_key(&self.origin, &change.key, text));
        }
    }
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.text.clone().unwrap_or_else(|| self.origin.to_string());
        f.debug_tuple("Override").field(&shown).finish()
    }
}

impl Change {
    fn apply(&self, root: &mut Node) -> Result<(), String> {
        let key = &self.key;
        let (first, path) = match key.split_once('.') {
            Some((first, path)) => (first, Some(path)),
            None => (key.as_str(), None),
        };
        let Some(base) = root.child_mut(first) else {
            return Err(format!(
                "no such key at the root of the configuration: those of a workload begin with \
                 {WORKLOAD}, such as ++{WORKLOAD}.{key}=VALUE"
            ));
        };
        // What is set below a model that is only a name is set beside that name.
        if first == WORKLOAD && path.is_some_and(|path| path.starts_with("model.")) {
            schema::name_model(base);
        }
        // Existence is a matter of meaning, not of spelling.
        let present = path.map(|path| match first {
            WORKLOAD => schema::spellings(path)
                .find(|spelled| base.get(spelled).is_some())
                .unwrap_or_else(|| path.to_owned()),
            _ => path.to_owned(),
        });
        let found = match &present {
            Some(path) => base.get(path),
            None => Some(&*base),
        };
        let value = match &self.action {
            Action::Delete(expected) => {
                let found = found
                    .filter(|node| !node.is_null())
                    .ok_or("cannot be deleted: it is not there")?;
                if expected.as_ref().is_some_and(|expected| !expected.equals(found)) {
                    let hidden =
                        path.is_none_or(|path| schema::is_sensitive(&schema::canonical(path)));
                    let value = if hidden { "***".to_owned() } else { found.to_string() };
                    return Err(format!("not deleted, because its value is {value}"));
                }
                match &present {
                    Some(path) => drop(root.take(&format!("{first}.{path}"))),
                    None if first == WORKLOAD => {
                        return Err(format!("{key} cannot be deleted as a whole"));
                    }
                    None => drop(root.take(first)),
                }
                return Ok(());
            }
            Action::Change(value) if found.is_some() => value,
            Action::Change(_) => {
                return Err(format!(
                    "not there, so it cannot be changed: write +{key}=VALUE to add it, or \
                     ++{key}=VALUE whether it is there or not"
                ));
            }
            Action::Add(value) => match found {
                // Hydra looks at single values only: what has parts is added to what is there.
                Some(node) if !node.is_null() && !has_parts(value) => {
                    return Err(format!(
                        "there already, so it cannot be added: write {key}=VALUE to change it, or \
                         ++{key}=VALUE whether it is there or not"
                    ));
                }
                _ => value,
            },
            Action::Set(value) => value,
        };
        // What is there is changed where it stands.
        let path = match self.action {
            Action::Change(_) => present.as_deref(),
            _ => path,
        };
        let over = match path {
            Some(path) => Node::nested(path, value.clone()),
            None if first != WORKLOAD || value.as_mapping().is_some() => value.clone(),
            None => return Err("accepts a mapping of keys such as model and dataset".to_owned()),
        };
        if matches!(self.action, Action::Change(_))
            && let Some(missing) = first_missing(base, &over, first)
        {
            return Err(format!(
                "{missing} is not there, so it cannot be changed: write +{key}=VALUE to add it"
            ));
        }
        base.merge(over);
        Ok(())
    }
}

fn has_parts(node: &Node) -> bool {
    matches!(node.value, Value::Sequence(_) | Value::Mapping(_))
}

/// The path of the first name in `over` that a mapping in `base`, which stands at `path`, lacks.
fn first_missing(base: &Node, over: &Node, path: &str) -> Option<String> {
    let (base, over) = (base.as_mapping()?, over.as_mapping()?);
    over.entries().iter().find_map(|entry| {
        let path = format!("{path}.{}", entry.name);
        match base.get(&entry.name) {
            Some(node) => first_missing(node, &entry.node, &path),
            None => Some(path),
        }
    })
}

/// `KEY=VALUE` behind `--set`.
fn set(option: &str, origin: &Origin) -> Result<Change, String> {
    let (key, value) =
        option.split_once('=').ok_or("no '=' in it: write KEY=VALUE, such as train.epochs=3")?;
    let path = without_prefix(key);
    if path == WORKLOAD {
        return Err("the workload itself is named as the command's argument".to_owned());
    }
    if !is_dotted(path) {
        return Err(no_key(key));
    }
    let action = Action::Set(value::parse(value, origin)?);
    Ok(Change { key: format!("{WORKLOAD}.{path}"), action })
}

/// One of the five forms of Hydra.
fn form(argument: &str, origin: &Origin) -> Result<Change, String> {
    let (key, value) = match argument.split_once('=') {
        Some((key, value)) => (key, Some(value::parse(value, origin)?)),
        None => (argument, None),
    };
    let name = key.trim_start_matches(['+', '~']);
    let sigil = &key[..key.len() - name.len()];
    if !is_dotted(name) && !is_group(name) {
        return Err(no_key(key));
    }
    let action = match (sigil, value) {
        ("", Some(value)) => Action::Change(value),
        ("+", Some(value)) => Action::Add(value),
        ("++", Some(value)) => Action::Set(value),
        ("~", value) => Action::Delete(value),
        ("" | "+" | "++", None) => {
            return Err(format!("no '=' in it: write {key}=VALUE"));
        }
        _ => return Err(format!("{sigil} does not stand before a key: accepts +, ++ and ~")),
    };
    Ok(Change { key: name.to_owned(), action })
}

fn no_key(key: &str) -> String {
    format!("{key:?} is no key: a key is names joined by dots, such as reader.batch_size")
}

/// Names joined by dots.
pub(crate) fn is_dotted(path: &str) -> bool {
    path.split('.').count() <= MAX_PARTS && path.split('.').all(is_name)
}

/// The address of a group of configuration files: names joined by slashes, perhaps behind it `@` and
/// a dotted package.
fn is_group(path: &str) -> bool {
    let (group, package) = path.split_once('@').map_or((path, None), |(g, p)| (g, Some(p)));
    group.split('/').count() <= MAX_PARTS
        && group.split('/').all(is_name)
        && package.is_none_or(is_dotted)
}

/// A letter, `_` or `$`, then also digits and `-`.
pub(crate) fn is_name(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c))
}

/// `option` without what is, or could be, a secret.
fn masked(option: &str) -> String {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let path = without_prefix(key.trim_start_matches(['+', '~']));
    let of_all = path == WORKLOAD && value.contains("storage_options");
    let hide = of_all
        || schema::is_sensitive(&schema::canonical(path))
        || schema::names_secret(option)
        || has_user_info(value);
    if hide && !value.is_empty() { format!("{key}=***") } else { option.to_owned() }
}

/// The origin of what the option `shown` sets. A long one is cut, because each remark about one of the
/// thousands of keys that it may hold repeats it.
fn origin(shown: &str) -> Origin {
    const MOST: usize = 200;
    let cut = shown.char_indices().nth(MOST).map(|(end, _)| format!("{}...", &shown[..end]));
    Origin::CommandLine(Arc::from(cut.as_deref().unwrap_or(shown)))
}

fn has_user_info(text: &str) -> bool {
    let mut authorities = text.split("://").skip(1).map(|rest| rest.split('/').next());
    authorities.any(|authority| authority.is_some_and(|authority| authority.contains('@')))
}

/// `option` without the prefixes that DLIO's command line has and ours does not need.
fn without_prefix(option: &str) -> &str {
    let option = option.strip_prefix("++").unwrap_or(option);
    option.strip_prefix("workload.").unwrap_or(option)
}

#[cfg(test)]
mod tests;
