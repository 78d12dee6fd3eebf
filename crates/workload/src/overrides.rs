//! Single values from the command line: `--set reader.batch_size=4`, or a flag that stands for a
//! key, such as `--files 600`.
//!
//! The value grammar of `--set` is the one of spec/dlio.md 1.3: null, truth values, numbers, quoted
//! text, `[lists]` and `{mappings}`; everything else is text. `yes`, `off` and `none` are text here,
//! unlike in a file.

use std::fmt;
use std::sync::Arc;

use crate::origin::{Origin, Remark};
use crate::schema;
use crate::tree::{Entry, Mapping, Node, Value};

/// Longest option that is read, in bytes.
const MAX_BYTES: usize = 1 << 16;
/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 16;
/// Most parts of a dotted key.
const MAX_PARTS: usize = 16;

/// A key and the value that the command line gives it. `Debug` and [`Override::text`] show neither
/// secrets nor what could be one.
#[derive(Clone)]
pub struct Override {
    text: String,
    origin: Origin,
    content: Result<(String, Node), String>,
}

impl Override {
    /// `KEY=VALUE` as typed behind `--set`; a leading `++` and `workload.` are dropped. A mistake in
    /// it is reported when the workload is resolved, together with all others.
    pub fn set(option: &str) -> Self {
        let shown = masked(option);
        let origin = Origin::CommandLine(Arc::from(format!("--set {shown}")));
        let text = format!("++workload.{}", without_prefix(&shown));
        let content = parse(option, &origin).map_err(|text| {
            if shown == option { text } else { "not well-formed, and perhaps a secret".to_owned() }
        });
        Self { text, origin, content }
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
        let origin = Origin::CommandLine(Arc::from(shown));
        let node = Node::new(value, origin.clone());
        let shown_value = if hidden { "***".to_owned() } else { plain(&node) };
        let text = format!("++workload.{key}={shown_value}");
        Self { text, origin, content: Ok((key.to_owned(), node)) }
    }

    /// `++workload.KEY=VALUE`, the form in which DLIO's snapshots keep overrides and other tools
    /// read them, with `***` for what is or could be a secret.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The override as a tree that holds only its value.
    pub(crate) fn tree(&self) -> Result<Node, Remark> {
        match &self.content {
            Ok((path, node)) => Ok(Node::nested(path, node.clone())),
            Err(text) => Err(Remark::about_key(&self.origin, "override", text)),
        }
    }
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Override").field(&self.text).finish()
    }
}

/// `node` as one would type it behind `KEY=`.
fn plain(node: &Node) -> String {
    match &node.value {
        // Bare commas would stand between values.
        Value::Text(text) if text.contains(',') => {
            format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
        }
        Value::Text(text) => text.clone(),
        _ => node.to_string(),
    }
}

/// `option` without what is, or could be, a secret.
fn masked(option: &str) -> String {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let path = path_of(key).map(|path| schema::canonical(&path));
    let hide = path.is_ok_and(|path| schema::is_sensitive(&path))
        || schema::names_secret(option)
        || has_user_info(value);
    if hide && !value.is_empty() { format!("{key}=***") } else { option.to_owned() }
}

fn has_user_info(text: &str) -> bool {
    let mut authorities = text.split("://").skip(1).map(|rest| rest.split('/').next());
    authorities.any(|authority| authority.is_some_and(|authority| authority.contains('@')))
}

fn parse(option: &str, origin: &Origin) -> Result<(String, Node), String> {
    if option.len() > MAX_BYTES {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    let (key, value) =
        option.split_once('=').ok_or("no '=' in it: write KEY=VALUE, such as train.epochs=3")?;
    let path = path_of(key)?;
    let node = Grammar { rest: value, origin, depth: 0 }.whole()?;
    Ok((path, node))
}

/// `option` without the prefixes that DLIO's command line has and ours does not need.
fn without_prefix(option: &str) -> &str {
    let option = option.strip_prefix("++").unwrap_or(option);
    option.strip_prefix("workload.").unwrap_or(option)
}

/// The dotted path that `key` names.
fn path_of(key: &str) -> Result<String, String> {
    let path = without_prefix(key);
    if path == "workload" {
        return Err("the workload itself is named as the command's argument".to_owned());
    }
    let part_is_good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-$".contains(c))
    };
    if path.split('.').count() > MAX_PARTS || !path.split('.').all(part_is_good) {
        return Err(format!(
            "{key:?} is no key: a key is names joined by dots, such as reader.batch_size"
        ));
    }
    Ok(path.to_owned())
}

/// The value of a text in the override grammar, as used for the text of an environment variable
/// that stands in for a value: text that is not well-formed is just text.
pub(crate) fn word(text: &str, origin: &Origin) -> Node {
    scalar(text, false, origin)
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
            Some(',') => Err("a list without brackets: write [a,b], or quote the text".to_owned()),
            Some(_) => Err(format!("{:?} behind the end of the value", self.rest)),
        }
    }

    /// A value that ends before a comma, one of the characters in `ends`, or the end of the text.
    fn value(&mut self, ends: &str) -> Result<Node, String> {
        self.skip_blanks();
        let node = match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => Node::new(self.quoted(quote)?, self.origin.clone()),
            Some('[') => self.nested(Self::list)?,
            Some('{') => self.nested(Self::mapping)?,
            _ => {
                let (text, escaped) = self.bare(ends)?;
                scalar(&text, escaped, self.origin)
            }
        };
        self.skip_blanks();
        Ok(node)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Node, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        self.advance(1);
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
            if name.is_empty() || mapping.entries().iter().any(|entry| entry.name == name) {
                return Err(format!("the name {name:?} is empty or stands in the mapping twice"));
            }
            mapping.push(Entry { name, origin: self.origin.clone(), node });
            if self.take('}') {
                return Ok(Value::Mapping(mapping));
            }
            self.expect(',', "a mapping without its '}'")?;
        }
    }

    /// Text between quotes; a backslash takes the quote and itself out of their meaning.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.peek() {
                    Some(&(_, next)) if next == quote || next == '\\' => {
                        text.push(next);
                        chars.next();
                    }
                    _ => text.push('\\'),
                },
                c if c == quote => {
                    self.advance(at + c.len_utf8());
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err(format!("{} without its closing {quote}", self.rest))
    }

    /// Unquoted text without the blanks around it, and whether anything in it was escaped. Commas
    /// and ends inside `${...}` belong to the text.
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
                '\\' if next.is_some_and(|next| "\\()[]{}:=, \t".contains(next)) => {
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
                c if interpolations == 0 && (c == ',' || ends.contains(c)) => {
                    end = at;
                    break;
                }
                c => text.push(c),
            }
            if !c.is_whitespace() {
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
        self.rest = self.rest.trim_start();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Result<Value, String> {
        parse(&format!("a.b={text}"), &Origin::Default).map(|(_, node)| node.value)
    }

    fn json(text: &str) -> String {
        serde_json::to_string(&value(text).unwrap()).unwrap()
    }

    #[test]
    fn words_and_numbers_follow_the_override_grammar() {
        for (text, expected) in [
            ("1", "1"),
            ("-3", "-3"),
            ("+3", "3"),
            ("1_000", "1000"),
            ("0", "0"),
            ("007", r#""007""#),
            ("0x10", r#""0x10""#),
            ("0b1", r#""0b1""#),
            ("1__0", r#""1__0""#),
            ("1.2.3", r#""1.2.3""#),
            ("10.0.0.1", r#""10.0.0.1""#),
            ("1.5", "1.5"),
            ("1e3", "1000.0"),
            ("1e-3", "0.001"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("true", "true"),
            ("TRUE", "true"),
            ("fAlse", "false"),
            ("null", "null"),
            ("NULL", "null"),
            ("", r#""""#),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
        assert_eq!(value("inf"), Ok(Value::Float(f64::INFINITY)));
        assert_eq!(value("-inf"), Ok(Value::Float(f64::NEG_INFINITY)));
        assert!(matches!(value("nan"), Ok(Value::Float(value)) if value.is_nan()));
    }

    #[test]
    fn everything_else_is_text_without_the_blanks_around_it() {
        for text in [
            "yes",
            "no",
            "on",
            "off",
            "none",
            "None",
            "abc",
            "a/b",
            "./x",
            "s3://bucket/p",
            "http://h:9000",
            "a:b",
            "a b",
            "a%b",
            "a@b",
            "a+b",
            "a|b",
            "*",
            "?",
            "$",
            "-",
            "e3",
            "${x.y}",
            "a-${x}",
            "${now:%Y-%m-%d}",
            "${oc.env:A,b}",
            "x=y",
            "it's",
        ] {
            assert_eq!(value(text), Ok(Value::from(text)), "{text}");
        }
        assert_eq!(value("  a b  "), Ok(Value::from("a b")));
    }

    #[test]
    fn quotes_and_backslashes_keep_characters() {
        for (text, expected) in [
            ("'a b'", "a b"),
            ("\"1\"", "1"),
            ("'true'", "true"),
            (r"'it\'s'", "it's"),
            ("' a '", " a "),
            (r"a\,b", "a,b"),
            (r"a\ ", "a "),
            (r"a\=b", "a=b"),
            (r"\1", r"\1"),
            (r"\[1\]", "[1]"),
        ] {
            assert_eq!(value(text), Ok(Value::from(expected)), "{text}");
        }
    }

    #[test]
    fn lists_and_mappings_nest() {
        for (text, expected) in [
            ("[1,2]", "[1,2]"),
            ("[a,\"b c\"]", r#"["a","b c"]"#),
            ("[ ]", "[]"),
            ("[[1],[]]", "[[1],[]]"),
            ("{a:1,b:[1,2]}", r#"{"a":1,"b":[1,2]}"#),
            ("{a: 1}", r#"{"a":1}"#),
            ("{}", "{}"),
            ("{type: uniform, min: 0.02}", r#"{"type":"uniform","min":0.02}"#),
            ("[${oc.env:A,b},c]", r#"["${oc.env:A,b}","c"]"#),
            ("{url: http://h:9000}", r#"{"url":"http://h:9000"}"#),
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_says_why() {
        for (option, part) in [
            ("a.b", "no '='"),
            ("=1", "is no key"),
            ("a..b=1", "is no key"),
            ("a b=1", "is no key"),
            ("~a=1", "is no key"),
            ("1a=1", "is no key"),
            ("workload=x", "the command's argument"),
            ("a=1,2", "a list without brackets"),
            ("a=[1", "without its ']'"),
            ("a={b}", "{name: value"),
            ("a={b:1", "without its '}'"),
            ("a={b:1,b:2}", "twice"),
            ("a='b", "without its closing '"),
            ("a='b'c", "behind the end"),
            ("a=[1]]", "behind the end"),
            ("a=${b", "interpolation without"),
        ] {
            let message = parse(option, &Origin::Default).unwrap_err();
            assert!(message.contains(part), "{option}: {message}");
        }
        assert!(value(&"[".repeat(1000)).unwrap_err().contains("deeper"));
        assert!(value(&"x".repeat(MAX_BYTES)).unwrap_err().contains("longer"));
    }

    #[test]
    fn prefixes_of_dlios_command_line_are_dropped() {
        for option in ["a.b=1", "++a.b=1", "workload.a.b=1", "++workload.a.b=1"] {
            assert_eq!(parse(option, &Origin::Default).unwrap().0, "a.b");
            assert_eq!(Override::set(option).text(), "++workload.a.b=1");
        }
    }

    #[test]
    fn what_could_be_a_secret_is_not_shown() {
        for option in [
            "storage.storage_options.secret_access_key=hunter2",
            "++workload.storage.storage_options.access_key_id=hunter2",
            "storage.storage_options={secret_access_key: hunter2}",
            "storage={storage_options: {access_key_id: hunter2}}",
            "storage.storage_options.secretkey=hunter2",
            "storage.storage_options.endpoint_url=http://u:hunter2@h",
            "storage.storage_options.secret_access_key='hunter2",
            "secret access key=hunter2",
        ] {
            let option = Override::set(option);
            let shown = format!("{option:?} {} {:?}", option.text(), option.tree().err());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(option in ".{0,100}") {
            let _ = Override::set(&option).tree();
        }

        #[test]
        fn no_text_of_the_grammars_characters_makes_parsing_panic(
            text in "[a-c0-1 :,\\[\\]{}$\\\\'\"=.é_-]{0,100}"
        ) {
            let _ = Override::set(&format!("a={text}")).tree();
        }

        #[test]
        fn quoted_text_arrives_as_it_was(text in "[^\\\\]{0,50}") {
            let quoted = format!("'{}'", text.replace('\'', "\\'"));
            prop_assert_eq!(value(&quoted), Ok(Value::Text(text)));
        }
    }
}
