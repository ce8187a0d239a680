//! Single values as JSON and as MessagePack, spelled as in Python's packages.

use crate::objects::message_pack::{self, Head};

/// The value of an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

/// JSON, for messages.
impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Integer(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value:?}"),
            Scalar::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// How values are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// With `ascii`, other characters are escaped.
    Json { ascii: bool },
    /// With `single`, floats have four bytes.
    MessagePack { single: bool },
}

impl Spelling {
    /// Reads a value. The error says why reading failed.
    pub(crate) fn read(self, bytes: &[u8]) -> Result<Scalar, String> {
        match self {
            Spelling::Json { .. } => read_json(bytes),
            Spelling::MessagePack { .. } => read_msgpack(bytes),
        }
    }

    /// Writes a value.
    pub(crate) fn write(self, value: &Scalar, to: &mut Vec<u8>) {
        match self {
            Spelling::Json { ascii } => write_json(value, ascii, to),
            Spelling::MessagePack { single } => write_msgpack(value, single, to),
        }
    }
}

fn read_json(bytes: &[u8]) -> Result<Scalar, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    Ok(match text {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        "NaN" => Scalar::Float(f64::NAN),
        "Infinity" => Scalar::Float(f64::INFINITY),
        "-Infinity" => Scalar::Float(f64::NEG_INFINITY),
        _ if text.starts_with('"') => {
            Scalar::Text(serde_json::from_str(text).map_err(|error| error.to_string())?)
        }
        _ => match text.parse() {
            Ok(number) => Scalar::Integer(number),
            Err(_) => Scalar::Float(text.parse().map_err(|_| format!("expected a number, found {text}"))?),
        },
    })
}

fn write_json(value: &Scalar, ascii: bool, to: &mut Vec<u8>) {
    match value {
        Scalar::Bool(value) => to.extend_from_slice(value.to_string().as_bytes()),
        Scalar::Integer(number) => to.extend_from_slice(number.to_string().as_bytes()),
        Scalar::Float(number) => to.extend_from_slice(python_float(*number).as_bytes()),
        Scalar::Text(text) => {
            let quoted = serde_json::Value::from(text.as_str()).to_string();
            for char in quoted.chars() {
                if ascii && !(' '..='~').contains(&char) {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        to.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                    }
                } else {
                    to.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }
}

/// A float as Python's `repr` writes it.
///
/// It has the shortest digits that read back as the same value, and an exponent below 1e-4 and from
/// 1e16, with a sign and at least two digits. `NaN` and infinities become the tokens of Python's
/// `json`.
pub fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
    }
}

fn read_msgpack(bytes: &[u8]) -> Result<Scalar, String> {
    let (mut left, behind) = message_pack::value(bytes)?;
    if !behind.is_empty() {
        return Err(format!("{} bytes follow the value", behind.len()));
    }
    Ok(match Head::read(&mut left)? {
        Head::Bool(value) => Scalar::Bool(value),
        Head::Unsigned(number) => Scalar::Integer(number.into()),
        Head::Signed(number) => Scalar::Integer(number.into()),
        Head::Single(number) => Scalar::Float(number.into()),
        Head::Double(number) => Scalar::Float(number),
        Head::Text(_) => Scalar::Text(std::str::from_utf8(left).map_err(|error| error.to_string())?.into()),
        _ => return Err("expected a Boolean, a number or text, found another value".into()),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "as the setting says")]
fn write_msgpack(value: &Scalar, single: bool, to: &mut Vec<u8>) {
    let head = match value {
        Scalar::Bool(value) => Head::Bool(*value),
        Scalar::Integer(number) => match u64::try_from(*number) {
            Ok(number) => Head::Unsigned(number),
            Err(_) => Head::Signed(i64::try_from(*number).unwrap_or(i64::MIN)),
        },
        Scalar::Float(number) if single => Head::Single(*number as f32),
        Scalar::Float(number) => Head::Double(*number),
        Scalar::Text(text) => return message_pack::write_text(text, to),
    };
    head.write(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let values = [0, 1, -1, 127, 128, -32, -33, -128, -129, 255, 256, 65535, 65536, -32769, 1 << 32]
            .into_iter()
            .chain([i128::from(u64::MAX), i128::from(i64::MIN)])
            .map(Scalar::Integer)
            .chain([0.0, -0.0, 1e300, 5e-324, 0.1].map(Scalar::Float))
            .chain(["", "a\u{7f}\n\"", "é𝄞", &"x".repeat(70_000)].map(|text| Scalar::Text(text.into())))
            .chain([true, false].map(Scalar::Bool));
        for value in values {
            for spelling in [
                Spelling::Json { ascii: true },
                Spelling::Json { ascii: false },
                Spelling::MessagePack { single: false },
            ] {
                let mut bytes = Vec::new();
                spelling.write(&value, &mut bytes);
                assert_eq!(spelling.read(&bytes).unwrap(), value, "{spelling:?}");
            }
        }
    }

    #[test]
    fn spelled_as_in_python() {
        let json = |value: Scalar| {
            let mut bytes = Vec::new();
            Spelling::Json { ascii: true }.write(&value, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        // repr(x) for x in …
        for (number, text) in [
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e100, "1.5e+100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(json(Scalar::Float(number)), text);
        }
        // json.dumps("\x7f\t\x01/")
        assert_eq!(json(Scalar::Text("\u{7f}\t\u{1}/".into())), "\"\\u007f\\t\\u0001/\"");
    }
}
