//! JSON that is written exactly as it was read.
//!
//! Attributes belong to the user. An integer of forty digits, `1.0` instead of `1`, and the tokens
//! `NaN`, `Infinity` and `-Infinity` that Python's `json` writes must survive a rewrite of the
//! metadata. A number therefore keeps its source text, and an object the order of its members. Text
//! is written like Python's `json.dumps` does (non-ASCII characters as `\uXXXX`).
//!
//! Refused, with the offset: everything that Python refuses too (control characters in strings,
//! trailing commas, comments), lone surrogates (`"\ud800"`: no Rust string can hold one), nesting
//! deeper than [`MAX_DEPTH`], more than [`MAX_VALUES`] values.

mod parse;
mod write;

use hyperslab_codec::python_float;
use std::fmt;
use thiserror::Error;

/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// The most values (scalars, arrays, objects) in one document.
///
/// Parsed values take more memory than their text.
pub const MAX_VALUES: usize = 1 << 24;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// The source text of a number. Also `NaN`, `Infinity`, `-Infinity`.
    Number(Box<str>),
    /// Text.
    String(String),
    /// `[…]`
    Array(Vec<Json>),
    /// `{…}`: members in order, with unique names.
    ///
    /// If a text has duplicates, the last value is kept, at the place of the first.
    Object(Vec<(String, Json)>),
}

/// Receives the members of an object that is taken apart ([`Json::parse_apart`]).
pub(crate) trait Members {
    /// Starts an object. Earlier members are void: a later object has the same name as theirs.
    fn start(&mut self);

    /// Receives the next member. Names may occur more than once; the last value counts.
    fn member(&mut self, name: String, value: Value<'_>);
}

/// The value of a member as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a> {
    /// Members with the same number have equal values. New values are counted from 0 on.
    pub(crate) number: usize,
    /// The text of a new value, without white space. Empty if the number has occurred before.
    pub(crate) text: &'a str,
    /// If the value is an object: the places of its members in `text`.
    pub(crate) fields: &'a [Field],
}

/// A member of an object: where its name begins, and where its value begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Value<'_> {
    /// The text of a member of an object. `None`: there is none, or its name is not certain.
    ///
    /// `name` is in quotes.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let name_of = |field: &Field| self.text.get(field.name..field.start - 1).unwrap_or_default();
        // Escaped characters may spell any name.
        if self.fields.iter().any(|field| name_of(field).contains('\\')) {
            return None;
        }
        // If there are several, the last one counts.
        let field = self.fields.iter().rev().find(|field| name_of(field) == name)?;
        self.text.get(field.start..field.end)
    }
}

/// Why a text is not JSON, or a value cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid JSON at byte {offset}: {why}")]
pub struct JsonError {
    /// Bytes from the start of the text.
    pub offset: usize,
    /// The fault at this offset.
    pub why: String,
}

impl Json {
    /// Parses a text (UTF-8, with or without a byte order mark).
    pub fn parse(text: &[u8]) -> Result<Json, JsonError> {
        parse::parse(text)
    }

    /// Like [`Json::parse`], but gives the members of the object at `path` to `members`.
    ///
    /// In the result this object is empty. Values of many members thus take no memory.
    pub(crate) fn parse_apart(
        text: &[u8],
        path: &[&str],
        members: &mut dyn Members,
    ) -> Result<Json, JsonError> {
        parse::parse_apart(text, path, members)
    }

    /// The text. With `indent`, one member per line, indented by this many spaces per level.
    pub fn to_text(&self, indent: Option<usize>) -> String {
        let mut text = String::new();
        write::write(self, indent, usize::MAX, &mut text);
        text
    }

    /// Fails if the text could not be parsed again.
    ///
    /// The depth and the number of values must be within the limits of [`Json::parse`].
    pub fn check_bounds(&self) -> Result<(), String> {
        let mut values = 0;
        self.count(0, &mut values)
    }

    /// Stops at the limits, so that the recursion is bounded.
    fn count(&self, depth: usize, values: &mut usize) -> Result<(), String> {
        *values += 1;
        if *values > MAX_VALUES {
            return Err(format!("it has more than {MAX_VALUES} values"));
        }
        let nested = matches!(self, Json::Array(_) | Json::Object(_));
        if nested && depth == MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        match self {
            Json::Array(items) => items.iter().try_for_each(|item| item.count(depth + 1, values)),
            Json::Object(members) => {
                members.iter().try_for_each(|(_, member)| member.count(depth + 1, values))
            }
            _ => Ok(()),
        }
    }

    /// An empty object.
    pub fn object() -> Json {
        Json::Object(Vec::new())
    }

    /// An extension of v3 metadata: `{"name": name, "configuration": {…}}`.
    pub fn named<const N: usize>(name: &str, configuration: [(&str, Json); N]) -> Json {
        Json::from([("name", name.into()), ("configuration", configuration.into())])
    }

    /// A number, written as Python writes floats. `NaN` and infinities become Python's tokens.
    pub fn float(value: f64) -> Json {
        Json::Number(python_float(value).into())
    }

    /// The value of a member, or `None` if there is none or this is no object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The value of a member, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        let Json::Object(members) = self else { return None };
        members.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a member, at its present place or at the end. Does nothing if this is no object.
    pub fn set(&mut self, name: &str, value: Json) {
        if let Json::Object(members) = self {
            match members.iter_mut().find(|(key, _)| key == name) {
                Some((_, old)) => *old = value,
                None => members.push((name.to_owned(), value)),
            }
        }
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let Json::Object(members) = self else { return None };
        let at = members.iter().position(|(key, _)| key == name)?;
        Some(members.remove(at).1)
    }

    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(text) = self { Some(text) } else { None }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        if let Json::Array(items) = self { Some(items) } else { None }
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        if let Json::Object(members) = self { Some(members) } else { None }
    }

    /// The value, if this is an integer in the range of `T`, written without fraction and exponent.
    pub fn as_integer<T: std::str::FromStr>(&self) -> Option<T> {
        if let Json::Number(text) = self { text.parse().ok() } else { None }
    }

    /// At most about sixty characters of the text, for messages.
    pub fn brief(&self) -> String {
        let mut text = String::new();
        write::write(self, None, 60, &mut text);
        if text.chars().count() > 60 {
            text = text.chars().take(57).collect();
            text.push('…');
        }
        text
    }

    /// The same value for serde.
    ///
    /// Fails if serde has no such value: `NaN` and infinities, integers beyond 64 bits.
    pub fn to_serde(&self) -> Result<serde_json::Value, JsonError> {
        use serde_json::Value;
        Ok(match self {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(text) => Value::Number(serde_number(text).ok_or_else(|| JsonError {
                offset: 0,
                why: format!("the number {} is out of range here", self.brief()),
            })?),
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Json::to_serde).collect::<Result<_, _>>()?),
            Json::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), value.to_serde()?)))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }
}

/// 64-bit integers and finite floats; nothing is rounded to fit.
fn serde_number(text: &str) -> Option<serde_json::Number> {
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.into());
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    serde_json::Number::from_f64(text.parse().ok()?)
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Json {
        use serde_json::Value;
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => Json::float(float),
                _ => Json::Number(number.to_string().into()),
            },
            Value::String(text) => Json::String(text.clone()),
            Value::Array(items) => Json::Array(items.iter().map(Json::from).collect()),
            Value::Object(members) => {
                Json::Object(members.iter().map(|(key, value)| (key.clone(), Json::from(value))).collect())
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.to_owned())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Json {
            fn from(value: $integer) -> Json {
                Json::Number(value.to_string().into())
            }
        })*
    };
}
from_integer!(u32, u64, i64, usize, i128);

impl From<&[u64]> for Json {
    fn from(numbers: &[u64]) -> Json {
        Json::Array(numbers.iter().map(|n| (*n).into()).collect())
    }
}

impl<const N: usize> From<[(&str, Json); N]> for Json {
    fn from(members: [(&str, Json); N]) -> Json {
        Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

/// The text without line breaks.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn members_are_found_and_set() {
        let mut json = parse(r#"{"a": 1, "b": [2]}"#);
        assert_eq!(json.get("b").and_then(Json::as_array).map(<[_]>::len), Some(1));
        json.set("a", true.into());
        json.set("c", Json::Null);
        assert_eq!(json.to_text(None), r#"{"a": true, "b": [2], "c": null}"#);
        assert_eq!(json.remove("b"), Some(Json::Array(vec![2u64.into()])));
        assert_eq!(json.remove("b"), None);
        assert_eq!(json.to_text(None), r#"{"a": true, "c": null}"#);
    }

    #[test]
    fn integers_are_exact_or_refused() {
        assert_eq!(parse("18446744073709551615").as_integer::<u64>(), Some(u64::MAX));
        for text in ["18446744073709551616", "-1", "1.0", "1e3", "NaN", "\"1\"", "true"] {
            assert_eq!(parse(text).as_integer::<u64>(), None, "{text}");
        }
    }

    #[test]
    fn serde_gets_only_what_it_can_hold() {
        for text in [r#"{"a": [1, -2, 0.5, 18446744073709551615, "x", null, false], "b": {}}"#, "1e300"] {
            let json = parse(text);
            assert_eq!(Json::from(&json.to_serde().unwrap()).to_text(None), text.replace("1e300", "1e+300"));
        }
        for text in ["NaN", "[-Infinity]", "18446744073709551616", "1e400"] {
            assert!(parse(text).to_serde().is_err(), "{text}");
        }
    }

    #[test]
    fn brief_is_short() {
        let long = Json::Array((0..100_000u64).map(Json::from).collect());
        assert!(long.brief().starts_with("[0, 1, 2,") && long.brief().ends_with('…'));
        assert!(long.brief().chars().count() <= 60);
        assert_eq!(parse("[1]").brief(), "[1]");
    }
}
