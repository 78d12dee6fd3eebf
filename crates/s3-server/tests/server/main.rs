//! The server from outside: real sockets, real signatures.

mod client;
mod counters;
mod directory;
mod faults;
mod lists;
mod objects;
mod options;
mod sign;
mod signatures;
mod start_and_stop;
