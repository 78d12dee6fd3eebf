//! What was set differently in two sweeps: the workload's values, the store, the host, the program.

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
    workload["train"]["computation_time"] =
        text::time(&sweep.workload.train.computation_time).into();
    flatten("", &workload, &mut settings);
    // Where results go changes none. Endpoint and place are told by the store below, which knows an
    // embedded server's free port from an address that somebody chose.
    settings.retain(|(key, _)| {
        let about_place = key.starts_with("output.") || key.starts_with("storage.target.");
        !about_place || key == "storage.target.region"
    });
    // As they are written in a workload.
    for (key, _) in &mut settings {
        if let Some(option) = key.strip_prefix("storage.").filter(|rest| !rest.contains('.')) {
            *key = format!("storage.storage_options.{option}");
        }
    }
    let host = &sweep.environment;
    let Store { location, .. } = &host.store;
    let budget = sweep.runs.iter().filter_map(|run| run.figures.byte_budget_bytes).max();
    let around = [
        ("store", store(&host.store)),
        ("store's location", location.clone()),
        ("host", host.hostname.clone()),
        ("host's CPUs", format!("{} × {}", host.logical_cpus, host.cpu_model)),
        ("host's memory", host.memory_bytes.to_string()),
        ("memory for batches", budget.map_or(text::UNKNOWN.to_owned(), |most| most.to_string())),
        ("feedrate", sweep.origin.tool_version.clone()),
    ];
    settings.extend(around.map(|(name, value)| (name.to_owned(), value)));
    settings
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
