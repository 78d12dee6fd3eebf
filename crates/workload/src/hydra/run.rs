//! The node `hydra`: where a run keeps its files, and facts about it that values can refer to.

use std::path::{Path, PathBuf};

use super::Composition;
use crate::interpolation::{Interpolation, Scope};
use crate::origin::{Findings, Origin, Remark};
use crate::overrides::{Action, Override, WORKLOAD};
use crate::resolve::with_secrets_masked;
use crate::schema;
use crate::tree::{Entry, Mapping, Node, Value, python};

/// The name of the node.
pub(super) const NODE: &str = "hydra";
const RUN_DIR: &str = "run.dir";
const OUTPUT_SUBDIR: &str = "output_subdir";
const DEFAULT_RUN_DIR: &str = "./hydra_log/${workload.model.name}/${now:%Y-%m-%d}-${now:%H-%M-%S}";

/// Where a run of `dlio_benchmark` keeps its files.
#[derive(Debug, Clone)]
pub struct Run {
    /// The run's folder (`hydra.run.dir`), from the working directory if it is not absolute.
    pub dir: PathBuf,
    /// The folder of the snapshot in it (`hydra.output_subdir`); `None` for no snapshot, empty for the
    /// run's folder itself.
    pub output_subdir: Option<String>,
    /// What stands below `hydra:` in the snapshot's `hydra.yaml`, interpolations unresolved, secrets
    /// left out.
    pub node: Node,
}

/// What the node is made of besides what files and overrides say.
pub(super) struct Facts<'a> {
    pub(super) composition: &'a Composition,
    /// The working directory.
    pub(super) directory: &'a Path,
    /// Groups and the names taken from them.
    pub(super) chosen: &'a [(String, String)],
    pub(super) overrides: &'a [Override],
}

/// Whether `option` is about Hydra itself: `hydra.run.dir=...`, `hydra/job_logging=...`.
pub(crate) fn concerns(option: &Override) -> bool {
    option.change().is_some_and(|change| {
        let rest = change.key.strip_prefix(NODE);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', '@']))
    })
}

/// The node: defaults, then what the primary file gives, overrides, and facts.
pub(super) fn node(facts: &Facts<'_>, given: Option<Node>, findings: &mut Findings) -> Node {
    let text = |text: &str| Node::new(text, Origin::Default);
    let mut node = Node::nested(RUN_DIR, text(DEFAULT_RUN_DIR));
    node.merge(Node::nested(OUTPUT_SUBDIR, text(".hydra")));
    node.merge(Node::nested("job.name", text("main")));
    if let Some(given) = given.filter(|given| given.as_mapping().is_some()) {
        node.merge(given);
    }
    let texts = |about_hydra: bool| {
        let options = facts.overrides.iter().filter(|option| concerns(option) == about_hydra);
        let texts = options.map(Override::text).filter(|text| !text.is_empty());
        Node::new(Value::Sequence(texts.map(text).collect()), Origin::Default)
    };
    for option in facts.overrides.iter().filter(|option| concerns(option)) {
        apply(option, &mut node, findings);
    }
    node.merge(Node::nested("overrides.hydra", texts(true)));
    node.merge(Node::nested("overrides.task", texts(false)));
    node.merge(Node::nested("job.config_name", text(&facts.composition.config_name)));
    node.merge(Node::nested("runtime.cwd", text(&facts.directory.to_string_lossy())));
    let mut choices = Mapping::default();
    for (group, name) in facts.chosen {
        let node = text(name);
        choices.push(Entry { name: group.clone(), origin: Origin::Default, node });
    }
    let choices = Node::new(Value::Mapping(choices), Origin::Default);
    node.merge(Node::nested("runtime.choices", choices));
    node
}

/// Lays what `option` sets on the node, whichever of its forms it has, and notes what makes no
/// difference.
fn apply(option: &Override, node: &mut Node, findings: &mut Findings) {
    let Some(change) = option.change() else { return };
    let path = change.key.strip_prefix(NODE).unwrap_or_default();
    let over = match &change.action {
        Action::Change(value) | Action::Add(value) | Action::Set(value) => match path {
            "" if value.as_mapping().is_some() => Some(value.clone()),
            _ => path.strip_prefix('.').map(|path| Node::nested(path, value.clone())),
        },
        Action::Delete(_) => None,
    };
    let matters = |over: &Node| {
        let names_folder = over.get("run").is_some_and(|run| {
            run.as_mapping().is_none_or(|run| run.entries().iter().all(|entry| entry.name == "dir"))
        });
        names_folder || over.get(OUTPUT_SUBDIR).is_some()
    };
    if !over.as_ref().is_some_and(matters) {
        let text = "accepted without effect: of hydra's keys run.dir and output_subdir are used";
        findings.notes.push(Remark::about_key(option.origin(), &change.key, text));
    }
    if let Some(over) = over {
        node.merge(over);
    }
}

/// What the node `hydra` of `scope` comes to. `model` is the name of the model, for a workload that does not
/// give it.
pub(crate) fn run(scope: Scope<'_>, model: &str) -> Result<Run, Remark> {
    let empty = Node::new(Value::Null, Origin::Default);
    let node = scope.hydra.unwrap_or(&empty);
    let mut root = scope.root.clone();
    let name = root.get(WORKLOAD).and_then(|workload| schema::find(workload, "model.name"));
    if name.is_none_or(Node::is_null) {
        let name = Node::new(model, Origin::Default);
        root.merge(Node::nested(&format!("{WORKLOAD}.model.name"), name));
    }
    let scope = Scope { root: &root, ..scope };
    let resolved = |path: &str, accepts: &str| {
        let key = format!("{NODE}.{path}");
        let given = node.get(path).unwrap_or(&empty);
        let refused = |text: &str| Remark::about_value(&key, given, text);
        let value =
            Interpolation::at(scope, &*key).resolve(given).map_err(|text| refused(&text))?;
        match &value.value {
            Value::Null => Ok(None),
            Value::Sequence(_) | Value::Mapping(_) => Err(refused(accepts)),
            _ => Some(python::text(&value))
                .filter(|text| !text.contains(char::is_control))
                .map(Some)
                .ok_or_else(|| refused(accepts)),
        }
    };
    let accepts = "accepts the path of a folder";
    let dir = resolved(RUN_DIR, accepts)?.filter(|dir| !dir.is_empty()).ok_or_else(|| {
        let given = node.get(RUN_DIR).unwrap_or(&empty);
        Remark::about_value(&format!("{NODE}.{RUN_DIR}"), given, accepts)
    })?;
    let output_subdir = resolved(OUTPUT_SUBDIR, "accepts the name of a folder, or null for none")?;
    Ok(Run {
        dir: PathBuf::from(dir),
        output_subdir,
        node: with_secrets_masked(node.clone(), NODE),
    })
}
