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
use rustls::CertificateError;
use serde::Deserialize;

use crate::Cause;

/// The most of an error's body that is read; S3's are some hundred bytes.
const ERROR_BODY: usize = 64 * 1024;

/// Why no answer came to a request.
pub(super) fn of_request(error: &legacy::Error) -> Cause {
    if let Some(tls) = chain(error).find_map(|link| link.downcast_ref::<rustls::Error>()) {
        return Cause::Tls { reason: tls_reason(tls) };
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

/// What an answer other than success says.
pub(super) async fn of_answer(answer: Response<Incoming>) -> Cause {
    let status = answer.status();
    let retry_after = answer
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    let body = Limited::new(answer.into_body(), ERROR_BODY).collect().await;
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    // Without a readable body the status still tells the most.
    let S3Error { code, message } =
        text.ok().and_then(|text| quick_xml::de::from_str(&text).ok()).unwrap_or_default();
    match (status.as_u16(), code.as_deref()) {
        (404, Some("NoSuchBucket")) => Cause::NoSuchBucket,
        (404, _) => {
            let code = code.or_else(|| status.canonical_reason().map(str::to_owned));
            Cause::NotFound { code }
        }
        (status, _) => Cause::Status { status, code, message, retry_after },
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

/// What TLS refused, and what can be done about the usual cases.
fn tls_reason(error: &rustls::Error) -> String {
    use CertificateError::{NotValidForName, NotValidForNameContext, UnknownIssuer};
    match error {
        rustls::Error::InvalidCertificate(UnknownIssuer) => {
            "unknown issuer of the server's certificate; if it comes from an authority of your own, \
             name its PEM file with AWS_CA_BUNDLE"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            format!("{error}; use the endpoint by a name that its certificate has")
        }
        rustls::Error::InvalidMessage(_) => {
            format!("{error}; does the endpoint speak plain http?")
        }
        other => other.to_string(),
    }
}

/// The innermost link's text: "Connection refused (os error 111)".
fn reason(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

/// `error` and everything below it. An I/O error's payload is a link of its own, which `source` would
/// skip.
fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> + use<'a> {
    std::iter::successors(Some(error), |&link: &&'a (dyn Error + 'static)| {
        match link.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(payload) => Some(payload as &(dyn Error + 'static)),
            None => link.source(),
        }
    })
}
