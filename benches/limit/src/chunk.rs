//! One chunk: its file, and the place of the selected part in the chunk and in the caller's memory.

use crate::codec::{Codec, Contexts};
use std::ffi::c_char;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::slice;

/// Part of one chunk: up to three axes, strides in bytes.
#[repr(C)]
pub struct Chunk {
    /// The NUL-terminated path of the file.
    pub(crate) path: *const c_char,
    /// The part's first element in the caller's memory.
    pub(crate) memory: *mut u8,
    /// The part's first byte in the decoded chunk.
    pub(crate) start: usize,
    /// Elements per axis.
    pub(crate) counts: [usize; 3],
    /// Strides of the axes in the caller's memory. They may be negative.
    pub(crate) memory_strides: [isize; 3],
    /// Strides of the axes in the decoded chunk. Never negative.
    pub(crate) chunk_strides: [usize; 3],
    /// Offset of the chunk in its file, a shard or an HDF5 file.
    pub(crate) offset: u64,
    /// Length of the stored chunk in bytes. 0: the chunk is the whole file.
    pub(crate) length: usize,
}

/// Scratch of a thread, reused for every chunk.
#[derive(Default)]
pub struct State {
    decoded: Vec<u8>,
    pub(crate) encoded: Vec<u8>,
    contexts: Contexts,
    /// The shard of the last read, identified by the address of its path.
    shard: Option<(*const c_char, File)>,
}

// SAFETY: the address is compared, never followed.
unsafe impl Send for State {}

impl State {
    /// Closes the open shard: in the next call the same address may be another path.
    pub(crate) fn close(&mut self) {
        self.shard = None;
    }
}

impl Chunk {
    pub(crate) fn read(
        &self,
        codec: Codec,
        chunk_bytes: usize,
        item: usize,
        state: &mut State,
    ) -> io::Result<()> {
        if self.length != 0 {
            return self.read_inner(codec, chunk_bytes, item, state);
        }
        let file = match File::open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(memory) = self.whole(chunk_bytes, item) {
            // SAFETY: the job lends that many bytes of memory to this chunk alone.
            let memory = unsafe { slice::from_raw_parts_mut(memory, chunk_bytes) };
            return match codec {
                Codec::None => file.read_exact_at(memory, 0),
                _ => {
                    read_all(&file, &mut state.encoded)?;
                    state.contexts.decode(codec, item, &state.encoded, memory)
                }
            };
        }
        if codec == Codec::None {
            return self.read_plain(&file, chunk_bytes, item, state);
        }
        state.decoded.resize(chunk_bytes, 0);
        read_all(&file, &mut state.encoded)?;
        state.contexts.decode(codec, item, &state.encoded, &mut state.decoded)?;
        self.copy(&mut state.decoded, item, false);
        Ok(())
    }

    /// Reads the selected part of an uncompressed chunk: one read from its first to its last byte.
    fn read_plain(&self, file: &File, chunk_bytes: usize, item: usize, state: &mut State) -> io::Result<()> {
        if let Some(memory) = self.whole(chunk_bytes, item) {
            // SAFETY: the job lends that many bytes of memory to this chunk alone.
            let memory = unsafe { slice::from_raw_parts_mut(memory, chunk_bytes) };
            return file.read_exact_at(memory, self.offset);
        }
        let last: usize = (0..3).map(|axis| (self.counts[axis] - 1) * self.chunk_strides[axis]).sum();
        let range = self.start..self.start + last + item;
        state.decoded.resize(chunk_bytes, 0);
        file.read_exact_at(&mut state.decoded[range], self.offset + self.start as u64)?;
        self.copy(&mut state.decoded, item, false);
        Ok(())
    }

    /// Reads a chunk at an offset. The file stays open for the next chunk.
    fn read_inner(&self, codec: Codec, chunk_bytes: usize, item: usize, state: &mut State) -> io::Result<()> {
        let file = match state.shard.take() {
            Some((path, file)) if path == self.path => file,
            _ => File::open(self.path())?,
        };
        if codec == Codec::None {
            let outcome = self.read_plain(&file, chunk_bytes, item, state);
            state.shard = Some((self.path, file));
            return outcome;
        }
        state.encoded.resize(self.length, 0);
        file.read_exact_at(&mut state.encoded, self.offset)?;
        state.shard = Some((self.path, file));
        if let Some(memory) = self.whole(chunk_bytes, item) {
            // SAFETY: the job lends that many bytes of memory to this chunk alone.
            let memory = unsafe { slice::from_raw_parts_mut(memory, chunk_bytes) };
            return state.contexts.decode(codec, item, &state.encoded, memory);
        }
        state.decoded.resize(chunk_bytes, 0);
        state.contexts.decode(codec, item, &state.encoded, &mut state.decoded)?;
        self.copy(&mut state.decoded, item, false);
        Ok(())
    }

    /// Encodes a whole chunk of the caller's memory into `state.encoded`.
    pub(crate) fn encode(
        &self,
        codec: Codec,
        chunk_bytes: usize,
        item: usize,
        state: &mut State,
    ) -> io::Result<()> {
        let decoded: &[u8] = match self.whole(chunk_bytes, item) {
            // SAFETY: the job lends that many bytes of memory, and nobody changes them meanwhile.
            Some(memory) => unsafe { slice::from_raw_parts(memory, chunk_bytes) },
            None => {
                state.decoded.resize(chunk_bytes, 0);
                self.copy(&mut state.decoded, item, true);
                &state.decoded
            }
        };
        state.contexts.encode(codec, decoded, &mut state.encoded)
    }

    pub(crate) fn write(
        &self,
        codec: Codec,
        chunk_bytes: usize,
        item: usize,
        state: &mut State,
    ) -> io::Result<()> {
        let decoded: &[u8] = match self.whole(chunk_bytes, item) {
            // SAFETY: the job lends that many bytes of memory, and nobody changes them meanwhile.
            Some(memory) => unsafe { slice::from_raw_parts(memory, chunk_bytes) },
            None => {
                state.decoded.resize(chunk_bytes, 0);
                if self.counts.iter().product::<usize>() * item != chunk_bytes {
                    read_all(&File::open(self.path())?, &mut state.encoded)?;
                    state.contexts.decode(codec, item, &state.encoded, &mut state.decoded)?;
                }
                self.copy(&mut state.decoded, item, true);
                &state.decoded
            }
        };
        let path = self.path();
        if codec == Codec::None {
            return replace(path, decoded);
        }
        state.contexts.encode(codec, decoded, &mut state.encoded)?;
        replace(path, &state.encoded)
    }

    pub(crate) fn path(&self) -> &Path {
        // SAFETY: the job promises that the path ends with NUL and lives until the call returns.
        unsafe { crate::as_path(self.path) }
    }

    /// Returns the caller's memory if the part is the whole chunk in the same order.
    fn whole(&self, chunk_bytes: usize, item: usize) -> Option<*mut u8> {
        let mut run = item;
        for axis in (0..3).rev() {
            let stride = run as isize;
            let same = self.memory_strides[axis] == stride && self.chunk_strides[axis] as isize == stride;
            if self.counts[axis] != 1 && !same {
                return None;
            }
            run *= self.counts[axis];
        }
        (run == chunk_bytes).then_some(self.memory)
    }

    /// Copies the part from the decoded chunk to the caller's memory, or back if `to_chunk`.
    fn copy(&self, decoded: &mut [u8], item: usize, to_chunk: bool) {
        let [planes, rows, columns] = self.counts;
        let step = (self.memory_strides[2], self.chunk_strides[2] as isize);
        let in_one = step == (item as isize, item as isize);
        for plane in 0..planes {
            for row in 0..rows {
                let at = self.start + plane * self.chunk_strides[0] + row * self.chunk_strides[1];
                let offset = plane as isize * self.memory_strides[0] + row as isize * self.memory_strides[1];
                let stored = decoded[at..].as_mut_ptr();
                // SAFETY: the job promises that strides and counts stay within the chunk and within
                // the caller's memory.
                unsafe {
                    let memory = self.memory.offset(offset);
                    let (mut out, mut source) = if to_chunk { (stored, memory) } else { (memory, stored) };
                    let (out_step, source_step) = if to_chunk { (step.1, step.0) } else { step };
                    if in_one {
                        source.copy_to_nonoverlapping(out, columns * item);
                        continue;
                    }
                    for column in 0..columns {
                        match item {
                            4 => out.cast::<u32>().write_unaligned(source.cast::<u32>().read_unaligned()),
                            8 => out.cast::<u64>().write_unaligned(source.cast::<u64>().read_unaligned()),
                            _ => source.copy_to_nonoverlapping(out, item),
                        }
                        // A step beyond the last element could leave the memory.
                        if column + 1 < columns {
                            (out, source) = (out.offset(out_step), source.offset(source_step));
                        }
                    }
                }
            }
        }
    }
}

/// Reads a whole file into reused memory.
fn read_all(file: &File, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize(file.metadata()?.len() as usize, 0);
    file.read_exact_at(bytes, 0)
}

/// Opens, writes, closes and renames: a reader sees the old file or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |mut file| file.write_all(bytes))
}

/// Like [`replace`], but `write` fills the file.
pub(crate) fn replace_with(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.extend_from_slice(b".tmp");
    let temporary = PathBuf::from(std::ffi::OsString::from_vec(name));
    let file = match File::create(&temporary) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            File::create(&temporary)?
        }
        other => other?,
    };
    write(&file)?;
    drop(file);
    fs::rename(&temporary, path)
}
