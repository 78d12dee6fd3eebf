//! The sections of a workload, in the order of the specification.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::store::{self, Hints};
use super::time::{self, TimeKeys};
use super::{checkpoint, dataset, model, parquet, reader};
use crate::origin::{Origin, Remark};
use crate::settings::{Choices, Setting, Settings, file_name, short, text, whole};
use crate::tree::Value;
use crate::workload::{
    Compat, DropCaches, Evaluation, Framework, LogLevel, Metric, Output, Pipeline, Profiler,
    Profiling, RangeSize, Storage, Train, Workflow, Workload,
};

const COMPATS: Choices<Compat> = Choices {
    supported: &[
        ("none", Compat::None),
        ("mlcommons", Compat::Mlcommons),
        ("upstream", Compat::Upstream),
    ],
    not_supported: &[],
};

pub(super) const FRAMEWORKS: Choices<Framework> = Choices {
    supported: &[("pytorch", Framework::Pytorch), ("tensorflow", Framework::Tensorflow)],
    not_supported: &[],
};

const LOG_LEVELS: Choices<LogLevel> = Choices {
    supported: &[
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warning", LogLevel::Warning),
        ("warn", LogLevel::Warning),
        ("error", LogLevel::Error),
        ("critical", LogLevel::Critical),
    ],
    not_supported: &[],
};

const PROFILERS: Choices<Profiler> = Choices {
    supported: &[
        ("none", Profiler::None),
        ("iostat", Profiler::Iostat),
        ("darshan", Profiler::Darshan),
    ],
    not_supported: &["tensorboard"],
};

const DROP_CACHES: Choices<DropCaches> = Choices {
    supported: &[("auto", DropCaches::Auto), ("never", DropCaches::Never)],
    not_supported: &[],
};

/// The most of anything that is counted in 32 bits: far above what is useful, far below overflow.
pub(super) const MANY: u32 = 1_000_000;
/// The most of anything that is counted in 64 bits.
pub(super) const VERY_MANY: u64 = 1_000_000_000_000;

/// Reads every key, and the name of the store. If `settings` has problems afterwards, the workload
/// is not to be used.
pub(super) fn workload(settings: &mut Settings<'_>, hints: Hints) -> (Workload, Option<String>) {
    let compat = settings.choice("compat", &COMPATS, Compat::None).value;
    let framework = settings.choice("framework", &FRAMEWORKS, Framework::Tensorflow);
    let model = model::model(settings);
    let workflow = Workflow {
        generate_data: settings.truth("workflow.generate_data", false),
        train: settings.truth("workflow.train", true),
        evaluation: settings.truth("workflow.evaluation", false),
        checkpoint: settings.truth("workflow.checkpoint", false),
        profiling: settings.truth("workflow.profiling", false),
    };
    let data_folder = settings.folder("dataset.data_folder", "./data/");
    let dataset = dataset::dataset(settings, &data_folder.value);
    let reader = reader::reader(settings, &framework, compat, workflow, &dataset);
    let train = train(settings);
    let evaluation = evaluation(settings);
    let checkpoint = checkpoint::checkpoint(settings, &model, workflow, compat);
    let metric = Metric {
        au: settings.number("metric.au", 0.0..=1.0, 0.90).value,
        exclude_start_steps: settings
            .whole("output.metric.exclude_start_steps", 0..=VERY_MANY, 1)
            .value,
        exclude_end_steps: settings
            .whole("output.metric.exclude_end_steps", 0..=VERY_MANY, 0)
            .value,
    };
    let output = Output {
        folder: settings
            .optional_text("output.folder", short::<1024>)
            .map(|folder| PathBuf::from(folder.value)),
        log_file: settings.text("output.log_file", log_name, "dlio.log").value,
        log_level: settings.choice("output.log_level", &LOG_LEVELS, LogLevel::Warning).value,
    };
    let profiling = profiling(settings, workflow);
    let get_engine = store::get_engine(settings);
    let (target, store_named) = store::target(settings, &data_folder, &get_engine, hints);
    let window = match reader.pipeline {
        Pipeline::Sliding => 64,
        Pipeline::Chunked => 256,
    };
    let storage = Storage {
        target,
        prefetch_window: settings.whole_u32(
            "storage.storage_options.prefetch_window",
            1..=MANY,
            window,
        ),
        stagger_workers: settings.truth("storage.storage_options.stagger_workers", true),
        max_attempts: settings
            .optional_whole("storage.storage_options.s3_max_attempts", 1..=100)
            .map(|attempts| attempts.value as u32),
        simulate_io: settings.truth("storage.storage_options.simulate_io", false),
        full_object_uri: store::full_object_uri(settings, get_engine.value),
        columns: parquet::columns_to_read(settings, &dataset),
        range_size: range_size(settings),
        get_engine: get_engine.value,
        post_generation_settle_seconds: settings
            .number("storage.post_generation_settle_seconds", 0.0..=86_400.0, 0.0)
            .value,
        drop_caches: settings.choice("storage.drop_caches", &DROP_CACHES, DropCaches::Auto).value,
        drop_caches_timeout: drop_caches_timeout(settings),
    };
    reader::check_decode(settings, &reader, storage.simulate_io);
    let workload = Workload {
        compat,
        framework: framework.value,
        model,
        workflow,
        dataset,
        reader,
        train,
        evaluation,
        checkpoint,
        metric,
        output,
        profiling,
        storage,
    };
    (workload, store_named)
}

/// `auto`, 0 for never, or bytes.
fn range_size(settings: &mut Settings<'_>) -> RangeSize {
    const KEY: &str = "storage.storage_options.range_size";
    const BYTES: RangeInclusive<u64> = 64 << 10..=5 << 30;
    let found = settings.optional(KEY, |node| match &node.value {
        Value::Text(word) if word.eq_ignore_ascii_case("auto") => Ok(RangeSize::Auto),
        Value::Int(0) => Ok(RangeSize::Never),
        _ => whole(node, &BYTES)
            .map(RangeSize::Bytes)
            .map_err(|text| format!("{text}, 0 for no ranges, or auto")),
    });
    let found = found.unwrap_or(Setting { value: RangeSize::Auto, origin: Origin::Default });
    settings.record(KEY, found.value, &found.origin);
    found.value
}

/// Seconds. What a variable says is a wish, as in DLIO (spec/dlio.md 2.10): taken as far as it can be.
fn drop_caches_timeout(settings: &mut Settings<'_>) -> u32 {
    const KEY: &str = "storage.drop_caches_timeout";
    const DEFAULT: u32 = 30;
    const MOST: u32 = 86_400;
    let accepted = 1..=u64::from(MOST);
    let odd = settings.find(KEY).filter(|node| {
        matches!(node.origin, Origin::Environment(_) | Origin::Dotenv(_))
            && whole(node, &accepted).is_err()
    });
    let Some(node) = odd else { return settings.whole_u32(KEY, 1..=MOST, DEFAULT) };
    let number = text(&node).ok().and_then(|text| text.trim().parse::<i128>().ok());
    let seconds = number.map_or(DEFAULT, |number| number.clamp(1, MOST.into()) as u32);
    let text = format!("taken as {seconds}: accepts a whole number from 1 to {MOST}");
    settings.warnings.push(Remark::about_value(KEY, &node, text));
    settings.record(KEY, seconds, &node.origin);
    seconds
}

/// A file name that no result has: the log would be lost in it.
fn log_name(text: &str) -> Result<(), String> {
    let is_json = Path::new(text).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    if is_json || text == "report.md" {
        return Err(
            "accepts a file name that is no result's: none in .json, not report.md".to_owned()
        );
    }
    file_name(text)
}

fn train(settings: &mut Settings<'_>) -> Train {
    let steps = settings.optional("train.total_training_steps", |node| match node.value {
        // DLIO's way to say "all of them".
        Value::Int(-1 | 0) => Ok(None),
        _ => {
            whole(node, &(1..=VERY_MANY)).map(Some).map_err(|text| format!("{text}, or -1 for all"))
        }
    });
    let steps = steps.and_then(|steps| Some(Setting { value: steps.value?, origin: steps.origin }));
    settings.record_optional("train.total_training_steps", steps.as_ref());
    Train {
        epochs: settings.whole_u32("train.epochs", 1..=MANY, 1),
        computation_time: time::time(settings, &TimeKeys::COMPUTATION),
        total_training_steps: steps.map(|steps| steps.value),
        seed: settings.whole("train.seed", 0..=u64::MAX, 123).value,
        seed_change_epoch: settings.truth("train.seed_change_epoch", true),
    }
}

fn evaluation(settings: &mut Settings<'_>) -> Evaluation {
    Evaluation {
        eval_time: time::time(settings, &TimeKeys::EVALUATION),
        eval_after_epoch: settings.whole_u32("evaluation.eval_after_epoch", 0..=MANY, 1),
        epochs_between_evals: settings.whole_u32("evaluation.epochs_between_evals", 0..=MANY, 1),
    }
}

fn profiling(settings: &mut Settings<'_>, workflow: Workflow) -> Profiling {
    let profiler = settings.choice("profiling.profiler", &PROFILERS, Profiler::Iostat);
    let preloaded = settings.variable("LD_PRELOAD").is_some_and(|list| list.contains("libdarshan"));
    if workflow.profiling && profiler.value == Profiler::Darshan && !preloaded {
        settings.object(
            &profiler.origin,
            "profiling.profiler",
            "is darshan, but LD_PRELOAD names no libdarshan: preload it, or choose another profiler",
        );
    }
    let devices = settings.optional("profiling.iostat_devices", |node| match &node.value {
        Value::Sequence(nodes) => nodes.iter().map(text).collect::<Result<Vec<_>, _>>(),
        // One device, or several with blanks or commas between them.
        _ => Ok(text(node)?
            .split([' ', ','])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()),
    });
    settings.record_list("profiling.iostat_devices", devices.as_ref());
    let iostat_devices = devices.map(|devices| devices.value).unwrap_or_default();
    // They become arguments of a program.
    if let Some(odd) = iostat_devices.iter().find(|name| name.starts_with('-')) {
        let text = format!("{odd:?} is no name of a device, such as sda or nvme0n1");
        settings.object_to_value("profiling.iostat_devices", text);
    }
    Profiling { profiler: profiler.value, iostat_devices }
}
