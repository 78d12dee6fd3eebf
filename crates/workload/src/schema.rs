//! The table of keys: which we read, which DLIO knows and we do not, and old spellings
//! (spec/dlio.md section 2).
//!
//! Types, ranges and defaults are not here: [`mod@crate::resolve`] states each once, where it reads
//! the key.

use crate::origin::Remark;
use crate::tree::{Entry, Mapping, Node, Value};

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
enum Support {
    /// Read.
    Read,
    /// Known to DLIO and not supported yet. Refused, unless its value is one of these, which mean
    /// the same as leaving it out.
    RefusedUnless(&'static [Same]),
    /// Known to DLIO and not supported yet, but no figure depends on it, for the reason given.
    Inert(&'static str),
}
use Support::{Inert, Read, RefusedUnless};

/// A value, as a table can hold it.
#[derive(Debug, Clone, Copy)]
enum Same {
    Bool(bool),
    Number(f64),
    /// In any letter case.
    Word(&'static str),
    EmptyList,
}
use Same::{Bool, EmptyList, Number, Word};

impl Same {
    fn matches(self, value: &Value) -> bool {
        match (self, value) {
            (Bool(mine), Value::Bool(value)) => mine == *value,
            (Bool(mine), Value::Text(text)) => text.eq_ignore_ascii_case(&mine.to_string()),
            (Number(mine), Value::Int(value)) => mine.to_bits() == (*value as f64).to_bits(),
            (Number(mine), Value::Float(value)) => mine.to_bits() == value.to_bits(),
            (Word(mine), Value::Text(text)) => text.eq_ignore_ascii_case(mine),
            (EmptyList, Value::Sequence(nodes)) => nodes.is_empty(),
            _ => false,
        }
    }
}

const CHECKPOINT: Support = Inert("only checkpoints use it");
const EVALUATION: Support = Inert("only evaluation uses it");
const OTHER_FORMAT: Support = Inert("no supported format uses it");
const CLIENT: Support = Inert("it tunes a Python storage client");
const NOTHING: Support = Inert("it has no effect");
const READER_DETAIL: Support = Inert("it concerns Python's loader processes; ours are threads");
const ORDER: Support = Inert("the order of samples follows from the shuffle keys alone");

/// All keys of section 2, in its order. A key that holds a mapping of free form (`computation_time`,
/// `ksm`) is one key.
const KEYS: &[(&str, Support)] = &[
    ("framework", Read),
    ("model.name", Read),
    ("model.type", Read),
    ("model.model_size_bytes", CHECKPOINT),
    ("model.model_datatype", CHECKPOINT),
    ("model.optimizer_datatype", CHECKPOINT),
    ("model.num_layers", CHECKPOINT),
    ("model.layer_parameters", CHECKPOINT),
    ("model.optimization_groups", CHECKPOINT),
    ("model.parallelism.tensor", CHECKPOINT),
    ("model.parallelism.pipeline", CHECKPOINT),
    ("model.parallelism.data", CHECKPOINT),
    ("model.parallelism.zero_stage", CHECKPOINT),
    ("model.transformer.vocab_size", CHECKPOINT),
    ("model.transformer.hidden_size", CHECKPOINT),
    ("model.transformer.ffn_hidden_size", CHECKPOINT),
    ("model.transformer.num_attention_heads", CHECKPOINT),
    ("model.transformer.num_kv_heads", CHECKPOINT),
    ("workflow.generate_data", Read),
    ("workflow.train", Read),
    ("workflow.evaluation", RefusedUnless(&[Bool(false)])),
    ("workflow.checkpoint", RefusedUnless(&[Bool(false)])),
    ("workflow.profiling", Inert("no profiler is started")),
    ("workflow.query", NOTHING),
    ("storage.storage_type", Read),
    ("storage.storage_root", Read),
    ("storage.storage_options.endpoint_url", Read),
    ("storage.storage_options.region", Read),
    ("storage.storage_options.access_key_id", Read),
    ("storage.storage_options.secret_access_key", Read),
    ("storage.storage_options.prefetch_window", Read),
    ("storage.storage_library", CLIENT),
    ("storage.post_generation_settle_seconds", RefusedUnless(&[Number(0.0)])),
    ("storage.storage_options.s3_force_path_style", CLIENT),
    ("storage.storage_options.s3_max_attempts", CLIENT),
    ("storage.storage_options.storage_library", CLIENT),
    ("storage.storage_options.uri_scheme", RefusedUnless(&[Word("s3")])),
    ("storage.storage_options.use_full_object_uri", RefusedUnless(&[Bool(false)])),
    ("storage.storage_options.secure", Inert("the scheme of endpoint_url decides")),
    ("storage.storage_options.s3_profile", RefusedUnless(&[])),
    ("storage.storage_options.prefetch_workers", CLIENT),
    ("storage.storage_options.prefetch", CLIENT),
    ("storage.storage_options.stagger_workers", Read),
    ("storage.storage_options.columns", OTHER_FORMAT),
    ("storage.storage_options.decode", OTHER_FORMAT),
    ("storage.storage_options.decode_output", OTHER_FORMAT),
    ("storage.storage_options.footer_cap", OTHER_FORMAT),
    ("storage.storage_options.footer_batch_size", OTHER_FORMAT),
    ("storage.storage_options.coalesce_rgs", OTHER_FORMAT),
    ("storage.storage_options.max_outstanding", OTHER_FORMAT),
    ("storage.storage_options.simulate_io", RefusedUnless(&[Bool(false)])),
    ("storage.storage_options.sim_log_secs", NOTHING),
    ("dataset.data_folder", Read),
    ("dataset.format", Read),
    ("dataset.num_files_train", Read),
    ("dataset.num_samples_per_file", Read),
    ("dataset.record_length_bytes", Read),
    ("dataset.record_length_bytes_stdev", Read),
    ("dataset.file_prefix", Read),
    ("dataset.seed", Read),
    ("dataset.num_files_eval", RefusedUnless(&[Number(0.0)])),
    ("dataset.record_length_bytes_resize", Inert("it changes no byte that is read")),
    ("dataset.record_dims", RefusedUnless(&[EmptyList])),
    ("dataset.record_element_type", RefusedUnless(&[Word("uint8")])),
    ("dataset.num_subfolders_train", RefusedUnless(&[Number(0.0), Number(1.0)])),
    ("dataset.num_subfolders_eval", EVALUATION),
    ("dataset.compression", RefusedUnless(&[Word("none")])),
    ("dataset.compression_level", OTHER_FORMAT),
    ("dataset.enable_chunking", NOTHING),
    ("dataset.chunk_size", NOTHING),
    ("dataset.record_element_bytes", NOTHING),
    ("dataset.keep_files", RefusedUnless(&[Bool(true)])),
    ("dataset.generation_buffer_size", OTHER_FORMAT),
    ("dataset.hdf5.num_dset_per_record", OTHER_FORMAT),
    ("dataset.hdf5.chunk_dims", OTHER_FORMAT),
    ("dataset.hdf5.max_shape", OTHER_FORMAT),
    ("dataset.parquet.columns", OTHER_FORMAT),
    ("dataset.parquet.row_group_size", OTHER_FORMAT),
    ("dataset.parquet.partition_by", OTHER_FORMAT),
    ("dataset.parquet.generation_batch_size", OTHER_FORMAT),
    ("dataset.parquet.use_s3dlio_gen", OTHER_FORMAT),
    ("dataset.parquet.read_mode", OTHER_FORMAT),
    ("dataset.data_gen_method", Inert("content always comes from dataset.seed")),
    ("dataset.skip_listing", Inert("files are listed before the clock starts")),
    ("dataset.listing_validation_interval", NOTHING),
    ("reader.data_loader", Read),
    ("reader.batch_size", Read),
    ("reader.read_threads", Read),
    ("reader.prefetch_size", Read),
    ("reader.file_shuffle", Read),
    ("reader.sample_shuffle", Read),
    ("reader.pipeline", Read),
    ("reader.payload", Read),
    ("reader.batch_size_eval", EVALUATION),
    ("reader.write_threads", Inert("generation uses all cores")),
    ("reader.computation_threads", OTHER_FORMAT),
    ("reader.shuffle_size", OTHER_FORMAT),
    ("reader.read_type", RefusedUnless(&[Word("on_demand")])),
    ("reader.file_access", NOTHING),
    ("reader.transfer_size", OTHER_FORMAT),
    ("reader.preprocess_time", RefusedUnless(&[Number(0.0)])),
    ("reader.preprocess_time_stdev", RefusedUnless(&[Number(0.0)])),
    ("reader.odirect", RefusedUnless(&[Bool(false)])),
    ("reader.multiprocessing_context", READER_DETAIL),
    ("reader.pin_memory", READER_DETAIL),
    ("reader.dont_use_mmap", READER_DETAIL),
    ("reader.data_loader_sampler", ORDER),
    ("reader.reader_classname", RefusedUnless(&[])),
    ("reader.data_loader_classname", RefusedUnless(&[])),
    ("reader.transformed_record_dims", Inert("it changes no byte that is read")),
    ("reader.transformed_record_element_type", Inert("it changes no byte that is read")),
    ("train.epochs", Read),
    ("train.computation_time", Read),
    ("train.computation_time_stdev", Read),
    ("train.total_training_steps", Read),
    ("train.seed", Read),
    ("train.seed_change_epoch", Read),
    ("evaluation.eval_time", EVALUATION),
    ("evaluation.eval_time_stdev", EVALUATION),
    ("evaluation.eval_after_epoch", EVALUATION),
    ("evaluation.epochs_between_evals", EVALUATION),
    ("metric.au", Read),
    ("checkpoint.checkpoint_folder", CHECKPOINT),
    ("checkpoint.checkpoint_after_epoch", CHECKPOINT),
    ("checkpoint.epochs_between_checkpoints", CHECKPOINT),
    ("checkpoint.steps_between_checkpoints", CHECKPOINT),
    ("checkpoint.num_checkpoints_write", CHECKPOINT),
    ("checkpoint.num_checkpoints_read", CHECKPOINT),
    ("checkpoint.time_between_checkpoints", CHECKPOINT),
    ("checkpoint.fsync", CHECKPOINT),
    ("checkpoint.rank_sync", CHECKPOINT),
    ("checkpoint.recovery_rank_shift", CHECKPOINT),
    ("checkpoint.mode", CHECKPOINT),
    ("checkpoint.type", CHECKPOINT),
    ("checkpoint.randomize_tensor", CHECKPOINT),
    ("checkpoint.ksm", CHECKPOINT),
    ("checkpoint.checkpoint_mechanism_classname", CHECKPOINT),
    ("output.folder", Read),
    ("output.log_file", Read),
    ("output.metric.exclude_start_steps", Read),
    ("output.metric.exclude_end_steps", Read),
    ("profiling.profiler", Inert("no profiler is started")),
    ("profiling.iostat_devices", Inert("no profiler is started")),
];

/// Old spellings (spec/dlio.md 2.9) and what they mean; the first is a whole section.
const ALIASES: &[(&str, &str)] = &[
    ("data_reader", "reader"),
    ("dataset.record_length", "dataset.record_length_bytes"),
    ("dataset.record_length_stdev", "dataset.record_length_bytes_stdev"),
    ("dataset.record_length_resize", "dataset.record_length_bytes_resize"),
    ("model.model_size", "model.model_size_bytes"),
    ("checkpoint.model_size", "model.model_size_bytes"),
    ("checkpoint.optimization_groups", "model.optimization_groups"),
    ("checkpoint.num_layers", "model.num_layers"),
    ("checkpoint.layer_parameters", "model.layer_parameters"),
    ("dataset.num_dset_per_record", "dataset.hdf5.num_dset_per_record"),
    ("dataset.chunk_dims", "dataset.hdf5.chunk_dims"),
    ("dataset.max_shape", "dataset.hdf5.max_shape"),
    ("workflow.evaluate", "workflow.evaluation"),
];

/// Keys whose values are secrets.
pub(crate) const SECRETS: [&str; 2] =
    ["storage.storage_options.access_key_id", "storage.storage_options.secret_access_key"];

/// The position of a key in the table.
pub(crate) fn position(path: &str) -> Option<usize> {
    KEYS.iter().position(|(key, _)| *key == path)
}

/// Whether the value at `path` must not be shown: a secret, something that holds one, or something
/// that could be a misspelt one.
pub(crate) fn is_sensitive(path: &str) -> bool {
    let holds_options = path == "storage" || path == "storage.storage_options";
    let unknown_option = path.starts_with("storage.storage_options.") && position(path).is_none();
    SECRETS.contains(&path) || holds_options || unknown_option || names_secret(path)
}

/// Whether a name, or a text with names in it, speaks of a secret: what stands under it, or behind it,
/// is not to be shown. Key ids count too, since together with a log they tell whose account it was.
pub fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace('-', "_");
    ["secret", "access_key", "password", "token", "credential"]
        .iter()
        .any(|word| text.contains(word))
}

/// `path` in its present spelling.
pub(crate) fn canonical(path: &str) -> String {
    ALIASES.iter().fold(path.to_owned(), |path, (old, new)| match path.strip_prefix(old) {
        Some("") => (*new).to_owned(),
        Some(rest) if rest.starts_with('.') => format!("{new}{rest}"),
        _ => path,
    })
}

/// Moves old spellings to the present ones. Where both stand, the present one stays, with a warning
/// if they differ.
pub(crate) fn modernize(tree: &mut Node, warnings: &mut Vec<Remark>) {
    if let Some(name) = tree.get("model").filter(|node| !node.is_null())
        && name.as_mapping().is_none()
        && let Some(name) = tree.take("model")
    {
        tree.merge(Node::nested("model.name", name));
    }
    for (old, new) in ALIASES {
        if let Some(node) = tree.take(old) {
            fill(tree, old, new, node, warnings);
        }
    }
}

/// Puts `node`, which stood at `old`, at `new`, as far as nothing stands there.
fn fill(tree: &mut Node, old: &str, new: &str, node: Node, warnings: &mut Vec<Remark>) {
    let present = match tree.get(new) {
        Some(present) if !present.is_null() && !node.is_null() => present,
        Some(present) if !present.is_null() => return,
        _ => return tree.merge(Node::nested(new, node)),
    };
    if present.as_mapping().is_some()
        && let Value::Mapping(mapping) = node.value
    {
        for Entry { name, node, .. } in mapping.into_entries() {
            fill(tree, &format!("{old}.{name}"), &format!("{new}.{name}"), node, warnings);
        }
    } else if present.value != node.value {
        let text = format!("ignored, because {new} is given too ({})", present.origin);
        warnings.push(Remark::about_value(old, &node, text));
    }
}

/// Goes through every key of `tree`: what is unknown is a warning with the nearest known name; what
/// DLIO knows and we do not is a problem if a result depends on it, else a warning.
pub(crate) fn check(tree: &Node, warnings: &mut Vec<Remark>, problems: &mut Vec<Remark>) {
    let Some(root) = tree.as_mapping() else { return };
    check_mapping("", root, warnings, problems);
}

fn check_mapping(
    parent: &str,
    mapping: &Mapping,
    warnings: &mut Vec<Remark>,
    problems: &mut Vec<Remark>,
) {
    for entry in mapping.entries() {
        let path =
            if parent.is_empty() { entry.name.clone() } else { format!("{parent}.{}", entry.name) };
        if entry.name.contains('.') {
            let text = "a dot in a name: write one mapping inside the other";
            problems.push(Remark::about_key(&entry.origin, path, text));
        } else if let Some((_, support)) = KEYS.iter().find(|(key, _)| *key == path) {
            check_key(&path, *support, &entry.node, warnings, problems);
        } else if is_section(&path) {
            match &entry.node.value {
                Value::Null => {}
                Value::Mapping(mapping) => check_mapping(&path, mapping, warnings, problems),
                _ => problems.push(Remark::about_value(
                    &path,
                    &entry.node,
                    "a section: accepts a mapping of its keys",
                )),
            }
        } else {
            let text = match nearest_key(&path) {
                Some(known) => format!("unknown key, ignored; did you mean {known}?"),
                None => "unknown key, ignored".to_owned(),
            };
            warnings.push(Remark::about_key(&entry.origin, path, text));
        }
    }
}

fn check_key(
    path: &str,
    support: Support,
    node: &Node,
    warnings: &mut Vec<Remark>,
    problems: &mut Vec<Remark>,
) {
    if node.is_null() {
        return;
    }
    match support {
        Read => {}
        RefusedUnless(same) if same.iter().any(|same| same.matches(&node.value)) => {}
        RefusedUnless(same) => {
            let accepted: Vec<_> = same.iter().map(Same::to_string).collect();
            let accepted = if accepted.is_empty() {
                String::new()
            } else {
                format!("accepts {} or ", accepted.join(", "))
            };
            let text = format!(
                "known to DLIO, not supported yet, and it would change the result: {accepted}leave \
                 it out"
            );
            problems.push(Remark::about_value(path, node, text));
        }
        Inert(why) => {
            let text = format!("known to DLIO, not supported yet; no effect here: {why}");
            warnings.push(Remark::about_value(path, node, text));
        }
    }
}

fn is_section(path: &str) -> bool {
    KEYS.iter().any(|(key, _)| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The known key or section that looks most like `path`. A key in the wrong section is found by its
/// last name.
fn nearest_key(path: &str) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().map(str::to_owned);
    let moved = KEYS.iter().filter(|(key, _)| last(key) == last(path)).collect::<Vec<_>>();
    if let [(key, _)] = moved[..] {
        return Some((*key).to_owned());
    }
    let depth = path.split('.').count();
    let mut known: Vec<String> = KEYS
        .iter()
        .map(|(key, _)| key.split('.').take(depth).collect::<Vec<_>>().join("."))
        .collect();
    known.dedup();
    nearest(path, known.iter().map(String::as_str)).map(str::to_owned)
}

/// The one of `known` that `name` is most likely meant to be, if any is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.6;
    // Comparing is quadratic in the length, and no known name is long.
    const LONGEST: usize = 128;
    if name.len() > LONGEST {
        return None;
    }
    let (likeness, known) = known
        .into_iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness >= NEAR).then_some(known)
}

impl std::fmt::Display for Same {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bool(value) => write!(f, "{value}"),
            Number(value) => write!(f, "{value}"),
            Word(word) => f.write_str(word),
            EmptyList => f.write_str("[]"),
        }
    }
}

/// The keys that are read, in the order of the table.
#[cfg(test)]
pub(crate) fn read_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(|(_, support)| matches!(support, Read)).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_in_the_table_once_and_is_no_section() {
        for (at, (key, _)) in KEYS.iter().enumerate() {
            assert_eq!(position(key), Some(at), "{key}");
            assert!(!is_section(key), "{key}");
        }
    }

    #[test]
    fn every_old_spelling_means_a_known_key_or_section() {
        for (old, new) in ALIASES {
            assert!(position(new).is_some() || is_section(new), "{new}");
            assert!(position(old).is_none(), "{old}");
            assert_eq!(canonical(old), *new);
        }
        assert_eq!(canonical("data_reader.batch_size"), "reader.batch_size");
        assert_eq!(canonical("data_readers.batch_size"), "data_readers.batch_size");
    }

    #[test]
    fn the_storage_options_that_are_read_may_be_shown_unless_they_are_secrets() {
        let hidden: Vec<_> = read_keys().filter(|key| is_sensitive(key)).collect();
        assert_eq!(hidden, SECRETS);
    }
}
