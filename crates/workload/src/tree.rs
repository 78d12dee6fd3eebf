//! A configuration before anything is known about its keys: mappings, sequences and scalars, each
//! node with the place it came from.
//!
//! [`yaml`] makes a tree of a file, [`crate::overrides`] makes one of a command line option, and
//! [`Node::merge`] lays one over the other. [`scalar`] decides what an unquoted YAML word means.

mod scalar;
pub(crate) mod yaml;

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::origin::Origin;

/// A value and where it came from. Serializes as the value alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub origin: Origin,
    /// How an unquoted scalar that is not text was written (`0x10`, `yes`), for messages and for
    /// keys that take text.
    pub(crate) written: Option<String>,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not given.
    Null,
    /// Truth value.
    Bool(bool),
    /// Whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// List.
    Sequence(Vec<Node>),
    /// Named nodes, each name once.
    Mapping(Mapping),
}

/// Named nodes in the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mapping {
    entries: Vec<Entry>,
}

/// One name of a [`Mapping`].
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub origin: Origin,
    /// What it names.
    pub node: Node,
}

impl Mapping {
    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries, taken out.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Adds an entry. The caller knows that the name is new.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    fn get(&self, name: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|entry| entry.name == name).map(|entry| &mut entry.node)
    }
}

impl Node {
    /// A node that was not written as an unquoted word.
    pub fn new(value: impl Into<Value>, origin: Origin) -> Self {
        Self { value: value.into(), origin, written: None }
    }

    /// `value` wrapped in mappings so that it stands at the dotted `path`.
    pub(crate) fn nested(path: &str, value: Node) -> Self {
        path.rsplit('.').fold(value, |node, name| {
            let origin = node.origin.clone();
            let entry = Entry { name: name.to_owned(), origin: origin.clone(), node };
            Self::new(Value::Mapping(Mapping { entries: vec![entry] }), origin)
        })
    }

    /// Whether it is null, which means "not given".
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The mapping it holds.
    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    fn as_mapping_mut(&mut self) -> Option<&mut Mapping> {
        match &mut self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The node at a dotted path, null or not.
    pub fn get(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, name| node.as_mapping()?.get(name))
    }

    /// Removes and returns the node at a dotted path.
    pub(crate) fn take(&mut self, path: &str) -> Option<Node> {
        let (parents, name) = path.rsplit_once('.').map_or((None, path), |(p, n)| (Some(p), n));
        let parent = parents
            .into_iter()
            .flat_map(|parents| parents.split('.'))
            .try_fold(self, |node, name| node.as_mapping_mut()?.get_mut(name))?;
        let entries = &mut parent.as_mapping_mut()?.entries;
        let index = entries.iter().position(|entry| entry.name == name)?;
        Some(entries.remove(index).node)
    }

    /// Lays `over` on this node: mappings are joined name by name, anything else is replaced.
    pub(crate) fn merge(&mut self, over: Node) {
        match (&mut self.value, over) {
            (Value::Mapping(mine), Node { value: Value::Mapping(theirs), .. }) => {
                for entry in theirs.entries {
                    match mine.get_mut(&entry.name) {
                        Some(node) => node.merge(entry.node),
                        None => mine.push(entry),
                    }
                }
            }
            (_, over) => *self = over,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

value_from!(bool => Bool, u32 => Int, u64 => Int, i64 => Int, f64 => Float, &str => Text, String => Text);

/// One line, at most 80 characters: text in quotes, other scalars as they were written.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 80;
        let text = match (&self.written, &self.value) {
            (Some(written), _) => written.clone(),
            (None, Value::Text(text)) => format!("{text:?}"),
            (None, _) => serde_json::to_string(self).map_err(|_| fmt::Error)?,
        };
        match text.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{}...", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_f64(*value as f64),
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Sequence(nodes) => {
                let mut sequence = serializer.serialize_seq(Some(nodes.len()))?;
                for node in nodes {
                    sequence.serialize_element(node)?;
                }
                sequence.end()
            }
            Self::Mapping(mapping) => {
                let mut map = serializer.serialize_map(Some(mapping.entries.len()))?;
                for entry in &mapping.entries {
                    map.serialize_entry(&entry.name, &entry.node)?;
                }
                map.end()
            }
        }
    }
}
