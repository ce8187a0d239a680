//! Locks that a forked child always finds free.
//!
//! A forked child has one thread, the one that forked. A lock that another thread of the parent
//! held would stay locked in the child forever: its holder does not exist there. Every lock in the
//! project is therefore of one of these kinds:
//!
//! * **gated**: the locks of this module, [`Mutex`] and [`RwLock`]. They guard data for a few
//!   memory accesses, never during I/O, a wait or foreign code. A fork waits until no thread is
//!   inside any of them (`pthread_atfork`). The child finds all of them free and all data
//!   consistent.
//! * **turns** ([`crate::turns`]): held during I/O and long work. A child starts with none taken.
//! * **per process**: engine state that a child creates anew.
//! * **local**: locks on the stack of a request, whose threads do not exist in the child.
//!
//! The gate is one lock per process: guards share it, a fork takes it exclusively. Guards may be
//! nested: a thread passes the gate once, with its first guard.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LockResult, Once, PoisonError};

/// Shared by guards, held exclusively by a fork.
static GATE: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Number of forks between program start and this process. Tells a child that it is one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Incremented when a fork begins and when it is over. Odd: a fork is running.
static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Number of guards held by this thread.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// The gate's guard, held from this thread's first [`Guard`] to its last, in any order.
    static PASSED: RefCell<Option<std::sync::RwLockReadGuard<'static, ()>>> = const { RefCell::new(None) };
    /// The gate's exclusive guard during a fork by this thread.
    static FORKING: RefCell<Option<std::sync::RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> std::ffi::c_int;
}

extern "C" fn before() {
    // A thread that forks inside a guard (none of ours does) must not wait for itself.
    if INSIDE.try_with(Cell::get).unwrap_or(1) > 0 {
        return;
    }
    let alone = GATE.write().unwrap_or_else(PoisonError::into_inner);
    // Inside the gate, so forks come one by one.
    FORKS.fetch_add(1, Ordering::SeqCst);
    let _ = FORKING.try_with(|forking| *forking.borrow_mut() = Some(alone));
}

extern "C" fn after_in_parent() {
    let _ = FORKING.try_with(|forking| {
        if let Some(alone) = forking.borrow_mut().take() {
            FORKS.fetch_add(1, Ordering::SeqCst);
            drop(alone);
        }
    });
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The gate opens first, because the next calls pass it.
    after_in_parent();
    crate::turns::forget();
    crate::descriptors::forget_in_child();
}

/// Makes forks wait for guards.
///
/// Every guard calls this first. A loadable library calls it early, before threads exist.
pub fn prepare() {
    static ARMED: Once = Once::new();
    // `Once` is held during one call. A child forked meanwhile, before anything was guarded, could
    // hang. The extension module therefore calls this when it is imported, before we have threads.
    ARMED.call_once(|| {
        // SAFETY: the handlers are functions that live for ever, need no argument, and do not
        // unwind: they only take and release locks.
        unsafe { pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

/// A number that differs in every forked child.
pub fn generation() -> u64 {
    prepare();
    GENERATION.load(Ordering::Relaxed)
}

/// Refuses changes of a file by a forked child, which shares the file with its parent. `generation`: of
/// the process that opened the file for writing.
pub(crate) fn check_writer(generation: u64) -> io::Result<()> {
    if generation == self::generation() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the file was opened for writing by the parent process: open it again in this process",
    ))
}

/// A counter that becomes odd when a fork begins, and even when it is over.
pub(crate) fn forks() -> u64 {
    prepare();
    FORKS.load(Ordering::SeqCst)
}

/// A passage through the gate. The thread may be inside already.
#[derive(Debug)]
struct Pass;

impl Pass {
    fn new() -> Pass {
        prepare();
        // A thread that is ending has no thread-locals any more, so its last guards are not
        // counted. A fork at that instant could find them held.
        let _ = INSIDE.try_with(|inside| {
            if inside.replace(inside.get() + 1) == 0 {
                let _ = PASSED.try_with(|passed| {
                    passed.replace(Some(GATE.read().unwrap_or_else(PoisonError::into_inner)));
                });
            }
        });
        Pass
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| {
            inside.set(inside.get().saturating_sub(1));
            if inside.get() == 0 {
                let _ = PASSED.try_with(|passed| passed.take());
            }
        });
    }
}

/// Guard of a [`Mutex`] or an [`RwLock`].
#[derive(Debug)]
pub struct Guard<G> {
    // Dropped first, so that the data is free before the gate opens.
    guard: G,
    _pass: Pass,
}

/// Guard of a [`Mutex`].
pub type MutexGuard<'m, T> = Guard<std::sync::MutexGuard<'m, T>>;

/// Read guard of an [`RwLock`].
pub type ReadGuard<'m, T> = Guard<std::sync::RwLockReadGuard<'m, T>>;

/// Write guard of an [`RwLock`].
pub type WriteGuard<'m, T> = Guard<std::sync::RwLockWriteGuard<'m, T>>;

impl<G> Guard<G> {
    fn new(lock: impl FnOnce() -> LockResult<G>) -> Self {
        let pass = Pass::new();
        Guard { guard: lock().unwrap_or_else(PoisonError::into_inner), _pass: pass }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// A mutex that a fork waits for. Hold it for memory accesses only.
///
/// A panic inside does not poison it, so the data must be consistent between any two statements.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Guard::new(|| self.0.lock())
    }
}

/// Like [`Mutex`], with concurrent readers.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    pub fn read(&self) -> ReadGuard<'_, T> {
        Guard::new(|| self.0.read())
    }

    /// Waits until nobody else reads or writes.
    pub fn write(&self) -> WriteGuard<'_, T> {
        Guard::new(|| self.0.write())
    }
}

/// A value that is made on first use, without a lock.
///
/// Racing threads each make it, and the first result stays. For values that are cheap to make
/// twice. (`OnceLock::get_or_init` holds a lock while it makes the value, and a forked child would
/// wait for it.)
#[derive(Debug)]
pub struct Lazy<T>(std::sync::OnceLock<T>);

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Lazy::new()
    }
}

impl<T: Clone> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        // Cloning a `OnceLock` would take a lock.
        let clone = Lazy::new();
        if let Some(value) = self.get() {
            clone.put(value.clone());
        }
        clone
    }
}

impl<T> Lazy<T> {
    /// Creates an empty cell.
    pub const fn new() -> Self {
        Lazy(std::sync::OnceLock::new())
    }

    /// The value, if there is one yet.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value unless there is one. Returns the value in the cell.
    pub fn put(&self, value: T) -> &T {
        // `OnceLock::set` holds its lock during one move.
        let _pass = Pass::new();
        let _ = self.0.set(value);
        // Set just now or before.
        match self.0.get() {
            Some(value) => value,
            None => unreachable!("a cell that was set is set"),
        }
    }

    /// The value. Makes it if there is none.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| self.put(make()))
    }

    /// Like [`Lazy::get_or_make`], with a fallible `make`.
    pub fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => Ok(self.put(make()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lazy, Mutex, RwLock, generation};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn kill(pid: i32, signal: i32) -> i32;
    }

    /// Forks, and returns the result of `check` in the child. `None` if the child did not answer in
    /// time.
    fn child(check: impl FnOnce() -> bool) -> Option<bool> {
        // SAFETY: the child calls only `check` and `_exit`.
        let pid = unsafe { fork() };
        if pid == 0 {
            let good = check();
            // SAFETY: ends the process at once.
            unsafe { _exit(i32::from(!good)) };
        }
        let (mut status, end) = (0, Instant::now() + Duration::from_secs(10));
        while Instant::now() < end {
            // SAFETY: waits for the child that was just made.
            if unsafe { waitpid(pid, &raw mut status, 1) } == pid {
                return Some(status == 0);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: as above. The child still exists, since it has not been waited for.
        unsafe {
            kill(pid, 9);
            waitpid(pid, &raw mut status, 0);
        }
        None
    }

    #[test]
    fn children_find_locks_free_and_data_whole() {
        let pair = Arc::new(Mutex::new((0u64, 0u64)));
        let list = Arc::new(RwLock::new(vec![0u64; 64]));
        let lazy: Arc<Lazy<u64>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let before = generation();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let mut both = pair.lock();
                        both.0 += 1;
                        let mut all = list.write();
                        let next = all[0] + 1;
                        all.fill(next);
                        std::hint::black_box(&mut all);
                        both.1 += 1;
                        drop(all);
                        drop(both);
                        let _ = lazy.get_or_make(|| 3);
                    }
                });
            }
            for _ in 0..200 {
                let found = child(|| {
                    let both = pair.lock();
                    let all = list.read();
                    both.0 == both.1
                        && all.iter().all(|n| *n == all[0])
                        && *lazy.get_or_make(|| 3) == 3
                        && generation() == before + 1
                });
                assert_eq!(found, Some(true));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(generation(), before);
    }
}
