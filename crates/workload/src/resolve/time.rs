//! `train.computation_time` and its kin: a number, or a mapping that describes a distribution
//! (spec/dlio.md 6.3).

use crate::origin::{Origin, Remark};
use crate::schema;
use crate::settings::{Settings, number};
use crate::tree::{Mapping, Node, Value};
use crate::workload::Time;

/// The two keys of a time.
pub(super) struct TimeKeys {
    /// The mean or the distribution.
    time: &'static str,
    /// The standard deviation around it.
    stdev: &'static str,
}

impl TimeKeys {
    pub(super) const COMPUTATION: Self =
        Self { time: "train.computation_time", stdev: "train.computation_time_stdev" };
    pub(super) const EVALUATION: Self =
        Self { time: "evaluation.eval_time", stdev: "evaluation.eval_time_stdev" };
    pub(super) const PREPROCESS: Self =
        Self { time: "reader.preprocess_time", stdev: "reader.preprocess_time_stdev" };
}

/// The longest time, in seconds: more than eleven days.
const LONGEST: f64 = 1e6;

/// The distributions and the parameters they take.
const TYPES: [(&str, &[&str]); 5] = [
    ("normal", &["mean", "stdev"]),
    ("uniform", &["min", "max"]),
    ("gamma", &["shape", "scale"]),
    ("exponential", &["scale"]),
    ("poisson", &["lam"]),
];

pub(super) fn time(settings: &mut Settings<'_>, keys: &TimeKeys) -> Time {
    let &TimeKeys { time: key, stdev: stdev_key } = keys;
    let stdev = settings.optional(stdev_key, |node| number(node, &(0.0..=LONGEST)));
    settings.record_optional(stdev_key, stdev.as_ref());
    let node = settings.find(key);
    let extra = stdev.as_ref().map(|stdev| stdev.value);
    let time = match &node {
        None => {
            if let Some(stdev) = stdev.filter(|stdev| stdev.value > 0.0) {
                settings.object(
                    &stdev.origin,
                    stdev_key,
                    format!("needs {key}, which is not given"),
                );
            }
            None
        }
        Some(node) if node.as_mapping().is_some() => distribution(settings, keys, node, extra),
        Some(node) => match number(node, &(0.0..=LONGEST)) {
            Ok(mean) => Some(around(mean, extra)),
            Err(text) => {
                settings.refuse(key, node, format!("{text} (seconds), or a mapping with type"));
                None
            }
        },
    };
    let time = time.unwrap_or(Time::Constant { mean: 0.0 });
    let origin = node.map_or(Origin::Default, |node| node.origin);
    settings.record(key, time, &origin);
    time
}

/// What a mean, with or without a standard deviation, means.
fn around(mean: f64, stdev: Option<f64>) -> Time {
    match stdev {
        Some(stdev) if stdev > 0.0 => Time::Normal { mean, stdev },
        _ => Time::Constant { mean },
    }
}

/// The distribution that the mapping `node` describes; `extra` is the standard deviation given
/// beside it.
fn distribution(
    settings: &mut Settings<'_>,
    keys: &TimeKeys,
    node: &Node,
    extra: Option<f64>,
) -> Option<Time> {
    let &TimeKeys { time: key, stdev: stdev_key } = keys;
    let kind = match node.get("type").filter(|kind| !kind.is_null()) {
        None => "",
        Some(kind) => {
            let known = TYPES.map(|(name, _)| name);
            let Some(name) = known.into_iter().find(|name| kind.value == Value::from(*name)) else {
                let near = match &kind.value {
                    Value::Text(text) => schema::nearest(text, known),
                    _ => None,
                };
                let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let text = format!("accepts {}{hint}", known.join(", "));
                settings.refuse(&format!("{key}.type"), kind, text);
                return None;
            };
            name
        }
    };
    let takes_stdev = matches!(kind, "" | "normal");
    if !takes_stdev && extra.is_some_and(|stdev| stdev > 0.0) {
        settings.object(&node.origin, stdev_key, format!("the type {kind} takes no stdev"));
    }
    warn_of_unknown_parameters(settings, key, node);
    let mut parameters = Parameters { settings, key, node, kind, complete: true };
    let time = match kind {
        "uniform" => {
            let (min, max) = (parameters.required("min"), parameters.required("max"));
            if min > max {
                parameters.refuse("max", "accepts a number from min on");
            }
            Time::Uniform { min, max }
        }
        "gamma" => {
            Time::Gamma { shape: parameters.positive("shape"), scale: parameters.positive("scale") }
        }
        "exponential" => Time::Exponential { scale: parameters.required("scale") },
        "poisson" => Time::Poisson { lam: parameters.required("lam") },
        _ => {
            let mean = parameters.required("mean");
            let stdev = match extra {
                Some(stdev) => Some(stdev),
                None if kind == "normal" => Some(parameters.required("stdev")),
                None => parameters.optional("stdev"),
            };
            match (kind, stdev) {
                ("normal", Some(stdev)) => Time::Normal { mean, stdev },
                _ => around(mean, stdev),
            }
        }
    };
    parameters.complete.then_some(time)
}

fn warn_of_unknown_parameters(settings: &mut Settings<'_>, key: &str, node: &Node) {
    let known = || TYPES.iter().flat_map(|(_, names)| names.iter().copied()).chain(["type"]);
    for entry in node.as_mapping().into_iter().flat_map(Mapping::entries) {
        if !known().any(|name| name == entry.name) {
            let hint = schema::nearest(&entry.name, known())
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            settings.warnings.push(Remark::about_key(
                &entry.origin,
                format!("{key}.{}", entry.name),
                format!("unknown parameter, ignored{hint}"),
            ));
        }
    }
}

/// Reads the parameters of a distribution; one that is missing or wrong reads as 0 and is a problem.
struct Parameters<'s, 'a> {
    settings: &'s mut Settings<'a>,
    key: &'s str,
    node: &'s Node,
    kind: &'s str,
    complete: bool,
}

impl Parameters<'_, '_> {
    fn optional(&mut self, name: &str) -> Option<f64> {
        let value = self.node.get(name).filter(|value| !value.is_null())?;
        match number(value, &(0.0..=LONGEST)) {
            Ok(value) => Some(value),
            Err(text) => {
                self.refuse(name, &text);
                None
            }
        }
    }

    fn required(&mut self, name: &str) -> f64 {
        let missing = self.node.get(name).is_none_or(Node::is_null);
        if missing {
            self.complete = false;
            let (kind, takes) = TYPES.iter().find(|(name, _)| *name == self.kind).map_or_else(
                || ("a mapping without type".to_owned(), "mean and perhaps stdev".to_owned()),
                |(name, takes)| (format!("the type {name}"), takes.join(" and ")),
            );
            self.settings.object(
                &self.node.origin,
                &format!("{}.{name}", self.key),
                format!("not given: {kind} takes {takes}"),
            );
        }
        self.optional(name).unwrap_or_default()
    }

    fn positive(&mut self, name: &str) -> f64 {
        let value = self.required(name);
        let given = self.node.get(name).is_some_and(|value| number(value, &(0.0..=0.0)).is_ok());
        if given {
            self.refuse(name, "accepts a number above 0");
        }
        value
    }

    fn refuse(&mut self, name: &str, text: &str) {
        self.complete = false;
        if let Some(value) = self.node.get(name) {
            self.settings.refuse(&format!("{}.{name}", self.key), value, text);
        }
    }
}
