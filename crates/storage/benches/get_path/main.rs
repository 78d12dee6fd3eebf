//! What a GET costs, beside what the machine's loopback costs at least.
//!
//!     cargo bench -p feedrate-storage --bench get_path [-- [quick] [--rounds N] [--in-flight N]... [WORD...]]
//!
//! Objects of RetinaNet's record length are read over and over, some number of GETs in flight at a time,
//! by each of these clients:
//! - *floor*: blocking threads on bare sockets, in and out, and no protocol to speak of. No client can be
//!   cheaper on this machine.
//! - *feedrate* and *`object_store`*: the two engines of the S3 store, as the rest of Feedrate sees them
//!   (through the trait, with signing, retries and counters), from the embedded server.
//! - *reqwest*: `object_store` as it comes, with the client below it that most programs use.
//! - *memory* and *files*: the same trait over a map and over files in the page cache.
//!
//! *Landing* leaves each object in its reader's buffer, *discarding* lets the bytes go as they arrive (the
//! floor does too). There are 1.2 GiB of distinct objects, read in turn by all readers, so that they come
//! from memory and not from a CPU's cache. Each server is a process of its own, so that its CPU time is its
//! own, but client and server share the CPUs: figures are to be compared with each other in one run, not
//! with a network's. Machines drift, so the clients take turns, another one first in each round, and what
//! counts is the median of the rounds; the worst stands beside it, in brackets. A round in which other
//! programs took much of the CPUs is taken again, unless that happens too often. Allocations are the
//! client's, counted in a turn of its own that is not timed.
//!
//! Words pick the clients whose names have one of them. `quick` shows within seconds that everything
//! works; its figures say little.

mod allocations;
mod floor;
mod reqwest;
mod server;
mod store;
mod table;

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::exit;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedrate_metrics::process::busy_time;
use feedrate_storage::{GetEngine, LocalStore, MemoryStore, Store};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use allocations::Allocations;
use server::Server;
use store::{Objects, Payload};

/// Bytes of an object: RetinaNet's record length.
const OBJECT_BYTES: usize = 322_957;

/// How much is measured.
struct Extent {
    /// Distinct objects.
    objects: usize,
    /// Turns of each client at each number of GETs in flight.
    rounds: usize,
    /// How many more rounds there may be instead of disturbed ones.
    repeats: usize,
    /// How long a turn is. CPU time of servers comes in ticks of 10 ms.
    turn: Duration,
    /// How long a turn is that is not timed: the first, in which connections are made, and the one in
    /// which allocations are counted.
    untimed_turn: Duration,
}

const FULL: Extent = Extent {
    objects: 4_096,
    rounds: 5,
    repeats: 15,
    turn: Duration::from_secs(1),
    untimed_turn: Duration::from_millis(400),
};
const QUICK: Extent = Extent {
    objects: 256,
    rounds: 1,
    repeats: 0,
    turn: Duration::from_millis(250),
    untimed_turn: Duration::from_millis(50),
};

/// The share of the CPUs that other programs may take in a turn.
const DISTURBED: f64 = 0.1;

/// GETs in flight, unless the command line says otherwise.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];

const USAGE: &str = "arguments: [quick] [--rounds N] [--in-flight N]... [WORD...]";

/// What the command line asks for.
struct Request {
    extent: Extent,
    in_flight: Vec<usize>,
    words: Vec<String>,
}

impl Request {
    /// `None` if it cannot be understood.
    fn parse(arguments: Vec<String>) -> Option<Self> {
        let quick = arguments.iter().any(|argument| argument == "quick");
        let mut request = Self {
            extent: if quick { QUICK } else { FULL },
            in_flight: Vec::new(),
            words: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next()?.parse().ok().filter(|&number| number > 0);
            match argument.as_str() {
                "quick" | "--bench" => {}
                "--rounds" => request.extent.rounds = number()?,
                "--in-flight" => request.in_flight.push(number()?),
                option if option.starts_with('-') => return None,
                _ => request.words.push(argument),
            }
        }
        if request.in_flight.is_empty() {
            request.in_flight = IN_FLIGHT.to_vec();
        }
        Some(request)
    }

    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let Some(kind) = server::Kind::of_process(&arguments) {
        return server::run(kind);
    }
    // Test runners start benches too, without the one or with the other.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    if !is_bench || arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let Some(request) = Request::parse(arguments) else {
        eprintln!("{USAGE}");
        exit(2);
    };

    let runtime = Runtime::new().expect("threads can be started");
    let folder = tempfile::tempdir().expect("there is a place for files");
    let mut contenders = contenders(&request, &runtime, folder.path());
    for &in_flight in &request.in_flight {
        for contender in &mut contenders {
            contender.prepare(in_flight, request.extent.untimed_turn);
        }
        let repeated = take_rounds(&request.extent, in_flight, &mut contenders);
        table::print(in_flight, &contenders, repeated);
    }
}

/// Takes all rounds, and returns how many were disturbed and taken again.
fn take_rounds(extent: &Extent, in_flight: usize, contenders: &mut [Contender]) -> usize {
    let mut repeated = 0;
    let mut counted = 0;
    while counted < extent.rounds {
        for place in 0..contenders.len() {
            let index = (place + counted + repeated) % contenders.len();
            contenders[index].take_turn(in_flight, extent.turn);
        }
        let last_turns = contenders.iter().filter_map(|contender| contender.turns.last());
        let is_disturbed = last_turns.map(Turn::others_share).any(|share| share > DISTURBED);
        if is_disturbed && repeated < extent.repeats {
            repeated += 1;
            for contender in &mut *contenders {
                contender.turns.pop();
            }
        } else {
            counted += 1;
        }
    }
    repeated
}

/// Something that gets objects.
trait Client {
    /// Gets objects, `in_flight` at a time, until it is `end`, and returns how many.
    fn get_until(&mut self, end: Instant, in_flight: usize) -> usize;
}

/// A client, where its objects come from, and how it did with the present number of GETs in flight.
struct Contender<'a> {
    name: String,
    client: Box<dyn Client + 'a>,
    server: Option<Rc<Server>>,
    turns: Vec<Turn>,
    allocations_per_get: Allocations<f64>,
}

/// What one turn came to.
struct Turn {
    gets: usize,
    elapsed: Duration,
    client_cpu: Duration,
    server_cpu: Option<Duration>,
    /// What everything on this machine used, client and server included.
    all_cpu: Duration,
}

impl<'a> Contender<'a> {
    fn new(name: String, client: impl Client + 'a, server: Option<Rc<Server>>) -> Self {
        let allocations_per_get = Allocations::default();
        Self { name, client: Box::new(client), server, turns: Vec::new(), allocations_per_get }
    }

    /// Forgets the turns so far, makes what is made once, such as connections, and counts what is
    /// allocated after that.
    fn prepare(&mut self, in_flight: usize, time: Duration) {
        self.turns.clear();
        self.client.get_until(Instant::now() + time, in_flight);
        let end = Instant::now() + time;
        let (gets, allocations) = Allocations::during(|| self.client.get_until(end, in_flight));
        self.allocations_per_get = allocations.per(gets);
    }

    fn take_turn(&mut self, in_flight: usize, time: Duration) {
        let used = || {
            let server = self.server.as_ref().map(|server| server.cpu());
            (own_cpu(), server, busy_time(|_| true).expect("/proc/stat can be read"))
        };
        let (client_before, server_before, all_before) = used();
        let began = Instant::now();
        let gets = self.client.get_until(began + time, in_flight);
        let elapsed = began.elapsed();
        let (client, server, all) = used();
        self.turns.push(Turn {
            gets,
            elapsed,
            client_cpu: client.saturating_sub(client_before),
            server_cpu: server
                .zip(server_before)
                .map(|(after, before)| after.saturating_sub(before)),
            all_cpu: all.saturating_sub(all_before),
        });
    }
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Makes a client of the S3 server at an address.
type Open = fn(SocketAddr) -> Arc<dyn Store>;

/// The clients that were asked for, with all objects where they look for them.
fn contenders<'a>(request: &Request, runtime: &'a Runtime, folder: &Path) -> Vec<Contender<'a>> {
    let objects = Arc::new(Objects::new(request.extent.objects));
    let mut contenders = Vec::new();
    if request.wants(table::FLOOR) {
        let server = Rc::new(Server::start(server::Kind::Floor { objects: objects.len() }));
        let client = floor::Client::new(server.address(), objects.len());
        contenders.push(Contender::new(table::FLOOR.to_owned(), client, Some(server)));
    }

    let mut s3 = None;
    let clients: [(&str, Open); 3] = [
        (table::FEEDRATE, |server| store::s3(server, GetEngine::Feedrate)),
        (table::OBJECT_STORE, |server| store::s3(server, GetEngine::ObjectStore)),
        (table::REQWEST, reqwest::store),
    ];
    for (client, open) in clients {
        for payload in Payload::BOTH {
            let name = table::name(client, payload);
            if !request.wants(&name) {
                continue;
            }
            let server = s3.get_or_insert_with(|| {
                let server = Server::start(server::Kind::S3);
                let writer = store::s3(server.address(), GetEngine::Feedrate);
                store::fill(&*writer, &objects, runtime);
                Rc::new(server)
            });
            let store = open(server.address());
            let client = store::Client::new(store, payload, &objects, runtime);
            contenders.push(Contender::new(name, client, Some(Rc::clone(server))));
        }
    }

    let mut local = |name: &str, open: &dyn Fn() -> Arc<dyn Store>| {
        if request.wants(name) {
            let store = open();
            store::fill(&*store, &objects, runtime);
            let client = store::Client::new(store, Payload::Landing, &objects, runtime);
            contenders.push(Contender::new(name.to_owned(), client, None));
        }
    };
    local("memory", &|| store::retrying(MemoryStore::new()));
    local("files", &|| store::retrying(LocalStore::new(folder).expect("a thread can be started")));
    // Or files would be on their way to the disk while others have their turns.
    rustix::fs::sync();
    contenders
}
