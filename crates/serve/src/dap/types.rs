//! Types of DAP2, and the document that declares variables (DDS).

use super::Wanted;
use hyperslab::{Array, DataType, Kind, VlenKind};
use std::fmt::Write;

/// A type of DAP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DapType {
    Byte,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Float32,
    Float64,
    String,
}

impl DapType {
    /// The type for the elements of an array. `None`: DAP2 has no such type.
    ///
    /// Each type holds all values. 64-bit integers become doubles; reading fails if one of them is not
    /// a double.
    /// `unsigned`: stored integers have the other sign (`_Unsigned`).
    pub(super) fn of(array: &Array, unsigned: Option<bool>) -> Option<DapType> {
        if array.structure().is_some() || array.optional().is_some() {
            return None;
        }
        match array.vlen() {
            Some(VlenKind::Text) => return Some(DapType::String),
            Some(_) => return None,
            None => {}
        }
        let dtype = array.dtype();
        match (dtype.kind(), dtype.size(), unsigned) {
            // Clients turn the sign of the type that they get, so it must have the stored size.
            (Kind::Int, 1, Some(_)) => Some(DapType::Byte),
            (_, 8, Some(_)) => None,
            _ => DapType::of_elements(dtype),
        }
    }

    fn of_elements(dtype: DataType) -> Option<DapType> {
        Some(match (dtype.kind(), dtype.size()) {
            (Kind::Bool, _) | (Kind::UInt, 1) => DapType::Byte,
            // A Byte has no sign.
            (Kind::Int, 1 | 2) => DapType::Int16,
            (Kind::UInt, 2) => DapType::UInt16,
            (Kind::Int, 4) => DapType::Int32,
            (Kind::UInt, 4) => DapType::UInt32,
            (Kind::Float, 2 | 4) => DapType::Float32,
            (Kind::Float | Kind::Int | Kind::UInt, 8) => DapType::Float64,
            (Kind::Bytes | Kind::Text, _) => DapType::String,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            DapType::Byte => "Byte",
            DapType::Int16 => "Int16",
            DapType::UInt16 => "UInt16",
            DapType::Int32 => "Int32",
            DapType::UInt32 => "UInt32",
            DapType::Float32 => "Float32",
            DapType::Float64 => "Float64",
            DapType::String => "String",
        }
    }
}

/// A name, as documents have it: letters, digits, and signs that are no syntax.
pub(super) fn identifier(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'/' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    text
}

/// The document that declares variables.
pub(super) fn dds(name: &str, wanted: &Wanted<'_>) -> String {
    let mut text = String::from("Dataset {\n");
    for part in wanted {
        let _ = write!(text, "    {} {}", part.member.kind.name(), identifier(&part.member.name));
        let names = part.member.variable.dimension_names.as_deref().unwrap_or_default();
        for (axis, count) in part.counts().into_iter().enumerate() {
            let _ = match names.get(axis).and_then(Option::as_deref) {
                Some(name) => write!(text, "[{} = {count}]", identifier(name)),
                None => write!(text, "[{count}]"),
            };
        }
        text.push_str(";\n");
    }
    let _ = writeln!(text, "}} {};", identifier(name));
    text
}
