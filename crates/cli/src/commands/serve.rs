//! `feedrate serve`: the S3 server alone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use feedrate_report::shell_word;
use feedrate_s3_server::{
    Access, AccessLogTarget, Account, KeyPair, Options, Server, Storage, read_keys_file,
};

use super::runtime;
use crate::args::ServeArgs;
use crate::embedded::new_keys;
use crate::environment::Environment;
use crate::exit::{INTERRUPTED, Outcome, usage};
use crate::interrupt::Signals;
use crate::output::{say, tell};

/// How long requests under way may take when the server is told to end.
const GRACE: Duration = Duration::from_secs(5);

/// The bucket of a server in memory, when none is named.
const BUCKET: &str = "feedrate";

pub(super) fn run(args: ServeArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let keys = Keys::choose(&environment, args.keys.as_deref())?;
    let in_memory = args.dir.is_none();
    let no_bucket = args.buckets.is_empty() && in_memory;
    let options = Options {
        listen: args.listen,
        accounts: keys.accounts,
        storage: match args.dir {
            Some(dir) => Storage::Directory(dir),
            None => Storage::Memory { limit: args.max_memory },
        },
        buckets: if no_bucket { vec![BUCKET.to_owned()] } else { args.buckets },
        domains: args.domains,
        faults: args.faults,
        record_gets: args.record_gets,
        access_log: args.access_log.map(log_target),
        grace: GRACE,
    };
    runtime()?.block_on(async {
        let signals = Signals::new()?;
        let server = Server::bind(options).await?;
        let endpoint = format!("http://{}", server.local_addr());
        if let Some(path) = &args.env_file {
            let exports_with_keys = exports(&endpoint, Some(&keys.own));
            write_private(path, &format!("{exports_with_keys}\n"))
                .with_context(|| format!("cannot write --env-file {}", path.display()))?;
            say(exports(&endpoint, None));
            let shown = shell_word(&path.to_string_lossy());
            tell(format_args!("the keys are in {shown}: source it (. {shown})"));
        } else {
            say(exports(&endpoint, keys.are_generated.then_some(&keys.own)));
        }
        server.serve(stop(signals)).await;
        Ok(Outcome::Finished)
    })
}

fn log_target(path: PathBuf) -> AccessLogTarget {
    if path == Path::new("-") { AccessLogTarget::Stderr } else { AccessLogTarget::File(path) }
}

/// The keys of the server.
struct Keys {
    accounts: Vec<Account>,
    /// The pair that a shell on this machine is given.
    own: KeyPair,
    /// Nobody else knows that pair, so it has to be told.
    are_generated: bool,
}

impl Keys {
    /// Those of the environment and those of `file`; when there are none, a new pair.
    fn choose(environment: &Environment, file: Option<&Path>) -> anyhow::Result<Self> {
        let in_file =
            file.map(read_keys_file).transpose().map_err(|error| usage(error.to_string()))?;
        let mut accounts = in_file.unwrap_or_default();
        let given = given_keys(environment)?;
        let are_generated = given.is_none() && accounts.is_empty();
        if let Some(keys) = given.or_else(|| are_generated.then(new_keys)) {
            accounts.insert(0, Account { keys, access: Access::ReadWrite });
        }
        let writes = accounts.iter().find(|account| account.access == Access::ReadWrite);
        let own = writes.or(accounts.first()).context("the server has no keys")?.keys.clone();
        Ok(Self { accounts, own, are_generated })
    }
}

/// Keys given in the environment; they are never printed.
fn given_keys(environment: &Environment) -> anyhow::Result<Option<KeyPair>> {
    match (environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")) {
        (None, None) => Ok(None),
        (Some(access_key_id), Some(secret_access_key)) => Ok(Some(KeyPair {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: secret_access_key.to_owned(),
        })),
        _ => Err(usage(
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and only one is set: set \
             both to choose the server's keys, or neither to have some generated",
        )),
    }
}

/// What a shell needs to use the server, on one line.
pub(super) fn exports(endpoint: &str, keys: Option<&KeyPair>) -> String {
    let keys = keys.map_or_else(String::new, |keys| {
        format!(
            " AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={}",
            shell_word(&keys.access_key_id),
            shell_word(&keys.secret_access_key)
        )
    });
    format!("export AWS_ENDPOINT_URL={endpoint}{keys}")
}

/// Writes `text` to the file at `path`, which only its owner can read from its first byte on. It is
/// complete whenever it is there.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Completes with the first signal. The second one ends the process at once.
async fn stop(mut signals: Signals) {
    signals.next().await;
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(i32::from(INTERRUPTED));
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_shell_gets_back_any_key() {
        let keys = KeyPair {
            access_key_id: "a/b+c=".to_owned(),
            secret_access_key: "it's $HOME".to_owned(),
        };
        assert_eq!(
            exports("http://h:9000", Some(&keys)),
            r"export AWS_ENDPOINT_URL=http://h:9000 AWS_ACCESS_KEY_ID=a/b+c= AWS_SECRET_ACCESS_KEY='it'\''s $HOME'"
        );
    }

    #[test]
    fn a_file_of_keys_is_private_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        fs::write(&path, "old").unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_private(folder.path(), "a folder is in the way").is_err());
    }
}
