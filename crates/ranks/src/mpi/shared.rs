//! What the threads of one process know together: who takes part, and whether the job has failed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::nodes::Place;
use crate::Aborted;
use crate::meeting::Meeting;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) process: u32,
    pub(crate) processes: u32,
    ranks_per_process: AtomicU32,
    places: OnceLock<Vec<Place>>,
    aborted: OnceLock<Aborted>,
    /// The process that tells the user of a failure.
    speaker: AtomicU32,
    /// Somebody in this process does it already.
    word_is_taken: AtomicBool,
    /// Where ranks of this process wait.
    meetings: Mutex<Vec<Weak<Meeting>>>,
    wishes: Mutex<Wishes>,
    wished: Condvar,
}

/// What other threads of this process want of the one that talks to the other processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// Something is wrong, namely this; find out who is missing.
    pub(crate) roll_call: Option<String>,
    /// This process has nothing more to do.
    pub(crate) leave: bool,
    /// There is news of any kind; cleared when it has been looked at.
    news: bool,
}

impl Shared {
    pub(crate) fn new(process: u32, processes: u32) -> Self {
        Self {
            process,
            processes,
            ranks_per_process: AtomicU32::new(1),
            places: OnceLock::new(),
            aborted: OnceLock::new(),
            speaker: AtomicU32::new(0),
            word_is_taken: AtomicBool::new(false),
            meetings: Mutex::default(),
            wishes: Mutex::default(),
            wished: Condvar::new(),
        }
    }

    pub(crate) fn ranks_per_process(&self) -> u32 {
        self.ranks_per_process.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ranks_per_process(&self, ranks: u32) {
        self.ranks_per_process.store(ranks, Ordering::Relaxed);
    }

    /// Where the processes run; only the first call counts.
    pub(crate) fn set_places(&self, places: Vec<Place>) {
        let _ = self.places.set(places);
    }

    fn place(&self, process: u32) -> Option<&Place> {
        self.places.get()?.get(process as usize)
    }

    /// The first rank of a process.
    pub(crate) fn first_rank(&self, process: u32) -> u32 {
        process * self.ranks_per_process()
    }

    /// Why the job has failed, if it has.
    pub(crate) fn aborted(&self) -> Option<&Aborted> {
        self.aborted.get()
    }

    /// Lets the job fail, unless it has failed already. Returns the failure that counts.
    pub(crate) fn fail(&self, aborted: Aborted) -> Aborted {
        let counts = self.aborted.get_or_init(|| aborted).clone();
        for meeting in lock(&self.meetings).iter().filter_map(Weak::upgrade) {
            meeting.abort(counts.clone());
        }
        self.wish(|_| ());
        counts
    }

    /// The failure of a rank of `process`.
    pub(crate) fn failure(&self, process: u32, rank: u32, cause: String) -> Aborted {
        let host = self.place(process).map(|place| place.name().to_owned());
        Aborted { rank, host, cause }
    }

    /// A failure of `processes` as a whole (at least one), of which `what` is true.
    pub(crate) fn loss(&self, processes: &[u32], what: &str) -> Aborted {
        let first = processes.first().copied().unwrap_or(0);
        let (rank, last) = (self.first_rank(first), self.first_rank(first + 1) - 1);
        let own = if rank == last { String::new() } else { format!(" (ranks {rank}-{last})") };
        let others: Vec<String> =
            processes.iter().skip(1).map(|one| self.described(*one)).collect();
        let others = match &others[..] {
            [] => String::new(),
            others => format!("; the same holds for {}", others.join(", ")),
        };
        self.failure(first, rank, format!("its process{own} {what}{others}"))
    }

    fn described(&self, process: u32) -> String {
        let (first, last) = (self.first_rank(process), self.first_rank(process + 1) - 1);
        let ranks =
            if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
        let place = self.place(process).map(|place| format!(" on {}", place.name()));
        ranks + &place.unwrap_or_default()
    }

    /// Whether the caller is to tell the user of the failure: one thread of one process is.
    pub(crate) fn claim_word(&self) -> bool {
        self.speaks() && !self.word_is_taken.swap(true, Ordering::Relaxed)
    }

    fn speaks(&self) -> bool {
        self.speaker.load(Ordering::Relaxed) == self.process
    }

    /// Process 0 is lost to this one. Another speaks for it, which this process must find without
    /// asking: the lowest one of its own node.
    pub(crate) fn lost_process_0(&self) {
        let leader = self.place(self.process).map(|own| own.leader);
        let speaker = (1..self.processes)
            .find(|one| self.place(*one).map(|place| place.leader) == leader)
            .unwrap_or(self.process);
        self.speaker.store(speaker, Ordering::Relaxed);
    }

    /// A new meeting place of ranks, which ends when the job fails.
    pub(crate) fn meeting(&self, ranks: u32) -> Arc<Meeting> {
        let meeting = Arc::new(Meeting::new(ranks));
        lock(&self.meetings).push(Arc::downgrade(&meeting));
        // In this order, so that a failure between the two is not missed.
        if let Some(aborted) = self.aborted() {
            meeting.abort(aborted.clone());
        }
        meeting
    }

    /// Adds to the wishes, and wakes whoever waits for them.
    pub(crate) fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = lock(&self.wishes);
        change(&mut wishes);
        wishes.news = true;
        self.wished.notify_all();
    }

    /// Waits for news, at most for `pulse`, and returns all wishes.
    pub(crate) fn wishes_within(&self, pulse: Duration) -> Wishes {
        let wishes = lock(&self.wishes);
        let waited = self.wished.wait_timeout_while(wishes, pulse, |wishes| !wishes.news);
        let mut wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
        wishes.news = false;
        wishes.clone()
    }
}

/// A thread that panicked left no half-made change: every change under these locks is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        let shared = Shared::new(3, 5);
        let place = |host: &str, leader| Place { chosen: None, host: host.to_owned(), leader };
        let places =
            vec![place("a", 0), place("a", 0), place("b", 2), place("b", 2), place("a", 0)];
        shared.set_places(places);
        shared
    }

    #[test]
    fn a_loss_names_ranks_and_hosts() {
        let shared = shared();
        let loss = shared.loss(&[2], "is silent");
        assert_eq!(loss.to_string(), "rank 2 on b failed: its process is silent");
        shared.set_ranks_per_process(4);
        let loss = shared.loss(&[1, 2], "is silent");
        let expected = "rank 4 on a failed: its process (ranks 4-7) is silent; the same holds for \
                        ranks 8-11 on b";
        assert_eq!(loss.to_string(), expected);
    }

    #[test]
    fn the_lowest_process_of_a_node_speaks_once_process_0_is_lost() {
        let shared = shared();
        assert!(!shared.speaks());
        shared.lost_process_0();
        assert!(!shared.speaks(), "process 2 is on the same node");
        let alone = Shared::new(1, 3);
        alone.set_places(vec![
            Place { chosen: None, host: "a".to_owned(), leader: 0 },
            Place { chosen: None, host: "a".to_owned(), leader: 0 },
            Place { chosen: None, host: "b".to_owned(), leader: 2 },
        ]);
        alone.lost_process_0();
        assert!(alone.speaks());
        assert!(alone.claim_word());
        assert!(!alone.claim_word(), "one thread is enough");
    }

    #[test]
    fn the_first_failure_counts_and_ends_meetings_made_before_and_after() {
        let shared = shared();
        let before = shared.meeting(2);
        let first = shared.failure(3, 3, "disk on fire".to_owned());
        assert_eq!(shared.fail(first.clone()), first);
        assert_eq!(shared.fail(shared.loss(&[1], "is silent")), first);
        for meeting in [before, shared.meeting(2)] {
            assert_eq!(meeting.meet(|| Ok(())), Err(first.clone()));
        }
    }
}
