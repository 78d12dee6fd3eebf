//! Which processes run on which node.

use super::frames;

/// A host of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it calls itself, or [`Options::node_name`](super::Options::node_name). Not unique: hosts
    /// may have been given the same name.
    pub name: String,
    /// The processes that run there, ascending.
    pub processes: Vec<u32>,
}

/// What a process knows of where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Chosen by the user, instead of the host's.
    pub(crate) chosen: Option<String>,
    pub(crate) host: String,
    /// The lowest process that it shares memory with, as the library sees it.
    pub(crate) leader: u32,
}

impl Place {
    pub(crate) fn name(&self) -> &str {
        self.chosen.as_deref().unwrap_or(&self.host)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let chosen = self.chosen.as_ref().map(|chosen| chosen.clone().into_bytes());
        let always = [self.leader.to_le_bytes().to_vec(), self.host.clone().into_bytes()];
        frames::join(&always.into_iter().chain(chosen).collect::<Vec<_>>())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut parts = frames::split(bytes)?.into_iter();
        let leader = u32::from_le_bytes(parts.next()?.try_into().ok()?);
        let host = String::from_utf8(parts.next()?).ok()?;
        let chosen = parts.next().map(String::from_utf8).transpose().ok()?;
        Some(Self { chosen, host, leader })
    }

    /// Processes are on one node when they were given the same name, or were given none and share
    /// memory.
    fn is_with(&self, other: &Self) -> bool {
        match (&self.chosen, &other.chosen) {
            (None, None) => self.leader == other.leader,
            (one, another) => one == another,
        }
    }
}

/// The nodes, in the order of their lowest processes; `places` has one entry for each process.
pub(crate) fn group(places: &[Place]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for (process, place) in (0..).zip(places) {
        let known = nodes.iter_mut().find(|node| {
            let first = node.processes.first();
            first.is_some_and(|first| places[*first as usize].is_with(place))
        });
        if let Some(node) = known {
            node.processes.push(process);
        } else {
            let name = place.name().to_owned();
            nodes.push(Node { name, processes: vec![process] });
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(chosen: Option<&str>, host: &str, leader: u32) -> Place {
        Place { chosen: chosen.map(str::to_owned), host: host.to_owned(), leader }
    }

    #[test]
    fn processes_that_share_memory_are_on_one_node_even_among_hosts_of_one_name() {
        let places = [place(None, "vm", 0), place(None, "vm", 1), place(None, "vm", 0)];
        let nodes = group(&places);
        let processes: Vec<_> = nodes.iter().map(|node| node.processes.clone()).collect();
        assert_eq!(processes, [vec![0, 2], vec![1]]);
        assert!(nodes.iter().all(|node| node.name == "vm"));
    }

    #[test]
    fn a_chosen_name_makes_a_node() {
        let places =
            [place(Some("a"), "vm", 0), place(Some("b"), "vm", 0), place(Some("a"), "x", 2)];
        let node = |name: &str, processes: Vec<u32>| Node { name: name.to_owned(), processes };
        assert_eq!(group(&places), [node("a", vec![0, 2]), node("b", vec![1])]);
    }

    #[test]
    fn places_travel() {
        for place in [place(None, "vm", 7), place(Some(""), "", 0)] {
            assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
        }
        assert_eq!(Place::from_bytes(&[1, 2, 3]), None);
    }
}
