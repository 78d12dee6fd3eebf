//! From a request to a [`Workload`]: the one place where types, ranges, defaults and the rules
//! between keys stand.

mod checkpoint;
mod compression;
mod dataset;
mod keys;
mod model;
mod parquet;
mod reader;
mod secrets;
mod store;
mod time;

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::ZonedDateTime;

use crate::environment::{Environment, Variables};
use crate::hydra::{self, Composed, Composition};
use crate::interpolation::{Interpolation, Scope};
use crate::origin::{Findings, Origin, Remark};
use crate::overrides::{Override, WORKLOAD};
use crate::presets;
use crate::schema;
use crate::settings::Settings;
use crate::tree::yaml::{self, YamlError};
use crate::tree::{Entry, Mapping, Node, Value};
use crate::workload::Workload;

/// Where the workload is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The name of a preset or the path of a file.
    Named(String),
    /// Configuration files, of which the overrides choose some, as `dlio_benchmark` has it.
    Composed(Composition),
}

impl Default for Source {
    fn default() -> Self {
        Self::Named(String::new())
    }
}

impl From<String> for Source {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<&str> for Source {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

/// What is to be resolved.
#[derive(Clone, Default)]
pub struct Request {
    /// Where the workload is described.
    pub workload: Source,
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
    /// Whether unknown keys and variables are problems (`--strict`).
    pub strict: bool,
    /// The start of the run, which `${now:FORMAT}` shows.
    pub started: Option<ZonedDateTime>,
    /// The working directory, which `${hydra:runtime.cwd}` shows.
    pub directory: PathBuf,
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
            .field("strict", &self.strict)
            .field("started", &self.started)
            .field("directory", &self.directory)
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
    /// What is accepted and makes no difference.
    pub notes: Vec<Remark>,
    /// Every key that is read, its value and where that came from, in the order of the
    /// specification. Secrets are `***`.
    pub values: Vec<ResolvedValue>,
    /// File and overrides joined as they were written, interpolations unresolved, secrets masked.
    /// It is what stands below `workload:` in the results' `config.yaml`.
    pub composed: Node,
    /// The overrides, for the results' `overrides.yaml`: as typed on Hydra's command line, without those
    /// of `hydra` itself, others as `++workload.KEY=VALUE`.
    pub overrides: Vec<String>,
    /// Where the run keeps its files, if the workload was composed as Hydra does.
    pub run: Option<hydra::Run>,
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
    /// A folder of configuration files is missing.
    #[error("{option} {}: no such folder", path.display())]
    NoConfigFolder {
        /// The option that names it.
        option: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// The primary configuration file is missing.
    #[error("no primary configuration file {name:?} (--config-name): looked for {name}.yaml in {}",
        places.join(", "))]
    NoConfig {
        /// Its name.
        name: String,
        /// Where it was looked for.
        places: Vec<String>,
    },
    /// A group of configuration files has no such file.
    #[error("no {group} {name:?} ({origin}): there are {}{}", choices.join(", "),
        schema::nearest(name, choices.iter().map(String::as_str))
            .map(|nearest| format!("; did you mean {nearest}?"))
            .unwrap_or_default())]
    UnknownChoice {
        /// The group, such as `workload`.
        group: String,
        /// What was asked for.
        name: String,
        /// Where it was asked for.
        origin: Origin,
        /// What there is.
        choices: Vec<String>,
    },
    /// What was composed has no workload.
    #[error("the configuration {config:?} names no workload: choose one with workload=NAME")]
    NoWorkload {
        /// The primary configuration file.
        config: String,
    },
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
    finish(layers(request)?, request)
}

/// [`resolve`] for the workload file `text`, which is called `name`, in place of the request's own.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn resolve_text(
    name: &str,
    text: &str,
    request: &Request,
) -> Result<Resolved, ResolveError> {
    finish(layers_of_text(&Arc::from(name), text, request)?, request)
}

/// A configuration as files and command line describe it, before its values are looked at.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The root, a mapping with `workload` in it: as it was written, secrets masked.
    pub root: Node,
    /// What is odd but not wrong.
    pub warnings: Vec<Remark>,
    /// What is accepted and makes no difference.
    pub notes: Vec<Remark>,
}

/// Joins files and command line of `request` without a look at types, ranges and rules. With
/// `interpolate` each `${...}` is replaced by what it stands for.
///
/// # Errors
/// As for [`resolve`], for files and overrides only, and for an interpolation that stands for nothing.
pub fn compose(request: &Request, interpolate: bool) -> Result<Configuration, ResolveError> {
    configuration(layers(request)?, request, interpolate)
}

/// [`compose`] for the workload file `text`, which is called `name`, in place of the request's own.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn compose_text(
    name: &str,
    text: &str,
    request: &Request,
    interpolate: bool,
) -> Result<Configuration, ResolveError> {
    configuration(layers_of_text(&Arc::from(name), text, request)?, request, interpolate)
}

/// What `layers` come to without a look at values.
fn configuration(
    layers: Layers,
    request: &Request,
    interpolate: bool,
) -> Result<Configuration, ResolveError> {
    let mut root = layers.root.clone();
    if let Some(workload) = root.child_mut(WORKLOAD) {
        *workload = with_secrets_masked(workload.clone(), "");
    }
    root = with_secrets_masked(root, "");
    let Findings { mut problems, mut warnings, notes, .. } = layers.findings;
    if interpolate {
        let workload = modern(&layers.root, &mut warnings);
        let scope = scope(&layers.root, &workload, layers.hydra.as_ref(), request);
        match Interpolation::at(scope, "").resolve(&root) {
            Ok(resolved) => root = resolved,
            Err(text) => problems.push(Remark::about_key(&root.origin, WORKLOAD, text)),
        }
    }
    if problems.is_empty() {
        Ok(Configuration { root, warnings, notes })
    } else {
        Err(ResolveError::Invalid { problems, warnings })
    }
}

/// Files and command line, joined.
struct Layers {
    /// The mapping that holds `workload`.
    root: Node,
    /// Facts about the run.
    hydra: Option<Node>,
    findings: Findings,
}

/// Joins what describes the workload with the overrides.
fn layers(request: &Request) -> Result<Layers, ResolveError> {
    match &request.workload {
        Source::Named(workload) => {
            let (name, text) = source(workload)?;
            layers_of_text(&Arc::from(name), &text, request)
        }
        Source::Composed(composition) => {
            let mut findings = Findings::default();
            let Composed { mut root, hydra, overrides } =
                composition.compose(&request.overrides, &request.directory, &mut findings)?;
            for option in overrides {
                option.apply(&mut root, &mut findings);
            }
            Ok(Layers { root, hydra: Some(hydra), findings })
        }
    }
}

fn layers_of_text(name: &Arc<str>, text: &str, request: &Request) -> Result<Layers, ResolveError> {
    let mut findings = Findings::default();
    let workload = workload_node(yaml::read(name, text).map_err(ResolveError::Yaml)?)?;
    let mut root = Node::nested(WORKLOAD, workload);
    for option in &request.overrides {
        option.apply(&mut root, &mut findings);
    }
    Ok(Layers { root, hydra: None, findings })
}

fn scope<'a>(
    root: &'a Node,
    workload: &'a Node,
    hydra: Option<&'a Node>,
    request: &'a Request,
) -> Scope<'a> {
    let (started, environment) = (request.started.as_ref(), environment(request));
    Scope { root, workload, hydra, started, environment }
}

/// The workload in `root` in present spelling.
fn modern(root: &Node, warnings: &mut Vec<Remark>) -> Node {
    let mut workload = root.get(WORKLOAD).unwrap_or(root).clone();
    schema::modernize(&mut workload, warnings);
    workload
}

fn environment(request: &Request) -> Environment<'_> {
    Environment { environment: &request.environment, dotenv: &request.dotenv }
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
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(yaml::MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads every value and checks every rule.
fn finish(layers: Layers, request: &Request) -> Result<Resolved, ResolveError> {
    let Layers { mut root, hydra, mut findings } = layers;
    let tree = modern(&root, &mut findings.warnings);
    schema::check(&tree, &mut findings);
    let environment = environment(request);
    environment.check(&mut findings);
    let scope = scope(&root, &tree, hydra.as_ref(), request);
    let mut settings = Settings::new(scope, environment, &request.store_defaults);
    let hints = store::Hints { aws: request.aws, surroundings_count: hydra.is_none() };
    let (workload, store_named) = keys::workload(&mut settings, hints);
    let secrets = secrets::secrets(&mut settings, environment);
    let run = match hydra.is_some().then(|| hydra::run(scope, &workload.model.name)).transpose() {
        Ok(run) => run,
        Err(problem) => {
            settings.problems.push(problem);
            None
        }
    };

    let Findings { mut problems, unknown, mut warnings, notes } = findings;
    if request.strict {
        problems.extend(unknown);
    } else {
        let ignored =
            |remark: Remark| Remark { text: format!("ignored: {}", remark.text), ..remark };
        warnings.extend(unknown.into_iter().map(ignored));
    }
    problems.append(&mut settings.problems);
    warnings.append(&mut settings.warnings);
    if !problems.is_empty() {
        return Err(ResolveError::Invalid { problems, warnings });
    }
    let mut values = settings.values;
    values.sort_by_key(|value| schema::position(value.key));
    let overrides = request.overrides.iter().filter(|option| !hydra::concerns(option));
    let overrides = overrides.map(Override::text).filter(|text| !text.is_empty());
    let overrides = overrides.map(str::to_owned).collect();
    let composed = root.take(WORKLOAD).unwrap_or(root);
    Ok(Resolved {
        workload,
        secrets,
        warnings,
        notes,
        values,
        composed: with_secrets_masked(composed, ""),
        overrides,
        run,
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

/// `node`, which stands at `path`, with `***` in place of secrets and of what could be misspelt ones.
pub(crate) fn with_secrets_masked(node: Node, path: &str) -> Node {
    let Value::Mapping(mapping) = node.value else {
        let hide = !node.is_null() && schema::is_sensitive(path);
        return if hide { Node::new("***", node.origin) } else { node };
    };
    let mut masked = Mapping::default();
    for entry in mapping.into_entries() {
        let path =
            if path.is_empty() { entry.name.clone() } else { format!("{path}.{}", entry.name) };
        masked.push(Entry { node: with_secrets_masked(entry.node, &path), ..entry });
    }
    Node { value: Value::Mapping(masked), ..node }
}

#[cfg(test)]
mod proptests;
#[cfg(test)]
mod tests;
