//! The table of keys: which we read, which DLIO knows and we do not, and old spellings
//! (spec/dlio.md section 2).
//!
//! Types, ranges and defaults are not here: [`mod@crate::resolve`] states each once, where it reads
//! the key.

use crate::origin::{Findings, Remark};
use crate::tree::{Entry, Mapping, Node, Value};

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Support {
    /// Read.
    Read,
    /// Accepted, but makes no difference here, for the reason given.
    Ignored(&'static str),
    /// Refused, for the reason given, unless its value is one of these, which mean the same as
    /// leaving it out.
    RefusedUnless(&'static [Word], &'static str),
}
use Support::{Ignored, Read, RefusedUnless};

/// A word that a table holds, in any letter case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word(&'static str);

const CLIENT: Support = Ignored("it tunes a Python storage client");
const NOTHING: Support = Ignored("it has no effect in DLIO either");
const READER_DETAIL: Support = Ignored("it concerns Python's loader processes; ours are threads");
const ORDER: Support = Ignored("the order of samples follows from the shuffle keys alone");
const IN_MEMORY: Support =
    Ignored("it shapes the sample in memory and changes no byte that is read");
const PARQUET_CLIENT: Support = Ignored("it tunes how a Python client reads Parquet");
const PLUG_IN: &str = "it names a Python class, which cannot be loaded here";

/// All keys of section 2, in its order. A key that holds a mapping of free form (`computation_time`,
/// `ksm`) is one key.
pub(crate) const KEYS: &[(&str, Support)] = &[
    ("compat", Read),
    ("framework", Read),
    ("model.name", Read),
    ("model.type", Read),
    ("model.model_size_bytes", Read),
    ("model.model_datatype", Read),
    ("model.optimizer_datatype", Read),
    ("model.num_layers", Read),
    ("model.layer_parameters", Read),
    ("model.optimization_groups", Read),
    ("model.parallelism.tensor", Read),
    ("model.parallelism.pipeline", Read),
    ("model.parallelism.data", Read),
    ("model.parallelism.zero_stage", Read),
    ("model.transformer.vocab_size", Read),
    ("model.transformer.hidden_size", Read),
    ("model.transformer.ffn_hidden_size", Read),
    ("model.transformer.num_attention_heads", Read),
    ("model.transformer.num_kv_heads", Read),
    ("workflow.generate_data", Read),
    ("workflow.train", Read),
    ("workflow.evaluation", Read),
    ("workflow.checkpoint", Read),
    ("workflow.profiling", Read),
    ("workflow.query", Ignored("only dlio_benchmark_query reads it")),
    ("storage.storage_type", Read),
    ("storage.storage_root", Read),
    ("storage.storage_options.endpoint_url", Read),
    ("storage.storage_options.region", Read),
    ("storage.storage_options.access_key_id", Read),
    ("storage.storage_options.secret_access_key", Read),
    ("storage.storage_options.prefetch_window", Read),
    ("storage.storage_library", CLIENT),
    ("storage.post_generation_settle_seconds", Read),
    (
        "storage.storage_options.s3_force_path_style",
        Ignored("the bucket always stands in the path"),
    ),
    ("storage.storage_options.s3_max_attempts", Read),
    ("storage.storage_options.storage_library", CLIENT),
    (
        "storage.storage_options.uri_scheme",
        RefusedUnless(
            &[Word("s3"), Word("file")],
            "the store is an S3-compatible one or a folder, as storage.storage_type says",
        ),
    ),
    ("storage.storage_options.use_full_object_uri", Read),
    ("storage.storage_options.secure", Ignored("the scheme of endpoint_url decides")),
    (
        "storage.storage_options.s3_profile",
        RefusedUnless(&[], "name the profile in the variable AWS_PROFILE"),
    ),
    ("storage.storage_options.prefetch_workers", CLIENT),
    ("storage.storage_options.prefetch", CLIENT),
    ("storage.storage_options.stagger_workers", Read),
    ("storage.drop_caches", Read),
    ("storage.drop_caches_timeout", Read),
    ("storage.storage_options.columns", Read),
    ("storage.storage_options.range_size", Read),
    ("storage.storage_options.get_engine", Read),
    ("storage.storage_options.decode", PARQUET_CLIENT),
    ("storage.storage_options.decode_output", PARQUET_CLIENT),
    ("storage.storage_options.footer_cap", PARQUET_CLIENT),
    ("storage.storage_options.footer_batch_size", PARQUET_CLIENT),
    ("storage.storage_options.coalesce_rgs", PARQUET_CLIENT),
    ("storage.storage_options.max_outstanding", PARQUET_CLIENT),
    ("storage.storage_options.simulate_io", Read),
    ("storage.storage_options.sim_log_secs", Ignored("progress is shown all the time")),
    ("dataset.data_folder", Read),
    ("dataset.format", Read),
    ("dataset.num_files_train", Read),
    ("dataset.num_samples_per_file", Read),
    ("dataset.record_length_bytes", Read),
    ("dataset.record_length_bytes_stdev", Read),
    ("dataset.file_prefix", Read),
    ("dataset.seed", Read),
    ("dataset.num_files_stored", Read),
    ("dataset.exact_size", Read),
    ("dataset.compressibility", Read),
    ("dataset.dedup_ratio", Read),
    ("dataset.num_files_eval", Read),
    ("dataset.record_length_bytes_resize", IN_MEMORY),
    ("dataset.record_dims", Read),
    ("dataset.record_element_type", Read),
    ("dataset.num_subfolders_train", Read),
    ("dataset.num_subfolders_eval", Read),
    ("dataset.compression", Read),
    ("dataset.compression_level", Read),
    ("dataset.enable_chunking", NOTHING),
    ("dataset.chunk_size", NOTHING),
    ("dataset.record_element_bytes", NOTHING),
    ("dataset.keep_files", Read),
    ("dataset.generation_buffer_size", Read),
    ("dataset.hdf5.num_dset_per_record", Read),
    ("dataset.hdf5.chunk_dims", Read),
    ("dataset.hdf5.max_shape", Read),
    ("dataset.parquet.columns", Read),
    ("dataset.parquet.row_group_size", Read),
    ("dataset.parquet.partition_by", Read),
    ("dataset.parquet.generation_batch_size", Read),
    ("dataset.parquet.use_s3dlio_gen", Ignored("files are the same whoever generates them")),
    (
        "dataset.parquet.read_mode",
        RefusedUnless(&[Word("row_group")], "Parquet files are read row group by row group"),
    ),
    ("dataset.data_gen_method", Ignored("content always comes from dataset.seed")),
    ("dataset.skip_listing", Read),
    ("dataset.listing_validation_interval", Read),
    ("reader.data_loader", Read),
    ("reader.batch_size", Read),
    ("reader.read_threads", Read),
    ("reader.prefetch_size", Read),
    ("reader.file_shuffle", Read),
    ("reader.sample_shuffle", Read),
    ("reader.pipeline", Read),
    ("reader.window", Read),
    ("reader.payload", Read),
    ("reader.decode", Read),
    ("reader.batch_size_eval", Read),
    ("reader.write_threads", Read),
    ("reader.computation_threads", Read),
    ("reader.shuffle_size", ORDER),
    ("reader.read_type", Read),
    ("reader.file_access", NOTHING),
    ("reader.transfer_size", Read),
    ("reader.preprocess_time", Read),
    ("reader.preprocess_time_stdev", Read),
    ("reader.odirect", Read),
    ("reader.multiprocessing_context", READER_DETAIL),
    ("reader.pin_memory", READER_DETAIL),
    ("reader.dont_use_mmap", READER_DETAIL),
    ("reader.data_loader_sampler", ORDER),
    ("reader.reader_classname", RefusedUnless(&[], PLUG_IN)),
    ("reader.data_loader_classname", RefusedUnless(&[], PLUG_IN)),
    ("reader.transformed_record_dims", IN_MEMORY),
    ("reader.transformed_record_element_type", IN_MEMORY),
    ("train.epochs", Read),
    ("train.computation_time", Read),
    ("train.computation_time_stdev", Read),
    ("train.total_training_steps", Read),
    ("train.seed", Read),
    ("train.seed_change_epoch", Read),
    ("evaluation.eval_time", Read),
    ("evaluation.eval_time_stdev", Read),
    ("evaluation.eval_after_epoch", Read),
    ("evaluation.epochs_between_evals", Read),
    ("metric.au", Read),
    ("checkpoint.checkpoint_folder", Read),
    ("checkpoint.checkpoint_after_epoch", Read),
    ("checkpoint.epochs_between_checkpoints", Read),
    ("checkpoint.steps_between_checkpoints", Read),
    ("checkpoint.num_checkpoints_write", Read),
    ("checkpoint.num_checkpoints_read", Read),
    ("checkpoint.time_between_checkpoints", Read),
    ("checkpoint.fsync", Read),
    ("checkpoint.rank_sync", Read),
    ("checkpoint.recovery_rank_shift", Read),
    ("checkpoint.mode", Read),
    ("checkpoint.type", NOTHING),
    ("checkpoint.randomize_tensor", Read),
    ("checkpoint.ksm", Ignored("pages are not merged, tensors are streamed")),
    ("checkpoint.checkpoint_mechanism_classname", RefusedUnless(&[], PLUG_IN)),
    ("output.folder", Read),
    ("output.log_file", Read),
    ("output.log_level", Read),
    ("output.metric.exclude_start_steps", Read),
    ("output.metric.exclude_end_steps", Read),
    ("profiling.profiler", Read),
    ("profiling.iostat_devices", Read),
];

/// Old spellings (spec/dlio.md 2.9) and what they mean; the first is a whole section.
pub(crate) const ALIASES: &[(&str, &str)] = &[
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

/// Every way to spell what `path` means, the present one first.
pub(crate) fn spellings(path: &str) -> impl Iterator<Item = String> {
    let present = canonical(path);
    let old: Vec<_> = ALIASES
        .iter()
        .filter_map(|(old, new)| match present.strip_prefix(new) {
            Some("") => Some((*old).to_owned()),
            Some(rest) if rest.starts_with('.') => Some(format!("{old}{rest}")),
            _ => None,
        })
        .collect();
    [present].into_iter().chain(old)
}

/// The node of the workload `tree` that counts for `path`, in whatever spelling it stands there: that of
/// the highest layer, then of the present spelling. A model that is only a text has that as its name.
pub(crate) fn find<'a>(tree: &'a Node, path: &str) -> Option<&'a Node> {
    let model = tree.get("model").filter(|model| path == "model.name" && is_name_alone(model));
    let spelled =
        spellings(path).filter_map(|path| tree.get(&path)).min_by_key(|node| node.origin.layer());
    model.or(spelled)
}

/// Takes out of `tree` what `over`, which is to be laid on it, gives in another spelling.
pub(crate) fn yield_to(tree: &mut Node, over: &Node) {
    fn leaves(node: &Node, path: &str, found: &mut Vec<String>) {
        match node.as_mapping() {
            Some(mapping) => mapping.entries().iter().for_each(|entry| {
                let path = if path.is_empty() {
                    entry.name.clone()
                } else {
                    format!("{path}.{}", entry.name)
                };
                leaves(&entry.node, &path, found);
            }),
            None => found.push(path.to_owned()),
        }
    }
    let mut given = Vec::new();
    leaves(over, "", &mut given);
    for path in given {
        for other in spellings(&path).filter(|other| *other != path) {
            tree.take(&other);
        }
    }
}

/// Whether the section `model` is only the model's name.
pub(crate) fn is_name_alone(model: &Node) -> bool {
    !model.is_null() && model.as_mapping().is_none()
}

/// Moves old spellings to the present ones. Where both stand, that of the higher layer counts; in one
/// layer the present one, with a warning if they differ.
pub(crate) fn modernize(tree: &mut Node, warnings: &mut Vec<Remark>) {
    name_model(tree);
    for (old, new) in ALIASES {
        if let Some(node) = tree.take(old) {
            fill(tree, old, new, node, warnings);
        }
    }
}

/// Makes a section `model` that is only a name a mapping with that name in it.
pub(crate) fn name_model(tree: &mut Node) {
    if tree.get("model").is_some_and(is_name_alone)
        && let Some(name) = tree.take("model")
    {
        tree.merge(Node::nested("model.name", name));
    }
}

/// Puts `node`, which stood at `old`, at `new`, unless what stands there counts more.
fn fill(tree: &mut Node, old: &str, new: &str, node: Node, warnings: &mut Vec<Remark>) {
    let present = match tree.get(new) {
        Some(present) if !present.is_null() && !node.is_null() => present,
        Some(present) if !present.is_null() => return,
        _ => return tree.merge(Node::nested(new, node)),
    };
    let (ours, theirs) = (node.origin.layer(), present.origin.layer());
    if present.as_mapping().is_some()
        && let Value::Mapping(mapping) = node.value
    {
        for Entry { name, node, .. } in mapping.into_entries() {
            fill(tree, &format!("{old}.{name}"), &format!("{new}.{name}"), node, warnings);
        }
    } else if ours < theirs {
        tree.merge(Node::nested(new, node));
    } else if ours == theirs && present.value != node.value {
        let text = format!("ignored, because {new} is given too ({})", present.origin);
        warnings.push(Remark::about_value(old, &node, text));
    }
}

/// Goes through every key of `tree`: what is unknown, with the nearest known name, what makes no
/// difference, and what cannot be.
pub(crate) fn check(tree: &Node, findings: &mut Findings) {
    let Some(root) = tree.as_mapping() else { return };
    check_mapping("", root, findings);
}

fn check_mapping(parent: &str, mapping: &Mapping, findings: &mut Findings) {
    for entry in mapping.entries() {
        let path =
            if parent.is_empty() { entry.name.clone() } else { format!("{parent}.{}", entry.name) };
        if entry.name.contains('.') {
            let text = "a dot in a name: write one mapping inside the other";
            findings.problems.push(Remark::about_key(&entry.origin, path, text));
        } else if let Some((_, support)) = KEYS.iter().find(|(key, _)| *key == path) {
            check_key(&path, *support, &entry.node, findings);
        } else if is_section(&path) {
            match &entry.node.value {
                Value::Null => {}
                Value::Mapping(mapping) => check_mapping(&path, mapping, findings),
                _ => findings.problems.push(Remark::about_value(
                    &path,
                    &entry.node,
                    "a section: accepts a mapping of its keys",
                )),
            }
        } else {
            let text = match nearest_key(&path) {
                Some(known) => format!("unknown key; did you mean {known}?"),
                None => "unknown key".to_owned(),
            };
            findings.unknown.push(Remark::about_key(&entry.origin, path, text));
        }
    }
}

fn check_key(path: &str, support: Support, node: &Node, findings: &mut Findings) {
    if node.is_null() {
        return;
    }
    let is = |Word(word): &Word| match &node.value {
        Value::Text(text) => text.eq_ignore_ascii_case(word),
        _ => false,
    };
    match support {
        Read => {}
        RefusedUnless(words, _) if words.iter().any(is) => {}
        RefusedUnless(_, why) => {
            let text = format!("not supported: {why}");
            findings.problems.push(Remark::about_value(path, node, text));
        }
        Ignored(why) => {
            let text = format!("accepted without effect: {why}");
            findings.notes.push(Remark::about_value(path, node, text));
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
