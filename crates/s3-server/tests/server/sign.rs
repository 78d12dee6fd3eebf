//! AWS Signature Version 4 in headers, written from its description, so that the server is not
//! checked with its own code.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>

use std::fmt::Write as _;

use feedrate_s3_server::KeyPair;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

const REGION: &str = "us-east-1";

/// What is signed, besides the time.
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    /// Encoded as on the wire.
    pub(crate) path: &'a str,
    /// Names and values, not encoded.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// The value of `x-amz-content-sha256`.
    pub(crate) payload: &'a str,
}

/// `x-amz-date` and `authorization`.
pub(crate) fn sign(request: &Signed<'_>, keys: &KeyPair) -> [(&'static str, String); 2] {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let date = OffsetDateTime::now_utc().format(format).unwrap();
    let day = &date[..8];
    let Signed { method, host, path, query, payload } = request;
    let canonical = format!(
        "{method}\n{path}\n{}\nhost:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{date}\n\n\
         host;x-amz-content-sha256;x-amz-date\n{payload}",
        encode_query(query)
    );
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let secret = format!("AWS4{}", keys.secret_access_key).into_bytes();
    let key = [day, REGION, "s3", "aws4_request"]
        .iter()
        .fold(secret, |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, \
         SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
        keys.access_key_id
    );
    [("x-amz-date", date), ("authorization", authorization)]
}

/// Encoded and sorted, as it is signed and may be sent.
pub(crate) fn encode_query(query: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, false), encode(value, false)))
        .collect();
    pairs.sort();
    pairs.join("&")
}

/// Percent-encodes what is not unreserved.
pub(crate) fn encode(text: &str, keep_slashes: bool) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep_slashes && byte == b'/' {
            encoded.push(byte as char);
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
        encoded
    })
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}
