//! x
use crate::store::RemoteStore;
use hyperslab_store::{HeldObject, Key, Result};
pub(crate) fn hold(_: &RemoteStore, _: Key<'_>) -> Result<Option<HeldObject>> { Ok(None) }
