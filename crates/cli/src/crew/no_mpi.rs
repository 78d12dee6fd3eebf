//! What takes the place of MPI in a program that is built without it: a cluster that nobody can have.

use feedrate_ranks::Aborted;
use feedrate_ranks::in_process::Rank;

/// No value of this type exists.
pub(super) enum Cluster {}

pub(super) struct Loss {
    pub(super) aborted: Aborted,
    pub(super) speaks: bool,
}

pub(super) struct Node {
    pub(super) processes: Vec<u32>,
}

impl Cluster {
    pub(super) fn process(&self) -> u32 {
        match *self {}
    }

    pub(super) fn processes(&self) -> u32 {
        match *self {}
    }

    pub(super) fn host(&self) -> &str {
        match *self {}
    }

    pub(super) fn nodes(&self) -> &[Node] {
        match *self {}
    }

    pub(super) fn broadcast(&self, _: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        match *self {}
    }

    pub(super) fn gather(&self, _: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        match *self {}
    }

    pub(super) fn worlds(&self, _: u32) -> Result<Vec<Rank>, Aborted> {
        match *self {}
    }

    pub(super) fn fail(&self, _: &str) -> Aborted {
        match *self {}
    }

    pub(super) fn claim_word(&self) -> bool {
        match *self {}
    }

    pub(super) fn alarm(&self) -> Alarm {
        match *self {}
    }

    pub(super) fn finish(self) -> Result<(), Loss> {
        match self {}
    }
}

/// As the other one ends something when it goes.
impl Drop for Cluster {
    fn drop(&mut self) {
        match *self {}
    }
}

#[derive(Clone)]
pub(super) struct Alarm;

impl Alarm {
    #[expect(clippy::unused_self, reason = "as of the other one")]
    pub(super) fn raise(&self, _: &str) {}
}
