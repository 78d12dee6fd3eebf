//! The values that `dlio_benchmark_query` prints.

use crate::Origin;
use crate::resolve::Resolved;
use crate::schema;
use crate::tree::{Node, Value, python};
use crate::workload::Time;

/// The value of the key `SECTION.KEY` as Python prints it: words as they are, `True` and `False`, a
/// time by its mean, 0 if none is given, `None` for what is absent or no key.
pub fn query(resolved: &Resolved, key: &str) -> String {
    let key = schema::canonical(key.strip_prefix("workload.").unwrap_or(key));
    let workload = &resolved.workload;
    let written = schema::find(&resolved.composed, &key).filter(|node| !node.is_null());
    let time = match key.as_str() {
        "train.computation_time" => Some(&workload.train.computation_time),
        "evaluation.eval_time" => Some(&workload.evaluation.eval_time),
        "reader.preprocess_time" => Some(&workload.reader.preprocess_time),
        _ => None,
    };
    if let Some(time) = time {
        return mean(time, written.map(|node| &node.value));
    }
    let texts = match key.as_str() {
        "profiling.iostat_devices" => Some(&workload.profiling.iostat_devices),
        "storage.storage_options.columns" => workload.storage.columns.as_ref(),
        _ => None,
    };
    if let Some(texts) = texts {
        return list(texts);
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
            _ => shown.to_owned(),
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

/// `['a', 'b']`; a list of numbers is shown so anyway.
fn list(texts: &[String]) -> String {
    let node = |text: &String| Node::new(text.as_str(), Origin::Default);
    let nodes = texts.iter().map(node).collect();
    python::text(&Node::new(Value::Sequence(nodes), Origin::Default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Override, Request, resolve};

    #[test]
    fn lists_of_texts_are_quoted_wherever_they_come_from_and_whatever_is_in_them() {
        const KEY: &str = "profiling.iostat_devices";
        const COLUMNS: &str = "storage.storage_options.columns";
        for (key, option, expected) in [
            (KEY, "workflow.train=true", "[]"),
            (KEY, "profiling.iostat_devices='sda,sdb'", "['sda', 'sdb']"),
            (KEY, "profiling.iostat_devices=['a, b', c]", "['a, b', 'c']"),
            (
                KEY,
                "profiling.iostat_devices=['${workload.model.name}', \"it's\"]",
                "['retinanet', \"it's\"]",
            ),
            (COLUMNS, "workflow.train=true", "[]"),
            (COLUMNS, "storage.storage_options.columns=[]", "[]"),
            (COLUMNS, "storage.storage_options.columns=['x, y', '1']", "['x, y', '1']"),
            ("dataset.record_dims", "dataset.record_dims=[4, 8]", "[4, 8]"),
        ] {
            let overrides = vec![Override::set(option), Override::set("dataset.format=npz")];
            let workload = "retinanet_b200".into();
            let resolved = resolve(&Request { workload, overrides, ..Request::default() });
            let resolved = resolved.unwrap_or_else(|error| panic!("{option}: {error}"));
            assert_eq!(query(&resolved, key), expected, "{option}");
        }
    }
}
