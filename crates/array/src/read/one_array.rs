//! A read of several objects finds those of one array, also where another array takes its place
//! meanwhile ([`crate::layout::origin`]).

use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::layout::origin::Seen;

/// How often a read begins again before it gives up.
const ATTEMPTS: usize = 16;

/// Does a read of so many objects (`count`) until all of them are of one array. `read` gets `true`
/// where it was done before: what was found out about the objects then is of no use.
pub(crate) fn of_one_array<T>(
    layout: &ArrayLayout,
    count: impl FnOnce() -> usize,
    mut read: impl FnMut(bool) -> Result<T, ArrayError>,
) -> Result<T, ArrayError> {
    let Some(origin) = layout.origin().filter(|_| count() > 1) else { return read(false) };
    let replaced = || ArrayError::Replaced { array: layout.name().into() };
    let look = || origin.look().map_err(|source| layout.format_error(&[], source));
    if !origin.is_known() && look()? == Seen::Other {
        return Err(replaced());
    }
    for attempt in 0..ATTEMPTS {
        let done = read(attempt > 0);
        if matches!(done, Err(ArrayError::Interrupted { .. })) {
            return done;
        }
        match look()? {
            Seen::Same => return done,
            Seen::Alike => {}
            Seen::Other => break,
        }
    }
    Err(replaced())
}
