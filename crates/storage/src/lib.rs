//! One trait over S3, local files and memory, with retries, credentials and counters.
//!
//! A [`Store`] holds one data set's bytes: a bucket of an object store ([`S3Store`]), a folder of a
//! file system ([`LocalStore`]), a map in memory ([`MemoryStore`]), or nothing at all, where I/O is
//! simulated ([`SimulatedStore`]). Every operation names an
//! [`ObjectKey`] (no leading slash, `/` between parts) and ends in a [`StoreError`] that says which
//! operation failed on what, where, and after how many attempts. Wrappers compose: [`Retrying`]
//! around a store repeats what may be repeated and counts it, and spreads operations over a store's
//! endpoints; the stores themselves try once, at one endpoint. An object that is too large to be held
//! in memory is written in parts, by an [`Upload`].
//!
//! Nothing here reads the process's environment: [`credentials`] look in the map they are given. (The
//! library that finds the machine's certificate authorities looks at `SSL_CERT_FILE` and
//! `SSL_CERT_DIR`.)
//! The trait knows nothing of what the bytes mean: formats live in `feedrate-dataset`.

pub mod credentials;
mod endpoints;
mod engine;
mod error;
mod key;
mod local;
mod memory;
mod retry;
mod s3;
mod simulated;
mod store;
mod upload;

#[cfg(test)]
mod contract;

pub use credentials::{Credentials, CredentialsError, SharedFiles, find_credentials};
pub use error::{Cause, Operation, StoreError};
pub use key::ObjectKey;
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use retry::{RetryPolicy, Retrying};
pub use s3::{GetEngine, OpenError, S3Settings, S3Store};
pub use simulated::SimulatedStore;
pub use store::{Fetched, Listed, Store};
pub use upload::{PartPlace, PartTag, Upload, UploadId, UploadedPart, part_bytes};
