//! Every preset resolves, demands what is published, and stands in `docs/workloads.md` with exactly
//! what it resolves to.

use std::collections::HashMap;

use feedrate_workload::presets::{self, Group};
use feedrate_workload::{ColumnType, Request, Workload, resolve};

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: f64 = (1_u64 << 30) as f64;

fn workload(name: &str) -> Workload {
    let request = Request { workload: name.into(), ..Request::default() };
    resolve(&request).unwrap_or_else(|error| panic!("{name}: {error}")).workload
}

/// What one accelerator takes that is never kept waiting, in samples a second.
fn samples_per_second(workload: &Workload) -> f64 {
    workload.reader.batch_size as f64 / workload.train.computation_time.mean()
}

/// Bytes of a sample in the columns that are read, if those are named.
fn bytes_read(workload: &Workload) -> Option<f64> {
    let read = workload.storage.columns.as_ref()?;
    let bytes = read.iter().map(|name| column_bytes(workload, name)).sum::<u64>();
    Some(bytes as f64)
}

fn column_bytes(workload: &Workload, name: &str) -> u64 {
    let mut named = workload.dataset.parquet.columns.iter().filter(|column| column.name == name);
    let (Some(column), None) = (named.next(), named.next()) else {
        panic!("not one column {name}")
    };
    let element = match column.dtype {
        ColumnType::Int8 => 1,
        ColumnType::Float16 => 2,
        ColumnType::Float32 => 4,
        ColumnType::Float64 => 8,
        other => panic!("no preset has columns of {other:?}"),
    };
    element * column.size
}

/// Parameters of a transformer (spec/dlio.md 9.2).
fn parameters(workload: &Workload) -> u64 {
    let transformer = workload.model.transformer;
    let (hidden, layers) = (transformer.hidden_size, u64::from(workload.model.num_layers.unwrap()));
    let kv = hidden / transformer.num_attention_heads * transformer.num_kv_heads;
    let layer = 2 * hidden
        + hidden * (hidden + 2 * kv)
        + hidden * hidden
        + 3 * transformer.ffn_hidden_size * hidden;
    2 * transformer.vocab_size * hidden + layers * layer + hidden
}

#[test]
fn every_preset_resolves_and_nothing_in_it_is_unknown() {
    for name in presets::names() {
        let request = Request { workload: name.into(), ..Request::default() };
        let resolved = resolve(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        for warning in resolved.warnings {
            assert!(!warning.to_string().contains("unknown"), "{name}: {warning}");
        }
    }
}

#[test]
fn the_scored_workloads_demand_what_is_published() {
    // Samples/s and MiB/s (spec/mlperf.md 2b, 2c).
    let published = [
        ("unet3d_a100", 11.006, 1_538.8),
        ("unet3d_h100", 21.672, 3_029.9),
        ("resnet50_a100", 919.54, 100.55),
        ("resnet50_h100", 1_785.71, 195.26),
        ("cosmoflow_a100", 181.49, 489.6),
        ("cosmoflow_h100", 285.71, 770.7),
        ("unet3d_b200", 43.21, 6_041.0),
        ("retinanet_b200", 504.73, 155.5),
        ("retinanet_mi355", 504.73, 155.5),
        ("flux_b200", 35.56, 73.4),
        ("flux_mi355", 35.56, 73.4),
        ("dlrm_b200", 43_690_667.0, 31_708.0),
        ("dlrm_mi355", 29_127_111.0, 21_139.0),
    ];
    for (name, samples, mib) in published {
        let workload = workload(name);
        let demand = samples_per_second(&workload);
        let near = |value: f64, published: f64| (value / published - 1.0).abs() < 1e-3;
        assert!(near(demand, samples), "{name}: {demand} samples/s");
        let bytes = demand * workload.dataset.record_length_bytes / MIB;
        assert!(near(bytes, mib), "{name}: {bytes} MiB/s");
    }
}

#[test]
fn the_columns_of_a_sample_add_up_to_its_record() {
    for preset in presets::all() {
        let workload = workload(preset.name);
        let columns = &workload.dataset.parquet.columns;
        if columns.is_empty() {
            continue;
        }
        let bytes: u64 = columns.iter().map(|column| column_bytes(&workload, &column.name)).sum();
        let missing = workload.dataset.record_length_bytes - bytes as f64;
        assert!(missing.abs() < 0.5, "{}: {missing} bytes", preset.name);
    }
    let dlrm = workload("dlrm_b200");
    let of_type =
        |dtype| dlrm.dataset.parquet.columns.iter().filter(|column| column.dtype == dtype).count();
    let types = [ColumnType::Int8, ColumnType::Float16, ColumnType::Float32, ColumnType::Float64];
    assert_eq!(types.map(of_type), [45, 50, 56, 49]);
    assert_eq!(dlrm.storage.columns.as_ref().map(Vec::len), Some(40));
    assert_eq!(bytes_read(&dlrm), Some(160.0));
}

#[test]
fn a_data_set_is_what_its_trainings_read() {
    let datagen = |name: &str| name.ends_with("_datagen");
    for name in presets::names().filter(|name| datagen(name)) {
        let set = workload(name);
        assert!(set.workflow.generates_only(), "{name}");
        let model = name.trim_end_matches("datagen");
        let trainings: Vec<_> = presets::all()
            .iter()
            .filter(|preset| matches!(preset.group, Group::Current | Group::Earlier))
            .filter(|preset| preset.name.starts_with(model))
            .collect();
        assert!(!trainings.is_empty(), "{name}");
        for training in trainings {
            let mut dataset = workload(training.name).dataset;
            if training.name == "unet3d_b200" {
                // It trains on more of the same files.
                dataset.num_files_train = set.dataset.num_files_train;
            }
            assert_eq!(dataset, set.dataset, "{} and {name}", training.name);
        }
    }
}

#[test]
fn checkpoints_of_language_models_have_the_published_sizes() {
    let published = [
        ("llama3_8b", 8_030_261_248),
        ("llama3_70b", 69_882_617_856),
        ("llama3_405b", 405_853_388_800),
        ("llama3_1t", 1_183_035_102_480),
    ];
    for (name, count) in published {
        let workload = workload(name);
        assert!(workload.workflow.checkpoints_only(), "{name}");
        assert_eq!(parameters(&workload), count, "{name}");
    }
}

/// A row of a table of the page, cells by the heads of their columns.
struct Row {
    section: &'static str,
    cells: HashMap<&'static str, &'static str>,
}

/// The tables of the page: preset to row.
fn rows() -> HashMap<&'static str, Row> {
    let page = include_str!("../../../docs/workloads.md");
    let mut rows = HashMap::new();
    let (mut section, mut head) = ("", Vec::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", "workload", ..] => head = cells,
            ["", first, .., ""] if first.starts_with('`') => {
                assert_eq!(cells.len(), head.len(), "{line}");
                let cells = head.iter().copied().zip(cells.iter().copied()).collect();
                let row = Row { section, cells };
                assert!(rows.insert(first.trim_matches('`'), row).is_none(), "{first} twice");
            }
            _ => {}
        }
    }
    rows
}

/// Whether a number of the page is `value`, rounded to the places that it shows.
fn shows(cell: &str, value: f64) -> bool {
    let digits = cell.replace(',', "");
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
    let Ok(shown) = digits.parse::<f64>() else { return false };
    // A little more than a half, for what binary fractions cannot say.
    (shown - value).abs() <= 0.500_001 * 10_f64.powf(-(places as f64))
}

#[test]
fn the_page_has_one_row_for_each_preset_in_the_section_of_its_group() {
    let rows = rows();
    for preset in presets::all() {
        let row = rows.get(preset.name).unwrap_or_else(|| panic!("no row for {}", preset.name));
        assert_eq!(row.section, preset.group.to_string(), "{}", preset.name);
    }
    assert_eq!(rows.len(), presets::all().len());
}

#[test]
fn the_page_shows_what_the_presets_resolve_to() {
    for (name, row) in rows() {
        let workload = workload(name);
        for (&column, &cell) in &row.cells {
            let right = match column {
                "" | "workload" | "what" | "for" | "source" => true,
                "missing" => cell == missing(&workload),
                _ => is_right(&workload, column, cell),
            };
            assert!(right, "{name}: {column} is not {cell}");
        }
    }
}

fn is_right(workload: &Workload, column: &str, cell: &str) -> bool {
    let (dataset, model) = (&workload.dataset, &workload.model);
    let files = dataset.num_files_train as f64;
    let samples = dataset.num_samples_per_file as f64;
    let bytes = dataset.record_length_bytes;
    let demand = samples_per_second(workload);
    match column {
        "format" => cell == dataset.format.suffix(),
        "files × samples × bytes" => {
            let (record, stdev) = cell.split_once(" ± ").unwrap_or((cell, "0"));
            let factors: Vec<&str> = record.split(" × ").collect();
            let expected = [files, samples, bytes];
            factors.len() == expected.len()
                && factors.iter().zip(expected).all(|(factor, value)| shows(factor, value))
                && shows(stdev, dataset.record_length_bytes_stdev)
        }
        "GiB" if workload.workflow.checkpoints_only() => {
            shows(cell, parameters(workload) as f64 * (2.0 + 12.0) / GIB)
        }
        "GiB" => shows(cell, files * samples * bytes / GIB),
        "batch" => shows(cell, workload.reader.batch_size as f64),
        "seconds" => shows(cell, workload.train.computation_time.mean()),
        "AU %" => shows(cell, workload.metric.au * 100.0),
        "samples/s" => shows(cell, demand),
        "MiB/s" => match bytes_read(workload) {
            None => shows(cell, demand * bytes / MIB),
            Some(read) => cell
                .strip_suffix(" with all columns")
                .and_then(|cell| cell.split_once(" read, "))
                .is_some_and(|(part, all)| {
                    shows(part, demand * read / MIB) && shows(all, demand * bytes / MIB)
                }),
        },
        "layers" => shows(cell, f64::from(model.num_layers.unwrap())),
        "tensor × pipeline" => {
            cell == format!("{} × {}", model.parallelism.tensor, model.parallelism.pipeline)
        }
        "ZeRO" => shows(cell, f64::from(model.parallelism.zero_stage)),
        "parameters" => shows(cell, parameters(workload) as f64),
        _ => panic!("what is a column {column}?"),
    }
}

/// What a workload needs and the program has not: checkpoints.
fn missing(workload: &Workload) -> String {
    if workload.workflow.checkpoints_only() {
        return "checkpoint-only runs".to_owned();
    }
    let missing =
        if workload.workflow.checkpoint { "checkpoints in training (skipped)" } else { "–" };
    missing.to_owned()
}
