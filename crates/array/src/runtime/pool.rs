//! The engine's threads.
//!
//! A request is a number of independent tasks. The calling thread works on them itself, and idle
//! workers join it. Each thread takes the next task when it has finished one, so uneven tasks leave
//! no thread idle. Steps, and what each prevents:
//!
//! 1. The caller queues a job and wakes as many workers as the job has seats. It never waits for a
//!    worker to come: with a busy pool, the request runs at its caller's speed, but no slower.
//! 2. A worker takes a seat under the queue's lock. It claims tasks through an atomic counter until
//!    none is left, and leaves under the job's lock.
//! 3. When the caller finds no task left, it takes the job off the queue, so that no more workers
//!    can enter. Then it waits for the workers inside. Only then does it return, so the closure may
//!    borrow from its stack.
//! 4. After a task fails or panics, no further tasks are claimed. The error of the lowest failed
//!    task is reported.
//! 5. A task that takes long, or waits, asks whether to go on. On the caller's thread this runs the
//!    signal handlers; on workers it reads the flag that stops the request. The caller also asks
//!    while it waits for workers, so that a signal stops them too. Stores that wait for a network
//!    ask in the same way, through the thread ([`waiting`]).
//!
//! Besides requests there is background work (read-ahead, write-behind), which nobody waits for
//! here. Workers do one step of it when no request needs them, so a request waits for background
//! work no longer than one step. If the result is wanted and no worker has come, the thread that
//! ordered the work does it.
//!
//! Nothing is dropped under a lock. A drop can run foreign code: a store or a codec in Python takes
//! Python's lock, whose holder may be waiting for the queue.
//!
//! Tasks never start jobs. A step of background work may start a request, whose tasks do not start
//! jobs either. Jobs nest no deeper, and cannot deadlock.

use crate::runtime::process::PerProcess;
use crate::runtime::settings;
use hyperslab_store::{Ask, waiting};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work that no caller waits for.
pub(crate) trait Background: Send + Sync {
    /// Does one step of the work. Returns whether a worker should come again.
    fn step(self: Arc<Self>) -> bool;
}

/// The pool of this process.
pub(crate) static POOL: PerProcess<Pool> = PerProcess::new();

/// Worker threads of one process, started when they are first needed.
#[derive(Default)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Per process, as the pool is.
    queue: Mutex<Queue>,
    wake: Condvar,
    /// How often work was queued; changed under the queue's lock.
    posted: AtomicUsize,
    /// Workers that poll for work instead of sleeping; changed under the queue's lock.
    awake: AtomicUsize,
    /// Requests under way.
    callers: AtomicUsize,
}

/// How often a caller that waits for workers asks whether to stop.
const ASK: Duration = Duration::from_millis(20);

/// How long a thread polls before it sleeps.
///
/// Waking a sleeping thread takes longer than reading a chunk, above all on virtual machines. And
/// one request often follows another.
const LOOK_OUT: Duration = Duration::from_micros(50);

/// Polls for a while whether something has happened. Lets other threads run meanwhile.
fn look_out(happened: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..16 {
            if happened() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > LOOK_OUT {
            return false;
        }
        std::thread::yield_now();
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    background: VecDeque<Arc<dyn Background>>,
    workers: usize,
    /// Workers that sleep until they are woken.
    idle: usize,
}

/// One request. `work` borrows from the caller's stack; the protocol above keeps it alive while
/// anyone can call it.
struct Job {
    work: *const (dyn Fn() + Sync),
    /// Free and taken seats. Per process, as the pool is.
    state: Mutex<Seats>,
    left: Condvar,
    panicked: AtomicBool,
}

#[derive(Default)]
struct Seats {
    free: usize,
    taken: usize,
    closed: bool,
}

// SAFETY: `work` points to a `Sync` closure, so calling it from several threads is right; it lives
// until the job is closed and empty (see `help`).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a request while it is under way.
pub(crate) struct Caller<'p>(&'p Pool);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.0.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// Counts a request as begun, and returns the number of other requests under way.
    pub(crate) fn enter(&self) -> (Caller<'_>, usize) {
        let others = self.0.callers.fetch_add(1, Ordering::Relaxed);
        (Caller(self), others)
    }

    /// Returns whether a worker is polling for work: then handing some over costs little.
    pub(crate) fn is_awake(&self) -> bool {
        self.0.awake.load(Ordering::Relaxed) > 0
    }

    /// Runs tasks `0..count` on up to `threads` threads, including the caller's.
    ///
    /// Returns when all tasks that were started are done. After the caller's first task, `more`
    /// says how many further threads to add.
    ///
    /// After an error no further tasks are started; the error of the lowest-numbered failed task is
    /// returned. The calling thread calls `interrupted` between its tasks, when its task asks, and
    /// while it waits for other threads. An error from `interrupted` stops the request.
    pub(crate) fn run<E: Send>(
        &self,
        count: usize,
        threads: usize,
        more: &dyn Fn() -> usize,
        task: &(dyn Fn(usize, Ask<'_>) -> Result<(), E> + Sync),
        interrupted: &dyn Fn() -> Option<E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        // Local: only threads of this request use it.
        let failed: Mutex<Option<(usize, E)>> = Mutex::new(None);
        let stop = AtomicBool::new(false);
        let fail = |at: usize, error: E| {
            stop.store(true, Ordering::Relaxed);
            let mut first = lock(&failed);
            let goes = match &*first {
                Some((lowest, _)) if *lowest <= at => Some((at, error)),
                _ => first.replace((at, error)),
            };
            drop(first);
            drop(goes);
        };
        let claim = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            (at < count && !stop.load(Ordering::Relaxed)).then_some(at)
        };
        let work = || {
            while let Some(at) = claim() {
                let gave_up = Cell::new(false);
                let ask = || {
                    gave_up.set(gave_up.get() || stop.load(Ordering::Relaxed));
                    gave_up.get()
                };
                // If the task gave up, the thread that stopped the request has the error.
                if let Err(error) = waiting::with_ask(&ask, || task(at, &ask))
                    && !gave_up.get()
                {
                    fail(at, error);
                }
            }
        };
        // Asks whether to stop the request. Records the error if this call stops it.
        let asked = |at: usize| {
            if !stop.load(Ordering::Relaxed)
                && let Some(error) = interrupted()
            {
                fail(at, error);
            }
            stop.load(Ordering::Relaxed)
        };
        let own = |call_more: &dyn Fn()| {
            let mut first = true;
            while let Some(at) = claim() {
                let gave_up = Cell::new(false);
                let ask = || {
                    gave_up.set(gave_up.get() || asked(at));
                    gave_up.get()
                };
                match waiting::with_ask(&ask, || task(at, &ask)) {
                    Err(error) if !gave_up.get() => fail(at, error),
                    Err(_) => {}
                    Ok(()) => {
                        asked(at);
                    }
                }
                if std::mem::take(&mut first) {
                    call_more();
                }
            }
        };
        let helpers = threads.min(count).saturating_sub(1);
        if helpers == 0 {
            own(&|| {});
        } else {
            let waiting = || {
                asked(count);
            };
            self.help(helpers, more, &work, &stop, own, &waiting);
        }
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Runs `own` here while up to `helpers` workers run `work`.
    ///
    /// `own` can call in as many further workers as `more` says. Calls `waiting` now and then until
    /// all workers have left, then returns. Passes on a panic of any thread.
    fn help(
        &self,
        helpers: usize,
        more: &dyn Fn() -> usize,
        work: &(dyn Fn() + Sync),
        stop: &AtomicBool,
        own: impl FnOnce(&dyn Fn()),
        waiting: &dyn Fn(),
    ) {
        // SAFETY: only the lifetime is changed. The job is closed, and everyone has left it, before
        // this function returns or unwinds.
        let work: *const (dyn Fn() + Sync + 'static) =
            unsafe { std::mem::transmute(std::ptr::from_ref(work)) };
        let job = Arc::new(Job {
            work,
            state: Mutex::new(Seats { free: helpers, ..Seats::default() }),
            left: Condvar::new(),
            panicked: AtomicBool::new(false),
        });
        self.offer(&job, helpers, helpers);
        let call_more = || {
            let more = more();
            if more > 0 {
                lock(&job.state).free += more;
                self.offer(&job, more, helpers + more);
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| own(&call_more)));
        if outcome.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        lock(&self.0.queue).jobs.retain(|other| !Arc::ptr_eq(other, &job));
        lock(&job.state).closed = true;
        look_out(|| lock(&job.state).taken == 0);
        let mut asked = Ok(());
        let mut seats = lock(&job.state);
        while seats.taken > 0 {
            seats = job.left.wait_timeout(seats, ASK).unwrap_or_else(PoisonError::into_inner).0;
            if seats.taken > 0 && asked.is_ok() {
                // Asking runs foreign code, so not under the lock. If it panics, still wait for the
                // others.
                drop(seats);
                asked = catch_unwind(AssertUnwindSafe(waiting));
                if asked.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                seats = lock(&job.state);
            }
        }
        drop(seats);
        match outcome.and(asked) {
            Err(panic) => resume_unwind(panic),
            Ok(()) if job.panicked.load(Ordering::Relaxed) => panic!("a task panicked on a worker thread"),
            Ok(()) => {}
        }
    }

    /// Queues a job, unless it is queued already, and wakes up to `helpers` workers. First starts
    /// workers until there are `workers`.
    fn offer(&self, job: &Arc<Job>, helpers: usize, workers: usize) {
        let mut queue = lock(&self.0.queue);
        if !queue.jobs.iter().any(|other| Arc::ptr_eq(other, job)) {
            queue.jobs.push_back(job.clone());
        }
        self.grow(&mut queue, workers);
        self.0.posted.fetch_add(1, Ordering::Relaxed);
        self.wake(queue, helpers);
    }

    /// Wakes workers for the work that was just queued, at most `most`.
    ///
    /// Workers that are awake look at the queue before they sleep, and each takes one thing that
    /// waits there. Waking others for the same work would cost a system call. The woken threads
    /// would take cores from the working ones, only to find nothing.
    fn wake(&self, queue: MutexGuard<'_, Queue>, most: usize) {
        let seats = queue.jobs.iter().map(|job| lock(&job.state).free).sum::<usize>();
        let waiting = seats + queue.background.len();
        let wanted = waiting.saturating_sub(self.0.awake.load(Ordering::Relaxed)).min(most).min(queue.idle);
        drop(queue);
        for _ in 0..wanted {
            self.0.wake.notify_one();
        }
    }

    /// Has one worker do `work` in the background: now, later, or never if the system gives no
    /// threads. First starts workers until there are `workers`.
    pub(crate) fn run_in_background(&self, work: Arc<dyn Background>, workers: usize) {
        let mut queue = lock(&self.0.queue);
        queue.background.push_back(work);
        self.grow(&mut queue, workers);
        self.0.posted.fetch_add(1, Ordering::Relaxed);
        self.wake(queue, 1);
    }

    fn grow(&self, queue: &mut Queue, workers: usize) {
        while queue.workers < workers {
            let shared = self.0.clone();
            let name = format!("hyperslab-{}", queue.workers);
            // If the system refuses more threads, the existing ones do the work.
            if std::thread::Builder::new().name(name).spawn(move || worker(&shared)).is_err() {
                break;
            }
            queue.workers += 1;
        }
    }
}

thread_local! {
    static WORKS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the current thread is one of the engine's own. They never end.
pub fn is_worker() -> bool {
    WORKS.get()
}

fn worker(shared: &Shared) {
    WORKS.set(true);
    let mut queue = lock(&shared.queue);
    loop {
        let found = queue.jobs.iter().position(|job| enter(job));
        let Some(job) = found.and_then(|at| {
            // To the back, so that workers spread over the waiting requests.
            let job = queue.jobs.remove(at)?;
            queue.jobs.push_back(job.clone());
            Some(job)
        }) else {
            queue = match queue.background.pop_front() {
                Some(work) => in_background(shared, queue, work),
                None => sleep(shared, queue),
            };
            continue;
        };
        drop(queue);
        // SAFETY: a seat is taken, so the caller is still inside `help` and `work` is alive.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { (*job.work)() }));
        if outcome.is_err() {
            job.panicked.store(true, Ordering::Relaxed);
        }
        let mut seats = lock(&job.state);
        seats.taken -= 1;
        if seats.taken == 0 {
            job.left.notify_one();
        }
        drop(seats);
        drop(job);
        queue = lock(&shared.queue);
    }
}

/// Waits for work, at first by polling. One core is left to the thread that gives work: at most one
/// worker for each other core polls.
fn sleep<'q>(shared: &'q Shared, mut queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
    // Under the lock, so that anything queued from here on changes the number.
    let before = shared.posted.load(Ordering::Relaxed);
    let posted = || shared.posted.load(Ordering::Relaxed) != before;
    if shared.awake.fetch_add(1, Ordering::Relaxed) + 1 < settings::cores() {
        drop(queue);
        look_out(posted);
        queue = lock(&shared.queue);
    }
    shared.awake.fetch_sub(1, Ordering::Relaxed);
    if !posted() {
        queue.idle += 1;
        queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
    }
    queue
}

fn in_background<'q>(
    shared: &'q Shared,
    queue: MutexGuard<'q, Queue>,
    work: Arc<dyn Background>,
) -> MutexGuard<'q, Queue> {
    drop(queue);
    // The work catches panics of the code that it calls, and passes them on to its owner. This
    // catches all other panics, so that the worker survives.
    let outcome = catch_unwind(AssertUnwindSafe(|| work.clone().step()));
    let again = matches!(outcome, Ok(true));
    drop(outcome);
    // Finished work may hold the last reference to a store or a codec. Drop it before the queue is
    // locked.
    let again = again.then_some(work);
    let mut queue = lock(&shared.queue);
    // To the back, so that workers spread over the waiting work.
    queue.background.extend(again);
    queue
}

/// Takes a seat, if one is free.
fn enter(job: &Job) -> bool {
    let mut seats = lock(&job.state);
    let may = seats.free > 0 && !seats.closed;
    if may {
        seats.free -= 1;
        seats.taken += 1;
    }
    may
}

#[cfg(test)]
mod tests;
