//! Shards: inner chunks, then an index of their offsets and lengths with a checksum (CRC-32C).

use crate::Job;
use crate::chunk::{Chunk, State, replace_with};
use std::ffi::c_char;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;

/// A whole shard.
#[repr(C)]
pub struct Shard {
    /// The NUL-terminated path of the file.
    path: *const c_char,
    /// Number of the shard's first chunk in the job, and the count of its chunks.
    first: usize,
    count: usize,
}

// SAFETY: threads share the path as the caller promises.
unsafe impl Sync for Shard {}

impl Shard {
    /// Encodes all inner chunks and writes the shard with one `write`.
    pub(crate) fn write(&self, job: &Job, state: &mut State) -> io::Result<()> {
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        for chunk in &job.chunks()[self.first..self.first + self.count] {
            chunk.encode(job.codec()?, job.chunk_bytes, job.item, state)?;
            index.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            index.extend_from_slice(&(state.encoded.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&state.encoded);
        }
        bytes.extend_from_slice(&with_checksum(index));
        // SAFETY: the caller's promise.
        replace_with(unsafe { crate::as_path(self.path) }, |mut file| file.write_all(&bytes))
    }
}

/// Replaces an inner chunk.
///
/// The kernel copies the bytes before and after the old chunk. The new chunk and the index come
/// last.
pub(crate) fn rewrite(job: &Job, chunk: &Chunk, count: usize, state: &mut State) -> io::Result<()> {
    chunk.encode(job.codec()?, job.chunk_bytes, job.item, state)?;
    let mut old = File::open(chunk.path())?;
    let mut index = vec![0; 16 * count];
    let behind = old.metadata()?.len() - (16 * count + 4) as u64;
    old.read_exact_at(&mut index, behind)?;
    let number = |index: &[u8], at: usize| {
        u64::from_le_bytes(index[8 * at..8 * at + 8].try_into().unwrap_or_default())
    };
    let (offset, length) = (number(&index, 2 * chunk.start), number(&index, 2 * chunk.start + 1));
    for n in 0..count {
        let place = number(&index, 2 * n);
        let moved = if n == chunk.start {
            index[16 * n + 8..16 * n + 16].copy_from_slice(&(state.encoded.len() as u64).to_le_bytes());
            behind - length
        } else if place > offset {
            place - length
        } else {
            place
        };
        index[16 * n..16 * n + 8].copy_from_slice(&moved.to_le_bytes());
    }
    replace_with(chunk.path(), |mut file| {
        // The standard library asks the kernel to copy from file to file.
        io::copy(&mut (&old).take(offset), &mut file)?;
        old.seek(io::SeekFrom::Start(offset + length))?;
        io::copy(&mut (&old).take(behind - offset - length), &mut file)?;
        file.write_all(&state.encoded)?;
        file.write_all(&with_checksum(index))
    })
}

fn with_checksum(mut index: Vec<u8>) -> Vec<u8> {
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &index) as u32;
    index.extend_from_slice(&checksum.to_le_bytes());
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limit_read, limit_rewrite, limit_write_shards};
    use std::ffi::CString;

    /// A chunk of 24 bytes of contiguous memory. With a length it is part of a shard.
    fn chunk(path: &CString, memory: &mut [u8], start: usize, (offset, length): (u64, usize)) -> Chunk {
        Chunk {
            path: path.as_ptr(),
            memory: memory.as_mut_ptr(),
            start,
            counts: [1, 1, 24],
            memory_strides: [0, 0, 1],
            chunk_strides: [0, 0, 1],
            offset,
            length,
        }
    }

    fn job(chunks: &[Chunk], codec: u32) -> Job {
        Job {
            chunks: chunks.as_ptr(),
            count: chunks.len(),
            chunk_bytes: 24,
            item: 1,
            codec,
            level: 3,
            threads: 1,
        }
    }

    /// Returns offset and length of the inner chunks from the stored index.
    fn index(path: &CString, count: usize) -> Vec<(u64, usize)> {
        // SAFETY: the path ends with NUL.
        let bytes = std::fs::read(unsafe { crate::as_path(path.as_ptr()) }).unwrap();
        let index = &bytes[bytes.len() - 16 * count - 4..];
        assert_eq!(with_checksum(index[..16 * count].to_vec()), index);
        let numbers: Vec<u64> =
            index.chunks_exact(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).collect();
        let entries: Vec<_> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1] as usize)).collect();
        assert_eq!(entries.iter().map(|entry| entry.1).sum::<usize>(), bytes.len() - 16 * count - 4);
        entries
    }

    #[test]
    fn inner_chunks_are_written_replaced_and_read() {
        let directory = tempfile::tempdir().unwrap();
        for codec in [0, 1] {
            let path = directory.path().join(codec.to_string()).into_os_string().into_encoded_bytes();
            let path = CString::new(path).unwrap();
            let mut memory: Vec<Vec<u8>> = (0..3).map(|n| (n..n + 24).collect()).collect();
            let chunks: Vec<Chunk> =
                memory.iter_mut().map(|memory| chunk(&path, memory, 0, (0, 0))).collect();
            let shard = Shard { path: path.as_ptr(), first: 0, count: 3 };
            // SAFETY: everything lives until the call returns, and no two chunks share memory.
            assert_eq!(unsafe { limit_write_shards(&job(&chunks, codec), &shard, 1) }, 0);
            memory[1] = vec![7; 24];
            let change = [chunk(&path, &mut memory[1], 1, (0, 0))];
            // SAFETY: as above.
            assert_eq!(unsafe { limit_rewrite(&job(&change, codec), 3) }, 0);
            let mut found = vec![vec![0; 24]; 3];
            let chunks: Vec<Chunk> = found
                .iter_mut()
                .zip(index(&path, 3))
                .map(|(memory, place)| chunk(&path, memory, 0, place))
                .collect();
            // SAFETY: as above.
            assert_eq!(unsafe { limit_read(&job(&chunks, codec)) }, 0);
            assert_eq!(found, memory);
        }
    }
}
