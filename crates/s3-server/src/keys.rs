//! Who may do what: pairs of keys, some of which can only read.

mod file;

use std::collections::HashMap;
use std::fmt;

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

pub use file::{KeysFileError, KeysFileProblem, read_keys_file};

/// An access key id and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The public half, which requests name.
    pub access_key_id: String,
    /// The secret half, with which requests are signed. Never shown, not even by `Debug`.
    pub secret_access_key: String,
}

impl KeyPair {
    /// Whether requests can be signed with it.
    fn is_usable(&self) -> bool {
        let id = &self.access_key_id;
        !id.is_empty() && !id.contains('/') && !self.secret_access_key.is_empty()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("access_key_id", &self.access_key_id)
            .field("secret_access_key", &"(hidden)")
            .finish()
    }
}

/// What requests that are signed with a pair of keys may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// What changes nothing.
    ReadOnly,
}

/// A pair of keys and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The keys.
    pub keys: KeyPair,
    /// What may be done with them.
    pub access: Access,
}

/// The operations that change nothing.
const READS: [&str; 9] = [
    "GetBucketLocation",
    "GetObject",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
];

/// The accounts of a server, by key id.
#[derive(Clone)]
pub(crate) struct Accounts(HashMap<String, (SecretKey, Access)>);

/// Why a server cannot have these accounts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccountsProblem {
    None,
    Unusable,
    Twice(String),
}

impl Accounts {
    pub(crate) fn new(accounts: Vec<Account>) -> Result<Self, AccountsProblem> {
        let mut known = HashMap::new();
        for Account { keys, access } in accounts {
            if !keys.is_usable() {
                return Err(AccountsProblem::Unusable);
            }
            let id = keys.access_key_id;
            let entry = (SecretKey::from(keys.secret_access_key), access);
            if known.insert(id.clone(), entry).is_some() {
                return Err(AccountsProblem::Twice(id));
            }
        }
        if known.is_empty() { Err(AccountsProblem::None) } else { Ok(Self(known)) }
    }
}

/// Tells `s3s` the secret of a key id. An unknown one is answered as S3 does it, with
/// `InvalidAccessKeyId` (`s3s`'s own provider says `NotSignedUp`).
#[async_trait::async_trait]
impl S3Auth for Accounts {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let known = self.0.get(access_key);
        known.map(|(secret, _)| secret.clone()).ok_or_else(|| {
            s3_error!(
                InvalidAccessKeyId,
                "The AWS access key Id you provided does not exist in our records."
            )
        })
    }
}

#[async_trait::async_trait]
impl S3Access for Accounts {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let account = context.credentials().and_then(|keys| self.0.get(&keys.access_key));
        match account {
            None => Err(s3_error!(AccessDenied, "Access Denied: the request is not signed")),
            Some((_, Access::ReadWrite)) => Ok(()),
            Some((_, Access::ReadOnly)) if READS.contains(&context.s3_op().name()) => Ok(()),
            Some((_, Access::ReadOnly)) => Err(s3_error!(
                AccessDenied,
                "Access Denied: this access key is read-only on this server"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_hold_the_secret() {
        let keys = KeyPair { access_key_id: "id".into(), secret_access_key: "hush".into() };
        let account = Account { keys, access: Access::ReadOnly };
        let shown = format!("{account:?}");
        assert!(shown.contains("id") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn accounts_without_a_use_are_refused() {
        let account = |id: &str, secret: &str| Account {
            keys: KeyPair { access_key_id: id.into(), secret_access_key: secret.into() },
            access: Access::ReadWrite,
        };
        let problem = |accounts| Accounts::new(accounts).err();
        assert_eq!(problem(vec![]), Some(AccountsProblem::None));
        assert_eq!(problem(vec![account("a/b", "x")]), Some(AccountsProblem::Unusable));
        assert_eq!(problem(vec![account("a", "")]), Some(AccountsProblem::Unusable));
        let twice = vec![account("a", "x"), account("a", "y")];
        assert_eq!(problem(twice), Some(AccountsProblem::Twice("a".into())));
        assert_eq!(problem(vec![account("a", "x"), account("b", "x")]), None);
    }
}
