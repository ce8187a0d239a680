//! Element types in words.

use hyperslab_codec::{ByteOrder, DataType, Kind};
use hyperslab_hdf5::element::{Element, ElementKind};
use hyperslab_zarr::{FieldKind, Structure};

/// An element type as NumPy names it: `float32`, `datetime64[ns]`, `S5`.
/// Includes the byte order if it is not the machine's: `>f4`.
pub(crate) fn dtype(dtype: DataType) -> String {
    if dtype.order() != ByteOrder::NATIVE {
        return dtype.to_string();
    }
    let bits = dtype.size() * 8;
    let code = dtype.to_string();
    let tail = code.get(1..).unwrap_or_default();
    let time = |name: &str| format!("{name}64{}", tail.get(2..).unwrap_or_default());
    match dtype.kind() {
        Kind::Bool => "bool".into(),
        Kind::Int => format!("int{bits}"),
        Kind::UInt => format!("uint{bits}"),
        Kind::Float => format!("float{bits}"),
        Kind::Complex => format!("complex{bits}"),
        Kind::DateTime(_) => time("datetime"),
        Kind::TimeDelta(_) => time("timedelta"),
        Kind::Bytes | Kind::Text | Kind::Raw => tail.to_owned(),
        Kind::Small(small) => small.name.into(),
    }
}

/// A Zarr structure, formatted like one of HDF5: `{a: int32, b: float64(3,)}`.
pub(crate) fn structure(structure: &Structure) -> String {
    let fields = structure.fields().iter().map(|field| {
        let kind = match &field.kind {
            FieldKind::Plain(plain) => dtype(*plain),
            FieldKind::Structure(inner) => self::structure(inner),
        };
        let axes: Vec<u64> = field.shape.iter().map(|len| *len as u64).collect();
        format!("{}: {kind}{}", field.name, if axes.is_empty() { String::new() } else { shape(&axes) })
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// An HDF5 element type in words, for types that NumPy cannot name.
pub(crate) fn element(element: &Element) -> String {
    match &element.kind {
        ElementKind::Plain(plain) => dtype(*plain),
        ElementKind::Extended { complex, .. } => if *complex { "complex256" } else { "float128" }.into(),
        ElementKind::FixedString { .. } => format!("S{}", element.size),
        ElementKind::Enum { base, .. } => format!("enum of {}", dtype(*base)),
        ElementKind::Struct(fields) => {
            let fields =
                fields.iter().map(|field| format!("{}: {}", field.name, self::element(&field.element)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        ElementKind::Array { shape: inner, element } => {
            format!("{}{}", self::element(element), shape(inner))
        }
        ElementKind::VlenString { .. } => "string".into(),
        ElementKind::Vlen { element, .. } => format!("vlen of {}", self::element(element)),
        ElementKind::ObjectReference | ElementKind::AnyReference => "reference".into(),
        ElementKind::RegionReference => "region reference".into(),
        ElementKind::Unsupported(what) => format!("{} (not supported)", what),
    }
}

/// A shape in Python's notation: `(24, 180, 360)`, `(7,)`, `()`.
fn shape(shape: &[u64]) -> String {
    let numbers: Vec<String> = shape.iter().map(u64::to_string).collect();
    if shape.len() == 1 { format!("({},)", numbers.join("")) } else { format!("({})", numbers.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types() {
        for (code, name) in [
            ("<f4", "float32"),
            (">f4", ">f4"),
            ("|b1", "bool"),
            ("|u1", "uint8"),
            ("<c16", "complex128"),
            ("<M8[10us]", "datetime64[10us]"),
            ("<m8", "timedelta64"),
            ("|S5", "S5"),
            ("<U3", "U3"),
            ("|V16", "V16"),
        ] {
            assert_eq!(dtype(code.parse().unwrap()), name);
        }
        let list = r#"[["a", "<i4"], ["b", [["c", ">f8", [2, 3]]], [4]]]"#;
        let words = structure(&Structure::from_text(list).unwrap());
        assert_eq!(words, "{a: int32, b: {c: >f8(2, 3)}(4,)}");
    }
}
