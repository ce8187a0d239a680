//! Threads that share the work of one job.

use crate::{Error, Result};
use hyperslab_store::Ask;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Calls `work` on a number of threads, one of which is the calling thread. Returns all outcomes.
///
/// `work` gets a check that returns `true` when it should stop, and a function to call after each
/// piece of work. The check asks `ask` on the calling thread only; the others stop with it. `between`
/// runs on the calling thread only, after its pieces and in the end. `work` sets `stopped` to stop all.
///
/// Fails with [`Error::Interrupted`] if `ask` returns `true`.
pub(crate) fn on_all<T: Send>(
    threads: u64,
    stopped: &AtomicBool,
    ask: Ask<'_>,
    between: &dyn Fn(),
    work: impl Fn(Ask<'_>, &dyn Fn()) -> T + Sync,
) -> Result<Vec<T>> {
    let is_stopped = || stopped.load(Relaxed);
    let asked = || {
        let stop = is_stopped() || ask();
        if stop {
            stopped.store(true, Relaxed);
        }
        stop
    };
    let work = &work;
    let outcomes = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(move || work(&is_stopped, &|| {}))).collect();
        let mut outcomes = vec![work(&asked, between)];
        outcomes.extend(
            others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        outcomes
    });
    between();
    if ask() { Err(Error::Interrupted) } else { Ok(outcomes) }
}

/// The error that stopped the threads, not their interruptions.
pub(crate) fn failure(errors: impl IntoIterator<Item = Error>) -> Option<Error> {
    errors.into_iter().reduce(|first, next| if first.is_interruption() { next } else { first })
}

/// Calls `work` for each number below `count`, on up to `threads` threads.
///
/// `work` gets a check that returns `true` when it should stop. `between` runs on the calling thread
/// after each of its pieces. Fails like [`on_all`], and with the first error of `work`.
pub(crate) fn share(
    count: u64,
    threads: usize,
    ask: Ask<'_>,
    between: &dyn Fn(),
    work: &(dyn Fn(u64, Ask<'_>) -> Result<()> + Sync),
) -> Result<()> {
    let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = (threads.max(1) as u64).min(count).max(1);
    let outcomes = on_all(threads, &stopped, ask, between, |stop, after| {
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
    })?;
    failure(outcomes.into_iter().filter_map(Result::err)).map_or(Ok(()), Err)
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
