//! Damaged and made-up chunks, for every decoder: see [`decoders`].

#[path = "hostile/decoders.rs"]
mod decoders;

use decoders::{DECODERS, TARGETS, decode_anything, decoder, vlen_chunk, word};
use hyperslab_codec::Scratch;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest single allocation.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Pseudo-random numbers, the same in every run (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// A chunk encoded by the codec, or some bytes if the codec only decodes.
fn stored(number: usize, chance: &mut Chance) -> Vec<u8> {
    if let Some(chunk) = vlen_chunk(number) {
        return chunk;
    }
    let Some((codec, size)) = decoder(number) else { panic!("decoder {number} is missing") };
    let chunk: Vec<u8> = (0..size).map(|at| (at / 7 + chance.next(3)) as u8 & 1).collect();
    let mut bytes = Vec::new();
    if codec.encode(&chunk, &mut bytes, &mut Scratch::default()).is_err() {
        bytes = (0..size).map(|_| chance.next(256) as u8).collect();
    }
    bytes
}

#[test]
fn each_decoder_has_one_fuzz_target() {
    for number in 0..DECODERS {
        let word = word(number);
        let targets = TARGETS.iter().filter(|(_, words)| words.contains(&word.as_str()));
        assert_eq!(targets.count(), 1, "decoder {number}: {word}");
    }
}

#[test]
fn damaged_chunks_are_chunks_or_errors() {
    const ROUNDS: usize = 400;
    for number in 0..DECODERS {
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ number as u64);
        let whole = stored(number, &mut chance);
        for round in 0..ROUNDS {
            let mut bytes = whole.clone();
            for _ in 0..=chance.next(4) {
                let at = chance.next(bytes.len());
                match chance.next(5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, chance.next(256) as u8),
                    // Sizes are mostly at the front.
                    2 if !bytes.is_empty() => {
                        let at = chance.next(bytes.len().min(24));
                        bytes[at] = [0, 1, 0x7f, 0x80, 0xff][chance.next(5)];
                    }
                    _ if !bytes.is_empty() => bytes[at] ^= 1 << chance.next(8),
                    _ => {}
                }
            }
            if round == 0 {
                bytes = whole.clone();
            }
            decode_anything(&[&[number as u8], &bytes[..]].concat());
        }
    }
    // Enough for chunks of 512 bytes. (Allocations of C libraries are not seen here.)
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest < 8 << 20, "{largest} bytes at once");
}
