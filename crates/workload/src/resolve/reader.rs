//! `reader.*`: who reads, how far ahead, in which order.

use super::keys::{FRAMEWORKS, MANY, VERY_MANY};
use super::time::{self, TimeKeys};
use crate::origin::Origin;
use crate::settings::{Choices, Setting, Settings};
use crate::tree::Value;
use crate::workload::{
    Compat, DataLoader, Dataset, Decode, Format, Framework, Payload, Pipeline, Reader, Shuffle,
    Window, Workflow,
};

const DATA_LOADERS: Choices<DataLoader> = Choices {
    supported: &[
        ("pytorch", DataLoader::Pytorch),
        ("tensorflow", DataLoader::Tensorflow),
        ("synthetic", DataLoader::Synthetic),
    ],
    not_supported: &["dali", "native_dali", "custom", "none"],
};

const PIPELINES: Choices<Pipeline> = Choices {
    supported: &[("sliding", Pipeline::Sliding), ("chunked", Pipeline::Chunked)],
    not_supported: &[],
};

const WINDOWS: Choices<Window> =
    Choices { supported: &[("auto", Window::Auto), ("fixed", Window::Fixed)], not_supported: &[] };

const PAYLOADS: Choices<Payload> = Choices {
    supported: &[("land", Payload::Land), ("discard", Payload::Discard)],
    not_supported: &[],
};

const DECODES: Choices<Decode> =
    Choices { supported: &[("none", Decode::None), ("full", Decode::Full)], not_supported: &[] };

const SHUFFLES: Choices<Shuffle> = Choices {
    supported: &[("off", Shuffle::Off), ("seed", Shuffle::Seed), ("random", Shuffle::Random)],
    not_supported: &[],
};

/// `reader.read_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadType {
    OnDemand,
    Memory,
}

const READ_TYPES: Choices<ReadType> = Choices {
    supported: &[("on_demand", ReadType::OnDemand), ("memory", ReadType::Memory)],
    not_supported: &[],
};

const DECODE: &str = "reader.decode";
const READ_THREADS: &str = "reader.read_threads";
/// The most readers that DLIO chooses by itself (spec/dlio.md 2.10, `DLIO_MAX_AUTO_THREADS`).
const MOST_AUTOMATIC: u64 = 8;

pub(super) fn reader(
    settings: &mut Settings<'_>,
    framework: &Setting<Framework>,
    compat: Compat,
    workflow: Workflow,
    dataset: &Dataset,
) -> Reader {
    let data_loader = data_loader(settings, framework, workflow, dataset);
    let (read_threads, most_automatic_threads) = read_threads(settings, compat);
    let file_shuffle = shuffle(settings, "reader.file_shuffle", compat != Compat::None);
    let sample_shuffle = shuffle(settings, "reader.sample_shuffle", false);
    let read_type = settings.choice("reader.read_type", &READ_TYPES, ReadType::OnDemand);
    let again = dataset.num_samples_per_file > 1 && sample_shuffle != Shuffle::Off;
    if read_type.value == ReadType::Memory && again {
        settings.object(
            &read_type.origin,
            "reader.read_type",
            "memory would hold a rank's whole share, since its shuffled samples come back to the same \
             files: use on_demand, or reader.sample_shuffle off",
        );
    }
    let odirect = settings.truth("reader.odirect", false);
    if odirect {
        let text = if matches!(dataset.format, Format::Npy | Format::Npz) {
            "known to DLIO, but not supported, and it would change the result: leave it out"
                .to_owned()
        } else {
            format!("works with npy and npz files only, not with {}", dataset.format.suffix())
        };
        settings.object_to_value("reader.odirect", text);
    }
    let pipeline = settings.choice("reader.pipeline", &PIPELINES, Pipeline::Sliding).value;
    Reader {
        data_loader,
        batch_size: settings.whole("reader.batch_size", 1..=u64::from(u32::MAX), 1).value,
        batch_size_eval: settings.whole("reader.batch_size_eval", 1..=u64::from(u32::MAX), 1).value,
        read_threads,
        most_automatic_threads,
        write_threads: settings
            .optional_whole("reader.write_threads", 1..=1024)
            .map(|threads| threads.value as u32),
        computation_threads: settings.whole_u32("reader.computation_threads", 1..=1024, 1),
        prefetch_size: settings.whole_u32("reader.prefetch_size", 0..=MANY, 2),
        file_shuffle,
        sample_shuffle,
        transfer_size: settings
            .optional_whole("reader.transfer_size", 1..=VERY_MANY)
            .map(|bytes| bytes.value),
        preprocess_time: time::time(settings, &TimeKeys::PREPROCESS),
        odirect,
        pipeline,
        window: window(settings, pipeline, read_threads),
        payload: settings.choice("reader.payload", &PAYLOADS, Payload::Land).value,
        decode: settings.choice(DECODE, &DECODES, Decode::None).value,
    }
}

/// What is decoded must have been read and kept.
pub(super) fn check_decode(settings: &mut Settings<'_>, reader: &Reader, simulate_io: bool) {
    if reader.decode == Decode::None {
        return;
    }
    let why = if reader.data_loader == DataLoader::Synthetic {
        "reader.data_loader is synthetic: nothing is read that could be decoded"
    } else if simulate_io {
        "storage.storage_options.simulate_io is true: nothing is read that could be decoded"
    } else if reader.payload == Payload::Discard {
        "reader.payload is discard: nothing is kept that could be decoded. Use reader.payload land"
    } else {
        return;
    };
    settings.object_to_value(DECODE, format!("is full, but {why}"));
}

/// Who says how many GETs are in flight: there is a choice only where readers have a sliding window.
fn window(settings: &mut Settings<'_>, pipeline: Pipeline, read_threads: u32) -> Window {
    const WINDOW: &str = "reader.window";
    let why_fixed = if read_threads == 0 {
        Some("reader.read_threads is 0: one file is read at a time, and none ahead")
    } else if pipeline == Pipeline::Chunked {
        Some("reader.pipeline is chunked: its readers fetch chunk after chunk, as DLIO's do")
    } else {
        None
    };
    let default = why_fixed.map_or(Window::Auto, |_| Window::Fixed);
    let window = settings.choice(WINDOW, &WINDOWS, default).value;
    if let Some(why) = why_fixed.filter(|_| window == Window::Auto) {
        settings.object_to_value(WINDOW, format!("is auto, but {why}. Leave it out"));
    }
    window
}

/// The loader, which must be the framework's own or none of its (spec/dlio.md 2.11).
fn data_loader(
    settings: &mut Settings<'_>,
    framework: &Setting<Framework>,
    workflow: Workflow,
    dataset: &Dataset,
) -> DataLoader {
    let own = match framework.value {
        Framework::Pytorch => DataLoader::Pytorch,
        Framework::Tensorflow => DataLoader::Tensorflow,
    };
    let loader = settings.choice("reader.data_loader", &DATA_LOADERS, own);
    let framework_is_known = !settings.has_problem_of("framework");
    if ![own, DataLoader::Synthetic].contains(&loader.value) && framework_is_known {
        settings.object(
            &loader.origin,
            "reader.data_loader",
            format!(
                "is {}, but framework is {} ({}): use the same word for both",
                DATA_LOADERS.name(loader.value),
                FRAMEWORKS.name(framework.value),
                framework.origin,
            ),
        );
    }
    let reads = workflow.train || workflow.evaluation;
    if reads && loader.value == DataLoader::Pytorch && dataset.format == Format::Tfrecord {
        settings.object(
            &loader.origin,
            "reader.data_loader",
            "is pytorch, but dataset.format is tfrecord, which it cannot read: use framework and \
             loader tensorflow, or another format",
        );
    }
    loader.value
}

/// The number of readers, and the most of them where they follow from the machine: asked for by
/// `auto`, or meant by 1 in the MLCommons fork (spec/dlio.md D8).
fn read_threads(settings: &mut Settings<'_>, compat: Compat) -> (u32, Option<u32>) {
    let most = settings.variable("DLIO_MAX_AUTO_THREADS");
    let most = most.and_then(|text| text.parse().ok()).unwrap_or(MOST_AUTOMATIC).clamp(1, 1024);
    let automatic =
        settings.find(READ_THREADS).is_some_and(|node| node.value == Value::from("auto"));
    if automatic {
        let node = settings.find(READ_THREADS);
        let origin = node.map_or(Origin::Default, |node| node.origin);
        settings.record(READ_THREADS, "auto", &origin);
        return (1, Some(most as u32));
    }
    let threads = settings.whole_u32(READ_THREADS, 0..=1024, 1);
    let raised = threads == 1 && compat == Compat::Mlcommons;
    (threads, raised.then_some(most as u32))
}

/// `off`, `seed`, `random`, or a truth value: an unquoted `off` in a file is false (spec/dlio.md
/// 5.4 I4). With `any_is_seed`, whatever is given shuffles by the seed, as in the originals (D5).
fn shuffle(settings: &mut Settings<'_>, key: &'static str, any_is_seed: bool) -> Shuffle {
    let found = settings.optional(key, |node| match node.value {
        Value::Bool(false) => Ok(Shuffle::Off),
        Value::Bool(true) => Ok(Shuffle::Seed),
        _ => SHUFFLES.parse(node),
    });
    let found = found.map(|found| Setting {
        value: if any_is_seed { Shuffle::Seed } else { found.value },
        ..found
    });
    settings.choice_or_default(key, &SHUFFLES, found, Shuffle::Off).value
}
