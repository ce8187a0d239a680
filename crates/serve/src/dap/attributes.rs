//! The document of attributes (DAS).

use super::types::{DapType, identifier};
use super::{Dataset, Member};
use hyperslab::{Json, Kind};
use std::fmt::Write;

/// The document of attributes.
pub(super) fn das(dataset: &Dataset) -> String {
    let mut text = String::from("Attributes {\n");
    for member in &dataset.members {
        let _ = writeln!(text, "    {} {{", identifier(&member.name));
        let missing = fill_value(member);
        if let Some(value) = &missing {
            // The type must be the variable's.
            let value = match (member.kind, plain(value, member.kind)) {
                // A stored byte of the other sign.
                (DapType::Byte, text) => match text.parse::<i8>() {
                    Ok(byte) => byte.cast_unsigned().to_string(),
                    Err(_) => text,
                },
                (_, text) => text,
            };
            let _ = writeln!(text, "        {} _FillValue {value};", member.kind.name());
        }
        if member.kind == DapType::Byte
            && member.array.dtype().kind() != Kind::Bool
            && member.variable.attributes.get("_Unsigned").is_none()
        {
            // The NetCDF library gives bytes a sign.
            text.push_str("        String _Unsigned \"true\";\n");
        }
        for (name, value) in member.variable.attributes.as_object().unwrap_or_default() {
            if missing.is_none() || name != "_FillValue" {
                attribute(&mut text, name, value);
            }
        }
        text.push_str("    }\n");
    }
    text.push_str("    NC_GLOBAL {\n");
    for (path, attributes) in &dataset.groups {
        for (name, value) in attributes.as_object().unwrap_or_default() {
            let name = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            attribute(&mut text, &name, value);
        }
    }
    if !dataset.left_out.is_empty() {
        let names = dataset.left_out.iter().map(|name| name.as_str().into()).collect();
        attribute(&mut text, "hyperslab_variables_without_a_dap2_type", &Json::Array(names));
    }
    text.push_str("    }\n}\n");
    text
}

/// The value of missing elements as a number.
fn fill_value(member: &Member) -> Option<Json> {
    let is_text = member.kind == DapType::String;
    if is_text { None } else { member.missing.clone() }
}

/// Writes an attribute: a list of numbers or of texts. Others are JSON as text.
fn attribute(text: &mut String, name: &str, value: &Json) {
    let one = std::slice::from_ref(value);
    let values = value.as_array().filter(|values| !values.is_empty()).unwrap_or(one);
    let kind = values.iter().map(kind_of).reduce(wider).unwrap_or(DapType::String);
    let is_mixed = kind == DapType::String && !values.iter().all(|value| value.as_str().is_some());
    let values: Vec<String> = match is_mixed {
        true => vec![quoted(&value.to_text(None))],
        false => values.iter().map(|value| plain(value, kind)).collect(),
    };
    let _ = writeln!(text, "        {} {} {};", kind.name(), identifier(name), values.join(", "));
}

/// The smallest type for a value.
fn kind_of(value: &Json) -> DapType {
    match value {
        Json::Bool(_) => DapType::Byte,
        Json::Number(text) => match text.parse::<i32>() {
            Ok(_) => DapType::Int32,
            Err(_) => DapType::Float64,
        },
        _ => DapType::String,
    }
}

fn wider(one: DapType, other: DapType) -> DapType {
    match (one, other) {
        _ if one == other => one,
        (DapType::Int32, DapType::Float64) | (DapType::Float64, DapType::Int32) => DapType::Float64,
        _ => DapType::String,
    }
}

/// A value in a document.
fn plain(value: &Json, kind: DapType) -> String {
    match (value, kind) {
        (Json::Bool(on), _) => u8::from(*on).to_string(),
        (Json::String(text), DapType::String) => quoted(text),
        (Json::String(text), _) => match text.as_str() {
            "Infinity" => "inf".into(),
            "-Infinity" => "-inf".into(),
            _ => "nan".into(),
        },
        (value, _) => value.to_text(None),
    }
}

/// Text between quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
