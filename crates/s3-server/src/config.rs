//! What a server is to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access_log::AccessLogTarget;
use crate::faults::FaultRule;
use crate::keys::{Access, Account, KeyPair};
use crate::store::MemoryLimit;

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

impl Options {
    /// A server in memory, without buckets, that takes one pair of keys: what the other options are
    /// laid over.
    pub fn in_memory(listen: SocketAddr, keys: KeyPair) -> Self {
        Self {
            listen,
            accounts: vec![Account { keys, access: Access::ReadWrite }],
            storage: Storage::Memory { limit: None },
            buckets: Vec::new(),
            domains: vec!["localhost".to_owned()],
            faults: Vec::new(),
            record_gets: false,
            access_log: None,
            grace: Duration::from_millis(500),
        }
    }
}
