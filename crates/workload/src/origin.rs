//! Where a value came from, and what there is to say about it.

use std::fmt;
use std::sync::Arc;

use crate::schema;
use crate::tree::Node;

/// Where a value came from. Layers, highest first: command line, workload file, environment,
/// `.env`, shared configuration, default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A place in a workload file or preset.
    File {
        /// Path of the file, or `preset NAME`.
        name: Arc<str>,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// The command line; the text shows the option as it was typed, secrets masked, a long one cut.
    CommandLine(Arc<str>),
    /// An environment variable.
    Environment(String),
    /// A line of the `.env` file.
    Dotenv(String),
    /// A configuration file shared with other tools; the text names it.
    Shared(Arc<str>),
    /// Nothing set it.
    Default,
}

impl Origin {
    /// Its layer, the highest first.
    pub(crate) fn layer(&self) -> u8 {
        match self {
            Self::CommandLine(_) => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::Dotenv(_) => 3,
            Self::Shared(_) => 4,
            Self::Default => 5,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::CommandLine(option) => f.write_str(option),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Dotenv(name) => write!(f, ".env {name}"),
            Self::Shared(source) => f.write_str(source),
            Self::Default => f.write_str("default"),
        }
    }
}

/// What is found to say about a configuration, by its weight.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// It is refused for these.
    pub(crate) problems: Vec<Remark>,
    /// Keys and variables that nobody knows: problems if the user is strict, else warnings.
    pub(crate) unknown: Vec<Remark>,
    /// What is odd but not wrong.
    pub(crate) warnings: Vec<Remark>,
    /// What is fine and makes no difference.
    pub(crate) notes: Vec<Remark>,
}

/// One thing to say about the configuration: a problem that refuses it, or a warning. Displayed as
/// `bench.yaml:7:15: reader.batch_size = 0: accepts a whole number from 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Where the value stands.
    pub origin: Origin,
    /// The key or variable it is about.
    pub key: String,
    /// The value, as far as it helps; `***` in place of a secret.
    pub value: Option<String>,
    /// What is wrong with it and what would be right.
    pub text: String,
}

impl Remark {
    /// A remark about a key as a whole.
    pub(crate) fn about_key(
        origin: &Origin,
        key: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { origin: origin.clone(), key: key.into(), value: None, text: text.into() }
    }

    /// A remark about the value of a key.
    pub(crate) fn about_value(key: &str, node: &Node, text: impl Into<String>) -> Self {
        let value = if schema::is_sensitive(key) { "***".to_owned() } else { node.to_string() };
        Self {
            origin: node.origin.clone(),
            key: key.to_owned(),
            value: Some(value),
            text: text.into(),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.text)
    }
}
