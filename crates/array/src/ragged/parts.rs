//! Runs independent parts of a request on all threads.

#![expect(clippy::indexing_slicing, reason = "tasks are numbered by the list itself")]

use crate::costs;
use crate::execute::tasks;
use crate::runtime::pool::POOL;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Calls `each` once for every part, with its number, on up to `threads` threads.
///
/// A part may be, for example, a region of the result. `None` threads means
/// [`crate::runtime::settings::threads`]. `work` is the work of all parts, in bytes that could be
/// moved instead: a little work stays on the caller's thread. Returns the results in the order of
/// the parts.
///
/// After an error, no further part is started. The error of the lowest failed part is returned.
pub fn each_part<P: Send, T: Send + Sync, E: Send>(
    parts: Vec<P>,
    work: u64,
    threads: Option<usize>,
    each: &(dyn Fn(usize, P) -> Result<T, E> + Sync),
) -> Result<Vec<T>, E> {
    if parts.len() <= 1 {
        return parts.into_iter().map(|part| each(0, part)).collect();
    }
    // Local: only threads of this request use them.
    let parts: Vec<_> = parts.into_iter().map(|part| (Mutex::new(Some(part)), OnceLock::new())).collect();
    let task = |number: usize, _: hyperslab_store::Ask<'_>| {
        let (part, made) = &parts[number];
        if let Some(part) = part.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = made.set(each(number, part)?);
        }
        Ok(())
    };
    let pool = &POOL.get();
    let inline = if pool.is_awake() { costs::INLINE_WORK / 4 } else { costs::INLINE_WORK };
    let threads = tasks::worthwhile_threads(work, inline, parts.len(), tasks::limit(threads));
    pool.run(parts.len(), threads, &|| 0, &task, &|| None)?;
    Ok(parts.into_iter().filter_map(|(_, made)| made.into_inner()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_once_in_order() {
        for threads in [1, 3] {
            let mut memory = vec![0u32; 1000];
            let parts: Vec<&mut [u32]> = memory.chunks_mut(7).collect();
            let made = each_part(parts, 1 << 30, Some(threads), &|number, part: &mut [u32]| {
                part.iter_mut().for_each(|value| *value += number as u32);
                Ok::<_, ()>(number * 2)
            });
            assert_eq!(made.unwrap(), (0..143).map(|number| number * 2).collect::<Vec<_>>());
            assert!(memory.iter().enumerate().all(|(at, value)| *value == (at / 7) as u32));
        }
        assert_eq!(each_part(Vec::<u8>::new(), 0, None, &|_, _| Ok::<_, ()>(1)), Ok(vec![]));
    }

    #[test]
    fn the_error_of_the_lowest_part() {
        for threads in [1, 3] {
            let failed = each_part((0..500).collect(), 1 << 30, Some(threads), &|number, part: usize| {
                assert_eq!(number, part);
                if number % 100 == 77 { Err(number) } else { Ok(()) }
            });
            assert_eq!(failed, Err(77));
        }
    }
}
