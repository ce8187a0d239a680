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

/// The threads that run tasks of `millis` milliseconds each.
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

/// Background work in steps that take a while.
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
        pool.run_in_background(one.clone(), 2);
    }
    assert!(all.iter().all(|one| done(one)));
    // Workers that fell asleep are woken.
    doze(5);
    let last = steps(3, 0);
    pool.run_in_background(last.clone(), 2);
    assert!(done(&last));
}

#[test]
fn works_that_come_together_get_a_worker_each() {
    /// Waits until the given number of works have begun.
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
        // Queue the work soon: a worker polls for a short while only.
        let _ = (0..1000).any(|_| one_is_awake());
        let meeting = Arc::new(Meeting(AtomicUsize::new(0), 3));
        (0..3).for_each(|_| pool.run_in_background(meeting.clone(), 3));
        let met = happens(|| Arc::strong_count(&meeting) == 1);
        let begun = meeting.0.swap(3, Ordering::Relaxed);
        assert!(met, "{begun} of 3 have begun");
    }
}

#[test]
fn requests_go_before_background_work() {
    let pool = Pool::default();
    let endless = steps(usize::MAX, 1);
    pool.run_in_background(endless.clone(), 1);
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
    pool.run_in_background(nested.clone(), 2);
    let after = steps(50, 0);
    pool.run_in_background(after.clone(), 2);
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

/// The last owner of work may be a worker. Its drop may need a lock whose holder waits for the
/// queue, as in a store in Python. A worker that dropped it under the queue's lock would then hang.
#[test]
fn work_that_is_done_is_dropped_without_the_queue() {
    struct Work(Pool, Arc<AtomicUsize>);
    impl Background for Work {
        fn step(self: Arc<Self>) -> bool {
            assert!(self.1.load(Ordering::Relaxed) < 2, "boom");
            false
        }
    }
    impl Drop for Work {
        fn drop(&mut self) {
            let free = happens(|| self.0.0.queue.try_lock().is_ok());
            self.1.fetch_add(if free { 1 } else { 100 }, Ordering::Relaxed);
        }
    }
    // Once with a step that returns, and once with a step that panics.
    let pool = Pool::default();
    let dropped = Arc::new(AtomicUsize::new(0));
    for expected in 1..=3 {
        pool.run_in_background(Arc::new(Work(Pool(pool.0.clone()), dropped.clone())), 1);
        assert!(happens(
            || dropped.load(Ordering::Relaxed) > 0 && dropped.load(Ordering::Relaxed) != expected - 1
        ));
        assert_eq!(dropped.load(Ordering::Relaxed), expected);
    }
}
