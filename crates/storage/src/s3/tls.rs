//! Whom to trust.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::OpenError;

/// The TLS client that trusts the authorities in the PEM file `ca_bundle`, or else those of the
/// machine (the file or folder that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or the system's). The
/// machine's are loaded only where `is_https` says that they will be used; a bundle is always checked.
pub(super) fn client_config(
    ca_bundle: Option<&Path>,
    is_https: bool,
) -> Result<ClientConfig, OpenError> {
    let authorities = match ca_bundle {
        Some(path) => bundle(path)?,
        None if is_https => of_the_machine()?,
        None => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Client { reason: error.to_string() })?;
    Ok(config.with_root_certificates(authorities).with_no_client_auth())
}

fn bundle(path: &Path) -> Result<RootCertStore, OpenError> {
    let wrong = |problem: String| OpenError::CaBundle { path: path.to_owned(), problem };
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        authorities.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if authorities.is_empty() {
        return Err(wrong("it holds no certificate in PEM format".to_owned()));
    }
    Ok(authorities)
}

fn of_the_machine() -> Result<RootCertStore, OpenError> {
    let found = rustls_native_certs::load_native_certs();
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        let problem = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(OpenError::NoAuthorities { problem });
    }
    Ok(authorities)
}
