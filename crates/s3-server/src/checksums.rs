//! The checksums that clients send with what they write, and may ask for when they read.
//!
//! `s3s` parses them and verifies none, so all of it is here: computing those that a request
//! announces while its body arrives, comparing, keeping, and putting together the checksum of an
//! object that is written in parts.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html>

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::{CrcAlgorithm, checksum_combine};
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::store::bad_request;

/// A kind of checksum that S3 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// What a checksum is computed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Coverage {
    /// Of the bytes of the object.
    FullObject,
    /// Of the checksums of its parts.
    Composite,
}

/// A checksum of an object or a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) coverage: Coverage,
    /// In Base64, as it is sent; a composite one has `-` and the number of parts behind it.
    pub(crate) value: String,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] =
        [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// How requests name it in `x-amz-checksum-algorithm`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The one that is named so, in whatever case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// The CRC whose values can be combined without the bytes; `None` for the cryptographic ones.
    fn combinable(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }

    /// What S3 computes for an object in parts when the client does not say.
    pub(crate) fn default_coverage(self) -> Coverage {
        match self {
            Self::Crc64Nvme => Coverage::FullObject,
            _ => Coverage::Composite,
        }
    }

    /// Whether S3 has this coverage for objects in parts.
    pub(crate) fn has(self, coverage: Coverage) -> bool {
        match coverage {
            Coverage::FullObject => self.combinable().is_some(),
            Coverage::Composite => self != Self::Crc64Nvme,
        }
    }

    /// Adds it to those that `hasher` computes.
    fn enable(self, hasher: &mut ChecksumHasher) {
        match self {
            Self::Crc32 => hasher.crc32 = Some(Crc32::new()),
            Self::Crc32c => hasher.crc32c = Some(Crc32c::new()),
            Self::Crc64Nvme => hasher.crc64nvme = Some(Crc64Nvme::new()),
            Self::Sha1 => hasher.sha1 = Some(Sha1::new()),
            Self::Sha256 => hasher.sha256 = Some(Sha256::new()),
        }
    }

    /// Its value among what a hasher computed; empty when it was not enabled.
    fn computed(self, all: &s3s::dto::Checksum) -> &str {
        let value = match self {
            Self::Crc32 => &all.checksum_crc32,
            Self::Crc32c => &all.checksum_crc32c,
            Self::Crc64Nvme => &all.checksum_crc64nvme,
            Self::Sha1 => &all.checksum_sha1,
            Self::Sha256 => &all.checksum_sha256,
        };
        value.as_deref().unwrap_or_default()
    }

    /// The checksum of `bytes`.
    fn of(self, bytes: &[u8]) -> String {
        let mut hashing = Hashing::new([self]);
        hashing.update(bytes);
        hashing.value(self)
    }
}

/// Computes checksums of bytes that come piece by piece.
pub(crate) struct Hashing {
    hasher: ChecksumHasher,
    finished: Option<s3s::dto::Checksum>,
}

impl Hashing {
    pub(crate) fn new(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut hasher = ChecksumHasher::default();
        for algorithm in algorithms {
            algorithm.enable(&mut hasher);
        }
        Self { hasher, finished: None }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The value of one of the algorithms. Nothing can be added behind it.
    pub(crate) fn value(&mut self, algorithm: Algorithm) -> String {
        let hasher = &mut self.hasher;
        let all = self.finished.get_or_insert_with(|| std::mem::take(hasher).finalize());
        algorithm.computed(all).to_owned()
    }
}

impl Checksum {
    pub(crate) fn of_full_object(algorithm: Algorithm, value: String) -> Self {
        Self { algorithm, coverage: Coverage::FullObject, value }
    }

    /// The checksum of an object that is put together from parts, each given by its checksum and its
    /// length in bytes. `None` when it cannot be computed of those.
    pub(crate) fn of_parts<'a>(
        algorithm: Algorithm,
        coverage: Coverage,
        parts: impl Iterator<Item = (&'a str, u64)>,
    ) -> Option<Self> {
        let value = match coverage {
            Coverage::Composite => {
                let mut values = Vec::new();
                let mut count = 0;
                for (value, _) in parts {
                    values.extend(BASE64.decode(value).ok()?);
                    count += 1;
                }
                format!("{}-{count}", algorithm.of(&values))
            }
            Coverage::FullObject => {
                let crc = algorithm.combinable()?;
                let mut combined = 0;
                let mut width = 0;
                for (value, len) in parts {
                    let bytes = BASE64.decode(value).ok()?;
                    width = bytes.len();
                    let part = bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                    combined = checksum_combine(crc, combined, part, len);
                }
                BASE64.encode(&combined.to_be_bytes()[8 - width.min(8)..])
            }
        };
        Some(Self { algorithm, coverage, value })
    }
}

/// What a request says about its body, in headers, or in trailers (`None`), which come behind the
/// body.
pub(crate) struct Announced {
    checksums: Vec<(Algorithm, Option<String>)>,
    content_md5: Option<(String, Md5)>,
    hashing: Hashing,
    /// What is kept: the first that is announced, or the one that is wanted anyhow.
    kept: Option<Algorithm>,
}

impl Announced {
    /// Reads the headers. The checksum `wanted` is computed even when it is not announced.
    pub(crate) fn of(headers: &HeaderMap, wanted: Option<Algorithm>) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let trailers = text("x-amz-trailer").unwrap_or_default();
        let checksums: Vec<_> = Algorithm::ALL
            .into_iter()
            .filter_map(|algorithm| match text(algorithm.header()) {
                Some(value) => Some((algorithm, Some(value.to_owned()))),
                None => trailers
                    .split(',')
                    .any(|name| name.trim().eq_ignore_ascii_case(algorithm.header()))
                    .then_some((algorithm, None)),
            })
            .collect();
        let content_md5 = text("content-md5").map(|value| (value.to_owned(), Md5::new()));
        let computed = checksums.iter().map(|(algorithm, _)| *algorithm).chain(wanted);
        let hashing = Hashing::new(computed);
        let kept = wanted.or(checksums.first().map(|(algorithm, _)| *algorithm));
        Self { checksums, content_md5, hashing, kept }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hashing.update(bytes);
        if let Some((_, md5)) = &mut self.content_md5 {
            md5.update(bytes);
        }
    }

    /// Compares what was announced with what arrived. The answer is the checksum to be kept.
    pub(crate) fn verify(mut self, trailers: Option<&HeaderMap>) -> S3Result<Option<Checksum>> {
        if let Some((sent, md5)) = self.content_md5 {
            compare("Content-MD5", &sent, &BASE64.encode(md5.finalize()))?;
        }
        for (algorithm, value) in &self.checksums {
            let header = algorithm.header();
            let sent = value
                .as_deref()
                .or_else(|| trailers?.get(header)?.to_str().ok())
                .ok_or_else(|| {
                    bad_request("MalformedTrailerError", format!("The trailer {header} is missing"))
                })?;
            compare(header, sent, &self.hashing.value(*algorithm))?;
        }
        Ok(self
            .kept
            .map(|algorithm| Checksum::of_full_object(algorithm, self.hashing.value(algorithm))))
    }
}

fn compare(header: &str, sent: &str, computed: &str) -> S3Result {
    if sent == computed {
        return Ok(());
    }
    Err(s3_error!(BadDigest, "{header} is {sent}, but the body that arrived has {computed}"))
}

/// Writes a [`Checksum`] into the field of an output of `s3s` that its algorithm has there.
macro_rules! set_checksum {
    ($output:expr, $checksum:expr) => {
        if let Some(checksum) = $checksum {
            let value = Some(checksum.value.clone());
            match checksum.algorithm {
                $crate::checksums::Algorithm::Crc32 => $output.checksum_crc32 = value,
                $crate::checksums::Algorithm::Crc32c => $output.checksum_crc32c = value,
                $crate::checksums::Algorithm::Crc64Nvme => $output.checksum_crc64nvme = value,
                $crate::checksums::Algorithm::Sha1 => $output.checksum_sha1 = value,
                $crate::checksums::Algorithm::Sha256 => $output.checksum_sha256 = value,
            }
        }
    };
}
pub(crate) use set_checksum;

/// All checksums that an input of `s3s` holds.
macro_rules! checksums_in {
    ($input:expr) => {
        [
            ($crate::checksums::Algorithm::Crc32, &$input.checksum_crc32),
            ($crate::checksums::Algorithm::Crc32c, &$input.checksum_crc32c),
            ($crate::checksums::Algorithm::Crc64Nvme, &$input.checksum_crc64nvme),
            ($crate::checksums::Algorithm::Sha1, &$input.checksum_sha1),
            ($crate::checksums::Algorithm::Sha256, &$input.checksum_sha256),
        ]
        .into_iter()
        .filter_map(|(algorithm, value)| Some((algorithm, value.as_deref()?)))
    };
}
pub(crate) use checksums_in;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"The quick brown fox jumps over the lazy dog";

    #[test]
    fn the_checksum_of_the_whole_follows_from_those_of_its_parts() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            for cuts in [[0, 43], [1, 20], [43, 43]] {
                let parts = [&TEXT[..cuts[0]], &TEXT[cuts[0]..cuts[1]], &TEXT[cuts[1]..]];
                let values = parts.map(|part| algorithm.of(part));
                let parts = values
                    .iter()
                    .zip(parts)
                    .map(|(value, part)| (value.as_str(), part.len() as u64));
                let whole = Checksum::of_parts(algorithm, Coverage::FullObject, parts).unwrap();
                assert_eq!(whole.value, algorithm.of(TEXT), "{algorithm:?} {cuts:?}");
            }
        }
    }

    #[test]
    fn a_composite_checksum_is_that_of_the_checksums_with_their_number() {
        // hashlib: b64(sha256(sha256(b"a") + sha256(b"b")))
        let values = [Algorithm::Sha256.of(b"a"), Algorithm::Sha256.of(b"b")];
        let parts = values.iter().map(|value| (value.as_str(), 1));
        let whole = Checksum::of_parts(Algorithm::Sha256, Coverage::Composite, parts).unwrap();
        assert_eq!(whole.value, "5aAf7hTg7VxIcU8iGA8lrYNltT+XefedxKPX6Tlj+Uo=-2");
    }

    #[test]
    fn the_known_values_of_a_known_text() {
        assert_eq!(Algorithm::Crc32.of(b"123456789"), "y/Q5Jg==");
        assert_eq!(Algorithm::Crc32c.of(b"123456789"), "4waSgw==");
        assert_eq!(Algorithm::Crc64Nvme.of(b"123456789"), "rosUhgp5mIg=");
    }

    #[test]
    fn what_s3_does_not_have_is_not_computed() {
        let parts = || [("AAAAAA==", 1)].into_iter();
        assert!(Checksum::of_parts(Algorithm::Sha1, Coverage::FullObject, parts()).is_none());
        assert!(!Algorithm::Crc64Nvme.has(Coverage::Composite));
        let nonsense = [("no base64!", 1)].into_iter();
        assert!(Checksum::of_parts(Algorithm::Crc32, Coverage::Composite, nonsense).is_none());
    }

    #[test]
    fn md5_and_checksums_are_compared_and_named() {
        let with = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let mut announced = Announced::of(&headers, None);
            announced.update(b"123456789");
            announced.verify(None)
        };
        assert_eq!(with("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==").unwrap(), None);
        let error = with("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==").unwrap_err();
        assert!(error.message().unwrap().starts_with("Content-MD5"), "{error}");
        let kept = with("x-amz-checksum-crc32", "y/Q5Jg==").unwrap();
        assert_eq!(kept, Some(Checksum::of_full_object(Algorithm::Crc32, "y/Q5Jg==".into())));
        assert!(with("x-amz-checksum-crc32", "y/Q5Jw==").is_err());
    }
}
