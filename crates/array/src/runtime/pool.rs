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
//!    waits for workers it goes on asking, so that a signal stops these, too.
//!
//! Beside requests there is background work (read-ahead, write-behind), which nobody waits for
//! here. Workers do a step of it when no request needs them, so a request waits for background work
//! no longer than a step takes. If the work is wanted and no worker has come, the thread that
//! ordered it does it.
//!
//! Tasks never start jobs of their own. A step may start a request, whose tasks then do not: there
//! is no deeper nesting, and no deadlock.

use crate::runtime::process::PerProcess;
use crate::runtime::settings;
use hyperslab_store::Ask;
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
            if first.as_ref().is_none_or(|(lowest, _)| at < *lowest) {
                *first = Some((at, error));
            }
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
                if let Err(error) = task(at, &ask)
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
                match task(at, &ask) {
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

fn worker(shared: &Shared) {
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
    let again = catch_unwind(AssertUnwindSafe(|| work.clone().step())).unwrap_or(false);
    let mut queue = lock(&shared.queue);
    if again {
        // To the back: with several kinds waiting, workers spread over them.
        queue.background.push_back(work);
    }
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
mod tests {
    use super::*;
    use crate::tests::model::happens;
    use std::collections::HashSet;
    use std::thread::ThreadId;

    fn never<E>() -> Option<E> {
        None
    }

    fn none() -> usize {
        0
    }

    /// Runs tasks that cannot fail.
    fn run(pool: &Pool, count: usize, threads: usize, task: impl Fn(usize) + Sync) {
        let task = |at: usize, _: Ask<'_>| {
            task(at);
            Ok::<(), ()>(())
        };
        pool.run(count, threads, &none, &task, &never).unwrap();
    }

    fn doze(millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }

    /// The threads that run tasks of some milliseconds.
    fn who_runs(pool: &Pool, count: usize, threads: usize, more: usize, millis: u64) -> HashSet<ThreadId> {
        let seen = Mutex::new(HashSet::new());
        let task = |_: usize, _: Ask<'_>| {
            seen.lock().unwrap().insert(std::thread::current().id());
            doze(millis);
            Ok::<(), ()>(())
        };
        pool.run(count, threads, &|| more, &task, &never).unwrap();
        seen.into_inner().unwrap()
    }

    #[test]
    fn more_threads_come_when_called() {
        let threads = who_runs(&Pool::default(), 60, 2, 4, 5);
        assert!((3..=6).contains(&threads.len()), "{threads:?}");
    }

    #[test]
    fn every_task_once() {
        let pool = Pool::default();
        for count in [0, 1, 2, 3, 100, 1000] {
            for threads in [1, 2, 4, 16] {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                run(&pool, count, threads, |i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn workers_take_part() {
        let threads = who_runs(&Pool::default(), 32, 4, 0, 5);
        assert!(threads.len() >= 2);
        assert!(threads.contains(&std::thread::current().id()));
    }

    #[test]
    fn first_error_wins_and_stops() {
        let pool = Pool::default();
        let ran = AtomicUsize::new(0);
        let task = |i: usize, _: Ask<'_>| {
            ran.fetch_add(1, Ordering::Relaxed);
            if i >= 10 { Err(i) } else { Ok(()) }
        };
        let error = pool.run(100_000, 4, &none, &task, &never).unwrap_err();
        assert!((10..20).contains(&error));
        assert!(ran.load(Ordering::Relaxed) < 1000);
    }

    #[test]
    fn interrupt_stops() {
        let pool = Pool::default();
        let task = |_: usize, _: Ask<'_>| Ok::<(), &str>(());
        assert_eq!(pool.run(1_000_000, 2, &none, &task, &|| Some("stop")), Err("stop"));
    }

    #[test]
    fn panics_reach_the_caller_and_leave_the_pool_usable() {
        let pool = Pool::default();
        for round in 0..20 {
            let task = |i: usize| assert!(i != 7 + round, "boom");
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&pool, 64, 4, task)));
            assert!(outcome.is_err());
            run(&pool, 64, 4, |_| {});
        }
    }

    #[test]
    fn a_small_request_does_not_wait_for_a_large_one() {
        let pool = Pool::default();
        std::thread::scope(|scope| {
            scope.spawn(|| run(&pool, 40, 2, |_| doze(20)));
            doze(30);
            let done = AtomicUsize::new(0);
            run(&pool, 4, 2, |_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.load(Ordering::Relaxed), 4);
        });
    }

    /// Steps that take a while, and how many there were.
    struct Steps {
        left: AtomicUsize,
        millis: u64,
    }

    impl Background for Steps {
        fn step(self: Arc<Self>) -> bool {
            doze(self.millis);
            self.left.fetch_sub(1, Ordering::Relaxed) > 1
        }
    }

    fn steps(left: usize, millis: u64) -> Arc<Steps> {
        Arc::new(Steps { left: AtomicUsize::new(left), millis })
    }

    fn done(steps: &Steps) -> bool {
        happens(|| steps.left.load(Ordering::Relaxed) == 0)
    }

    #[test]
    fn background_steps_are_done_and_take_turns() {
        let pool = Pool::default();
        let all: Vec<_> = (1..20).map(|n| steps(n, 0)).collect();
        for one in &all {
            pool.background(one.clone(), 2);
        }
        assert!(all.iter().all(|one| done(one)));
        // Workers that fell asleep are woken.
        doze(5);
        let last = steps(3, 0);
        pool.background(last.clone(), 2);
        assert!(done(&last));
    }

    #[test]
    fn works_that_come_together_get_a_worker_each() {
        /// Waits until as many have begun.
        struct Meeting(AtomicUsize, usize);
        impl Background for Meeting {
            fn step(self: Arc<Self>) -> bool {
                self.0.fetch_add(1, Ordering::Relaxed);
                while self.0.load(Ordering::Relaxed) < self.1 {
                    std::thread::yield_now();
                }
                false
            }
        }
        let pool = Pool::default();
        run(&pool, 8, 4, |_| doze(1));
        let one_is_awake = || pool.is_awake() && lock(&pool.0.queue).idle == 2;
        for _ in 0..50 {
            doze(2);
            run(&pool, 2, 2, |_| doze(1));
            // Soon after: it looks out for a short while only.
            let _ = (0..1000).any(|_| one_is_awake());
            let meeting = Arc::new(Meeting(AtomicUsize::new(0), 3));
            (0..3).for_each(|_| pool.background(meeting.clone(), 3));
            let met = happens(|| Arc::strong_count(&meeting) == 1);
            let begun = meeting.0.swap(3, Ordering::Relaxed);
            assert!(met, "{begun} of 3 have begun");
        }
    }

    #[test]
    fn requests_go_before_background_work() {
        let pool = Pool::default();
        let endless = steps(usize::MAX, 1);
        pool.background(endless.clone(), 1);
        doze(5);
        assert_eq!(who_runs(&pool, 40, 2, 0, 4).len(), 2);
        endless.left.store(1, Ordering::Relaxed);
    }

    #[test]
    fn a_step_may_start_a_request_and_may_panic() {
        struct Nested(Pool, AtomicUsize);
        impl Background for Nested {
            fn step(self: Arc<Self>) -> bool {
                run(&self.0, 10, 3, |_| {
                    self.1.fetch_add(1, Ordering::Relaxed);
                });
                assert!(self.1.load(Ordering::Relaxed) < 20, "boom");
                true
            }
        }
        let pool = Pool::default();
        let nested = Arc::new(Nested(Pool(pool.0.clone()), AtomicUsize::new(0)));
        pool.background(nested.clone(), 2);
        let after = steps(50, 0);
        pool.background(after.clone(), 2);
        assert!(done(&after));
        assert_eq!(nested.1.load(Ordering::Relaxed), 20);
    }

    #[test]
    fn many_callers_at_once() {
        let pool = Pool::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        run(&pool, 50, 3, |i| {
                            sum.fetch_add(i, Ordering::Relaxed);
                        });
                        assert_eq!(sum.load(Ordering::Relaxed), 49 * 50 / 2);
                    }
                });
            }
        });
    }
}
