//! The codec between stored elements and elements in memory, if their bytes differ. It comes first
//! in the codec chain, before the filters.
//!
//! A type becomes a tree of steps, built once: copy runs of unchanged bytes, rearrange the bits of
//! integers and floats, cut the padding of strings, move members. Each step loops over all elements
//! of a block. Decisions are made per element only where types nest.
//!
//! Bytes in memory that no step writes (gaps between members) are zero. [`encode`] has the other
//! direction.

mod encode;

use crate::cursor::to_usize;
use crate::datatype::{Class, Datatype, Padding};
use crate::element::{Element, ElementKind, in_order};
use crate::number::{F80, Float, FloatType, Integer, byte_order, store};
use hyperslab_codec::{ByteOrder, Codec, CodecError, DataType, Racing, Scratch};
use std::ops::Range;

const NAME: &str = "hdf5 elements";

/// Bytes that are converted at once.
const BLOCK: usize = 32 << 10;

/// A conversion between stored elements and elements in memory.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    /// Bytes of a stored element.
    stored: usize,
    /// Bytes of an element in memory.
    memory: usize,
    step: Step,
}

/// The conversion of the bytes of one stored element to memory.
#[derive(Clone, Debug)]
enum Step {
    /// Copies this many bytes unchanged.
    Copy(usize),
    Integer {
        from: Integer,
        to: DataType,
    },
    /// An integer. Every value except 0 is true.
    Bool(Integer),
    Float {
        from: Float,
        to: FloatType,
        order: ByteOrder,
    },
    /// Text of a fixed size. It ends at its first NUL, or before the spaces at its end.
    Text {
        size: usize,
        padding: Padding,
    },
    Members(Vec<MemberStep>),
    /// Elements of an array type.
    Repeat {
        /// Bytes of one stored element of the array.
        stored: usize,
        /// Bytes of one element of the array in memory.
        memory: usize,
        /// Stored bytes of the whole array.
        array: usize,
        step: Box<Step>,
    },
}

#[derive(Clone, Debug)]
struct MemberStep {
    /// Byte range of the member in the stored element.
    stored: Range<usize>,
    /// Byte range of the member in memory.
    memory: Range<usize>,
    step: Step,
}

impl Conversion {
    /// Returns the conversion from a stored type to one in memory. `None`: the bytes are the same.
    pub fn new(datatype: &Datatype, element: &Element) -> Option<Conversion> {
        let stored = to_usize(datatype.size);
        if stored == 0 || element.size == 0 {
            return None;
        }
        match step(datatype, element) {
            Step::Copy(len) if len == stored && len == element.size => None,
            step => Some(Conversion { stored, memory: element.size, step }),
        }
    }

    /// Converts consecutive elements until `dst` is full.
    pub fn convert(&self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        self.run(src, 0..dst.len(), dst)
    }

    /// Converts the elements that have bytes in `wanted`.
    fn run(&self, src: &[u8], wanted: Range<usize>, dst: &mut [u8]) -> Result<(), CodecError> {
        if !src.len().is_multiple_of(self.stored) {
            let why = format!(
                "expected a whole number of elements of {} bytes, found {} bytes",
                self.stored,
                src.len()
            );
            return Err(CodecError::Corrupt { codec: NAME, why });
        }
        let found = (src.len() / self.stored).saturating_mul(self.memory);
        if found != dst.len() || wanted.end > dst.len() {
            let (expected, found) = (dst.len() as u64, found as u64);
            return Err(CodecError::Size { codec: NAME, expected, found });
        }
        let (first, end) = (wanted.start / self.memory, wanted.end.div_ceil(self.memory));
        let src = src.get(first * self.stored..end * self.stored).unwrap_or_default();
        let dst = dst.get_mut(first * self.memory..end * self.memory).unwrap_or_default();
        let fills = self.step.fills(self.memory);
        // Each step goes over the whole block, so a block should stay in the cache.
        let block = (BLOCK / self.stored.max(self.memory)).max(1);
        for (src, dst) in src.chunks(block * self.stored).zip(dst.chunks_mut(block * self.memory)) {
            if !fills {
                dst.fill(0);
            }
            self.step.run(src, self.stored, dst, self.memory);
        }
        Ok(())
    }
}

impl Codec for Conversion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize, CodecError> {
        let size = (src.len() / self.stored).saturating_mul(self.memory).min(dst.len());
        let dst = dst.get_mut(..size).unwrap_or_default();
        self.run(src, 0..size, dst)?;
        Ok(size)
    }

    fn decode_part(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        _: &mut Scratch,
    ) -> Result<(), CodecError> {
        self.run(src, wanted, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<(), CodecError> {
        self.to_stored(src, dst)
    }

    fn racing(&self) -> Racing {
        // Members are read one after the other.
        Racing::NeedsCopy
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded.div_ceil(self.memory).saturating_mul(self.stored)
    }
}

/// Returns the step that converts a type. `element` must be [`Element::of`] of `datatype`.
fn step(datatype: &Datatype, element: &Element) -> Step {
    let size = to_usize(datatype.size);
    match (&datatype.class, &element.kind) {
        (Class::Integer { .. } | Class::Bitfield { .. }, ElementKind::Plain(to)) => integer(datatype, *to),
        (Class::Enum { base, .. }, ElementKind::Enum { base: to, .. }) => integer(base, *to),
        (Class::Enum { base, .. }, ElementKind::Plain(_)) => match Integer::of(base) {
            Some(from) if size > 1 || !from.is_plain() => Step::Bool(from),
            _ => Step::Copy(size),
        },
        (Class::Float(layout), _) => float(Float { size, layout: *layout }, element),
        (Class::String { padding: Padding::NullPadded, .. }, _) => Step::Copy(size),
        (Class::String { padding, .. }, _) => Step::Text { size, padding: *padding },
        (Class::Compound(members), ElementKind::Struct(fields)) => {
            let pairs = in_order(members).into_iter().zip(fields);
            let parts = pairs.map(|(member, field)| {
                MemberStep::new(&member.datatype, to_usize(member.offset), &field.element, field.offset)
            });
            structure(parts.collect(), size, element.size)
        }
        (Class::Compound(members), _) => {
            complex(members.iter().map(|member| (&*member.datatype, member.offset)), size, element)
        }
        (Class::Complex(base), _) => complex([(&**base, 0), (&**base, base.size)], size, element),
        (Class::Array { base, .. }, ElementKind::Array { element: inner, .. }) => {
            let (step, stored, memory) = (step(base, inner), to_usize(base.size), inner.size);
            match step {
                Step::Copy(_) => Step::Copy(size),
                step => Step::Repeat { stored, memory, array: size, step: Box::new(step) },
            }
        }
        _ => Step::Copy(size),
    }
}

/// A complex number of two floats. `halves` gives each float's stored type and offset.
fn complex<'d>(
    halves: impl IntoIterator<Item = (&'d Datatype, u32)>,
    size: usize,
    element: &Element,
) -> Step {
    let Some(half) = element.half() else { return Step::Copy(size) };
    let pairs = halves.into_iter().zip([0, half.size]);
    let parts = pairs.map(|((datatype, stored), at)| MemberStep::new(datatype, to_usize(stored), &half, at));
    structure(parts.collect(), size, element.size)
}

fn integer(datatype: &Datatype, to: DataType) -> Step {
    match Integer::of(datatype) {
        Some(from) if !from.is_plain() => Step::Integer { from, to },
        _ => Step::Copy(to.size()),
    }
}

fn float(from: Float, element: &Element) -> Step {
    let (to, order) = match &element.kind {
        ElementKind::Plain(plain) => (FloatType::of(plain.size()), plain.order()),
        _ => (F80, byte_order(from.layout.order)),
    };
    if from.is_plain(to) { Step::Copy(from.size) } else { Step::Float { from, to, order } }
}

/// Builds the step for members. Adjacent members that stay unchanged become one run.
fn structure(mut parts: Vec<MemberStep>, stored: usize, memory: usize) -> Step {
    let stays = |part: &MemberStep| matches!(part.step, Step::Copy(_)) && part.stored == part.memory;
    if stored == memory && parts.iter().all(stays) {
        return Step::Copy(stored);
    }
    parts.sort_by_key(|part| part.stored.start);
    let mut joined: Vec<MemberStep> = Vec::new();
    for part in parts {
        match (joined.last_mut(), &part.step) {
            (Some(MemberStep { stored, memory, step: Step::Copy(run) }), Step::Copy(more))
                if stored.end == part.stored.start && memory.end == part.memory.start =>
            {
                (stored.end, memory.end) = (part.stored.end, part.memory.end);
                *run += more;
            }
            _ => joined.push(part),
        }
    }
    Step::Members(joined)
}

impl MemberStep {
    fn new(datatype: &Datatype, stored: usize, element: &Element, memory: usize) -> MemberStep {
        let stored = stored..stored.saturating_add(to_usize(datatype.size));
        MemberStep {
            stored,
            memory: memory..memory.saturating_add(element.size),
            step: step(datatype, element),
        }
    }
}

impl Step {
    /// Returns `true` if the step writes all `memory` bytes of an element.
    fn fills(&self, memory: usize) -> bool {
        match self {
            Step::Members(parts) => {
                parts.iter().map(|part| part.memory.len()).sum::<usize>() == memory
                    && parts.iter().all(|part| part.step.fills(part.memory.len()))
            }
            Step::Repeat { memory, step, .. } => step.fills(*memory),
            _ => true,
        }
    }

    /// Converts elements that are `stored` bytes apart in `src` and `memory` bytes apart in `dst`.
    fn run(&self, src: &[u8], stored: usize, dst: &mut [u8], memory: usize) {
        let pairs = src.chunks(stored).zip(dst.chunks_mut(memory));
        match self {
            Step::Copy(size) => convert_each(pairs, *size, *size, |src, dst| dst.copy_from_slice(src)),
            Step::Integer { from, to } => convert_each(pairs, from.size, to.size(), |src, dst| {
                store(from.value(src).cast_unsigned(), to.order(), dst);
            }),
            Step::Bool(from) => {
                convert_each(pairs, from.size, 1, |src, dst| dst.fill(u8::from(from.value(src) != 0)))
            }
            Step::Float { from, to, order } => {
                convert_each(pairs, from.size, to.size, |src, dst| store(from.convert(src, *to), *order, dst))
            }
            Step::Text { size, padding } => convert_each(pairs, *size, *size, |src, dst| {
                dst.copy_from_slice(src);
                dst.get_mut(text_len(src, *padding)..).unwrap_or_default().fill(0);
            }),
            Step::Members(parts) => {
                for part in parts {
                    let src = src.get(part.stored.start..).unwrap_or_default();
                    let dst = dst.get_mut(part.memory.start..).unwrap_or_default();
                    part.step.run(src, stored, dst, memory);
                }
            }
            Step::Repeat { stored: inner, memory: outer, array, step } => {
                let count = array / inner;
                if *array == stored && count * outer == memory {
                    // Arrays without gaps: convert the elements of all arrays in one loop.
                    return step.run(src, *inner, dst, *outer);
                }
                convert_each(pairs, *array, count * outer, |src, dst| step.run(src, *inner, dst, *outer));
            }
        }
    }
}

/// Converts the first `from` bytes of each stored element to the first `to` bytes in memory.
#[inline(always)]
fn convert_each<'s, 'd>(
    pairs: impl Iterator<Item = (&'s [u8], &'d mut [u8])>,
    from: usize,
    to: usize,
    convert: impl Fn(&[u8], &mut [u8]),
) {
    for (src, dst) in pairs {
        if let (Some(src), Some(dst)) = (src.get(..from), dst.get_mut(..to)) {
            convert(src, dst);
        }
    }
}

/// Length of a text without its padding.
fn text_len(text: &[u8], padding: Padding) -> usize {
    match padding {
        Padding::NullTerminated => text.iter().position(|byte| *byte == 0).unwrap_or(text.len()),
        Padding::NullPadded => text.len(),
        Padding::SpacePadded => text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{element, fails};

    fn conversion(hex: &str) -> Option<Conversion> {
        let (datatype, element) = element(hex);
        Conversion::new(&datatype, &element)
    }

    fn decode(hex: &str, stored: &[u8]) -> Vec<u8> {
        let codec = conversion(hex).unwrap();
        let mut memory = vec![0xa5; stored.len() / codec.stored * codec.memory];
        let len = codec.decode(stored, &mut memory, &mut Scratch::default()).unwrap();
        assert_eq!(len, memory.len());
        memory
    }

    #[test]
    fn integers_of_three_bytes() {
        let memory = decode("100800000300000000001800", &[1, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0x80]);
        assert_eq!(memory, [1_i32, -1, -0x80_0000].map(i32::to_le_bytes).concat());
        let memory = decode("140000000300000000001800", &[1, 2, 3]);
        assert_eq!(memory, 0x03_0201_u32.to_le_bytes());
    }

    /// Texts read as in h5py.
    #[test]
    fn texts() {
        let stored = b"ab\0cdab   abcdea\0\0\0\0  \0  a \0 \0";
        assert_eq!(decode("1300000005000000", stored), b"ab\0\0\0ab   abcdea\0\0\0\0  \0\0\0a \0\0\0");
        assert_eq!(decode("1302000005000000", stored), b"ab\0cdab\0\0\0abcdea\0\0\0\0  \0\0\0a \0 \0");
        assert!(conversion("1301000005000000").is_none());
    }

    #[test]
    fn booleans_of_any_size() {
        let of_4 = "180200000400000010080000040000000000200046414c534500000054525545000000000000000001000000";
        let stored = [0_u32, 1, 2, 256].map(u32::to_le_bytes).concat();
        assert_eq!(decode(of_4, &stored), [0, 1, 1, 1]);
        assert!(conversion("380200000100000010080000010000000000080046414c53450054525545000001").is_none());
    }

    #[test]
    fn complex_numbers_are_put_together() {
        let single = "11201f000400000000002000170800177f000000";
        let of = |size: u8, r: u8, i: u8| {
            format!("36020000{size:02x}0000007200{r:02x}{single}6900{i:02x}{single}")
        };
        let numbers = |list: &[f32]| list.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert!(conversion(&of(8, 0, 4)).is_none());
        assert_eq!(decode(&of(8, 4, 0), &numbers(&[2.0, 1.0, 4.0, 3.0])), numbers(&[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(
            decode(&of(12, 0, 8), &numbers(&[1.0, 9.0, 2.0, 3.0, 9.0, 4.0])),
            numbers(&[1.0, 2.0, 3.0, 4.0])
        );
        let halves = "5b0100000400000011200f0002000000000010000a05000a0f000000";
        assert_eq!(decode(halves, &[0, 0x3c, 0, 0xc0]), numbers(&[1.0, -2.0]));
    }

    /// `{"s": 3 bytes up to NUL, "n": i3, "a": i2 × 2, "b": i1}`: two members change, one grows.
    const MIXED: &str = concat!(
        "360400000c000000",
        "73000013000000",
        "03000000",
        "6e0003100800000300000000001800",
        "6100063a0000000400000001020000001008000002000000",
        "00001000",
        "62000b100800000100000000000800",
    );

    #[test]
    fn structures() {
        let codec = conversion(MIXED).unwrap();
        let Step::Members(parts) = &codec.step else { panic!("{codec:?}") };
        assert_eq!(parts.len(), 4);
        let stored = *b"a\0x\x01\x00\x80\x10\x11\x12\x13??";
        let stored = [stored, *b"abc\xff\xff\xff\x20\x21\x22\x23??"].concat();
        let memory = decode(MIXED, &stored);
        let expected = [
            &b"a\0\0"[..],
            &(-0x7f_ffff_i32).to_le_bytes(),
            b"\x10\x11\x12\x13?",
            b"abc",
            &(-1_i32).to_le_bytes(),
            b"\x20\x21\x22\x23?",
        ];
        assert_eq!(memory, expected.concat());
    }

    #[test]
    fn members_that_stay_are_one_run() {
        // i4, f4, then a string that is cut, then two bytes.
        let hex = concat!(
            "360500000e000000",
            "610000100800000400000000002000",
            "66000411201f000400000000002000170800177f000000",
            "7300081300000004000000",
            "78000c100800000100000000000800",
            "79000d100800000100000000000800"
        );
        let Step::Members(parts) = conversion(hex).unwrap().step else { panic!() };
        let runs: Vec<_> = parts.iter().map(|part| (part.stored.clone(), part.memory.clone())).collect();
        assert_eq!(runs, [(0..8, 0..8), (8..12, 8..12), (12..14, 12..14)]);
    }

    #[test]
    fn gaps_are_zeros() {
        // A Boolean of 4 bytes at 4 of 12.
        let boolean = "380200000400000010080000040000000000200046414c534500545255450000000000 01000000";
        let hex = format!("360100000c0000006200 04{boolean}");
        assert_eq!(decode(&hex, &[7; 12]), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        // An array of these Booleans, whose elements shrink. Then the same array as the only member
        // of a structure.
        let array = format!("3a000000080000000102000000{boolean}");
        assert_eq!(decode(&array, &[0, 0, 0, 0, 1, 0, 0, 0]), [0, 1]);
        let within = format!("3601000008000000 6100 00{array}");
        assert_eq!(
            decode(&within, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn many_elements_and_parts_of_them() {
        let codec = conversion(MIXED).unwrap();
        let stored: Vec<u8> = (0..12 * 10_000_u32).map(|n| (n % 253 * (n % 7)) as u8).collect();
        let whole = decode(MIXED, &stored);
        for wanted in [0..0, 0..1, 5..6, 11..25, 70_000..70_001, 13 * 9999..13 * 10_000 - 1, 0..whole.len()] {
            let wanted = wanted.start.min(whole.len())..wanted.end.min(whole.len());
            let mut memory = vec![0xa5; whole.len()];
            codec.decode_part(&stored, wanted.clone(), &mut memory, &mut Scratch::default()).unwrap();
            assert_eq!(memory[wanted.clone()], whole[wanted]);
        }
    }

    #[test]
    fn sizes_are_checked() {
        let codec = conversion("100800000300000000001800").unwrap();
        let mut scratch = Scratch::default();
        let mut decode = |stored: usize, memory: usize| {
            codec
                .decode(&vec![0; stored], &mut vec![0; memory], &mut scratch)
                .map_err(|error| error.to_string())
        };
        assert_eq!(decode(6, 8), Ok(8));
        assert_eq!(decode(6, 20), Ok(8));
        assert_eq!(decode(0, 0), Ok(0));
        for (stored, memory, why) in [
            (7, 8, "expected a whole number of elements of 3 bytes, found 7 bytes"),
            (5, 8, "expected a whole number of elements of 3 bytes, found 5 bytes"),
            (1, 0, "expected a whole number of elements of 3 bytes, found 1 bytes"),
            (6, 7, "hdf5 elements: decodes to 8 bytes where 7 are expected"),
            (6, 0, "hdf5 elements: decodes to 8 bytes where 0 are expected"),
        ] {
            let error = decode(stored, memory).unwrap_err();
            assert!(error.contains(why), "{stored} {memory}: {error}");
        }
        let short = codec.decode_part(&[0; 6], 0..8, &mut [0; 12], &mut Scratch::default());
        let short = short.unwrap_err().to_string();
        assert!(short.contains("decodes to 8 bytes where 12 are expected"), "{short}");
        assert_eq!(codec.max_encoded(8), 6);
        assert_eq!(codec.max_encoded(usize::MAX), usize::MAX / 4 * 3 + 3);
        let mut scratch = Scratch::default();
        assert!(codec.decode_part(&[0; 6], 0..9, &mut [0; 8], &mut scratch).is_err());
        fails(codec.encode(&[0; 7], &mut Vec::new(), &mut scratch), "expected elements of 4 bytes");
    }
}
