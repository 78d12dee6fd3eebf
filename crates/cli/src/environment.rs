//! The environment, captured once: variables, `.env`, the shared AWS files, the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::Context;
use feedrate_report::Origin;
use feedrate_storage::SharedFiles;
use feedrate_storage::credentials::Sourced;
use feedrate_workload::{SharedValue, StoreDefaults, parse_dotenv};
use jiff::ZonedDateTime;

/// Everything that the program takes from around it.
pub(crate) struct Environment {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) dotenv: BTreeMap<String, String>,
    pub(crate) shared: SharedFiles,
    /// When this process started to work.
    pub(crate) started: ZonedDateTime,
    pub(crate) directory: PathBuf,
    command_line: Vec<String>,
}

impl Environment {
    /// Reads it; variables that are not UTF-8 are left out, nothing here has such a name or value.
    pub(crate) fn capture() -> anyhow::Result<Self> {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let dotenv = match fs::read_to_string(".env") {
            Ok(text) => parse_dotenv(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).context("cannot read .env in the working directory"),
        };
        let command_line =
            std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        Ok(Self {
            shared: SharedFiles::load(&variables)?,
            variables,
            dotenv,
            started: ZonedDateTime::now(),
            directory: std::env::current_dir().context("there is no working directory")?,
            command_line,
        })
    }

    /// Endpoint and region of the shared files: below everything else that names them.
    pub(crate) fn store_defaults(&self) -> StoreDefaults {
        let shared = |sourced: &Sourced| SharedValue {
            value: sourced.value.clone(),
            source: sourced.source.clone(),
        };
        StoreDefaults {
            endpoint_url: self.shared.endpoint_url.as_ref().map(shared),
            region: self.shared.region.as_ref().map(shared),
        }
    }

    /// The arguments behind the program's name.
    pub(crate) fn arguments(&self) -> &[String] {
        self.command_line.get(1..).unwrap_or_default()
    }

    /// The `program` and command for result files, secrets masked.
    pub(crate) fn origin(&self, program: &str, workload: &str) -> Origin {
        let mut command = self.command_line.clone();
        if let Some(name) = command.first_mut() {
            program.clone_into(name);
        }
        Origin::new(crate::args::VERSION, command, workload)
    }

    /// `name` of the environment, or of `.env`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let set = self.variables.get(name).filter(|value| !value.is_empty());
        set.or_else(|| self.dotenv.get(name)).map(String::as_str).filter(|value| !value.is_empty())
    }
}
