//! Where a result comes from: the program and command that made it, and the store it read.

use feedrate_workload::ResolvedValue;
use serde::{Deserialize, Serialize};

use crate::host::{endpoint_host, is_local_address};
use crate::secrets::{mask_arguments, mask_url};

/// The program and the command that made a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the program, as `--version` tells it.
    pub tool_version: String,
    /// Its command line, secrets masked.
    pub command_line: Vec<String>,
    /// The workload as it was named: a preset or a file.
    pub workload_name: String,
}

impl Origin {
    /// Masks the secrets of `command_line`.
    pub fn new<S: AsRef<str>>(
        tool_version: impl Into<String>,
        command_line: impl IntoIterator<Item = S>,
        workload_name: impl Into<String>,
    ) -> Self {
        Self {
            tool_version: tool_version.into(),
            command_line: mask_arguments(command_line),
            workload_name: workload_name.into(),
        }
    }

    /// The command line as one would type it into a shell.
    pub fn command(&self) -> String {
        self.command_line.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }
}

/// `argument` as a shell takes it for one word: in quotes unless it is plain.
pub fn shell_word(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// A key of the configuration, and how it came to its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredValue {
    /// Dotted key.
    pub key: String,
    /// The value in force as text; `null` if there is none, `***` in place of a secret.
    pub value: String,
    /// Where it came from: an option as it was typed, a place in a file, a variable, `default`.
    pub origin: String,
}

impl From<&ResolvedValue> for ConfiguredValue {
    fn from(resolved: &ResolvedValue) -> Self {
        Self {
            key: resolved.key.to_owned(),
            value: mask_url(&resolved.value),
            origin: mask_url(&resolved.origin.to_string()),
        }
    }
}

/// The store that a run read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Its endpoint without user information; `None` for a folder.
    pub endpoint: Option<String>,
    /// `bucket/prefix`, or the folder.
    pub location: String,
    /// The endpoint's address is one of this host's, so store and client share CPUs and memory.
    pub co_located: bool,
    /// The server that comes with this program, started for this result.
    pub embedded: bool,
}

impl Store {
    /// A bucket behind `endpoint`; looks up whether that is this host.
    pub fn s3(endpoint: &str, location: impl Into<String>, embedded: bool) -> Self {
        Self {
            co_located: is_local_address(endpoint_host(endpoint)),
            endpoint: Some(mask_url(endpoint)),
            location: location.into(),
            embedded,
        }
    }

    /// A folder of a file system.
    pub fn folder(path: impl Into<String>) -> Self {
        Self { endpoint: None, location: path.into(), co_located: false, embedded: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let command = ["feedrate", "sweep", "my file.yaml", "--np", "1,2", "it's"];
        let origin = Origin::new("0.1.0", command, "my file.yaml");
        assert_eq!(origin.command(), r"feedrate sweep 'my file.yaml' --np 1,2 'it'\''s'");
    }

    #[test]
    fn a_store_on_loopback_is_co_located_and_its_password_is_not_kept() {
        let store = Store::s3("http://me:word@127.0.0.1:9000", "bench/data", false);
        assert!(store.co_located);
        assert_eq!(store.endpoint.as_deref(), Some("http://***@127.0.0.1:9000"));
    }
}
