//! The private threads that talk to servers, and waiting for their results.
//!
//! 1. Requests are tasks on one runtime with two threads, created on first use. A forked child does
//!    not have these threads; it creates its own runtime and leaves its parent's alone.
//! 2. A task owns all its memory. The waiting thread copies the result, so it may give up at any
//!    time without harm.
//! 3. The waiting thread checks every 25 ms whether to stop ([`Waiters`]). If so, it drops the
//!    [`Running`], which ends the task.

use hyperslab_store::fork::{self, Mutex};
use hyperslab_store::waiters::Waiters;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// Threads of the runtime, which decrypt and copy bodies. One handles about 1 GB/s.
const THREADS: usize = 2;

/// Maximum number of threads that wait for disks (the cache) and for host names.
const WAITERS: usize = 16;

/// The runtime of this process, with the process's generation. Gated.
static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

/// The runtime of this process. Fails if the system provides no threads.
fn runtime() -> std::io::Result<&'static Runtime> {
    let generation = fork::generation();
    let found = || RUNTIME.lock().filter(|(of, _)| *of == generation).map(|(_, runtime)| runtime);
    if let Some(runtime) = found() {
        return Ok(runtime);
    }
    // Without the lock, because this starts threads.
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

/// Why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The waiting thread was asked to stop.
    Stopped,
    /// The task belongs to this process's parent, or panicked, or there are no threads.
    Dead,
}

/// State shared by a task and the threads waiting for it.
struct Slot<T> {
    /// Holds `None` if the task ended without a result.
    done: fork::Lazy<Option<T>>,
    waiters: Waiters,
}

impl<T> Slot<T> {
    fn end(&self, result: Option<T>) {
        self.done.put(result);
        self.waiters.wake();
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

/// A running or finished task. Dropping this ends the task.
pub(crate) struct Running<T> {
    slot: Arc<Slot<T>>,
    /// `None` if the task was never started.
    task: ManuallyDrop<Option<AbortHandle>>,
    generation: u64,
}

impl<T: Send + Sync + 'static> Running<T> {
    /// Starts a task.
    pub(crate) fn start(work: impl Future<Output = T> + Send + 'static) -> Self {
        let slot = Arc::new(Slot { done: fork::Lazy::new(), waiters: Waiters::default() });
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

    /// Waits for the result.
    pub(crate) fn wait(&self) -> Result<&T, Lost> {
        let find = || match self.slot.done.get() {
            Some(done) => Some(done.as_ref().ok_or(Lost::Dead)),
            None => self.is_of_parent().then_some(Err(Lost::Dead)),
        };
        self.slot.waiters.wait(find).unwrap_or(Err(Lost::Stopped))
    }

    /// Waits for the result for about `most`. Returns whether [`Running::wait`] would return at
    /// once.
    ///
    /// Does not check whether to stop.
    pub(crate) fn wait_at_most(&self, most: Duration) -> bool {
        self.slot.waiters.wait_at_most(most, || self.is_over().then_some(())).is_some()
    }

    /// Returns whether there is a result, or will never be one.
    pub(crate) fn is_over(&self) -> bool {
        self.slot.done.get().is_some() || self.is_of_parent()
    }

    /// Returns whether the task will never end, because its threads are in another process.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.generation != fork::generation() && self.slot.done.get().is_none()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // A child leaves the parent's tasks alone: ending one may take a lock that a thread of the
        // parent held.
        if self.generation == fork::generation() {
            if let Some(task) = self.task.as_ref() {
                task.abort();
            }
            // SAFETY: dropped only here, and not used afterwards.
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
