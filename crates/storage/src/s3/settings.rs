//! What an S3 store is opened with, and the checks that need no network.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use url::Url;

use crate::Credentials;

/// Whose code makes the GETs of a bucket. All other operations are ours either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GetEngine {
    /// Ours.
    #[default]
    Feedrate,
    /// `object_store`'s own S3 client, as a reference. It has no name for a key with an empty part
    /// (`a//b`), and takes no answer that does not say its length.
    ObjectStore,
}

/// How to reach a bucket. [`new`](Self::new) fills in what most callers leave alone.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// `http://host:port` or `https://host`; the bucket becomes the first part of the path. `None`
    /// is the public cloud (`https://bucket.s3.region.amazonaws.com`), which is for the caller to
    /// ask for: never a fallback.
    pub endpoint_url: Option<String>,
    /// The bucket's name.
    pub bucket: String,
    /// The region that requests are signed for; `us-east-1` by default, which stores outside of AWS
    /// take.
    pub region: String,
    /// The keys that sign.
    pub credentials: Credentials,
    /// Whether uploads are signed with the SHA-256 of their body. By default they are not
    /// (`UNSIGNED-PAYLOAD`) and carry a CRC-32C, which costs a fraction of the CPU and which the
    /// store checks too.
    pub sign_payload: bool,
    /// A PEM file of the certificate authorities to trust, instead of the machine's.
    pub ca_bundle: Option<PathBuf>,
    /// The longest that a connection may take, name look-up and TLS included; 5 s by default.
    pub connect_timeout: Duration,
    /// The longest that one attempt may take, from asking for a connection to the last byte; 60 s by
    /// default.
    pub attempt_timeout: Duration,
    /// As `attempt_timeout`, for what carries no object: a page of a list, a HEAD, a DELETE, beginning
    /// and aborting an upload in parts; 20 s by default. A run begins with a list or a HEAD, so this is how soon an endpoint is told that
    /// takes connections and never answers.
    pub list_timeout: Duration,
    /// Whose code makes GETs; ours by default.
    pub get_engine: GetEngine,
}

impl S3Settings {
    /// The defaults for `bucket` at `endpoint_url`.
    pub fn new(
        endpoint_url: Option<String>,
        bucket: impl Into<String>,
        credentials: Credentials,
    ) -> Self {
        Self {
            endpoint_url,
            bucket: bucket.into(),
            region: "us-east-1".to_owned(),
            credentials,
            sign_payload: false,
            ca_bundle: None,
            connect_timeout: Duration::from_secs(5),
            attempt_timeout: Duration::from_mins(1),
            list_timeout: Duration::from_secs(20),
            get_engine: GetEngine::default(),
        }
    }

    /// Checks everything but the certificate authorities.
    pub(super) fn check(&self) -> Result<Endpoint, OpenError> {
        check_bucket(&self.bucket)?;
        check_region(&self.region)?;
        let credentials = &self.credentials;
        for (what, value) in [
            ("access key id", Some(credentials.access_key_id())),
            ("session token", credentials.session_token()),
        ] {
            if value.is_some_and(|value| HeaderValue::from_str(value).is_err()) {
                let source = credentials.source().to_owned();
                return Err(OpenError::Credentials { what, place: source });
            }
        }
        match &self.endpoint_url {
            Some(url) => Endpoint::custom(url, &self.bucket),
            None => Ok(Endpoint::public_cloud(&self.region, &self.bucket)),
        }
    }
}

/// Where requests go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The bucket's address, without a slash at the end.
    pub(super) bucket_url: String,
    /// The endpoint, for people.
    pub(super) shown: String,
    pub(super) is_https: bool,
}

impl Endpoint {
    /// Path style, which every store outside of AWS takes and which needs no name per bucket.
    fn custom(text: &str, bucket: &str) -> Result<Self, OpenError> {
        let wrong = |problem: String| OpenError::EndpointUrl { url: text.to_owned(), problem };
        if !text.contains("://") {
            return Err(wrong(format!(
                "the scheme is missing; write http://{text} or https://{text}"
            )));
        }
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            // The text is not repeated: it holds a secret.
            return Err(OpenError::EndpointUrl {
                url: format!("{}://…@{}", url.scheme(), url.host_str().unwrap_or_default()),
                problem: "credentials do not belong into it; set AWS_ACCESS_KEY_ID and \
                          AWS_SECRET_ACCESS_KEY"
                    .to_owned(),
            });
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("the scheme is `{}`; write http or https", url.scheme())));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or fragment; give scheme, host and port".to_owned()));
        }
        let shown = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            bucket_url: format!("{shown}/{bucket}"),
            shown,
            is_https: url.scheme() == "https",
        })
    }

    fn public_cloud(region: &str, bucket: &str) -> Self {
        let host = format!("s3.{region}.amazonaws.com");
        // AWS's certificate covers one name part before the host, so a dotted bucket goes into the
        // path.
        let bucket_url = if bucket.contains('.') {
            format!("https://{host}/{bucket}")
        } else {
            format!("https://{bucket}.{host}")
        };
        Self { bucket_url, shown: format!("https://{host}"), is_https: true }
    }
}

fn check_bucket(bucket: &str) -> Result<(), OpenError> {
    let wrong = |problem| Err(OpenError::Bucket { bucket: bucket.to_owned(), problem });
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match bucket {
        "" => wrong("it is empty; name a bucket"),
        "." | ".." => wrong("that is no name"),
        name if name.contains("://") => wrong("give the bare name, without s3://"),
        name if name.contains('/') => wrong("a `/` cannot be in it; folders belong into the keys"),
        name if !name.chars().all(allowed) => wrong("only letters, digits and -._ can be in it"),
        _ => Ok(()),
    }
}

fn check_region(region: &str) -> Result<(), OpenError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if region.is_empty() || !region.chars().all(allowed) {
        return Err(OpenError::Region { region: region.to_owned() });
    }
    Ok(())
}

/// Why a store cannot be opened with these settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The endpoint is no usable URL.
    #[error("endpoint URL `{url}`: {problem}")]
    EndpointUrl {
        /// As given; without its secret if it holds one.
        url: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// The bucket's name cannot be one.
    #[error("bucket `{bucket}`: {problem}")]
    Bucket {
        /// As given.
        bucket: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The region's name cannot be one.
    #[error(
        "region `{region}`: only letters, digits and - can be in it; us-east-1 is usual for \
        stores outside of AWS"
    )]
    Region {
        /// As given.
        region: String,
    },
    /// A key or token cannot be sent in a header.
    #[error("the {what} from {place} holds a line break or another character that cannot be sent")]
    Credentials {
        /// Which part of the credentials.
        what: &'static str,
        /// Where they came from.
        place: String,
    },
    /// The file of certificate authorities cannot be used.
    #[error("CA bundle {}: {problem}", path.display())]
    CaBundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The machine has no certificate authorities.
    #[error(
        "this machine has no usable certificate authorities{problem}; name a PEM file of them \
        with AWS_CA_BUNDLE"
    )]
    NoAuthorities {
        /// What was wrong where they were looked for, in parentheses; empty if nothing was there.
        problem: String,
    },
    /// The client could not be made for a reason that the checks did not foresee.
    #[error("cannot make the S3 client: {reason}")]
    Client {
        /// The library's reason.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint_url: Option<&str>) -> S3Settings {
        let credentials = Credentials::new("AKIAEXAMPLE", "hush-hush", None, "a test");
        S3Settings::new(endpoint_url.map(str::to_owned), "data", credentials)
    }

    fn problem(endpoint_url: &str) -> String {
        settings(Some(endpoint_url)).check().unwrap_err().to_string()
    }

    #[test]
    fn a_custom_endpoint_has_the_bucket_in_its_path() {
        for (url, bucket_url) in [
            ("http://localhost:9000", "http://localhost:9000/data"),
            ("http://LOCALHOST:9000/", "http://localhost:9000/data"),
            ("https://minio.example:443", "https://minio.example/data"),
            ("http://[::1]:9000", "http://[::1]:9000/data"),
            ("http://proxy/s3/", "http://proxy/s3/data"),
        ] {
            let endpoint = settings(Some(url)).check().unwrap();
            assert_eq!(endpoint.bucket_url, bucket_url);
            assert_eq!(endpoint.is_https, url.starts_with("https"));
        }
    }

    #[test]
    fn the_public_cloud_has_the_bucket_in_its_host_where_the_certificate_allows() {
        let mut settings = settings(None);
        assert_eq!(
            settings.check().unwrap(),
            Endpoint {
                bucket_url: "https://data.s3.us-east-1.amazonaws.com".to_owned(),
                shown: "https://s3.us-east-1.amazonaws.com".to_owned(),
                is_https: true,
            }
        );
        settings.bucket = "my.data".to_owned();
        let dotted = settings.check().unwrap();
        assert_eq!(dotted.bucket_url, "https://s3.us-east-1.amazonaws.com/my.data");
    }

    #[test]
    fn a_wrong_endpoint_is_said_to_be_wrong_and_how() {
        assert_eq!(
            problem("localhost:9000"),
            "endpoint URL `localhost:9000`: the scheme is missing; write http://localhost:9000 or \
             https://localhost:9000"
        );
        assert!(problem("ftp://host").contains("the scheme is `ftp`; write http or https"));
        assert!(problem("http://").contains("empty host"));
        assert!(problem("http://host:99999").contains("invalid port"));
        assert!(problem("http://host/?x=y").contains("query"));
        let secret = problem("https://user:hush-hush@host:9000");
        assert!(secret.contains("credentials do not belong"), "{secret}");
        assert!(!secret.contains("hush") && !secret.contains("user:"), "{secret}");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for bucket in ["", "..", "s3://data", "data/train", "da ta", "da?ta", "dätä"] {
            let settings = S3Settings { bucket: bucket.to_owned(), ..settings(None) };
            assert!(matches!(settings.check(), Err(OpenError::Bucket { .. })), "{bucket}");
        }
        for region in ["", "us east", "x/y"] {
            let settings = S3Settings { region: region.to_owned(), ..settings(None) };
            assert!(matches!(settings.check(), Err(OpenError::Region { .. })), "{region}");
        }
    }

    #[test]
    fn keys_that_no_header_carries_are_refused_without_being_shown() {
        let bad = Credentials::new("AKIA", "s", Some("hush\nhush".to_owned()), "the environment");
        let settings = S3Settings { credentials: bad, ..settings(None) };
        assert_eq!(
            settings.check().unwrap_err().to_string(),
            "the session token from the environment holds a line break or another character that \
             cannot be sent"
        );
    }

    #[test]
    fn settings_show_no_secret() {
        let shown = format!("{:?}", settings(None));
        assert!(!shown.contains("hush"), "{shown}");
    }
}
