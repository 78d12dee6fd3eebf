//! Several ways to one store: the same buckets and keys behind each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use feedrate_metrics::requests::{EndpointStats, RequestStats};

use crate::{Cause, Store, StoreError};

/// One endpoint: a store of its own, so with connections of its own, and what is known of it.
#[derive(Debug)]
pub(crate) struct Endpoint<S> {
    pub(crate) store: S,
    /// Its counters; none for a store that has no endpoints, such as a folder.
    stats: Option<Arc<EndpointStats>>,
    has_answered: AtomicBool,
}

impl<S> Endpoint<S> {
    /// Notes a success, which `count` counts.
    pub(crate) fn succeeded(&self, count: impl FnOnce(&EndpointStats)) {
        self.answered();
        if let Some(stats) = &self.stats {
            count(stats);
        }
    }

    /// Notes a failed attempt. Returns whether anybody ever answered here. If so, the next attempt is
    /// better made elsewhere; if not, the endpoint is more likely a wrong one, which would go
    /// unnoticed if the others did its work.
    pub(crate) fn failed(&self, error: &StoreError) -> bool {
        if !matches!(*error.cause, Cause::Connect { .. } | Cause::Timeout { .. }) {
            self.answered();
        }
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Counts a failed attempt that will be repeated.
    pub(crate) fn retried(&self) {
        if let Some(stats) = &self.stats {
            stats.retried();
        }
    }

    fn answered(&self) {
        // Written once: all threads look at it on every request.
        if !self.has_answered.load(Ordering::Relaxed) {
            self.has_answered.store(true, Ordering::Relaxed);
        }
    }
}

/// All endpoints of a store, taking turns.
#[derive(Debug)]
pub(crate) struct Endpoints<S> {
    all: Vec<Endpoint<S>>,
    next: AtomicUsize,
}

impl<S: Store> Endpoints<S> {
    /// Counts what they do in `stats`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn new(stores: impl IntoIterator<Item = S>, stats: &RequestStats) -> Self {
        let endpoint = |store: S| Endpoint {
            stats: store.endpoint().map(|url| stats.endpoint(url)),
            store,
            has_answered: AtomicBool::new(false),
        };
        let all: Vec<_> = stores.into_iter().map(endpoint).collect();
        assert!(!all.is_empty(), "a store has at least one endpoint");
        Self { all, next: AtomicUsize::new(0) }
    }

    /// The turn of a new operation: the one after the turn of the operation that began before it.
    pub(crate) fn take_turn(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whose turn it is.
    pub(crate) fn at(&self, turn: usize) -> &Endpoint<S> {
        &self.all[turn % self.all.len()]
    }

    /// `s3://bucket at http://a, http://b`
    pub(crate) fn location(&self) -> String {
        let others = self.all.iter().skip(1).filter_map(|endpoint| endpoint.store.endpoint());
        others.fold(self.all[0].store.location(), |all, url| format!("{all}, {url}"))
    }
}
