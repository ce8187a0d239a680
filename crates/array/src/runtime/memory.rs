//! Memory for results and scratch.

#![expect(clippy::indexing_slicing, reason = "pages are at least as long as the memory")]

use crate::costs;
use crate::runtime::recycler::{self, RECYCLER};
use memmap2::MmapMut;

/// Bytes with one owner: a result that becomes a NumPy array without a copy, or a decoded chunk.
///
/// Aligned for every element type. Always initialised: fresh memory is zero, recycled memory holds
/// stale bytes that its new owner overwrites. Dropping it returns the pages to the recycler.
pub struct Memory {
    block: Backing,
    len: usize,
}

enum Backing {
    /// Too small for whole pages to pay. `u128` for its alignment.
    Small(Vec<u128>),
    /// `None` only during the drop.
    Pages(Option<MmapMut>),
}

impl Memory {
    /// Memory with unspecified (but initialised) contents, for callers who overwrite every byte.
    /// `None` if there is not enough.
    pub fn dirty(len: usize) -> Option<Self> {
        if len < costs::PAGES_FROM {
            return Some(Memory { block: Backing::Small(small_buffer(len)), len });
        }
        let class = recycler::class_of(len)?;
        let pages = match RECYCLER.get().take(class) {
            Some(pages) => pages,
            None => fresh(class, true)?,
        };
        Some(Memory { block: Backing::Pages(Some(pages)), len })
    }

    /// Memory of zeros. A large block costs nothing until it is touched: the system zeroes pages on
    /// first use. `None` if there is not enough.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len < costs::PAGES_FROM {
            return Some(Memory { block: Backing::Small(small_buffer(len)), len });
        }
        let pages = fresh(recycler::class_of(len)?, false)?;
        Some(Memory { block: Backing::Pages(Some(pages)), len })
    }

    /// Changes the length and keeps the contents. New bytes are unspecified (but initialised).
    ///
    /// Returns `false`, and changes nothing, if there is no memory. Growing step by step costs no
    /// more than growing at once: room is made for twice the size, which takes addresses but no
    /// memory. [`Memory::shrink`] gives back the surplus.
    pub fn resize(&mut self, len: usize) -> bool {
        let room = self.room();
        if len > room && !self.grow(len.max(room.saturating_mul(2))) && !self.grow(len) {
            return false;
        }
        self.len = len;
        true
    }

    /// Makes room for about `len` bytes, in recycled pages if there are some.
    ///
    /// If the guess is too large, [`Memory::shrink`] gives back the surplus; if it is too small,
    /// the memory grows again. Returns whether there is room.
    pub fn reserve(&mut self, len: usize) -> bool {
        if len <= self.room() {
            return true;
        }
        let Some(class) = recycler::class_of(len).filter(|_| len >= costs::PAGES_FROM) else {
            return self.grow(len);
        };
        let Some(pages) = RECYCLER.get().take_about(class) else { return self.grow(len) };
        let mut other = Memory { block: Backing::Pages(Some(pages)), len: self.len };
        other.as_mut_slice().copy_from_slice(self.as_slice());
        *self = other;
        true
    }

    /// Gives back the room behind the end if it is more than a quarter of the size in use.
    ///
    /// The block that remains has a size that the recycler can give out again.
    pub fn shrink(&mut self) {
        match (&mut self.block, recycler::class_of(self.len)) {
            (Backing::Small(words), _) => words.truncate(self.len.div_ceil(size_of::<u128>())),
            (Backing::Pages(_), _) if self.len < costs::PAGES_FROM => {
                let mut words = small_buffer(self.len);
                bytemuck::cast_slice_mut(&mut words)[..self.len].copy_from_slice(self.as_slice());
                *self = Memory { block: Backing::Small(words), len: self.len };
            }
            (Backing::Pages(Some(pages)), Some(class)) if class + class / 4 < pages.len() => {
                // If the block cannot shrink, it stays as it is: only addresses are lost.
                remap(pages, class);
            }
            _ => {}
        }
    }

    /// Bytes that fit without another block.
    pub(crate) fn room(&self) -> usize {
        match &self.block {
            Backing::Small(words) => words.len() * size_of::<u128>(),
            Backing::Pages(pages) => pages.as_ref().map_or(0, |pages| pages.len()),
        }
    }

    /// Makes room for `len` bytes, at least as many as there are. Returns whether there is room.
    fn grow(&mut self, len: usize) -> bool {
        if let Backing::Small(words) = &mut self.block
            && len < costs::PAGES_FROM
        {
            words.resize(len.div_ceil(size_of::<u128>()), 0);
            return true;
        }
        if let Backing::Pages(Some(pages)) = &mut self.block
            && let Some(class) = recycler::class_of(len)
            && remap(pages, class)
        {
            return true;
        }
        let Some(mut other) = Memory::dirty(len) else { return false };
        other.as_mut_slice()[..self.len].copy_from_slice(self.as_slice());
        other.len = self.len;
        *self = other;
        true
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        let all: &[u8] = match &self.block {
            Backing::Small(words) => bytemuck::cast_slice(words),
            Backing::Pages(pages) => pages.as_deref().unwrap_or(&[]),
        };
        &all[..self.len]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let all: &mut [u8] = match &mut self.block {
            Backing::Small(words) => bytemuck::cast_slice_mut(words),
            Backing::Pages(pages) => pages.as_deref_mut().unwrap_or(&mut []),
        };
        &mut all[..self.len]
    }
}

fn small_buffer(len: usize) -> Vec<u128> {
    vec![0; len.div_ceil(size_of::<u128>())]
}

/// Makes a block larger or smaller without a copy: the system moves its pages to other addresses.
/// Returns whether it could.
#[cfg(target_os = "linux")]
fn remap(pages: &mut MmapMut, class: usize) -> bool {
    let options = memmap2::RemapOptions::new().may_move(true);
    // SAFETY: the mapping is anonymous, so there is no file that could be shorter than it; it is
    // borrowed exclusively, so nothing else points into it.
    let done = unsafe { pages.remap(class, options) }.is_ok();
    if done && class >= costs::HUGE_FROM {
        // As in `fresh`.
        let _ = pages.advise(memmap2::Advice::HugePage);
    }
    done
}

#[cfg(not(target_os = "linux"))]
fn remap(_: &mut MmapMut, _: usize) -> bool {
    false
}

fn fresh(class: usize, whole: bool) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(class).ok()?;
    #[cfg(target_os = "linux")]
    if whole && class >= costs::HUGE_FROM {
        // Advice only: nothing changes if the system has no huge pages.
        let _ = pages.advise(memmap2::Advice::HugePage);
    }
    Some(pages)
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Backing::Pages(pages) = &mut self.block
            && let Some(pages) = pages.take()
        {
            RECYCLER.get().give(pages);
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_is_zero_even_after_recycling() {
        for len in [0, 1, 1000, 65_535, 65_536, 300_000, 5 << 20] {
            for _ in 0..3 {
                let mut memory = Memory::dirty(len).unwrap();
                memory.as_mut_slice().fill(0xAB);
                drop(memory);
                let zero = Memory::zeroed(len).unwrap();
                assert_eq!(zero.len(), len);
                assert_eq!(zero.as_slice().as_ptr() as usize % 16, 0);
                assert!(zero.as_slice().iter().all(|b| *b == 0));
            }
        }
    }

    #[test]
    fn growing_keeps_what_there_was() {
        let byte = |at: usize| (at * 7 + at / 251) as u8;
        let mut memory = Memory::dirty(0).unwrap();
        for len in [0, 1, 15, 16, 100, 65_535, 65_536, 200_000, 200_001, 5 << 20, (40 << 20) + 3] {
            let before = memory.len();
            assert!(memory.resize(len));
            assert_eq!(memory.len(), len);
            (before..len).for_each(|at| memory.as_mut_slice()[at] = byte(at));
            assert_eq!(memory.as_slice().as_ptr() as usize % 16, 0);
        }
        for len in [(40 << 20) + 3, 30 << 20, 70_000, 65_535, 17, 3] {
            assert!(memory.resize(len));
            memory.shrink();
            assert_eq!(memory.len(), len);
            assert!(memory.as_slice().iter().enumerate().all(|(at, found)| *found == byte(at)), "{len}");
            let most = recycler::class_of(len).unwrap();
            assert!(
                !cfg!(target_os = "linux") || memory.room() <= most + most / 4,
                "{len}: {}",
                memory.room()
            );
        }
        // Pages that were in use before are used again for about the same size.
        let mut guessed = Memory::dirty(10).unwrap();
        guessed.as_mut_slice().fill(7);
        drop(Memory::dirty(77 << 20).unwrap());
        assert!(guessed.reserve(70 << 20) && guessed.as_slice() == [7; 10]);
        assert_eq!(guessed.room(), recycler::class_of(77 << 20).unwrap());
        assert!(guessed.resize(72 << 20) && guessed.as_slice()[..10] == [7; 10]);
        guessed.shrink();
        assert_eq!(guessed.room(), recycler::class_of(77 << 20).unwrap());
        // As long as there is room, nothing moves.
        assert!(memory.resize(100_000) && memory.resize(150_000));
        let (place, room) = (memory.as_slice().as_ptr(), memory.room());
        assert!(room >= 200_000 && memory.resize(room) && memory.resize(5) && memory.resize(room));
        assert_eq!(memory.as_slice().as_ptr(), place);
        assert!(!memory.resize(usize::MAX) && !memory.resize(isize::MAX as usize));
        assert_eq!(memory.len(), room);
        assert!(memory.as_slice()[..3].iter().enumerate().all(|(at, found)| *found == byte(at)));
    }

    #[test]
    fn too_much_is_none_not_an_abort() {
        assert!(Memory::dirty(usize::MAX).is_none());
        assert!(Memory::zeroed(isize::MAX as usize).is_none());
    }
}
