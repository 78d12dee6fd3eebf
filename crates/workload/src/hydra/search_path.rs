//! The places in which configuration files are looked for, and the order of looking.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Composition;
use crate::presets;
use crate::resolve::{ResolveError, read_file};

/// The built-in primary file.
pub(super) const CONFIG: &str = "config";
const CONFIG_TEXT: &str = "defaults:\n  - _self_\n  - workload: default\n";
const WORKLOADS: &str = "workload/";
/// Most names that are listed, and deepest folders in which they are looked for.
const MOST_CHOICES: usize = 1000;
const DEEPEST: u32 = 4;

/// Where configuration files are.
#[derive(Debug, Clone)]
enum Place {
    /// In the program.
    BuiltIn,
    Folder(PathBuf),
}

/// Where configuration files are looked for, first place first.
#[derive(Debug)]
pub(super) struct SearchPath(Vec<Place>);

/// Name and text of a file.
type Text = (Arc<str>, Cow<'static, str>);

/// A configuration file that was found.
pub(super) struct Found {
    /// What origins call it.
    pub(super) name: Arc<str>,
    pub(super) text: Cow<'static, str>,
    /// Files of the same name in later places, which are not used.
    pub(super) shadowed: Vec<PathBuf>,
}

impl SearchPath {
    /// The places of `composition`, which must be there.
    pub(super) fn new(composition: &Composition) -> Result<Self, ResolveError> {
        let folder = |option: &'static str, path: &Path| {
            if path.is_dir() {
                Ok(Place::Folder(path.to_owned()))
            } else {
                Err(ResolveError::NoConfigFolder { option, path: path.to_owned() })
            }
        };
        let main = match &composition.config_path {
            Some(path) => folder("--config-path", path)?,
            None => Place::BuiltIn,
        };
        // Hydra takes the last one only, so it comes first here.
        let users = composition.config_dirs.iter().rev();
        let mut places: Vec<_> =
            users.map(|path| folder("--config-dir", path)).collect::<Result<_, _>>()?;
        let at = if composition.prefer_user { places.len() } else { 0 };
        places.insert(at, main);
        Ok(Self(places))
    }

    /// The file `path`, such as `workload/default`, of the first place that has it.
    pub(super) fn find(&self, path: &str) -> Result<Option<Found>, ResolveError> {
        let path = path.strip_suffix(".yaml").unwrap_or(path);
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(None);
        }
        for (at, place) in self.0.iter().enumerate() {
            let Some((name, text)) = place.read(path)? else { continue };
            let shadowed = self.0[at + 1..].iter().filter_map(|place| match place {
                Place::Folder(folder) => Some(file(folder, path)).filter(|file| file.is_file()),
                Place::BuiltIn => None,
            });
            return Ok(Some(Found { name, text, shadowed: shadowed.collect() }));
        }
        Ok(None)
    }

    /// Whether any place has the group.
    pub(super) fn has_group(&self, group: &str) -> bool {
        self.0.iter().any(|place| match place {
            Place::BuiltIn => group == WORKLOADS.trim_end_matches('/'),
            Place::Folder(folder) => folder.join(group).is_dir(),
        })
    }

    /// The names in a group, sorted.
    pub(super) fn choices(&self, group: &str) -> Vec<String> {
        let mut choices = Vec::new();
        for place in &self.0 {
            match place {
                Place::BuiltIn if WORKLOADS.trim_end_matches('/') == group => {
                    choices.extend(presets::names().map(str::to_owned));
                }
                Place::BuiltIn => {}
                Place::Folder(folder) => list(&folder.join(group), "", DEEPEST, &mut choices),
            }
        }
        choices.sort();
        choices.dedup();
        choices
    }

    /// The places in words.
    pub(super) fn places(&self) -> Vec<String> {
        let place = |place: &Place| match place {
            Place::BuiltIn => "the program itself".to_owned(),
            Place::Folder(folder) => folder.display().to_string(),
        };
        self.0.iter().map(place).collect()
    }
}

impl Place {
    fn read(&self, path: &str) -> Result<Option<Text>, ResolveError> {
        match self {
            Self::BuiltIn if path == CONFIG => {
                Ok(Some((Arc::from("built-in config"), Cow::Borrowed(CONFIG_TEXT))))
            }
            Self::BuiltIn => {
                Ok(path.strip_prefix(WORKLOADS).and_then(presets::get).map(|preset| {
                    (Arc::from(format!("preset {}", preset.name)), Cow::Borrowed(preset.yaml))
                }))
            }
            Self::Folder(folder) => {
                let path = file(folder, path);
                match read_file(&path) {
                    Ok(text) => Ok(Some((Arc::from(path.to_string_lossy()), Cow::Owned(text)))),
                    Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
                    Err(cause) => Err(ResolveError::Unreadable { path, cause }),
                }
            }
        }
    }
}

fn file(folder: &Path, path: &str) -> PathBuf {
    folder.join(format!("{path}.yaml"))
}

/// Adds the names of the YAML files in `folder`, and in folders in it, behind `prefix`. What cannot be
/// read has no names.
fn list(folder: &Path, prefix: &str, depth: u32, choices: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if choices.len() >= MOST_CHOICES {
            return;
        }
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(name) = name.strip_suffix(".yaml") {
            choices.push(format!("{prefix}{name}"));
        } else if depth > 1 && entry.path().is_dir() {
            list(&entry.path(), &format!("{prefix}{name}/"), depth - 1, choices);
        }
    }
}
