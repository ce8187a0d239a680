//! BloscLZ, a byte-wise LZ77 format that descends from FastLZ.
//!
//! A stream is a list of instructions. The first instruction copies literals whatever its upper
//! three bits say. In the instruction byte `lllooooo`:
//!
//! * `l = 0`: copy `o + 1` literal bytes, which follow;
//! * `l > 0`: copy `l + 2` bytes from `distance` back. If `l` is 7, length bytes follow, which are
//!   added to the length; the first that is not 255 is the last. Then comes the low byte of the
//!   distance: `distance = 256 o + low + 1`. If `o` is 31 and `low` is 255, a big-endian 16-bit
//!   `far` follows and the distance is `far + 8192`.
//!
//! Decoders in c-blosc 1.21 and later need a literal at the end.

use crate::numbers::low_bits::{low8, low32};

/// Shorter distances are near: a short match takes two bytes.
const FAR: usize = 8192;
const MAX_DISTANCE: usize = FAR + 0xffff;
const MAX_LITERALS: usize = 32;

/// Decodes all of `src` into all of `dst`. The error says why decoding failed.
pub(super) fn decode(src: &[u8], dst: &mut [u8]) -> Result<(), &'static str> {
    match decode_lz::<true>(src, dst, usize::MAX) {
        _ if src.is_empty() => Err("stream is truncated"),
        Ok(written) if written == dst.len() => Ok(()),
        Ok(_) => Err("stream decodes to fewer bytes than its block has"),
        Err(Fault::Truncated) => Err("stream is truncated"),
        Err(Fault::TooLong) => Err("stream decodes to more bytes than its block has"),
        Err(Fault::BeforeStart { .. }) => Err("match before the start of its block"),
    }
}

/// Why a stream cannot be decoded.
pub(crate) enum Fault {
    Truncated,
    TooLong,
    BeforeStart { distance: usize, decoded: usize },
}

/// Decodes all of `src` into the front of `dst` and returns the number of decoded bytes.
///
/// With `BLOSC` false, decodes LibLZF's format until there are `enough` bytes. LibLZF's lengths
/// have at most one extra byte, its distances are near, and its first instruction is not special.
pub(crate) fn decode_lz<const BLOSC: bool>(
    src: &[u8],
    dst: &mut [u8],
    enough: usize,
) -> Result<usize, Fault> {
    let (mut next, mut at) = (0, 0);
    let mut mask = if BLOSC { 31 } else { 255 };
    while (BLOSC || at < enough)
        && let Some(&instruction) = src.get(next)
    {
        let instruction = usize::from(instruction & mask);
        mask = 255;
        next += 1;
        if instruction < 32 {
            let len = instruction + 1;
            if let (Some(from), Some(to)) = (
                src.get(next..).and_then(|rest| rest.first_chunk::<MAX_LITERALS>()),
                dst.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<MAX_LITERALS>()),
            ) {
                // Copying a constant length is cheaper than copying the exact length.
                *to = *from;
            } else {
                let from = src.get(next..next + len).ok_or(Fault::Truncated)?;
                dst.get_mut(at..at + len).ok_or(Fault::TooLong)?.copy_from_slice(from);
            }
            next += len;
            at += len;
            continue;
        }
        let mut byte = || {
            let byte = src.get(next).copied().map(usize::from).ok_or(Fault::Truncated);
            next += 1;
            byte
        };
        let mut len = (instruction >> 5) + 2;
        if len == 9 {
            loop {
                let more = byte()?;
                len += more;
                if !BLOSC || more != 255 {
                    break;
                }
            }
        }
        let high = instruction & 31;
        let low = byte()?;
        let mut distance = (high << 8) + low + 1;
        if BLOSC && high == 31 && low == 255 {
            distance = FAR + (byte()? << 8) + byte()?;
        }
        if distance > at {
            return Err(Fault::BeforeStart { distance, decoded: at });
        }
        if len > dst.len() - at {
            return Err(Fault::TooLong);
        }
        copy_match(dst, at, distance, len);
        at += len;
    }
    Ok(at)
}

/// Copies `len` bytes to `at` from `distance` back. The ranges may overlap. `distance <= at`.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "callers have checked that `distance` is at most `at`, and that `len` bytes follow it"
)]
fn copy_match(dst: &mut [u8], at: usize, distance: usize, len: usize) {
    let from = at - distance;
    if distance == 1 {
        let value = dst[from];
        dst[at..at + len].fill(value);
    } else if distance >= 16 && at + len + 16 <= dst.len() {
        // Writes up to 15 bytes too many, all inside `dst` and overwritten later.
        let mut done = 0;
        while done < len {
            dst.copy_within(from + done..from + done + 16, at + done);
            done += 16;
        }
    } else if len < 32 {
        for i in 0..len {
            dst[at + i] = dst[from + i];
        }
    } else {
        // Copied bytes can be copied again: each round doubles `ready`.
        let (mut ready, mut done) = (distance, 0);
        while done < len {
            let more = ready.min(len - done);
            dst.copy_within(from..from + more, at + done);
            done += more;
            ready += more;
        }
    }
}

const HASH_BITS: u32 = 14;
/// No match starts in this many bytes at the end of a stream, so that it ends with literals.
const TAIL: usize = 12;

/// State that an encoder keeps between streams: where it last saw each hash of four bytes.
///
/// Positions keep counting across streams, so entries from former streams are recognised without
/// clearing the table.
#[derive(Debug, Default)]
pub(super) struct Table {
    positions: Vec<u32>,
    base: u32,
}

impl Table {
    /// Prepares the table for a stream of `len` bytes.
    fn start(&mut self, len: usize) -> u32 {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if self.positions.is_empty() || self.base.checked_add(len).is_none() {
            self.positions.clear();
            self.positions.resize(1 << HASH_BITS, 0);
            // Not 0, which marks a hash never seen.
            self.base = 1;
        }
        let base = self.base;
        self.base = base.saturating_add(len);
        base
    }
}

/// Encodes `src` into `dst`. Returns `None` if the result does not fit in `dst`, or saves too
/// little for this level.
#[expect(
    clippy::indexing_slicing,
    reason = "`at` stays below `end`, which is TAIL bytes before the end, and `distance` is at most `at`; a hash has HASH_BITS"
)]
pub(super) fn encode(src: &[u8], dst: &mut [u8], level: u8, table: &mut Table) -> Option<usize> {
    if src.len() < 16 || src.len() >= (u32::MAX / 2) as usize {
        return None;
    }
    let base = table.start(src.len());
    let place = |at: usize| low32(at as u64);
    let positions: &mut [u32; 1 << HASH_BITS] = table.positions.as_mut_slice().try_into().ok()?;
    // The longer nothing matches, the more bytes are skipped; low levels skip sooner.
    let patience = 3 + u32::from(level) / 3;

    // Streams that hardly shrink are not worth the time to decode them.
    let worthwhile = [0, 200, 150, 120, 120, 120, 120, 115, 110, 0][usize::from(level.min(9))];
    let shortest = if level < 9 { 5 } else { 4 };
    let mut probe = src.len() / 4;

    let mut out = Output { dst, at: 0 };
    let end = src.len() - TAIL;
    let (mut at, mut literals) = (1, 0); // `literals`: where the literals not yet written start
    let mut misses = 0_u32;
    while at < end {
        let sequence = word(src, at);
        let slot = &mut positions[(sequence.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize];
        let before = std::mem::replace(slot, base + place(at));
        let distance = (base + place(at) - before) as usize;
        if before < base || distance > MAX_DISTANCE || word(src, at - distance) != sequence {
            misses += 1;
            at += 1 + (misses >> patience) as usize;
            if at >= probe {
                probe = usize::MAX;
                if (out.at + at - literals) as u64 * worthwhile > at as u64 * 100 {
                    return None;
                }
            }
            continue;
        }
        let mut len = 4 + common(&src[at + 4 - distance..], &src[at + 4..src.len() - 4]);
        // The match may have started earlier, in bytes that were skipped or had no entry.
        let mut start = at;
        while start > literals && start > distance && src[start - 1] == src[start - 1 - distance] {
            start -= 1;
            len += 1;
        }
        // A far match takes four bytes, and resuming the literals one more. Shorter matches save
        // next to nothing.
        if len < if distance < FAR { shortest } else { 7 } {
            misses += 1;
            at += 1;
            continue;
        }
        out.literals(&src[literals..start])?;
        out.copy_match(distance, len)?;
        at = start + len;
        literals = at;
        misses = 0;
        if at < end {
            // Runs and periods continue here: the position just before the end is the likeliest to
            // match again.
            let recent = at - 2;
            positions[(word(src, recent).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize] =
                base + place(recent);
        }
    }
    out.literals(&src[literals..])?;
    // The format's mark on the first instruction; decoders ignore it.
    *out.dst.first_mut()? |= 1 << 5;
    Some(out.at)
}

#[expect(clippy::indexing_slicing, reason = "`at` is TAIL bytes before the end, or earlier")]
fn word(src: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([src[at], src[at + 1], src[at + 2], src[at + 3]])
}

/// How many leading bytes `a` and `b` have in common. `b` is the shorter.
#[expect(clippy::indexing_slicing, reason = "`len` counts whole chunks of the shorter slice")]
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut len = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return len + differ.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    len + a[len..].iter().zip(&b[len..]).take_while(|(x, y)| x == y).count()
}

struct Output<'a> {
    dst: &'a mut [u8],
    at: usize,
}

impl Output<'_> {
    fn push(&mut self, byte: u8) -> Option<()> {
        *self.dst.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        for run in bytes.chunks(MAX_LITERALS) {
            self.push(low8(run.len() as u64) - 1)?;
            self.dst.get_mut(self.at..self.at + run.len())?.copy_from_slice(run);
            self.at += run.len();
        }
        Some(())
    }

    fn copy_match(&mut self, distance: usize, len: usize) -> Option<()> {
        // A far match stores `o` and `low` of distance `FAR`, one more than the largest near
        // distance.
        let near = distance.min(FAR) - 1;
        let high = low8(near as u64 >> 8);
        if len < 9 {
            self.push(low8((len as u64 - 2) << 5) | high)?;
        } else {
            self.push(7 << 5 | high)?;
            let mut more = len - 9;
            while more >= 255 {
                self.push(255)?;
                more -= 255;
            }
            self.push(low8(more as u64))?;
        }
        self.push(low8(near as u64))?;
        if distance >= FAR {
            let far = distance - FAR;
            self.push(low8(far as u64 >> 8))?;
            self.push(low8(far as u64))?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_made_streams() {
        let check = |src: &[u8], expected: &[u8]| {
            let mut out = vec![0; expected.len()];
            assert_eq!(decode(src, &mut out), Ok(()));
            assert_eq!(out, expected);
        };
        check(b"\x22abc", b"abc"); // the marker on the first instruction
        check(
            b"\x01ab\x20\x01\x00c",
            b"abababc"[..5].iter().chain(b"c").copied().collect::<Vec<_>>().as_slice(),
        );
        check(b"\x00a\xe0\x03\x00\x00b", b"aaaaaaaaaaaaab"); // length 9 + 3, distance 1
        check(b"\x00a\x20\x00", b"aaaa"); // a match at the end, as c-blosc before 1.21 read it
        let mut far: Vec<u8> = Vec::new();
        let mut plain: Vec<u8> = (0..9000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for run in plain.chunks(32) {
            far.push(run.len() as u8 - 1);
            far.extend_from_slice(run);
        }
        far.extend_from_slice(&[0x3f, 255, 0x03, 0x00]); // 3 bytes from 8192 + 768 back
        plain.extend_from_within(9000 - 8960..9000 - 8960 + 3);
        check(&far, &plain);
    }

    #[test]
    fn corrupt_streams() {
        let decode = |src: &[u8], len: usize| decode(src, &mut vec![0; len]).unwrap_err();
        assert!(decode(b"", 1).contains("truncated"));
        assert!(decode(b"\x02ab", 3).contains("truncated"));
        assert!(decode(b"\x02ab", 300).contains("truncated"));
        assert!(decode(b"\x00a\x20", 4).contains("truncated"));
        assert!(decode(b"\x00a\xe0\xff", 4).contains("truncated"));
        assert!(decode(b"\x00a\x20\x01", 4).contains("before the start"));
        assert!(decode(b"\x00a\x20\x00", 3).contains("more bytes"));
        assert!(decode(b"\x02abc", 2).contains("more bytes"));
        assert!(decode(b"\x02abc", 4).contains("fewer bytes"));
    }

    /// Runs, repeats from near and far, and noise.
    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        let piece = (any::<u64>(), 1usize..700, 0usize..4, 1usize..90_000);
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| {
            let mut data: Vec<u8> = Vec::new();
            for (seed, len, kind, back) in pieces {
                for random in crate::testing::noise(len * if kind == 3 { 30 } else { 1 }, seed) {
                    data.push(match kind {
                        0 => seed as u8,
                        1 if data.len() >= back => data[data.len() - back],
                        _ => random,
                    });
                }
            }
            data
        })
    }

    proptest! {
        #[test]
        fn round_trips(streams in proptest::collection::vec(compressible(), 1..4), level in 1u8..=9) {
            let mut table = Table::default();
            for data in streams {
                let mut encoded = vec![0; data.len() + data.len() / 32 + 2];
                if let Some(len) = encode(&data, &mut encoded, level, &mut table) {
                    let mut back = vec![0; data.len()];
                    prop_assert_eq!(decode(&encoded[..len], &mut back), Ok(()));
                    prop_assert_eq!(&back, &data);
                } else {
                    prop_assert!(data.len() < 16 || level < 9);
                }
            }
        }

        #[test]
        fn garbage_is_an_error_or_fits(src in proptest::collection::vec(any::<u8>(), 0..600), len in 0usize..2000) {
            let mut out = vec![0; len];
            let _ = decode(&src, &mut out);
        }
    }

    #[test]
    fn positions_wrap() {
        let data: Vec<u8> = (0..5000_u32).map(|i| (i / 40) as u8).collect();
        let mut table = Table::default();
        let (mut first, mut again) = (vec![0; 6000], vec![0; 6000]);
        let len = encode(&data, &mut first, 5, &mut table).unwrap();
        table.base = u32::MAX - 4000;
        assert_eq!(encode(&data, &mut again, 5, &mut table), Some(len));
        assert_eq!(first[..len], again[..len]);
        assert!(len < 800);
    }
}
