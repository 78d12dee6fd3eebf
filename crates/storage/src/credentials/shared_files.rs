//! The files that AWS tools share: `~/.aws/credentials` and `~/.aws/config`.
//!
//! One profile is read out of both: the one that `AWS_PROFILE` names, else `default`. In the
//! credentials file its section is `[name]`, in the configuration file `[profile name]` (`[default]`
//! for the default). A file that is not there is no error: most machines have none.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ini::{Ini, ParseOption, Properties};

/// A value and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced {
    /// The value.
    pub value: String,
    /// Where: "/root/.aws/config, profile default".
    pub source: String,
}

/// What the shared files say for the chosen profile.
#[derive(Debug, Default)]
pub struct SharedFiles {
    /// The S3 endpoint: of the profile's `services` section for `s3`, else of the profile.
    pub endpoint_url: Option<Sourced>,
    /// The region.
    pub region: Option<Sourced>,
    places: Vec<Place>,
    looked_at: Vec<String>,
}

/// One file's section for the profile.
pub(super) struct Place {
    /// "/root/.aws/credentials, profile default".
    pub(super) name: String,
    /// Its keys in lower case, with their values.
    pub(super) values: BTreeMap<String, String>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values hold secrets.
        f.debug_struct("Place").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why the shared files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedFilesError {
    /// A file is there but cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file is not in the format of AWS's files.
    #[error("{}, line {line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's reason.
        reason: String,
    },
    /// `AWS_PROFILE` names a profile that neither file has.
    #[error("AWS_PROFILE names the profile `{profile}`, which is nowhere to be found. Looked at: {}",
        looked_at.join("; "))]
    NoSuchProfile {
        /// The profile.
        profile: String,
        /// The files looked at, each with what it lacks.
        looked_at: Vec<String>,
    },
}

/// Settings that give keys in ways that are not supported.
const OTHER_WAYS: [&str; 6] = [
    "credential_process",
    "sso_session",
    "sso_start_url",
    "role_arn",
    "web_identity_token_file",
    "login_session",
];

impl SharedFiles {
    /// Reads the files that `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` of `env` name, or
    /// `$HOME/.aws/credentials` and `$HOME/.aws/config`, for the profile `AWS_PROFILE` or `default`.
    ///
    /// # Errors
    ///
    /// A file that exists cannot be read or parsed, or `AWS_PROFILE` names a profile that is in neither
    /// file. A file of `$HOME` that this user may not read counts as not there.
    pub fn load(env: &BTreeMap<String, String>) -> Result<Self, SharedFilesError> {
        let set = |name| env.get(name).filter(|value| !value.is_empty());
        let named_profile = set("AWS_PROFILE");
        let profile = named_profile.map_or("default", String::as_str);
        let config_section = match profile {
            "default" => "default".to_owned(),
            name => format!("profile {name}"),
        };

        let mut shared = Self::default();
        for (variable, usual, section) in [
            ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", profile),
            ("AWS_CONFIG_FILE", ".aws/config", config_section.as_str()),
        ] {
            let home = set("HOME").map(Path::new);
            let path = match (set(variable), home) {
                (Some(path), home) => expand_home(path, home),
                (None, Some(home)) => home.join(usual),
                (None, None) => {
                    shared.looked_at.push(format!("~/{usual} (HOME is not set)"));
                    continue;
                }
            };
            let looked = match read(&path) {
                Ok(Some(file)) => shared.take_profile(&path, &file, section, profile),
                Ok(None) => format!("{} (no such file)", path.display()),
                // Nobody asked for it, and HOME may be another user's, as in many containers.
                Err(SharedFilesError::Unreadable { reason, .. })
                    if set(variable).is_none()
                        && reason.kind() == io::ErrorKind::PermissionDenied =>
                {
                    format!("{} ({reason})", path.display())
                }
                Err(error) => return Err(error),
            };
            shared.looked_at.push(looked);
        }
        match named_profile.filter(|_| shared.places.is_empty()) {
            Some(profile) => Err(SharedFilesError::NoSuchProfile {
                profile: profile.clone(),
                looked_at: shared.looked_at,
            }),
            None => Ok(shared),
        }
    }

    /// The sections that may hold keys, in order of precedence.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Every place where keys could have been, with what it lacks.
    pub(super) fn looked_at(&self) -> &[String] {
        &self.looked_at
    }

    /// Takes what `file` says in `section`, and tells what is to be said of this place should no
    /// keys be found.
    fn take_profile(&mut self, path: &Path, file: &Ini, section: &str, profile: &str) -> String {
        let Some(properties) = file.section(Some(section)) else {
            return format!("{} (no profile {profile})", path.display());
        };
        let name = format!("{}, profile {profile}", path.display());
        let values = top_level(properties);
        let sourced = |value: &String| Sourced { value: value.clone(), source: name.clone() };

        let service_endpoint = values.get("services").and_then(|services| {
            let section = file.section(Some(format!("services {services}")))?;
            nested(section, "s3", "endpoint_url").map(|value| Sourced {
                value,
                source: format!("{}, services {services}", path.display()),
            })
        });
        let endpoint_url = service_endpoint.or_else(|| values.get("endpoint_url").map(sourced));
        self.endpoint_url = self.endpoint_url.take().or(endpoint_url);
        self.region = self.region.take().or_else(|| values.get("region").map(sourced));

        let other_way = OTHER_WAYS.iter().find(|way| values.contains_key(**way));
        let looked = match other_way {
            None => format!("{name} (no aws_access_key_id)"),
            Some(way) => format!(
                "{name} (it gives keys by {way}, which is not supported: \
                 `aws configure export-credentials --profile {profile} --format env` prints them)"
            ),
        };
        self.places.push(Place { name, values });
        looked
    }
}

/// `path` with a leading `~/` replaced, as AWS's tools do.
fn expand_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(path),
    }
}

/// The parsed file, or `None` when there is none.
fn read(path: &Path) -> Result<Option<Ini>, SharedFilesError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(SharedFilesError::Unreadable { path: path.to_owned(), reason }),
    };
    // Secrets may contain quotes' and escapes' characters; indented keys belong to a nested block.
    let options = ParseOption {
        enabled_quote: false,
        enabled_escape: false,
        enabled_indented_mutiline_value: false,
        enabled_preserve_key_leading_whitespace: true,
    };
    match Ini::load_from_str_opt(&text, options) {
        Ok(file) => Ok(Some(file)),
        Err(error) => Err(SharedFilesError::Malformed {
            path: path.to_owned(),
            line: error.line + 1,
            reason: error.msg.to_string(),
        }),
    }
}

/// The settings of a section that are not in a nested block.
fn top_level(section: &Properties) -> BTreeMap<String, String> {
    let plain = section.iter().filter(|(key, _)| !is_indented(key));
    plain.map(|(key, value)| (key.to_lowercase(), value.to_owned())).collect()
}

/// The setting `wanted` in the block `block` of a section: an indented line below `block =`.
fn nested(section: &Properties, block: &str, wanted: &str) -> Option<String> {
    let mut inside = false;
    for (key, value) in section {
        if !is_indented(key) {
            inside = key.trim() == block;
        } else if inside && key.trim() == wanted {
            return Some(value.to_owned());
        }
    }
    None
}

fn is_indented(key: &str) -> bool {
    key.starts_with(char::is_whitespace)
}
