//! The processes of a run, as one of them sees the others: alone, or started by an MPI launcher.
//!
//! The first process decides and the others follow: what it resolves, finds and opens is shared with
//! them ([`Crew::share`]), credentials included, so that a process with an empty environment works.
//! Whoever fails takes all others along, and one of them says why ([`Crew::close`]).

#[cfg(not(feature = "mpi"))]
mod no_mpi;

use std::time::Duration;

use feedrate_dataset::Part;
use feedrate_ranks::in_process;
#[cfg(feature = "mpi")]
use feedrate_ranks::mpi::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::signal::unix::SignalKind;

#[cfg(not(feature = "mpi"))]
use self::no_mpi::Cluster;
use crate::environment::Environment;
use crate::exit::{INTERRUPTED, Outcome, logged, tell_error, usage};
use crate::interrupt::{Signals, exit_on_signal};
use crate::launcher::{self, refuse_ranks};

/// How much later than the first process the others end when the job has failed.
const AFTER_THE_FIRST: Duration = Duration::from_millis(100);

/// How long an alarm has to end this process before it ends by itself.
const LAST_CHANCE: Duration = Duration::from_secs(10);

/// How processes work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CrewOptions {
    /// Ranks in each process; 1 unless told otherwise.
    pub(crate) ranks_per_process: Option<u32>,
    /// How often processes tell each other that they are alive.
    pub(crate) heartbeat: Duration,
    /// A process that was not heard of for so long is lost.
    pub(crate) dead_after: Duration,
}

impl Default for CrewOptions {
    fn default() -> Self {
        Self {
            ranks_per_process: None,
            heartbeat: Duration::from_secs(1),
            dead_after: Duration::from_secs(6),
        }
    }
}

/// This process and those that run the same job.
pub(crate) struct Crew {
    cluster: Option<Cluster>,
    ranks_per_process: u32,
}

impl Crew {
    /// Joins the processes that a launcher started together with this one, if one did. To be called
    /// before there are other threads.
    pub(crate) fn join(environment: &Environment, options: CrewOptions) -> anyhow::Result<Self> {
        let CrewOptions { heartbeat, dead_after, .. } = options;
        if dead_after < 2 * heartbeat {
            let error = usage(format!(
                "--dead-after {} must be at least twice --heartbeat {}",
                dead_after.as_secs_f64(),
                heartbeat.as_secs_f64()
            ));
            // Every process finds that; one says it.
            let speaks = launcher::rank(&environment.variables).is_none_or(|rank| rank == 0);
            return Err(if speaks { error } else { logged(error) });
        }
        #[cfg(feature = "mpi")]
        if feedrate_ranks::mpi::is_launched(|name| environment.variables.contains_key(name)) {
            return Self::launched(environment, options);
        }
        refuse_ranks(&environment.variables)?;
        if options.ranks_per_process.is_some() {
            return Err(usage(
                "--ranks-per-process needs a launcher, such as mpirun, and a program built with MPI \
                 (--features mpi); in one process --np says how many ranks there are",
            ));
        }
        Ok(Self::alone())
    }

    /// One process.
    pub(crate) fn alone() -> Self {
        Self { cluster: None, ranks_per_process: 1 }
    }
}

impl Crew {
    #[cfg(feature = "mpi")]
    fn launched(environment: &Environment, options: CrewOptions) -> anyhow::Result<Self> {
        use feedrate_ranks::mpi::Options;

        let mut cluster_options = Options::new(|loss| {
            if loss.speaks {
                crate::output::tell(format_args!("error: {}", loss.aborted));
            }
            std::process::exit(1);
        });
        cluster_options.heartbeat = options.heartbeat;
        cluster_options.dead_after = options.dead_after;
        cluster_options.node_name = environment.get("FEEDRATE_NODE_NAME").map(str::to_owned);
        let cluster = Cluster::start(cluster_options)?;
        if cluster.processes() == 1
            && let Err(error) = refuse_ranks(&environment.variables)
        {
            // Each of them is alone, whatever the launcher says.
            cluster.finish().map_err(|loss| loss.aborted)?;
            return Err(error);
        }
        let ranks_per_process = options.ranks_per_process.unwrap_or(1);
        let crew = Self { cluster: Some(cluster), ranks_per_process };
        match crew.same_version() {
            Ok(()) => Ok(crew),
            Err(error) => Err(crew.close(Err(error)).err().unwrap_or_else(|| usage("no reason"))),
        }
    }

    /// Refuses to work with processes of another version, which may understand things differently.
    #[cfg(feature = "mpi")]
    fn same_version(&self) -> anyhow::Result<()> {
        use crate::args::VERSION;

        let versions = self.collect(|| Ok(VERSION.to_owned()))?;
        let other = versions.iter().zip(0..).find(|(version, _)| *version != VERSION);
        match other {
            None => Ok(()),
            Some((version, process)) => Err(anyhow::anyhow!(
                "process 0 is Feedrate {VERSION}, process {process} is {version}: install one version on \
                 all hosts"
            )),
        }
    }

    fn process(&self) -> u32 {
        self.cluster.as_ref().map_or(0, Cluster::process)
    }

    /// Whether this process decides.
    pub(crate) fn is_first(&self) -> bool {
        self.process() == 0
    }

    /// The number of ranks of the whole job, if `asked` fits.
    pub(crate) fn ranks(&self, asked: Option<u32>) -> anyhow::Result<u32> {
        let Some(cluster) = &self.cluster else { return Ok(asked.unwrap_or(1)) };
        let (processes, each) = (cluster.processes(), self.ranks_per_process);
        let ranks = processes
            .checked_mul(each)
            .ok_or_else(|| usage(format!("{processes} processes of {each} ranks are too many")))?;
        match asked {
            Some(asked) if asked != ranks => Err(usage(format!(
                "--np {asked} does not fit: the launcher started {processes} processes of {each} ranks \
                 (--ranks-per-process). Leave --np out"
            ))),
            _ => Ok(ranks),
        }
    }

    /// Gives every process what the first one makes; if that fails, all fail.
    pub(crate) fn share<T: Serialize + DeserializeOwned>(
        &self,
        own: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Some(cluster) = &self.cluster else { return own() };
        if self.is_first() {
            let made = own().inspect_err(|error| drop(cluster.fail(&format!("{error:#}"))))?;
            cluster.broadcast(serde_json::to_vec(&made)?)?;
            return Ok(made);
        }
        let bytes = cluster.broadcast(Vec::new())?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// What every process makes, in their order, in the first one; nothing in the others. If one fails,
    /// all fail.
    pub(crate) fn collect<T: Serialize + DeserializeOwned>(
        &self,
        own: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let Some(cluster) = &self.cluster else { return Ok(vec![own()?]) };
        let made = own().inspect_err(|error| drop(cluster.fail(&format!("{error:#}"))))?;
        let gathered = cluster.gather(serde_json::to_vec(&made)?)?.unwrap_or_default();
        Ok(gathered.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<_, _>>()?)
    }

    /// The ranks of this process in a world of `ranks`.
    pub(crate) fn worlds(&self, ranks: u32) -> anyhow::Result<Vec<in_process::Rank>> {
        match &self.cluster {
            None => Ok(in_process::world(ranks)),
            Some(cluster) => Ok(cluster.worlds(self.ranks_per_process)?),
        }
    }

    /// Which of what is to be done by all is this process's.
    pub(crate) fn part(&self) -> Part {
        self.cluster.as_ref().map_or_else(Part::default, |cluster| Part {
            number: cluster.process().into(),
            of: cluster.processes().into(),
        })
    }

    /// The ranks of each node, and which process's facts are those of the node; the first one's first.
    pub(crate) fn nodes(&self, ranks: u32) -> Vec<(usize, Vec<u32>)> {
        let Some(cluster) = &self.cluster else { return vec![(0, (0..ranks).collect())] };
        let each = self.ranks_per_process;
        let nodes = cluster.nodes().iter().map(|node| {
            let ranks =
                node.processes.iter().flat_map(|process| process * each..(process + 1) * each);
            (node.processes.first().map_or(0, |process| *process as usize), ranks.collect())
        });
        nodes.collect()
    }

    /// How many of so many ranks share a node, on the one that has most of them.
    pub(crate) fn most_on_a_node(&self, ranks: u32) -> u32 {
        self.nodes(ranks).iter().map(|(_, ranks)| ranks.len() as u32).max().unwrap_or(ranks)
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> u32 {
        self.cluster.as_ref().map_or(1, Cluster::processes)
    }

    /// The name of this process's node, where processes are told apart by it.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.cluster.as_ref().map(Cluster::host)
    }

    /// Ends this process on SIGINT and SIGTERM, after saying `what_stays`. A launcher sends SIGTERM to
    /// the processes of a job of which one has died: which one, the others find out first.
    pub(crate) fn watch_signals(&self, runtime: &Handle, what_stays: &'static str) {
        let Some(cluster) = &self.cluster else { return exit_on_signal(runtime, what_stays) };
        let alarm = cluster.alarm();
        runtime.spawn(async move {
            let Ok(mut signals) = Signals::new() else { return };
            alarm.raise(if signals.next().await == SignalKind::interrupt() {
                "interrupted"
            } else {
                "SIGTERM from the launcher"
            });
        });
    }

    /// What the first process of a sweep's run does when the sweep is gone.
    pub(crate) fn leave_without_parent(&self) -> impl FnOnce() + Send + 'static {
        let alarm = self.cluster.as_ref().map(Cluster::alarm);
        move || {
            if let Some(alarm) = alarm {
                // The others are to know, and not to take this process for one that died.
                alarm.raise("the sweep has ended");
                std::thread::sleep(LAST_CHANCE);
            }
            std::process::exit(i32::from(INTERRUPTED));
        }
    }

    /// Ends what the processes had together. An error that another process tells is not told here.
    pub(crate) fn close(mut self, result: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
        let first = self.is_first();
        let Some(cluster) = self.cluster.take() else { return result };
        let error = match result {
            Ok(outcome) => match cluster.finish() {
                Ok(()) => return Ok(outcome),
                Err(loss) => {
                    let error = loss.aborted.into();
                    if loss.speaks {
                        tell_error(&error);
                    }
                    error
                }
            },
            Err(error) => {
                cluster.fail(&format!("{error:#}"));
                // Told before the cluster goes, which waits for the others: once one process has ended, the
                // launcher ends those that are left, and shows no more of what they say.
                if cluster.claim_word() {
                    tell_error(&error);
                }
                drop(cluster);
                error
            }
        };
        // The launcher takes the exit code of the process that ends first.
        if !first {
            std::thread::sleep(AFTER_THE_FIRST);
        }
        Err(logged(error))
    }
}
