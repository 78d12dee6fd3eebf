//! What a server is to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access_log::AccessLogTarget;
use crate::faults::FaultRule;
use crate::keys::{Access, Account, KeyPair};
use crate::store::MemoryLimit;

/// A server that keeps objects in memory and takes one pair of keys: all that a test needs. For
/// everything else there are [`Options`], which can be made of it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 lets the system choose a free one.
    pub listen: SocketAddr,
    /// The keys with which requests must be signed.
    pub keys: KeyPair,
    /// Buckets that exist from the start, empty.
    pub buckets: Vec<String>,
    /// What to do wrong, in the order in which the rules are asked.
    pub faults: Vec<FaultRule>,
    /// Whether to remember the latest 100,000 GETs for `GET /_feedrate/gets`.
    pub record_gets: bool,
}

/// Everything that can be chosen of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 lets the system choose a free one.
    pub listen: SocketAddr,
    /// The keys with which requests must be signed, and what may be done with each.
    pub accounts: Vec<Account>,
    /// Where objects are kept.
    pub storage: Storage,
    /// Buckets that are made at the start where they do not exist.
    pub buckets: Vec<String>,
    /// Domains below which a host names a bucket, without ports: `localhost` makes
    /// `http://data.localhost:9000/key` an address of the bucket `data`.
    pub domains: Vec<String>,
    /// What to do wrong, in the order in which the rules are asked.
    pub faults: Vec<FaultRule>,
    /// Whether to remember the latest 100,000 GETs for `GET /_feedrate/gets`.
    pub record_gets: bool,
    /// Where each request leaves a line.
    pub access_log: Option<AccessLogTarget>,
    /// How long requests under way may take to be answered when the server stops.
    pub grace: Duration,
}

/// Where a server keeps objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In memory, until the server ends.
    Memory {
        /// The most bytes of content; `None` for as many as the system gives.
        limit: Option<MemoryLimit>,
    },
    /// As plain files: this folder, which must exist, holds a folder for each bucket.
    Directory(PathBuf),
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        let Config { listen, keys, buckets, faults, record_gets } = config;
        Self {
            listen,
            accounts: vec![Account { keys, access: Access::ReadWrite }],
            storage: Storage::Memory { limit: None },
            buckets,
            domains: vec!["localhost".to_owned()],
            faults,
            record_gets,
            access_log: None,
            grace: Duration::from_millis(500),
        }
    }
}
