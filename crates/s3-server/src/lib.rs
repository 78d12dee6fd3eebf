//! The embedded S3 test server, with fault rules.
//!
//! It gives a newcomer something to measure against without a store of their own, and gives tests a
//! store that fails on demand. It speaks enough S3 for Feedrate and for the usual SDKs to write, read
//! and list objects: create and head bucket, put, get (with ranges), head, list (version 2), delete.
//! Signatures are verified; what is not supported is refused with `NotImplemented`, never ignored.
//!
//! The way of a request:
//! 1. [`Server`] accepts connections (HTTP/1.1, `TCP_NODELAY`) and hands each request to the service.
//! 2. Paths below `/_feedrate/` (no bucket can be called that) answer without a signature and are
//!    not counted: `GET /_feedrate/status` is a [`Status`] in JSON, `POST /_feedrate/reset` zeroes
//!    the counters, `GET /_feedrate/gets` is a JSON array of [`GetRecord`]s.
//! 3. Any other request is counted; a GET is in flight from here until the last byte of its answer
//!    has been given to the socket, or the connection is gone.
//! 4. The [`FaultRule`]s look at it, before its signature is checked: they may delay it, answer it
//!    or reset its connection.
//! 5. `s3s` checks the signature and turns the request into an operation on the memory store.
//!
//! Objects are immutable shared buffers: a GET hands out the buffer itself, a PUT copies the body
//! once, into a buffer of its exact size.

mod body;
mod counters;
mod faults;
mod keys;
mod request;
mod routes;
mod server;
mod service;
mod store;

pub use counters::{GetRecord, RequestCounts, Status};
pub use faults::{FaultProblem, FaultRule, FaultRuleError};
pub use keys::KeyPair;
pub use server::{Config, Server, StartError};
