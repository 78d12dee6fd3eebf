//! `${...}` inside values, resolved when a key is read (spec/dlio.md 1.4).
//!
//! `${workload.a.b}` is the value of another key, counted from the root; `${.b}` one beside the value
//! that refers to it, `${..b}` one beside the mapping or list that holds it, and so on. The others name a
//! source: `${oc.env:NAME}` and `${oc.env:NAME,default}` an environment variable, `${now:%Y-%m-%d}` the
//! start of the run, `${hydra:run.dir}` a fact about the run. They may stand in one another, and
//! `\${` is the text `${`.
//!
//! What refers to others could go round in a circle, or double at every step, so the work and the
//! size of the result of reading one key are bounded.

use std::cell::Cell;
use std::path::Path;

use jiff::ZonedDateTime;
use jiff::fmt::strtime;

use crate::environment::Environment;
use crate::overrides::{self, WORKLOAD};
use crate::schema;
use crate::tree::{Entry, Mapping, Node, Value, python};

/// Most interpolations that reading one key may take; more means a circle.
const MOST: u32 = 1000;
/// Longest text that interpolation may make, in bytes.
const LONGEST: usize = 1 << 16;
/// Most that the values taken from other keys may come to, in bytes of memory.
const LARGEST: usize = 1 << 22;
/// Deepest chain of keys that refer to keys.
const DEEPEST: u32 = 32;

/// Everything that an interpolation can refer to.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// The mapping that holds `workload`, as it was written.
    pub(crate) root: &'a Node,
    /// The workload in present spelling.
    pub(crate) workload: &'a Node,
    /// Facts about the run, if `dlio_benchmark` is the front end.
    pub(crate) hydra: Option<&'a Node>,
    /// The start of the run.
    pub(crate) started: Option<&'a ZonedDateTime>,
    pub(crate) environment: Environment<'a>,
}

/// Resolves the interpolations of one key.
pub(crate) struct Interpolation<'a> {
    scope: Scope<'a>,
    /// Where the key stands, from the root.
    path: String,
    /// Whether the key may hold a secret, and so may take one from elsewhere.
    sensitive: bool,
    left: Cell<u32>,
    room: Cell<usize>,
}

impl<'a> Interpolation<'a> {
    /// For `key` of the workload.
    pub(crate) fn new(scope: Scope<'a>, key: &str) -> Self {
        let sensitive = schema::SECRETS.contains(&key);
        Self { sensitive, ..Self::at(scope, format!("{WORKLOAD}.{key}")) }
    }

    /// For what stands at `path`, counted from the root, and holds no secret.
    pub(crate) fn at(scope: Scope<'a>, path: impl Into<String>) -> Self {
        let (left, room) = (Cell::new(MOST), Cell::new(LARGEST));
        Self { scope, path: path.into(), sensitive: false, left, room }
    }

    /// `node` with every interpolation in it, or below it, replaced. The origin stays that of `node`.
    pub(crate) fn resolve(&self, node: &Node) -> Result<Node, String> {
        self.node(node, &self.path, 0)
    }

    fn node(&self, node: &Node, path: &str, depth: u32) -> Result<Node, String> {
        let value = match &node.value {
            Value::Text(text) if text.contains("${") => return self.text(text, node, path, depth),
            Value::Sequence(nodes) => {
                self.pay(0, depth)?;
                let nodes = nodes.iter().enumerate();
                let nodes = nodes.map(|(index, node)| self.node(node, &below(path, &index), depth));
                Value::Sequence(nodes.collect::<Result<_, _>>()?)
            }
            Value::Mapping(mapping) => {
                self.pay(0, depth)?;
                let mut resolved = Mapping::default();
                for entry in mapping.entries() {
                    self.pay(entry.name.len(), depth)?;
                    let path = below(path, &entry.name);
                    if depth > 0 {
                        self.guard(&path)?;
                    }
                    let node = self.node(&entry.node, &path, depth)?;
                    resolved.push(Entry { node, ..entry.clone() });
                }
                Value::Mapping(resolved)
            }
            _ => return self.copied(node, depth),
        };
        Ok(Node { value, ..node.clone() })
    }

    /// `node`, which refers to nothing.
    fn copied(&self, node: &Node, depth: u32) -> Result<Node, String> {
        let text = match &node.value {
            Value::Text(text) => text.len(),
            _ => 0,
        };
        self.pay(text, depth)?;
        Ok(node.clone())
    }

    /// Takes from the room what a node with `text` bytes of text needs, if a reference led to it.
    fn pay(&self, text: usize, depth: u32) -> Result<(), String> {
        if depth > 0 {
            let left = self.room.get().checked_sub(size_of::<Node>() + text);
            self.room.set(left.ok_or("its interpolations make too much of a value")?);
        }
        Ok(())
    }

    /// Text that is one interpolation and nothing else takes the value with its type; otherwise
    /// the pieces are joined as text.
    fn text(&self, text: &str, node: &Node, path: &str, depth: u32) -> Result<Node, String> {
        let mut joined = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            // Two backslashes are one, and a single one takes the interpolation out of its meaning.
            let kept = before.trim_end_matches('\\');
            let backslashes = before.len() - kept.len();
            joined.push_str(&before[..kept.len() + backslashes / 2]);
            if backslashes % 2 == 1 {
                joined.push_str("${");
                rest = after;
                continue;
            }
            let inside = inside(after).ok_or("an interpolation without its '}'")?;
            let behind = &after[inside.len() + 1..];
            let value = self.reference(inside.trim(), node, path, depth)?;
            if rest.len() == text.len() && before.is_empty() && behind.is_empty() {
                return Ok(Node { origin: node.origin.clone(), ..value });
            }
            if value.is_null() {
                return Err(format!("${{{inside}}} is null, not text"));
            }
            joined.push_str(&python::text(&value));
            if joined.len() > LONGEST {
                return Err(format!("its interpolations make more than {LONGEST} bytes"));
            }
            rest = behind;
        }
        joined.push_str(rest);
        self.copied(&Node::new(joined, node.origin.clone()), depth)
    }

    /// What `${inside}`, found in `node` at `path`, stands for.
    fn reference(&self, inside: &str, node: &Node, path: &str, depth: u32) -> Result<Node, String> {
        if depth == DEEPEST || self.left.get() == 0 {
            return Err("its interpolations go round in a circle, or are too many".to_owned());
        }
        self.left.set(self.left.get() - 1);
        let depth = depth + 1;
        let nested = |text: &str| -> Result<String, String> {
            if !text.contains("${") {
                return Ok(text.to_owned());
            }
            let value = self.text(text, node, path, depth)?;
            if value.is_null() {
                Err("null, not text".to_owned())
            } else {
                Ok(python::text(&value))
            }
        };
        let name_ends = inside.find(|c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c)));
        let (name, argument) = match name_ends {
            Some(end) if inside[end..].starts_with(':') => (&inside[..end], &inside[end + 1..]),
            _ => return self.key(&nested(inside)?, path, depth),
        };
        match name {
            "oc.env" => {
                let (name, default) = split_default(argument);
                let name = nested(name.trim())?;
                let default = default.map(str::trim);
                self.variable(unquoted(&name).unwrap_or(&name), default, node, path, depth)
            }
            "now" => {
                let time = self.moment(&nested(argument)?)?;
                Ok(Node::new(time, node.origin.clone()))
            }
            "hydra" => self.fact(&nested(argument.trim())?, node, depth),
            _ => Err(format!(
                "${{{inside}}} is not supported: accepts ${{{WORKLOAD}.KEY}}, ${{.KEY}}, \
                 ${{oc.env:NAME,default}}, ${{now:FORMAT}} and ${{hydra:KEY}}"
            )),
        }
    }

    /// The value of another key; `from` is where the one stands that refers to it.
    fn key(&self, target: &str, from: &str, depth: u32) -> Result<Node, String> {
        let names = target.trim_start_matches('.');
        let ups = target.len() - names.len();
        let mut holder = if ups == 0 { "" } else { from };
        for _ in 0..ups {
            if holder.is_empty() {
                return Err(format!("${{{target}}} leads out of the configuration"));
            }
            holder = holder.rsplit_once('.').map_or("", |(holder, _)| holder);
        }
        let mut path = holder.to_owned();
        for name in names.replace('[', ".").replace(']', "").split('.') {
            path = below(&path, &name);
        }
        self.guard(&path).map_err(|text| format!("${{{target}}} {text}"))?;
        let found = self.find(&path).ok_or_else(|| match find(self.scope.workload, &path) {
            Some(_) => format!(
                "${{{target}}} refers to a key that is not set: keys count from the root, such \
                     as ${{{WORKLOAD}.{path}}}"
            ),
            None => format!("${{{target}}} refers to a key that is not set"),
        })?;
        self.node(found, &path, depth)
    }

    /// The node at `path` as it is written, or in another spelling of what that means.
    fn find(&self, path: &str) -> Option<&'a Node> {
        let root = self.scope.root;
        find(root, path).or_else(|| {
            let key = path.strip_prefix(WORKLOAD)?.strip_prefix('.')?;
            schema::find(root.get(WORKLOAD)?, key)
        })
    }

    /// Refuses to take a secret into a key that shows its value.
    fn guard(&self, path: &str) -> Result<(), String> {
        let shows = match path.strip_prefix(WORKLOAD) {
            Some("") => true,
            Some(key) if key.starts_with('.') => {
                schema::is_sensitive(&schema::canonical(&key[1..]))
            }
            _ => schema::names_secret(path),
        };
        if shows && !self.sensitive { Err("would show a secret".to_owned()) } else { Ok(()) }
    }

    fn variable(
        &self,
        name: &str,
        default: Option<&str>,
        node: &Node,
        path: &str,
        depth: u32,
    ) -> Result<Node, String> {
        if schema::names_secret(name) && !self.sensitive {
            return Err(format!("${{oc.env:{name}}} would show a secret"));
        }
        if let Some((set, _)) = self.scope.environment.first(&[name]) {
            return Ok(overrides::word(&set, &node.origin));
        }
        let default =
            default.ok_or_else(|| format!("the environment variable {name} is not set"))?;
        let quoted = unquoted(default);
        match quoted.unwrap_or(default) {
            text if text.contains("${") => self.text(text, node, path, depth),
            text if quoted.is_some() => Ok(Node::new(text, node.origin.clone())),
            text => Ok(overrides::word(text, &node.origin)),
        }
    }

    /// The start of the run in Python's `strftime` form `format`.
    fn moment(&self, format: &str) -> Result<String, String> {
        let Some(started) = self.scope.started else {
            return Err(format!("${{now:{format}}} is not supported here: no run has a start"));
        };
        let time = strtime::format(portable(format), started)
            .map_err(|error| format!("${{now:{format}}}: {error}"))?;
        if time.len() > LONGEST {
            return Err(format!("its interpolations make more than {LONGEST} bytes"));
        }
        Ok(time)
    }

    /// A fact about the run.
    fn fact(&self, key: &str, node: &Node, depth: u32) -> Result<Node, String> {
        let Some(hydra) = self.scope.hydra else {
            return Err(format!(
                "${{hydra:{key}}} is not supported here: only dlio_benchmark has it"
            ));
        };
        let fact = |key: &str| {
            let fact = hydra.get(key);
            let fact = fact.ok_or_else(|| format!("${{hydra:{key}}} is not known"))?;
            self.node(fact, &format!("hydra.{key}"), depth)
        };
        if key != "runtime.output_dir" {
            return fact(key);
        }
        let (directory, run) =
            (python::text(&fact("runtime.cwd")?), python::text(&fact("run.dir")?));
        let output: String = Path::new(&directory).join(run).to_string_lossy().into_owned();
        Ok(Node::new(output, node.origin.clone()))
    }
}

/// `path` and behind it `name`.
fn below(path: &str, name: &impl std::fmt::Display) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// The node at a dotted path, in which a number counts the items of a list from 0.
fn find<'a>(root: &'a Node, path: &str) -> Option<&'a Node> {
    path.split('.').try_fold(root, |node, name| match &node.value {
        Value::Mapping(mapping) => mapping.get(name),
        Value::Sequence(nodes) => nodes.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// What stands in `text` before the brace that closes an interpolation opened before it.
fn inside(text: &str) -> Option<&str> {
    let mut open = 1_u32;
    let mut before = '\0';
    for (at, c) in text.char_indices() {
        match c {
            '{' if before == '$' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(&text[..at]);
        }
        before = c;
    }
    None
}

/// The name of a variable and its default, which a comma outside of any interpolation divides.
fn split_default(argument: &str) -> (&str, Option<&str>) {
    let mut open = 0_u32;
    for (at, c) in argument.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            ',' if open == 0 => return (&argument[..at], Some(&argument[at + 1..])),
            _ => {}
        }
    }
    (argument, None)
}

/// What stands between the quotes of `text`, if it is in quotes.
fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

/// A format of Python's `strftime` in the words of ours: C's forms of date and time, microseconds in
/// six digits, and no zone, since Python's time has none here.
fn portable(format: &str) -> String {
    let mut portable = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        portable.push(c);
        if c != '%' {
            continue;
        }
        match chars.next() {
            Some('f') => portable.push_str("6f"),
            Some('c') => portable.push_str("a %b %e %H:%M:%S %Y"),
            Some('x') => portable.push_str("m/%d/%y"),
            Some('X') => portable.push_str("H:%M:%S"),
            Some('z' | 'Z') => {
                portable.pop();
            }
            Some(c) => portable.push(c),
            None => {}
        }
    }
    portable
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;
    use crate::environment::Variables;
    use crate::tree::yaml;

    const TREE: &str = "\
other: here
workload:
  model: {name: unet3d, size: 1e3, big: yes, none: ~}
  reader: {batch_size: 4, list: [1, '${..batch_size}', '${.0}'], hex: 0x10}
  dataset: {data_folder: 'data/${workload.model.name}', sub: {name: '${..data_folder}/x'}}
  storage: {storage_options: {secret_access_key: hunter2}}
  loose: {password: hunter3}
  back: {to: '${workload.back.from}', from: '${workload.back.to}'}
";

    fn resolve_in(tree: &str, text: &str) -> Result<Node, String> {
        let root = yaml::read(&Arc::from("t.yaml"), tree).unwrap();
        let hydra = "{run: {dir: 'log/${workload.model.name}-${now:%H}'}, job: {name: main}, \
                     runtime: {cwd: /work, choices: {workload: unet3d_h100}}}";
        let hydra = yaml::read(&Arc::from("hydra"), hydra).unwrap();
        let started = date(2026, 3, 4).at(5, 6, 7, 89_000_000).in_tz("UTC").unwrap();
        let environment = Variables::from([
            ("N".to_owned(), "8".to_owned()),
            ("WHICH".to_owned(), "N".to_owned()),
            ("AWS_SECRET_ACCESS_KEY".to_owned(), "hunter1".to_owned()),
        ]);
        let dotenv = Variables::default();
        let scope = Scope {
            root: &root,
            workload: root.get(WORKLOAD).unwrap_or(&root),
            hydra: Some(&hydra),
            started: Some(&started),
            environment: Environment { environment: &environment, dotenv: &dotenv },
        };
        let node = Node::new(text, crate::Origin::Default);
        Interpolation::new(scope, "train.epochs").resolve(&node)
    }

    fn resolve(text: &str) -> Result<String, String> {
        resolve_in(TREE, text).map(|node| serde_json::to_string(&node).unwrap())
    }

    #[test]
    fn each_form_takes_the_value_it_names() {
        for (text, expected) in [
            ("${workload.model.name}", r#""unet3d""#),
            ("a-${workload.model.name}-b", r#""a-unet3d-b""#),
            ("${workload.reader.batch_size}", "4"),
            ("x${workload.reader.batch_size}", r#""x4""#),
            ("x${workload.model.size}${workload.model.big}", r#""x1000.0True""#),
            ("x${workload.reader.hex}", r#""x16""#),
            ("${workload.model.none}", "null"),
            ("${workload.dataset.sub.name}", r#""data/unet3d/x""#),
            ("${workload.data_reader.batch_size}", "4"),
            ("${workload.reader.list}", "[1,4,1]"),
            ("${workload.reader.list[1]}", "4"),
            ("${workload[reader].list.0}", "1"),
            ("x${workload.reader.list}", r#""x[1, 4, 1]""#),
            ("${..model}", r#"{"name":"unet3d","size":1000.0,"big":true,"none":null}"#),
            ("${...other}", r#""here""#),
            ("${other}", r#""here""#),
            ("${oc.env:N}", "8"),
            ("${oc.env:N,3}", "8"),
            ("${oc.env:UNSET,3}", "3"),
            ("${oc.env:UNSET, a b }", r#""a b""#),
            ("${oc.env:UNSET,'3'}", r#""3""#),
            ("${oc.env:UNSET,null}", "null"),
            ("${oc.env:UNSET,${workload.model.name}}", r#""unet3d""#),
            ("${oc.env:UNSET,x-${oc.env:UNSET,y}}", r#""x-y""#),
            ("${oc.env:N,${workload.no.such}}", "8"),
            ("${oc.env:${oc.env:WHICH}}", "8"),
            ("${workload.${oc.env:UNSET,model}.name}", r#""unet3d""#),
            ("${now:%Y-%m-%d}_${now:%H-%M-%S}", r#""2026-03-04_05-06-07""#),
            ("${now:%Y%m%d}", r#""20260304""#),
            (
                "${now:%f|%c|%x %X%z%Z|%%f|%-d}",
                r#""089000|Wed Mar  4 05:06:07 2026|03/04/26 05:06:07|%f|4""#,
            ),
            ("${hydra:job.name}", r#""main""#),
            ("${hydra:runtime.cwd}", r#""/work""#),
            ("${hydra:run.dir}", r#""log/unet3d-05""#),
            ("${hydra:runtime.output_dir}", r#""/work/log/unet3d-05""#),
            ("${hydra:runtime.choices.workload}", r#""unet3d_h100""#),
            (r"\${workload.model.name}", r#""${workload.model.name}""#),
            (r"a\\${workload.model.name}", r#""a\\unet3d""#),
            (r"\x", r#""\\x""#),
            ("$x {y}", r#""$x {y}""#),
        ] {
            assert_eq!(resolve(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_says_why() {
        for (text, part) in [
            ("${workload.model.nome}", "not set"),
            ("${model.name}", "such as ${workload.model.name}"),
            ("${nothing}", "not set"),
            ("${}", "not set"),
            ("${..................x}", "leads out"),
            ("${workload.reader.list.9}", "not set"),
            ("${workload.back.to}", "circle"),
            ("x${workload.model.none}", "null, not text"),
            ("${oc.env:UNSET}", "UNSET is not set"),
            ("${oc.env:UNSET,${workload.no}}", "not set"),
            ("${oc.decode:x}", "not supported"),
            ("${hydra:no.such}", "not known"),
            ("${now:%!}", "now:%!"),
            ("${workload.model.name", "without its '}'"),
            ("${a${b}", "without its '}'"),
            ("${oc.env:AWS_SECRET_ACCESS_KEY}", "would show a secret"),
            ("${workload.storage.storage_options.secret_access_key}", "would show a secret"),
            ("${..storage}", "would show a secret"),
            ("${workload}", "would show a secret"),
            ("${workload.loose}", "would show a secret"),
            ("${my_token}", "would show a secret"),
        ] {
            let message = resolve(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
            assert!(!message.contains("hunter"), "{message}");
        }
    }

    #[test]
    fn what_doubles_at_every_step_ends() {
        let mut tree = "workload:\n  a0: [x, x]\n".to_owned();
        for step in 0..30 {
            let line =
                format!("  a{}: ['${{workload.a{step}}}', '${{workload.a{step}}}']\n", step + 1);
            tree.push_str(&line);
        }
        let message = resolve_in(&tree, "${workload.a30}").unwrap_err();
        assert!(message.contains("too many"), "{message}");
        let long = "y".repeat(60_000);
        let tree = format!("workload: {{a: {long}, b: {:?}}}\n", vec!["${workload.a}"; 100]);
        let message = resolve_in(&tree, "${workload.b}").unwrap_err();
        assert!(message.contains("too much"), "{message}");
        let message = resolve_in(&tree, "${workload.a}${workload.a}").unwrap_err();
        assert!(message.contains("more than 65536"), "{message}");
        for item in ["~", "[]", "{}", "'x'"] {
            let tree = format!(
                "workload: {{a: [{}], b: {:?}}}\n",
                vec![item; 5000].join(", "),
                vec!["${workload.a}"; 900]
            );
            let message = resolve_in(&tree, "${workload.b}").unwrap_err();
            assert!(message.contains("too much"), "{item}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_interpolation_panic(text in ".{0,100}") {
            let _ = resolve(&text);
        }

        #[test]
        fn no_text_of_interpolations_makes_it_panic_or_hang(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("${"), Just("}"), Just("."), Just("workload"), Just("back.to"), Just("["),
                    Just("oc.env:"), Just("hydra:run.dir"), Just("now:%"), Just("N,"), Just("\\"),
                    Just("é"), Just("reader.list"), Just(":"), Just("255Y"), Just("'"),
                ],
                0..40,
            )
        ) {
            let _ = resolve(&pieces.concat());
        }

        #[test]
        fn no_format_of_time_makes_it_panic(format in "[%a-zA-Z0-9:.# -]{0,20}") {
            let _ = resolve(&format!("${{now:{format}}}"));
        }
    }
}
