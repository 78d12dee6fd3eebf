//! The collectives between processes, each of which a failure can end.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::frames;
use super::library::{CallError, Communicator, Transfer};
use super::patience::Patience;
use super::shared::Shared;
use crate::Aborted;
use crate::team::Outside;

/// When a call of MPI fails, the roll call finds out sooner than this whether a process is missing.
const ROLL_CALL: Duration = Duration::from_secs(2);

/// One process's side of the collectives over one communicator.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) communicator: Communicator,
    pub(crate) shared: Arc<Shared>,
}

impl Exchange {
    /// Brings one payload of each process to process 0, in the order of processes.
    pub(crate) fn gather_from_processes(
        &self,
        payload: Vec<u8>,
    ) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        if self.communicator.process() > 0 {
            let length = (payload.len() as u64).to_le_bytes().to_vec();
            let length = self.begin(|to| to.send(0, length))?;
            let payload = self.begin(|to| to.send(0, payload))?;
            self.complete(length)?;
            self.complete(payload)?;
            return Ok(None);
        }
        let others = 1..self.communicator.processes();
        let lengths =
            others.clone().map(|one| self.begin(|from| from.receive(one, size_of::<u64>())));
        let lengths = lengths.collect::<Result<Vec<_>, _>>()?;
        let payloads = others.zip(lengths).map(|(one, length)| {
            let length = number(&self.complete(length)?);
            self.begin(|from| from.receive(one, length))
        });
        let payloads = payloads.collect::<Result<Vec<_>, _>>()?;
        let mut gathered = vec![payload];
        for payload in payloads {
            gathered.push(self.complete(payload)?);
        }
        Ok(Some(gathered))
    }

    fn begin<'c>(
        &'c self,
        call: impl FnOnce(&'c Communicator) -> Result<Transfer<'c>, CallError>,
    ) -> Result<Transfer<'c>, Aborted> {
        // Checked here too, so that ranks of a job that has failed begin nothing.
        if let Some(aborted) = self.shared.aborted() {
            return Err(aborted.clone());
        }
        call(&self.communicator).map_err(|error| self.failed(&error))
    }

    fn complete(&self, mut transfer: Transfer<'_>) -> Result<Vec<u8>, Aborted> {
        let mut patience = Patience::new();
        loop {
            match transfer.is_over() {
                Ok(true) => return Ok(transfer.into_bytes().unwrap_or_default()),
                Ok(false) => {}
                Err(error) => return Err(self.failed(&error)),
            }
            if let Some(aborted) = self.shared.aborted() {
                return Err(aborted.clone());
            }
            patience.pause();
        }
    }

    /// What a failed call means: most often that a process is gone, and then that one is to be named.
    fn failed(&self, error: &CallError) -> Aborted {
        self.shared.wish(|wishes| wishes.roll_call = Some(error.to_string()));
        let until = Instant::now() + ROLL_CALL;
        while self.shared.aborted().is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let process = self.communicator.process();
        let rank = self.shared.first_rank(process);
        self.shared.fail(self.shared.failure(process, rank, error.to_string()))
    }
}

impl Outside for Exchange {
    fn barrier(&self) -> Result<(), Aborted> {
        let barrier = self.begin(Communicator::barrier)?;
        self.complete(barrier)?;
        Ok(())
    }

    fn gather(&self, payloads: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        let Some(gathered) = self.gather_from_processes(frames::join(&payloads))? else {
            return Ok(None);
        };
        let mut of_all = Vec::new();
        for (process, joined) in (0..).zip(gathered) {
            let own = frames::split(&joined).ok_or_else(|| {
                let cause = "a gathered payload came cut; is this one program everywhere?";
                let rank = self.shared.first_rank(process);
                self.shared.fail(self.shared.failure(process, rank, cause.to_owned()))
            })?;
            of_all.extend(own);
        }
        Ok(Some(of_all))
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        let length = (payload.len() as u64).to_le_bytes().to_vec();
        let length = self.begin(|all| all.broadcast(length))?;
        let length = number(&self.complete(length)?);
        // Open MPI 4.1 takes a broadcast of nothing for a wrong call.
        if length == 0 {
            return Ok(Vec::new());
        }
        let buffer = if self.communicator.process() == 0 { payload } else { vec![0; length] };
        let bytes = self.begin(|all| all.broadcast(buffer))?;
        self.complete(bytes)
    }

    fn abort(&self, rank: u32, cause: String) -> Aborted {
        self.shared.fail(self.shared.failure(self.communicator.process(), rank, cause))
    }
}

/// A length that was sent as 8 bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.try_into().map_or(0, u64::from_le_bytes) as usize
}
