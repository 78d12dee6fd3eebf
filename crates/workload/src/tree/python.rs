//! Values as Python prints them, for what was text made by Python: interpolations inside text, `str()`
//! on the command line, `dlio_benchmark_query`.

use std::fmt::Write as _;

use super::{Node, Value};

/// What `print` shows: text as it is, everything else as [`repr`].
pub(crate) fn text(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => text.clone(),
        _ => repr(node),
    }
}

/// What stands in a printed list: text in quotes.
fn repr(node: &Node) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match &node.value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float(*value),
        Value::Text(text) => quoted(text),
        Value::Sequence(nodes) => format!("[{}]", joined(nodes.iter().map(repr).collect())),
        Value::Mapping(mapping) => {
            let entries = mapping.entries().iter();
            let entries =
                entries.map(|entry| format!("{}: {}", quoted(&entry.name), repr(&entry.node)));
            format!("{{{}}}", joined(entries.collect()))
        }
    }
}

/// The shortest digits that mean `value`, with an exponent below 1e-4 and from 1e16 on.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ if value.fract() == 0.0 => format!("{value:.1}"),
        _ => value.to_string(),
    }
}

/// Text between quotes: double ones only where that saves escaping single ones.
pub(crate) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut shown = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => shown.push_str(r"\\"),
            '\n' => shown.push_str(r"\n"),
            '\r' => shown.push_str(r"\r"),
            '\t' => shown.push_str(r"\t"),
            c if c == quote => shown.extend(['\\', c]),
            c if c.is_ascii_control() => {
                // Writing to a string cannot fail.
                let _ = write!(shown, r"\x{:02x}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown.push(quote);
    shown
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tree::yaml;

    #[test]
    fn floats_have_the_digits_of_python() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.323, "0.323"),
            (1e3, "1000.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (114_660.07, "114660.07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn values_look_as_python_prints_them() {
        let tree = "[~, yes, 3, 0.5, a, \"it's\", \"'\\\"\", \"a\\tb\\\\\", {a: [x]}, []]";
        let tree = yaml::read(&Arc::from("t.yaml"), tree).unwrap();
        assert_eq!(
            text(&tree),
            r#"[None, True, 3, 0.5, 'a', "it's", '\'"', 'a\tb\\', {'a': ['x']}, []]"#
        );
        assert_eq!(text(&Node::new("it's", crate::Origin::Default)), "it's");
    }
}
