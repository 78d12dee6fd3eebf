//! Ranks in many processes on many hosts, joined by MPI.
//!
//! A launcher (`mpirun`, `srun`) starts the processes; each makes itself a [`Cluster`] and with it its
//! part of the world: [`Cluster::worlds`] gives K ranks per process, which are threads as they are in
//! [`in_process`](crate::in_process). Rank = process × K + number within the process.
//!
//! In a collective, the ranks of a process meet as threads, and the last one to come meets the other
//! processes. Nothing waits inside the library: whoever waits asks it again and again (`patience`),
//! and looks whether the job has failed in between. A thread of its own keeps in touch with the other
//! processes (`liveness`): a rank that fails, a process that dies and a host that is lost end
//! every rank's wait with an [`Aborted`] that names rank, host and cause, within seconds. A process
//! whose ranks are busy elsewhere then is told by [`Options::on_lost`].
//!
//! # The end
//!
//! After [`Cluster::finish`] has returned `Ok`, MPI is finalized and all processes know that all is
//! well. In every other case MPI is not finalized, since that waits for processes that may be gone,
//! and the process must end itself with an exit code that is not 0: the launcher then ends what is
//! left of the job. An error that goes up to `main` does that, and drops the [`Cluster`] on the way;
//! `on_lost` calls [`std::process::exit`].
//!
//! A launcher that sees a process die sends SIGTERM to the others, and SIGKILL soon after (Open MPI: a
//! second). So that somebody can say which one died, the program handles SIGTERM by
//! [`Alarm::raise`], and `on_lost` is called in time.
//!
//! # What launchers should be told
//!
//! `mpirun` of Open MPI 4 waits for the daemon of a host that it cannot reach any more, even when all
//! its processes have ended; `--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca
//! oob_tcp_keepalive_probes 2` makes it notice. `--mca mpi_yield_when_idle 1` changes only calls that
//! wait inside the library, which are those of the start and of the finalization. MPICH's launcher
//! kills the processes of a job with SIGKILL when one dies, so that its own text is all there is.

mod attendance;
mod exchange;
mod frames;
mod library;
mod liveness;
mod nodes;
mod notice;
mod patience;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use self::exchange::Exchange;
pub use self::library::CallError;
use self::library::{InitError, Library};
pub use self::nodes::Node;
use self::nodes::Place;
use self::shared::Shared;
use crate::Aborted;
pub use crate::team::Rank;
use crate::team::{Outside, Team};

/// How processes keep in touch, and what this one is to do when the job is lost.
pub struct Options {
    /// How often processes tell each other that they are alive.
    pub heartbeat: Duration,
    /// A process that was not heard of for so long is lost. At least twice the heartbeat.
    pub dead_after: Duration,
    /// The name of this process's node; processes that were given the same name count as being on one
    /// node. Without it, those that share memory do, and the node is named after the host.
    pub node_name: Option<String>,
    /// Called, once and on another thread, when the job has failed and this process has not called
    /// [`Cluster::finish`] or dropped the cluster soon after, as its ranks do not look: it says so to
    /// the user if [`Loss::speaks`], and ends the process.
    pub on_lost: Box<dyn Fn(&Loss) + Send>,
}

impl Options {
    /// A heartbeat every second, lost after 6 s.
    pub fn new(on_lost: impl Fn(&Loss) + Send + 'static) -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            dead_after: Duration::from_secs(6),
            node_name: None,
            on_lost: Box::new(on_lost),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { heartbeat, dead_after, node_name, on_lost: _ } = self;
        f.debug_struct("Options")
            .field("heartbeat", heartbeat)
            .field("dead_after", dead_after)
            .field("node_name", node_name)
            .finish_non_exhaustive()
    }
}

/// The job has failed.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Why.
    pub aborted: Aborted,
    /// Whether this process is to tell the user, see [`Cluster::claim_word`].
    pub speaks: bool,
}

/// Why a process could not join the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// It did already.
    #[error("MPI is initialized already in this process")]
    Twice,
    /// The library cannot be called from several threads at a time.
    #[error(
        "the MPI library does not allow calls from several threads (MPI_THREAD_MULTIPLE); use a build \
         of it that does"
    )]
    NoThreads,
    /// The times contradict each other.
    #[error(
        "a process cannot be given up after {dead_after:?} when it is heard of every {heartbeat:?}: \
         the former must be at least twice the latter, and the latter more than 0"
    )]
    Times {
        /// [`Options::heartbeat`].
        heartbeat: Duration,
        /// [`Options::dead_after`].
        dead_after: Duration,
    },
    /// A call of the library failed.
    #[error("MPI did not start: {0}")]
    Call(#[from] CallError),
    /// The thread that keeps in touch could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Another process failed meanwhile.
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl From<InitError> for ClusterError {
    fn from(error: InitError) -> Self {
        match error {
            InitError::Twice => Self::Twice,
            InitError::NoThreads => Self::NoThreads,
            InitError::Call(error) => Self::Call(error),
        }
    }
}

/// Whether this process was started by an MPI launcher, going by the environment: `has` says whether
/// a variable is set. Knows Open MPI, MPICH and its kin, and `srun` with `--mpi=pmix` or `pmi2`.
pub fn is_launched(has: impl Fn(&str) -> bool) -> bool {
    ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"].into_iter().any(has)
}

/// This process's place among the others: the guard of MPI, which is process-wide. Stays on the thread
/// that made it.
///
/// Calls that are marked as collective are made by all processes in the same order.
#[derive(Debug)]
pub struct Cluster {
    library: Library,
    shared: Arc<Shared>,
    exchange: Exchange,
    nodes: Vec<Node>,
    host: String,
    liveness: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Joins the other processes of the job. Collective; at most once in a process, and before it has
    /// other threads that read or change the environment, as MPI changes it.
    ///
    /// Open MPI's own explanations of errors in this process are silenced, as they get in the way when
    /// a process is lost; `OMPI_MCA_orte_execute_quiet=0` in the environment brings them back.
    pub fn start(options: Options) -> Result<Self, ClusterError> {
        let Options { heartbeat, dead_after, .. } = options;
        if heartbeat.is_zero() || dead_after < 2 * heartbeat {
            return Err(ClusterError::Times { heartbeat, dead_after });
        }
        let library = Library::init()?;
        let (control, communicator) = (library.communicator()?, library.communicator()?);
        let leader = library.node_leader(&communicator)?;
        let host = library.host()?;
        let place = Place { chosen: options.node_name.clone(), host, leader };
        let shared = Arc::new(Shared::new(control.process(), control.processes()));
        let exchange = Exchange { communicator, shared: Arc::clone(&shared) };
        let liveness = std::thread::Builder::new().name("liveness".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || liveness::keep_in_touch(&control, &shared, &options)
        })?;
        let host = place.name().to_owned();
        let liveness = Some(liveness);
        let mut cluster = Self { library, shared, exchange, nodes: Vec::new(), host, liveness };
        let places = cluster.share_places(&place)?;
        cluster.nodes = nodes::group(&places);
        cluster.shared.set_places(places);
        Ok(cluster)
    }

    fn share_places(&self, own: &Place) -> Result<Vec<Place>, Aborted> {
        let gathered = self.exchange.gather_from_processes(own.to_bytes())?;
        let all = self.exchange.broadcast(frames::join(&gathered.unwrap_or_default()))?;
        let places = frames::split(&all).unwrap_or_default();
        let places = places.iter().filter_map(|place| Place::from_bytes(place));
        let places: Vec<Place> = places.collect();
        if places.len() == self.processes() as usize {
            Ok(places)
        } else {
            Err(self.fail(
                "the processes do not understand each other; is this one program everywhere?",
            ))
        }
    }

    /// This process's number, from 0.
    pub fn process(&self) -> u32 {
        self.shared.process
    }

    /// How many processes there are.
    pub fn processes(&self) -> u32 {
        self.shared.processes
    }

    /// The name of this process's host, or [`Options::node_name`].
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The nodes, in the order of their lowest processes; each process is on one of them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether the caller is the one that tells the user why the job has failed, so that it is told
    /// once: process 0, or if that is lost, the lowest process of each node; and there whoever asks
    /// first, this or [`Options::on_lost`].
    pub fn claim_word(&self) -> bool {
        self.shared.claim_word()
    }

    /// Gives every process the bytes of process 0; those of others are ignored. Collective.
    pub fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        self.exchange.broadcast(bytes)
    }

    /// Brings the bytes of every process to process 0, in the order of processes; the others get
    /// `None`. Collective.
    pub fn gather(&self, bytes: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        self.exchange.gather_from_processes(bytes)
    }

    /// This process's ranks in a new world, `ranks_per_process` of them, to be moved into their
    /// threads. Collective, with the same number everywhere. Worlds do not disturb each other, but
    /// those of one cluster have the same number of ranks.
    ///
    /// # Panics
    /// When `ranks_per_process` is 0.
    pub fn worlds(&self, ranks_per_process: u32) -> Result<Vec<Rank>, Aborted> {
        let of_0 = self.broadcast(ranks_per_process.to_le_bytes().to_vec())?;
        if of_0 != ranks_per_process.to_le_bytes() {
            let cause = format!("it has {ranks_per_process} ranks per process, unlike process 0");
            return Err(self.fail(&cause));
        }
        self.shared.set_ranks_per_process(ranks_per_process);
        let communicator =
            self.library.communicator().map_err(|error| self.fail(&error.to_string()))?;
        let own = self.process();
        let leads_node = self.nodes.iter().any(|node| node.processes.first() == Some(&own));
        let team = Team {
            first: self.shared.first_rank(own),
            leads_node,
            size: self.processes() * ranks_per_process,
            meeting: self.shared.meeting(ranks_per_process),
            outside: Box::new(Exchange { communicator, shared: Arc::clone(&self.shared) }),
        };
        Ok(team.ranks())
    }

    /// A way for other threads to say that something is wrong.
    pub fn alarm(&self) -> Alarm {
        Alarm { shared: Arc::clone(&self.shared) }
    }

    /// Ends the job, on all processes, with this process's `cause`. Only the first failure counts,
    /// which is returned.
    pub fn fail(&self, cause: &str) -> Aborted {
        let process = self.process();
        let rank = self.shared.first_rank(process);
        self.shared.fail(self.shared.failure(process, rank, cause.to_owned()))
    }

    /// Waits until all processes have finished, and finalizes MPI. Collective. No rank may be in a
    /// collective any more.
    ///
    /// When the job has failed, waits a little for the others, and does not finalize.
    pub fn finish(mut self) -> Result<(), Loss> {
        self.leave();
        let aborted = match self.shared.aborted() {
            Some(aborted) => aborted.clone(),
            None if self.library.finalize() => return Ok(()),
            None => self.fail("a rank was still in a collective when its process finished"),
        };
        Err(Loss { aborted, speaks: self.claim_word() })
    }

    /// Says that this process has nothing more to do, and stays as long as others need it.
    fn leave(&mut self) {
        self.shared.wish(|wishes| wishes.leave = true);
        if let Some(liveness) = self.liveness.take() {
            // It cannot have panicked but in the callback, which has told of it.
            let _ = liveness.join();
        }
    }
}

impl Drop for Cluster {
    /// A process that ends without [`Cluster::finish`] takes the job with it.
    fn drop(&mut self) {
        if self.liveness.is_some() {
            self.fail("its process ended before the job was over");
            self.leave();
        }
    }
}

/// Says to the cluster that something is wrong. May be used by any thread, at any time.
#[derive(Debug, Clone)]
pub struct Alarm {
    shared: Arc<Shared>,
}

impl Alarm {
    /// Something is wrong, namely `reason` (such as "SIGTERM from the launcher"). Returns at once.
    /// Within a second the job has failed: with the loss of a process if one does not answer,
    /// otherwise with `reason`. [`Options::on_lost`] is called at once then.
    pub fn raise(&self, reason: &str) {
        self.shared.wish(|wishes| wishes.roll_call = Some(reason.to_owned()));
    }
}
