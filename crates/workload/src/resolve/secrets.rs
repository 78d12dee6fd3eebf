//! The store's keys.

use super::Secrets;
use crate::environment::Environment;
use crate::schema;
use crate::settings::{Setting, Settings, text};

/// The store's keys. If the file or an option gives one of the two, the environment may give the
/// other; what the environment alone gives is for the storage client to find.
pub(super) fn secrets(settings: &mut Settings<'_>, environment: Environment<'_>) -> Secrets {
    let [id_key, secret_key] = schema::SECRETS;
    let mut read = |key| settings.optional(key, text);
    let (id, secret) = (read(id_key), read(secret_key));
    settings.record_optional(id_key, id.as_ref());
    settings.record_optional(secret_key, secret.as_ref());
    let from_environment =
        |name| environment.first(&[name]).map(|(value, origin)| Setting { value, origin });
    let (id, secret) = match (id, secret) {
        (None, None) => return Secrets::default(),
        (id, secret) => (
            id.or_else(|| from_environment("AWS_ACCESS_KEY_ID")),
            secret.or_else(|| from_environment("AWS_SECRET_ACCESS_KEY")),
        ),
    };
    match (&id, &secret) {
        (Some(id), None) => {
            settings.object(&id.origin, secret_key, format!("not given, but {id_key} is"));
        }
        (None, Some(secret)) => {
            settings.object(&secret.origin, id_key, format!("not given, but {secret_key} is"));
        }
        _ => {}
    }
    Secrets {
        origin: id.as_ref().map(|id| id.origin.clone()),
        access_key_id: id.map(|id| id.value),
        secret_access_key: secret.map(|secret| secret.value),
    }
}
