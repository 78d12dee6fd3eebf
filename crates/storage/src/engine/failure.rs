//! What a failed connection means: by the types of the errors, never by their text.

use std::error::Error;
use std::io;

use rustls::CertificateError;

use crate::Cause;

/// Why an open connection is of no use any more.
pub(crate) fn of_connection(error: &io::Error) -> Cause {
    of_tls(error).unwrap_or_else(|| Cause::Reset { reason: reason(error) })
}

/// What TLS refused, if it was TLS.
pub(crate) fn of_tls(error: &(dyn Error + 'static)) -> Option<Cause> {
    let tls = chain(error).find_map(|link| link.downcast_ref::<rustls::Error>())?;
    Some(Cause::Tls { reason: tls_reason(tls) })
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
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

/// `error` and everything below it. An I/O error's payload is a link of its own, which `source` would
/// skip.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> + use<'a> {
    std::iter::successors(Some(error), |&link: &&'a (dyn Error + 'static)| {
        match link.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(payload) => Some(payload as &(dyn Error + 'static)),
            None => link.source(),
        }
    })
}
