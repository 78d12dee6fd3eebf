//! Which keys sign the requests, and where they came from.
//!
//! Keys are looked for in this order, and the first place that has any decides: given explicitly (a
//! flag or the workload), the environment, the `.env` file, the shared credentials file, the shared
//! configuration file ([`SharedFiles`]). No other place exists: nothing here asks a metadata address,
//! runs a program or reads the process's environment. A place that has only half of a pair is an
//! error rather than passed over, because it was meant to be used.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use shared_files::{SharedFiles, SharedFilesError, Sourced};

mod shared_files;

/// An access key, its secret, and where they came from. Neither `Debug` nor `Display` shows the
/// secret, the session token or more of the key id than its beginning; to hand everything to a child
/// process there is [`expose`](Self::expose).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    source: String,
}

impl Credentials {
    /// Keys from `source`, words that end the sentence "the credentials come from …".
    pub fn new(
        access_key_id: impl Into<String>,
        secret_access_key: impl Into<String>,
        session_token: Option<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: secret_access_key.into(),
            session_token,
            source: source.into(),
        }
    }

    /// The access key id, whole.
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// The beginning of the access key id, at most four characters and at most a quarter of it,
    /// followed by `…`: enough to tell keys apart.
    pub fn masked_key_id(&self) -> String {
        let shown = (self.access_key_id.chars().count() / 4).min(4);
        self.access_key_id.chars().take(shown).chain(['…']).collect()
    }

    /// The secret. Whoever calls this must not print it.
    pub fn secret_access_key(&self) -> &str {
        &self.secret_access_key
    }

    /// The token of temporary keys. Whoever calls this must not print it.
    pub fn session_token(&self) -> Option<&str> {
        self.session_token.as_deref()
    }

    /// Where the keys came from: "the environment", "/root/.aws/credentials, profile default" ….
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Everything in the clear, to be serialized into a pipe to a child process that shall use the
    /// same keys. `Credentials::from` turns it back.
    pub fn expose(&self) -> ExposedCredentials {
        ExposedCredentials {
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            session_token: self.session_token.clone(),
            source: self.source.clone(),
        }
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access key {} from {}", self.masked_key_id(), self.source)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({self})")
    }
}

/// [`Credentials`] in the clear: the one type that serializes them. Never written to a file, an
/// argument list or a log; only into a pipe.
#[derive(Clone, Serialize, Deserialize)]
pub struct ExposedCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    source: String,
}

impl fmt::Debug for ExposedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExposedCredentials").finish_non_exhaustive()
    }
}

impl From<ExposedCredentials> for Credentials {
    fn from(exposed: ExposedCredentials) -> Self {
        let ExposedCredentials { access_key_id, secret_access_key, session_token, source } =
            exposed;
        Self { access_key_id, secret_access_key, session_token, source }
    }
}

/// Why no credentials were found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// One half of a pair is set, the other is not.
    #[error("{place} has {present} but not {missing}; set both or neither")]
    HalfAPair {
        /// Where.
        place: String,
        /// The name of what is there.
        present: String,
        /// The name of what is not.
        missing: String,
    },
    /// No place has keys.
    #[error("no credentials found. Looked at: {}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
        or AWS_PROFILE to a profile that has keys", looked_at.join("; "))]
    NoneFound {
        /// Every place, and what it lacks.
        looked_at: Vec<String>,
    },
}

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";

/// The keys to use: `explicit`, or those of the environment `env`, of the `.env` file's variables
/// `dotenv`, or of the `shared` files, in this order.
///
/// # Errors
///
/// The first place that has anything has half a pair, or no place has anything.
pub fn find_credentials(
    explicit: Option<Credentials>,
    env: &BTreeMap<String, String>,
    dotenv: &BTreeMap<String, String>,
    shared: &SharedFiles,
) -> Result<Credentials, CredentialsError> {
    if let Some(explicit) = explicit {
        return Ok(explicit);
    }
    for (place, variables) in [("the environment", env), ("the file .env", dotenv)] {
        if let Some(found) = pair(place, [KEY_ID, SECRET, TOKEN], |name| variables.get(name))? {
            return Ok(found);
        }
    }
    for place in shared.places() {
        let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
        if let Some(found) = pair(&place.name, names, |name| place.values.get(name))? {
            return Ok(found);
        }
    }
    let mut looked_at = vec![
        "flags and workload (none given)".to_owned(),
        format!("the environment ({KEY_ID} not set)"),
        format!("the file .env ({KEY_ID} not set)"),
    ];
    looked_at.extend(shared.looked_at().iter().cloned());
    Err(CredentialsError::NoneFound { looked_at })
}

/// The pair that `place` has, if it has any of it. An empty value counts as absent.
fn pair<'a>(
    place: &str,
    [key_id, secret, token]: [&str; 3],
    value: impl Fn(&str) -> Option<&'a String>,
) -> Result<Option<Credentials>, CredentialsError> {
    let value = |name| value(name).filter(|value| !value.is_empty()).cloned();
    let half = |present: &str, missing: &str| CredentialsError::HalfAPair {
        place: place.to_owned(),
        present: present.to_owned(),
        missing: missing.to_owned(),
    };
    match (value(key_id), value(secret)) {
        (Some(id), Some(key)) => Ok(Some(Credentials::new(id, key, value(token), place))),
        (Some(_), None) => Err(half(key_id, secret)),
        (None, Some(_)) => Err(half(secret, key_id)),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
