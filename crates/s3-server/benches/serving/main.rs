//! What a GET costs the server, beside a bare hyper that answers the same heads and bodies from memory.
//!
//!     cargo bench -p feedrate-s3-server --bench serving [-- quick]
//!
//! Each server is a process of its own, so that its CPU time is its own, and holds 1.2 GiB of distinct
//! objects: too many for a cache. The client is as cheap as can be: blocking threads over raw sockets, 64
//! KiB reads into one buffer each, requests that were signed before the clock started. Client and server
//! share the CPUs. Machines drift, so the servers take turns, and what counts is the median of the ratios of
//! each turn; the worst stands beside it. `quick` is over in 20 s.

mod client;
mod server;

#[path = "../../tests/server/sign.rs"]
mod sign;

use std::env;

use client::Turn;
use server::{Kind, Process};

/// Bytes of an object: RetinaNet's record length.
const OBJECT_BYTES: usize = 322_957;
/// 1.2 GiB of them.
const OBJECTS: usize = 4_000;
const BUCKET: &str = "bench";
const CONNECTIONS: [usize; 2] = [16, 64];

/// How long it takes.
struct Extent {
    /// Turns of each server at each number of connections.
    turns: usize,
    /// How often each object is read in a turn.
    passes: usize,
}

const FULL: Extent = Extent { turns: 9, passes: 5 };
const QUICK: Extent = Extent { turns: 3, passes: 2 };

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let Some(kind) = Kind::of_process(&arguments) {
        return server::run(kind);
    }
    // Test runners start benches too, without it.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let extent = if arguments.iter().any(|word| word == "quick") { QUICK } else { FULL };

    let mut servers = Kind::ALL.map(Process::start);
    let requests = servers.each_ref().map(|server| client::fill(server.address));
    println!(
        "| connections | server | GiB/s | server CPU-s/GiB | µs a GET | of bare: GiB/s | CPU |"
    );
    println!("|---|---|---|---|---|---|---|");
    for connections in CONNECTIONS {
        let mut turns = Kind::ALL.map(|_| Vec::new());
        for turn in 0..extent.turns {
            for place in 0..servers.len() {
                // No server is always the first.
                let index = (place + turn) % servers.len();
                turns[index].push(client::take_turn(
                    &mut servers[index],
                    &requests[index],
                    connections,
                    extent.passes,
                ));
            }
        }
        for (kind, own) in Kind::ALL.iter().zip(&turns) {
            print_row(connections, *kind, own, &turns[0]);
        }
    }
}

/// What the turns of one server came to, alone and beside those of the first.
fn print_row(connections: usize, kind: Kind, turns: &[Turn], bare: &[Turn]) {
    let of = |figure: fn(&Turn) -> f64| turns.iter().map(figure).collect();
    let of_bare = |figure: fn(&Turn) -> f64| {
        turns.iter().zip(bare).map(|(own, bare)| figure(own) / figure(bare)).collect()
    };
    let cells = [
        tell(of(Turn::gib_per_second), 2, f64::min),
        tell(of(Turn::cpu_seconds_per_gib), 3, f64::max),
        tell(of(Turn::cpu_micros_per_get), 1, f64::max),
        tell(of_bare(Turn::gib_per_second), 3, f64::min),
        tell(of_bare(Turn::cpu_seconds_per_gib), 3, f64::max),
    ];
    println!("| {connections} | {kind} | {} |", cells.join(" | "));
}

/// The median, and in brackets the worst, which is the one that `worst` picks of any two.
fn tell(mut values: Vec<f64>, digits: usize, worst: fn(f64, f64) -> f64) -> String {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    let extreme = values.into_iter().fold(median, worst);
    format!("{median:.digits$} ({extreme:.digits$})")
}
