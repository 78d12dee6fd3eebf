//! The values that `dlio_benchmark_query` prints.

use crate::resolve::Resolved;
use crate::schema;
use crate::tree::{Value, python};
use crate::workload::Time;

/// The value of the key `SECTION.KEY` as Python prints it: words as they are, `True` and `False`, a
/// time by its mean, 0 if none is given, `None` for what is absent or no key.
pub fn query(resolved: &Resolved, key: &str) -> String {
    let key = schema::canonical(key.strip_prefix("workload.").unwrap_or(key));
    let workload = &resolved.workload;
    let written = resolved.composed.get(&key).filter(|node| !node.is_null());
    let time = match key.as_str() {
        "train.computation_time" => Some(&workload.train.computation_time),
        "evaluation.eval_time" => Some(&workload.evaluation.eval_time),
        "reader.preprocess_time" => Some(&workload.reader.preprocess_time),
        _ => None,
    };
    if let Some(time) = time {
        return mean(time, written.map(|node| &node.value));
    }
    let Some(value) = resolved.values.iter().find(|value| value.key == key) else {
        return "None".to_owned();
    };
    let shown = value.value.as_str();
    match written.map(|node| &node.value) {
        // A number keeps the type in which it was written.
        Some(Value::Float(float)) if shown.parse() == Ok(*float) => python::float(*float),
        Some(Value::Text(text)) if text == shown => shown.to_owned(),
        _ => match shown {
            "null" => "None".to_owned(),
            "true" => "True".to_owned(),
            "false" => "False".to_owned(),
            _ => list(shown).unwrap_or_else(|| shown.to_owned()),
        },
    }
}

/// The mean of `time`, as a whole number if it was written as one.
fn mean(time: &Time, written: Option<&Value>) -> String {
    match written {
        None => "0".to_owned(),
        Some(Value::Int(value)) => value.to_string(),
        Some(_) => python::float(time.mean()),
    }
}

/// `[a, 1]` as `['a', 1]`.
fn list(shown: &str) -> Option<String> {
    let items = shown.strip_prefix('[')?.strip_suffix(']')?;
    let item = |item: &str| match item.parse::<f64>() {
        Ok(_) => item.to_owned(),
        Err(_) => python::quoted(item),
    };
    let items: Vec<_> = items.split(", ").filter(|item| !item.is_empty()).map(item).collect();
    Some(format!("[{}]", items.join(", ")))
}
