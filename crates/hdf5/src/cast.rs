//! Converts elements in memory from one type to another, as the HDF5 library does. Virtual datasets
//! convert the elements of their sources this way.
//!
//! A type becomes a tree of steps, built once. Numbers and texts go through the engine's
//! conversion. Members of compounds are matched by name. A member that the source lacks becomes
//! zero.
//!
//! The HDF5 library converts from the stored type, so the stored type matters too. It tells more
//! than the type in memory: a bitfield converts to no number, and null-terminated text differs from
//! space-padded text.

use crate::datatype::{Class, Datatype, Padding};
use crate::element::{Element, ElementKind, in_order};
use crate::number::Extended;
use hyperslab_array::{ConvertElements, can_convert, convert_elements};
use hyperslab_codec::{DataType, Kind};
use std::collections::HashMap;

/// Bytes per block when members are extracted. A block stays in the L1 cache.
const BLOCK: usize = 32 << 10;

/// A conversion from elements of one type in memory to another.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    /// Bytes of an element before conversion.
    from: usize,
    /// Bytes of an element after conversion.
    to: usize,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Same,
    /// Numbers, Booleans, complex numbers and texts.
    Engine {
        from: DataType,
        to: DataType,
    },
    /// Space-padded text, which NULs do not end. It is cut, or padded with NULs.
    Text,
    /// A number, where at least one of the two types may be an 80-bit float.
    Extended {
        from: Extended,
        to: Extended,
    },
    /// Members: offset before, offset after, conversion.
    Members(Vec<(usize, usize, Cast)>),
    /// Elements of an array type.
    Repeat(Box<Cast>),
}

impl Cast {
    /// Returns the conversion from `from`, stored as `datatype`. `None`: no such conversion exists.
    pub fn new(datatype: &Datatype, from: &Element, to: &Element) -> Option<Cast> {
        Some(Cast { from: from.size, to: to.size, step: step(datatype, from, to)? })
    }

    pub fn is_same(&self) -> bool {
        matches!(self.step, Step::Same)
    }

    /// Converts as many elements as fit in both `src` and `dst`.
    fn run(&self, src: &[u8], dst: &mut [u8]) {
        if self.from == 0 || self.to == 0 {
            return;
        }
        match &self.step {
            Step::Same => put(src, dst),
            Step::Engine { from, to } => {
                convert_elements(*from, src, *to, dst);
            }
            Step::Text => {
                for (src, dst) in src.chunks_exact(self.from).zip(dst.chunks_exact_mut(self.to)) {
                    dst.fill(0);
                    put(src, dst);
                }
            }
            Step::Extended { from, to } => {
                for (src, dst) in src.chunks_exact(self.from).zip(dst.chunks_exact_mut(self.to)) {
                    from.convert(src, *to, dst);
                }
            }
            Step::Repeat(inner) => inner.run(src, dst),
            Step::Members(members) => {
                dst.fill(0);
                let block = (BLOCK / self.from.max(self.to)).max(1);
                let blocks = src.chunks(block * self.from).zip(dst.chunks_mut(block * self.to));
                let (mut before, mut after) = (Vec::new(), Vec::new());
                for (src, dst) in blocks {
                    for (at, to, cast) in members {
                        before.clear();
                        for element in src.chunks_exact(self.from) {
                            before.extend_from_slice(
                                element.get(*at..).and_then(|rest| rest.get(..cast.from)).unwrap_or_default(),
                            );
                        }
                        after.clear();
                        after.resize(src.len() / self.from * cast.to, 0);
                        cast.run(&before, &mut after);
                        let made = after.chunks_exact(cast.to.max(1));
                        for (element, made) in dst.chunks_exact_mut(self.to).zip(made) {
                            put(made, element.get_mut(*to..).unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}

impl ConvertElements for Cast {
    fn convert(&self, src: &[u8], dst: &mut [u8]) {
        self.run(src, dst);
    }
}

/// Copies as many bytes as both slices have.
fn put(src: &[u8], dst: &mut [u8]) {
    let len = src.len().min(dst.len());
    if let (Some(src), Some(dst)) = (src.get(..len), dst.get_mut(..len)) {
        dst.copy_from_slice(src);
    }
}

fn step(datatype: &Datatype, from: &Element, to: &Element) -> Option<Step> {
    if from == to {
        return Some(Step::Same);
    }
    if let (Some(before), Some(after)) = (number(from), number(to)) {
        let logical = after.kind() == Kind::Bool;
        let allowed = match (&datatype.class, &from.kind) {
            (Class::Bitfield { .. }, _) => before == after || logical && before.size() == 1,
            // For Booleans, the library matches member names. Other enumerations give meaningless
            // results.
            (_, ElementKind::Enum { .. }) => !logical,
            _ => true,
        };
        return (allowed && can_convert(before, after)).then_some(Step::Engine { from: before, to: after });
    }
    if let (Some(before), Some(after)) = (as_extended(from), as_extended(to)) {
        let bits = matches!(datatype.class, Class::Bitfield { .. });
        // 80-bit floats do not convert to Booleans, like all other floats.
        let logical = number(to).is_some_and(|plain| plain.kind() == Kind::Bool);
        return (!bits && !logical).then_some(Step::Extended { from: before, to: after });
    }
    match (&datatype.class, &from.kind, &to.kind) {
        (
            Class::String { padding, .. },
            ElementKind::FixedString { utf8 },
            ElementKind::FixedString { utf8: wanted },
        ) if utf8 == wanted => match padding {
            Padding::SpacePadded => Some(Step::Text),
            _ => Some(Step::Engine { from: from.engine_type()?, to: to.engine_type()? }),
        },
        (
            Class::Array { base, .. },
            ElementKind::Array { shape, element },
            ElementKind::Array { shape: wanted, element: inner },
        ) if shape == wanted => Some(Step::Repeat(Box::new(Cast::new(base, element, inner)?))),
        (Class::Compound(members), ..) => {
            let before = fields(from)?;
            let mut found = HashMap::new();
            for (member, (name, at, element)) in in_order(members).into_iter().zip(before) {
                found.entry(name).or_insert((at, element, &*member.datatype));
            }
            let mut steps = Vec::new();
            for (name, at, element) in fields(to)? {
                if let Some((start, given, stored)) = found.get(name) {
                    steps.push((*start, at, Cast::new(stored, given, &element)?));
                }
            }
            Some(Step::Members(steps))
        }
        _ => None,
    }
}

/// The engine's type of a number or of an enumeration's base.
fn number(element: &Element) -> Option<DataType> {
    match &element.kind {
        ElementKind::Plain(plain) | ElementKind::Enum { base: plain, .. } => Some(*plain),
        _ => None,
    }
}

/// A real number, possibly an 80-bit float. `None`: it is complex, or not a number.
fn as_extended(element: &Element) -> Option<Extended> {
    match &element.kind {
        ElementKind::Extended { order, complex: false } => Some(Extended::Wide(*order)),
        _ => number(element)
            .filter(|plain| matches!(plain.kind(), Kind::Int | Kind::UInt | Kind::Float | Kind::Bool))
            .map(Extended::Plain),
    }
}

/// Name, offset and type of a structure's members, or of the two parts of a complex number.
fn fields(element: &Element) -> Option<Vec<(&str, usize, Element)>> {
    if let ElementKind::Struct(fields) = &element.kind {
        let fields = fields.iter().map(|field| (&*field.name, field.offset, field.element.clone()));
        return Some(fields.collect());
    }
    let half = element.half()?;
    Some(vec![("r", 0, half.clone()), ("i", half.size, half)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Charset, Member, Order};
    use crate::testing::SIZES;
    use std::sync::Arc;

    fn integer(size: u32) -> Datatype {
        let precision = u16::try_from(size * 8).unwrap();
        Datatype { size, class: Class::Integer { order: Order::Little, signed: true, offset: 0, precision } }
    }

    fn text(size: u32, padding: Padding) -> Datatype {
        Datatype { size, class: Class::String { padding, charset: Charset::Ascii } }
    }

    fn compound(members: &[(&str, u32, Datatype)]) -> Datatype {
        let size = members.iter().map(|(_, at, datatype)| at + datatype.size).max().unwrap_or(1);
        let member = |(name, offset, datatype): &(&str, u32, Datatype)| Member {
            name: (*name).into(),
            offset: *offset,
            datatype: Arc::new(datatype.clone()),
        };
        Datatype { size, class: Class::Compound(members.iter().map(member).collect()) }
    }

    fn cast(from: &Datatype, to: &Datatype, src: &[u8]) -> Option<Vec<u8>> {
        let (before, after) = (Element::of(from, SIZES).unwrap(), Element::of(to, SIZES).unwrap());
        let cast = Cast::new(from, &before, &after)?;
        let mut dst = vec![0xa5; src.len() / before.size * after.size];
        cast.convert(src, &mut dst);
        Some(dst)
    }

    #[test]
    fn members_are_found_by_name() {
        let from = compound(&[("a", 0, integer(1)), ("b", 1, integer(2)), ("more", 3, integer(4))]);
        let to = compound(&[("b", 0, integer(4)), ("none", 4, integer(1)), ("a", 6, integer(2))]);
        let src = [1, 0xfe, 0xff, 9, 9, 9, 9, 2, 3, 0, 9, 9, 9, 9];
        let dst = [0xfe, 0xff, 0xff, 0xff, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 2, 0];
        assert_eq!(cast(&from, &to, &src).unwrap(), dst);
        // Many elements convert like a few.
        let many = cast(&from, &to, &src.repeat(10_000)).unwrap();
        assert_eq!(many, dst.repeat(10_000));
        let other = compound(&[("a", 0, text(2, Padding::NullPadded))]);
        assert_eq!(cast(&from, &other, &src), None);
        assert_eq!(cast(&integer(1), &other, &[1]), None);
    }

    #[test]
    fn texts_end_where_the_library_ends_them() {
        use Padding::{NullPadded, NullTerminated, SpacePadded};
        let to = text(6, NullPadded);
        assert_eq!(cast(&text(3, NullPadded), &to, b"a\0babc").unwrap(), b"a\0\0\0\0\0abc\0\0\0");
        assert_eq!(cast(&text(3, NullTerminated), &to, b"ab\0").unwrap(), b"ab\0\0\0\0");
        assert_eq!(cast(&text(4, SpacePadded), &to, b"a\0b\0").unwrap(), b"a\0b\0\0\0");
        assert_eq!(cast(&text(3, NullPadded), &text(2, NullPadded), b"abc").unwrap(), b"ab");
        let utf8 = Datatype { size: 3, class: Class::String { padding: NullPadded, charset: Charset::Utf8 } };
        assert_eq!(cast(&utf8, &to, b"abc"), None);
    }

    #[test]
    fn arrays_of_one_shape() {
        let array = |len, base: Datatype| Datatype {
            size: len * base.size,
            class: Class::Array { shape: vec![len], base: Arc::new(base) },
        };
        let (from, to) = (array(2, integer(2)), array(2, integer(1)));
        assert_eq!(cast(&from, &to, &[1, 0, 0, 1, 3, 0, 4, 0]).unwrap(), [1, 127, 3, 4]);
        assert_eq!(cast(&from, &array(4, integer(1)), &[0; 4]), None);
        assert_eq!(cast(&from, &integer(4), &[0; 4]), None);
    }

    #[test]
    fn bits_become_no_numbers() {
        let bits = |size: u32| {
            let precision = u16::try_from(size * 8).unwrap();
            Datatype { size, class: Class::Bitfield { order: Order::Little, offset: 0, precision } }
        };
        let unsigned = Datatype {
            size: 2,
            class: Class::Integer { order: Order::Little, signed: false, offset: 0, precision: 16 },
        };
        assert_eq!(cast(&bits(2), &unsigned, &[1, 2]).unwrap(), [1, 2]);
        assert_eq!(cast(&unsigned, &bits(1), &[1, 2]).unwrap(), [255]);
        assert_eq!(cast(&bits(1), &unsigned, &[1]), None);
        assert_eq!(cast(&bits(2), &integer(4), &[1, 2]), None);
    }
}
