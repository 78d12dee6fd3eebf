//! https with an authority of one's own.

use std::io::Write;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

use super::*;

with_both_engines! {
    a_private_authority_is_trusted_when_its_file_is_named,
    an_unknown_issuer_is_said_once_and_with_the_way_out,
    a_name_that_the_certificate_lacks_is_said,
    https_to_a_plain_server_is_a_tls_failure_that_asks_the_question,
}

/// The PEM file of a new authority, and a server that has its certificate for `localhost`.
pub(super) fn authority() -> (NamedTempFile, TlsAcceptor) {
    authority_called("Feedrate's test authority")
}

fn authority_called(name: &str) -> (NamedTempFile, TlsAcceptor) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();

    let mut file = NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (file, TlsAcceptor::from(Arc::new(config)))
}

fn store(engine: GetEngine, url: &str, ca: &NamedTempFile) -> S3Store {
    let ca_bundle = Some(ca.path().to_owned());
    S3Store::new(S3Settings { ca_bundle, get_engine: engine, ..settings(url) }).unwrap()
}

async fn a_private_authority_is_trusted_when_its_file_is_named(engine: GetEngine) {
    let (ca, acceptor) = authority();
    let server = Server::play_over(Some(acceptor), [Reply::ok("body")]).await;
    let store = store(engine, &format!("https://localhost:{}", server.port), &ca);
    assert_eq!(get(&store).await.unwrap().1, b"body");
}

async fn an_unknown_issuer_is_said_once_and_with_the_way_out(engine: GetEngine) {
    let (_, acceptor) = authority();
    let (other_ca, _) = authority_called("another authority");
    let server = Server::play_over(Some(acceptor), [Reply::ok("body")]).await;
    let store = store(engine, &format!("https://localhost:{}", server.port), &other_ca);
    let (store, stats) = retrying(store);
    let error = get(&store).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Tls { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["https://localhost", "after 1 attempt ", "unknown issuer", "AWS_CA_BUNDLE"] {
        assert_eq!(text.matches(part).count(), 1, "`{part}` is to be said once in: {text}");
    }
    assert_eq!(stats.summary().retries_total(), 0);
    assert!(server.seen().is_empty());
}

async fn a_name_that_the_certificate_lacks_is_said(engine: GetEngine) {
    let (ca, acceptor) = authority();
    let server = Server::play_over(Some(acceptor), [Reply::ok("body")]).await;
    let store = store(engine, &format!("https://127.0.0.1:{}", server.port), &ca);
    let text = get(&store).await.unwrap_err().to_string();
    assert!(text.contains("TLS failed"), "{text}");
    assert!(text.contains("not valid for name"), "{text}");
    assert!(text.contains("localhost"), "{text}");
}

async fn https_to_a_plain_server_is_a_tls_failure_that_asks_the_question(engine: GetEngine) {
    let (ca, _) = authority();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let error = get(&store(engine, &format!("https://localhost:{port}"), &ca)).await.unwrap_err();
    assert!(matches!(*error.cause, Cause::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("does the endpoint speak plain http?"), "{error}");
}
