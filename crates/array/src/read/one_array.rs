//! Makes a read of several objects see one array ([`crate::layout::origin`]).
//!
//! This holds even if another array takes its place meanwhile.

use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::layout::origin::OriginState;

/// How often a read is tried before it gives up.
const ATTEMPTS: usize = 16;

/// Repeats a read of `count` objects until all of them belong to one array.
///
/// `read` gets `true` when it is repeated: its earlier findings about the objects are then
/// outdated.
pub(crate) fn of_one_array<T>(
    layout: &ArrayLayout,
    count: impl FnOnce() -> usize,
    mut read: impl FnMut(bool) -> Result<T, ArrayError>,
) -> Result<T, ArrayError> {
    let Some(origin) = layout.origin().filter(|_| count() > 1) else { return read(false) };
    let replaced = || ArrayError::Replaced { array: layout.name().into() };
    let look = || origin.look().map_err(|source| layout.format_error(&[], source));
    if !origin.is_known() && look()? == OriginState::Other {
        return Err(replaced());
    }
    for attempt in 0..ATTEMPTS {
        let done = read(attempt > 0);
        if matches!(done, Err(ArrayError::Interrupted { .. })) {
            return done;
        }
        match look()? {
            OriginState::Same => return done,
            OriginState::Alike => {}
            OriginState::Other => break,
        }
    }
    Err(replaced())
}
