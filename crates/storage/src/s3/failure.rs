//! What a failed request means.
//!
//! Failures are understood where they happen, as a [`Cause`], by the types of the errors and never by
//! their text.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Limited};
use hyper::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use serde::Deserialize;

use crate::Cause;
use crate::engine::Answer;
use crate::engine::failure::{chain, of_tls, reason};

/// The most of an error's body that is read; S3's are some hundred bytes.
const ERROR_BODY: usize = 64 * 1024;

/// Why no answer came to a request.
pub(super) fn of_request(error: &legacy::Error) -> Cause {
    if let Some(tls) = of_tls(error) {
        return tls;
    }
    if error.is_connect() {
        return Cause::Connect { reason: reason(error) };
    }
    match chain(error).find_map(|link| link.downcast_ref::<hyper::Error>()) {
        Some(hyper) if hyper.is_parse() => {
            Cause::Other(format!("the answer is not HTTP ({hyper}); is this an S3 endpoint?"))
        }
        _ => Cause::Reset { reason: reason(error) },
    }
}

/// Why a body, of which so much was `expected` if anybody said so, ended after `received` bytes.
pub(super) fn of_body(error: &hyper::Error, expected: Option<u64>, received: u64) -> Cause {
    let ended = |link: &(dyn Error + 'static)| {
        let io = link.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof)
    };
    if chain(error).any(ended) {
        Cause::Truncated { expected, received }
    } else {
        Cause::Reset { reason: reason(error) }
    }
}

/// What an answer of `object_store`'s client other than success says.
pub(super) async fn of_foreign_answer(answer: Response<Incoming>) -> Cause {
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(seconds);
    let body = Limited::new(answer.into_body(), ERROR_BODY).collect().await;
    // Without a readable body the status still tells the most.
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    of_status(status, retry_after, &body)
}

/// What an answer other than success says.
pub(super) async fn of_answer(mut answer: Answer) -> Cause {
    let status = answer.status();
    let retry_after = answer.field("retry-after").and_then(seconds);
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.piece().await
        && body.len() + piece.len() <= ERROR_BODY
    {
        body.extend_from_slice(piece);
    }
    of_status(status, retry_after, &body)
}

fn seconds(retry_after: &str) -> Option<Duration> {
    retry_after.trim().parse().ok().map(Duration::from_secs)
}

fn of_status(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Cause {
    let text = String::from_utf8_lossy(body);
    let S3Error { code, message } = quick_xml::de::from_str(&text).unwrap_or_default();
    match (status, code.as_deref()) {
        (404, Some("NoSuchBucket")) => Cause::NoSuchBucket,
        (404, _) => Cause::NotFound { code: code.or_else(|| Some("Not Found".to_owned())) },
        _ => Cause::Status { status, code, message, retry_after },
    }
}

/// The body of S3's error answers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct S3Error {
    code: Option<String>,
    message: Option<String>,
}

impl S3Error {
    /// What it means in the body of an answer whose status, a 200, came before the outcome was known:
    /// what it would have meant with the status that its code has.
    pub(super) fn behind_a_200(self) -> Cause {
        let status = match self.code.as_deref() {
            Some("InternalError") => 500,
            Some("SlowDown" | "ServiceUnavailable") => 503,
            _ => 200,
        };
        let note = "(in the body of a 200)";
        let message = match self.message {
            Some(message) => format!("{message} {note}"),
            None => note.to_owned(),
        };
        Cause::Status { status, code: self.code, message: Some(message), retry_after: None }
    }
}
