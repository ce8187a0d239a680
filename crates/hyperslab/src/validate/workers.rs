//! Threads that share numbered pieces of work.

use crate::{Error, Result};
use hyperslab_store::Ask;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Calls `work` for each number below `count`, on up to `threads` threads.
///
/// `work` gets a check that returns `true` when it should stop. `between` runs on the calling thread
/// after each of its pieces. Fails with [`Error::Interrupted`] if `ask` returns `true`, which is called
/// on the calling thread only, and with the first error of `work`.
pub(super) fn share(
    count: u64,
    threads: usize,
    ask: Ask<'_>,
    between: &dyn Fn(),
    work: &(dyn Fn(u64, Ask<'_>) -> Result<()> + Sync),
) -> Result<()> {
    let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let run = |stop: &dyn Fn() -> bool, after: &dyn Fn()| -> Result<()> {
        loop {
            if stop() {
                return Err(Error::Interrupted);
            }
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return Ok(());
            }
            let done = work(number, stop);
            after();
            if done.is_err() {
                stopped.store(true, Relaxed);
                return done;
            }
        }
    };
    let is_stopped = || stopped.load(Relaxed);
    // The others stop when the calling thread was asked to.
    let asked = || {
        let stop = is_stopped() || ask();
        if stop {
            stopped.store(true, Relaxed);
        }
        stop
    };
    let workers = (threads.max(1) as u64).min(count).max(1);
    let outcomes = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| run(&is_stopped, &|| {}))).collect();
        let mut outcomes = vec![run(&asked, between)];
        outcomes.extend(others.into_iter().map(|other| match other.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        outcomes
    });
    if ask() {
        return Err(Error::Interrupted);
    }
    let mut failed = None;
    for error in outcomes.into_iter().filter_map(Result::err) {
        // The error that stopped the threads counts, not their interruptions.
        if failed.is_none() || matches!(failed, Some(Error::Interrupted)) {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn each_number_is_done_once() {
        for threads in [1, 3] {
            let done = Mutex::new(Vec::new());
            share(100, threads, &|| false, &|| {}, &|number, _| {
                done.lock().unwrap().push(number);
                Ok(())
            })
            .unwrap();
            let done = done.into_inner().unwrap();
            assert_eq!((done.len(), done.iter().collect::<BTreeSet<_>>().len()), (100, 100));
        }
        share(0, 4, &|| false, &|| {}, &|_, _| panic!("there is nothing to do")).unwrap();
    }

    #[test]
    fn errors_and_interruptions_stop_all() {
        let failed = share(1000, 2, &|| false, &|| {}, &|number, _| match number {
            3 => Err(Error::Options("three".into())),
            _ => Ok(()),
        });
        assert!(matches!(failed, Err(Error::Options(_))));
        assert!(matches!(share(10, 2, &|| true, &|| {}, &|_, _| Ok(())), Err(Error::Interrupted)));
    }
}
