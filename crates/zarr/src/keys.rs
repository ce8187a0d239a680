//! Keys of chunks: indices ⇄ the names of objects.
//!
//! A [`KeyEncoding`] and the number of axes make a [`KeyPattern`]: texts and indices in the order
//! of every key. The encoding comes from metadata, so it is checked: no key leaves the array.

use crate::KeyEncoding;
use crate::error::{Problem, invalid};
use crate::path::join;
use hyperslab_array::{ChunkList, ChunkLocator, Dims, Found, LocateError, Location};
use hyperslab_store::{Key, StoreError};
use std::sync::Arc;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPart {
    Text(String),
    /// An index in decimal, padded with zeros to a width.
    Index {
        axis: usize,
        width: usize,
    },
    /// An index as a path of digits below `base`.
    Digits {
        axis: usize,
        base: u64,
    },
}

/// An encoding made for a number of axes: the parts of every key.
///
/// Two chunks never share a key, because the text between two indices contains a non-digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    encoding: KeyEncoding,
    rank: usize,
    parts: Vec<KeyPart>,
}

/// The most bytes of text in a pattern, and of zeros before an index. File names are shorter.
const LONGEST: usize = 1000;

/// Names that no chunk, and no folder of chunks, may have.
const METADATA: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

impl KeyPattern {
    /// Makes the pattern of an encoding for `rank` axes.
    ///
    /// Fails if the encoding does not fit `rank`, if it gives two chunks one key, or if keys would
    /// leave the array or hide its metadata.
    pub(crate) fn new(encoding: KeyEncoding, rank: usize) -> Result<Self, Problem> {
        let mut pattern = KeyPattern { parts: Vec::new(), encoding, rank };
        let mut parts = parts(&pattern.encoding, rank)?;
        // Join neighbouring texts.
        for part in parts.drain(..) {
            match (pattern.parts.last_mut(), part) {
                (_, KeyPart::Text(text)) if text.is_empty() => {}
                (Some(KeyPart::Text(before)), KeyPart::Text(text)) => before.push_str(&text),
                (_, part) => pattern.parts.push(part),
            }
        }
        pattern.check()?;
        Ok(pattern)
    }

    /// The encoding in metadata.
    pub(crate) fn encoding(&self) -> &KeyEncoding {
        &self.encoding
    }

    fn check(&self) -> Result<(), Problem> {
        let text = |part: &KeyPart| match part {
            KeyPart::Text(text) => text.len(),
            KeyPart::Index { width, .. } => *width,
            KeyPart::Digits { .. } => 0,
        };
        if self.parts.iter().map(text).fold(0usize, usize::saturating_add) > LONGEST {
            return invalid!(
                "chunk_key_encoding: expected at most {LONGEST} bytes of text around the indices, found more"
            );
        }
        let mut apart = true;
        for part in &self.parts {
            match part {
                KeyPart::Text(text) => apart |= text.bytes().any(|byte| !byte.is_ascii_digit()),
                KeyPart::Index { .. } | KeyPart::Digits { .. } if apart => apart = false,
                _ => {
                    return invalid!(
                        "chunk_key_encoding: expected text that is not only digits between two indices, so that \
                         no two chunks have one key"
                    );
                }
            }
        }
        let mut key = String::new();
        self.write(&vec![0; self.rank], &mut key);
        let refused = match Key::new(&key) {
            Err(StoreError::InvalidKey { why, .. }) => Some(why),
            Err(_) => Some("it is not a valid key"),
            Ok(_) if key.split('/').any(|name| METADATA.contains(&name)) => {
                Some("this is the name of metadata")
            }
            Ok(_) => None,
        };
        match refused {
            Some(why) => invalid!("chunk_key_encoding: the key of a chunk would be {key:?}: {why}"),
            None => Ok(()),
        }
    }

    /// Appends the key of a chunk, relative to the array. Only grows `key`, and allocates nothing
    /// else.
    pub(crate) fn write(&self, chunk: &[u64], key: &mut String) {
        // Nearly all arrays use one of these two encodings. Building the key from parts takes twice
        // as many instructions.
        match self.encoding {
            KeyEncoding::Default { separator } => {
                key.push('c');
                for index in chunk {
                    key.push(separator);
                    push_decimal(*index, key);
                }
            }
            KeyEncoding::V2 { separator } if !chunk.is_empty() => {
                for (axis, index) in chunk.iter().enumerate() {
                    if axis > 0 {
                        key.push(separator);
                    }
                    push_decimal(*index, key);
                }
            }
            _ => self.write_parts(chunk, key),
        }
    }

    fn write_parts(&self, chunk: &[u64], key: &mut String) {
        for part in &self.parts {
            let (axis, width, base) = match part {
                KeyPart::Text(text) => {
                    key.push_str(text);
                    continue;
                }
                KeyPart::Index { axis, width } => (*axis, *width, None),
                KeyPart::Digits { axis, base } => (*axis, 0, Some(*base)),
            };
            let Some(index) = chunk.get(axis).copied() else { continue };
            if width > 1 {
                let digits = index.checked_ilog10().unwrap_or(0) as usize + 1;
                key.extend(std::iter::repeat_n('0', width.saturating_sub(digits)));
            }
            match base {
                None => push_decimal(index, key),
                Some(base) => push_digits(index, base, key),
            }
        }
    }

    /// The chunk of a key relative to the array, or `None` if no chunk has this key.
    pub(crate) fn parse(&self, key: &str) -> Option<Dims> {
        let mut chunk = Dims::from_elem(0, self.rank);
        let mut rest = key;
        for (at, part) in self.parts.iter().enumerate() {
            let (axis, index) = match part {
                KeyPart::Text(text) => {
                    rest = rest.strip_prefix(text.as_str())?;
                    continue;
                }
                KeyPart::Index { axis, width } => {
                    // The digits at the start of the following text do not belong to the index.
                    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
                    let behind = match self.parts.get(at + 1) {
                        Some(KeyPart::Text(text)) => digits(text),
                        _ => 0,
                    };
                    let (number, behind) = rest.split_at_checked(digits(rest).checked_sub(behind)?)?;
                    rest = behind;
                    // Another spelling of the number is not this chunk's key.
                    if number.len() < *width || (number.len() > (*width).max(1) && number.starts_with('0')) {
                        return None;
                    }
                    (axis, number.parse().ok()?)
                }
                KeyPart::Digits { axis, base } => {
                    let (index, behind) = take_digits(rest, *base)?;
                    rest = behind;
                    (axis, index)
                }
            };
            *chunk.get_mut(*axis)? = index;
        }
        rest.is_empty().then_some(chunk)
    }

    /// The folder that contains all keys, relative to the array. Empty for the array itself.
    pub(crate) fn folder(&self) -> &str {
        match self.parts.first() {
            Some(KeyPart::Text(text)) if self.rank > 0 => {
                text.rsplit_once('/').map_or("", |(folder, _)| folder)
            }
            _ => "",
        }
    }

    /// Returns `true` if all keys are directly in the folder.
    pub(crate) fn is_flat(&self) -> bool {
        self.parts.iter().enumerate().all(|(at, part)| match part {
            KeyPart::Text(text) => at == 0 || !text.contains('/'),
            KeyPart::Index { .. } => true,
            KeyPart::Digits { .. } => false,
        })
    }

    /// Returns `true` if each level of folders below the folder is an axis.
    ///
    /// The levels are in the order of the axes, and their names are just the index.
    pub(crate) fn is_nested(&self) -> bool {
        matches!(self.encoding, KeyEncoding::Default { separator: '/' } | KeyEncoding::V2 { separator: '/' })
    }
}

/// The parts of the keys of an encoding.
fn parts(encoding: &KeyEncoding, rank: usize) -> Result<Vec<KeyPart>, Problem> {
    let index = |axis: usize| KeyPart::Index { axis, width: 0 };
    let text = |text: &str| KeyPart::Text(text.to_owned());
    Ok(match encoding {
        KeyEncoding::Default { separator } => {
            let axes = (0..rank).flat_map(|axis| [KeyPart::Text((*separator).into()), index(axis)]);
            std::iter::once(text("c")).chain(axes).collect()
        }
        KeyEncoding::V2 { .. } if rank == 0 => vec![text("0")],
        KeyEncoding::V2 { separator } => {
            let axes = (0..rank).flat_map(|axis| [KeyPart::Text((*separator).into()), index(axis)]);
            axes.skip(1).collect()
        }
        KeyEncoding::Suffix { suffix, base } => {
            let mut parts = parts(base, rank)?;
            parts.push(text(suffix));
            parts
        }
        KeyEncoding::Prefix { prefix, base } => {
            let mut all = vec![text(prefix)];
            all.extend(parts(base, rank)?);
            all
        }
        KeyEncoding::Fanout { .. } if rank == 0 => vec![text("c")],
        KeyEncoding::Fanout { max_children } => {
            let base = max_children.saturating_sub(1).max(2);
            let mut all = Vec::new();
            for axis in 0..rank {
                all.push(KeyPart::Text(format!("{}d{axis}/", if axis == 0 { "" } else { "/" })));
                all.push(KeyPart::Digits { axis, base });
            }
            all.push(text("/c"));
            all
        }
        KeyEncoding::Template { template, separator } => {
            template_parts(template, separator.as_deref(), rank)?
        }
    })
}

/// The parts of a template: text with `{0}`, `{-1}`, `{*}` or `{0:05}` in it.
///
/// `{{` and `}}` are braces.
fn template_parts(template: &str, separator: Option<&str>, rank: usize) -> Result<Vec<KeyPart>, Problem> {
    let refuse =
        |why: String| Err(Problem::Invalid(format!("chunk_key_encoding: template {template:?}: {why}")));
    if template.len() > LONGEST {
        return invalid!(
            "chunk_key_encoding: template: expected at most {LONGEST} bytes, found {}",
            template.len()
        );
    }
    let (mut parts, mut taken, mut rest_at) = (Vec::new(), vec![false; rank], None);
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, brace) = rest.split_at(at);
        parts.push(KeyPart::Text(text.to_owned()));
        if let Some(after) = brace.strip_prefix("{{").or(brace.strip_prefix("}}")) {
            parts.push(KeyPart::Text(brace.chars().take(1).collect()));
            rest = after;
            continue;
        }
        let Some((inside, after)) = brace.strip_prefix('{').and_then(|inside| inside.split_once('}')) else {
            return refuse("a brace has no partner; to use a brace as text, double it".into());
        };
        rest = after;
        let (name, width) = match inside.split_once(':') {
            None => (inside, Some(0)),
            Some((name, width)) => {
                let width = width.strip_prefix('0').filter(|width| !width.starts_with(['0', '+']));
                (name, width.and_then(|width| width.parse::<usize>().ok()))
            }
        };
        let Some(width) = width.filter(|width| *width <= LONGEST) else {
            return refuse(format!("{{{inside}}}: expected ':0' and a width of at most {LONGEST}"));
        };
        if name == "*" {
            if rest_at.replace((parts.len(), width)).is_some() {
                return refuse("'*' occurs more than once".into());
            }
            continue;
        }
        let axis = match name.strip_prefix('-').unwrap_or(name).parse::<usize>() {
            Ok(back) if name.starts_with('-') && back > 0 => rank.checked_sub(back),
            Ok(axis) if !name.starts_with(['-', '+']) => Some(axis),
            _ => return refuse(format!("{{{inside}}}: expected the number of an axis, or '*'")),
        };
        match axis.and_then(|axis| Some((axis, taken.get_mut(axis)?))) {
            None => return refuse(format!("{{{inside}}}: the array has {rank} axes")),
            Some((_, true)) => return refuse(format!("{{{inside}}}: this axis occurs more than once")),
            Some((axis, seen)) => {
                *seen = true;
                parts.push(KeyPart::Index { axis, width });
            }
        }
    }
    parts.push(KeyPart::Text(rest.to_owned()));
    let left = taken.iter().enumerate().filter(|(_, taken)| !**taken).map(|(axis, _)| axis);
    let left: Vec<usize> = left.collect();
    match rest_at {
        None if left.is_empty() && rank > 0 => {}
        None => return refuse(format!("expected each of the {rank} axes of the array, or '*'")),
        Some(_) if left.is_empty() => return refuse("no axis is left for '*'".into()),
        Some((at, width)) => {
            let Some(separator) = separator else {
                return refuse("'*' needs a separator".into());
            };
            let mut all = Vec::new();
            for (n, axis) in left.iter().enumerate() {
                if n > 0 {
                    all.push(KeyPart::Text(separator.to_owned()));
                }
                all.push(KeyPart::Index { axis: *axis, width });
            }
            parts.splice(at..at, all);
        }
    }
    Ok(parts)
}

/// Appends the digits of a number in another base, separated by slashes.
///
/// Each digit is in decimal, the most significant comes first.
fn push_digits(number: u64, base: u64, key: &mut String) {
    let mut unit = 1;
    while number / unit >= base {
        unit *= base;
    }
    loop {
        push_decimal(number / unit % base, key);
        if unit == 1 {
            break;
        }
        key.push('/');
        unit /= base;
    }
}

/// Reads a number written by [`push_digits`]. Returns it and the rest.
fn take_digits(key: &str, base: u64) -> Option<(u64, &str)> {
    let (mut number, mut rest, mut count) = (0u64, key, 0);
    loop {
        let (name, behind) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let digit: u64 = match name.bytes().all(|byte| byte.is_ascii_digit()) {
            true if name == "0" || !name.starts_with('0') => {
                name.parse().ok().filter(|digit| *digit < base)?
            }
            _ => return None,
        };
        // If there are several digits, the first is not zero.
        if count == 1 && number == 0 {
            return None;
        }
        (number, count) = (number.checked_mul(base)?.checked_add(digit)?, count + 1);
        match behind.strip_prefix('/') {
            Some(next) if next.starts_with(|c: char| c.is_ascii_digit()) => rest = next,
            _ => return Some((number, behind)),
        }
    }
}

fn push_decimal(number: u64, text: &mut String) {
    let mut digits = [0u8; 20];
    let mut rest = number;
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        first = at;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = digits.get(first..).and_then(|digits| std::str::from_utf8(digits).ok());
    text.push_str(digits.unwrap_or_default());
}

/// Finds the chunks of a Zarr array, each in its own object.
#[derive(Debug)]
pub(crate) struct ChunkKeys {
    /// The array's path and a slash; empty for the root.
    prefix: String,
    /// The folder that contains all chunks.
    folder: String,
    pattern: Arc<KeyPattern>,
}

impl ChunkKeys {
    pub(crate) fn new(path: &str, pattern: Arc<KeyPattern>) -> Self {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        ChunkKeys { prefix, folder: join(path, pattern.folder()), pattern }
    }
}

impl ChunkLocator for ChunkKeys {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            found.object(|key| {
                key.push_str(&self.prefix);
                self.pattern.write(chunk, key);
            });
            found.chunk(Location::Object);
        }
        Ok(())
    }

    fn folder(&self) -> Option<&str> {
        Some(&self.folder)
    }

    fn chunks_of(&self, keys: &mut dyn Iterator<Item = &str>) -> Option<Vec<Dims>> {
        Some(keys.filter_map(|key| self.pattern.parse(key.strip_prefix(&self.prefix)?)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;
    use proptest::prelude::*;

    fn pattern(encoding: &str, rank: usize) -> KeyPattern {
        KeyPattern::new(KeyEncoding::from_json(&json(encoding)).unwrap(), rank).unwrap()
    }

    /// Encodings that fit any number of axes.
    const ENCODINGS: [&str; 9] = [
        r#"{"name": "default", "separator": "/"}"#,
        r#"{"name": "default", "separator": "."}"#,
        r#"{"name": "v2", "separator": "."}"#,
        r#"{"name": "v2", "separator": "/"}"#,
        r#"{"name": "suffix", "configuration": {"suffix": ".tiff", "base-encoding": "default"}}"#,
        r#"{"name": "suffix", "configuration": {"suffix": "7", "base-encoding": "v2"}}"#,
        r#"{"name": "prefix", "configuration": {"prefix": "x/9", "base_encoding": "v2"}}"#,
        r#"{"name": "fanout", "configuration": {"max_children": 101}}"#,
        r#"{"name": "suffix", "configuration": {"suffix": ".x", "base-encoding": {"name": "fanout", "configuration": {"max_children": 4}}}}"#,
    ];
    const TEMPLATES: [&str; 4] = [
        r#"{"name": "template", "configuration": {"template": "{*}", "separator": "/"}}"#,
        r#"{"name": "template", "configuration": {"template": "a{{1}}{-1:03}1_{*:02}3", "separator": "2-2"}}"#,
        r#"{"name": "template", "configuration": {"template": "é/{*:012}.{0}.png", "separator": "."}}"#,
        r#"{"name": "template", "configuration": {"format": "{2:05}/{0}_{1}"}}"#,
    ];

    fn key(pattern: &KeyPattern, chunk: &[u64]) -> String {
        let (mut key, mut parts) = (String::new(), String::new());
        pattern.write(chunk, &mut key);
        pattern.write_parts(chunk, &mut parts);
        assert_eq!(key, parts);
        key
    }

    #[test]
    fn known_keys() {
        for (encoding, keys) in ENCODINGS.into_iter().zip([
            ["c", "c/7", "c/1/20", "c/18446744073709551615/0"],
            ["c", "c.7", "c.1.20", "c.18446744073709551615.0"],
            ["0", "7", "1.20", "18446744073709551615.0"],
            ["0", "7", "1/20", "18446744073709551615/0"],
            ["c.tiff", "c/7.tiff", "c/1/20.tiff", "c/18446744073709551615/0.tiff"],
            ["07", "77", "1.207", "18446744073709551615.07"],
            ["x/90", "x/97", "x/91.20", "x/918446744073709551615.0"],
            ["c", "d0/7/c", "d0/1/d1/20/c", "d0/18/44/67/44/7/37/9/55/16/15/d1/0/c"],
        ]) {
            for (chunk, expected) in [&[][..], &[7], &[1, 20], &[u64::MAX, 0]].into_iter().zip(keys) {
                assert_eq!(key(&pattern(encoding, chunk.len()), chunk), expected);
            }
        }
        // The specification's examples.
        assert_eq!(key(&pattern(ENCODINGS[7], 3), &[1234, 5, 67890]), "d0/12/34/d1/5/d2/6/78/90/c");
        for (template, separator, chunk, expected) in [
            ("c/{*}", "/", [11, 22, 33], "c/11/22/33"),
            ("{*}", ".", [11, 22, 33], "11.22.33"),
            ("prefix/{*}", "/", [11, 22, 33], "prefix/11/22/33"),
            ("{*}.suffix", "_", [11, 22, 33], "11_22_33.suffix"),
            ("{2}/{0}/{1}", ".", [11, 22, 33], "33/11/22"),
            ("{-1}/{*}", "/", [11, 22, 33], "33/11/22"),
            ("{*:04}", "/", [11, 22, 33], "0011/0022/0033"),
            ("{*:02}", "/", [111, 2, 33], "111/02/33"),
        ] {
            let (template, separator) = (template.to_owned(), Some(separator.to_owned()));
            let pattern = KeyPattern::new(KeyEncoding::Template { template, separator }, 3).unwrap();
            assert_eq!(key(&pattern, &chunk), expected);
        }
        let mut found = Found::default();
        let keys = |path, encoding, rank| ChunkKeys::new(path, Arc::new(pattern(encoding, rank)));
        keys("a/b", ENCODINGS[0], 1).locate(ChunkList::one(&[3]), &mut found).unwrap();
        keys("", ENCODINGS[2], 2).locate(ChunkList::one(&[3, 4]), &mut found).unwrap();
        assert_eq!(found.get(0), Some(("a/b/c/3", Location::Object)));
        assert_eq!(found.get(1), Some(("3.4", Location::Object)));
        let listed = ["a/b/c/3", "a/b/zarr.json", "b/c/3", "a/b/c/03", "a/b/c/17"];
        let chunks = keys("a/b", ENCODINGS[0], 1).chunks_of(&mut listed.into_iter()).unwrap();
        assert_eq!(chunks, [Dims::from_slice(&[3]), Dims::from_slice(&[17])]);
        for (encoding, folder) in ENCODINGS.into_iter().zip(["a/c", "a", "a", "a", "a/c", "a", "a/x", "a/d0"])
        {
            assert_eq!(keys("a", encoding, 2).folder(), Some(folder));
        }
    }

    #[test]
    fn other_objects_are_no_chunks() {
        for encoding in ENCODINGS {
            let pattern = pattern(encoding, 2);
            // The first text is empty.
            for other in " zarr.json .zarray c c/ c/1 1 1. 1/ c.01.2 01.2 1.2.3 1/2/3 c/1/2/3 +1.2 1.-2 d/1/2 1.18446744073709551616 c/1.2 c.1/2 \
                c/1/02.tiff c/1/2.tif c/1/2.tiff/3 .7 1.7 x/1.2 x/9.2 d0/1/c d0/0/1/d1/2/c d0/1/d1/100/c d0/1/d1//c d0/1/d1/2/c/ d0/1/d1/2/3"
                .split_whitespace()
                .chain([""])
            {
                let expected = if other == "1.7" { None } else { pattern.parse(other) };
                assert_eq!(expected, None, "{encoding} {other}");
            }
        }
    }

    #[test]
    fn keys_that_would_leave_the_array_or_not_be_told_apart_are_refused() {
        let suffix = |suffix: &str| KeyEncoding::Suffix {
            suffix: suffix.to_owned(),
            base: Box::new(KeyEncoding::Default { separator: '/' }),
        };
        let prefix = |prefix: &str| KeyEncoding::Prefix {
            prefix: prefix.to_owned(),
            base: Box::new(KeyEncoding::V2 { separator: '.' }),
        };
        let template = |template: &str, separator: Option<&str>| KeyEncoding::Template {
            template: template.to_owned(),
            separator: separator.map(str::to_owned),
        };
        let long = "x".repeat(LONGEST + 1);
        for (encoding, part) in [
            (suffix("/../x"), "component"),
            (suffix("/"), "component"),
            (suffix("//x"), "component"),
            (suffix("/zarr.json"), "metadata"),
            (suffix("\0"), "NUL"),
            (suffix("\\"), "backslash"),
            (suffix(&long), "at most"),
            (prefix("/x"), "component"),
            (prefix("../"), "component"),
            (prefix(".zarray/"), "metadata"),
            (template("{0}{1}", None), "between two indices"),
            (template("{0:04}12{1:04}", None), "between two indices"),
            (template("{*}", Some("1")), "between two indices"),
            (template("{*}", None), "separator"),
            (template("{0}", None), "expected each"),
            (template("{0}.{0}", None), "more than once"),
            (template("{0}.{-2}", None), "more than once"),
            (template("{*}.{*}", Some("/")), "more than once"),
            (template("{0}.{1}.{*}", Some("/")), "no axis is left"),
            (template("{0}.{2}", None), "2 axes"),
            (template("{0}.{-3}", None), "2 axes"),
            (template("{0}.{+1}", None), "number of an axis"),
            (template("{0}.{-0}", None), "number of an axis"),
            (template("{0}.{1:4}", None), "width"),
            (template("{0}.{1:0}", None), "width"),
            (template("{0}.{1:0999999}", None), "width"),
            (template("{0}.{1", None), "partner"),
            (template("{0}.1}", None), "partner"),
            (template("x/../{*}", Some(".")), "component"),
            (template(&long, None), "at most"),
        ] {
            let why = KeyPattern::new(encoding.clone(), 2).unwrap_err().text();
            assert!(why.contains(part), "{encoding:?}: {why}");
        }
        assert!(KeyPattern::new(template("a", None), 0).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(chunk in proptest::collection::vec(any::<u64>().prop_map(|n| n >> (n % 64)), 0..5), which in 0..9usize) {
            let pattern = pattern(ENCODINGS[which], chunk.len());
            let key = key(&pattern, &chunk);
            prop_assert!(key.starts_with(pattern.folder()));
            prop_assert_eq!(pattern.parse(&key).map(|c| c.to_vec()), Some(chunk));
        }

        #[test]
        fn round_trip_of_templates(chunk in proptest::collection::vec(any::<u64>().prop_map(|n| n >> (n % 64)), 3), which in 0..4usize) {
            let pattern = pattern(TEMPLATES[which], 3);
            let key = key(&pattern, &chunk);
            prop_assert!(key.starts_with(pattern.folder()));
            prop_assert_eq!(pattern.parse(&key).map(|c| c.to_vec()), Some(chunk));
        }

        /// A text that parses as a chunk's key is exactly the key written for that chunk.
        #[test]
        fn one_key_to_a_chunk(text in "[cd0-9./x]{1,12}", which in 0..9usize) {
            let pattern = pattern(ENCODINGS[which], 2);
            if let Some(chunk) = pattern.parse(&text) {
                prop_assert_eq!(key(&pattern, &chunk), text);
            }
        }
    }
}
