//! The tasks that read: one visit at a time each, until the epoch is over.
//!
//! Each read in flight has a task of its own, so none keeps another from going on, and what lands is
//! taken in on as many CPUs as the runtime has. A task that is done with a read gets the next one; of
//! those that are free the one that read last. So there are as many tasks as there ever were reads in
//! flight, and a read makes none.
//!
//! Reads that wait for their turn have no task yet.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use feedrate_dataset::Visit;
use feedrate_workload::Payload;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::source::{LoadError, Read, Source};

/// What a read is known by: the number of its visit, from the start of the epoch.
type Number = u64;

/// The readers of one rank's epoch. A read waits for a `T`, its turn, and keeps what comes of it until
/// its last byte is there. Turns come in the order in which reads ask for them.
pub(crate) struct Readers<T: Future> {
    source: Arc<Source>,
    payload: Payload,
    /// Reads that wait for their turn.
    waiting: VecDeque<(Number, Visit, T)>,
    /// What is in flight is cancelled with these.
    tasks: JoinSet<()>,
    /// Where each task gets its reads from.
    jobs: Vec<UnboundedSender<Job<T::Output>>>,
    /// Tasks that have nothing to do.
    free: Vec<usize>,
    done: UnboundedReceiver<Done>,
    report: UnboundedSender<Done>,
}

struct Job<Turn> {
    number: Number,
    visit: Visit,
    turn: Turn,
}

struct Done {
    /// The task.
    by: usize,
    number: Number,
    read: Result<Read, LoadError>,
}

impl<T: Future<Output: Send + 'static> + Unpin> Readers<T> {
    pub(crate) fn new(source: &Arc<Source>, payload: Payload) -> Self {
        let (report, done) = unbounded_channel();
        Self {
            source: Arc::clone(source),
            payload,
            waiting: VecDeque::new(),
            tasks: JoinSet::new(),
            jobs: Vec::new(),
            free: Vec::new(),
            done,
            report,
        }
    }

    /// Reads `visit` when its `turn` has come, as long as somebody waits for [`next`](Self::next).
    pub(crate) fn read(&mut self, number: Number, visit: Visit, turn: T) {
        self.waiting.push_back((number, visit, turn));
    }

    /// Whether no read waits or is in flight.
    pub(crate) fn are_idle(&self) -> bool {
        self.waiting.is_empty() && self.free.len() == self.jobs.len()
    }

    /// The next read that is over.
    pub(crate) async fn next(&mut self) -> Result<(Number, Read), LoadError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<(Number, Read), LoadError>> {
        while let Some((_, _, turn)) = self.waiting.front_mut()
            && let Poll::Ready(turn) = Pin::new(turn).poll(context)
            && let Some((number, visit, _)) = self.waiting.pop_front()
        {
            self.start(Job { number, visit, turn });
        }
        if let Poll::Ready(Some(Done { by, number, read })) = self.done.poll_recv(context) {
            self.free.push(by);
            return Poll::Ready(read.map(|read| (number, read)));
        }
        // A task that ends has panicked.
        if let Poll::Ready(Some(Err(error))) = self.tasks.poll_join_next(context) {
            return Poll::Ready(Err(LoadError::Stopped(error.to_string())));
        }
        Poll::Pending
    }

    fn start(&mut self, job: Job<T::Output>) {
        let task = self.free.pop().unwrap_or_else(|| self.add_task());
        // Fails when the task has panicked, which is found out by its end.
        let _ = self.jobs[task].send(job);
    }

    fn add_task(&mut self) -> usize {
        let by = self.jobs.len();
        let (jobs, mut own) = unbounded_channel::<Job<T::Output>>();
        self.jobs.push(jobs);
        let (source, payload, report) =
            (Arc::clone(&self.source), self.payload, self.report.clone());
        self.tasks.spawn(async move {
            while let Some(Job { number, visit, turn }) = own.recv().await {
                let read = source.read(&visit, payload, turn).await;
                if report.send(Done { by, number, read }).is_err() {
                    return;
                }
            }
        });
        by
    }
}
