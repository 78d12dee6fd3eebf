//! The embedded server of a sweep: a child process on a free loopback port, with keys that nobody
//! sees.
//!
//! Parent and child talk over the child's standard input and output: the parent writes [`Settings`]
//! as one line of JSON, the child answers with [`Ready`] when it listens. From then on the child
//! lives as long as that pipe: when the parent ends, in whatever way, the pipe closes and the child
//! ends too. Only the line `keep` lets it outlive the parent.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, bail};
use feedrate_s3_server::{KeyPair, Options, Server};
use rand::distr::{Alphanumeric, SampleString};
use serde::{Deserialize, Serialize};

use crate::exit::Outcome;
use crate::output::say;

/// The bucket that the server is started with.
const BUCKET: &str = "feedrate";
/// What the parent says to let the server live on.
const KEEP: &str = "keep";

/// Lets the C library put the server's objects, gigabytes in pieces of some hundred KiB, on huge pages:
/// generation through it is 1.4 times as fast. Other C libraries ignore it.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432";

#[derive(Serialize, Deserialize)]
struct Settings {
    access_key_id: String,
    secret_access_key: String,
    bucket: String,
}

#[derive(Serialize, Deserialize)]
struct Ready {
    address: SocketAddr,
}

/// A running embedded server; ends when this is dropped.
pub(crate) struct EmbeddedServer {
    child: Child,
    input: ChildStdin,
    keys: KeyPair,
    address: SocketAddr,
}

impl EmbeddedServer {
    /// Starts a server and waits until it listens.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let keys = new_keys();
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut child = Command::new(program)
            .arg("serve-task")
            .env("GLIBC_TUNABLES", HUGE_PAGES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A terminal's Ctrl-C is for the parent; see `interrupt`.
            .process_group(0)
            .spawn()
            .context("cannot start the embedded server")?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the embedded server has no pipes");
        };
        let settings = Settings {
            access_key_id: keys.access_key_id.clone(),
            secret_access_key: keys.secret_access_key.clone(),
            bucket: BUCKET.to_owned(),
        };
        writeln!(input, "{}", serde_json::to_string(&settings)?)
            .context("the embedded server ended before it was told its settings")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let ready: Ready = serde_json::from_str(&line)
            .context("the embedded server did not start; its message is above")?;
        Ok(Self { child, input, keys, address: ready.address })
    }

    /// Where it listens, as a URL.
    pub(crate) fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bucket that every such server has.
    pub(crate) fn bucket() -> &'static str {
        BUCKET
    }

    /// The only keys it takes.
    pub(crate) fn keys(&self) -> &KeyPair {
        &self.keys
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it outlive this process.
    pub(crate) fn keep(mut self) -> anyhow::Result<KeyPair> {
        writeln!(self.input, "{KEEP}").context("the embedded server is gone")?;
        let keys = self.keys.clone();
        std::mem::forget(self);
        Ok(keys)
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys that are different each time.
pub(crate) fn new_keys() -> KeyPair {
    let mut random = rand::rng();
    KeyPair {
        access_key_id: format!("FEEDRATE{}", Alphanumeric.sample_string(&mut random, 12)),
        secret_access_key: Alphanumeric.sample_string(&mut random, 40),
    }
}

/// The child's side.
pub(crate) fn serve_task() -> anyhow::Result<Outcome> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let settings: Settings =
        serde_json::from_str(&line).context("serve-task is started by `feedrate sweep` alone")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the server's threads")?;
    let keys = KeyPair {
        access_key_id: settings.access_key_id,
        secret_access_key: settings.secret_access_key,
    };
    let options = Options {
        buckets: vec![settings.bucket],
        ..Options::in_memory(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), keys)
    };
    let server = runtime.block_on(Server::bind(options)).context("the embedded server")?;
    say(serde_json::to_string(&Ready { address: server.local_addr() })?);
    std::thread::spawn(end_with_parent);
    runtime.block_on(server.serve(std::future::pending()));
    Ok(Outcome::Finished)
}

/// Ends the process when the parent's end of the pipe closes, unless it said to stay.
fn end_with_parent() {
    let said_keep = io::stdin().lock().lines().any(|line| line.is_ok_and(|line| line == KEEP));
    if !said_keep {
        std::process::exit(0);
    }
    // Whoever reads the parent's stderr waits until nobody holds it any more.
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
}
