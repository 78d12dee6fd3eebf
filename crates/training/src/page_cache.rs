//! The kernel's page cache, emptied before each epoch so that files come from the storage and not from
//! this host's memory (spec/dlio.md 6.2).
//!
//! Only files of a file system pass through it. The kernel empties it for root alone: as another user
//! we ask `sudo` with the command that DLIO gives it, so that permissions granted for DLIO serve us,
//! too. `sudo -n` never asks for a password; it is refused where one is needed. We stay in the session
//! of the terminal, since a user's earlier `sudo -v` counts there alone.
//!
//! The kernel drops clean pages only. So what has just been generated is written back first, with
//! `sync -f` for the data's file system alone, which DLIO leaves out: its first epoch reads such files
//! from memory.
//!
//! Each node has a page cache of its own, which one rank there empties. Rank 0 hears from all of them
//! and tells the user.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use feedrate_metrics::record::CacheDrops;
use feedrate_workload::{DropCaches, Target, Workload};
use serde::{Deserialize, Serialize};

/// The kernel's control; 3 drops pages, directory entries and inodes.
const COMMAND: &str = "echo 3 > /proc/sys/vm/drop_caches";
/// How often a command is looked at. The kernel takes some ms at least.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of what a command says that are kept, for the one line of it that is told.
const MOST_KEPT: usize = 4 << 10;

/// The page cache of this host, as one run treats it.
#[derive(Debug)]
pub(crate) struct PageCache {
    /// What to run, or why nothing is to be done, or not any more.
    commands: Result<Commands, String>,
    timeout: Duration,
}

/// What became of one node's page cache before one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Dropped,
    TimedOut,
    /// And why not.
    NotDropped(String),
}

/// The same, with what the user must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Emptied {
    pub(crate) outcome: Outcome,
    /// It stays full, and what to do; a refusal is told once.
    pub(crate) warning: Option<String>,
}

/// [`Emptied`] on the host of this name.
pub(crate) type OnHost = (String, Emptied);

/// Programs with their arguments.
#[derive(Debug)]
struct Commands {
    write_back: Vec<OsString>,
    drop: Vec<OsString>,
}

/// What became of a command.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    /// And why.
    Refused(String),
    TimedOut,
}

impl PageCache {
    /// For runs of `workload`.
    pub(crate) fn new(workload: &Workload) -> Self {
        let storage = &workload.storage;
        let reason = match &storage.target {
            _ if !workload.reads_storage() => "no file is read",
            Target::S3 { .. } => "objects do not pass this host's page cache",
            Target::Local { .. } if storage.drop_caches == DropCaches::Never => {
                "storage.drop_caches is never"
            }
            Target::Local { root } => {
                let is_root = rustix::process::geteuid().is_root();
                let timeout = Duration::from_secs(u64::from(storage.drop_caches_timeout));
                return Self::with(Commands::new(root, is_root), timeout);
            }
        };
        Self { commands: Err(reason.to_owned()), timeout: Duration::ZERO }
    }

    fn with(commands: Commands, timeout: Duration) -> Self {
        Self { commands: Ok(commands), timeout }
    }

    /// Empties it where that is asked for and possible, in at most the time that the workload allows. A
    /// refusal ends the attempts.
    pub(crate) fn empty(&mut self) -> Emptied {
        let commands = match &self.commands {
            Ok(commands) => commands,
            Err(why) => {
                return Emptied { outcome: Outcome::NotDropped(why.clone()), warning: None };
            }
        };
        let deadline = Instant::now() + self.timeout;
        // Where writing back is refused, what could be dropped is dropped.
        let end = match run(&commands.write_back, deadline) {
            End::TimedOut => End::TimedOut,
            End::Done | End::Refused(_) => run(&commands.drop, deadline),
        };
        match end {
            End::Done => Emptied { outcome: Outcome::Dropped, warning: None },
            End::TimedOut => {
                let warning = format!(
                    "dropping the page cache took longer than {} s and was given up: this epoch may \
                     read from memory. Raise storage.drop_caches_timeout (DLIO_DROP_CACHES_TIMEOUT), \
                     or set storage.drop_caches=never",
                    self.timeout.as_secs_f64()
                );
                Emptied { outcome: Outcome::TimedOut, warning: Some(warning) }
            }
            End::Refused(why) => {
                let warning = format!(
                    "the page cache is not dropped before epochs, so files may come from memory: \
                     {why}. Run as root, allow `sudo -n sh -c '{COMMAND}'` without a password, or \
                     set storage.drop_caches=never"
                );
                self.commands = Err(why.clone());
                Emptied { outcome: Outcome::NotDropped(why), warning: Some(warning) }
            }
        }
    }
}

/// Counts what became of all nodes' page caches before one more epoch.
pub(crate) fn count(drops: &mut CacheDrops, nodes: &[OnHost]) {
    let any = |outcome: &Outcome| nodes.iter().any(|(_, emptied)| emptied.outcome == *outcome);
    if any(&Outcome::TimedOut) {
        drops.timed_out += 1;
    }
    let why = by_host(nodes, |emptied| match &emptied.outcome {
        Outcome::NotDropped(why) => Some(why),
        Outcome::Dropped | Outcome::TimedOut => None,
    });
    if why.is_empty() && !any(&Outcome::TimedOut) {
        drops.dropped += 1;
    }
    // A node that has refused once is not asked again, and says so each time.
    drops.not_dropped = (!why.is_empty()).then(|| why.join("; "));
}

/// What the user must know of it.
pub(crate) fn warnings(nodes: &[OnHost]) -> Vec<String> {
    by_host(nodes, |emptied| emptied.warning.as_deref())
}

/// What `text` finds on nodes, each text once, with the names of their hosts unless it is true of all.
fn by_host<'a>(nodes: &'a [OnHost], text: impl Fn(&'a Emptied) -> Option<&'a str>) -> Vec<String> {
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, emptied) in nodes {
        if let Some(text) = text(emptied) {
            hosts.entry(text).or_default().push(host);
        }
    }
    let told = hosts.into_iter().map(|(text, hosts)| {
        if hosts.len() == nodes.len() {
            text.to_owned()
        } else {
            format!("on {}: {text}", hosts.join(", "))
        }
    });
    told.collect()
}

impl Commands {
    fn new(data: &Path, is_root: bool) -> Self {
        let sudo: &[&str] = if is_root { &[] } else { &["sudo", "-n"] };
        let sync = ["sync", "-f", "--"].map(OsString::from);
        Self {
            write_back: sync.into_iter().chain([data.into()]).collect(),
            drop: sudo.iter().chain(&["sh", "-c", COMMAND]).map(OsString::from).collect(),
        }
    }
}

/// Runs `command`, a program and its arguments, until `deadline`.
fn run(command: &[OsString], deadline: Instant) -> End {
    let Some((program, arguments)) = command.split_first() else { return End::Done };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return End::Refused(cannot_start(program, &error)),
    };
    let mut said = child.stderr.take().and_then(Said::new);
    loop {
        let ended = child.try_wait();
        if let Some(said) = &mut said {
            said.listen();
        }
        match ended {
            Ok(Some(status)) if status.success() => return End::Done,
            Ok(Some(status)) => {
                let reason = said.and_then(|said| said.first_line());
                return End::Refused(reason.unwrap_or_else(|| {
                    format!("{} ended with {status}", program.to_string_lossy())
                }));
            }
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            Ok(None) => break,
            Err(error) => return End::Refused(error.to_string()),
        }
    }
    // The kernel may take its time to end it, and a `sudo` that is root by now lets nobody else do
    // so: it is waited for aside.
    let _ = child.kill();
    match thread::Builder::new().name("page-cache".to_owned()).spawn(move || child.wait()) {
        Ok(_) => End::TimedOut,
        Err(error) => End::Refused(format!(
            "{} took too long, and there is no thread to wait for its end: {error}",
            program.to_string_lossy()
        )),
    }
}

fn cannot_start(program: &OsStr, error: &std::io::Error) -> String {
    let program = program.to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("{program} cannot be started: {error}"),
    }
}

/// What a command writes to its standard error. It is taken in all the time, so that a command that
/// says much never waits for a reader, and whoever else has the pipe open is not waited for.
#[derive(Debug)]
struct Said {
    pipe: ChildStderr,
    /// How it began.
    beginning: Vec<u8>,
}

impl Said {
    /// `None` where the pipe could only be read by waiting: nobody listens then.
    fn new(pipe: ChildStderr) -> Option<Self> {
        rustix::io::ioctl_fionbio(&pipe, true).ok()?;
        Some(Self { pipe, beginning: Vec::new() })
    }

    /// Takes in what is there now. A command that says more goes on after the next time.
    fn listen(&mut self) {
        let mut bytes = [0; 16 << 10];
        // Mostly an error means that there is nothing to read; else what there was will do.
        let read = self.pipe.read(&mut bytes).unwrap_or(0);
        let room = MOST_KEPT - self.beginning.len();
        self.beginning.extend_from_slice(&bytes[..read.min(room)]);
    }

    fn first_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.beginning);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.to_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use feedrate_loader::testing::workload;

    use super::*;

    /// A page cache that shell scripts write back and drop.
    pub(crate) fn scripted(write_back: &str, drop: &str, timeout: Duration) -> PageCache {
        let shell = |script: &str| ["sh", "-c", script].map(OsString::from).to_vec();
        let commands = Commands { write_back: shell(write_back), drop: shell(drop) };
        PageCache::with(commands, timeout)
    }

    const AMPLE: Duration = Duration::from_secs(20);

    fn dropped() -> Emptied {
        Emptied { outcome: Outcome::Dropped, warning: None }
    }

    fn told(emptied: Emptied) -> (Outcome, String) {
        (emptied.outcome, emptied.warning.unwrap())
    }

    #[test]
    fn it_is_written_back_and_then_dropped_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let say = |what: &str| format!("echo {what} >> {}", log.display());
        let mut cache = scripted(&say("written"), &say("dropped"), AMPLE);
        assert_eq!((cache.empty(), cache.empty()), (dropped(), dropped()));
        let log = std::fs::read_to_string(log).unwrap();
        assert_eq!(log, "written\ndropped\n".repeat(2));
    }

    #[test]
    fn what_cannot_be_written_back_does_not_keep_the_rest() {
        let mut cache = scripted("exit 1", "true", AMPLE);
        assert_eq!(cache.empty(), dropped());
    }

    #[test]
    fn a_refusal_is_told_once_with_its_reason_and_ends_the_attempts() {
        let refused = "echo >&2; echo 'sudo: a password is required' >&2; exit 1";
        let mut cache = scripted("true", refused, AMPLE);
        let (outcome, warning) = told(cache.empty());
        let why = Outcome::NotDropped("sudo: a password is required".to_owned());
        assert_eq!(outcome, why);
        for part in ["sudo: a password is required", "root", "storage.drop_caches=never"] {
            assert!(warning.contains(part), "no {part:?} in {warning}");
        }
        assert_eq!(cache.empty(), Emptied { outcome: why, warning: None });
    }

    #[test]
    fn one_that_says_much_or_leaves_others_behind_is_not_held_up() {
        let told_by = |script: &str| {
            let (outcome, _) = told(scripted("true", script, AMPLE).empty());
            outcome
        };
        let refused = |why: &str| Outcome::NotDropped(why.to_owned());
        let much = "echo no; yes | head -c 300000; exit 1";
        assert_eq!(told_by(&format!("{{ {much}; }} >&2")), refused("no"));
        let started = Instant::now();
        assert_eq!(told_by("echo no >&2; sleep 5 & exit 1"), refused("no"));
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    }

    #[test]
    fn a_refusal_without_a_word_is_told_with_its_status() {
        let mut cache = scripted("true", "exit 3", AMPLE);
        let (_, warning) = told(cache.empty());
        assert!(warning.contains("exit status: 3"), "{warning}");
    }

    #[test]
    fn an_absent_program_is_a_refusal() {
        let absent = vec![OsString::from("/nowhere/sudo"), OsString::from("-n")];
        let commands = Commands { write_back: Vec::new(), drop: absent };
        let mut cache = PageCache::with(commands, AMPLE);
        let (_, warning) = told(cache.empty());
        assert!(warning.contains("/nowhere/sudo is not installed"), "{warning}");
    }

    #[test]
    fn one_that_takes_too_long_is_ended_told_each_time_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let endless = format!("echo $$ > {}; exec sleep 600", pid.display());
        for (write_back, drop) in [("true", endless.as_str()), (endless.as_str(), "true")] {
            let mut cache = scripted(write_back, drop, Duration::from_millis(400));
            for _ in 0..2 {
                let (outcome, warning) = told(cache.empty());
                assert_eq!(outcome, Outcome::TimedOut);
                assert!(warning.contains("longer than 0.4 s"), "{warning}");
                assert!(warning.contains("storage.drop_caches_timeout"), "{warning}");
                let pid = std::fs::read_to_string(&pid).unwrap();
                let process = Path::new("/proc").join(pid.trim());
                while process.exists() {
                    thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    #[test]
    fn nothing_is_asked_on_standard_input() {
        let mut cache = scripted("true", "read line && exit 1; true", AMPLE);
        assert_eq!(cache.empty(), dropped());
    }

    #[test]
    fn root_writes_itself_and_others_ask_sudo_as_dlio_does() {
        let words = |is_root| {
            let words = Commands::new(Path::new("/data/-x"), is_root);
            let join = |words: &[OsString]| words.join(OsStr::new("|")).into_string().unwrap();
            (join(&words.write_back), join(&words.drop))
        };
        let sync = "sync|-f|--|/data/-x".to_owned();
        let drop = format!("sh|-c|{COMMAND}");
        assert_eq!(words(true), (sync.clone(), drop.clone()));
        assert_eq!(words(false), (sync, format!("sudo|-n|{drop}")));
    }

    #[test]
    fn only_a_file_systems_files_pass_through_it_and_only_if_asked() {
        let reason = |options: &[&str]| PageCache::new(&workload(options)).commands.err();
        let local = "storage.storage_root=/data";
        assert_eq!(reason(&[local]), None);
        let told = |options: &[&str]| reason(options).unwrap();
        assert!(told(&[local, "storage.drop_caches=never"]).contains("storage.drop_caches"));
        assert!(told(&[local, "reader.data_loader=synthetic"]).contains("no file"));
        let s3 = [
            "storage.storage_type=s3",
            "storage.storage_root=bucket",
            "storage.storage_options.endpoint_url=http://127.0.0.1:1",
        ];
        assert!(told(&s3).contains("objects"));
    }

    #[test]
    fn an_epoch_counts_as_dropped_when_every_node_dropped() {
        let node = |host: &str, outcome| (host.to_owned(), Emptied { outcome, warning: None });
        let refused = |why: &str| Outcome::NotDropped(why.to_owned());
        let counted = |epochs: &[[Outcome; 2]]| {
            let mut drops = CacheDrops::default();
            for [a, b] in epochs {
                count(&mut drops, &[node("a", a.clone()), node("b", b.clone())]);
            }
            (drops.dropped, drops.timed_out, drops.not_dropped.unwrap_or_default())
        };
        let both = || [Outcome::Dropped, Outcome::Dropped];
        let late = || [Outcome::TimedOut, Outcome::Dropped];
        assert_eq!(counted(&[both(), late(), both()]), (2, 1, String::new()));
        let one = || [Outcome::Dropped, refused("no such right")];
        assert_eq!(counted(&[both(), one(), one()]), (1, 0, "on b: no such right".to_owned()));
        let late = [Outcome::TimedOut, refused("no such right")];
        assert_eq!(counted(&[late]), (0, 1, "on b: no such right".to_owned()));
        let neither = [refused("no sudo"), refused("no such right")];
        assert_eq!(counted(&[neither]), (0, 0, "on b: no such right; on a: no sudo".to_owned()));
        let all = [refused("never"), refused("never")];
        assert_eq!(counted(&[all]), (0, 0, "never".to_owned()));
    }

    #[test]
    fn a_warning_names_the_hosts_unless_it_holds_for_all() {
        let node = |host: &str, warning: Option<&str>| {
            let warning = warning.map(str::to_owned);
            (host.to_owned(), Emptied { outcome: Outcome::TimedOut, warning })
        };
        let slow = Some("too slow");
        assert_eq!(warnings(&[node("a", slow), node("b", slow)]), ["too slow"]);
        let some = [node("a", slow), node("b", None), node("c", slow)];
        assert_eq!(warnings(&some), ["on a, c: too slow"]);
        assert_eq!(warnings(&[node("a", None)]), [""; 0]);
    }
}
