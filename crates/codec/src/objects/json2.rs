//! `json2` of numcodecs: a chunk of objects as one JSON text.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/other/json.html>
//! * v2 id: `json2`; v3 has no such codec
//!
//! ```
//! # let json = r#"
//! {"id": "json2", "encoding": "utf-8", "skipkeys": false, "ensure_ascii": true, "check_circular": true, "allow_nan": true, "indent": null, "separators": [",", ":"], "sort_keys": true, "strict": true}
//! # "#;
//! # use hyperslab_codec::{Context, DataType, VlenKind, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context { vlen: Some(VlenKind::Json), ..Context::of_elements(DataType::CELL) };
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! The text is a list: the elements, in nested lists if the chunk has several axes; then the
//! element type, `"|O"` for objects; then the shape of the chunk. The order of the array makes no
//! difference: the last axis is the fastest in `"order": "F"`, too.
//!
//! numcodecs before 0.6 called the codec `json` and did not store the shape.
//!
//! In memory an element is its JSON without white space. The codec applies the settings for white
//! space; the others are for the code that makes JSON from objects.

use crate::objects::json_text::{Reader, Style};
use crate::objects::{Each, Objects, element_of, lists, type_name};
use crate::registry::Config;
use crate::scalar::Spelling;
use crate::{CodecError, Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const NAME: &str = "json2";

/// The id from before the shape was stored.
pub(crate) const OLD_NAME: &str = "json";

/// The most characters of an indent or separator. Python indents with a few spaces.
const MOST_SPACE: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    encoding: String,
    skipkeys: bool,
    ensure_ascii: bool,
    check_circular: bool,
    allow_nan: bool,
    indent: Value,
    separators: Option<(String, String)>,
    sort_keys: bool,
    strict: bool,
}

impl Default for Fields {
    /// numcodecs' defaults.
    fn default() -> Self {
        Fields {
            encoding: "utf-8".into(),
            skipkeys: false,
            ensure_ascii: true,
            check_circular: true,
            allow_nan: true,
            indent: Value::Null,
            separators: None,
            sort_keys: true,
            strict: true,
        }
    }
}

/// The form in which chunks are stored.
#[derive(Debug)]
pub(crate) struct Json2 {
    /// All settings, as in the metadata.
    metadata: Value,
    style: Style,
    /// `true` if the text is ASCII.
    ascii: bool,
    strict: bool,
    /// NumPy's name of the element type.
    dtype: String,
    /// How single values are spelled.
    spelling: Spelling,
    /// `true` if the shape is stored.
    shaped: bool,
    shape: Vec<u64>,
}

impl Json2 {
    /// Reads metadata, for chunks like `array`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let name = match config {
            Config::V2(object) if object.get("id").and_then(Value::as_str) == Some(OLD_NAME) => OLD_NAME,
            _ => NAME,
        };
        let fields: Fields = config.fields(name)?;
        let wrong = |why: String| CodecError::config(name, why);
        let ascii = match fields.encoding.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" => false,
            "ascii" | "us-ascii" => true,
            _ => {
                return Err(wrong(format!(
                    "encoding: expected \"utf-8\" or \"ascii\", found {:?}",
                    fields.encoding
                )));
            }
        };
        let is_space =
            |text: &str| text.len() <= MOST_SPACE && text.chars().all(|char| " \t\r\n".contains(char));
        let indent = match &fields.indent {
            Value::Null => None,
            // Python counts bools as 0 and 1.
            Value::Bool(one) => Some(" ".repeat(usize::from(*one))),
            Value::Number(number) => {
                let spaces = number.as_i64().map(|number| usize::try_from(number).unwrap_or(0));
                spaces
                    .filter(|spaces| *spaces <= MOST_SPACE)
                    .map(|spaces| Some(" ".repeat(spaces)))
                    .ok_or_else(|| {
                        wrong(format!("indent: expected an integer up to {MOST_SPACE}, found {number}"))
                    })?
            }
            Value::String(text) if is_space(text) => Some(text.clone()),
            other => {
                return Err(wrong(format!("indent: expected null, a number or white space, found {other}")));
            }
        };
        let (item, key) = fields.separators.unwrap_or_else(|| match indent {
            None => (",".into(), ":".into()),
            Some(_) => (", ".into(), ": ".into()),
        });
        for (separator, sign) in [(&item, ","), (&key, ":")] {
            if separator.trim() != sign || !is_space(&separator.replace(sign, "")) {
                let why = format!("separators: expected {sign:?} and white space, found {separator:?}");
                return Err(wrong(why));
            }
        }
        let metadata = json!({
            "id": name,
            "encoding": fields.encoding,
            "skipkeys": fields.skipkeys,
            "ensure_ascii": fields.ensure_ascii,
            "check_circular": fields.check_circular,
            "allow_nan": fields.allow_nan,
            "indent": fields.indent,
            "separators": [&item, &key],
            "sort_keys": fields.sort_keys,
            "strict": fields.strict,
        });
        let style = Style { item, key, indent };
        Ok(Json2 {
            metadata,
            style,
            ascii,
            strict: fields.strict,
            dtype: type_name(array),
            spelling: Spelling::Json { ascii: fields.ensure_ascii },
            shaped: name == NAME,
            shape: array.shape.to_vec(),
        })
    }

    /// How single values are spelled.
    pub(crate) fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// The items after the elements, each with its name for messages.
    fn tail(&self) -> impl Iterator<Item = (&'static str, String)> {
        let dtype = Value::from(self.dtype.as_str()).to_string();
        let shape = self.shaped.then(|| ("shape", self.shape_text()));
        std::iter::once(("type", dtype)).chain(shape)
    }

    fn shape_text(&self) -> String {
        serde_json::to_string(&self.shape).unwrap_or_default()
    }

    /// Reads a list at `depth`. `each` gets the place of every element in `values`.
    fn read(
        &self,
        reader: &mut Reader<'_>,
        depth: usize,
        values: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<(), String> {
        let lists = lists(&self.shape);
        let len = lists.get(depth).copied().unwrap_or(0);
        reader.take(b'[')?;
        for at in 0..len {
            if at > 0 {
                reader.take(b',')?;
            }
            if depth + 1 < lists.len() {
                self.read(reader, depth + 1, values, each)?;
                continue;
            }
            if reader.peek() == Some(b']') {
                return Err(format!("expected {len} elements in a list, found {at}"));
            }
            let start = values.len();
            reader.value(&Style::compact(), 0, values)?;
            each(values.get(start..).unwrap_or_default(), start)?;
        }
        if depth == 0 {
            for (what, expected) in self.tail() {
                reader.take(b',')?;
                let mut found = Vec::new();
                reader.value(&Style::compact(), 0, &mut found)?;
                if found != expected.as_bytes() {
                    let found =
                        String::from_utf8_lossy(found.get(..found.len().min(100)).unwrap_or_default());
                    return Err(format!("expected the {what} {expected} after the elements, found {found}"));
                }
            }
        }
        reader.take(b']')
    }

    /// Writes a list at `depth` from the next elements.
    fn write(
        &self,
        elements: &mut dyn Iterator<Item = (usize, &[u8])>,
        depth: usize,
        chunk: &mut Vec<u8>,
    ) -> Result<(), String> {
        let lists = lists(&self.shape);
        chunk.push(b'[');
        for at in 0..lists.get(depth).copied().unwrap_or(0) {
            if at > 0 {
                chunk.extend_from_slice(self.style.item.as_bytes());
            }
            self.style.line(depth + 1, chunk);
            if depth + 1 < lists.len() {
                self.write(elements, depth + 1, chunk)?;
                continue;
            }
            let (number, bytes) = elements.next().ok_or("there are fewer elements than the chunk has")?;
            let text = std::str::from_utf8(bytes).map_err(|error| element_of(number)(error.to_string()))?;
            let mut reader = Reader::new(text, self.strict);
            let written = reader.value(&self.style, depth + 1, chunk).and_then(|()| reader.end());
            written.map_err(element_of(number))?;
        }
        if depth == 0 {
            for (_, text) in self.tail() {
                chunk.extend_from_slice(self.style.item.as_bytes());
                self.style.line(1, chunk);
                Reader::new(&text, true).value(&self.style, 1, chunk)?;
            }
        }
        self.style.line(depth, chunk);
        chunk.push(b']');
        Ok(())
    }
}

impl Objects for Json2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn most_values(&self, stored: usize) -> usize {
        stored
    }

    fn split(&self, chunk: &[u8], values: &mut Vec<u8>, each: &mut Each<'_>) -> Result<(), String> {
        let text = std::str::from_utf8(chunk).map_err(|error| format!("it is not UTF-8: {error}"))?;
        if self.ascii && !text.is_ascii() {
            return Err("it is not ASCII".into());
        }
        let mut reader = Reader::new(text, self.strict);
        self.read(&mut reader, 0, values, each)?;
        reader.end()
    }

    fn join(&self, elements: &[&[u8]], chunk: &mut Vec<u8>) -> Result<(), String> {
        self.write(&mut elements.iter().copied().enumerate(), 0, chunk)?;
        if self.ascii && !chunk.is_ascii() {
            return Err("encoding: an element is not ASCII".into());
        }
        Ok(())
    }

    fn to_v2(&self) -> Value {
        self.metadata.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::testing::{decode, encode, vlen};
    use crate::{Vlen, VlenKind};

    fn codec(settings: Value, shape: &[u64]) -> Result<Vlen> {
        vlen(VlenKind::Json, NAME, settings, shape, b"null")
    }

    #[test]
    fn the_bytes_of_numcodecs() {
        // numcodecs.JSON().encode(np.array([["é", None], [{"b": 1, "a": [nan]}, 2**70]], object))
        let chunk = br#"[["\u00e9",null],[{"a":[NaN],"b":1},1180591620717411303424],"|O",[2,2]]"#;
        let values: [&[u8]; 4] =
            [br#""\u00e9""#, b"null", br#"{"a":[NaN],"b":1}"#, b"1180591620717411303424"];
        let json = codec(json!({}), &[2, 2]).unwrap();
        assert_eq!(encode(&json, &values).unwrap(), chunk);
        assert_eq!(decode(&json, chunk, 4).unwrap(), values);
        // numcodecs.JSON(indent=1).encode(np.array([[], "a"], object))
        let lines = b"[\n [], \n \"a\", \n \"|O\", \n [\n  2\n ]\n]";
        let json = codec(json!({"indent": true}), &[2]).unwrap();
        assert_eq!(encode(&json, &[b"[]", b"\"a\""]).unwrap(), lines);
        assert_eq!(decode(&json, lines, 2).unwrap(), [&b"[]"[..], b"\"a\""]);
        // numcodecs.JSON().encode(np.array({"a": 1}, object))
        let json = codec(json!({}), &[]).unwrap();
        assert_eq!(encode(&json, &[br#"{"a":1}"#]).unwrap(), br#"[{"a":1},"|O",[]]"#);
        assert_eq!(decode(&json, br#" [ {"a" : 1} , "|O" , [ ] ] "#, 1).unwrap(), [br#"{"a":1}"#]);
    }

    #[test]
    fn chunks_that_are_refused() {
        let message = |text: &str, shape: &[u64]| {
            let count = shape.iter().product::<u64>() as usize;
            decode(&codec(json!({}), shape).unwrap(), text.as_bytes(), count).unwrap_err().to_string()
        };
        for (text, shape, why) in [
            (r#"[1,2,"|O",[2]"#, &[2][..], "expected ']'"),
            (r#"[1,2,"|O",[3]]"#, &[2], "expected the shape [2] after the elements, found [3]"),
            (r#"[1,2,"<i4",[2]]"#, &[2], "expected the type \"|O\" after the elements, found \"<i4\""),
            (r#"[1,2,3,"|O",[2]]"#, &[2], "expected the type \"|O\" after the elements, found 3"),
            (r#"[1,"|O",[2]]"#, &[2], "expected the type \"|O\" after the elements, found [2]"),
            (r#"[]"#, &[2], "expected 2 elements in a list, found 0"),
            (r#"[[1,2],"|O",[2,2]]"#, &[2, 2], "expected '['"),
            (r#"[[1],[2],"|O",[2,2]]"#, &[2, 2], "expected ','"),
            (r#"[[1,2,3],[4,5],"|O",[2,2]]"#, &[2, 2], "expected ']'"),
            (r#"[1,2,"|O",[2]] x"#, &[2], "expected the end, found 'x'"),
            ("", &[2], "it ends at byte 0"),
        ] {
            let error = message(text, shape);
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = decode(&codec(json!({}), &[1]).unwrap(), b"[\"\xff\",\"|O\",[1]]", 1).unwrap_err();
        assert!(error.to_string().contains("not UTF-8"), "{error}");
        let ascii = codec(json!({"encoding": "ascii"}), &[1]).unwrap();
        assert!(decode(&ascii, r#"["é","|O",[1]]"#.as_bytes(), 1).is_err());
        assert!(encode(&ascii, &["\"é\"".as_bytes()]).is_err());
        let json = codec(json!({}), &[2]).unwrap();
        for element in [&b""[..], b"1 2", b"1,2", b"[", b"\xff"] {
            let error = encode(&json, &[b"1", element]).unwrap_err().to_string();
            assert!(error.contains("element 1"), "{error}");
        }
    }

    #[test]
    fn without_the_shape() {
        let array = Context {
            vlen: Some(VlenKind::Json),
            shape: vec![2, 1].into(),
            fill: b"null".into(),
            ..Context::of_elements(crate::DataType::CELL)
        };
        let json = Vlen::of_objects(Config::V2(&json!({"id": OLD_NAME})), &array).unwrap();
        let chunk = br#"[[1],["a"],"|O"]"#;
        assert_eq!(decode(&json, chunk, 2).unwrap(), [&b"1"[..], b"\"a\""]);
        assert_eq!(encode(&json, &[b"1", b"\"a\""]).unwrap(), chunk);
        assert!(decode(&json, br#"[[1],["a"],"|O",[2,1]]"#, 2).is_err());
        assert_eq!(crate::Codec::to_v2(&json).unwrap()["id"], json!("json"));
    }

    #[test]
    fn settings() {
        let config = |settings: Value| codec(settings, &[2]).map(|vlen| crate::Codec::to_v2(&vlen).unwrap());
        assert_eq!(config(json!({})).unwrap()["separators"], json!([",", ":"]));
        let lines = config(json!({"indent": -1, "sort_keys": false})).unwrap();
        assert_eq!((&lines["separators"], &lines["indent"]), (&json!([", ", ": "]), &json!(-1)));
        assert_eq!(lines["sort_keys"], json!(false));
        for settings in [
            json!({"encoding": "utf-16"}),
            json!({"indent": 1000}),
            json!({"indent": 1.5}),
            json!({"indent": "->"}),
            json!({"separators": [";", ":"]}),
            json!({"separators": [",", "\u{a0}:"]}),
            json!({"separators": [","]}),
            json!({"x": 1}),
        ] {
            assert!(config(settings.clone()).is_err(), "{settings}");
        }
    }
}
