//! Buckets that are named in the host of a URL (`http://bucket.localhost:9000/key`).

use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domains below which a host names a bucket. Any other host, an address above all, stands for
/// the server itself, and the bucket is the first part of the path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Domains(Vec<String>);

impl Domains {
    /// `names` without ports.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Whether a domain can be called so.
    pub(crate) fn is_valid(name: &str) -> bool {
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        name.split('.').all(is_label)
    }

    /// The bucket that a `Host` header names.
    pub(crate) fn bucket_of(&self, host: &str) -> Option<String> {
        let host = host.rsplit_once(':').map_or(host, |(host, _port)| host);
        let bucket = self.0.iter().find_map(|domain| {
            let (bucket, below) = host.split_at_checked(host.len().checked_sub(domain.len())?)?;
            below.eq_ignore_ascii_case(domain).then(|| bucket.strip_suffix('.'))?
        });
        bucket.filter(|bucket| !bucket.is_empty()).map(str::to_ascii_lowercase)
    }
}

impl S3Host for Domains {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let server = VirtualHost::new(host);
        Ok(match self.bucket_of(host) {
            Some(bucket) => server.with_bucket(bucket),
            None => server,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_below_a_domain_names_a_bucket() {
        let domains = Domains::new(["localhost".to_owned(), "S3.example.com".to_owned()]);
        let bucket = |host| domains.bucket_of(host);
        assert_eq!(bucket("data.localhost:9000").as_deref(), Some("data"));
        assert_eq!(bucket("my.data.s3.EXAMPLE.com").as_deref(), Some("my.data"));
        for server in [
            "localhost",
            "localhost:9000",
            "127.0.0.1:9000",
            "[::1]:9000",
            "notlocalhost",
            ".localhost",
        ] {
            assert_eq!(bucket(server), None, "{server}");
        }
    }
}
