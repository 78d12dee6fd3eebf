//! Keeping secrets out of everything that is saved or shown: command lines and overrides are masked
//! here before they reach a file, and configuration snapshots by the same rules.

use feedrate_workload::names_secret;

/// What stands where a secret was.
pub(crate) const MASK: &str = "***";

/// A command line with its secrets masked: values of options and overrides that are named like a
/// secret (`--set storage.storage_options.secret_access_key=…`, `--secret-access-key …`), and user
/// information in URLs.
pub(crate) fn mask_arguments<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut value_is_secret = false;
    let mut masked = Vec::new();
    for argument in arguments {
        let argument = argument.as_ref();
        masked.push(if value_is_secret { MASK.to_owned() } else { mask_argument(argument) });
        value_is_secret =
            argument.starts_with('-') && !argument.contains('=') && names_secret(argument);
    }
    masked
}

fn mask_argument(argument: &str) -> String {
    let argument = mask_url(argument);
    match argument.split_once('=') {
        Some((name, _)) if names_secret(name) => format!("{name}={MASK}"),
        // An inline mapping, whose keys may be named like a secret.
        Some((name, value)) if value.starts_with('{') && names_secret(value) => {
            format!("{name}={MASK}")
        }
        // `--set=a.b=c` holds a name and a value once more.
        Some((name, value)) => format!("{name}={}", mask_argument(value)),
        None => argument,
    }
}

/// A text without the user names and passwords that URLs in it may carry (`http://user:word@host`).
pub(crate) fn mask_url(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        masked.push_str("://");
        let authority = &rest[..rest.find(['/', '?', '#', ',']).unwrap_or(rest.len())];
        match authority.rfind('@') {
            Some(at) => masked.extend([MASK, &rest[at..]]),
            None => masked.push_str(rest),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_spelling_of_an_argument() {
        let masked = mask_arguments([
            "feedrate",
            "run",
            "--set",
            "storage.storage_options.secret_access_key=hunter2",
            "++workload.storage.storage_options={access_key_id: hunter2}",
            "--secret-access-key",
            "hunter2",
            "--endpoint-url=http://me:hunter2@host:9000/x",
            "http://me:hunter2@host/?a=b",
            "http://host:9000,http://me:hunter2@other:9000",
            "--set=storage.storage_options.secret_access_key=hunter2",
            "--set",
            "reader.batch_size=4",
        ]);
        assert!(!masked.join(" ").contains("hunter2"), "{masked:?}");
        assert_eq!(masked[7], "--endpoint-url=http://***@host:9000/x");
        assert_eq!(masked[9], "http://host:9000,http://***@other:9000");
        assert_eq!(masked[12], "reader.batch_size=4");
    }
}
