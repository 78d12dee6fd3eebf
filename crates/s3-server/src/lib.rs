//! The embedded S3 test server, with fault rules.
//!
//! It gives a newcomer something to measure against without a store of their own, and gives tests a
//! store that fails on demand. It speaks the S3 that SDKs use to read, write, list, copy and delete
//! objects, in one piece or in parts; `docs/server.md` says what it does not. Signatures are verified,
//! and what is not supported is refused with `NotImplemented`, never ignored.
//!
//! The way of a request:
//! 1. [`Server`] accepts connections (HTTP/1.1, `TCP_NODELAY`) and gives each to one of its threads, which
//!    hands every request that comes on it to the service.
//! 2. Paths below `/_feedrate/` (no bucket can be called that) answer without a signature and are
//!    not counted: `GET /_feedrate/status` is a [`Status`] in JSON, `POST /_feedrate/reset` zeroes
//!    the counters, `GET /_feedrate/gets` is a JSON array of [`GetRecord`]s.
//! 3. Any other request is counted, and gets its entry in the access log; a GET is in flight from here
//!    until the last byte of its answer has been given to the socket, or the connection is gone.
//! 4. The [`FaultRule`]s look at it, before its signature is checked: they may delay it, answer it
//!    or reset its connection.
//! 5. `s3s` checks the signature, what its [`Account`] may do, and turns the request into an operation
//!    of the routes on a store.
//!
//! A store keeps objects in memory or as plain files ([`Storage`]), behind one trait. In memory they
//! are immutable shared buffers: a GET hands out the buffer itself, a PUT copies the body once, into a
//! buffer of its exact size. Files are read and written in pieces, never as a whole. Multipart uploads
//! are kept beside the store, their parts in it.

mod access_log;
mod body;
mod checksums;
mod config;
mod connection;
mod counters;
mod domains;
mod faults;
mod keys;
mod request;
mod routes;
mod server;
mod service;
mod store;
mod uploads;
mod workers;

pub use access_log::AccessLogTarget;
pub use config::{Options, Storage};
pub use counters::{GetRecord, RequestCounts, Status};
pub use faults::{FaultProblem, FaultRule, FaultRuleError};
pub use keys::{Access, Account, KeyPair, KeysFileError, KeysFileProblem, read_keys_file};
pub use server::{Server, StartError};
pub use store::{MemoryLimit, MemoryLimitError};
