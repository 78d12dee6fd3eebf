//! Ranks as threads of one process.

use std::sync::Arc;

use crate::Aborted;
use crate::meeting::Meeting;
pub use crate::team::Rank;
use crate::team::{Outside, Team};

/// Makes a world of `size` ranks, one handle each, to be moved into their threads.
///
/// # Panics
/// When `size` is 0.
pub fn world(size: u32) -> Vec<Rank> {
    let team = Team {
        first: 0,
        leads_node: true,
        size,
        meeting: Arc::new(Meeting::new(size)),
        outside: Box::new(Nobody),
    };
    team.ranks()
}

/// There is no other process.
#[derive(Debug)]
struct Nobody;

impl Outside for Nobody {
    fn barrier(&self) -> Result<(), Aborted> {
        Ok(())
    }

    fn gather(&self, payloads: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>, Aborted> {
        Ok(Some(payloads))
    }

    fn broadcast(&self, payload: Vec<u8>) -> Result<Vec<u8>, Aborted> {
        Ok(payload)
    }

    fn abort(&self, rank: u32, cause: String) -> Aborted {
        Aborted { rank, host: None, cause }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::World;

    fn on_all<T: Send>(size: u32, body: impl Fn(Rank) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> =
                world(size).into_iter().map(|rank| scope.spawn(|| body(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn nobody_leaves_a_barrier_before_all_have_come() {
        let come = AtomicU32::new(0);
        on_all(4, |rank| {
            for round in 1..=200 {
                come.fetch_add(1, Ordering::SeqCst);
                rank.barrier().unwrap();
                assert!(come.load(Ordering::SeqCst) >= 4 * round);
                rank.barrier().unwrap();
            }
        });
    }

    #[test]
    fn gather_brings_payloads_in_rank_order_to_rank_0_alone() {
        let gathered = on_all(3, |rank| {
            let first = rank.gather(vec![rank.rank() as u8]).unwrap();
            let second = rank.gather(vec![10 + rank.rank() as u8]).unwrap();
            (first, second)
        });
        let expected = |base: u8| Some(vec![vec![base], vec![base + 1], vec![base + 2]]);
        assert_eq!(gathered[0], (expected(0), expected(10)));
        assert_eq!(gathered[1], (None, None));
    }

    #[test]
    fn broadcast_gives_every_rank_the_payload_of_rank_0() {
        let received = on_all(3, |rank| {
            let first = rank.broadcast(vec![7 + rank.rank() as u8]).unwrap();
            let second = rank.broadcast(vec![9 + rank.rank() as u8]).unwrap();
            (first, second)
        });
        assert!(received.iter().all(|pair| *pair == (vec![7], vec![9])));
    }

    #[test]
    fn rank_0_leads_the_node_of_all() {
        assert_eq!(on_all(3, |rank| rank.leads_node()), [true, false, false]);
    }

    #[test]
    fn a_failing_rank_ends_the_others_with_its_own_error() {
        let ends = on_all(3, |rank| {
            if rank.rank() == 1 {
                thread::sleep(Duration::from_millis(20));
                rank.abort("disk on fire".to_owned());
                rank.abort("a later error".to_owned());
                return rank.barrier();
            }
            rank.barrier()
        });
        let expected = Err(Aborted { rank: 1, host: None, cause: "disk on fire".to_owned() });
        assert!(ends.iter().all(|end| *end == expected));
    }
}
