//! Where a data set is: `storage.storage_root` and `dataset.data_folder`, in any spelling, become
//! one bucket and prefix or one folder (spec/dlio.md 3.3, NEW).

use std::path::{Component, Path, PathBuf};

/// How a location was spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// `s3://bucket[/prefix]`; the prefix has no slashes at its ends.
    S3 { bucket: String, prefix: String },
    /// `file:///folder`.
    File(PathBuf),
    /// No scheme: a path, or a bucket with or without a prefix, as its place decides.
    Plain(String),
}

impl Location {
    /// Parses any spelling.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            None => Ok(Self::Plain(text.to_owned())),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("s3") => {
                let (bucket, prefix) = bucket_and_prefix(rest)?;
                Ok(Self::S3 { bucket, prefix })
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
                if !rest.starts_with('/') {
                    return Err("accepts file:///ABSOLUTE/FOLDER, with three slashes".to_owned());
                }
                Ok(Self::File(PathBuf::from(rest)))
            }
            Some((scheme, _)) => {
                Err(format!("the scheme {scheme}:// is not supported: accepts s3:// and file://"))
            }
        }
    }

    /// Whether a text without a scheme can only mean a folder of this machine.
    pub(crate) fn looks_local(text: &str) -> bool {
        text.starts_with(['/', '~']) || matches!(text.split('/').next(), Some("." | ".."))
    }
}

/// `bucket[/prefix]`.
pub(crate) fn bucket_and_prefix(text: &str) -> Result<(String, String), String> {
    let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
    // Stores other than AWS's allow more than its rules, and AWS had longer names once.
    let is_good = (1..=255).contains(&bucket.len())
        && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !bucket.starts_with('.');
    if !is_good {
        return Err(format!(
            "{bucket:?} is no bucket name: accepts letters, digits, '-', '.' and '_'"
        ));
    }
    Ok((bucket.to_owned(), clean_prefix(prefix)?))
}

/// A prefix in a bucket in its one form: names joined by single slashes, none at either end, no `.`.
///
/// # Errors
/// It has a `..`; the text says so.
pub fn clean_prefix(text: &str) -> Result<String, String> {
    let names: Vec<_> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") {
        return Err("'..' has no meaning in a bucket".to_owned());
    }
    Ok(names.join("/"))
}

/// `prefix` below `root`, both clean.
pub(crate) fn join_prefix(root: &str, prefix: &str) -> String {
    if root.is_empty() || prefix.is_empty() {
        format!("{root}{prefix}")
    } else {
        format!("{root}/{prefix}")
    }
}

/// `folder` below `root`, or `folder` itself when it is absolute; without `.` inside.
pub(crate) fn join_path(root: &Path, folder: &Path) -> PathBuf {
    let joined: PathBuf = root.join(folder).components().collect();
    if joined.components().next().is_none() {
        return PathBuf::from(Component::CurDir.as_os_str());
    }
    joined
}

/// An endpoint in its one form: `http[s]://HOST[:PORT][/PATH]` without a slash at the end, the host in
/// small letters and the port only if it is not the scheme's own. Nothing of the text is repeated in
/// an error, because it could hold a password.
pub(crate) fn endpoint(text: &str) -> Result<String, &'static str> {
    let accepted = "accepts http://HOST[:PORT] or https://HOST[:PORT]";
    let (scheme, rest) = text.split_once("://").ok_or(accepted)?;
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.trim_end_matches('/');
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("a user name or password does not belong into an endpoint: \
                    accepts http[s]://HOST[:PORT]");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let well_formed = matches!(scheme.as_str(), "http" | "https")
        && !host.is_empty()
        && (host.starts_with('[') || !host.contains(':'))
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control() || "?#\\,".contains(c));
    if !well_formed {
        return Err(accepted);
    }
    let host = host.to_ascii_lowercase();
    Ok(match (scheme.as_str(), port.and_then(|port| port.parse().ok())) {
        (_, None) | ("http", Some(80)) | ("https", Some(443)) => format!("{scheme}://{host}{path}"),
        (_, Some(port)) => format!("{scheme}://{host}:{port}{path}"),
    })
}
