//! The value grammar of the command line (spec/dlio.md 1.3): null, truth values, numbers, quoted
//! text, `[lists]`, `{mappings}`, casts such as `int("3")`; everything else is text, as long as it has
//! no character that must stand in quotes. `yes`, `off` and `none` are text here, unlike in a file.

use crate::origin::Origin;
use crate::tree::{Entry, Mapping, Node, Value, python};

/// Deepest nesting of lists, mappings and casts.
const MAX_DEPTH: usize = 16;
/// What unquoted text may hold besides ASCII letters and digits.
const BARE: &str = "_/-\\+.$%*@?|: \t";
/// What a backslash in unquoted text takes out of its meaning.
const ESCAPABLE: &str = "\\()[]{}:=, \t";
/// Functions of the grammar that make several runs of one command, or serve such.
const SWEEPS: [&str; 7] = ["choice", "range", "glob", "sort", "shuffle", "interval", "tag"];

/// The value that all of `text` stands for.
pub(super) fn parse(text: &str, origin: &Origin) -> Result<Node, String> {
    Grammar { rest: text, origin, depth: 0 }.whole()
}

/// What an unquoted word means where nothing is refused.
pub(crate) fn word(text: &str, origin: &Origin) -> Node {
    scalar(text, false, origin)
}

/// `text` so that [`parse`] gives it back: as it is, or in quotes.
pub(super) fn written(text: &str) -> String {
    match parse(text, &Origin::Default) {
        Ok(Node { value: Value::Text(read), .. }) if read == text && !text.contains('\'') => {
            text.to_owned()
        }
        _ => quoted(text),
    }
}

/// `text` in single quotes. Only backslashes before a quote count.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut backslashes = 0;
    for c in text.chars() {
        if c == '\'' {
            quoted.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        quoted.push(c);
    }
    quoted.extend(std::iter::repeat_n('\\', backslashes));
    quoted.push('\'');
    quoted
}

/// A reader of the value grammar. Every step takes at least one character, so it ends.
struct Grammar<'a> {
    rest: &'a str,
    origin: &'a Origin,
    depth: usize,
}

impl Grammar<'_> {
    /// A value and nothing behind it.
    fn whole(mut self) -> Result<Node, String> {
        let node = self.value("")?;
        match self.rest.chars().next() {
            None => Ok(node),
            Some(',') => Err("values with commas between them are a list without brackets, which \
                              would be a sweep over them: write [a,b] for a list, or quote the text"
                .to_owned()),
            Some(_) => Err(format!("{:?} behind the end of the value", self.rest)),
        }
    }

    /// A value that ends before a comma, one of the characters in `ends`, or the end of the text.
    fn value(&mut self, ends: &str) -> Result<Node, String> {
        self.skip_blanks();
        let node = match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => Node::new(self.quoted(quote)?, self.origin.clone()),
            Some('[') => self.nested(1, Self::list)?,
            Some('{') => self.nested(1, Self::mapping)?,
            _ => self.call_or_word(ends)?,
        };
        self.skip_blanks();
        Ok(node)
    }

    /// What a function makes of its argument, or unquoted text.
    fn call_or_word(&mut self, ends: &str) -> Result<Node, String> {
        if let Some(name) = self.function() {
            return self.nested(name.len() + 1, |grammar| grammar.cast(name));
        }
        let (text, escaped) = self.bare(ends)?;
        if text.is_empty() && self.depth > 0 {
            return Err("a value is missing: for empty text write ''".to_owned());
        }
        Ok(scalar(&text, escaped, self.origin))
    }

    /// What `read` makes of the text behind the first `opening` bytes.
    fn nested(
        &mut self,
        opening: usize,
        read: impl FnOnce(&mut Self) -> Result<Value, String>,
    ) -> Result<Node, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        self.advance(opening);
        let value = read(self)?;
        self.depth -= 1;
        Ok(Node::new(value, self.origin.clone()))
    }

    fn list(&mut self) -> Result<Value, String> {
        let mut nodes = Vec::new();
        self.skip_blanks();
        if self.take(']') {
            return Ok(Value::Sequence(nodes));
        }
        loop {
            nodes.push(self.value("]")?);
            if self.take(']') {
                return Ok(Value::Sequence(nodes));
            }
            self.expect(',', "a list without its ']'")?;
        }
    }

    fn mapping(&mut self) -> Result<Value, String> {
        let mut mapping = Mapping::default();
        self.skip_blanks();
        if self.take('}') {
            return Ok(Value::Mapping(mapping));
        }
        loop {
            self.skip_blanks();
            let name = match self.rest.chars().next() {
                Some(quote @ ('\'' | '"')) => self.quoted(quote)?,
                _ => self.bare(":}")?.0,
            };
            self.skip_blanks();
            self.expect(':', "a mapping is {name: value, ...}")?;
            let node = self.value("}")?;
            if name.is_empty() || mapping.get(&name).is_some() {
                return Err(format!("the name {name:?} is empty or stands in the mapping twice"));
            }
            mapping.push(Entry { name, origin: self.origin.clone(), node });
            if self.take('}') {
                return Ok(Value::Mapping(mapping));
            }
            self.expect(',', "a mapping without its '}'")?;
        }
    }

    /// The name of the function that is called here.
    fn function(&self) -> Option<&'static str> {
        const CASTS: [&str; 4] = ["int", "float", "str", "bool"];
        let (name, _) = self.rest.split_once('(')?;
        CASTS.into_iter().chain(SWEEPS).find(|known| *known == name)
    }

    /// What `name(`, which is read, makes of the value behind it.
    fn cast(&mut self, name: &'static str) -> Result<Value, String> {
        if SWEEPS.contains(&name) {
            return Err(format!(
                "{name}() is for sweeps over several runs, and one command is one run here: give \
                 one value, or quote the text"
            ));
        }
        let node = self.value(")")?;
        self.expect(')', &format!("{name}() takes one value and ends with ')'"))?;
        cast(name, node).map(|node| node.value)
    }

    /// Text between quotes. A backslash before the quote takes it out of its meaning, and so does one
    /// before such a backslash; other backslashes are text.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut backslashes = 0;
        for (at, c) in self.rest.char_indices().skip(1) {
            if c == '\\' {
                backslashes += 1;
                continue;
            }
            let kept = if c == quote { backslashes / 2 } else { backslashes };
            text.extend(std::iter::repeat_n('\\', kept));
            if c == quote && backslashes % 2 == 0 {
                self.advance(at + c.len_utf8());
                return Ok(text);
            }
            backslashes = 0;
            text.push(c);
        }
        Err(format!("{} without its closing {quote}", self.rest))
    }

    /// Unquoted text without the blanks around it, and whether anything in it was escaped. What
    /// stands inside `${...}` belongs to the text, whatever it is.
    fn bare(&mut self, ends: &str) -> Result<(String, bool), String> {
        let mut text = String::new();
        let mut escaped = false;
        let mut interpolations = 0_usize;
        let mut end = self.rest.len();
        // Length up to the last character that trimming must keep.
        let mut kept = 0;
        let mut chars = self.rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            match c {
                '\\' if interpolations == 0
                    && next.is_some_and(|next| ESCAPABLE.contains(next)) =>
                {
                    text.extend(next);
                    chars.next();
                    escaped = true;
                    kept = text.len();
                    continue;
                }
                '$' if next == Some('{') => {
                    interpolations += 1;
                    text.push_str("${");
                    chars.next();
                }
                '}' if interpolations > 0 => {
                    interpolations -= 1;
                    text.push(c);
                }
                c if interpolations > 0 => text.push(c),
                c if c == ',' || ends.contains(c) => {
                    end = at;
                    break;
                }
                c if c.is_ascii_alphanumeric() || BARE.contains(c) => text.push(c),
                c => {
                    let quote = if c == '\'' { '"' } else { '\'' };
                    return Err(format!(
                        "{c} must stand in quotes, such as KEY={quote}a{c}b{quote}"
                    ));
                }
            }
            if !matches!(c, ' ' | '\t') {
                kept = text.len();
            }
        }
        if interpolations > 0 {
            return Err("an interpolation without its '}'".to_owned());
        }
        text.truncate(kept);
        self.advance(end);
        Ok((text, escaped))
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.rest.starts_with(c);
        if found {
            self.advance(c.len_utf8());
        }
        found
    }

    fn expect(&mut self, c: char, otherwise: &str) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(otherwise.to_owned()) }
    }
}

/// What an unquoted word means.
fn scalar(text: &str, escaped: bool, origin: &Origin) -> Node {
    let value = match text.to_ascii_lowercase().as_str() {
        _ if escaped => None,
        "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => number(text),
    };
    match value {
        Some(value) => Node { value, origin: origin.clone(), written: Some(text.to_owned()) },
        None => Node::new(text, origin.clone()),
    }
}

/// `1`, `-3`, `1_000`, `1.5`, `.5`, `5.`, `1e3`, `inf`, `nan`; not `007`, `1__0`, `0x10`.
fn number(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("nan") {
        return text.parse().ok().map(Value::Float);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent_is_good = exponent
        .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    let whole = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let mantissa_is_good = match mantissa.split_once('.') {
        None => whole(mantissa),
        Some((before, "")) => whole(before),
        Some((before, after)) => (before.is_empty() || whole(before)) && digits(after),
    };
    if !mantissa_is_good || !exponent_is_good {
        return None;
    }
    let compact = text.replace('_', "");
    match compact.parse() {
        Ok(int) if exponent.is_none() => Some(Value::Int(int)),
        _ => compact.parse().ok().map(Value::Float),
    }
}

/// Digits with single underscores between them.
fn digits(text: &str) -> bool {
    text.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()))
}

/// `node` as the type `name`, as Python converts it; lists and mappings item by item.
fn cast(name: &'static str, node: Node) -> Result<Node, String> {
    let value = match node.value {
        Value::Sequence(nodes) => Value::Sequence(
            nodes.into_iter().map(|node| cast(name, node)).collect::<Result<_, _>>()?,
        ),
        Value::Mapping(mapping) => {
            let mut converted = Mapping::default();
            for entry in mapping.into_entries() {
                let node = cast(name, entry.node)?;
                converted.push(Entry { node, ..entry });
            }
            Value::Mapping(converted)
        }
        _ => {
            cast_scalar(name, &node).ok_or_else(|| format!("{name}() cannot be made of {node}"))?
        }
    };
    Ok(Node::new(value, node.origin))
}

fn cast_scalar(name: &str, node: &Node) -> Option<Value> {
    match (name, &node.value) {
        (_, Value::Null) => None,
        ("str", Value::Bool(value)) => Some(Value::Text(value.to_string())),
        ("str", _) => Some(Value::Text(python::text(node))),
        ("int", Value::Bool(value)) => Some(Value::Int((*value).into())),
        ("int", Value::Int(value)) => Some(Value::Int(*value)),
        // What no integer of 128 bits holds is no number of anything here.
        ("int", Value::Float(value)) => {
            (value.abs() < 1e38).then(|| Value::Int(value.trunc() as i128))
        }
        ("int", Value::Text(text)) => {
            let text = text.trim();
            let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
            let well_formed = digits(unsigned);
            well_formed.then(|| text.replace('_', "").parse().ok().map(Value::Int)).flatten()
        }
        ("float", Value::Bool(value)) => Some(Value::Float((*value).into())),
        ("float", Value::Int(value)) => Some(Value::Float(*value as f64)),
        ("float", Value::Float(value)) => Some(Value::Float(*value)),
        ("float", Value::Text(text)) => text.trim().parse().ok().map(Value::Float),
        ("bool", Value::Bool(value)) => Some(Value::Bool(*value)),
        ("bool", Value::Int(value)) => Some(Value::Bool(*value != 0)),
        ("bool", Value::Float(value)) => Some(Value::Bool(*value != 0.0)),
        ("bool", Value::Text(text)) => match text.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        _ => None,
    }
}
