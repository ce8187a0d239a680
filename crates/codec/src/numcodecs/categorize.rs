//! `categorize` of numcodecs: stores fixed-length text from a list of labels as numbers.
//!
//! For text of any length see [`crate::objects::categorize_objects`].
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/categorize.html>
//! * v2 id: `categorize`; v3 has no such codec
//!
//! ```
//! # let json = r#"
//! {"id": "categorize", "labels": ["female", "male"], "dtype": "<U6", "astype": "|u1"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<U6".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! The first label is 1. 0, and any number without a label, is the empty text. numcodecs stores
//! text that is no label as 0, and so loses it. Here that is an error.

use crate::registry::Config;
use crate::scratch::resize_buffer;
use crate::{
    ArrayToArray, ByteOrder, Codec, CodecError, Context, DataType, Kind, Result, Scratch, front, room,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

pub(crate) const NAME: &str = "categorize";

/// The `categorize` filter.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Categorize {
    labels: Vec<String>,
    decoded: DataType,
    encoded: DataType,
    /// Elements, one after another: the empty text, then the labels.
    elements: Vec<u8>,
    /// The number of each element.
    numbers: HashMap<Vec<u8>, u64>,
}

impl std::fmt::Debug for Categorize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Categorize { labels, decoded, encoded, .. } = self;
        write!(f, "Categorize {{ labels: {labels:?}, decoded: {decoded}, encoded: {encoded} }}")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fields {
    pub(crate) labels: Vec<String>,
    pub(crate) dtype: Option<String>,
    pub(crate) astype: Option<String>,
}

impl Fields {
    /// The type of the numbers: one byte, unless `astype` gives another type. Fails if there are
    /// more labels than numbers of that type.
    pub(crate) fn encoded(&self) -> Result<DataType> {
        let name = self.astype.as_deref().unwrap_or("|u1");
        let wrong = |why: String| CodecError::config(NAME, why);
        let encoded: DataType = name.parse().map_err(|why| wrong(format!("astype: {why}")))?;
        let bits = match encoded.kind() {
            Kind::UInt => 8 * encoded.size(),
            Kind::Int => 8 * encoded.size() - 1,
            _ => return Err(wrong(format!("astype: expected integers, found {encoded}"))),
        };
        if bits < 64 && self.labels.len() as u64 >= 1 << bits {
            return Err(wrong(format!(
                "{encoded} has too few numbers for {} labels: choose a larger astype",
                self.labels.len()
            )));
        }
        Ok(encoded)
    }
}

/// Reads a number of this type from its bytes.
pub(crate) fn number(encoded: DataType, stored: &[u8]) -> u64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match encoded.order() {
        ByteOrder::Little => stored.iter().rev().fold(0, add),
        ByteOrder::Big => stored.iter().fold(0, add),
    }
}

/// Writes a number of this type as bytes.
pub(crate) fn put_number(number: u64, encoded: DataType, to: &mut [u8]) {
    to.iter_mut().zip(number.to_le_bytes()).for_each(|(to, byte)| *to = byte);
    if encoded.order() == ByteOrder::Big {
        to.reverse();
    }
}

impl Categorize {
    /// Reads metadata, for text of fixed length. Without `dtype`, elements have the array's type;
    /// without `astype`, numbers have one byte.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields(NAME)?;
        let encoded = fields.encoded()?;
        let Fields { labels, dtype, .. } = fields;
        let unfit = |why: String| CodecError::Unfit { why: format!("{NAME:?}: {why}") };
        let decoded = match dtype {
            None => array.dtype,
            Some(name) => {
                name.parse::<DataType>().map_err(|why| CodecError::config(NAME, format!("dtype: {why}")))?
            }
        };
        if decoded.kind() != Kind::Text || decoded.size() == 0 || array.dtype.size() != decoded.size() {
            return Err(unfit(format!("expected text elements of type {decoded}, found {}", array.dtype)));
        }
        let size = decoded.size();
        // Even a short label is kept as a whole element, twice, and elements may be large.
        let bytes = size.saturating_mul(labels.len() + 1);
        if !room::for_copies(bytes, 2) {
            return Err(CodecError::memory(NAME, bytes));
        }
        let mut elements = vec![0; size];
        let mut numbers = HashMap::from([(elements.clone(), 0)]);
        for (label, number) in labels.iter().zip(1..) {
            let mut element: Vec<u8> = Vec::new();
            for char in label.chars() {
                let number = u32::from(char);
                element.extend(match decoded.order() {
                    ByteOrder::Little => number.to_le_bytes(),
                    ByteOrder::Big => number.to_be_bytes(),
                });
            }
            let fits = element.len() <= size;
            element.resize(size, 0);
            elements.extend_from_slice(&element);
            if fits {
                // If two labels are equal, the last wins, as with numcodecs.
                numbers.insert(element, number);
            }
        }
        Ok(Categorize { labels, decoded, encoded, elements, numbers })
    }
}

impl Codec for Categorize {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (stored, size) = (self.encoded.size(), self.decoded.size());
        if !src.len().is_multiple_of(stored) {
            let why = format!(
                "expected a whole number of elements of type {}, found {} bytes",
                self.encoded,
                src.len()
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        let len =
            (src.len() / stored).checked_mul(size).ok_or(CodecError::size(NAME, usize::MAX, usize::MAX))?;
        for (to, from) in front(NAME, dst, len)?.chunks_exact_mut(size).zip(src.chunks_exact(stored)) {
            let at =
                usize::try_from(number(self.encoded, from)).ok().and_then(|number| number.checked_mul(size));
            let element = at.and_then(|at| self.elements.get(at..)?.get(..size));
            match element {
                Some(element) => to.copy_from_slice(element),
                None => to.fill(0),
            }
        }
        Ok(len)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let size = self.decoded.size();
        if !src.len().is_multiple_of(size) {
            let why = format!(
                "expected a whole number of elements of type {}, found {} bytes",
                self.decoded,
                src.len()
            );
            return Err(CodecError::encode(NAME, why));
        }
        let len = self.max_encoded(src.len());
        dst.truncate(len);
        let stored = resize_buffer(dst, len, NAME)?.chunks_exact_mut(self.encoded.size());
        for (to, element) in stored.zip(src.chunks_exact(size)) {
            let Some(number) = self.numbers.get(element) else {
                let chars = element.as_chunks().0.iter().map(|bytes| match self.decoded.order() {
                    ByteOrder::Little => u32::from_le_bytes(*bytes),
                    ByteOrder::Big => u32::from_be_bytes(*bytes),
                });
                let text: String =
                    chars.take_while(|char| *char != 0).take(100).filter_map(char::from_u32).collect();
                return Err(CodecError::encode(NAME, format!("expected one of the labels, found {text:?}")));
            };
            put_number(*number, self.encoded, to);
        }
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        (decoded / self.decoded.size().max(1)).saturating_mul(self.encoded.size())
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({
            "id": NAME,
            "labels": self.labels,
            "dtype": self.decoded.numpy(),
            "astype": self.encoded.numpy(),
        }))
    }
}

impl ArrayToArray for Categorize {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        let mut fill = Vec::new();
        if self.encode(&array.fill, &mut fill, &mut Scratch::default()).is_err() {
            fill = vec![0; self.encoded.size()];
        }
        Context { dtype: self.encoded, fill: fill.into(), ..array.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decode, encode, withstands_damage};

    fn codec(dtype: &str, settings: Value) -> Result<Categorize> {
        let mut object = json!({"id": NAME});
        object.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        Categorize::new(Config::V2(&object), &Context::of_elements(dtype.parse().unwrap()))
    }

    fn text(words: &[&str], big: bool) -> Vec<u8> {
        let char = |c: u32| if big { c.to_be_bytes() } else { c.to_le_bytes() };
        let word = |word: &&str| {
            let mut chars: Vec<u32> = word.chars().map(u32::from).collect();
            chars.resize(3, 0);
            chars.into_iter().flat_map(char).collect::<Vec<u8>>()
        };
        words.iter().flat_map(word).collect()
    }

    #[test]
    fn labels_are_numbers() {
        for (dtype, astype, big) in [("<U3", "|u1", false), (">U3", "<i2", true), ("<U3", ">u4", false)] {
            let codec =
                codec(dtype, json!({"labels": ["ab", "\u{df}", "ab", "long"], "astype": astype})).unwrap();
            let words = text(&["", "ab", "\u{df}", "ab"], big);
            let stored = encode(&codec, &words);
            let numbers: Vec<u64> =
                stored.chunks(codec.encoded.size()).map(|n| number(codec.encoded, n)).collect();
            assert_eq!(numbers, [0, 3, 2, 3]);
            assert_eq!(decode(&codec, &stored, words.len()).unwrap(), words);
            let error = codec.encode(&text(&["abc"], big), &mut Vec::new(), &mut Scratch::default());
            assert!(error.unwrap_err().to_string().contains("expected one of the labels, found \"abc\""));
            withstands_damage(&codec, &stored, words.len());
        }
        let codec = codec("<U3", json!({"labels": ["a", "long"]})).unwrap();
        assert_eq!(decode(&codec, &[1, 2, 3, 255], 48).unwrap(), text(&["a", "lon", "", ""], false));
    }

    #[test]
    fn refused() {
        for (dtype, settings) in [
            ("|S3", json!({"labels": ["a"]})),
            ("<i4", json!({"labels": ["a"]})),
            ("<U3", json!({"labels": ["a"], "dtype": "<U4"})),
            ("<U3", json!({"labels": ["a"], "dtype": "|O"})),
            ("<U3", json!({"labels": ["a"], "astype": "<f4"})),
            ("<U3", json!({"labels": vec!["a"; 256]})),
            ("<U3", json!({"labels": vec!["a"; 128], "astype": "|i1"})),
            ("<U3", json!({"labels": [1]})),
            ("<U3", json!({"labels": ["a"], "x": 1})),
            ("<U3", json!({})),
        ] {
            assert!(codec(dtype, settings.clone()).is_err(), "{dtype} {settings}");
        }
        assert!(codec("<U3", json!({"labels": vec!["a"; 255]})).is_ok());
        let codec = codec("<U3", json!({"labels": ["a"], "astype": "<u2"})).unwrap();
        assert!(matches!(decode(&codec, &[1, 0, 1], 24), Err(CodecError::Corrupt { .. })));
        assert!(matches!(decode(&codec, &[1, 0], 11), Err(CodecError::Size { .. })));
    }
}
