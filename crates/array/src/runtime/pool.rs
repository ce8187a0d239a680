//! The engine's threads.
//!
//! A request is a number of independent tasks. The calling thread works on them itself; idle
//! workers join it. Each takes the next task when it is done with one, so uneven tasks cannot leave
//! threads idle. Steps, and what each prevents:
//!
//! 1. The caller queues a job and wakes as many workers as the job has seats. It never waits for
//!    one to come: a busy pool slows a request down to its caller's speed, no further.
//! 2. A worker takes a seat under the queue's lock, claims tasks by an atomic counter until none is
//!    left, and leaves, again under the lock.
//! 3. When the caller finds no task left it takes the job off the queue (no worker can enter any
//!    more) and waits for those inside. Only then does it return, so the closure may borrow from
//!    its stack.
//! 4. A failed or panicking task stops the claiming of further ones; the error of the lowest task
//!    is reported.
//! 5. A task that takes long, or waits, asks whether to go on: on the caller's thread that runs the
//!    handlers of signals, on workers it looks at the flag that stops the request. While the caller
//!    waits for workers it goes on asking, so that a signal stops these, too. Stores that wait for a
//!    network ask the same, through the thread ([`waiting`]).
//!
//! Beside requests there is background work (read-ahead, write-behind), which nobody waits for
//! here. Workers do a step of it when no request needs them, so a request waits for background work
//! no longer than a step takes. If the work is wanted and no worker has come, the thread that
//! ordered it does it.
//!
//! Nothing is dropped under a lock. A drop can run foreign code: a store or a codec in Python takes
//! Python's lock, whose holder may be waiting for the queue.
//!
//! Tasks never start jobs of their own. A step may start a request, whose tasks then do not: there
//! is no deeper nesting, and no deadlock.

use crate::runtime::process::PerProcess;
use crate::runtime::settings;
use hyperslab_store::{Ask, waiting};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work without a caller who waits.
pub(crate) trait Background: Send + Sync {
    /// Does a piece of it. Returns whether a worker shall come again.
    fn step(self: Arc<Self>) -> bool;
}

/// That of this process.
pub(crate) static POOL: PerProcess<Pool> = PerProcess::new();

/// Worker threads of one process, started as they are first needed.
#[derive(Default)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Per process, as the pool is.
    queue: Mutex<Queue>,
    wake: Condvar,
    /// How much work was ever queued; changed under the queue's lock.
    posted: AtomicUsize,
    /// Workers that look out for work instead of sleeping; changed under the queue's lock.
    awake: AtomicUsize,
    /// Requests under way.
    callers: AtomicUsize,
}

/// How often a caller who waits for workers asks whether to stop.
const ASK: Duration = Duration::from_millis(20);

/// How long a thread looks out for what it waits for before it sleeps. Waking a sleeping thread
/// takes longer than reading a chunk, above all on virtual machines; and one request is often
/// followed by the next.
const LOOK_OUT: Duration = Duration::from_micros(50);

/// Looks for a while whether something has happened. Gives way to every other thread that could run
/// meanwhile.
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
    /// Workers that wait to be woken.
    idle: usize,
}

/// One request. `work` borrows from the caller's stack; the protocol above keeps it alive while
/// anyone can call it.
struct Job {
    work: *const (dyn Fn() + Sync),
    /// Seats and people. Per process, as the pool is.
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
    /// Says that a request begins, and gives the number of other requests under way.
    pub(crate) fn enter(&self) -> (Caller<'_>, usize) {
        let others = self.0.callers.fetch_add(1, Ordering::Relaxed);
        (Caller(self), others)
    }

    /// Whether a worker is looking out for work: then handing some over costs little.
    pub(crate) fn is_awake(&self) -> bool {
        self.0.awake.load(Ordering::Relaxed) > 0
    }

    /// Runs tasks `0..count` on up to `threads` threads, the caller's included, and returns when
    /// all that were started are done. `more` is asked after the caller's first task how many
    /// further threads shall come.
    ///
    /// After an error no further tasks are started; the error of the lowest-numbered task that
    /// failed is returned. `interrupted` is asked by the calling thread: between its tasks, when
    /// its task asks, and while it waits for others. It stops the request by returning an error.
    pub(crate) fn run<E: Send>(
        &self,
        count: usize,
        threads: usize,
        more: &dyn Fn() -> usize,
        task: &(dyn Fn(usize, Ask<'_>) -> Result<(), E> + Sync),
        interrupted: &dyn Fn() -> Option<E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        // Local: only threads of this request know it.
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
                // What it gave up for is told by the one who stopped the request.
                if let Err(error) = waiting::with_ask(&ask, || task(at, &ask))
                    && !gave_up.get()
                {
                    fail(at, error);
                }
            }
        };
        // Whether the request is to stop; told, if this is new.
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

    /// Runs `own` here while up to `helpers` workers, and `more` when `own` calls them, run `work`.
    /// Returns when all have left; calls `waiting` now and then until then. A panic anywhere is
    /// passed on here.
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
                // Asking runs foreign code: not under the lock. If that panics, the others are
                // waited for all the same.
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

    /// Queues a job, if it is not queued yet, for `helpers` workers of at least `workers` that
    /// there shall be.
    fn offer(&self, job: &Arc<Job>, helpers: usize, workers: usize) {
        let mut queue = lock(&self.0.queue);
        if !queue.jobs.iter().any(|other| Arc::ptr_eq(other, job)) {
            queue.jobs.push_back(job.clone());
        }
        self.grow(&mut queue, workers);
        self.0.posted.fetch_add(1, Ordering::Relaxed);
        self.wake(queue, helpers);
    }

    /// Wakes workers for what was just queued, at most `most`. Those that are awake look at the
    /// queue before they sleep, and take as much of what waits there as they are: to wake others
    /// for the same would cost a call of the system, and these would take the cores from the ones
    /// that work only to find nothing.
    fn wake(&self, queue: MutexGuard<'_, Queue>, most: usize) {
        let seats = queue.jobs.iter().map(|job| lock(&job.state).free).sum::<usize>();
        let waiting = seats + queue.background.len();
        let wanted = waiting.saturating_sub(self.0.awake.load(Ordering::Relaxed)).min(most).min(queue.idle);
        drop(queue);
        for _ in 0..wanted {
            self.0.wake.notify_one();
        }
    }

    /// Sends one worker, of at least `workers` that there shall be, to `work`: now or later, or
    /// never if the system gives no threads.
    pub(crate) fn background(&self, work: Arc<dyn Background>, workers: usize) {
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
            // A system that refuses more threads leaves the work to those there are.
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

/// Whether this is a thread of the engine's own. They never end.
pub fn is_worker() -> bool {
    WORKS.get()
}

fn worker(shared: &Shared) {
    WORKS.set(true);
    let mut queue = lock(&shared.queue);
    loop {
        let found = queue.jobs.iter().position(|job| enter(job));
        let Some(job) = found.and_then(|at| {
            // To the back: with several requests waiting, workers spread over them.
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

/// Waits for work, at first awake. No more workers stay awake than there are cores beside the one
/// that gives work.
fn sleep<'q>(shared: &'q Shared, mut queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
    // Under the lock: what is queued from here on changes the number.
    let seen = shared.posted.load(Ordering::Relaxed);
    let posted = || shared.posted.load(Ordering::Relaxed) != seen;
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
    // The work catches panics of what it calls and passes them on to its owner. This catches the
    // rest, so that the worker survives.
    let outcome = catch_unwind(AssertUnwindSafe(|| work.clone().step()));
    let again = matches!(outcome, Ok(true));
    drop(outcome);
    // Work that is done may hold the last reference to a store or a codec: it goes before the queue
    // is locked.
    let again = again.then_some(work);
    let mut queue = lock(&shared.queue);
    // To the back: with several kinds waiting, workers spread over them.
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
