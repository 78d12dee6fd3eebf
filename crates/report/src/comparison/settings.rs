//! What was set differently in two sweeps: the workload's values, the store, the host, the program.

use feedrate_workload::Workload;
use serde::Serialize;
use serde_json::Value;

use crate::{Store, Sweep, text};

/// A setting that is not the same in two sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// A key of the workload, or a word for something around it.
    pub setting: String,
    /// Its value in the base.
    pub a: String,
    /// Its value in what is held against it.
    pub b: String,
}

/// Every setting that differs, the workload's first.
pub(super) fn differences(a: &Sweep, b: &Sweep) -> Vec<Difference> {
    let (a, b) = (settings(a), settings(b));
    let value = |settings: &[(String, String)], name: &str| {
        let found = settings.iter().find(|(known, _)| known == name);
        found.map_or_else(|| text::UNKNOWN.to_owned(), |(_, value)| value.clone())
    };
    let only_in_b = b.iter().filter(|(name, _)| !a.iter().any(|(known, _)| known == name));
    a.iter()
        .chain(only_in_b)
        .map(|(name, _)| Difference {
            setting: name.clone(),
            a: value(&a, name),
            b: value(&b, name),
        })
        .filter(|found| found.a != found.b)
        .collect()
}

/// Name and value of everything that could make two results differ.
fn settings(sweep: &Sweep) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut workload = serde_json::to_value(&sweep.workload).unwrap_or_default();
    let Workload { train, evaluation, reader, .. } = &sweep.workload;
    workload["train"]["computation_time"] = text::time(&train.computation_time).into();
    workload["evaluation"]["eval_time"] = text::time(&evaluation.eval_time).into();
    workload["reader"]["preprocess_time"] = text::time(&reader.preprocess_time).into();
    flatten("", &workload, &mut settings);
    // Where results go changes none. Endpoint and place are told by the store below, which knows an
    // embedded server's free port from an address that somebody chose.
    settings.retain(|(key, _)| {
        let about_place = key.starts_with("output.") || key.starts_with("storage.target.");
        !about_place || key == "storage.target.region"
    });
    for (key, _) in &mut settings {
        if let Some(option) = key.strip_prefix("storage.") {
            *key = storage_key(option);
        }
    }
    let host = &sweep.environment;
    let Store { location, .. } = &host.store;
    let budget = sweep.runs.iter().filter_map(|run| run.figures.byte_budget_bytes).max();
    let around = [
        ("store", store(&host.store)),
        ("store's location", location.clone()),
        ("host", if host.hosts.is_empty() { host.hostname.clone() } else { host.hosts.join(", ") }),
        ("host's CPUs", format!("{} × {}", host.logical_cpus, host.cpu_model)),
        ("host's memory", host.memory_bytes.to_string()),
        ("memory for batches", budget.map_or(text::UNKNOWN.to_owned(), |most| most.to_string())),
        ("feedrate", sweep.origin.tool_version.clone()),
    ];
    settings.extend(around.map(|(name, value)| (name.to_owned(), value)));
    settings
}

/// The key of the workload's `storage` part as it is written in a file.
fn storage_key(option: &str) -> String {
    let option = match option {
        "post_generation_settle_seconds" | "drop_caches" | "drop_caches_timeout" => {
            return format!("storage.{option}");
        }
        "target.region" => "region",
        "max_attempts" => "s3_max_attempts",
        "full_object_uri" => "use_full_object_uri",
        other => other,
    };
    format!("storage.storage_options.{option}")
}

fn store(store: &Store) -> String {
    let placed = if store.co_located { ", on the client's host" } else { "" };
    match &store.endpoint {
        _ if store.embedded => format!("feedrate's own server{placed}"),
        Some(endpoint) => format!("{endpoint}{placed}"),
        None => "file system".to_owned(),
    }
}

/// The leaves of `value` under their dotted keys.
fn flatten(path: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, leaves);
            }
        }
        Value::String(text) => leaves.push((path.to_owned(), text.clone())),
        Value::Number(number) => {
            let shown = number.as_f64().map_or_else(|| number.to_string(), text::short);
            leaves.push((path.to_owned(), shown));
        }
        other => leaves.push((path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use feedrate_workload::{DropCaches, GetEngine};

    use super::*;
    use crate::fixtures;

    #[test]
    fn settings_are_named_as_they_are_written_in_a_workload() {
        let a = fixtures::sweep();
        let mut b = a.clone();
        let storage = &mut b.workload.storage;
        storage.prefetch_window += 1;
        storage.max_attempts = Some(7);
        storage.full_object_uri = !storage.full_object_uri;
        storage.get_engine = GetEngine::ObjectStore;
        storage.drop_caches = DropCaches::Never;
        storage.drop_caches_timeout += 1;
        let found = differences(&a, &b);
        let names: Vec<&str> = found.iter().map(|found| found.setting.as_str()).collect();
        assert_eq!(
            names,
            [
                "storage.storage_options.prefetch_window",
                "storage.storage_options.s3_max_attempts",
                "storage.storage_options.use_full_object_uri",
                "storage.storage_options.get_engine",
                "storage.drop_caches",
                "storage.drop_caches_timeout",
            ]
        );
    }
}
