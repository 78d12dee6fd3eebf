//! What a run used on each of its nodes.

use feedrate_metrics::process::ProcessUsage;
use feedrate_metrics::units::{ByteCount, Seconds};
use serde::{Deserialize, Serialize};

use super::RunReport;

/// A node of a run: what it has, and what the run's processes there used of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// Its name, which others may have, too.
    pub host: String,
    /// The numbers of its ranks, ascending.
    pub ranks: Vec<u32>,
    /// CPUs that its kernel knows.
    pub logical_cpus: u32,
    /// Its memory in all.
    pub memory_bytes: ByteCount,
    /// Processes that its ranks were in; 0 when nobody told.
    pub processes: u32,
    /// User and system time of those processes.
    pub client_cpu_seconds: Option<Seconds>,
    /// The most memory each of them had resident at once, added up.
    pub client_peak_rss_bytes: Option<ByteCount>,
}

impl NodeFigures {
    /// Of each node of `report`, that of rank 0 first.
    pub(super) fn of(report: &RunReport) -> Vec<Self> {
        let of_node = |node: &crate::NodeFacts| {
            // All ranks of a process are where its first one is.
            let processes: Vec<ProcessUsage> = (report.record.processes.iter())
                .filter(|process| node.ranks.contains(&process.first_rank))
                .map(|process| process.usage)
                .collect();
            let used = processes.iter().copied().reduce(ProcessUsage::and);
            Self {
                host: node.host.hostname.clone(),
                ranks: node.ranks.clone(),
                logical_cpus: node.host.logical_cpus,
                memory_bytes: node.host.memory,
                processes: processes.len() as u32,
                client_cpu_seconds: used.map(|used| used.cpu),
                client_peak_rss_bytes: used.map(|used| used.peak_rss),
            }
        };
        report.nodes.iter().map(of_node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn what_processes_used_is_added_up_on_the_node_of_their_ranks() {
        let nodes = NodeFigures::of(&fixtures::two_nodes());
        let figures = |node: &NodeFigures| {
            let used = (node.client_cpu_seconds.unwrap().0, node.client_peak_rss_bytes.unwrap().0);
            (node.host.clone(), node.ranks.clone(), node.processes, used)
        };
        assert_eq!(figures(&nodes[0]), ("a".to_owned(), vec![0, 2], 2, (2.5, 300 << 20)));
        assert_eq!(figures(&nodes[1]), ("b".to_owned(), vec![1], 1, (1.0, 200 << 20)));
        assert_eq!((nodes[1].logical_cpus, nodes[1].memory_bytes), (4, ByteCount(64 << 20)));
    }

    #[test]
    fn nodes_of_one_name_are_kept_apart() {
        let mut report = fixtures::two_nodes();
        let mut nodes: Vec<crate::NodeFacts> = report.nodes.clone().into();
        nodes[1].host.hostname = "a".to_owned();
        report.nodes = nodes.try_into().unwrap();
        let ranks: Vec<_> = NodeFigures::of(&report).into_iter().map(|node| node.ranks).collect();
        assert_eq!(ranks, [vec![0, 2], vec![1]]);
    }
}
