//! From YAML text to a tree, with bounds on everything that a file could make large.

use std::collections::HashSet;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{Entry, Mapping, Node, Value, scalar};
use crate::origin::Origin;

/// Longest file that is read, in bytes: several times the longest that is known, and short enough
/// that looking for the nearest name of every key in it takes no time to speak of.
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
    let mut document = Document { name, events: Parser::new_from_str_with_options(text, options) };
    if text.len() > MAX_BYTES {
        let text = format!("the file has {} bytes, at most {MAX_BYTES} are read", text.len());
        return Err(YamlError { origin: document.start(), text });
    }
    document.read()
}

struct Document<'a> {
    name: &'a Arc<str>,
    events: Parser<'a, StrInput<'a>>,
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
        let origin = self.origin(span);
        if let Some(tag) = event.tag()
            && !tag.is_yaml_core_schema_tag("str")
        {
            let text = format!("the tag {} is not supported", tag.original());
            return Err(YamlError { origin, text });
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => {
                let value = scalar::resolve(&text);
                let written =
                    (!matches!(value, Value::Text(_) | Value::Null)).then(|| text.into_owned());
                Ok(Node { value, origin, written })
            }
            Event::Scalar(text, ..) => Ok(Node::new(text.into_owned(), origin)),
            Event::SequenceStart(..) => {
                let mut nodes = Vec::new();
                loop {
                    match self.expect_next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => nodes.push(self.node(event, &span)?),
                    }
                }
                Ok(Node::new(Value::Sequence(nodes), origin))
            }
            Event::MappingStart(..) => Ok(Node::new(Value::Mapping(self.mapping()?), origin)),
            Event::Alias(_) => Err(YamlError {
                origin,
                text: "aliases (*name) are not supported: write the value out".to_owned(),
            }),
            _ => Err(YamlError { origin, text: "no value here".to_owned() }),
        }
    }

    fn mapping(&mut self) -> Result<Mapping, YamlError> {
        let mut mapping = Mapping::default();
        let mut names = HashSet::new();
        loop {
            let (event, span) = self.expect_next()?;
            let name = match event {
                Event::MappingEnd => return Ok(mapping),
                Event::Scalar(name, ScalarStyle::Plain, ..) if name == "<<" => {
                    return Err(
                        self.error(&span, "merge keys (<<) are not supported: write the keys out")
                    );
                }
                Event::Scalar(name, ..) => name.into_owned(),
                _ => return Err(self.error(&span, "a key must be a word")),
            };
            if !names.insert(name.clone()) {
                return Err(self.error(&span, &format!("the key {name:?} stands here twice")));
            }
            let (event, value_span) = self.expect_next()?;
            let node = self.node(event, &value_span)?;
            mapping.push(Entry { name, origin: self.origin(&span), node });
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        self.events.next_event().transpose().map_err(|error| self.scan_error(&error))
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
