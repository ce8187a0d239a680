//! Builds datatype messages: the mirror of [`parse`](super::parse).
//!
//! A type and all types within it have one version: the least that can say all of them. HDF5 1.8
//! reads versions 1 to 3.

use super::{Charset, Class, Datatype, MAX_DEPTH, Order, Padding, ReferenceKind};
use crate::Libver;
use crate::error::{BuildError, Built};
use crate::output::{Output, fit, width};

/// Builds the message.
pub(super) fn datatype(datatype: &Datatype, libver: Libver) -> Built<Vec<u8>> {
    let least = if libver == Libver::Earliest { 1 } else { 3 };
    let version = version(datatype, 0)?.max(least);
    let mut out = Output::new();
    put(datatype, version, &mut out)?;
    Ok(out.take())
}

/// The least version that can say a type.
fn version(datatype: &Datatype, depth: usize) -> Built<u8> {
    if depth >= MAX_DEPTH {
        return Err(BuildError(format!("a datatype of more than {MAX_DEPTH} levels")));
    }
    let below = |inner: &Datatype| version(inner, depth + 1);
    Ok(match &datatype.class {
        Class::Float(layout) if layout.order == Order::Vax => 3,
        Class::Reference(ReferenceKind::Object | ReferenceKind::Region) => 1,
        Class::Reference(_) => 4,
        Class::Array { base, .. } => below(base)?.max(2),
        Class::Complex(base) => below(base)?.max(5),
        Class::Enum { base, .. } | Class::Vlen(base) => below(base)?,
        Class::Compound(members) => {
            let versions = members.iter().map(|member| below(&member.datatype));
            versions.collect::<Built<Vec<u8>>>()?.into_iter().max().unwrap_or(1)
        }
        _ => 1,
    })
}

/// Appends a type and all types within it.
fn put(datatype: &Datatype, version: u8, out: &mut Output) -> Built<()> {
    let size = datatype.size;
    let head = |out: &mut Output, class: u8, bits: u32| {
        out.u8(version << 4 | class).uint(bits.into(), 3).u32(size);
    };
    match &datatype.class {
        Class::Integer { order, signed, offset, precision } => {
            head(out, 0, order_bits(*order)? | u32::from(*signed) << 3);
            out.u16(*offset).u16(*precision);
        }
        Class::Float(layout) => {
            let order = if layout.order == Order::Vax { 0x41 } else { order_bits(layout.order)? };
            let bits = order | u32::from(layout.normalization) << 4 | u32::from(layout.sign) << 8;
            head(out, 1, bits);
            out.u16(layout.offset).u16(layout.precision);
            out.u8(layout.exponent_at).u8(layout.exponent_bits).u8(layout.mantissa_at);
            out.u8(layout.mantissa_bits).u32(layout.bias);
        }
        Class::Time { order, precision } => {
            head(out, 2, order_bits(*order)?);
            out.u16(*precision);
        }
        Class::String { padding, charset } => head(out, 3, text_bits(*padding, *charset)),
        Class::Bitfield { order, offset, precision } => {
            head(out, 4, order_bits(*order)?);
            out.u16(*offset).u16(*precision);
        }
        Class::Opaque { tag } => {
            let len: u8 = fit(tag.len().next_multiple_of(8) as u64, "bytes of the tag of an opaque type")?;
            head(out, 5, len.into());
            out.bytes(tag.as_bytes()).zeros(usize::from(len) - tag.len());
        }
        Class::Compound(members) => {
            let count: u16 = fit(members.len() as u64, "members of a compound")?;
            head(out, 6, count.into());
            let width = if version < 3 { 4 } else { usize::from(width(size.into())) };
            for member in members {
                put_name(&member.name, version, out)?;
                out.uint(member.offset.into(), width);
                // Version 1: axes, reserved, permutation, reserved, four lengths.
                out.zeros(if version == 1 { 1 + 3 + 4 + 4 + 16 } else { 0 });
                put(&member.datatype, version, out)?;
            }
        }
        Class::Reference(kind) => head(out, 7, reference_bits(*kind)),
        Class::Enum { base, members } => {
            let count: u16 = fit(members.len() as u64, "members of an enumeration")?;
            head(out, 8, count.into());
            put(base, version, out)?;
            members.iter().try_for_each(|(name, _)| put_name(name, version, out))?;
            for (name, value) in members {
                if value.len() as u64 != u64::from(base.size) {
                    let why = format!("member {name:?}: expected a value of {} bytes", base.size);
                    return Err(BuildError(why));
                }
                out.bytes(value);
            }
        }
        Class::VlenString { padding, charset } => {
            head(out, 9, 1 | text_bits(*padding, *charset) << 4);
            put(&CHARACTER, version, out)?;
        }
        Class::Vlen(base) => {
            head(out, 9, 0);
            put(base, version, out)?;
        }
        Class::Array { shape, base } => {
            head(out, 10, 0);
            out.u8(fit(shape.len() as u64, "axes of an array type")?);
            out.zeros(if version < 3 { 3 } else { 0 });
            for len in shape {
                out.u32(*len);
            }
            out.zeros(if version < 3 { 4 * shape.len() } else { 0 });
            put(base, version, out)?;
        }
        Class::Complex(base) => {
            head(out, 11, 1);
            put(base, version, out)?;
        }
    }
    Ok(())
}

/// The base type of strings of variable length, as the HDF5 library writes it.
const CHARACTER: Datatype = Datatype {
    size: 1,
    class: Class::Integer { order: Order::Little, signed: false, offset: 0, precision: 8 },
};

fn order_bits(order: Order) -> Built<u32> {
    match order {
        Order::Little => Ok(0),
        Order::Big => Ok(1),
        Order::Vax => Err(BuildError("only floats can have the byte order of a VAX".into())),
    }
}

fn text_bits(padding: Padding, charset: Charset) -> u32 {
    let padding = match padding {
        Padding::NullTerminated => 0,
        Padding::NullPadded => 1,
        Padding::SpacePadded => 2,
    };
    padding | u32::from(charset.is_utf8()) << 4
}

fn reference_bits(kind: ReferenceKind) -> u32 {
    match kind {
        ReferenceKind::Object => 0,
        ReferenceKind::Region => 1,
        // Version 1 of the references of HDF5 1.12.
        ReferenceKind::Object2 => 0x12,
        ReferenceKind::Region2 => 0x13,
        ReferenceKind::Attribute => 0x14,
    }
}

/// A name with its NUL. Before version 3 it is padded to a multiple of 8 bytes.
fn put_name(name: &str, version: u8, out: &mut Output) -> Built<()> {
    if name.contains('\0') {
        return Err(BuildError(format!("the name {name:?} of a member contains a NUL")));
    }
    let len = name.len() + 1;
    let padded = if version < 3 { len.next_multiple_of(8) } else { len };
    out.bytes(name.as_bytes()).zeros(padded - name.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{REFUSED, bytes, vectors};
    use super::*;
    use crate::Cursor;
    use crate::datatype::{FloatLayout, Member};
    use crate::testing::{SIZES, fails};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn parsed(message: &[u8]) -> Datatype {
        let mut cursor = Cursor::whole(message, 0, SIZES);
        let found = Datatype::parse(&mut cursor).unwrap();
        assert!(cursor.is_empty(), "{} bytes are left", cursor.remaining_len());
        found
    }

    /// All types that the library writes, in both kinds of files.
    #[test]
    fn vectors_are_built_again() {
        let mut same = 0;
        let refused = REFUSED.iter().map(|(hex, _)| ((*hex).to_owned(), ""));
        let all: Vec<_> = vectors().into_iter().chain(refused).collect();
        for (hex, _) in &all {
            let message = bytes(hex);
            let datatype = parsed(&message);
            for libver in [Libver::Earliest, Libver::V110] {
                let built = datatype.build(libver).unwrap();
                assert_eq!(parsed(&built), datatype, "{hex}");
                same += usize::from(built == message);
            }
        }
        // The same bytes as the library's, where it used the same version.
        assert!(same > all.len() / 3, "{same} of {}", all.len());
    }

    fn number() -> impl Strategy<Value = Datatype> {
        let order = prop_oneof![Just(Order::Little), Just(Order::Big)];
        (order, any::<bool>(), 1_u16..=8).prop_map(|(order, signed, size)| Datatype {
            size: size.into(),
            class: Class::Integer { order, signed, offset: 0, precision: size * 8 },
        })
    }

    fn float() -> Datatype {
        let layout = FloatLayout {
            order: Order::Big,
            offset: 0,
            precision: 32,
            sign: 31,
            exponent_at: 23,
            exponent_bits: 8,
            mantissa_at: 0,
            mantissa_bits: 23,
            bias: 127,
            normalization: 2,
        };
        Datatype { size: 4, class: Class::Float(layout) }
    }

    /// Types of up to three levels.
    fn any_type() -> impl Strategy<Value = Datatype> {
        let padding = || {
            prop_oneof![Just(Padding::NullTerminated), Just(Padding::NullPadded), Just(Padding::SpacePadded)]
        };
        let charset = || prop_oneof![Just(Charset::Ascii), Just(Charset::Utf8)];
        let leaf = prop_oneof![
            number(),
            Just(float()),
            (1_u32..300, padding(), charset()).prop_map(|(size, padding, charset)| Datatype {
                size,
                class: Class::String { padding, charset }
            }),
            (1_u32..300, "[a-z:<]{0,20}")
                .prop_map(|(size, tag)| Datatype { size, class: Class::Opaque { tag } }),
            (padding(), charset()).prop_map(|(padding, charset)| Datatype {
                size: 16,
                class: Class::VlenString { padding, charset }
            }),
            Just(Datatype { size: 8, class: Class::Reference(ReferenceKind::Object) }),
            Just(Datatype { size: 12, class: Class::Reference(ReferenceKind::Region) }),
            Just(Datatype { size: 18, class: Class::Reference(ReferenceKind::Object2) }),
            Just(Datatype { size: 8, class: Class::Complex(Arc::new(float())) }),
            number().prop_flat_map(|base| {
                let value = proptest::collection::vec(any::<u8>(), base.size as usize);
                proptest::collection::btree_map("[a-zé]{1,9}", value, 0..4).prop_map(move |members| {
                    let base = Arc::new(base.clone());
                    Datatype {
                        size: base.size,
                        class: Class::Enum { base, members: members.into_iter().collect() },
                    }
                })
            }),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let inner = inner.prop_map(Arc::new);
            prop_oneof![
                inner.clone().prop_map(|base| Datatype { size: 16, class: Class::Vlen(base) }),
                (inner.clone(), proptest::collection::vec(1_u32..4, 1..4)).prop_map(|(base, shape)| {
                    let size = shape.iter().product::<u32>() * base.size;
                    Datatype { size, class: Class::Array { shape, base } }
                }),
                proptest::collection::btree_map("[a-zé]{1,12}", (inner, 0_u32..300), 0..5).prop_map(
                    |parts| {
                        let mut at = 0;
                        let members = parts.into_iter().map(|(name, (datatype, gap))| {
                            let offset = at + gap;
                            at = offset + datatype.size;
                            Member { name, offset, datatype }
                        });
                        let members = members.collect();
                        Datatype { size: at.max(1), class: Class::Compound(members) }
                    }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(datatype in any_type()) {
            for libver in [Libver::Earliest, Libver::V110] {
                prop_assert_eq!(&parsed(&datatype.build(libver).unwrap()), &datatype);
            }
        }
    }

    #[test]
    fn what_cannot_be_said() {
        let tag = Datatype { size: 1, class: Class::Opaque { tag: "x".repeat(249) } };
        fails(tag.build(Libver::V110), "bytes of the tag of an opaque type: found 256");
        let mut deep = float();
        for _ in 0..MAX_DEPTH {
            deep = Datatype { size: 16, class: Class::Vlen(Arc::new(deep)) };
        }
        fails(deep.build(Libver::V110), "more than 32 levels");
        let member = Member { name: "a\0b".into(), offset: 0, datatype: Arc::new(float()) };
        fails(Datatype { size: 4, class: Class::Compound(vec![member]) }.build(Libver::V110), "NUL");
    }
}
