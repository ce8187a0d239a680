//! The private threads that talk to servers, and the wait for what they do.
//!
//! 1. Requests are tasks of one runtime of two threads, made on first use. A forked child has no
//!    such threads; it makes its own runtime and leaves its parent's alone.
//! 2. A task owns all its memory. The thread that waits copies what came: it may give up at any
//!    moment without harm.
//! 3. The waiting thread looks every 25 ms whether to stop ([`waiting`]). Then it drops the
//!    [`Running`], which ends the task.

use hyperslab_store::fork::{self, Mutex};
use hyperslab_store::waiting;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// Threads of the runtime. They decrypt and copy bodies; one saturates about 1 GB/s.
const THREADS: usize = 2;

/// Threads that wait for disks (the cache) and for names of hosts, at most.
const WAITERS: usize = 16;

/// The runtime of this process, and which process that is. Gated.
static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

/// The runtime of this process. `Err`: the system gives no threads.
fn runtime() -> std::io::Result<&'static Runtime> {
    let generation = fork::generation();
    let found = || RUNTIME.lock().filter(|(of, _)| *of == generation).map(|(_, runtime)| runtime);
    if let Some(runtime) = found() {
        return Ok(runtime);
    }
    // Not under the lock: it starts threads.
    let new = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(WAITERS)
        .thread_name("hyperslab-net")
        .enable_all()
        .build()?;
    let mut slot = RUNTIME.lock();
    match *slot {
        Some((of, first)) if of == generation => {
            drop(slot);
            new.shutdown_background();
            Ok(first)
        }
        _ => {
            let new: &'static Runtime = Box::leak(Box::new(new));
            *slot = Some((generation, new));
            Ok(new)
        }
    }
}

/// Why a task gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The waiting thread was told to stop.
    Stopped,
    /// The task belongs to the parent of this process, or panicked, or there are no threads.
    Dead,
}

/// What a task and those who wait for it share.
struct Slot<T> {
    /// `None`: the task ended without a result.
    done: fork::Lazy<Option<T>>,
    /// Gated.
    waiting: Mutex<Vec<Thread>>,
}

impl<T> Slot<T> {
    fn end(&self, result: Option<T>) {
        self.done.put(result);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(|thread| thread.unpark());
    }
}

/// Ends a slot whose task was dropped or panicked.
struct Ending<T>(Arc<Slot<T>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        if self.0.done.get().is_none() {
            self.0.end(None);
        }
    }
}

/// A task that is under way, or done. Dropping it ends it.
pub(crate) struct Running<T> {
    slot: Arc<Slot<T>>,
    /// `None`: it was never started.
    task: ManuallyDrop<Option<AbortHandle>>,
    generation: u64,
}

impl<T: Send + Sync + 'static> Running<T> {
    /// Starts a task.
    pub(crate) fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        let slot = Arc::new(Slot { done: fork::Lazy::new(), waiting: Mutex::new(Vec::new()) });
        let ending = Ending(slot.clone());
        let task = runtime().ok().map(|runtime| {
            let task = runtime.spawn(async move {
                let result = work.await;
                ending.0.end(Some(result));
            });
            task.abort_handle()
        });
        Running { slot, task: ManuallyDrop::new(task), generation: fork::generation() }
    }

    /// The result, once there is one.
    pub(crate) fn wait(&self) -> Result<&T, Lost> {
        let mut asked = Instant::now();
        loop {
            if let Some(done) = self.slot.done.get() {
                return done.as_ref().ok_or(Lost::Dead);
            }
            if self.is_of_parent() {
                return Err(Lost::Dead);
            }
            self.park(waiting::EVERY);
            // Whoever is woken all the time by others asks no more often.
            if asked.elapsed() >= waiting::EVERY {
                asked = Instant::now();
                if waiting::is_over() {
                    return Err(Lost::Stopped);
                }
            }
        }
    }

    /// Waits for the result at most about so long. Returns whether [`Running::wait`] returns at once.
    /// Does not ask whether to stop.
    pub(crate) fn wait_at_most(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        while !self.is_over() {
            match end.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => self.park(left),
                _ => return false,
            }
        }
        true
    }

    /// Sleeps until it ends or so long, or less: threads may be woken by others.
    fn park(&self, most: Duration) {
        {
            let (me, mut waiting) = (thread::current(), self.slot.waiting.lock());
            if !waiting.iter().any(|other| other.id() == me.id()) {
                waiting.push(me);
            }
        }
        // It may have ended before this thread was on the list.
        if self.slot.done.get().is_none() {
            thread::park_timeout(most);
        }
    }

    /// Whether there is a result, or will never be one.
    pub(crate) fn is_over(&self) -> bool {
        self.slot.done.get().is_some() || self.is_of_parent()
    }

    /// Whether it will never end: its threads are in another process.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.generation != fork::generation() && self.slot.done.get().is_none()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // A child leaves the parent's tasks alone: ending one may take a lock that a thread of the
        // parent had.
        if self.generation == fork::generation() {
            if let Some(task) = self.task.as_ref() {
                task.abort();
            }
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.task) };
        }
    }
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("done", &self.slot.done.get().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Lost, Running};
    use hyperslab_store::waiting;
    use std::time::{Duration, Instant};

    fn block<T: Clone + Send + Sync + 'static>(
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Lost> {
        Running::start(work).wait().cloned()
    }

    #[test]
    fn results_panics_and_interrupts() {
        assert_eq!(block(async { 3 }), Ok(3));
        assert_eq!(block(async { panic!("inside") }), Err::<i32, _>(Lost::Dead));
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        let start = Instant::now();
        assert_eq!(waiting::with_ask(&|| true, || block(slow())), Err(Lost::Stopped));
        assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
        let running = Running::start(async { 4 });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(running.wait(), Ok(&4)));
            }
        });
        assert_eq!(running.wait(), Ok(&4));
    }
}
