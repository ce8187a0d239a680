//! The machine's limit: the least cost of a benchmark row without any array library.
//!
//! Plain loops over chunk files. A read opens, `pread`s, decodes in one shot with a reused context
//! and copies rows. A write gathers, encodes, writes a temporary file, closes and renames. The
//! memory belongs to the caller, and its pages are mapped. The caller chooses the number of
//! threads. Nothing here validates, plans or recovers: this is a yardstick, not a library.
//!
//! Python calls these functions through `ctypes`. `benches/limits.py` has the same structures.

mod chunk;
mod codec;
mod shard;

use chunk::{Chunk, State};
use codec::Codec;
use shard::Shard;
use std::ffi::{CStr, OsStr, c_char};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Chunks to read or write, all with one codec.
#[repr(C)]
pub struct Job {
    chunks: *const Chunk,
    count: usize,
    /// Bytes of a decoded chunk.
    chunk_bytes: usize,
    /// Bytes of an element.
    item: usize,
    /// 0: none, 1: zstd, 2: gzip, 3: zlib and shuffle.
    codec: u32,
    level: i32,
    threads: usize,
}

/// Scratch memory and contexts of earlier calls. They outlive the threads of a call.
static STATES: Mutex<Vec<State>> = Mutex::new(Vec::new());

impl Job {
    /// Calls `work` for every chunk, claimed one by one by the threads. Returns 1 if any failed, or
    /// 0.
    fn run(&self, work: impl Fn(&Self, &Chunk, &mut State) -> io::Result<()> + Sync) -> i32 {
        self.run_each(self.chunks(), work)
    }

    fn chunks(&self) -> &[Chunk] {
        // SAFETY: the caller gives as many chunks as it says, and they live until the call returns.
        unsafe { std::slice::from_raw_parts(self.chunks, self.count) }
    }

    /// Like `run`, for any list of items.
    fn run_each<T: Sync>(
        &self,
        all: &[T],
        work: impl Fn(&Self, &T, &mut State) -> io::Result<()> + Sync,
    ) -> i32 {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let run_some = || {
            let mut state = STATES.lock().ok().and_then(|mut states| states.pop()).unwrap_or_default();
            while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = work(self, one, &mut state) {
                    eprintln!("hyperslab-limit: {error}");
                    failed.store(true, Ordering::Relaxed);
                    break;
                }
            }
            state.close();
            if let Ok(mut states) = STATES.lock() {
                states.push(state);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                scope.spawn(run_some);
            }
            run_some();
        });
        failed.into_inner().into()
    }

    fn codec(&self) -> io::Result<Codec> {
        Codec::new(self.codec, self.level)
    }
}

// SAFETY: threads share the pointers as the caller promises: chunks do not overlap in memory or on
// disk.
unsafe impl Sync for Job {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// Reads all chunks into the caller's memory.
///
/// Skips absent objects: their memory already has the fill value.
///
/// # Safety
///
/// `job` and everything it points to must be valid. No two chunks may share memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_read(job: *const Job) -> i32 {
    // SAFETY: the caller's promise.
    let job = unsafe { &*job };
    job.run(|job, chunk, state| chunk.read(job.codec()?, job.chunk_bytes, job.item, state))
}

/// Writes all chunks from the caller's memory. A partial chunk is read, changed and replaced.
///
/// # Safety
///
/// As for [`limit_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_write(job: *const Job) -> i32 {
    // SAFETY: the caller's promise.
    let job = unsafe { &*job };
    job.run(|job, chunk, state| chunk.write(job.codec()?, job.chunk_bytes, job.item, state))
}

/// Writes whole shards.
///
/// The chunks of the job are sorted by shard, and within a shard by their index entry.
///
/// # Safety
///
/// As for [`limit_read`]. `shards` points to `count` shards, whose chunks are within the job's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_write_shards(job: *const Job, shards: *const Shard, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    let (job, shards) = unsafe { (&*job, std::slice::from_raw_parts(shards, count)) };
    job.run_each(shards, |job, shard, state| shard.write(job, state))
}

/// Replaces one inner chunk of a shard by the job's only chunk.
///
/// `start` of this chunk is its number in the index, which has `count` entries.
///
/// # Safety
///
/// As for [`limit_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_rewrite(job: *const Job, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    let job = unsafe { &*job };
    job.run(|job, chunk, state| shard::rewrite(job, chunk, count, state))
}

/// Opens a file, reads a range and closes it, `times` times.
///
/// The loop is here so that the cost of calling this function does not count.
///
/// # Safety
///
/// `path` must end with NUL and `out` must have room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_pread(
    path: *const c_char,
    offset: u64,
    out: *mut u8,
    length: usize,
    times: usize,
) -> i32 {
    // SAFETY: the caller's promises.
    let (path, out) = unsafe { (as_path(path), std::slice::from_raw_parts_mut(out, length)) };
    let read = |out: &mut [u8]| File::open(path)?.read_exact_at(out, offset);
    (0..times).any(|_| read(out).is_err()).into()
}

/// Calls `memcpy`.
///
/// # Safety
///
/// Both must have room for `bytes` bytes and must not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_copy(out: *mut u8, source: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { std::ptr::copy_nonoverlapping(source, out, bytes) };
    0
}

/// Bytes of a piece that [`limit_hash`] hashes at once: a leaf of the content hash.
const LEAF: usize = 16 << 10;

/// Hashes 1 MiB `count` times with BLAKE3, in pieces, on some threads. The bytes stay in the caches.
///
/// # Safety
///
/// There must be 1 MiB at `source`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limit_hash(source: *const u8, count: usize, threads: usize) -> i32 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(source, 1 << 20) };
    let next = AtomicUsize::new(0);
    let run_some = || {
        while next.fetch_add(1, Ordering::Relaxed) < count {
            for piece in std::hint::black_box(bytes).chunks(LEAF) {
                std::hint::black_box(blake3::hash(piece));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run_some);
        }
        run_some();
    });
    0
}

/// Returns a path that Python has encoded.
///
/// # Safety
///
/// The path must end with NUL and outlive the result.
unsafe fn as_path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    /// Two chunks of 4 × 6 bytes, side by side in memory of 4 × 12. Each takes the first `rows`
    /// rows.
    fn chunks(paths: &[CString], memory: &mut [u8], rows: usize) -> Vec<Chunk> {
        (0..2)
            .map(|n| Chunk {
                path: paths[n].as_ptr(),
                // SAFETY: within the 48 bytes.
                memory: unsafe { memory.as_mut_ptr().add(6 * n) },
                start: 0,
                counts: [1, rows, 6],
                memory_strides: [0, 12, 1],
                chunk_strides: [0, 6, 1],
                offset: 0,
                length: 0,
            })
            .collect()
    }

    #[test]
    fn what_is_written_is_read_and_parts_are_overlaid() {
        let directory = tempfile::tempdir().unwrap();
        for (codec, threads) in [(0, 1), (1, 2), (2, 1)] {
            let paths: Vec<CString> = (0..2)
                .map(|n| directory.path().join(format!("{codec}/{n}/chunk")))
                .map(|path| CString::new(path.into_os_string().into_encoded_bytes()).unwrap())
                .collect();
            let run = |memory: &mut [u8], rows, function: unsafe extern "C" fn(*const Job) -> i32| {
                let chunks = chunks(&paths, memory, rows);
                let job = Job {
                    chunks: chunks.as_ptr(),
                    count: 2,
                    chunk_bytes: 24,
                    item: 1,
                    codec,
                    level: 3,
                    threads,
                };
                // SAFETY: everything lives until the end of this block, and the parts do not
                // overlap.
                assert_eq!(unsafe { function(&raw const job) }, 0);
            };
            let mut expected: Vec<u8> = (0..48).collect();
            let mut found = vec![255; 48];
            run(&mut found, 4, limit_read);
            assert_eq!(found, [255; 48], "absent");
            run(&mut expected, 4, limit_write);
            run(&mut found, 4, limit_read);
            assert_eq!(found, expected);
            run(&mut [7; 48], 2, limit_write);
            expected[..24].fill(7);
            run(&mut found, 4, limit_read);
            assert_eq!(found, expected);
        }
    }
}
