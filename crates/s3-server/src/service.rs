//! What happens to one request: it is counted, judged by the fault rules, and served by the store.

use std::future::pending;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, HttpResponse, S3Error, S3ErrorCode};
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::access_log::{AccessLog, Entry};
use crate::body::{OnSent, ReplyBody, RequestBody, discard};
use crate::config::{Options, Storage};
use crate::counters::{Counters, GetLog};
use crate::domains::Domains;
use crate::faults::{Answer, Faults};
use crate::keys::{Accounts, AccountsProblem};
use crate::request::{RequestKind, Target, bucket_in_host};
use crate::routes::Routes;
use crate::server::StartError;
use crate::store::{DirectoryStore, MemoryStore, Store, StoreError};

/// Everything that the connections of a server share.
pub(crate) struct Service {
    s3: S3Service,
    domains: Domains,
    faults: Faults,
    counters: Arc<Counters>,
    gets: Option<GetLog>,
    log: Option<AccessLog>,
}

/// From here on, the body of an answer waits until the thread has worked on all other requests that have
/// arrived. Copying it into the socket drives everything else out of the core's caches; so those requests
/// are worked on while code and data are still there, and then the bodies are sent one behind the other.
const LARGE_BODY_BYTES: u64 = 64 << 10;

/// Below this path the server talks about itself. `_` can be in no bucket's name.
const OWN_PATHS: &str = "/_feedrate/";

impl Service {
    /// A service on the store of `options`, with the buckets that it is to have. What cannot be served
    /// is found here, before anything listens.
    pub(crate) async fn new(options: Options) -> Result<Self, StartError> {
        if let Some(name) = options.domains.iter().find(|name| !Domains::is_valid(name)) {
            return Err(StartError::Domain { name: name.clone() });
        }
        let domains = Domains::new(options.domains);
        let accounts = Accounts::new(options.accounts).map_err(|problem| match problem {
            AccountsProblem::None | AccountsProblem::Unusable => StartError::Keys,
            AccountsProblem::Twice(access_key_id) => StartError::KeyTwice { access_key_id },
        })?;
        let mut s3 = match options.storage {
            Storage::Memory { limit } => {
                with_buckets(MemoryStore::new(limit), options.buckets).await?
            }
            Storage::Directory(path) => {
                let store = DirectoryStore::open(&path)
                    .map_err(|source| StartError::Directory { path, source })?;
                with_buckets(store, options.buckets).await?
            }
        };
        s3.set_auth(accounts.clone());
        s3.set_access(accounts);
        s3.set_host(domains.clone());
        Ok(Self {
            s3: s3.build(),
            domains,
            faults: Faults::new(options.faults),
            counters: Arc::default(),
            gets: options.record_gets.then(GetLog::new),
            log: options.access_log.map(AccessLog::open).transpose()?,
        })
    }

    /// Answers `request`, or notifies `reset` and waits for its connection to be torn down.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        reset: &Notify,
    ) -> Result<Response<ReplyBody>, HttpError> {
        if let Some(path) = request.uri().path().strip_prefix(OWN_PATHS)
            && bucket_in_host(&request, &self.domains).is_none()
        {
            let answer = self.own_answer(request.method(), path);
            return Ok(answer.map(|body| ReplyBody::new(body, Arc::default(), OnSent::default())));
        }

        let target = Target::of(&request, &self.domains);
        let in_flight = self.counters.arrived(target.kind);
        let mut entry = self.log.as_ref().map(|log| log.entry(&request, &target));
        if target.kind == RequestKind::Get
            && let Some(gets) = &self.gets
        {
            gets.record(&target);
        }

        let injected = self.faults.judge(&target);
        if !injected.delay.is_zero() {
            tokio::time::sleep(injected.delay).await;
        }
        let response = match injected.answer {
            None => self.serve(request, entry.as_ref()).await?,
            Some(Answer::Status { status, code }) => {
                discard(request.into_body()).await;
                error_response(status, &code)?
            }
            Some(Answer::Reset) => {
                self.counters.failed();
                reset.notify_one();
                pending().await
            }
        };
        if response.status().as_u16() >= 400 {
            self.counters.failed();
        }
        if let Some(entry) = &mut entry {
            entry.answered(response.status());
        }
        if response.body().size_hint().lower() >= LARGE_BODY_BYTES {
            yield_now().await;
        }
        let on_sent = OnSent { in_flight, entry };
        Ok(response.map(|body| ReplyBody::new(body, Arc::clone(&self.counters), on_sent)))
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        entry: Option<&Entry>,
    ) -> Result<HttpResponse, HttpError> {
        if request.body().is_end_stream() {
            return self.s3.call(request.map(|_| Body::empty())).await;
        }
        let (parts, body) = request.into_parts();
        let received = entry.map(Entry::received);
        let (body, leftover) = RequestBody::new(body, Arc::clone(&self.counters), received);
        let response = self.s3.call(Request::from_parts(parts, Body::http_body(body))).await;
        leftover.discard().await;
        response
    }

    /// The access log, to be closed when the last connection is gone.
    pub(crate) fn into_log(self) -> Option<AccessLog> {
        self.log
    }

    fn own_answer(&self, method: &Method, path: &str) -> HttpResponse {
        match (method, path) {
            (&Method::GET, "status") => json(serde_json::to_vec(&self.counters.status())),
            (&Method::POST, "reset") => {
                self.counters.reset();
                if let Some(gets) = &self.gets {
                    gets.reset();
                }
                text(StatusCode::NO_CONTENT, "")
            }
            (&Method::GET, "gets") => match &self.gets {
                Some(gets) => json(gets.to_json()),
                None => text(StatusCode::NOT_FOUND, "GETs are not recorded by this server\n"),
            },
            _ => text(
                StatusCode::NOT_FOUND,
                "there are GET /_feedrate/status, POST /_feedrate/reset, GET /_feedrate/gets\n",
            ),
        }
    }
}

/// The operations on `store`, in which the `buckets` exist from now on.
async fn with_buckets(
    store: impl Store,
    buckets: Vec<String>,
) -> Result<S3ServiceBuilder, StartError> {
    for name in buckets {
        if !s3s::path::check_bucket_name(&name) {
            return Err(StartError::BucketName { name });
        }
        match store.create_bucket(&name).await {
            Ok(()) | Err(StoreError::BucketExists) => {}
            Err(error) => return Err(StartError::Bucket { name, reason: error.to_string() }),
        }
    }
    Ok(S3ServiceBuilder::new(Routes::new(store)))
}

/// An S3 error in XML, as a store sends it.
fn error_response(status: StatusCode, code: &str) -> Result<HttpResponse, HttpError> {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, "injected by a fault rule of this server");
    error.set_status_code(status);
    error.to_http_response().map_err(|error| HttpError::new(Box::new(error)))
}

fn json(body: serde_json::Result<Vec<u8>>) -> HttpResponse {
    match body {
        Ok(body) => {
            let mut response = Response::new(Body::from(body));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn text(status: StatusCode, body: &str) -> HttpResponse {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = status;
    response
}
