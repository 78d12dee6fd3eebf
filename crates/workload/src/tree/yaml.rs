//! From YAML text to a tree, with bounds on everything that a file could make large.
//!
//! An alias (`*name`) is read by going through the events of what its anchor (`&name`) marks once more,
//! so it becomes a node of its own that stands where the anchor's content stands. Merge keys (`<<`) are
//! those of `PyYAML`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{Entry, Mapping, Node, Value, scalar};
use crate::origin::Origin;

/// Longest file that is read, in bytes, with and without its aliases written out: several times the
/// longest that is known, and short enough that looking for the nearest name of every key in it takes
/// no time to speak of.
pub(crate) const MAX_BYTES: usize = 1 << 17;
/// Deepest nesting, of each of the two styles (block and flow).
const MAX_DEPTH: usize = 32;

/// Why a text is no workload file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {text}")]
pub struct YamlError {
    /// Where reading ended.
    pub origin: Origin,
    /// What is wrong there.
    pub text: String,
}

/// Reads the only document in `text`. `name` is what origins call the file.
pub fn read(name: &Arc<str>, text: &str) -> Result<Node, YamlError> {
    let mut options =
        granit_parser::options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
    options.set_emit_comments(false);
    let mut document = Document {
        name,
        parser: Parser::new_from_str_with_options(text, options),
        past: Vec::new(),
        anchors: HashMap::new(),
        repeats: Vec::new(),
        length: 0,
        depth: 0,
    };
    if text.len() > MAX_BYTES {
        let text = format!("the file has {} bytes, at most {MAX_BYTES} are read", text.len());
        return Err(YamlError { origin: document.start(), text });
    }
    document.read()
}

struct Document<'a> {
    name: &'a Arc<str>,
    parser: Parser<'a, StrInput<'a>>,
    /// The parser's events up to now.
    past: Vec<(Event<'a>, Span)>,
    /// Which of them an anchor marks, once all of them are there.
    anchors: HashMap<usize, Range<usize>>,
    /// Aliases that are being read, each inside what the one before it names.
    repeats: Vec<Repeat>,
    /// Bytes of the nodes up to now, each with one that separates it from the next.
    length: usize,
    /// Lists and mappings around the next event.
    depth: usize,
}

/// An alias that is being read.
struct Repeat {
    /// Where it stands.
    origin: Origin,
    /// The events still to come.
    events: Range<usize>,
}

impl<'a> Document<'a> {
    fn read(&mut self) -> Result<Node, YamlError> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                _ if root.is_some() => {
                    return Err(self.error(&span, "a second document: one file is one workload"));
                }
                event => root = Some(self.node(event, &span)?),
            }
        }
        Ok(root.unwrap_or_else(|| Node::new(Value::Null, self.start())))
    }

    fn node(&mut self, event: Event<'a>, span: &Span) -> Result<Node, YamlError> {
        let (origin, anchor) = (self.origin(span), event.anchor_id());
        let start = self.past.len().saturating_sub(1);
        if let Some(tag) = event.tag()
            && !tag.is_yaml_core_schema_tag("str")
        {
            let text = format!("the tag {} is not supported", tag.original());
            return Err(YamlError { origin, text });
        }
        let node = match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => {
                self.lengthen(&text)?;
                let value = scalar::resolve(&text);
                let written =
                    (!matches!(value, Value::Text(_) | Value::Null)).then(|| text.into_owned());
                Node { value, origin, written }
            }
            Event::Scalar(text, ..) => {
                self.lengthen(&text)?;
                Node::new(text.into_owned(), origin)
            }
            Event::SequenceStart(..) => {
                self.deepen()?;
                let mut nodes = Vec::new();
                loop {
                    match self.expect_next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => nodes.push(self.node(event, &span)?),
                    }
                }
                self.depth -= 1;
                Node::new(Value::Sequence(nodes), origin)
            }
            Event::MappingStart(..) => {
                self.deepen()?;
                let mapping = self.mapping()?;
                self.depth -= 1;
                Node::new(Value::Mapping(mapping), origin)
            }
            Event::Alias(anchor) => return self.repeat(anchor, origin),
            _ => return Err(YamlError { origin, text: "no value here".to_owned() }),
        };
        self.keep(anchor, start);
        Ok(node)
    }

    fn mapping(&mut self) -> Result<Mapping, YamlError> {
        let (mut merged, mut own) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        loop {
            let (key, span) = self.expect_next()?;
            if key == Event::MappingEnd {
                break;
            }
            let is_merge =
                matches!(&key, Event::Scalar(name, ScalarStyle::Plain, ..) if name == "<<");
            let name = self.key(key, &span)?;
            if !is_merge && !names.insert(name.clone()) {
                return Err(self.error(&span, &format!("the key {name:?} stands here twice")));
            }
            let (event, value_span) = self.expect_next()?;
            let node = self.node(event, &value_span)?;
            if is_merge {
                merged.append(&mut entries_to_merge(node)?);
            } else {
                own.push(Entry { name, origin: self.origin(&span), node });
            }
        }
        merged.append(&mut own);
        Ok(last_of_each_name(merged))
    }

    /// The name that a key is.
    fn key(&mut self, event: Event<'a>, span: &Span) -> Result<String, YamlError> {
        self.keep(event.anchor_id(), self.past.len().saturating_sub(1));
        let name = match event {
            Event::Scalar(name, ..) => {
                self.lengthen(&name)?;
                Some(name.into_owned())
            }
            Event::Alias(anchor) => match self.repeat(anchor, self.origin(span))? {
                Node { value: Value::Text(name), .. } => Some(name),
                Node { written, .. } => written,
            },
            _ => None,
        };
        name.ok_or_else(|| self.error(span, "a key must be a word"))
    }

    /// Notes that what began at `start` of the past events and ends with the last one has this anchor.
    fn keep(&mut self, anchor: Option<usize>, start: usize) {
        if let Some(anchor) = anchor.filter(|_| self.repeats.is_empty()) {
            self.anchors.insert(anchor, start..self.past.len());
        }
    }

    /// What the alias at `origin` stands for.
    fn repeat(&mut self, anchor: usize, origin: Origin) -> Result<Node, YamlError> {
        // The parser refuses an alias without an anchor before it.
        let Some(events) = self.anchors.get(&anchor).cloned() else {
            let text = "the alias stands inside what it names".to_owned();
            return Err(YamlError { origin, text });
        };
        self.repeats.push(Repeat { origin, events });
        let (event, span) = self.expect_next()?;
        let node = self.node(event, &span)?;
        self.repeats.pop();
        Ok(node)
    }

    /// Counts a scalar. A text without aliases is bounded as a whole.
    fn lengthen(&mut self, scalar: &str) -> Result<(), YamlError> {
        self.length += scalar.len() + 1;
        self.bound(self.length, MAX_BYTES, "bytes")
    }

    /// Counts a list or mapping, which the caller takes back at its end. The parser bounds the depth
    /// without aliases.
    fn deepen(&mut self) -> Result<(), YamlError> {
        self.length += 1;
        self.depth += 1;
        self.bound(self.depth, 2 * MAX_DEPTH, "levels of nesting")?;
        self.bound(self.length, MAX_BYTES, "bytes")
    }

    /// Refuses the alias that is being read if there is more than `most` of something with it.
    fn bound(&self, count: usize, most: usize, unit: &str) -> Result<(), YamlError> {
        match self.repeats.first() {
            Some(Repeat { origin, .. }) if count > most => Err(YamlError {
                origin: origin.clone(),
                text: format!("with this alias written out the file has more than {most} {unit}"),
            }),
            _ => Ok(()),
        }
    }

    /// The next event of the alias that is being read, else of the parser.
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        if let Some(at) = self.repeats.last_mut().and_then(|repeat| repeat.events.next()) {
            return Ok(self.past.get(at).cloned());
        }
        let next = self.parser.next_event().transpose().map_err(|error| self.scan_error(&error))?;
        self.past.extend(next.clone());
        Ok(next)
    }

    fn expect_next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        self.next()?.ok_or_else(|| YamlError {
            origin: self.start(),
            text: "the text ends inside a list or mapping".to_owned(),
        })
    }

    fn scan_error(&self, error: &ScanError) -> YamlError {
        let marker = error.marker();
        YamlError {
            origin: self.at(marker.line(), marker.col()),
            text: format!("not YAML: {}", error.info()),
        }
    }

    fn error(&self, span: &Span, text: &str) -> YamlError {
        YamlError { origin: self.origin(span), text: text.to_owned() }
    }

    fn origin(&self, span: &Span) -> Origin {
        self.at(span.start.line(), span.start.col())
    }

    fn start(&self) -> Origin {
        self.at(1, 0)
    }

    /// The parser counts lines from 1 and columns from 0.
    fn at(&self, line: usize, column: usize) -> Origin {
        Origin::File { name: Arc::clone(self.name), line, column: column + 1 }
    }
}

/// What a merge key adds: the entries of a mapping, or of a list of mappings, those of the first last.
fn entries_to_merge(node: Node) -> Result<Vec<Entry>, YamlError> {
    let nodes = match node.value {
        Value::Sequence(nodes) => nodes,
        _ => vec![node],
    };
    let mut entries = Vec::new();
    for Node { value, origin, .. } in nodes.into_iter().rev() {
        let Value::Mapping(mapping) = value else {
            let text = "a merge key (<<) takes a mapping or a list of mappings".to_owned();
            return Err(YamlError { origin, text });
        };
        entries.append(&mut mapping.into_entries());
    }
    Ok(entries)
}

/// A mapping in which a later entry replaces an earlier one of its name.
fn last_of_each_name(entries: Vec<Entry>) -> Mapping {
    let mut places = HashMap::new();
    let mut mapping = Mapping::default();
    for entry in entries {
        if let Some(&at) = places.get(&entry.name) {
            mapping.entries[at] = entry;
        } else {
            places.insert(entry.name.clone(), mapping.entries.len());
            mapping.push(entry);
        }
    }
    mapping
}
