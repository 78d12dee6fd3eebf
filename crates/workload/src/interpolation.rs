//! `${...}` inside values, resolved when a key is read (spec/dlio.md 1.4): `${workload.a.b}` is the
//! value of another key, `${oc.env:NAME}` and `${oc.env:NAME,default}` an environment variable.

use std::cell::Cell;

use crate::environment::Environment;
use crate::overrides;
use crate::schema;
use crate::tree::{Entry, Mapping, Node, Value};

/// Most interpolations that reading one key may take; more means a circle.
const MOST: u32 = 1000;
/// Longest text that interpolation may make, in bytes.
const LONGEST: usize = 1 << 16;
/// Deepest chain of keys that refer to keys.
const DEEPEST: u32 = 32;

/// Resolves the interpolations of one key.
pub(crate) struct Interpolation<'a> {
    tree: &'a Node,
    environment: Environment<'a>,
    /// Whether the key may hold a secret, and so may take one from elsewhere.
    sensitive: bool,
    left: Cell<u32>,
}

impl<'a> Interpolation<'a> {
    pub(crate) fn new(tree: &'a Node, environment: Environment<'a>, key: &str) -> Self {
        let sensitive = schema::SECRETS.contains(&key);
        Self { tree, environment, sensitive, left: Cell::new(MOST) }
    }

    /// `node` with every interpolation in it, or below it, replaced. The origin stays that of `node`.
    pub(crate) fn resolve(&self, node: &Node) -> Result<Node, String> {
        self.node(node, 0)
    }

    fn node(&self, node: &Node, depth: u32) -> Result<Node, String> {
        let value = match &node.value {
            Value::Text(text) if text.contains("${") => return self.text(text, node, depth),
            Value::Sequence(nodes) => Value::Sequence(
                nodes.iter().map(|node| self.node(node, depth)).collect::<Result<_, _>>()?,
            ),
            Value::Mapping(mapping) => {
                let mut resolved = Mapping::default();
                for entry in mapping.entries() {
                    let node = self.node(&entry.node, depth)?;
                    resolved.push(Entry { node, ..entry.clone() });
                }
                Value::Mapping(resolved)
            }
            _ => return Ok(node.clone()),
        };
        Ok(Node { value, ..node.clone() })
    }

    /// Text that is one interpolation and nothing else takes the value with its type; otherwise
    /// the pieces are joined as text.
    fn text(&self, text: &str, node: &Node, depth: u32) -> Result<Node, String> {
        let mut joined = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, behind) =
                after.split_once('}').ok_or("an interpolation without its '}'")?;
            let value = self.reference(inside.trim(), node, depth)?;
            if joined.is_empty() && before.is_empty() && behind.is_empty() {
                return Ok(Node { origin: node.origin.clone(), ..value });
            }
            joined.push_str(before);
            match &value.value {
                Value::Text(text) => joined.push_str(text),
                Value::Null => return Err(format!("${{{inside}}} is null, not text")),
                _ => joined.push_str(&value.to_string()),
            }
            if joined.len() > LONGEST {
                return Err(format!("its interpolations make more than {LONGEST} bytes"));
            }
            rest = behind;
        }
        joined.push_str(rest);
        Ok(Node::new(joined, node.origin.clone()))
    }

    fn reference(&self, inside: &str, node: &Node, depth: u32) -> Result<Node, String> {
        if depth == DEEPEST || self.left.get() == 0 {
            return Err("its interpolations go round in a circle, or are too many".to_owned());
        }
        self.left.set(self.left.get() - 1);
        if let Some(variable) = inside.strip_prefix("oc.env:") {
            return self.variable(variable, node);
        }
        let Some(path) = inside.strip_prefix("workload.") else {
            return Err(format!(
                "${{{inside}}} is not supported: accepts ${{workload.KEY}} and \
                 ${{oc.env:NAME,default}}"
            ));
        };
        let path = schema::canonical(path);
        if schema::is_sensitive(&path) && !self.sensitive {
            return Err(format!("${{{inside}}} would show a secret"));
        }
        let target = self
            .tree
            .get(&path)
            .ok_or_else(|| format!("${{{inside}}} refers to a key that is not set"))?;
        // A reference to a whole subtree could be repeated until memory ends.
        if matches!(target.value, Value::Sequence(_) | Value::Mapping(_)) {
            return Err(format!(
                "${{{inside}}} refers to a list or mapping: accepts single values"
            ));
        }
        self.node(target, depth + 1)
    }

    fn variable(&self, inside: &str, node: &Node) -> Result<Node, String> {
        let (name, default) = match inside.split_once(',') {
            Some((name, default)) => (name.trim(), Some(default.trim())),
            None => (inside.trim(), None),
        };
        if schema::names_secret(name) && !self.sensitive {
            return Err(format!("${{oc.env:{name}}} would show a secret"));
        }
        let set = self.environment.first(&[name]).map(|(value, _)| value);
        let text = set
            .as_deref()
            .or(default)
            .ok_or_else(|| format!("the environment variable {name} is not set"))?;
        Ok(overrides::word(text, &node.origin))
    }
}
