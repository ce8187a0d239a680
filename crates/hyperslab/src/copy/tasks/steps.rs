//! Steps of a run at which tests intervene: they suspend a run there, or end it.

use crate::Result;
use hyperslab_store::fork::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Called before a step, with its name. An error ends the run there.
pub type StepHook = Arc<dyn Fn(&'static str) -> Result<()> + Send + Sync>;

static IS_SET: AtomicBool = AtomicBool::new(false);
static HOOK: RwLock<Option<StepHook>> = RwLock::new(None);

/// Sets the function that is called before each step of the runs in this process. For tests.
pub fn set_step_hook(hook: Option<StepHook>) {
    IS_SET.store(hook.is_some(), Relaxed);
    let former = std::mem::replace(&mut *HOOK.write(), hook);
    // Not under the lock.
    drop(former);
}

/// Tells that a step comes next.
pub(super) fn reach(step: &'static str) -> Result<()> {
    if !IS_SET.load(Relaxed) {
        return Ok(());
    }
    // The function runs without the lock.
    let hook = HOOK.read().clone();
    hook.map_or(Ok(()), |hook| hook(step))
}
