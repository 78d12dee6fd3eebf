//! Threads for blocking file I/O.
//!
//! Jobs wait in one queue. A thread takes the next job or sleeps; a new thread starts only when a job
//! comes in and none sleeps, up to the bound. When the pool is dropped the threads finish what is
//! queued and end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of at least one thread.
pub(super) struct Pool {
    shared: Arc<Shared>,
    most: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.shared.lock().threads;
        f.debug_struct("Pool").field("threads", &threads).field("most", &self.most).finish()
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    sleeping: usize,
    closed: bool,
}

impl Pool {
    /// A pool of at most `most` threads, the first of which starts now: with one running, no job is
    /// ever left behind.
    pub(super) fn new(most: usize) -> io::Result<Self> {
        let pool = Self { shared: Arc::default(), most: most.max(1) };
        pool.shared.lock().threads = 1;
        pool.start_thread()?;
        Ok(pool)
    }

    /// Hands `work` to the pool at once; the future waits for its result. Work whose future is
    /// dropped is still done.
    pub(super) fn run<T, W>(&self, work: W) -> impl Future<Output = io::Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        self.submit(Box::new(move || {
            // Nobody waits for the result of a read that was given up.
            let _ = done.send(work());
        }));
        async move { result.await.map_err(|_| io::Error::other("a file I/O thread broke down")) }
    }

    fn submit(&self, job: Job) {
        let mut queue = self.shared.lock();
        queue.jobs.push_back(job);
        let start = queue.sleeping < queue.jobs.len() && queue.threads < self.most;
        queue.threads += usize::from(start);
        drop(queue);
        self.shared.changed.notify_one();
        if start && self.start_thread().is_err() {
            // The system gives no more threads: those that run will do the job.
            self.shared.lock().threads -= 1;
        }
    }

    fn start_thread(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("feedrate-file-io".to_owned());
        thread.spawn(move || shared.work()).map(drop)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Jobs run outside the lock, so the queue is whole even after a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.sleeping += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleeping -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn threads_start_as_jobs_pile_up_and_only_to_the_bound() {
        let pool = Pool::new(3).unwrap();
        assert_eq!(pool.shared.lock().threads, 1);
        let together = Arc::new(Barrier::new(3));
        let jobs: Vec<_> = (0..3)
            .map(|number| {
                let together = Arc::clone(&together);
                // Ends only when all three run at once.
                pool.run(move || (together.wait(), number).1)
            })
            .collect();
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.await.unwrap(), number);
        }
        let more: Vec<_> = (0..50).map(|number| pool.run(move || number * 2)).collect();
        for (number, job) in more.into_iter().enumerate() {
            assert_eq!(job.await.unwrap(), number * 2);
        }
        assert_eq!(pool.shared.lock().threads, 3);
    }

    #[tokio::test]
    async fn a_dropped_pool_finishes_its_jobs_and_ends_its_threads() {
        let pool = Pool::new(2).unwrap();
        let shared = Arc::downgrade(&pool.shared);
        let jobs: Vec<_> = (0..20).map(|number| pool.run(move || number)).collect();
        drop(pool);
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.await.unwrap(), number);
        }
        while shared.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_job_that_panics_is_an_error_for_its_caller() {
        let pool = Pool::new(2).unwrap();
        let broken = pool.run(|| panic!("on purpose"));
        assert!(broken.await.is_err());
        assert_eq!(pool.run(|| 1).await.unwrap(), 1);
    }
}
