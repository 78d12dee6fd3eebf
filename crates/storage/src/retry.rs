//! Repeating what may be repeated.
//!
//! [`Retrying`] is a store around a store. An attempt that fails for a passing reason
//! ([`Cause::retry_kind`]) is made again after a wait that doubles each time and is half chance, so
//! that many clients do not come back at one moment. It ends when the [`RetryPolicy`]'s attempts are
//! used up, or when the next attempt would begin after its time limit; the error then speaks for the
//! whole operation. Every repeated attempt is counted, once, under its kind.
//!
//! A store may be reached by several endpoints. Operations begin at each in turn, and a failed
//! attempt is repeated at the next, unless the endpoint has never answered anybody: that one is
//! asked again, until the operation fails and its error names it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feedrate_metrics::requests::{EndpointStats, RequestStats};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::endpoints::{Endpoint, Endpoints};
use crate::{
    Cause, Fetched, Listed, ObjectKey, PartPlace, PartTag, Store, StoreError, UploadId,
    UploadedPart,
};

/// How often, how long and at which distance an operation is tried again.
///
/// The wait before retry `n` (from 1) lies between the half and the whole of
/// `first_wait` × 2^(n − 1), at most `longest_wait`: waits grow, and still differ between clients.
/// A store that says when to come back (`Retry-After`) is not asked earlier. With the defaults, five
/// attempts that fail at once are over in 0.75 to 1.5 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included; 1 means no retry.
    pub attempts: u32,
    /// The longest wait before the first retry.
    pub first_wait: Duration,
    /// The longest wait before any retry.
    pub longest_wait: Duration,
    /// No attempt begins later than this after the first began. It is longer than an attempt may
    /// take, so one that hung until its own limit is still repeated.
    pub time_limit: Duration,
    /// As `time_limit`, where the last attempt could not connect, or hung and the endpoint has never
    /// answered anybody: such an endpoint is more often a wrong one than one that comes back.
    pub connect_time_limit: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(5),
            time_limit: Duration::from_secs(90),
            connect_time_limit: Duration::from_secs(4),
        }
    }
}

impl RetryPolicy {
    /// The wait before retry `retry` (from 1); `chance` in [0, 1) decides its upper half.
    fn wait(&self, retry: u32, chance: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(retry.saturating_sub(1));
        let most = self.first_wait.saturating_mul(doubled).min(self.longest_wait);
        most.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }

    /// How long after the first attempt the next one may begin, when the last ended by `cause` at an
    /// endpoint that `has_answered` before.
    fn limit(&self, cause: &Cause, has_answered: bool) -> Duration {
        match cause {
            Cause::Connect { .. } => self.connect_time_limit,
            Cause::Timeout { .. } if !has_answered => self.connect_time_limit,
            _ => self.time_limit,
        }
    }
}

/// A store whose operations are repeated by a [`RetryPolicy`], and whose reads and repeated attempts
/// are counted in [`RequestStats`].
pub struct Retrying<S> {
    endpoints: Endpoints<S>,
    policy: RetryPolicy,
    stats: Arc<RequestStats>,
    chance: Box<dyn Fn() -> f64 + Send + Sync>,
}

impl<S: fmt::Debug> fmt::Debug for Retrying<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying")
            .field("endpoints", &self.endpoints)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Retrying<S> {
    /// Repeats `store`'s operations by `policy` and counts in `stats`.
    pub fn new(store: S, policy: RetryPolicy, stats: Arc<RequestStats>) -> Self {
        Self::over([store], policy, stats)
    }

    /// As [`new`](Self::new), for one store that is reached by several endpoints: any of `stores`
    /// has the same objects.
    ///
    /// # Panics
    ///
    /// If `stores` is empty.
    pub fn over(
        stores: impl IntoIterator<Item = S>,
        policy: RetryPolicy,
        stats: Arc<RequestStats>,
    ) -> Self {
        let endpoints = Endpoints::new(stores, &stats);
        Self { endpoints, policy, stats, chance: Box::new(fastrand::f64) }
    }

    /// Takes the chance in the waits from `chance`, which yields numbers in [0, 1).
    pub fn with_chance(mut self, chance: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.chance = Box::new(chance);
        self
    }

    /// Makes `attempt`, which is given the `arguments`, at one endpoint after the other until it
    /// succeeds, which `count` counts, or may not be repeated.
    async fn repeat<A, T>(
        &self,
        mut arguments: A,
        attempt: impl for<'a> Fn(&'a S, &'a mut A) -> BoxFuture<'a, Result<T, StoreError>>,
        count: impl FnOnce(&EndpointStats, &T),
    ) -> Result<T, StoreError> {
        let mut tries = self.tries();
        loop {
            let endpoint = tries.endpoint();
            match attempt(&endpoint.store, &mut arguments).await {
                Ok(done) => {
                    endpoint.succeeded(|stats| count(stats, &done));
                    return Ok(done);
                }
                Err(error) => tries.wait_after(error).await?,
            }
        }
    }

    /// [`repeat`](Self::repeat) for a read.
    async fn read<A>(
        &self,
        arguments: A,
        attempt: impl for<'a> Fn(&'a S, &'a mut A) -> BoxFuture<'a, Result<Fetched, StoreError>>,
    ) -> Result<Fetched, StoreError> {
        let count = |stats: &EndpointStats, fetched: &Fetched| stats.get_done(fetched.bytes);
        let fetched = self.repeat(arguments, attempt, count).await?;
        self.count_read(&fetched);
        Ok(fetched)
    }

    fn count_read(&self, fetched: &Fetched) {
        self.stats.get_done(fetched.bytes, fetched.first_byte, fetched.last_byte);
    }

    fn tries(&self) -> Tries<'_, S> {
        let now = Instant::now();
        Tries {
            retrying: self,
            turn: self.endpoints.take_turn(),
            began: now,
            attempts: 0,
            stretch_began: now,
            stretch_attempts: 0,
        }
    }

    /// Lists behind `after`. A failure in the middle goes on behind the last key handed over, and
    /// with every page the policy's attempts and time begin anew: a listing of a thousand pages may
    /// meet more passing failures than a single request.
    async fn list_on(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        page: &mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> Result<(), StoreError> {
        let mut tries = self.tries();
        let mut after = after.cloned();
        loop {
            let mut last = None;
            let mut watched = |objects: Vec<Listed>| {
                last = objects.last().map(|object| object.key.clone()).or(last.take());
                page(objects);
            };
            let endpoint = tries.endpoint();
            let outcome = match &after {
                None => endpoint.store.list(prefix, &mut watched).await,
                Some(after) => endpoint.store.list_after(prefix, after, &mut watched).await,
            };
            let Err(error) = outcome else {
                endpoint.succeeded(EndpointStats::list_done);
                return Ok(());
            };
            if last.is_some() {
                after = last;
                tries.begin_stretch();
            }
            tries.wait_after(error).await?;
        }
    }
}

/// The attempts of one operation.
#[derive(Debug)]
struct Tries<'a, S> {
    retrying: &'a Retrying<S>,
    /// Whose turn the next attempt is.
    turn: usize,
    began: Instant,
    attempts: u32,
    /// When the attempts began that the policy limits: with the operation or its last progress.
    stretch_began: Instant,
    stretch_attempts: u32,
}

impl<'a, S: Store> Tries<'a, S> {
    /// Where the next attempt is made.
    fn endpoint(&self) -> &'a Endpoint<S> {
        self.retrying.endpoints.at(self.turn)
    }

    /// The operation got further: what the policy limits begins anew.
    fn begin_stretch(&mut self) {
        self.stretch_began = Instant::now();
        self.stretch_attempts = 0;
    }

    /// Waits until the next attempt may begin, or says with which error the operation ends.
    async fn wait_after(&mut self, mut error: StoreError) -> Result<(), StoreError> {
        let Retrying { policy, stats, chance, .. } = self.retrying;
        let endpoint = self.endpoint();
        let has_answered = endpoint.failed(&error);
        self.attempts += 1;
        self.stretch_attempts += 1;
        error.attempts = self.attempts;
        error.elapsed = self.began.elapsed();

        let Some(kind) = error.cause.retry_kind() else { return Err(error) };
        if self.stretch_attempts >= policy.attempts {
            return Err(error);
        }
        let mut wait = policy.wait(self.stretch_attempts, chance());
        if let Cause::Status { retry_after: Some(asked), .. } = *error.cause {
            wait = wait.max(asked);
        }
        let limit = policy.limit(&error.cause, has_answered);
        if self.stretch_began.elapsed().saturating_add(wait) > limit {
            return Err(error);
        }
        stats.retried(&kind);
        endpoint.retried();
        self.turn = self.turn.wrapping_add(usize::from(has_answered));
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

impl<S: Store> Store for Retrying<S> {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(self.read((key, range, into), |store, (key, range, into)| {
            store.get(key, range.clone(), into)
        }))
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(
            self.read((key, range), |store, (key, range)| store.get_discarding(key, range.clone())),
        )
    }

    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        Box::pin(async move {
            let reading = self.repeat(
                (key, most, into),
                |store, (key, most, into)| store.get_tail(key, *most, into),
                |stats, (fetched, _)| stats.get_done(fetched.bytes),
            );
            let (fetched, size) = reading.await?;
            self.count_read(&fetched);
            Ok((fetched, size))
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.repeat(
            (key, body),
            |store, (key, body)| store.put(key, body.clone()),
            |stats, ()| stats.put_done(),
        ))
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.repeat(key, |store, key| store.size(key), |_, _| ()))
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.repeat(key, |store, key| store.delete(key), |_, ()| ()))
    }

    fn tidy<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, ()> {
        self.endpoints.at(0).store.tidy(folder)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.list_on(prefix, None, page))
    }

    fn list_after<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a ObjectKey,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.list_on(prefix, Some(after), page))
    }

    fn begin_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        Box::pin(self.repeat(key, |store, key| store.begin_upload(key), |_, _| ()))
    }

    fn put_part<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        place: PartPlace,
        body: Bytes,
    ) -> BoxFuture<'a, Result<PartTag, StoreError>> {
        Box::pin(self.repeat(
            (key, id, body),
            move |store, (key, id, body)| store.put_part(key, id, place, body.clone()),
            |stats, _| stats.put_done(),
        ))
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        parts: &'a [UploadedPart],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let completing = self.repeat(
                (key, id, parts),
                |store, (key, id, parts)| store.complete_upload(key, id, parts),
                |_, ()| (),
            );
            let Err(error) = completing.await else { return Ok(()) };
            // Some stores forget an upload when it is complete. If the answer to that was lost, the
            // next attempt finds no upload, but the object is there.
            let is_gone = error.attempts > 1 && matches!(*error.cause, Cause::NotFound { .. });
            let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
            if is_gone && self.size(key).await.is_ok_and(|size| size == bytes) {
                return Ok(());
            }
            Err(error)
        })
    }

    fn abort_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.repeat((key, id), |store, (key, id)| store.abort_upload(key, id), |_, ()| ()))
    }

    fn abandon_upload(&self, key: &ObjectKey, id: &UploadId) {
        self.endpoints.at(self.endpoints.take_turn()).store.abandon_upload(key, id);
    }

    fn location(&self) -> String {
        self.endpoints.location()
    }
}

#[cfg(test)]
mod tests;
