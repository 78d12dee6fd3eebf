//! AWS Signature Version 4, in header form
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>).
//!
//! The signing key changes once a day and is kept. Nothing here allocates for a request: what is signed
//! goes into the hash piece by piece, and the result into the head that is being written.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use ring::digest::{Context, Digest, SHA256};
use ring::hmac;

use super::S3Settings;
use crate::Credentials;

/// The SHA-256 of nothing.
pub(super) const EMPTY_SHA256: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The most fields of a head that are signed.
const MOST_FIELDS: usize = 8;

/// What of a request is signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canonical<'a> {
    pub(super) method: &'a str,
    /// Where the path lies in the head that is being written: escaped, without the query.
    pub(super) path: (usize, usize),
    /// `name=value` pairs, escaped, sorted and joined by `&`.
    pub(super) query: &'a str,
    /// The SHA-256 of the body in hexadecimal digits, or what S3 takes in its place.
    pub(super) payload: &'a str,
}

/// The fields of a head that are signed: names in lower case, values without blanks around them.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    fields: [(&'static str, &'a str); MOST_FIELDS],
    len: usize,
}

impl<'a> Fields<'a> {
    /// # Panics
    /// When there are more than [`MOST_FIELDS`].
    pub(super) fn add(&mut self, name: &'static str, value: &'a str) {
        self.fields[self.len] = (name, value);
        self.len += 1;
        self.fields[..self.len].sort_unstable();
    }

    fn iter(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        self.fields[..self.len].iter().copied()
    }
}

/// Signs with one key pair for one region.
pub(super) struct Signer {
    credentials: Credentials,
    region: String,
    now: Mutex<Option<Now>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("credentials", &self.credentials)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// A second, as requests have it.
#[derive(Clone)]
struct Now {
    second: u64,
    /// `YYYYMMDDTHHMMSSZ`
    stamp: [u8; 16],
    day: Arc<Day>,
}

impl Now {
    fn stamp(&self) -> &str {
        std::str::from_utf8(&self.stamp).expect("digits and letters")
    }

    fn date(&self) -> &str {
        &self.stamp()[..8]
    }

    fn signature(&self, request: &Canonical<'_>, path: &[u8], fields: &Fields<'_>) -> hmac::Tag {
        let mut canonical = Context::new(&SHA256);
        canonical.update(request.method.as_bytes());
        canonical.update(b"\n");
        canonical.update(path);
        let mut put = |text: &str| canonical.update(text.as_bytes());
        for text in ["\n", request.query, "\n"] {
            put(text);
        }
        for (name, value) in fields.iter() {
            for text in [name, ":", value, "\n"] {
                put(text);
            }
        }
        put("\n");
        names(fields, &mut put);
        put("\n");
        put(request.payload);
        let canonical: Digest = canonical.finish();

        let mut signature = hmac::Context::with_key(&self.day.key);
        for text in [
            "AWS4-HMAC-SHA256\n",
            self.stamp(),
            "\n",
            &self.day.scope,
            "\n",
            Hex::of(canonical.as_ref()).as_str(),
        ] {
            signature.update(text.as_bytes());
        }
        signature.sign()
    }
}

/// What stays the same for a day.
struct Day {
    /// `YYYYMMDD/region/s3/aws4_request`
    scope: String,
    key: hmac::Key,
}

impl Signer {
    pub(super) fn new(settings: &S3Settings) -> Self {
        Self {
            credentials: settings.credentials.clone(),
            region: settings.region.clone(),
            now: Mutex::new(None),
        }
    }

    /// Appends `fields`, those that say when and by whom, and the signature of all of them, each with
    /// its end of line.
    pub(super) fn sign<'a>(
        &'a self,
        head: &mut Vec<u8>,
        request: &Canonical<'_>,
        fields: Fields<'a>,
    ) {
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.sign_at(&self.at(second), head, request, fields);
    }

    fn sign_at(&self, now: &Now, head: &mut Vec<u8>, request: &Canonical<'_>, fields: Fields<'_>) {
        let mut fields = fields;
        fields.add("x-amz-content-sha256", request.payload);
        fields.add("x-amz-date", now.stamp());
        if let Some(token) = self.credentials.session_token() {
            fields.add("x-amz-security-token", token);
        }
        let (begin, end) = request.path;
        let signature = now.signature(request, &head[begin..end], &fields);

        let mut put = |text: &str| head.extend_from_slice(text.as_bytes());
        for (name, value) in fields.iter() {
            for text in [name, ": ", value, "\r\n"] {
                put(text);
            }
        }
        let id = self.credentials.access_key_id();
        for text in [
            "authorization: AWS4-HMAC-SHA256 Credential=",
            id,
            "/",
            &now.day.scope,
            ", SignedHeaders=",
        ] {
            put(text);
        }
        names(&fields, &mut put);
        put(", Signature=");
        put(Hex::of(signature.as_ref()).as_str());
        put("\r\n");
    }

    /// The second with this number since 1970.
    fn at(&self, second: u64) -> Now {
        let mut last = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(now) if now.second == second => now.clone(),
            before => {
                let now = self.begin(second, before.as_ref());
                *last = Some(now.clone());
                now
            }
        }
    }

    fn begin(&self, second: u64, before: Option<&Now>) -> Now {
        let time = Timestamp::from_second(second.cast_signed()).unwrap_or(Timestamp::MAX);
        let mut stamp = [b'0'; 16];
        let text = time.strftime("%Y%m%dT%H%M%SZ").to_string();
        stamp.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        let date = &text[..8];
        let day = match before {
            Some(before) if before.date() == date => Arc::clone(&before.day),
            _ => Arc::new(self.day(date)),
        };
        Now { second, stamp, day }
    }

    fn day(&self, date: &str) -> Day {
        let secret = format!("AWS4{}", self.credentials.secret_access_key());
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        for part in [date, &self.region, "s3", "aws4_request"] {
            let derived = hmac::sign(&key, part.as_bytes());
            key = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        }
        Day { scope: format!("{date}/{}/s3/aws4_request", self.region), key }
    }
}

/// The names of the fields, joined by `;`.
fn names(fields: &Fields<'_>, put: &mut impl FnMut(&str)) {
    for (place, (name, _)) in fields.iter().enumerate() {
        if place > 0 {
            put(";");
        }
        put(name);
    }
}

/// Thirty-two bytes as hexadecimal digits.
pub(super) struct Hex([u8; 64]);

impl Hex {
    pub(super) fn of(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [b'0'; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(hex)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the examples in AWS's documentation.
    fn signer(token: Option<&str>) -> Signer {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let token = token.map(str::to_owned);
        let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, token, "a test");
        let settings = S3Settings::new(None, "examplebucket", credentials);
        Signer::new(&settings)
    }

    /// Friday, 24 May 2013, 00:00:00 GMT
    const EXAMPLE: u64 = 1_369_353_600;

    fn signed(
        signer: &Signer,
        (path, query, payload): (&str, &str, &str),
        more: &[(&'static str, &str)],
    ) -> String {
        let mut fields = Fields::default();
        fields.add("host", "examplebucket.s3.amazonaws.com");
        for (name, value) in more {
            fields.add(name, value);
        }
        let mut head = path.as_bytes().to_vec();
        let request = Canonical { method: "GET", path: (0, path.len()), query, payload };
        signer.sign_at(&signer.at(EXAMPLE), &mut head, &request, fields);
        String::from_utf8(head.split_off(path.len())).unwrap()
    }

    /// "Signature Calculations for the Authorization Header", GET Object, in the S3 API reference.
    #[test]
    fn the_example_of_a_get_of_a_range_has_its_published_signature() {
        let request = ("/test.txt", "", EMPTY_SHA256);
        let head = signed(&signer(None), request, &[("range", "bytes=0-9")]);
        assert_eq!(
            head,
            "host: examplebucket.s3.amazonaws.com\r\n\
             range: bytes=0-9\r\n\
             x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n\
             x-amz-date: 20130524T000000Z\r\n\
             authorization: AWS4-HMAC-SHA256 \
             Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n"
        );
    }

    /// The same source, GET Bucket (List Objects).
    #[test]
    fn the_example_of_a_listing_has_its_published_signature() {
        let request = ("/", "max-keys=2&prefix=J", EMPTY_SHA256);
        let head = signed(&signer(None), request, &[]);
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(head.ends_with(&format!("Signature={signature}\r\n")), "{head}");
    }

    #[test]
    fn a_session_token_is_sent_and_signed() {
        let request = ("/x", "", "UNSIGNED-PAYLOAD");
        let with = signed(&signer(Some("token")), request, &[]);
        assert!(with.contains("x-amz-security-token: token\r\n"), "{with}");
        assert!(with.contains(";x-amz-date;x-amz-security-token, "), "{with}");
        let without = signed(&signer(None), request, &[]);
        assert_ne!(with.split("Signature=").last(), without.split("Signature=").last());
    }

    #[test]
    fn another_second_has_the_same_key_and_another_day_another() {
        let signer = signer(None);
        let (first, second) = (signer.at(EXAMPLE), signer.at(EXAMPLE + 86_399));
        assert_eq!((first.stamp(), second.stamp()), ("20130524T000000Z", "20130524T235959Z"));
        assert!(Arc::ptr_eq(&first.day, &second.day));
        let third = signer.at(EXAMPLE + 86_400);
        assert_eq!(third.day.scope, "20130525/us-east-1/s3/aws4_request");
        // A clock that is set back is no reason to sign with the wrong day's key.
        assert_eq!(signer.at(EXAMPLE).day.scope, "20130524/us-east-1/s3/aws4_request");
    }

    #[test]
    fn debug_output_does_not_hold_the_secret() {
        assert!(!format!("{:?}", signer(Some("token"))).contains("wJalr"));
    }
}
