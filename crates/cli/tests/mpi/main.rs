//! The program as an MPI launcher starts it: several processes that are one run, on one host and on
//! two, and what becomes of them when one is lost.
//!
//! A test makes a [`support::Place`] and a [`support::Server`], as those of `end_to_end` do, and calls
//! `mpirun` there ([`launcher`]). The two hosts are network namespaces ([`network`]); where those cannot
//! be made, these tests fail, unless `FEEDRATE_TEST_NO_NETNS=1` says that they are to be skipped.

#[path = "../end_to_end"]
mod end_to_end {
    pub(crate) mod support;
}
mod failures;
mod hosts;
mod launcher;
mod network;
mod same_work;
mod settings;
mod sweep;
mod wrapper;

use end_to_end::support;
