//! From groups of files, and the choices among them on the command line, to one tree.

use std::path::{Path, PathBuf};

use super::defaults::{self, Default as Entry, File, refused};
use super::run::{self, Facts};
use super::search_path::{CONFIG, Found, SearchPath};
use crate::origin::{Findings, Origin, Remark};
use crate::overrides::{Action, Change, Override, WORKLOAD, is_dotted};
use crate::resolve::ResolveError;
use crate::schema;
use crate::tree::yaml::{self, YamlError};
use crate::tree::{Mapping, Node, Value};

/// Most files that one composition takes: those that name two others each would double without end.
const MOST_FILES: u32 = 100;
/// Most bytes that they may have together: joining them is quadratic in the number of keys.
const MOST_BYTES: usize = 2 * yaml::MAX_BYTES;
/// Longest chain of files that build on one another.
const DEEPEST: usize = 16;

/// Where `dlio_benchmark` looks for configuration files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composition {
    /// Folders that stand behind the built-in files (`--config-dir`). The last one comes first.
    pub config_dirs: Vec<PathBuf>,
    /// The folder that stands in place of the built-in files (`--config-path`). It holds `config.yaml`
    /// and a folder `workload`.
    pub config_path: Option<PathBuf>,
    /// The primary file, without its `.yaml` (`--config-name`).
    pub config_name: String,
    /// Whether `config_dirs` come first (`--prefer-user`).
    pub prefer_user: bool,
}

impl Default for Composition {
    fn default() -> Self {
        Self {
            config_dirs: Vec::new(),
            config_path: None,
            config_name: CONFIG.to_owned(),
            prefer_user: false,
        }
    }
}

/// What was composed.
pub(crate) struct Composed<'a> {
    /// The root, with a mapping `workload`, as it was written.
    pub(crate) root: Node,
    /// Facts about the run.
    pub(crate) hydra: Node,
    /// The overrides that are still to be applied to the root.
    pub(crate) overrides: Vec<&'a Override>,
}

impl Composition {
    /// The names that `workload=NAME` takes, sorted.
    ///
    /// # Errors
    /// A folder is missing.
    pub fn workloads(&self) -> Result<Vec<String>, ResolveError> {
        Ok(SearchPath::new(self)?.choices(WORKLOAD))
    }

    /// Composes the files that the primary one and the choices among the overrides name. `directory`
    /// is the working directory.
    pub(crate) fn compose<'a>(
        &self,
        all: &'a [Override],
        directory: &Path,
        findings: &mut Findings,
    ) -> Result<Composed<'a>, ResolveError> {
        let search = SearchPath::new(self)?;
        let mut choices = Vec::new();
        let overrides = all.iter().filter(|option| !run::concerns(option));
        let overrides = overrides.filter(|option| match Choice::of(option, &search) {
            None => true,
            Some(Ok(choice)) => {
                choices.push(choice);
                false
            }
            Some(Err(problem)) => {
                findings.problems.push(problem);
                false
            }
        });
        let overrides = overrides.collect();
        let mut composer = Composer {
            search,
            choices,
            chain: Vec::new(),
            files: 0,
            bytes: 0,
            parts: Vec::new(),
            chosen: Vec::new(),
            findings,
        };
        composer.primary(&self.config_name)?;
        let Composer { parts, chosen, .. } = composer;

        let mut root = Node::new(Value::Mapping(Mapping::default()), Origin::Default);
        for (package, node) in parts {
            let part = if package.is_empty() { node } else { Node::nested(&package, node) };
            // What comes later wins in whatever spelling.
            if let (Some(workload), Some(over)) = (root.child_mut(WORKLOAD), part.get(WORKLOAD)) {
                schema::yield_to(workload, over);
            }
            root.merge(part);
        }
        let facts = Facts { composition: self, directory, chosen: &chosen, overrides: all };
        let hydra = run::node(&facts, root.take(run::NODE), findings);
        match root.get(WORKLOAD) {
            Some(workload) if workload.as_mapping().is_some() => {}
            Some(workload) => {
                let text = "'workload:' holds a mapping of keys such as model and dataset";
                let origin = workload.origin.clone();
                return Err(ResolveError::Yaml(YamlError { origin, text: text.to_owned() }));
            }
            None => return Err(ResolveError::NoWorkload { config: self.config_name.clone() }),
        }
        Ok(Composed { root, hydra, overrides })
    }
}

/// A file of a group that the command line chooses.
struct Choice<'a> {
    group: &'a str,
    package: Option<&'a str>,
    pick: Pick,
    option: &'a Override,
    used: bool,
}

enum Pick {
    Change(String),
    Add(String),
    Delete(Option<String>),
}

impl<'a> Choice<'a> {
    /// What `option` chooses, if it is about a group.
    fn of(option: &'a Override, search: &SearchPath) -> Option<Result<Self, Remark>> {
        let Change { key, action } = option.change()?;
        let (group, package) =
            key.split_once('@').map_or((key.as_str(), None), |(g, p)| (g, Some(p)));
        let is_group = key.contains(['/', '@'])
            || group == WORKLOAD
            || (!group.contains('.') && search.has_group(group));
        let value = match action {
            Action::Change(value) | Action::Add(value) | Action::Set(value) => Some(value),
            Action::Delete(value) => value.as_ref(),
        };
        if !is_group || value.is_some_and(|value| value.as_mapping().is_some()) {
            return None;
        }
        let refused = |text: String| Some(Err(Remark::about_key(option.origin(), key, text)));
        let name = match value.map(|value| &value.value) {
            None => None,
            Some(Value::Text(name)) => Some(name.clone()),
            Some(_) => {
                return refused(format!("accepts the name of a {group}, in quotes if need be"));
            }
        };
        let pick = match (action, name) {
            (Action::Change(_), Some(name)) => Pick::Change(name),
            (Action::Add(_), Some(name)) => Pick::Add(name),
            (Action::Delete(_), name) => Pick::Delete(name),
            _ => return refused(format!("++ does not go with a group: write {key}=NAME")),
        };
        Some(Ok(Self { group, package, pick, option, used: false }))
    }
}

/// A file that is to be loaded.
struct Wanted {
    group: String,
    name: String,
    package: String,
    /// Whether the package was said where the file was named.
    explicit: bool,
    optional: bool,
    /// Where it was asked for.
    origin: Origin,
}

struct Composer<'a, 'f> {
    search: SearchPath,
    choices: Vec<Choice<'a>>,
    /// Paths of the files that are being read, each because of the one before it.
    chain: Vec<String>,
    files: u32,
    /// Bytes read from files.
    bytes: usize,
    /// Packages and what stands there, in the order in which they are joined.
    parts: Vec<(String, Node)>,
    /// Groups and the names taken from them.
    chosen: Vec<(String, String)>,
    findings: &'f mut Findings,
}

impl Composer<'_, '_> {
    /// Loads the primary file, what it is built on, and what the command line adds.
    fn primary(&mut self, name: &str) -> Result<(), ResolveError> {
        let Some(found) = self.search.find(name)? else {
            let places = self.search.places();
            return Err(ResolveError::NoConfig { name: name.to_owned(), places });
        };
        self.load(found, name, "", "", true)?;
        for at in 0..self.choices.len() {
            self.add(at)?;
        }
        Ok(())
    }

    /// Loads the file of a choice for which the list of defaults has no entry.
    fn add(&mut self, at: usize) -> Result<(), ResolveError> {
        let Choice { group, package, pick, option, used } = &self.choices[at];
        let (group, origin) = (*group, option.origin().clone());
        let key = package.map_or(group.to_owned(), |package| format!("{group}@{package}"));
        // Later choices for the same entry have it.
        let again = self.choices[at + 1..]
            .iter()
            .any(|later| (later.group, later.package) == (group, *package));
        let name = match pick {
            Pick::Add(_) if *used => {
                let text = format!("chosen already: write {key}=NAME to choose another");
                self.findings.problems.push(Remark::about_key(&origin, key, text));
                return Ok(());
            }
            _ if *used || again => return Ok(()),
            Pick::Add(name) => name.clone(),
            // A primary file without a workload has to be given one.
            Pick::Change(name) if group == WORKLOAD && package.is_none() => name.clone(),
            Pick::Change(_) => {
                let text = format!("not in the list of defaults: write +{key}=NAME to add it");
                self.findings.problems.push(Remark::about_key(&origin, key, text));
                return Ok(());
            }
            Pick::Delete(_) => {
                let text = "cannot be deleted: the list of defaults has no such entry";
                self.findings.problems.push(Remark::about_key(&origin, key, text));
                return Ok(());
            }
        };
        let explicit = package.is_some();
        let package = package.map_or_else(|| dotted(group), |package| inside("", package, group));
        self.chosen.push((key, name.clone()));
        let group = group.to_owned();
        self.take(Wanted { group, name, package, explicit, optional: false, origin })
    }

    /// Loads the file `wanted`.
    fn take(&mut self, wanted: Wanted) -> Result<(), ResolveError> {
        let Wanted { group, name, package, explicit, optional, origin } = wanted;
        let path = if group.is_empty() { name.clone() } else { format!("{group}/{name}") };
        self.files += 1;
        if self.files > MOST_FILES || self.chain.len() > DEEPEST {
            return Err(ResolveError::Yaml(refused(&origin, "names too many files")));
        }
        if self.chain.contains(&path) {
            let chain = self.chain.join(" -> ");
            let text = format!("{chain} -> {path} goes round in a circle");
            return Err(ResolveError::Yaml(refused(&origin, &text)));
        }
        match self.search.find(&path)? {
            Some(found) => self.load(found, &path, &group, &package, explicit),
            None if optional => Ok(()),
            None => {
                let choices = self.search.choices(&group);
                Err(ResolveError::UnknownChoice { group, name, origin, choices })
            }
        }
    }

    /// Takes in a file: what it is built on, and itself.
    fn load(
        &mut self,
        found: Found,
        path: &str,
        group: &str,
        package: &str,
        explicit: bool,
    ) -> Result<(), ResolveError> {
        let Found { name, text, shadowed } = found;
        for file in shadowed {
            let file = file.to_string_lossy();
            let origin = Origin::File { name: file.into(), line: 1, column: 1 };
            let text =
                format!("not used, because {name} comes first; --prefer-user turns it round");
            let remarks = if group.is_empty() {
                &mut self.findings.notes
            } else {
                &mut self.findings.warnings
            };
            remarks.push(Remark::about_key(&origin, path, text));
        }
        let mut node = yaml::read(&name, &text).map_err(ResolveError::Yaml)?;
        self.bytes += text.len();
        if self.bytes > MOST_BYTES {
            let text = format!("with it the files that are joined exceed {MOST_BYTES} bytes");
            return Err(ResolveError::Yaml(YamlError { origin: node.origin, text }));
        }
        if node.is_null() {
            node.value = Value::Mapping(Mapping::default());
        }
        if node.as_mapping().is_none() {
            let text = "a configuration file is a mapping of keys".to_owned();
            return Err(ResolveError::Yaml(YamlError { origin: node.origin, text }));
        }
        let package = match defaults::package_header(&text) {
            Some(header) if !explicit => {
                if !is_dotted(header) {
                    let text = format!("@package {header}: accepts names joined by dots");
                    return Err(ResolveError::Yaml(YamlError { origin: node.origin, text }));
                }
                // Counted from the root, whoever names the file.
                match header {
                    "_global_" => String::new(),
                    "_group_" => package.to_owned(),
                    header => header.to_owned(),
                }
            }
            _ => package.to_owned(),
        };
        let entries = match node.take("defaults") {
            Some(list) => defaults::parse(list).map_err(ResolveError::Yaml)?,
            None => Vec::new(),
        };
        self.chain.push(path.to_owned());
        let mut itself = Some(node);
        for entry in entries {
            match entry {
                Entry::Itself => {
                    self.parts.extend(itself.take().map(|node| (package.clone(), node)));
                }
                Entry::File(file) => {
                    if let Some(wanted) = self.wanted(file, group, &package)? {
                        self.take(wanted)?;
                    }
                }
            }
        }
        // Without an entry for itself a file stands over what it is built on.
        self.parts.extend(itself.map(|node| (package, node)));
        self.chain.pop();
        Ok(())
    }

    /// What an entry in a file of `group` at `package` comes to, with the choices of the command line.
    fn wanted(
        &mut self,
        file: File,
        group: &str,
        package: &str,
    ) -> Result<Option<Wanted>, ResolveError> {
        let own = file.group.trim_matches('/');
        let absolute = match (file.group.starts_with('/'), own.is_empty()) {
            (true, _) => own.to_owned(),
            (false, true) => group.to_owned(),
            (false, false) if group.is_empty() => own.to_owned(),
            (false, false) => format!("{group}/{own}"),
        };
        let explicit = file.package.is_some();
        let package = inside(package, file.package.as_deref().unwrap_or("_group_"), own);
        let File { mut name, optional, mut origin, .. } = file;
        // Only what is named by its group can be chosen, not what a file builds on.
        let by_group = !own.is_empty();
        for choice in self.choices.iter_mut().filter(|choice| by_group && choice.group == absolute)
        {
            let same = match choice.package {
                None => !explicit && package == dotted(choice.group),
                Some(chosen) => inside("", chosen, choice.group) == package,
            };
            if !same {
                continue;
            }
            match &choice.pick {
                Pick::Change(chosen) => {
                    name = Some(chosen.clone());
                    origin = choice.option.origin().clone();
                }
                Pick::Delete(expected) if expected.is_none() || *expected == name => name = None,
                Pick::Delete(_) => continue,
                // Two files at one place: refused when it comes to adding.
                Pick::Add(_) => {}
            }
            choice.used = true;
        }
        let Some(name) = name else { return Ok(None) };
        if name == "???" {
            let text = format!("a {absolute} must be chosen with {absolute}=NAME");
            return Err(ResolveError::Yaml(refused(&origin, &text)));
        }
        if by_group {
            let place = if explicit { format!("@{package}") } else { String::new() };
            self.chosen.push((format!("{absolute}{place}"), name.clone()));
        }
        Ok(Some(Wanted { group: absolute, name, package, explicit, optional, origin }))
    }
}

fn dotted(group: &str) -> String {
    group.replace('/', ".")
}

/// The package that `package`, written at `parent` for a file of the group `group`, means.
fn inside(parent: &str, package: &str, group: &str) -> String {
    let join = |package: &str| match (parent, package) {
        ("", package) => package.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, package) => format!("{parent}.{package}"),
    };
    match package {
        "_global_" => String::new(),
        "_here_" => parent.to_owned(),
        "_group_" => join(&dotted(group)),
        _ => match package.strip_prefix("_global_.") {
            Some(absolute) => absolute.to_owned(),
            None => join(package),
        },
    }
}

#[cfg(test)]
mod tests;
