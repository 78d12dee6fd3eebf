//! A bucket of an S3 store.
//!
//! Requests are made here, of keys as they are, odd ones included (`s3://bucket/data/x` is one that
//! other tools write). The [`transport`] signs them ([`sign`]), sends them over the connections of an
//! HTTP/1.1 client of our own ([`engine`](crate::engine)), and turns every error status into a [`Cause`]
//! ([`failure`]). The pages of a listing ([`listing`]) and uploads in parts ([`multipart`])
//! have modules of their own. GETs can go through another library's client instead, for comparison
//! ([`reference`](mod@reference)).
//!
//! One [`Store`] call is one request and nothing else: no HEAD that nobody asked for, no look-up of
//! the bucket, no metadata address. (A listing is one request for each 1,000 keys.)

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::engine::Answer;
use crate::key::folder;
use crate::{
    Cause, Fetched, Listed, ObjectKey, Operation, PartPlace, PartTag, Store, StoreError, UploadId,
    UploadedPart,
};
use reference::Reference;
use transport::{BodyCheck, Part, Request, Transport};

pub use settings::{GetEngine, OpenError, S3Settings};

mod connect;
mod failure;
mod listing;
mod multipart;
mod reference;
mod settings;
mod sign;
mod tls;
mod transport;

/// The status of an answer that holds a range.
const PARTIAL_CONTENT: u16 = 206;

/// One bucket, seen through one pool of connections, which live on the tokio runtime that its
/// operations run on.
#[derive(Debug)]
pub struct S3Store {
    transport: Transport,
    /// What GETs go through instead, if the settings say so.
    reference: Option<Reference>,
    endpoint: String,
    location: String,
    settings: S3Settings,
}

impl S3Store {
    /// Checks `settings` and makes the client. The only I/O is reading certificate authorities,
    /// those of the machine only for an `https` endpoint; no connection is made.
    ///
    /// # Errors
    ///
    /// Names the setting that cannot be right, and why.
    pub fn new(settings: S3Settings) -> Result<Self, OpenError> {
        let endpoint = settings.check()?;
        let tls = tls::client_config(settings.ca_bundle.as_deref(), endpoint.is_https)?;
        let reference = match settings.get_engine {
            GetEngine::Feedrate => None,
            GetEngine::ObjectStore => Some(Reference::new(&settings, &endpoint, tls.clone())?),
        };
        Ok(Self {
            reference,
            transport: Transport::new(&settings, &endpoint, tls)?,
            location: format!("s3://{} at {}", settings.bucket, endpoint.shown),
            endpoint: endpoint.shown,
            settings,
        })
    }

    /// Runs one attempt within the time it may take, and says what its failure means.
    async fn attempt<T>(
        &self,
        operation: Operation,
        target: &str,
        attempt: impl Future<Output = Result<T, Cause>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let limit = match operation {
            // A store may have to put an object's parts together before it answers.
            Operation::Get | Operation::Put | Operation::PutPart | Operation::CompleteUpload => {
                self.settings.attempt_timeout
            }
            Operation::Head
            | Operation::List
            | Operation::Delete
            | Operation::BeginUpload
            | Operation::AbortUpload => self.settings.list_timeout,
        };
        let outcome = tokio::time::timeout(limit, attempt).await;
        outcome.unwrap_or(Err(Cause::Timeout { limit })).map_err(|cause| {
            let cause = self.naming_the_key(cause);
            StoreError::of_attempt(operation, target, self.location.clone(), began, cause)
        })
    }

    /// Adds to a refusal which key signed the request and where that key came from.
    fn naming_the_key(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Status { status: status @ (401 | 403), code, message, retry_after } => {
                let signed = format!("signed with {}", self.settings.credentials);
                let message = Some(match message {
                    Some(message) => format!("{message} ({signed})"),
                    None => signed,
                });
                Cause::Status { status, code, message, retry_after }
            }
            other => other,
        }
    }

    /// A request without a body for the object of `key`.
    fn request<'a>(method: &'static str, key: &'a ObjectKey) -> Result<Request<'a>, Cause> {
        check_addressable(key)?;
        Ok(Request::new(method, Some(key), ""))
    }

    /// Appends the body to `into`, or counts its bytes and lets them go.
    async fn read(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
        into: Option<&mut Vec<u8>>,
    ) -> Result<Fetched, Cause> {
        if let Some(reference) = &self.reference {
            return reference.read(key, range, into).await;
        }
        let part = match range.clone() {
            Some(range) if range.is_empty() => {
                return Err(Cause::Other(format!("the range {range:?} is empty")));
            }
            Some(range) => Part::Range(range),
            None => Part::Whole,
        };
        let answer = self.ask(key, part).await?;
        if let Some(range) = &range {
            check_range(&answer, range)?;
        }
        let expected = range.map(|range| range.end - range.start);
        receive(answer, expected, into).await
    }

    /// Asks for the object, or a part of it.
    async fn ask(&self, key: &ObjectKey, part: Part) -> Result<Answer, Cause> {
        let request = Request { part, ..Self::request("GET", key)? };
        self.transport.send(&request).await
    }

    /// Appends the last `most` bytes to `into`, and tells the object's size.
    async fn read_tail(
        &self,
        key: &ObjectKey,
        most: u64,
        into: &mut Vec<u8>,
    ) -> Result<(Fetched, u64), Cause> {
        if most == 0 {
            // No range is that short.
            let asked = Instant::now();
            let size = self.head(key).await?;
            return Ok((Fetched::nothing(asked.elapsed()), size));
        }
        if let Some(reference) = &self.reference {
            return reference.read_tail(key, most, into).await;
        }
        let answer = match self.ask(key, Part::Tail(most)).await {
            // Nothing is a tail of an empty object, and to some servers of one that is shorter. As
            // a whole it is no longer than what is wanted.
            Err(Cause::Status { status: 416, .. }) => self.ask(key, Part::Whole).await?,
            other => other?,
        };
        let (expected, size) = check_tail(&answer, most)?;
        let fetched = receive(answer, expected, Some(into)).await?;
        Ok((fetched, size.unwrap_or(fetched.bytes)))
    }

    async fn write(&self, key: &ObjectKey, body: Bytes) -> Result<(), Cause> {
        let check = BodyCheck::of(&body, self.settings.sign_payload);
        let request = Self::request("PUT", key)?.with_body(body, check);
        // An answer that is read to its end leaves its connection to the next request.
        self.transport.send(&request).await?.body().await?;
        Ok(())
    }

    async fn head(&self, key: &ObjectKey) -> Result<u64, Cause> {
        let answer = self.transport.send(&Self::request("HEAD", key)?).await?;
        let promised = answer.promised();
        answer.body().await?;
        promised
            .ok_or_else(|| Cause::Other("the answer does not say the object's length".to_owned()))
    }

    async fn remove(&self, key: &ObjectKey) -> Result<(), Cause> {
        match self.transport.send(&Self::request("DELETE", key)?).await {
            Ok(answer) => answer.body().await.map(drop),
            // S3 calls it a success; not every store does.
            Err(Cause::NotFound { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn pages(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        page: &mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> Result<(), StoreError> {
        let folder = folder(prefix);
        let mut token = None;
        loop {
            let request = listing::Ask {
                folder: &folder,
                after: after.map(ObjectKey::as_str),
                token: token.as_deref(),
            };
            let request = request.send(&self.transport);
            let listed = self.attempt(Operation::List, prefix, request).await?;
            if !listed.objects.is_empty() {
                page(listed.objects);
            }
            token = listed.next;
            if token.is_none() {
                return Ok(());
            }
        }
    }
}

impl Store for S3Store {
    fn get<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(async move {
            let before = into.len();
            let reading = self.read(key, range, Some(&mut *into));
            let outcome = self.attempt(Operation::Get, key.as_str(), reading).await;
            if outcome.is_err() {
                into.truncate(before);
            }
            outcome
        })
    }

    fn get_discarding<'a>(
        &'a self,
        key: &'a ObjectKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let reading = self.read(key, range, None);
        Box::pin(self.attempt(Operation::Get, key.as_str(), reading))
    }

    fn get_tail<'a>(
        &'a self,
        key: &'a ObjectKey,
        most: u64,
        into: &'a mut Vec<u8>,
    ) -> BoxFuture<'a, Result<(Fetched, u64), StoreError>> {
        Box::pin(async move {
            let before = into.len();
            let reading = self.read_tail(key, most, &mut *into);
            let outcome = self.attempt(Operation::Get, key.as_str(), reading).await;
            if outcome.is_err() {
                into.truncate(before);
            }
            outcome
        })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, body: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.attempt(Operation::Put, key.as_str(), self.write(key, body)))
    }

    fn size<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.attempt(Operation::Head, key.as_str(), self.head(key)))
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.attempt(Operation::Delete, key.as_str(), self.remove(key)))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.pages(prefix, None, page))
    }

    fn list_after<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a ObjectKey,
        page: &'a mut (dyn FnMut(Vec<Listed>) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.pages(prefix, Some(after), page))
    }

    fn begin_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<UploadId, StoreError>> {
        Box::pin(self.attempt(Operation::BeginUpload, key.as_str(), self.begin(key)))
    }

    fn put_part<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        place: PartPlace,
        body: Bytes,
    ) -> BoxFuture<'a, Result<PartTag, StoreError>> {
        Box::pin(async move {
            let writing = self.write_part(key, id, place.number, body);
            self.attempt(Operation::PutPart, &place.target(key, id), writing).await
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
        parts: &'a [UploadedPart],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let completing = self.complete(key, id, parts);
            self.attempt(Operation::CompleteUpload, &id.target(key), completing).await
        })
    }

    fn abort_upload<'a>(
        &'a self,
        key: &'a ObjectKey,
        id: &'a UploadId,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let aborting = self.abort(key, id);
            self.attempt(Operation::AbortUpload, &id.target(key), aborting).await
        })
    }

    fn abandon_upload(&self, key: &ObjectKey, id: &UploadId) {
        self.abort_later(key, id);
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn endpoint(&self) -> Option<&str> {
        Some(&self.endpoint)
    }
}

/// Refuses keys that a URL does not carry unharmed: on the way, parts `.` and `..` are resolved and
/// control characters dropped. A slash at the end makes a directory marker, which no listing tells.
/// Empty parts stay as they are.
fn check_addressable(key: &ObjectKey) -> Result<(), Cause> {
    let key = key.as_str();
    let bad_part = key.split('/').any(|part| matches!(part, "." | ".."));
    if key.is_empty() || bad_part || key.ends_with('/') || key.chars().any(char::is_control) {
        return Err(Cause::Other(
            "the key is empty, has a part `.` or `..` or a control character, or ends in `/`; such \
             keys cannot be addressed"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Receives a body that is to have `expected` bytes, or as many as it promises.
async fn receive(
    mut answer: Answer,
    expected: Option<u64>,
    into: Option<&mut Vec<u8>>,
) -> Result<Fetched, Cause> {
    let promised = answer.promised();
    if let (Some(expected), Some(promised)) = (expected, promised)
        && expected < promised
    {
        let problem = format!("it promises {promised} bytes for a range of {expected}");
        return Err(Cause::protocol(problem));
    }
    match into {
        None => while answer.piece().await?.is_some() {},
        Some(into) => {
            reserve(into, promised.unwrap_or_default())?;
            answer.land(into).await?;
        }
    }
    let (received, last_byte) = (answer.received(), answer.elapsed());
    let expected = expected.or(promised);
    if expected.is_some_and(|expected| expected != received) {
        return Err(Cause::Truncated { expected, received });
    }
    let first_byte = answer.first_byte().unwrap_or(last_byte);
    Ok(Fetched { bytes: received, first_byte, last_byte })
}

/// Makes room for `bytes` bytes more, and for one that should not come.
fn reserve(into: &mut Vec<u8>, bytes: u64) -> Result<(), Cause> {
    let room = (into.capacity() - into.len()) as u64;
    if room >= bytes {
        return Ok(());
    }
    into.try_reserve_exact(bytes.saturating_add(1) as usize)
        .map_err(|error| Cause::Other(format!("no memory for {bytes} bytes: {error}")))
}

/// Makes sure that an answer holds what was asked for and not, say, the whole object.
fn check_range(answer: &Answer, range: &Range<u64>) -> Result<(), Cause> {
    let begins = content_range(answer).map(|(first, ..)| first);
    if answer.status() == PARTIAL_CONTENT && begins == Some(range.start) {
        return Ok(());
    }
    Err(Cause::Other(format!("the store did not answer with the range {range:?} of the object")))
}

/// Makes sure that an answer holds the last `most` bytes of an object, or all of a shorter one: how many
/// it holds and how many there are, unless it is the object as a whole.
fn check_tail(answer: &Answer, most: u64) -> Result<(Option<u64>, Option<u64>), Cause> {
    if answer.status() == PARTIAL_CONTENT {
        if let Some((first, last, Some(size))) = content_range(answer)
            && first == size.saturating_sub(most)
            && last.checked_add(1) == Some(size)
        {
            return Ok((Some(size - first), Some(size)));
        }
    } else if answer.promised().is_some_and(|promised| promised <= most) {
        return Ok((None, None));
    }
    Err(Cause::Other(format!("the store did not answer with the last {most} bytes of the object")))
}

/// First and last byte of the range that an answer holds, and the object's size if it tells.
fn content_range(answer: &Answer) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = answer.field("content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()))
}

#[cfg(test)]
mod tests;
