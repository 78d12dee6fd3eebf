//! Typed values of keys, whichever layer they stand in. A value that is not accepted becomes a
//! problem, and reading goes on with the default, so that one run finds every problem.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::environment::Environment;
use crate::interpolation::{Interpolation, Scope};
use crate::origin::{Origin, Remark};
use crate::resolve::{ResolvedValue, StoreDefaults};
use crate::schema;
use crate::tree::{Node, Value};

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// The words that a key accepts.
pub(crate) struct Choices<T: 'static> {
    pub(crate) supported: &'static [(&'static str, T)],
    /// Words of DLIO that are refused as not supported yet.
    pub(crate) not_supported: &'static [&'static str],
}

impl<T: Copy + PartialEq> Choices<T> {
    /// The value whose word `node` is.
    pub(crate) fn parse(&self, node: &Node) -> Result<T, String> {
        let names: Vec<_> = self.supported.iter().map(|(name, _)| *name).collect();
        let accepted = format!("accepts {}", names.join(", "));
        let Value::Text(word) = &node.value else { return Err(accepted) };
        if let Some((_, value)) =
            self.supported.iter().find(|(name, _)| name.eq_ignore_ascii_case(word))
        {
            return Ok(*value);
        }
        if self.not_supported.iter().any(|name| name.eq_ignore_ascii_case(word)) {
            return Err(format!("known to DLIO, but not supported: {accepted}"));
        }
        match schema::nearest(word, names) {
            Some(near) => Err(format!("{accepted}; did you mean {near}?")),
            None => Err(accepted),
        }
    }

    /// The word for `value`.
    pub(crate) fn name(&self, value: T) -> &'static str {
        self.supported.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| *name)
    }
}

/// Reads keys from the layers and keeps what it finds to say.
pub(crate) struct Settings<'a> {
    /// Workload file and command line, and what values in them can refer to.
    scope: Scope<'a>,
    environment: Environment<'a>,
    store_defaults: &'a StoreDefaults,
    pub(crate) problems: Vec<Remark>,
    pub(crate) warnings: Vec<Remark>,
    pub(crate) values: Vec<ResolvedValue>,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(
        scope: Scope<'a>,
        environment: Environment<'a>,
        store_defaults: &'a StoreDefaults,
    ) -> Self {
        let (problems, warnings, values) = Default::default();
        Self { scope, environment, store_defaults, problems, warnings, values }
    }

    /// The value of `key` on the command line or in the file, unless null.
    pub(crate) fn find_written(&mut self, key: &str) -> Option<Node> {
        let node = self.scope.workload.get(key).filter(|node| !node.is_null())?;
        match Interpolation::new(self.scope, key).resolve(node) {
            Ok(node) => Some(node).filter(|node| !node.is_null()),
            Err(text) => {
                self.refuse(key, node, text);
                None
            }
        }
    }

    /// The value of `key` in the highest layer that has it.
    pub(crate) fn find(&mut self, key: &str) -> Option<Node> {
        self.find_written(key).or_else(|| {
            let (value, origin) =
                self.environment.value_of(key).or_else(|| self.store_defaults.value_of(key))?;
            // A number for those keys that take one; those that take text take it as it was written.
            Some(match value.parse::<u64>() {
                Ok(number) if number.to_string() == value => {
                    Node { written: Some(value), ..Node::new(number, origin) }
                }
                _ => Node::new(value, origin),
            })
        })
    }

    /// Notes that the value of `key` is not accepted.
    pub(crate) fn refuse(&mut self, key: &str, node: &Node, text: impl Into<String>) {
        self.problems.push(Remark::about_value(key, node, text));
    }

    /// Notes a problem of `key` that needs no value shown.
    pub(crate) fn object(&mut self, origin: &Origin, key: &str, text: impl Into<String>) {
        self.problems.push(Remark::about_key(origin, key, text));
    }

    /// Notes a problem of `key`, which has been recorded, at the place of its value.
    pub(crate) fn object_to_value(&mut self, key: &str, text: impl Into<String>) {
        self.object(&self.origin_of(key), key, text);
    }

    /// Notes something odd about `key`, which has been recorded, at the place of its value.
    pub(crate) fn warn_of_value(&mut self, key: &str, text: impl Into<String>) {
        self.warnings.push(Remark::about_key(&self.origin_of(key), key, text));
    }

    /// Where the value of `key` came from, which has been recorded.
    fn origin_of(&self, key: &str) -> Origin {
        let value = self.values.iter().find(|value| value.key == key);
        value.map_or(Origin::Default, |value| value.origin.clone())
    }

    /// Whether a value of `key` has been refused.
    pub(crate) fn has_problem_of(&self, key: &str) -> bool {
        self.problems.iter().any(|problem| problem.key == key)
    }

    /// Keeps the value of `key` for the list of resolved values.
    pub(crate) fn record(&mut self, key: &'static str, value: impl Display, origin: &Origin) {
        let value =
            if schema::SECRETS.contains(&key) { "***".to_owned() } else { value.to_string() };
        self.values.push(ResolvedValue { key, value, origin: origin.clone() });
    }

    /// The parsed value of `key`, if any layer has it and it is accepted.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Node) -> Result<T, String>,
    ) -> Option<Setting<T>> {
        let node = self.find(key)?;
        match parse(&node) {
            Ok(value) => Some(Setting { value, origin: node.origin }),
            Err(text) => {
                self.refuse(key, &node, text);
                None
            }
        }
    }

    /// A whole number.
    pub(crate) fn whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Setting<u64> {
        let found = self.optional(key, |node| whole(node, &range));
        self.or_default(key, found, default)
    }

    /// A whole number that fits 32 bits.
    pub(crate) fn whole_u32(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> u32 {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        let Setting { value, .. } = self.whole(key, range, default.into());
        u32::try_from(value).unwrap_or(default)
    }

    /// A whole number, if any is given.
    pub(crate) fn optional_whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Setting<u64>> {
        let found = self.optional(key, |node| whole(node, &range));
        self.record_optional(key, found.as_ref());
        found
    }

    /// A whole number that DLIO writes as 0 or -1 where there is none.
    pub(crate) fn count(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let (least, most) = (u64::from(*range.start()), u64::from(*range.end()));
        let found = self.optional(key, |node| match node.value {
            Value::Int(-1 | 0) => Ok(None),
            _ => whole(node, &(least..=most))
                .map(|count| Some(count as u32))
                .map_err(|text| format!("{text}, or -1 for none")),
        });
        let found =
            found.and_then(|found| Some(Setting { value: found.value?, origin: found.origin }));
        self.record_optional(key, found.as_ref());
        found.map(|found| found.value)
    }

    /// A whole number from 0 on; a negative one is none.
    pub(crate) fn whole_or_negative(&mut self, key: &'static str, most: u64) -> Option<u64> {
        let found = self.optional(key, |node| match node.value {
            Value::Int(value) if value < 0 => Ok(None),
            _ => whole(node, &(0..=most)).map(Some),
        });
        let found =
            found.and_then(|found| Some(Setting { value: found.value?, origin: found.origin }));
        self.record_optional(key, found.as_ref());
        found.map(|found| found.value)
    }

    /// A list of whole numbers; a single one is a list of one.
    pub(crate) fn wholes(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Vec<u64> {
        let found = self.optional(key, |node| match &node.value {
            Value::Sequence(nodes) => nodes.iter().map(|node| whole(node, &range)).collect(),
            _ => whole(node, &range).map(|value| vec![value]),
        });
        self.record_list(key, found.as_ref());
        found.map(|found| found.value).unwrap_or_default()
    }

    /// A list of texts, if any is given; a single one is a list of one.
    pub(crate) fn optional_texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let found = self.optional(key, |node| match &node.value {
            Value::Sequence(nodes) => nodes.iter().map(text).collect(),
            _ => text(node).map(|value| vec![value]),
        });
        self.record_list(key, found.as_ref());
        found.map(|found| found.value)
    }

    /// A number, if any is given. The caller records it.
    pub(crate) fn optional_number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
    ) -> Option<Setting<f64>> {
        self.optional(key, |node| number(node, &range))
    }

    /// An environment variable that is no value of a key, if it is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.environment.first(&[name]).map(|(value, _)| value)
    }

    /// A number.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Setting<f64> {
        let found = self.optional(key, |node| number(node, &range));
        self.or_default(key, found, default)
    }

    /// A truth value.
    pub(crate) fn truth(&mut self, key: &'static str, default: bool) -> bool {
        let found = self.optional(key, |node| match &node.value {
            Value::Bool(value) => Ok(*value),
            // DLIO's own files give some of them as text.
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("accepts true or false".to_owned()),
        });
        self.or_default(key, found, default).value
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        choices: &Choices<T>,
        default: T,
    ) -> Setting<T> {
        let found = self.optional(key, |node| choices.parse(node));
        self.choice_or_default(key, choices, found, default)
    }

    /// [`Settings::choice`] for a key whose words have more spellings.
    pub(crate) fn choice_or_default<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        choices: &Choices<T>,
        found: Option<Setting<T>>,
        default: T,
    ) -> Setting<T> {
        let setting = found.unwrap_or(Setting { value: default, origin: Origin::Default });
        self.record(key, choices.name(setting.value), &setting.origin);
        setting
    }

    /// One of some words, if any is given. The caller records it.
    pub(crate) fn optional_choice<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        choices: &Choices<T>,
    ) -> Option<Setting<T>> {
        self.optional(key, |node| choices.parse(node))
    }

    /// Text that `check` accepts.
    pub(crate) fn text(
        &mut self,
        key: &'static str,
        check: fn(&str) -> Result<(), String>,
        default: &str,
    ) -> Setting<String> {
        let found = self.optional(key, |node| checked_text(node, check));
        self.or_default(key, found, default.to_owned())
    }

    /// The path of a folder, without the slashes at the end that a given one may have (spec/dlio.md 2.4).
    pub(crate) fn folder(&mut self, key: &'static str, default: &str) -> Setting<String> {
        let stripped = |path: &str| match path.trim_end_matches('/') {
            // The root, of files or of a store.
            "" => path.to_owned(),
            scheme if scheme.ends_with(':') => path.to_owned(),
            stripped => stripped.to_owned(),
        };
        let found = self.optional(key, |node| checked_text(node, short::<1024>));
        let found = found.map(|folder| Setting { value: stripped(&folder.value), ..folder });
        // DLIO takes the default as it is.
        let folder = self.or_default(key, found, default.to_owned());
        Setting { value: stripped(&folder.value), ..folder }
    }

    /// Text that `check` accepts, if any is given.
    pub(crate) fn optional_text(
        &mut self,
        key: &'static str,
        check: fn(&str) -> Result<(), String>,
    ) -> Option<Setting<String>> {
        let found = self.optional(key, |node| checked_text(node, check));
        self.record_optional(key, found.as_ref());
        found
    }

    /// Records a list, which is empty when absent.
    pub(crate) fn record_list<T: Display>(
        &mut self,
        key: &'static str,
        found: Option<&Setting<Vec<T>>>,
    ) {
        let shown = found.map(|found| {
            let items: Vec<_> = found.value.iter().map(ToString::to_string).collect();
            Setting { value: format!("[{}]", items.join(", ")), origin: found.origin.clone() }
        });
        let none = Setting { value: "[]".to_owned(), origin: Origin::Default };
        self.record_optional(key, Some(&shown.unwrap_or(none)));
    }

    /// Records a value that may be absent.
    pub(crate) fn record_optional<T: Display>(
        &mut self,
        key: &'static str,
        found: Option<&Setting<T>>,
    ) {
        match found {
            Some(setting) => self.record(key, &setting.value, &setting.origin),
            None => self.values.push(ResolvedValue {
                key,
                value: "null".to_owned(),
                origin: Origin::Default,
            }),
        }
    }

    fn or_default<T: Display>(
        &mut self,
        key: &'static str,
        found: Option<Setting<T>>,
        default: T,
    ) -> Setting<T> {
        let setting = found.unwrap_or(Setting { value: default, origin: Origin::Default });
        self.record(key, &setting.value, &setting.origin);
        setting
    }
}

/// A whole number within `range`.
pub(crate) fn whole(node: &Node, range: &RangeInclusive<u64>) -> Result<u64, String> {
    match &node.value {
        Value::Int(value) => u64::try_from(*value).ok().filter(|value| range.contains(value)),
        _ => None,
    }
    .ok_or_else(|| format!("accepts a whole number from {} to {}", range.start(), range.end()))
}

/// A number within `range`.
pub(crate) fn number(node: &Node, range: &RangeInclusive<f64>) -> Result<f64, String> {
    match &node.value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
    // A comparison with NaN is false, so it is in no range.
    .filter(|value| range.contains(value))
    .ok_or_else(|| format!("accepts a number from {} to {}", range.start(), range.end()))
}

/// A list of what `item` accepts.
pub(crate) fn list<T>(
    node: &Node,
    item: impl Fn(&Node) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    match &node.value {
        Value::Sequence(nodes) => nodes.iter().map(item).collect(),
        _ => Err("accepts a list".to_owned()),
    }
}

fn checked_text(node: &Node, check: fn(&str) -> Result<(), String>) -> Result<String, String> {
    let text = text(node)?;
    if text.contains(char::is_control) {
        return Err("accepts text without control characters".to_owned());
    }
    check(&text)?;
    Ok(text)
}

/// Text, or a whole number in the only spelling that survives being read as one.
pub(crate) fn text(node: &Node) -> Result<String, String> {
    match (&node.value, &node.written) {
        (Value::Text(text), _) => Ok(text.clone()),
        (Value::Int(value), None) => Ok(value.to_string()),
        (Value::Int(value), Some(written)) if *written == value.to_string() => Ok(written.clone()),
        (Value::Sequence(_) | Value::Mapping(_), _) => Err("accepts text".to_owned()),
        _ => Err("accepts text: put it in quotes".to_owned()),
    }
}

/// At most `MOST` bytes.
pub(crate) fn short<const MOST: usize>(text: &str) -> Result<(), String> {
    if text.len() > MOST {
        return Err(format!("accepts text of at most {MOST} bytes"));
    }
    Ok(())
}

/// One name in a folder: no slash, not empty, not `.` or `..`.
pub(crate) fn file_name(text: &str) -> Result<(), String> {
    const MOST: usize = 200;
    if text.is_empty() || text == "." || text == ".." || text.contains('/') || text.len() > MOST {
        return Err(format!("accepts a file name: 1 to {MOST} bytes without a slash"));
    }
    Ok(())
}
