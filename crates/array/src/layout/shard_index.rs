//! The index of a shard: a table of byte ranges.
//!
//! The index is an array of `u64` with one axis for each axis of the shard, and a last axis of two:
//! offset and length. Both are 2⁶⁴ - 1 if the inner chunk does not exist. Stored indexes are not
//! trusted: each range is checked against the shard, and no two may share bytes.

#![expect(
    clippy::indexing_slicing,
    reason = "entries are counted by the encoding, whose buffers have room for all"
)]

use hyperslab_codec::{ByteOrder, Codec, CodecChain, CodecError, Scratch};
use smallvec::SmallVec;
use std::sync::Arc;

/// The most inner chunks that a shard may have: an index of 256 MiB.
///
/// Reading or writing one element of a shard needs the whole index in memory, and writing needs
/// three copies. This limits the memory that 600 bytes of made-up metadata can claim.
const MOST_ENTRIES: usize = 1 << 24;

/// Offset and length of an inner chunk that does not exist.
const ABSENT: u64 = u64::MAX;

/// How an index is stored.
#[derive(Clone, Debug)]
pub struct IndexEncoding {
    count: usize,
    swap: bool,
    /// The index's axes in the order in which they are stored, slowest first.
    order: SmallVec<[usize; 8]>,
    /// Entries along each axis. `strides` are numbers from one entry to the next, `to_len` from
    /// offset to length.
    counts: SmallVec<[usize; 8]>,
    strides: SmallVec<[usize; 8]>,
    to_len: usize,
    c_order: bool,
    chain: CodecChain,
    /// Bytes of the stored index.
    size: usize,
}

impl IndexEncoding {
    /// An index of `counts` inner chunks per axis, in the order in which the shard stores its axes.
    ///
    /// `order` lists the `counts.len() + 1` axes of the index as they are stored, slowest first
    /// (empty: C order). The last axis holds offset and length. `stored` is the byte order of the
    /// numbers. `codecs` are bytes-to-bytes codecs, in encoding order. They may only add a fixed
    /// number of bytes, because the index is found by its size.
    ///
    /// Fails (with a message) if the index is too large for memory, or if a codec changes its size.
    pub fn new(
        counts: &[u64],
        order: &[usize],
        stored: ByteOrder,
        codecs: Vec<Arc<dyn Codec>>,
    ) -> Result<Self, String> {
        let counts: SmallVec<[usize; 8]> = counts
            .iter()
            .map(|n| usize::try_from(*n))
            .collect::<Result<_, _>>()
            .map_err(|_| format!("an index of {counts:?} inner chunks is too large for memory"))?;
        let bytes = counts
            .iter()
            .try_fold(1usize, |product, n| product.checked_mul(*n))
            .and_then(|n| n.checked_mul(16))
            .filter(|n| *n <= 16 * MOST_ENTRIES)
            .ok_or_else(|| {
                format!(
                    "an index of {counts:?} inner chunks is too large: a shard may have {MOST_ENTRIES}; \
                     smaller shards or larger inner chunks are needed"
                )
            })?;
        let rank = counts.len() + 1;
        let order: SmallVec<[usize; 8]> = if order.is_empty() { (0..rank).collect() } else { order.into() };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..rank) {
            return Err(format!(
                "the order of the index's axes {order:?} is not a permutation of {rank} axes"
            ));
        }
        let mut strides: SmallVec<[usize; 8]> = SmallVec::from_elem(0, rank);
        let mut stride = 1;
        for axis in order.iter().rev() {
            strides[*axis] = stride;
            stride *= counts.get(*axis).copied().unwrap_or(2);
        }
        let to_len = strides.pop().unwrap_or(1);
        let chain = CodecChain::new(codecs, bytes);
        if !chain.only_frames() {
            let names: Vec<&str> = chain.codecs().iter().map(|codec| codec.name()).collect();
            return Err(format!("index codecs must keep the size of the index fixed; found {names:?}"));
        }
        let (count, size) = (bytes / 16, chain.max_encoded());
        let c_order = order.iter().copied().eq(0..rank);
        Ok(IndexEncoding {
            count,
            swap: stored != ByteOrder::NATIVE,
            order,
            counts,
            strides,
            to_len,
            c_order,
            chain,
            size,
        })
    }

    /// Returns the encoding for a shard of another shape. Fails like [`IndexEncoding::new`].
    ///
    /// Uses only the first `counts`, one for each axis of this index.
    pub(crate) fn of_counts(&self, counts: &[u64]) -> Result<Self, String> {
        let counts = counts.get(..self.counts.len()).unwrap_or(counts);
        let stored = match (ByteOrder::NATIVE, self.swap) {
            (ByteOrder::Little, false) | (ByteOrder::Big, true) => ByteOrder::Little,
            _ => ByteOrder::Big,
        };
        Self::new(counts, &self.order, stored, self.chain.codecs().to_vec())
    }

    /// Describes the decoding of an index as text.
    ///
    /// Under equal texts, equal bytes decode to equal indexes.
    pub(crate) fn decoding(&self) -> String {
        // Hashed for each shard that is opened, so it contains no more than necessary.
        format!("{:?} {:?} {} {:?}", self.counts, self.order, self.swap, self.chain)
    }

    /// Number of inner chunks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the stored index.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Position of an entry's offset, in numbers of eight bytes. The length is `to_len` further.
    fn place(&self, entry: usize) -> usize {
        if self.c_order {
            return 2 * entry;
        }
        let mut rest = entry;
        self.counts.iter().zip(&self.strides).rev().fold(0, |place, (count, stride)| {
            let index = rest % count;
            rest /= count;
            place + index * stride
        })
    }

    fn number(&self, bytes: &[u8], at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[8 * at..8 * at + 8]);
        let number = u64::from_ne_bytes(number);
        if self.swap { number.swap_bytes() } else { number }
    }

    /// Decodes a stored index.
    ///
    /// Fails if a checksum is wrong (only with `verify`), or if there are too few or too many
    /// bytes.
    pub(crate) fn decode(&self, stored: &[u8], verify: bool) -> Result<ShardIndex, CodecError> {
        let none = Err(CodecError::Size {
            codec: "sharding_indexed",
            expected: self.size as u64,
            found: stored.len() as u64,
        });
        let bytes = self.chain.payload(stored, verify).unwrap_or(none)?;
        let entry = |n| {
            let at = self.place(n);
            (self.number(bytes, at), self.number(bytes, at + self.to_len))
        };
        let mut entries = Vec::new();
        entries.try_reserve_exact(self.count).map_err(|_| self.no_memory())?;
        entries.extend((0..self.count).map(entry));
        Ok(ShardIndex { entries, faults: Vec::new() })
    }

    /// Encodes an index into `stored`.
    pub(crate) fn encode(
        &self,
        index: &ShardIndex,
        stored: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(16 * self.count).map_err(|_| self.no_memory())?;
        stored.clear();
        stored.try_reserve_exact(self.size).map_err(|_| self.no_memory())?;
        bytes.resize(16 * self.count, 0);
        for (n, (offset, len)) in index.entries.iter().enumerate() {
            let at = self.place(n);
            for (at, number) in [(at, offset), (at + self.to_len, len)] {
                let number = if self.swap { number.swap_bytes() } else { *number };
                bytes[8 * at..8 * at + 8].copy_from_slice(&number.to_ne_bytes());
            }
        }
        self.chain.encode(&bytes, stored, scratch)
    }

    /// An index without inner chunks.
    pub(crate) fn absent(&self) -> Result<ShardIndex, CodecError> {
        ShardIndex::absent(self.count).ok_or_else(|| self.no_memory())
    }

    fn no_memory(&self) -> CodecError {
        let why = format!("no memory for the index of a shard of {} inner chunks", self.count);
        CodecError::Encode { codec: "sharding_indexed", why }
    }
}

/// A range of a shard: offset and length.
pub(crate) type ByteRange = (u64, u64);

/// The byte ranges of the inner chunks of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardIndex {
    entries: Vec<ByteRange>,
    /// Entries that cannot be right, and why; sorted by entry.
    faults: Vec<(usize, String)>,
}

impl ShardIndex {
    /// An index without inner chunks. `None` if there is no memory for it.
    pub(crate) fn absent(count: usize) -> Option<Self> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(count).ok()?;
        entries.resize(count, (ABSENT, ABSENT));
        Some(ShardIndex { entries, faults: Vec::new() })
    }

    /// Finds entries that cannot be right. All other entries can still be read.
    ///
    /// Ranges must not reach beyond `size` bytes or into the index itself (`stored`), and must not
    /// share bytes.
    pub(crate) fn check(&mut self, size: u64, stored: ByteRange) {
        let mut present: Vec<(u64, u64, usize)> = Vec::new();
        let mut faults = Vec::new();
        for (n, (offset, len)) in self.entries.iter().enumerate() {
            if (*offset, *len) == (ABSENT, ABSENT) {
                continue;
            }
            match offset.checked_add(*len).filter(|end| *end <= size) {
                None => {
                    faults.push((n, format!("{len} bytes from {offset} are not inside the shard's {size}")))
                }
                Some(end) if *offset < stored.0 + stored.1 && end > stored.0 && *len > 0 => {
                    faults.push((n, format!("bytes {offset}..{end} lie in the index itself")));
                }
                Some(end) => present.push((*offset, end, n)),
            }
        }
        present.sort_unstable();
        // The range so far with the furthest end. A later range that begins before this end shares
        // bytes with it.
        let mut furthest: Option<(u64, u64, usize)> = None;
        for (offset, end, n) in present {
            if let Some((from, to, other)) = furthest
                && offset < to
                && end > offset
            {
                for (n, a, b, other) in [(n, offset, end, other), (other, from, to, n)] {
                    faults
                        .push((n, format!("bytes {a}..{b} are partly those of inner chunk number {other}")));
                }
            }
            if furthest.is_none_or(|(_, to, _)| end > to) {
                furthest = Some((offset, end, n));
            }
        }
        faults.sort();
        faults.dedup_by_key(|fault| fault.0);
        self.faults = faults;
    }

    /// Returns the range of an inner chunk; `None` if the chunk does not exist.
    ///
    /// Fails (with a message) if the range cannot be right.
    pub(crate) fn get(&self, n: usize) -> Result<Option<ByteRange>, String> {
        if let Ok(at) = self.faults.binary_search_by_key(&n, |fault| fault.0) {
            return Err(self.faults[at].1.clone());
        }
        Ok(self.entries.get(n).copied().filter(|entry| *entry != (ABSENT, ABSENT)))
    }

    /// The first entry that cannot be right, and why.
    pub(crate) fn fault(&self) -> Option<&(usize, String)> {
        self.faults.first()
    }

    /// Sets the range of an inner chunk; `None`: the chunk does not exist.
    pub(crate) fn set(&mut self, n: usize, range: Option<ByteRange>) {
        if let Some(entry) = self.entries.get_mut(n) {
            *entry = range.unwrap_or((ABSENT, ABSENT));
        }
    }

    /// All inner chunks that exist: number, offset, length.
    pub(crate) fn present_chunks(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let present = |entry: &ByteRange| *entry != (ABSENT, ABSENT);
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| present(entry))
            .map(|(n, (a, b))| (n, *a, *b))
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn bytes(&self) -> usize {
        16 * self.entries.len() + 64 * self.faults.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_codec::Crc32c;

    fn crc() -> Vec<Arc<dyn Codec>> {
        vec![Arc::new(Crc32c { at_start: false })]
    }

    fn sample(count: usize) -> ShardIndex {
        let mut index = ShardIndex::absent(count).unwrap();
        for n in (0..count).step_by(2) {
            index.set(n, Some((10 * n as u64, 7)));
        }
        index
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (counts, order) in [
            (&[2, 3][..], &[][..]),
            (&[2, 3], &[2, 0, 1]),
            (&[2, 3], &[1, 2, 0]),
            (&[], &[]),
            (&[5], &[1, 0]),
        ] {
            for stored in [ByteOrder::Little, ByteOrder::Big] {
                for codecs in [Vec::new(), crc()] {
                    let encoding = IndexEncoding::new(counts, order, stored, codecs).unwrap();
                    let index = sample(encoding.count());
                    let mut bytes = Vec::new();
                    encoding.encode(&index, &mut bytes, &mut Scratch::default()).unwrap();
                    assert_eq!(bytes.len(), encoding.size());
                    assert_eq!(encoding.decode(&bytes, true).unwrap(), index);
                    assert!(encoding.decode(&bytes[1..], true).is_err());
                }
            }
        }
    }

    #[test]
    fn bytes_are_those_of_the_specification() {
        let encoding = IndexEncoding::new(&[2], &[], ByteOrder::Little, Vec::new()).unwrap();
        let mut index = ShardIndex::absent(2).unwrap();
        index.set(1, Some((3, 258)));
        let mut bytes = Vec::new();
        encoding.encode(&index, &mut bytes, &mut Scratch::default()).unwrap();
        let mut wanted = vec![0xFF; 16];
        wanted.extend([3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn a_wrong_checksum_is_refused_unless_nobody_asks() {
        let encoding = IndexEncoding::new(&[2], &[], ByteOrder::Little, crc()).unwrap();
        let mut bytes = Vec::new();
        encoding.encode(&sample(2), &mut bytes, &mut Scratch::default()).unwrap();
        bytes[0] ^= 1;
        assert!(encoding.decode(&bytes, true).is_err());
        assert!(encoding.decode(&bytes, false).is_ok());
    }

    #[test]
    fn codecs_that_change_the_size_are_refused() {
        let zstd: Vec<Arc<dyn Codec>> = vec![Arc::new(hyperslab_codec::Zstd { level: 1, checksum: false })];
        assert!(IndexEncoding::new(&[2], &[], ByteOrder::Little, zstd).unwrap_err().contains("zstd"));
        assert!(IndexEncoding::new(&[u64::MAX, 3], &[], ByteOrder::Little, Vec::new()).is_err());
        assert!(IndexEncoding::new(&[1 << 28], &[], ByteOrder::Little, Vec::new()).is_err());
        assert!(IndexEncoding::new(&[2], &[0, 0], ByteOrder::Little, Vec::new()).is_err());
    }

    #[test]
    fn ranges_that_cannot_be_right() {
        let faults = |entries: &[(u64, u64)]| -> Vec<usize> {
            let mut index = ShardIndex { entries: entries.to_vec(), faults: Vec::new() };
            index.check(1000, (900, 100));
            (0..entries.len()).filter(|n| index.get(*n).is_err()).collect()
        };
        let none: [usize; 0] = [];
        assert_eq!(faults(&[(0, 10), (10, 890), (ABSENT, ABSENT), (5, 0)]), none);
        assert_eq!(faults(&[(0, 10), (9, 10), (19, 1)]), [0, 1]);
        assert_eq!(faults(&[(0, 100), (10, 10), (50, 10)]), [0, 1, 2]);
        assert_eq!(faults(&[(0, 10), (0, 10)]), [0, 1]);
        assert_eq!(faults(&[(895, 10), (0, 10)]), [0]);
        assert_eq!(faults(&[(1000, 1), (0, 10)]), [0]);
        // Sums that wrap around.
        assert_eq!(faults(&[(ABSENT - 5, 10), (ABSENT, 3), (3, ABSENT)]), [0, 1, 2]);
    }
}
