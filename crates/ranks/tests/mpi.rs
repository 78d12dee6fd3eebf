//! Worlds over many processes, under a real launcher: `mpirun`, or what `FEEDRATE_TEST_MPIRUN` names.
//!
//! Each test lets the launcher run this same test program with one "test" only, [`participant`], which
//! plays the scene that is named in the environment.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use feedrate_ranks::mpi::{Cluster, Options};
use feedrate_ranks::{World, in_process};
use rustix::process::{Pid, Signal, getpid, kill_process};

const SCENE: &str = "FEEDRATE_TEST_SCENE";
/// What a failing job may take to end, all told.
const IN_TIME: Duration = Duration::from_secs(10);
/// No scene takes longer.
const FOR_EVER: Duration = Duration::from_mins(1);

/// A run of a scene by the launcher.
struct Run {
    launcher: Child,
    lines: Receiver<(Instant, String)>,
    seen: Vec<(Instant, String)>,
}

/// How a run ended.
struct End {
    status: ExitStatus,
    at: Instant,
    lines: Vec<(Instant, String)>,
}

impl Run {
    fn of(scene: &str, processes: u32) -> Self {
        let program = std::env::var("FEEDRATE_TEST_MPIRUN").unwrap_or_else(|_| "mpirun".to_owned());
        let version = Command::new(&program).arg("--version").output().expect("a launcher");
        let mut command = Command::new(&program);
        if String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
            command.args(["--allow-run-as-root", "--oversubscribe"]);
        }
        let this = std::env::current_exe().unwrap();
        command.args(["-n", &processes.to_string()]).arg(this);
        command.args(["--exact", "participant", "--ignored", "--nocapture"]);
        command.env(SCENE, scene).process_group(0);
        let mut launcher = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(launcher.stdout.take().unwrap()), Box::new(launcher.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send((Instant::now(), line));
                }
            });
        }
        Self { launcher, lines, seen: Vec::new() }
    }

    /// Waits until the launcher and all processes have ended.
    fn end(mut self) -> End {
        let until = Instant::now() + FOR_EVER;
        let status = loop {
            assert!(Instant::now() < until, "the job does not end: {}", text(self.collected()));
            if let Some(status) = self.launcher.try_wait().unwrap() {
                break status;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let at = Instant::now();
        // Both streams end when the last process has closed them.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(5)) {
            self.seen.push(line);
        }
        let left: Vec<Pid> = self.pids().into_iter().filter(|pid| is_running(*pid)).collect();
        let lines = self.collected().to_vec();
        assert!(left.is_empty(), "processes are left: {left:?} {}", text(&lines));
        End { status, at, lines }
    }

    fn collected(&mut self) -> &[(Instant, String)] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// The processes that have said who they are.
    fn pids(&mut self) -> Vec<Pid> {
        let pids = self.collected().iter().filter_map(|(_, line)| {
            line.split_once("pid=")?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()
                .and_then(Pid::from_raw)
        });
        pids.collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Ok(None) = self.launcher.try_wait() {
            let launcher = Pid::from_child(&self.launcher);
            for pid in self.pids().into_iter().chain([launcher]) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.launcher.wait();
        }
    }
}

impl End {
    fn said(&self, what: &str) -> Vec<&str> {
        let lines = self.lines.iter().map(|(_, line)| line.as_str());
        lines.filter_map(|line| Some(&line[line.find(what)?..])).collect()
    }

    /// What the user is told: by the callback or by the way that errors take, by one process only.
    fn the_one_line(&self) -> &str {
        let lines = [self.said("lost: "), self.said("told: ")].concat();
        assert_eq!(lines.len(), 1, "{}", text(&self.lines));
        &lines[0]["lost: ".len()..]
    }

    /// The job has ended in time after somebody said "now", and not well.
    fn assert_failed_in_time(&self) {
        let now = self.lines.iter().find(|(_, line)| line.contains("now")).expect("the event");
        let took = self.at - now.0;
        assert!(took < IN_TIME, "took {took:?}: {}", text(&self.lines));
        assert!(!self.status.success() || self.status.signal().is_some(), "{}", text(&self.lines));
    }
}

/// False for what is only waiting for its parent to take notice of its end.
fn is_running(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    status.is_ok_and(|status| {
        let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, Some('Z' | 'X'))
    })
}

fn text(lines: &[(Instant, String)]) -> String {
    lines.iter().flat_map(|(_, line)| ["\n    ", line]).collect()
}

/// Whether the launcher lets processes say something when one of them has died.
fn launcher_leaves_time() -> bool {
    std::env::var_os("FEEDRATE_TEST_MPIRUN").is_none()
}

#[test]
fn collectives_over_processes_bring_what_they_bring_in_one_process() {
    let end = Run::of("contract", 4).end();
    assert_eq!(end.said("equal on 8 ranks"), ["equal on 8 ranks"], "{}", text(&end.lines));
    assert!(end.status.success(), "{}", text(&end.lines));
    let complaints = end.said("mpirun");
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn processes_on_one_machine_are_one_node_unless_nodes_are_named() {
    let end = Run::of("nodes", 3).end();
    assert!(end.status.success(), "{}", text(&end.lines));
    assert_eq!(end.said("nodes:"), ["nodes: [0, 1, 2]"]);
    let end = Run::of("named nodes", 3).end();
    assert_eq!(end.said("nodes:"), ["nodes: odd [1], even [0, 2]"], "{}", text(&end.lines));
}

#[test]
fn a_failing_rank_ends_the_ranks_of_all_processes_with_its_own_error() {
    let end = Run::of("failing", 3).end();
    end.assert_failed_in_time();
    let error = "failed: disk on fire";
    let lines = end.said("rank 3 on ");
    assert_eq!(
        lines.iter().filter(|line| line.ends_with(error)).count(),
        6,
        "{}",
        text(&end.lines)
    );
}

#[test]
fn a_process_that_returns_early_ends_the_job() {
    let end = Run::of("leaving early", 3).end();
    end.assert_failed_in_time();
    let cause = "failed: its process ended before the job was over";
    let told = end.the_one_line();
    assert!(told.starts_with("rank 2 on ") && told.ends_with(cause), "{told}");
}

#[test]
fn a_killed_process_ends_the_job_and_is_named() {
    for scene in ["killed", "killed 0"] {
        let end = Run::of(scene, 3).end();
        end.assert_failed_in_time();
        if launcher_leaves_time() {
            let name = if scene == "killed" { "rank 1 on " } else { "rank 0 on " };
            let lost = end.the_one_line();
            assert!(lost.starts_with(name) && lost.contains("does not answer"), "{lost}");
        }
    }
}

#[test]
fn a_stopped_process_is_found_dead_by_its_silence_while_others_are_in_a_long_step() {
    for scene in ["stopped", "stopped in a long step"] {
        let end = Run::of(scene, 3).end();
        end.assert_failed_in_time();
        let lost = end.the_one_line();
        assert!(lost.starts_with("rank 1 on ") && lost.contains("not heard of for 2s"), "{lost}");
    }
}

#[test]
fn a_long_step_is_no_failure() {
    let end = Run::of("slow", 2).end();
    assert!(end.status.success(), "{}", text(&end.lines));
    assert_eq!(end.said("a slow step is over").len(), 2);
}

#[test]
#[ignore = "played by the other tests through the launcher"]
fn participant() {
    let Ok(scene) = std::env::var(SCENE) else {
        return;
    };
    // Nothing of a test is left behind for long, whatever happens.
    thread::spawn(|| {
        thread::sleep(FOR_EVER);
        std::process::exit(99);
    });
    eprintln!("pid={}", getpid().as_raw_nonzero());
    std::process::exit(match play(&scene) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    });
}

fn play(scene: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new(|loss| {
        if loss.speaks {
            eprintln!("lost: {}", loss.aborted);
        }
        std::process::exit(1);
    });
    if scene.starts_with("stopped") {
        options.dead_after = Duration::from_secs(2);
        options.heartbeat = Duration::from_millis(500);
    }
    if scene == "named nodes" {
        let number: u32 = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
            .and_then(|rank| rank.parse().ok())
            .unwrap();
        options.node_name = Some(if number % 2 == 1 { "odd" } else { "even" }.to_owned());
    }
    let cluster = Cluster::start(options)?;
    raise_alarm_on_sigterm(&cluster);
    if let Err(error) = act(scene, &cluster) {
        if cluster.claim_word() {
            eprintln!("told: {error}");
        }
        return Err(error);
    }
    Ok(cluster.finish().map_err(|loss| loss.aborted)?)
}

fn act(scene: &str, cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let process = cluster.process();
    match scene {
        "contract" => contract(cluster)?,
        "nodes" | "named nodes" => {
            if process == 0 {
                let named = scene != "nodes";
                let nodes = cluster.nodes().iter().map(|node| {
                    let name = if named { format!("{} ", node.name) } else { String::new() };
                    format!("{name}{:?}", node.processes)
                });
                let mut nodes: Vec<String> = nodes.collect();
                nodes.reverse();
                eprintln!("nodes: {}", nodes.join(", "));
            }
        }
        "failing" => {
            let ends = on_all(cluster.worlds(2)?, |rank| {
                rank.barrier().unwrap();
                if rank.rank() == 3 {
                    eprintln!("now");
                    rank.abort("disk on fire".to_owned());
                }
                rank.barrier()
            });
            for end in ends {
                eprintln!("{}", end.unwrap_err());
            }
            return Err("a rank failed".into());
        }
        "leaving early" => {
            let rank = &cluster.worlds(1)?[0];
            rank.barrier()?;
            if process == 2 {
                eprintln!("now");
                return Err("it did not like the job".into());
            }
            rank.barrier()?;
        }
        "killed" | "killed 0" | "killed 2" | "stopped" | "stopped in a long step" => {
            let rank = &cluster.worlds(1)?[0];
            let (victim, signal) = match scene {
                "killed" => (1, Signal::KILL),
                "killed 0" => (0, Signal::KILL),
                "killed 2" => (2, Signal::KILL),
                _ => (1, Signal::STOP),
            };
            for step in 0..10 {
                rank.barrier()?;
                if step == 2 && process == victim {
                    eprintln!("now");
                    kill_process(getpid(), signal)?;
                }
                if step == 2 && scene == "stopped in a long step" {
                    thread::sleep(FOR_EVER);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        "steps" => {
            let rank = &cluster.worlds(1)?[0];
            eprintln!("steps begin");
            loop {
                thread::sleep(Duration::from_millis(20));
                rank.barrier()?;
            }
        }
        "slow" => {
            let rank = &cluster.worlds(1)?[0];
            if process == 1 {
                thread::sleep(Duration::from_secs(5));
            }
            rank.barrier()?;
            eprintln!("a slow step is over");
        }
        other => return Err(format!("there is no scene {other}").into()),
    }
    Ok(())
}

/// What the program does too.
fn raise_alarm_on_sigterm(cluster: &Cluster) {
    let alarm = cluster.alarm();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let mut terminate = signal(SignalKind::terminate()).unwrap();
            while terminate.recv().await.is_some() {
                alarm.raise("SIGTERM from the launcher");
            }
        });
    });
}

fn on_all<W: World, T: Send>(ranks: Vec<W>, body: impl Fn(&W) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            ranks.into_iter().map(|rank| scope.spawn(|| body(&{ rank }))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// All that a rank learns in a series of collectives, and that barriers hold.
fn learned(rank: &dyn World) -> Vec<u8> {
    let (number, size) = (rank.rank(), rank.size());
    let mut learned = vec![number as u8, size as u8];
    for round in 0..20_u32 {
        rank.barrier().unwrap();
        let own = vec![(number + round) as u8; (number * round) as usize * 100];
        if let Some(payloads) = rank.gather(own).unwrap() {
            learned.extend(payloads.concat());
        }
        let given = vec![(number + 7 * round) as u8; (round * 500) as usize];
        learned.extend(rank.broadcast(given).unwrap());
    }
    // More than any library sends at once.
    let large = rank.gather(vec![number as u8; 3_000_000]).unwrap();
    learned.extend(large.unwrap_or_default().concat());
    learned.extend(rank.broadcast(vec![number as u8; 5_000_000]).unwrap());
    learned
}

fn contract(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    assert_eq!(cluster.processes(), 4);
    let here = on_all(cluster.worlds(2)?, |rank| learned(rank)).concat();
    let of_all = cluster.gather(here)?;
    if let Some(of_all) = of_all {
        let expected = on_all(in_process::world(8), |rank| learned(rank)).concat();
        assert!(of_all.concat() == expected, "ranks learned something else than in one process");
        eprintln!("equal on 8 ranks");
    }
    assert_eq!(cluster.broadcast(vec![cluster.process() as u8])?, [0]);
    barriers_hold(cluster)
}

/// Nobody leaves a barrier before all have come: by a clock that all processes of a machine share.
fn barriers_hold(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let times = on_all(cluster.worlds(2)?, |rank| {
        let rounds = (0..100).map(|round| {
            if round % 8 == rank.rank() {
                thread::sleep(Duration::from_millis(1));
            }
            let come = now();
            rank.barrier().unwrap();
            [come, now()]
        });
        let rounds: Vec<u8> = rounds.flatten().flat_map(i64::to_le_bytes).collect();
        rank.gather(rounds).unwrap()
    });
    let Some(times) = times.into_iter().flatten().next() else {
        return Ok(());
    };
    let time = |rank: usize, index: usize| {
        i64::from_le_bytes(times[rank][8 * index..8 * index + 8].try_into().unwrap())
    };
    for round in 0..100 {
        let last_come = (0..8).map(|rank| time(rank, 2 * round)).max();
        let first_gone = (0..8).map(|rank| time(rank, 2 * round + 1)).min();
        assert!(last_come <= first_gone, "round {round}");
    }
    Ok(())
}
