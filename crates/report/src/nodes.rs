//! The nodes that a run's ranks were on, whatever their placement.
//!
//! A node is told from another by its ranks, never by its name: containers and virtual machines are
//! often called the same.

use serde::{Deserialize, Serialize};

use crate::HostFacts;

/// A node of a run: a host, or what MPI calls one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// What it is. Its `hostname` is the name that the records of its ranks have.
    pub host: HostFacts,
    /// The numbers of its ranks, ascending.
    pub ranks: Vec<u32>,
}

/// All nodes of a run, that of rank 0 first: at least one, and each rank on one of them. In JSON, the
/// list of [`NodeFacts`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<NodeFacts>", into = "Vec<NodeFacts>")]
pub struct Nodes {
    first: NodeFacts,
    others: Vec<NodeFacts>,
}

/// The ranks of some nodes are not those of one run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the nodes of a run have each of its ranks once, and the first has rank 0, but these have the ranks \
     {ranks:?}"
)]
pub struct NodesError {
    /// The ranks of each node.
    pub ranks: Vec<Vec<u32>>,
}

impl Nodes {
    /// Of a run whose ranks are all on one node.
    pub fn single(host: HostFacts, ranks: u32) -> Self {
        Self { first: NodeFacts { host, ranks: (0..ranks).collect() }, others: Vec::new() }
    }

    /// The node of rank 0.
    pub fn first(&self) -> &NodeFacts {
        &self.first
    }

    /// All nodes, that of rank 0 first.
    pub fn iter(&self) -> impl Iterator<Item = &NodeFacts> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// How many ranks they have together.
    pub fn ranks(&self) -> u32 {
        self.iter().map(|node| node.ranks.len() as u32).sum()
    }

    /// The node of `rank`; `None` if the run has no such rank.
    pub fn of(&self, rank: u32) -> Option<&NodeFacts> {
        self.iter().find(|node| node.ranks.contains(&rank))
    }
}

impl TryFrom<Vec<NodeFacts>> for Nodes {
    type Error = NodesError;

    fn try_from(mut nodes: Vec<NodeFacts>) -> Result<Self, NodesError> {
        for node in &mut nodes {
            node.ranks.sort_unstable();
        }
        let mut all: Vec<u32> = nodes.iter().flat_map(|node| node.ranks.clone()).collect();
        all.sort_unstable();
        let each_once = (0..).zip(&all).all(|(expected, rank)| expected == *rank);
        let has_rank_0 = |node: &NodeFacts| node.ranks.first() == Some(&0);
        if !each_once || !nodes.first().is_some_and(has_rank_0) {
            return Err(NodesError { ranks: nodes.into_iter().map(|node| node.ranks).collect() });
        }
        let others = nodes.split_off(1);
        Ok(Self { first: nodes.swap_remove(0), others })
    }
}

impl From<Nodes> for Vec<NodeFacts> {
    fn from(nodes: Nodes) -> Self {
        std::iter::once(nodes.first).chain(nodes.others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn nodes(ranks: &[&[u32]]) -> Result<Nodes, NodesError> {
        let node = |ranks: &&[u32]| NodeFacts { host: fixtures::host(), ranks: ranks.to_vec() };
        ranks.iter().map(node).collect::<Vec<_>>().try_into()
    }

    #[test]
    fn every_rank_is_on_its_node_even_among_nodes_of_one_name() {
        let nodes = nodes(&[&[2, 0], &[1]]).unwrap();
        assert_eq!((nodes.count(), nodes.ranks()), (2, 3));
        let of = |rank| nodes.of(rank).map(|node| node.ranks.as_slice());
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [Some(&[0, 2][..]), Some(&[1]), Some(&[0, 2]), None]
        );
        let json = serde_json::to_value(&nodes).unwrap();
        assert_eq!(json[1]["ranks"], serde_json::json!([1]));
        assert_eq!(serde_json::from_value::<Nodes>(json).unwrap(), nodes);
    }

    #[test]
    fn ranks_that_are_missing_or_on_two_nodes_are_refused() {
        let wrong: [&[&[u32]]; 5] = [&[], &[&[]], &[&[1], &[0]], &[&[0, 1], &[1]], &[&[0], &[2]]];
        for ranks in wrong {
            let error = nodes(ranks).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{ranks:?}")), "{error}");
        }
        assert!(serde_json::from_str::<Nodes>("[]").is_err());
    }
}
