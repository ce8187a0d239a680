//! Holds the bytes of elements of variable length while the engine moves the elements.
//!
//! The engine moves elements of one size. An element of variable length is a [`Cell`]: 16 bytes
//! that say where the element's bytes are in the [`Heap`] of the request. [`crate::Vlen`] turns the
//! bytes of a chunk into cells and back. Selections, points, orders of axes, shards and threads
//! therefore treat elements of variable length like all others.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An element of variable length, as the engine moves it. All zero means no bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The number of the heap's buffer with the bytes.
    pub buffer: u32,
    /// The number of bytes.
    pub len: u32,
    /// The first byte in the buffer.
    pub offset: u64,
}

impl Cell {
    /// Bytes of a cell.
    pub const SIZE: usize = 16;

    /// Reads a cell from memory, in the machine's byte order.
    #[inline]
    pub fn read(bytes: &[u8; Cell::SIZE]) -> Cell {
        let [a, b, c, d, e, f, g, h, offset @ ..] = *bytes;
        Cell {
            buffer: u32::from_ne_bytes([a, b, c, d]),
            len: u32::from_ne_bytes([e, f, g, h]),
            offset: u64::from_ne_bytes(offset),
        }
    }

    /// Writes the cell for memory, in the machine's byte order.
    #[inline]
    pub fn write(self) -> [u8; Cell::SIZE] {
        let mut bytes = [0; Cell::SIZE];
        let (front, offset) = bytes.split_at_mut(8);
        let (buffer, len) = front.split_at_mut(4);
        buffer.copy_from_slice(&self.buffer.to_ne_bytes());
        len.copy_from_slice(&self.len.to_ne_bytes());
        offset.copy_from_slice(&self.offset.to_ne_bytes());
        bytes
    }
}

/// Bytes that a buffer of a heap owns.
pub type HeapBuffer = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Memory for the bytes of a chunk's elements.
pub trait HeapMemory: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl HeapMemory for Vec<u8> {}

/// Allocates this many bytes with any content, or returns `None` if there is no memory.
pub type HeapAllocator = fn(usize) -> Option<Arc<dyn HeapMemory>>;

/// The bytes of the cells of one request. Buffer 0 is the fill value.
pub struct Heap {
    /// A heap belongs to one request. A forked child does not continue the request, so it never
    /// waits for this lock.
    buffers: RwLock<Vec<Slot>>,
    fill: u32,
    allocate: HeapAllocator,
}

struct Slot {
    buffer: Option<HeapBuffer>,
    /// `true` if the buffer belongs to a decoded chunk.
    decoded: bool,
}

impl Heap {
    /// A heap with only the fill value.
    pub fn new(fill: &[u8]) -> Self {
        let len = u32::try_from(fill.len()).unwrap_or(u32::MAX);
        let buffer: HeapBuffer = Arc::new(fill.to_vec());
        let buffers = RwLock::new(vec![Slot { buffer: Some(buffer), decoded: false }]);
        Heap { buffers, fill: len, allocate: from_vec }
    }

    /// The same heap, with chunks decoded to memory from `allocate`.
    pub fn with_allocator(self, allocate: HeapAllocator) -> Self {
        Heap { allocate, ..self }
    }

    /// Memory for the bytes of a chunk's elements, or `None` if there is none.
    pub(crate) fn allocate(&self, len: usize) -> Option<Arc<dyn HeapMemory>> {
        (self.allocate)(len)
    }

    /// The cell of elements that were never written.
    pub fn fill(&self) -> Cell {
        Cell { buffer: 0, len: self.fill, offset: 0 }
    }

    /// Adds a buffer and returns its number, or `None` if there are already 2³².
    pub fn push(&self, buffer: HeapBuffer) -> Option<u32> {
        self.add(Slot { buffer: Some(buffer), decoded: false })
    }

    /// All buffers by number; `None` marks an empty slot.
    pub fn buffers(&self) -> Vec<Option<HeapBuffer>> {
        self.read().iter().map(|slot| slot.buffer.clone()).collect()
    }

    /// The buffer with this number, or `None` if the slot is empty.
    pub(crate) fn buffer(&self, number: u32) -> Option<HeapBuffer> {
        self.read().get(number as usize)?.buffer.clone()
    }

    /// Reserves a number for the buffer of a decoded chunk.
    ///
    /// Returns `None` if there are already 2³² buffers.
    pub(crate) fn reserve(&self) -> Option<u32> {
        self.add(Slot { buffer: None, decoded: true })
    }

    /// Puts a buffer into the slot that was reserved for it.
    pub(crate) fn put(&self, number: u32, bytes: Arc<dyn HeapMemory>) {
        if let Some(slot) = self.write().get_mut(number as usize) {
            slot.buffer = Some(bytes);
        }
    }

    /// Drops the buffers with these numbers that belong to decoded chunks.
    pub(crate) fn forget(&self, numbers: impl Iterator<Item = u32>) {
        let mut dropped = Vec::new();
        let mut buffers = self.write();
        for number in numbers {
            if let Some(slot) = buffers.get_mut(number as usize).filter(|slot| slot.decoded) {
                dropped.push(slot.buffer.take());
            }
        }
        // Freeing many pages takes long, so do it after unlocking.
        drop(buffers);
    }

    fn add(&self, slot: Slot) -> Option<u32> {
        let mut buffers = self.write();
        let number = u32::try_from(buffers.len()).ok()?;
        buffers.push(slot);
        Some(number)
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Slot>> {
        self.buffers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Slot>> {
        self.buffers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn from_vec(len: usize) -> Option<Arc<dyn HeapMemory>> {
    let mut bytes: Vec<u8> = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(Arc::new(bytes))
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heap")
    }
}
