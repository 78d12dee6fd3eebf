//! What happens to one request: it is counted, judged by the fault rules, and served by the store.

use std::future::pending;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, HttpResponse, S3Error, S3ErrorCode};
use tokio::sync::Notify;

use crate::body::{ReplyBody, RequestBody, discard};
use crate::counters::{Counters, GetLog};
use crate::faults::{Answer, Faults};
use crate::keys::OnePair;
use crate::request::{RequestKind, Target};
use crate::routes::Routes;
use crate::server::Config;
use crate::store::Store;

/// Everything that the connections of a server share.
pub(crate) struct Service {
    s3: S3Service,
    faults: Faults,
    counters: Arc<Counters>,
    gets: Option<GetLog>,
}

/// Below this path the server talks about itself. `_` can be in no bucket's name.
const OWN_PATHS: &str = "/_feedrate/";

impl Service {
    /// A service on an empty store with the buckets of `config`.
    pub(crate) fn new(config: Config) -> Self {
        let store = Store::default();
        for name in &config.buckets {
            store.create_bucket(name);
        }
        let mut s3 = S3ServiceBuilder::new(Routes { store });
        s3.set_auth(OnePair::from(config.keys));
        Self {
            s3: s3.build(),
            faults: Faults::new(config.faults),
            counters: Arc::default(),
            gets: config.record_gets.then(GetLog::new),
        }
    }

    /// Answers `request`, or notifies `reset` and waits for its connection to be torn down.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        reset: &Notify,
    ) -> Result<Response<ReplyBody>, HttpError> {
        if let Some(path) = request.uri().path().strip_prefix(OWN_PATHS) {
            let answer = self.own_answer(request.method(), path);
            return Ok(answer.map(|body| ReplyBody::new(body, Arc::default(), None)));
        }

        let target = Target::of(&request);
        let in_flight = self.counters.arrived(target.kind);
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
            None => self.serve(request).await?,
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
        Ok(response.map(|body| ReplyBody::new(body, Arc::clone(&self.counters), in_flight)))
    }

    async fn serve(&self, request: Request<Incoming>) -> Result<HttpResponse, HttpError> {
        if request.body().is_end_stream() {
            return self.s3.call(request.map(|_| Body::empty())).await;
        }
        let (parts, body) = request.into_parts();
        let (body, leftover) = RequestBody::new(body, Arc::clone(&self.counters));
        let response = self.s3.call(Request::from_parts(parts, Body::http_body(body))).await;
        leftover.discard().await;
        response
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
