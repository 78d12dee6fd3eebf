//! What is printed.

use std::thread::available_parallelism;

use crate::store::Payload;
use crate::{Contender, OBJECT_BYTES, Turn};

pub(crate) const FLOOR: &str = "floor";

pub(crate) const FEEDRATE: &str = "feedrate";
pub(crate) const OBJECT_STORE: &str = "object_store";
pub(crate) const REQWEST: &str = "reqwest";

/// What a client of the S3 server is called.
pub(crate) fn name(client: &str, payload: Payload) -> String {
    let payload = match payload {
        Payload::Landing => "landing",
        Payload::Discarding => "discarding",
    };
    format!("{client}, {payload}")
}

/// A figure of a turn.
struct Figure {
    of: fn(&Turn) -> f64,
    /// Which of two is the worse one.
    worse: fn(f64, f64) -> f64,
}

const THROUGHPUT: Figure = Figure { of: Turn::gib_per_second, worse: f64::min };
const CLIENT_CPU: Figure = Figure { of: Turn::client_cpu_per_gib, worse: f64::max };

impl Turn {
    fn gib(&self) -> f64 {
        (self.gets * OBJECT_BYTES) as f64 / f64::from(1 << 30)
    }

    fn gib_per_second(&self) -> f64 {
        self.gib() / self.elapsed.as_secs_f64()
    }

    /// CPU-seconds.
    fn client_cpu_per_gib(&self) -> f64 {
        self.client_cpu.as_secs_f64() / self.gib()
    }

    /// CPU-seconds; `None` without a server.
    fn server_cpu_per_gib(&self) -> Option<f64> {
        Some(self.server_cpu?.as_secs_f64() / self.gib())
    }

    /// The share of the CPUs that neither client nor server used.
    pub(crate) fn others_share(&self) -> f64 {
        let own = self.client_cpu + self.server_cpu.unwrap_or_default();
        let cpus = available_parallelism().map_or(1, usize::from) as f64;
        self.all_cpu.saturating_sub(own).as_secs_f64() / (self.elapsed.as_secs_f64() * cpus)
    }
}

impl Contender<'_> {
    fn figures(&self, figure: &Figure) -> Vec<f64> {
        self.turns.iter().map(figure.of).collect()
    }

    /// A figure in each round, as a ratio to what `other` had in the same one.
    fn ratios(&self, figure: &Figure, other: &Self) -> Vec<f64> {
        let (own, other) = (self.figures(figure), other.figures(figure));
        own.iter().zip(other).map(|(own, other)| own / other).collect()
    }
}

/// Prints how everybody did with so many GETs in flight, and how this project's engine compares.
pub(crate) fn print(in_flight: usize, contenders: &[Contender], repeated: usize) {
    let find = |name: &str| contenders.iter().find(|contender| contender.name == name);
    let floor = find(FLOOR);
    println!(
        "\n| {in_flight} in flight | GiB/s | client CPU-s/GiB | server CPU-s/GiB | GiB/s ÷ floor's | \
         client CPU ÷ floor's | allocations a GET | KiB allocated a GET |\n|---|---|---|---|---|---|---|---|"
    );
    for contender in contenders {
        let of_floor = |figure| ratio_cell(Some(contender), figure, floor);
        let server_cpu = contender.turns.iter().filter_map(Turn::server_cpu_per_gib).collect();
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
            contender.name,
            cell(contender.figures(&THROUGHPUT), THROUGHPUT.worse, 2),
            cell(contender.figures(&CLIENT_CPU), CLIENT_CPU.worse, 3),
            cell(server_cpu, f64::max, 3),
            of_floor(&THROUGHPUT),
            of_floor(&CLIENT_CPU),
            contender.allocations_per_get.count,
            contender.allocations_per_get.bytes / 1024.0,
        );
    }

    let of = |client| Payload::BOTH.map(|payload| find(&name(client, payload)));
    let [feedrate, object_store, reqwest] = [FEEDRATE, OBJECT_STORE, REQWEST].map(of);
    println!(
        "\n| feedrate, {in_flight} in flight | goal at 64 | landing | discarding |\n|---|---|---|---|"
    );
    for (what, goal, figure, others) in [
        ("GiB/s ÷ object_store's over reqwest", "≥ 1.4", &THROUGHPUT, reqwest),
        ("client CPU-s/GiB ÷ object_store's over reqwest", "≤ 0.5", &CLIENT_CPU, reqwest),
        ("GiB/s ÷ object_store's engine", "-", &THROUGHPUT, object_store),
        ("client CPU-s/GiB ÷ object_store's engine", "-", &CLIENT_CPU, object_store),
        ("GiB/s ÷ floor's", "≥ 0.6", &THROUGHPUT, [floor; 2]),
        ("client CPU-s/GiB ÷ floor's", "≤ 1.8", &CLIENT_CPU, [floor; 2]),
    ] {
        let [landing, discarding] =
            [0, 1].map(|payload| ratio_cell(feedrate[payload], figure, others[payload]));
        println!("| {what} | {goal} | {landing} | {discarding} |");
    }

    let turns = contenders.iter().flat_map(|contender| &contender.turns);
    let shares = turns.map(|turn| turn.others_share() * 100.0).collect();
    let shares = cell(shares, f64::max, 1);
    println!(
        "\nOther programs took {shares} % of the CPUs in a turn; {repeated} rounds were repeated."
    );
}

/// How the one compares with the other; a dash where one of them was not asked for.
fn ratio_cell(one: Option<&Contender>, figure: &Figure, other: Option<&Contender>) -> String {
    let ratios = one.zip(other).map(|(one, other)| one.ratios(figure, other));
    cell(ratios.unwrap_or_default(), figure.worse, 2)
}

/// The median, and in brackets the one that `choose` picks of any two; a dash for no values.
fn cell(mut values: Vec<f64>, choose: fn(f64, f64) -> f64, decimals: usize) -> String {
    values.sort_by(f64::total_cmp);
    let Some(worst) = values.iter().copied().reduce(choose) else { return "-".to_owned() };
    format!("{:.decimals$} ({worst:.decimals$})", values[values.len() / 2])
}
