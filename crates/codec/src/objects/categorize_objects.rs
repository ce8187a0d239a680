//! `categorize` of numcodecs for text of any length: stores labels as numbers.
//!
//! For text of fixed length see [`crate::numcodecs::categorize`].
//!
//! ```json
//! {"id": "categorize", "labels": ["female", "male"], "dtype": "|O", "astype": "|u1"}
//! ```
//!
//! As there, the first label is 1. A stored 0, or any number without a label, is the empty text.
//! Text that is no label cannot be written, but the fill value can (zarr-python 2 uses 0 if none
//! was given): it is stored as 0, as numcodecs does. Otherwise no chunk that reaches past the end
//! of an array could be written.
//!
//! All cells of a label share its bytes: a chunk takes no more memory than the labels do.

use crate::numcodecs::categorize::{Fields, NAME, number, put_number};
use crate::objects::{Each, Objects, element_of};
use crate::registry::Config;
use crate::scratch::resize_buffer;
use crate::{CodecError, Context, DataType, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;

/// The form in which chunks are stored.
#[derive(Debug)]
pub(crate) struct Categories {
    labels: Vec<String>,
    encoded: DataType,
    /// The number of each label.
    numbers: HashMap<Vec<u8>, u64>,
    /// The empty text and all labels, one after another; `places` says where each is.
    text: String,
    places: Vec<Range<usize>>,
}

impl Categories {
    /// Reads metadata, for chunks like `array`.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields(NAME)?;
        let encoded = fields.encoded()?;
        if !matches!(fields.dtype.as_deref(), Some("|O" | "O" | "object")) {
            let why = format!("{NAME:?}: expected dtype \"|O\" as in the array, found {:?}", fields.dtype);
            return Err(CodecError::Unfit { why });
        }
        let mut numbers = HashMap::from([(Vec::new(), 0), (array.fill.to_vec(), 0)]);
        let (mut text, mut places) = (String::new(), vec![Range::default()]);
        for (label, number) in fields.labels.iter().zip(1..) {
            // If two labels are equal, the last wins, as with numcodecs.
            numbers.insert(label.as_bytes().to_vec(), number);
            places.push(text.len()..text.len() + label.len());
            text.push_str(label);
        }
        Ok(Categories { labels: fields.labels, encoded, numbers, text, places })
    }
}

impl Objects for Categories {
    fn name(&self) -> &'static str {
        NAME
    }

    fn most_values(&self, _: usize) -> usize {
        self.text.len()
    }

    fn split(&self, chunk: &[u8], values: &mut Vec<u8>, each: &mut Each<'_>) -> Result<(), String> {
        if !chunk.len().is_multiple_of(self.encoded.size()) {
            return Err(format!(
                "expected a whole number of elements of type {}, found {} bytes",
                self.encoded,
                chunk.len()
            ));
        }
        values.extend_from_slice(self.text.as_bytes());
        for stored in chunk.chunks_exact(self.encoded.size()) {
            let place =
                usize::try_from(number(self.encoded, stored)).ok().and_then(|number| self.places.get(number));
            let place = place.cloned().unwrap_or(0..0);
            let start = place.start;
            each(values.get(place).unwrap_or_default(), start)?;
        }
        Ok(())
    }

    fn join(&self, elements: &[&[u8]], chunk: &mut Vec<u8>) -> Result<(), String> {
        let size = self.encoded.size();
        let stored = resize_buffer(chunk, elements.len().saturating_mul(size), NAME)
            .map_err(|error| error.to_string())?
            .chunks_exact_mut(size);
        for (at, (to, element)) in stored.zip(elements).enumerate() {
            let number = self.numbers.get(*element).ok_or_else(|| {
                let text: String = String::from_utf8_lossy(element).chars().take(100).collect();
                element_of(at)(format!("expected one of the labels, found {text:?}"))
            })?;
            put_number(*number, self.encoded, to);
        }
        Ok(())
    }

    fn to_v2(&self) -> Value {
        json!({"id": NAME, "labels": self.labels, "dtype": "|O", "astype": self.encoded.numpy()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::testing::{decode, encode, vlen, withstands_damage};
    use crate::{Codec, Vlen, VlenKind};

    fn codec(settings: Value) -> Result<Vlen> {
        vlen(VlenKind::Text, NAME, settings, &[2, 2], b"")
    }

    #[test]
    fn labels_are_numbers() {
        for (astype, chunk) in [
            ("|u1", &[0, 3, 2, 3][..]),
            ("<i2", &[0, 0, 3, 0, 2, 0, 3, 0]),
            (">u2", &[0, 0, 0, 3, 0, 2, 0, 3]),
        ] {
            let codec = codec(json!({"labels": ["ab", "ß", "ab"], "dtype": "|O", "astype": astype})).unwrap();
            let words = [&b""[..], b"ab", "ß".as_bytes(), b"ab"];
            assert_eq!(encode(&codec, &words).unwrap(), chunk);
            assert_eq!(decode(&codec, chunk, 4).unwrap(), words);
            let error = encode(&codec, &[b"ab", b"c", b"", b""]).unwrap_err().to_string();
            assert!(
                error.contains("element 1 of the chunk: expected one of the labels, found \"c\""),
                "{error}"
            );
            withstands_damage(&codec, chunk, 4);
        }
        let filled =
            vlen(VlenKind::Text, NAME, json!({"labels": ["a"], "dtype": "|O"}), &[2, 2], b"0").unwrap();
        assert_eq!(encode(&filled, &[b"0", b"a", b"", b"0"]).unwrap(), [0, 1, 0, 0]);
        let one = codec(json!({"labels": ["a"], "dtype": "|O"})).unwrap();
        assert_eq!(decode(&one, &[1, 2, 0, 255], 4).unwrap(), [&b"a"[..], b"", b"", b""]);
        assert!(decode(&one, &[1, 1, 1, 1, 1], 4).is_err());
        assert_eq!(
            one.to_v2().unwrap(),
            json!({"id": NAME, "labels": ["a"], "dtype": "|O", "astype": "|u1"})
        );
        assert_eq!((one.name(), one.to_v3()), (NAME, None));
    }

    #[test]
    fn refused() {
        for settings in [
            json!({"labels": ["a"], "dtype": "<U4"}),
            json!({"labels": ["a"]}),
            json!({"labels": ["a"], "dtype": "|O", "astype": "<f4"}),
            json!({"labels": ["a"], "dtype": "|O", "astype": "|O"}),
            json!({"labels": vec!["a"; 256], "dtype": "|O"}),
            json!({"labels": [1], "dtype": "|O"}),
            json!({"labels": ["a"], "dtype": "|O", "x": 1}),
        ] {
            assert!(codec(settings.clone()).is_err(), "{settings}");
        }
    }
}
