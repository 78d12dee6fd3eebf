//! Odd values of real keys, wherever they come from: whatever is written, resolving ends with a workload in
//! which every key has a value, or says what is wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use jiff::civil::date;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::hydra::CommandLine;
use crate::schedule::Schedule;

/// No input of these tests takes a hundredth of it, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keys and values of a small workload that resolves.
const SMALL: &[(&str, &str)] = &[
    ("model.name", "t0"),
    ("framework", "pytorch"),
    ("dataset.format", "npz"),
    ("dataset.num_files_train", "16"),
    ("dataset.record_length_bytes", "65536"),
    ("reader.batch_size", "4"),
    ("train.computation_time", "0.01"),
];

/// Values as they stand in a file. Each is right for some key and wrong for most.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "4096",
    "0x10",
    "010",
    "1_000",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "170141183460469231731687303715884105727",
    "170141183460469231731687303715884105728",
    "1e3",
    "1e308",
    "-0.0",
    "0.5",
    "1e-320",
    ".inf",
    "-.inf",
    ".nan",
    "1:30",
    "yes",
    "off",
    "true",
    "~",
    "''",
    "'0'",
    "'true'",
    "[]",
    "{}",
    "[1]",
    "[1, 2, 3]",
    "[[1], {a: b}]",
    "[~]",
    "[4294967295, 4294967295, 4294967295]",
    "[18446744073709551615, 2]",
    "[a, 'b/c', '']",
    "{name: a}",
    "[{name: a, dtype: float64, size: 3}]",
    "[{name: a, dtype: int8, size: 4294967295}, {name: a}]",
    "[{name: a, dtype: int8}, {name: b, dtype: string}]",
    "[{name: a, size: 1000000000000}, {name: b, size: 1000000000000}]",
    "a",
    "{mean: 1, stdev: 1e300}",
    "{mean: 0.1, stdev: -1, type: normal}",
    "{type: gamma, shape: 0}",
    "{type: uniform, min: 2, max: 1}",
    "{type: poisson, mean: .inf}",
    "{type: exponential, mean: 1}",
    "{type: x}",
    "{mean: {mean: 1}}",
    "npz",
    "npy",
    "jpeg",
    "tfrecord",
    "hdf5",
    "parquet",
    "csv",
    "s3",
    "local_fs",
    "file",
    "pytorch",
    "tensorflow",
    "synthetic",
    "seed",
    "random",
    "on_demand",
    "memory",
    "chunked",
    "discard",
    "full",
    "row_group",
    "mlcommons",
    "upstream",
    "none",
    "gzip",
    "zstd",
    "subset",
    "auto",
    "s3://bucket/a/../b",
    "s3://",
    "file:///data",
    "file://data",
    "/",
    "..",
    "a/b/",
    "'a\\b'",
    "http://127.0.0.1:9000",
    "'http://a,http://b:1/'",
    "http://user:password@host",
    "'http://[::1]'",
    "'http://:'",
    "\"\\0\"",
    "\"\\u2028é\"",
    "'\u{1F600}'",
    "'${'",
    "'${}'",
    "'$${a}'",
    "'${oc.env:A}'",
    "'${oc.env:${oc.env:B},${.x}}'",
    "'${now:%Y}'",
    "'${hydra:run.dir}'",
];

/// The key at an index of the table, or one of old spellings and none at all.
fn key() -> impl Strategy<Value = String> {
    let known: Vec<_> = schema::KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    let old = schema::ALIASES.iter().skip(1).map(|(old, _)| (*old).to_owned());
    let old: Vec<_> = old.chain(["data_reader.batch_size".to_owned()]).collect();
    prop_oneof![
        12 => select(known),
        2 => select(old),
        1 => "[a-z]{1,3}_x(\\.[a-z]{1,8}){0,3}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(VALUES).prop_map(str::to_owned),
        2 => key().prop_map(|key| format!("'${{workload.{key}}}'")),
        1 => any::<i128>().prop_map(|value| value.to_string()),
        1 => any::<f64>().prop_map(|value| format!("{value:e}")),
        1 => "[-a-z0-9/:. ]{1,12}".prop_map(|text| format!("'{text}'")),
    ]
}

/// The text of a file with these keys and values.
fn file(values: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut above: Vec<&str> = Vec::new();
    for (key, value) in values {
        let names: Vec<_> = key.split('.').collect();
        let (name, sections) = names.split_last().unwrap();
        let same = above.iter().zip(sections).take_while(|(a, b)| a == b).count();
        for (depth, section) in sections.iter().enumerate().skip(same) {
            writeln!(text, "{}{section}:", "  ".repeat(depth)).unwrap();
        }
        writeln!(text, "{}{name}: {value}", "  ".repeat(sections.len())).unwrap();
        above = sections.to_vec();
    }
    text
}

fn request(overrides: Vec<Override>) -> Request {
    let environment = [
        ("A", "4"),
        ("B", "A"),
        ("DLIO_BUCKET", "bench"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000"),
        ("DLIO_MAX_AUTO_THREADS", "99999999999"),
    ];
    Request {
        overrides,
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        started: Some(date(2026, 3, 4).at(5, 6, 7, 0).in_tz("UTC").unwrap()),
        ..Request::default()
    }
}

/// What must hold of every outcome.
fn judge(outcome: &Result<Resolved, ResolveError>, started: Instant) -> Result<(), TestCaseError> {
    prop_assert!(started.elapsed() < PATIENCE);
    match outcome {
        Ok(resolved) => {
            let mut keys: Vec<_> = resolved.values.iter().map(|value| value.key).collect();
            let all = keys.len();
            keys.dedup();
            prop_assert_eq!(keys.len(), all);
            prop_assert_eq!(all, schema::read_keys().count());
            for ranks in [1, u32::MAX] {
                let _ = Schedule::new(&resolved.workload, ranks);
                let _ = Schedule::evaluation(&resolved.workload, ranks);
            }
        }
        Err(ResolveError::Invalid { problems, .. }) => {
            prop_assert!(!problems.is_empty());
            let silent = problems.iter().find(|p| p.key.is_empty() || p.text.is_empty());
            prop_assert_eq!(silent, None);
        }
        Err(ResolveError::Yaml(_) | ResolveError::UnknownChoice { .. }) => {}
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    }
    Ok(())
}

/// An interpolation in pieces that may refer to one another, and to itself, through `k0` to `k7`.
fn interpolations() -> impl Strategy<Value = String> {
    let name = || (0..8_u32).prop_map(|number| format!("k{number}"));
    let leaf = prop_oneof![
        name().prop_map(|name| format!("${{workload.{name}}}")),
        name().prop_map(|name| format!("${{.{name}}}")),
        name().prop_map(|name| format!("${{..{name}}}")),
        name().prop_map(|name| format!("${{workload[{name}][0].a}}")),
        Just("${oc.env:A}".to_owned()),
        Just("k0".to_owned()),
        Just("\\\\".to_owned()),
        Just("x".repeat(1000)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(|pieces| pieces.concat()),
            inner.clone().prop_map(|name| format!("${{workload.{name}}}")),
            inner.clone().prop_map(|default| format!("${{oc.env:NONE,{default}}}")),
            inner.clone().prop_map(|name| format!("${{oc.env:{name},1}}")),
            inner.prop_map(|text| format!("\\${{{text}}}")),
        ]
    })
}

/// Interpolations as one value, in a list or in a mapping.
fn tangle() -> impl Strategy<Value = String> {
    let leaf = interpolations().prop_map(|text| format!("'{text}'"));
    leaf.prop_recursive(3, 40, 12, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..12).prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner).prop_map(|(a, k1)| format!("{{a: {a}, k1: {k1}}}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn odd_values_in_a_file_are_resolved_or_refused(
        odd in vec((key(), value()), 0..6),
        strict in any::<bool>(),
        aws in any::<bool>(),
    ) {
        let small = SMALL.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let text = file(&small.chain(odd).collect());
        let request = Request { aws, strict, ..request(Vec::new()) };
        let started = Instant::now();
        judge(&resolve_text("t.yaml", &text, &request), started)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    }

    #[test]
    fn odd_values_in_options_are_resolved_or_refused(odd in vec((key(), value()), 0..6)) {
        let options = odd.iter().map(|(key, value)| Override::set(&format!("{key}={value}")));
        let request = Request { workload: "unet3d_h100".into(), ..request(options.collect()) };
        let started = Instant::now();
        judge(&resolve(&request), started)?;
    }

    #[test]
    fn odd_arguments_of_dlio_benchmark_are_resolved_or_refused(
        odd in vec((select(vec!["", "+", "++", "~", "++", "+++"]), key(), proptest::option::of(value())), 0..6),
        preset in any::<Index>(),
    ) {
        let names: Vec<_> = presets::names().collect();
        let mut arguments = vec![format!("workload={}", preset.get(&names))];
        arguments.extend(odd.iter().map(|(sigil, key, value)| {
            let value = value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
            format!("{sigil}workload.{key}{value}")
        }));
        let line = CommandLine::parse(&arguments).unwrap();
        let workload = Source::Composed(line.composition);
        let request = Request { workload, ..request(line.overrides) };
        let started = Instant::now();
        let _ = compose(&request, true);
        judge(&resolve(&request), started)?;
    }

    #[test]
    fn values_that_refer_to_one_another_end(
        tangles in vec(tangle(), 8),
        referring in key(),
    ) {
        let mut values: BTreeMap<_, _> =
            tangles.iter().enumerate().map(|(at, value)| (format!("k{at}"), value.clone())).collect();
        values.extend(SMALL.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        values.insert(referring, "'${workload.k0}'".to_owned());
        let text = file(&values);
        let started = Instant::now();
        let composed = compose_text("t.yaml", &text, &request(Vec::new()), true);
        if let Ok(configuration) = composed {
            prop_assert!(serde_json::to_string(&configuration.root).unwrap().len() < 1 << 24);
        }
        judge(&resolve_text("t.yaml", &text, &request(Vec::new())), started)?;
    }
}
