//! The one pair of keys that the server accepts.

use std::fmt;

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

/// An access key id and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The public half, which requests name.
    pub access_key_id: String,
    /// The secret half, with which requests are signed. Never shown, not even by `Debug`.
    pub secret_access_key: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("access_key_id", &self.access_key_id)
            .field("secret_access_key", &"(hidden)")
            .finish()
    }
}

/// Tells `s3s` the secret of the accepted key id. Any other id is answered as S3 does it, with
/// `InvalidAccessKeyId` (`s3s`'s own provider says `NotSignedUp`).
pub(crate) struct OnePair {
    access_key_id: String,
    secret: SecretKey,
}

impl From<KeyPair> for OnePair {
    fn from(keys: KeyPair) -> Self {
        Self { access_key_id: keys.access_key_id, secret: SecretKey::from(keys.secret_access_key) }
    }
}

#[async_trait::async_trait]
impl S3Auth for OnePair {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key_id {
            return Ok(self.secret.clone());
        }
        Err(s3_error!(
            InvalidAccessKeyId,
            "The AWS access key Id you provided does not exist in our records."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_hold_the_secret() {
        let keys = KeyPair { access_key_id: "id".into(), secret_access_key: "hush".into() };
        let shown = format!("{keys:?}");
        assert!(shown.contains("id") && !shown.contains("hush"), "{shown}");
    }
}
