//! First batches first: at the start of an epoch every rank of the process waits for its first
//! batch at once, so none may ask for later ones before all have asked for theirs. What is asked for
//! later waits behind them for its turn.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts first batches that were asked for, over all epochs and ranks of a process.
#[derive(Debug, Clone)]
pub(crate) struct FirstBatches {
    ranks: u64,
    asked: Arc<watch::Sender<u64>>,
}

impl FirstBatches {
    /// For `ranks` ranks in this process.
    pub(crate) fn new(ranks: u32) -> Self {
        Self { ranks: u64::from(ranks), asked: Arc::new(watch::Sender::new(0)) }
    }

    /// A rank has asked for its first batch of the epoch, or never will. Once an epoch for each rank.
    pub(crate) fn one_asked(&self) {
        self.asked.send_modify(|asked| *asked += 1);
    }

    /// Waits, and afterwards knows, whether all ranks have asked for theirs of the epoch with this number
    /// (from 1, counted by the loaders, not by the workload).
    pub(crate) fn gate(&self, epoch: u64) -> Gate {
        Gate { wanted: self.ranks * epoch, asked: self.asked.subscribe(), open: false }
    }
}

/// One loader's view of one epoch.
#[derive(Debug)]
pub(crate) struct Gate {
    wanted: u64,
    asked: watch::Receiver<u64>,
    open: bool,
}

impl Gate {
    pub(crate) fn is_open(&mut self) -> bool {
        self.open = self.open || *self.asked.borrow_and_update() >= self.wanted;
        self.open
    }

    /// Returns when the gate may have opened; never when it is open already.
    pub(crate) async fn changed(&mut self) {
        if self.open || self.asked.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
