//! A configuration before anything is known about its keys: mappings, sequences and scalars, each
//! node with the place it came from.
//!
//! `yaml` makes a tree of a file, `overrides` makes one of a command line option, and `Node::merge`
//! lays one over the other. `scalar` decides what an unquoted YAML word means, `python` how a value
//! looks where Python prints it.

pub(crate) mod python;
mod scalar;
pub mod yaml;

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

    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
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

    /// The node at `name` of the mapping it holds, to be changed.
    pub(crate) fn child_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.as_mapping_mut()?.get_mut(name)
    }

    /// Whether both hold the same, wherever they stand. A whole number equals the float of its value,
    /// and the order of names does not matter.
    pub(crate) fn equals(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Value::Int(int), Value::Float(float)) | (Value::Float(float), Value::Int(int)) => {
                (*int as f64).total_cmp(float).is_eq()
            }
            (Value::Sequence(mine), Value::Sequence(theirs)) => {
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.equals(b))
            }
            (Value::Mapping(mine), Value::Mapping(theirs)) => {
                mine.entries.len() == theirs.entries.len()
                    && mine.entries.iter().all(|entry| {
                        theirs.get(&entry.name).is_some_and(|node| node.equals(&entry.node))
                    })
            }
            (mine, theirs) => mine == theirs,
        }
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
                _ => serializer.serialize_i128(*value),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Node, yaml::YamlError> {
        yaml::read(&Arc::from("t.yaml"), text)
    }

    fn json(text: &str) -> String {
        serde_json::to_string(&read(text).unwrap()).unwrap()
    }

    #[track_caller]
    fn refused(text: &str, place: &str, part: &str) {
        let message = read(text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("t.yaml:{place}: ")), "{message}");
        assert!(message.contains(part), "no {part:?} in {message}");
    }

    #[test]
    fn quotes_keep_words_text_and_block_scalars_are_text() {
        assert_eq!(
            json("a: on\nb: 'on'\nc: \"1e3\"\nd: |\n  1\ne: !!str 010\nf: 2024-01-02\ng:\nh: y\n"),
            r#"{"a":true,"b":"on","c":"1e3","d":"1\n","e":"010","f":"2024-01-02","g":null,"h":"y"}"#
        );
    }

    #[test]
    fn order_nesting_and_names_are_kept() {
        assert_eq!(
            json("z: {b: [1, [], {}], a: 2}\non: 1\n1: x\n"),
            r#"{"z":{"b":[1,[],{}],"a":2},"on":1,"1":"x"}"#
        );
    }

    #[test]
    fn every_node_knows_its_line_and_column() {
        let tree = read("# comment\na:\n  b: [1,\n      two]\n").unwrap();
        let list = tree.get("a.b").unwrap();
        let Value::Sequence(nodes) = &list.value else { panic!("{list:?}") };
        let places: Vec<_> =
            [list, &nodes[0], &nodes[1]].map(|node| node.origin.to_string()).to_vec();
        assert_eq!(places, ["t.yaml:3:6", "t.yaml:3:7", "t.yaml:4:7"]);
        assert_eq!(tree.as_mapping().unwrap().entries()[0].origin.to_string(), "t.yaml:2:1");
    }

    #[test]
    fn what_is_not_supported_is_refused_with_its_place() {
        refused("a: 1\nb: 2\na: 3\n", "3:1", "\"a\" stands here twice");
        refused("a: !!binary aGk=\n", "1:13", "tag");
        refused("[1]: 2\n", "1:1", "a key must be a word");
        refused("a: 1\n---\nb: 2\n", "3:1", "second document");
        refused("a: [1\n", "1:4", "unclosed bracket");
        refused("a: *x\n", "1:4", "not YAML");
    }

    #[test]
    fn an_alias_is_the_node_of_its_anchor_again() {
        let text =
            "a: &a {x: 1, y: &y [0x10, 'on']}\nb: *a\nc: [*y, *a]\n&k key: &k 010\n*k : *k\n";
        let tree = read(text).unwrap();
        assert_eq!(
            serde_json::to_string(&tree).unwrap(),
            r#"{"a":{"x":1,"y":[16,"on"]},"b":{"x":1,"y":[16,"on"]},"c":[[16,"on"],{"x":1,"y":[16,"on"]}],"key":8,"010":8}"#
        );
        assert_eq!(tree.get("b").unwrap(), tree.get("a").unwrap());
        assert_eq!(tree.get("b.y").unwrap().origin.to_string(), "t.yaml:1:20");
        // The last anchor of a name counts, also inside what is repeated.
        assert_eq!(
            json("a: &a [&b 1, *b]\nb: &b 2\nc: [*a, *b]\nd: &a 3\ne: *a\n"),
            r#"{"a":[1,1],"b":2,"c":[[1,1],2],"d":3,"e":3}"#
        );
        refused("a: &a [1, *a]\n", "1:11", "inside what it names");
        refused("a: &a {b: &b [], c: {*a : 1}}\n", "1:22", "inside what it names");
        refused("a: &a [1]\n? *a\n: 1\n", "2:3", "a key must be a word");
    }

    #[test]
    fn merge_keys_add_what_the_mapping_does_not_say() {
        let base = "a: &a {x: 1, y: {z: 1}}\nb: &b {x: 2, w: 2}\n";
        for (text, expected) in [
            ("c: {y: 3, <<: *a}", r#"{"x":1,"y":3}"#),
            ("c:\n  <<: *a\n  y: {v: 3}", r#"{"x":1,"y":{"v":3}}"#),
            ("c: {<<: [*a, *b], v: 3}", r#"{"x":1,"w":2,"y":{"z":1},"v":3}"#),
            ("c: {<<: *a, <<: *b}", r#"{"x":2,"y":{"z":1},"w":2}"#),
            ("c: {<<: {<<: *b, x: 4}}", r#"{"x":4,"w":2}"#),
            ("c: {<<: []}", "{}"),
            ("c: {'<<': 1}", r#"{"<<":1}"#),
        ] {
            let tree = read(&format!("{base}{text}\n")).unwrap();
            let merged = serde_json::to_string(tree.get("c").unwrap()).unwrap();
            assert_eq!(merged, expected, "{text}");
        }
        let tree = read(&format!("{base}c: {{<<: *a}}\n")).unwrap();
        let entry = &tree.get("c").unwrap().as_mapping().unwrap().entries()[0];
        assert_eq!(entry.origin.to_string(), "t.yaml:1:8");
        refused("a: {<<: 1}\n", "1:9", "takes a mapping");
        refused("a: {<<: }\n", "1:7", "takes a mapping");
        refused("a: {<<: [{b: 1}, x]}\n", "1:18", "takes a mapping");
        refused("a: {<<: {}, b: 1, b: 2}\n", "1:19", "stands here twice");
    }

    #[test]
    fn aliases_cannot_make_a_file_larger_or_deeper_than_is_read() {
        let laughs = |line: fn(usize) -> String, lines| {
            (1..=lines).map(line).fold("a0: &a0 [lol]\n".to_owned(), |text, line| text + &line)
        };
        let wide = |at: usize| {
            let last = at - 1;
            format!("a{at}: &a{at} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n")
        };
        assert!(read(&laughs(wide, 4)).is_ok());
        refused(&laughs(wide, 20), "8:10", "more than 131072 bytes");
        let deep = |at: usize| format!("a{at}: &a{at} [*a{}]\n", at - 1);
        assert!(read(&laughs(deep, 62)).is_ok());
        refused(&laughs(deep, 80), "64:12", "more than 64 levels of nesting");
        let long = format!("a: &a '{}'\nb: [*a]\nc: [*a,\n*a]\n", "x".repeat(40_000));
        refused(&long, "4:1", "more than 131072 bytes");
        let names = format!("? &a {}\n: 1\nb: [{}]\n", "x".repeat(40_000), "{*a : 1},".repeat(9));
        refused(&names, "3:24", "more than 131072 bytes");
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
        let deep: String =
            (0..1000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
        assert!(read(&deep).is_err());
        refused(&"a".repeat(yaml::MAX_BYTES + 1), "1:1", "at most 131072 are read");
    }

    #[test]
    fn whole_numbers_beyond_64_bits_are_written_out() {
        assert_eq!(
            json("[-9223372036854775809, 18446744073709551616]"),
            "[-9223372036854775809,18446744073709551616]"
        );
    }

    #[test]
    fn equal_is_what_holds_the_same_wherever_it_stands() {
        let tree = read("a: {x: 1, y: [2, z]}\nb: {y: [2.0, 'z'], x: 1.0}\nc: {x: 1}\nd: '1'\n");
        let tree = tree.unwrap();
        let node = |name| tree.get(name).unwrap();
        assert!(node("a").equals(node("b")));
        assert!(!node("a").equals(node("c")) && !node("c").equals(node("a")));
        assert!(!node("d").equals(node("c.x")));
    }

    #[test]
    fn a_path_is_read_taken_and_merged() {
        let mut tree = read("a: {b: 1, c: [1]}\nd: 1\n").unwrap();
        tree.merge(read("a: {b: {e: 2}, c: []}\nf: ~\n").unwrap());
        assert_eq!(
            serde_json::to_string(&tree).unwrap(),
            r#"{"a":{"b":{"e":2},"c":[]},"d":1,"f":null}"#
        );
        assert_eq!(tree.take("a.b.e").unwrap().value, Value::Int(2));
        assert!(tree.take("a.b.e").is_none());
        assert!(tree.take("d.x").is_none());
        assert!(tree.get("f").unwrap().is_null());
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_panic(text in ".{0,200}") {
            let _ = read(&text);
        }

        #[test]
        fn no_text_of_yaml_characters_makes_reading_panic(
            text in "[-a-c0-1 :,\\[\\]{}&*!|>'\"%@#?~.<\n\t]{0,200}"
        ) {
            if let Ok(tree) = read(&text) {
                let _ = serde_json::to_string(&tree).unwrap();
            }
        }

        #[test]
        fn numbers_keep_their_value(number in any::<i64>(), float in -1e300..1e300_f64) {
            let tree = read(&format!("a: {number}\nb: {float:e}\n")).unwrap();
            prop_assert_eq!(&tree.get("a").unwrap().value, &Value::Int(number.into()));
            prop_assert_eq!(&tree.get("b").unwrap().value, &Value::Float(float));
        }
    }
}
