//! What barriers and gathers cost: between threads, and between processes when a launcher runs it.
//!
//! ```sh
//! cargo run -p feedrate-ranks --example barrier_cost -- 4          # 4 threads
//! mpirun -n 4 target/debug/examples/barrier_cost 1                 # 4 processes, built with `mpi`
//! mpirun -n 2 target/debug/examples/barrier_cost 2                 # 2 processes of 2 threads
//! ```
//!
//! Ranks come to a barrier together, as they do when all of them only compute: each measures from its
//! coming to its going, and the median over ranks and rounds is printed. `late` is how much later than
//! the last one came a rank went on, when one rank comes 1 ms after the others. The CPU share is that
//! of this process while its ranks wait for one that comes a second later.

use std::thread;
use std::time::{Duration, Instant};

use feedrate_ranks::{World, in_process};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: u32 = 2000;
const LATE_ROUNDS: u32 = 200;

fn main() {
    let ranks = std::env::args().nth(1).and_then(|ranks| ranks.parse().ok()).unwrap_or(1);
    run(ranks);
}

#[cfg(feature = "mpi")]
fn run(ranks: u32) {
    use feedrate_ranks::mpi::{Cluster, Options, is_launched};

    if !is_launched(|name| std::env::var_os(name).is_some()) {
        measure_all(in_process::world(ranks), "1 process");
        return;
    }
    let options = Options::new(|loss| {
        eprintln!("{}", loss.aborted);
        std::process::exit(1);
    });
    let cluster = Cluster::start(options).expect("MPI");
    let processes = format!("{} processes", cluster.processes());
    measure_all(cluster.worlds(ranks).expect("a world"), &processes);
    cluster.finish().expect("a good end");
}

#[cfg(not(feature = "mpi"))]
fn run(ranks: u32) {
    measure_all(in_process::world(ranks), "1 process");
}

fn measure_all<W: World>(ranks: Vec<W>, processes: &str) {
    thread::scope(|scope| {
        for rank in ranks {
            scope.spawn(move || measure(&rank, processes));
        }
    });
}

fn measure(rank: &dyn World, processes: &str) {
    // As the step loop's threads do: sleeps end when they should.
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    let barrier = median(rank, ROUNDS, |rank, _| {
        let come = Instant::now();
        rank.barrier().expect("a barrier");
        come.elapsed()
    });
    let gather = median(rank, ROUNDS, |rank, _| {
        let payload = vec![0_u8; 1024];
        let come = Instant::now();
        rank.gather(payload).expect("a gather");
        come.elapsed()
    });
    let late = median(rank, LATE_ROUNDS, |rank, round| {
        rank.barrier().expect("a barrier");
        if round % rank.size() == rank.rank() {
            thread::sleep(Duration::from_millis(1));
        }
        let come = now();
        rank.barrier().expect("a barrier");
        let gone = now();
        let all = rank.gather(come.to_le_bytes().to_vec()).expect("a gather").unwrap_or_default();
        let last =
            all.iter().filter_map(|come| Some(u64::from_le_bytes(come[..].try_into().ok()?)));
        let last = last.max().map(|last| last.to_le_bytes().to_vec()).unwrap_or_default();
        let last = rank.broadcast(last).expect("a broadcast");
        let last = u64::from_le_bytes(last.try_into().expect("8 bytes"));
        Duration::from_nanos(gone.saturating_sub(last))
    });
    rank.barrier().expect("a barrier");
    let before = cpu_time();
    if rank.rank() == rank.size() - 1 {
        thread::sleep(Duration::from_secs(1));
    }
    rank.barrier().expect("a barrier");
    let cpu = (cpu_time() - before) * 100.0;
    if rank.rank() == 0 {
        println!(
            "{} ranks in {processes}: barrier {barrier:?}, gather of 1 KiB {gather:?}, late {late:?}, \
             CPU of a waiting process {cpu:.1} %",
            rank.size()
        );
    }
}

/// The median over all ranks and rounds, on rank 0.
fn median(rank: &dyn World, rounds: u32, round: impl Fn(&dyn World, u32) -> Duration) -> Duration {
    let times: Vec<u8> = (0..rounds)
        .flat_map(|number| (round(rank, number).as_nanos() as u64).to_le_bytes())
        .collect();
    let all = rank.gather(times).expect("a gather").unwrap_or_default().concat();
    let (times, _) = all.as_chunks::<8>();
    let mut times: Vec<u64> = times.iter().map(|time| u64::from_le_bytes(*time)).collect();
    times.sort_unstable();
    Duration::from_nanos(times.get(times.len() / 2).copied().unwrap_or(0))
}

/// The same clock in all processes of a machine.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Of this process, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
