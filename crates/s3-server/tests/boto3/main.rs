//! The server as the most used SDK sees it: boto3, against both stores.
//!
//! Each module of Python in this folder is one test here and holds many of its own. The server runs in
//! this process, Python in another one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use feedrate_s3_server::{Access, Account, KeyPair, Options, Server, Storage};
use tokio::sync::oneshot;

const ACCESS_KEY_ID: &str = "AKIABOTO3";
const SECRET: &str = "a/secret+of=tests";
const READ_ONLY_ID: &str = "AKIAREADONLY";
const READ_ONLY_SECRET: &str = "another/secret";

/// Runs a module of tests against each store.
macro_rules! modules {
    ($($module:ident)*) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $module() {
                let storage = feedrate_s3_server::Storage::Memory { limit: None };
                let server = super::Running::start(storage).await;
                super::python(&server, stringify!($module), &[]).await;
            })*
        }
        mod in_a_folder {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $module() {
                let folder = super::folder();
                let storage = feedrate_s3_server::Storage::Directory(folder.path().to_owned());
                let server = super::Running::start(storage).await;
                super::python(&server, stringify!($module), &[]).await;
                server.stop().await;
                super::assert_nothing_is_left_over(folder.path());
            })*
        }
    };
}

modules! { access conditions lists multipart objects }

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_a_server_on_a_folder_loses_nothing() {
    let folder = folder();
    let seen = folder.path().join("seen");
    let variables = [("SEEN", seen.to_str().unwrap())];
    for class in ["restart.Before", "restart.After"] {
        let server = Running::start(Storage::Directory(folder.path().to_owned())).await;
        python(&server, class, &variables).await;
        server.stop().await;
    }
}

/// A folder on the disk of the build: others may be in memory and know no extended attributes.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Asserts that nothing of what was received lies in the folder of a server that has ended but the
/// objects.
fn assert_nothing_is_left_over(root: &Path) {
    for bucket in std::fs::read_dir(root).unwrap() {
        let hidden = bucket.unwrap().path().join(".feedrate-uploads.tmp");
        assert!(!hidden.exists(), "{}", hidden.display());
    }
}

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(storage: Storage) -> Self {
        let account = |id: &str, secret: &str, access| Account {
            keys: KeyPair { access_key_id: id.into(), secret_access_key: secret.into() },
            access,
        };
        let server = Server::bind(Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            accounts: vec![
                account(ACCESS_KEY_ID, SECRET, Access::ReadWrite),
                account(READ_ONLY_ID, READ_ONLY_SECRET, Access::ReadOnly),
            ],
            storage,
            buckets: Vec::new(),
            domains: vec!["localhost".into()],
            faults: Vec::new(),
            record_gets: false,
            access_log: None,
            grace: std::time::Duration::from_secs(5),
        })
        .await
        .unwrap();
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Runs the tests that `name` stands for, a module or a class in one, and asserts that they pass.
///
/// `./test` makes the environment; without it the test fails, because a check that is skipped is
/// none.
async fn python(server: &Running, name: &str, variables: &[(&str, &str)]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = package.join("../../target/venv/bin/python");
    assert!(python.exists(), "{} is missing: run ./test", python.display());
    let mut command = Command::new(python);
    command
        .args(["-B", "-W", "error::ResourceWarning", "-c"])
        .arg(
            "import sys, importlib.util, unittest\n\
             if not importlib.util.find_spec('boto3'):\n    \
                 sys.exit('boto3 is missing: run ./test')\n\
             unittest.main(module=None)",
        )
        .args(["-v", name])
        .current_dir(package.join("tests/boto3"))
        .env_clear()
        .envs(variables.iter().copied())
        .envs([
            ("AWS_ENDPOINT_URL", format!("http://{}", server.address).as_str()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ("READ_ONLY_ACCESS_KEY_ID", READ_ONLY_ID),
            ("READ_ONLY_SECRET_ACCESS_KEY", READ_ONLY_SECRET),
            ("PYTHONPATH", "."),
        ]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(
        output.status.success(),
        "{name}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
