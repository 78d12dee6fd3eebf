//! From a request to a [`Workload`]: the one place where types, ranges, defaults and the rules
//! between keys stand.

mod store;
mod time;

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::{Environment, Variables};
use crate::origin::{Origin, Remark};
use crate::overrides::Override;
use crate::presets;
use crate::schema;
use crate::settings::{Choices, Setting, Settings, file_name, short, text, whole};
use crate::tree::yaml::{self, YamlError};
use crate::tree::{Entry, Mapping, Node, Value};
use crate::workload::{
    DataLoader, Dataset, Format, Framework, Metric, Model, Output, Payload, Pipeline, Reader,
    Shuffle, Storage, Train, Workflow, Workload,
};

/// What is to be resolved.
#[derive(Clone, Default)]
pub struct Request {
    /// The name of a preset or the path of a file.
    pub workload: String,
    /// Options of the command line; a later one wins over an earlier one of the same key.
    pub overrides: Vec<Override>,
    /// The environment of the process.
    pub environment: Variables,
    /// The `.env` file of the working directory ([`crate::parse_dotenv`]).
    pub dotenv: Variables,
    /// What the shared configuration of other tools says.
    pub store_defaults: StoreDefaults,
    /// Whether S3 without an endpoint may mean the public cloud (`--aws`).
    pub aws: bool,
}

/// Shows names of variables only: their values may be secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("workload", &self.workload)
            .field("overrides", &self.overrides)
            .field("environment", &self.environment.keys())
            .field("dotenv", &self.dotenv.keys())
            .field("store_defaults", &self.store_defaults)
            .field("aws", &self.aws)
            .finish()
    }
}

/// The layer below `.env`: endpoint and region from the shared AWS configuration file.
#[derive(Debug, Clone, Default)]
pub struct StoreDefaults {
    /// `endpoint_url` of the profile.
    pub endpoint_url: Option<SharedValue>,
    /// `region` of the profile.
    pub region: Option<SharedValue>,
}

/// A value from a configuration file that is shared with other tools.
#[derive(Debug, Clone)]
pub struct SharedValue {
    /// The value.
    pub value: String,
    /// Where it stands, such as `~/.aws/config, profile default`.
    pub source: String,
}

impl StoreDefaults {
    pub(crate) fn value_of(&self, key: &str) -> Option<(String, Origin)> {
        let shared = match key {
            "storage.storage_options.endpoint_url" => self.endpoint_url.as_ref(),
            "storage.storage_options.region" => self.region.as_ref(),
            _ => None,
        };
        let SharedValue { value, source } = shared.filter(|shared| !shared.value.is_empty())?;
        Some((value.clone(), Origin::Shared(Arc::from(source.as_str()))))
    }
}

/// A resolved request.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The workload.
    pub workload: Workload,
    /// Keys of the store that the workload or an option gave. The environment's are not here.
    pub secrets: Secrets,
    /// What is odd but not wrong.
    pub warnings: Vec<Remark>,
    /// Every key that is read, its value and where that came from, in the order of the
    /// specification. Secrets are `***`.
    pub values: Vec<ResolvedValue>,
    /// File and overrides joined, in present spelling, interpolations unresolved, secrets left out.
    /// It is what stands below `workload:` in the results' `config.yaml`.
    pub composed: Node,
    /// The overrides as `++workload.KEY=VALUE`, for the results' `overrides.yaml`.
    pub overrides: Vec<String>,
    /// What named the store (`--bucket bench`, `environment AWS_ENDPOINT_URL`); `None` if nothing
    /// did, and the target is DLIO's default folder. Keys of a store alone name none.
    pub store_named: Option<String>,
}

/// The value of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedValue {
    /// Dotted key.
    pub key: &'static str,
    /// The value in force; `null` if there is none.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// Access keys that the workload or an option gave. `Debug` hides them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// `storage.storage_options.access_key_id`; there whenever the secret key is.
    pub access_key_id: Option<String>,
    /// `storage.storage_options.secret_access_key`.
    pub secret_access_key: Option<String>,
    /// Where the access key id came from.
    pub origin: Option<Origin>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "***");
        f.debug_struct("Secrets")
            .field("access_key_id", &hidden(&self.access_key_id))
            .field("secret_access_key", &hidden(&self.secret_access_key))
            .field("origin", &self.origin)
            .finish()
    }
}

/// Why a request gives no workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Neither a preset nor a file.
    #[error("no workload {name:?}: it is neither a file nor one of the presets {}{}",
        presets::names().collect::<Vec<_>>().join(", "),
        nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default())]
    UnknownWorkload {
        /// What was asked for.
        name: String,
        /// The preset that it was perhaps meant to be.
        nearest: Option<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read the workload file {}: {cause}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is no YAML, or uses what is refused.
    #[error("the workload file cannot be used: {0}")]
    Yaml(YamlError),
    /// Keys or values are wrong; all that are.
    #[error("{}", list(problems, warnings))]
    Invalid {
        /// What is wrong.
        problems: Vec<Remark>,
        /// What is odd but would not have been an error: a misspelt key may be the cause of one.
        warnings: Vec<Remark>,
    },
}

fn list(problems: &[Remark], warnings: &[Remark]) -> String {
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    let problems = problems.iter().map(|problem| format!("\n  {problem}"));
    let warnings = warnings.iter().map(|warning| format!("\n  warning: {warning}"));
    format!("{count} in the configuration:{}", problems.chain(warnings).collect::<String>())
}

/// Joins the layers of `request` into a workload, or lists every problem in them.
pub fn resolve(request: &Request) -> Result<Resolved, ResolveError> {
    let (name, text) = source(&request.workload)?;
    resolve_text(&Arc::from(name), &text, request)
}

/// Name and text of a workload: a preset if there is one of that name, else a file.
fn source(workload: &str) -> Result<(String, String), ResolveError> {
    if let Some(preset) = presets::get(workload) {
        return Ok((format!("preset {}", preset.name), preset.yaml.to_owned()));
    }
    let path = Path::new(workload);
    let looks_like_path = workload.contains('/')
        || path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if !looks_like_path && !path.exists() {
        let nearest = schema::nearest(workload, presets::names());
        return Err(ResolveError::UnknownWorkload { name: workload.to_owned(), nearest });
    }
    match read_file(path) {
        Ok(text) => Ok((workload.to_owned(), text)),
        Err(cause) => Err(ResolveError::Unreadable { path: path.to_owned(), cause }),
    }
}

/// Reads at most one byte more than the YAML reader takes, so that it refuses what is too long.
fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(yaml::MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn resolve_text(name: &Arc<str>, text: &str, request: &Request) -> Result<Resolved, ResolveError> {
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let mut tree = workload_node(yaml::read(name, text).map_err(ResolveError::Yaml)?)?;
    schema::modernize(&mut tree, &mut warnings);
    for option in &request.overrides {
        match option.tree() {
            Ok(mut over) => {
                schema::modernize(&mut over, &mut warnings);
                tree.merge(over);
            }
            Err(problem) => problems.push(problem),
        }
    }
    schema::check(&tree, &mut warnings, &mut problems);

    let environment = Environment { environment: &request.environment, dotenv: &request.dotenv };
    environment.check(&mut warnings);
    let mut settings = Settings::new(&tree, environment, &request.store_defaults);
    let (workload, store_named) = workload(&mut settings, request.aws);
    let secrets = secrets(&mut settings, environment);

    problems.append(&mut settings.problems);
    warnings.append(&mut settings.warnings);
    if !problems.is_empty() {
        return Err(ResolveError::Invalid { problems, warnings });
    }
    let mut values = settings.values;
    values.sort_by_key(|value| schema::position(value.key));
    Ok(Resolved {
        workload,
        secrets,
        warnings,
        values,
        composed: without_secrets(tree, ""),
        overrides: request.overrides.iter().map(|option| option.text().to_owned()).collect(),
        store_named,
    })
}

/// The mapping of the workload's keys: the whole file, or what stands below its `workload:`.
fn workload_node(mut root: Node) -> Result<Node, ResolveError> {
    let refused = |node: &Node, text: &str| {
        Err(ResolveError::Yaml(YamlError { origin: node.origin.clone(), text: text.to_owned() }))
    };
    let Some(mapping) = root.as_mapping() else {
        return refused(&root, "a workload is a mapping of keys such as model and dataset");
    };
    let keys = mapping.entries().len();
    let Some(inner) = root.take("workload") else { return Ok(root) };
    if keys > 1 {
        return refused(&root, "keys stand beside 'workload:': put all of them below it");
    }
    if inner.as_mapping().is_none() {
        return refused(&inner, "'workload:' holds a mapping of keys such as model and dataset");
    }
    Ok(inner)
}

/// `node`, which stands at `path`, without secrets and what could be misspelt ones.
fn without_secrets(node: Node, path: &str) -> Node {
    let Value::Mapping(mapping) = node.value else { return node };
    let mut kept = Mapping::default();
    for entry in mapping.into_entries() {
        let path =
            if path.is_empty() { entry.name.clone() } else { format!("{path}.{}", entry.name) };
        if entry.node.as_mapping().is_some() || !schema::is_sensitive(&path) {
            kept.push(Entry { node: without_secrets(entry.node, &path), ..entry });
        }
    }
    Node { value: Value::Mapping(kept), ..node }
}

const FRAMEWORKS: Choices<Framework> = Choices {
    supported: &[("pytorch", Framework::Pytorch), ("tensorflow", Framework::Tensorflow)],
    not_yet: &[],
};

const FORMATS: Choices<Format> = Choices {
    supported: &[("jpeg", Format::Jpeg), ("npz", Format::Npz)],
    not_yet: &[
        "tfrecord",
        "hdf5",
        "hdf5_opt",
        "csv",
        "npy",
        "png",
        "indexed_binary",
        "mmap_indexed_binary",
        "synthetic",
        "parquet",
    ],
};

const DATA_LOADERS: Choices<DataLoader> = Choices {
    supported: &[("pytorch", DataLoader::Pytorch), ("tensorflow", DataLoader::Tensorflow)],
    not_yet: &["dali", "native_dali", "synthetic", "custom", "none"],
};

const PIPELINES: Choices<Pipeline> = Choices {
    supported: &[("sliding", Pipeline::Sliding), ("chunked", Pipeline::Chunked)],
    not_yet: &[],
};

const PAYLOADS: Choices<Payload> =
    Choices { supported: &[("land", Payload::Land), ("discard", Payload::Discard)], not_yet: &[] };

const SHUFFLES: Choices<Shuffle> = Choices {
    supported: &[("off", Shuffle::Off), ("seed", Shuffle::Seed), ("random", Shuffle::Random)],
    not_yet: &[],
};

/// The most of anything that is counted in 32 bits: far above what is useful, far below overflow.
const MANY: u32 = 1_000_000;
/// The most of anything that is counted in 64 bits.
const VERY_MANY: u64 = 1_000_000_000_000;
/// 1 TiB, the longest record in bytes.
const LONGEST_RECORD: f64 = (1_u64 << 40) as f64;
/// 2^63 bytes, the largest data set.
const LARGEST_SET: f64 = (1_u64 << 63) as f64;

/// Reads every key, and the name of the store. If `settings` has problems afterwards, the workload
/// is not to be used.
fn workload(settings: &mut Settings<'_>, aws: bool) -> (Workload, Option<String>) {
    let framework = settings.choice("framework", &FRAMEWORKS, Framework::Tensorflow);
    let model = Model {
        name: settings.text("model.name", file_name, "default").value,
        kind: settings.optional_text("model.type", short::<200>).map(|kind| kind.value),
    };
    let workflow = Workflow {
        generate_data: settings.truth("workflow.generate_data", false),
        train: settings.truth("workflow.train", true),
    };
    let data_folder = settings.text("dataset.data_folder", short::<1024>, "./data/");
    let dataset = dataset(settings, &data_folder.value);
    let reader = reader(settings, &framework);
    let train = train(settings);
    let metric = Metric {
        au: au(settings),
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
        log_file: settings.text("output.log_file", file_name, "dlio.log").value,
    };
    let (target, store_named) = store::target(settings, &data_folder, aws);
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
    };
    let workload = Workload {
        framework: framework.value,
        model,
        workflow,
        dataset,
        reader,
        train,
        metric,
        output,
        storage,
    };
    (workload, store_named)
}

fn dataset(settings: &mut Settings<'_>, data_folder: &str) -> Dataset {
    let format = settings.optional_choice("dataset.format", &FORMATS);
    match &format {
        Some(format) => {
            settings.record("dataset.format", FORMATS.name(format.value), &format.origin);
        }
        // A value that was refused has had its say.
        None if settings.find("dataset.format").is_none() => settings.object(
            &Origin::Default,
            "dataset.format",
            "not given, and DLIO's default tfrecord is not supported yet: accepts jpeg, npz",
        ),
        None => {}
    }
    let files = settings.whole("dataset.num_files_train", 1..=VERY_MANY, 8);
    let samples = settings.whole("dataset.num_samples_per_file", 1..=VERY_MANY, 1);
    let record = settings.number("dataset.record_length_bytes", 1.0..=LONGEST_RECORD, 65_536.0);
    let stdev = settings.number("dataset.record_length_bytes_stdev", 0.0..=LONGEST_RECORD, 0.0);
    let format = format.map(|format| format.value);
    if format == Some(Format::Jpeg) && samples.value > 1 {
        settings.object(
            &samples.origin,
            "dataset.num_samples_per_file",
            format!("is {}, but a jpeg file holds 1 sample", samples.value),
        );
    }
    let set_is_countable = files
        .value
        .checked_mul(samples.value)
        .is_some_and(|samples| samples as f64 * (record.value + stdev.value) < LARGEST_SET);
    if !set_is_countable {
        settings.object(
            &files.origin,
            "dataset.num_files_train",
            format!(
                "{} files x {} samples x {} bytes are more than the 8 EiB that can be counted",
                files.value, samples.value, record.value
            ),
        );
    }
    let trimmed = data_folder.trim_end_matches('/');
    Dataset {
        data_folder: if trimmed.is_empty() { data_folder } else { trimmed }.to_owned(),
        format: format.unwrap_or(Format::Npz),
        num_files_train: files.value,
        num_samples_per_file: samples.value,
        record_length_bytes: record.value,
        record_length_bytes_stdev: stdev.value,
        file_prefix: settings.text("dataset.file_prefix", file_name, "img").value,
        seed: settings.whole("dataset.seed", 0..=u64::MAX, 10).value,
    }
}

fn reader(settings: &mut Settings<'_>, framework: &Setting<Framework>) -> Reader {
    let own = match framework.value {
        Framework::Pytorch => DataLoader::Pytorch,
        Framework::Tensorflow => DataLoader::Tensorflow,
    };
    let loader = settings.choice("reader.data_loader", &DATA_LOADERS, own);
    let framework_is_known = !settings.problems.iter().any(|problem| problem.key == "framework");
    if loader.value != own && framework_is_known {
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
    Reader {
        data_loader: loader.value,
        batch_size: settings.whole("reader.batch_size", 1..=u64::from(u32::MAX), 1).value,
        read_threads: settings.whole_u32("reader.read_threads", 0..=1024, 1),
        prefetch_size: settings.whole_u32("reader.prefetch_size", 0..=MANY, 2),
        file_shuffle: shuffle(settings, "reader.file_shuffle"),
        sample_shuffle: shuffle(settings, "reader.sample_shuffle"),
        pipeline: settings.choice("reader.pipeline", &PIPELINES, Pipeline::Sliding).value,
        payload: settings.choice("reader.payload", &PAYLOADS, Payload::Land).value,
    }
}

/// `off`, `seed`, `random`, or a truth value: an unquoted `off` in a file is false (spec/dlio.md
/// 5.4 I4).
fn shuffle(settings: &mut Settings<'_>, key: &'static str) -> Shuffle {
    let found = settings.optional(key, |node| match node.value {
        Value::Bool(false) => Ok(Shuffle::Off),
        Value::Bool(true) => Ok(Shuffle::Seed),
        _ => SHUFFLES.parse(node),
    });
    settings.choice_or_default(key, &SHUFFLES, found, Shuffle::Off).value
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
        computation_time: time::computation_time(settings),
        total_training_steps: steps.map(|steps| steps.value),
        seed: settings.whole("train.seed", 0..=u64::MAX, 123).value,
        seed_change_epoch: settings.truth("train.seed_change_epoch", true),
    }
}

fn au(settings: &mut Settings<'_>) -> f64 {
    settings.number("metric.au", 0.0..=1.0, 0.90).value
}

/// The store's keys. If the file or an option gives one of the two, the environment may give the
/// other; what the environment alone gives is for the storage client to find.
fn secrets(settings: &mut Settings<'_>, environment: Environment<'_>) -> Secrets {
    let [id_key, secret_key] = schema::SECRETS;
    let mut read = |key| settings.optional(key, text);
    let (id, secret) = (read(id_key), read(secret_key));
    settings.record_optional(id_key, id.as_ref());
    settings.record_optional(secret_key, secret.as_ref());
    let from_environment =
        |name| environment.first(&[name]).map(|(value, origin)| Setting { value, origin });
    let (id, secret) = match (id, secret) {
        (None, None) => return Secrets::default(),
        (id, secret) => (
            id.or_else(|| from_environment("AWS_ACCESS_KEY_ID")),
            secret.or_else(|| from_environment("AWS_SECRET_ACCESS_KEY")),
        ),
    };
    match (&id, &secret) {
        (Some(id), None) => {
            settings.object(&id.origin, secret_key, format!("not given, but {id_key} is"));
        }
        (None, Some(secret)) => {
            settings.object(&secret.origin, id_key, format!("not given, but {secret_key} is"));
        }
        _ => {}
    }
    Secrets {
        origin: id.as_ref().map(|id| id.origin.clone()),
        access_key_id: id.map(|id| id.value),
        secret_access_key: secret.map(|secret| secret.value),
    }
}

#[cfg(test)]
mod tests;
