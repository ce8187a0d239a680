//! The encodings of chunk keys in metadata.
//!
//! | encoding | array `a`, chunk (1, 20) | 0-dimensional |
//! |---|---|---|
//! | `default`, `/` | `a/c/1/20` | `a/c` |
//! | `default`, `.` | `a/c.1.20` | `a/c` |
//! | `v2`, `.` | `a/1.20` | `a/0` |
//! | `v2`, `/` | `a/1/20` | `a/0` |
//! | `suffix` `.tiff` | `a/c/1/20.tiff` | `a/c.tiff` |
//! | `prefix` `x/` | `a/x/c/1/20` | `a/x/c` |
//! | `fanout`, 11 children | `a/d0/1/d1/2/0/c` | `a/c` |
//! | `template` `{1:04}/{0}.png` | `a/0020/1.png` | refused |
//!
//! The last four are extensions
//! (<https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-key-encodings>):
//!
//! ```json
//! {"name": "suffix", "configuration": {"suffix": ".tiff", "base-encoding": {"name": "default"}}}
//! {"name": "prefix", "configuration": {"prefix": "x/", "base_encoding": "default"}}
//! {"name": "fanout", "configuration": {"max_children": 1001}}
//! {"name": "template", "configuration": {"template": "{0}/{*:04}.png", "separator": "_"}}
//! ```

use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use crate::keys::KeyPattern;
use crate::metadata::separator;
use hyperslab_array::Dims;

/// How the indices of a chunk become a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// v3's `default`: a `c`, then the indices.
    Default {
        /// `/` or `.`
        separator: char,
    },
    /// `v2`, used by v2 arrays: only the indices.
    V2 {
        /// `.` or `/`
        separator: char,
    },
    /// `suffix`: another encoding's key, then a text.
    Suffix {
        /// The text.
        suffix: String,
        /// The other encoding.
        base: Box<KeyEncoding>,
    },
    /// `prefix`: a text, then another encoding's key.
    Prefix {
        /// The text.
        prefix: String,
        /// The other encoding.
        base: Box<KeyEncoding>,
    },
    /// `fanout`: each index as a path of digits, so that no folder has more entries than this.
    Fanout {
        /// Entries of a folder, at least 4.
        max_children: u64,
    },
    /// `template`: a text with indices in braces.
    Template {
        /// The text.
        template: String,
        /// The text between the indices of `{*}`.
        separator: Option<String>,
    },
}

/// The field's name in all messages.
const FIELD: &str = "chunk_key_encoding";

/// The most encodings nested in each other.
const DEPTH: usize = 8;

/// The default of `max_children`.
const MAX_CHILDREN: u64 = 1001;

impl KeyEncoding {
    /// Parses metadata. The error is a text: the encoding is not valid or not known.
    pub fn from_json(json: &Json) -> Result<Self, String> {
        Self::parse(json, 0).map_err(Problem::text)
    }

    /// Like [`KeyEncoding::from_json`], but keeps the kind of problem. `depth` is the number of
    /// encodings around this one.
    pub(crate) fn parse(json: &Json, depth: usize) -> Result<Self, Problem> {
        if depth > DEPTH {
            return invalid!("{FIELD}: expected at most {DEPTH} nested encodings, found more");
        }
        // Early v3 writers put the separator beside the name.
        let mut moved = json.clone();
        let beside = moved.remove("separator");
        let encoding = Extension::parse(FIELD, &moved)?;
        let separated = |otherwise: char| match encoding.get("separator").or(beside.as_ref()) {
            Some(json) => separator("chunk_key_encoding: separator", json),
            None => Ok(otherwise),
        };
        let text = |member: &str| match encoding.require(member)? {
            Json::String(text) => Ok(text.clone()),
            other => unexpected_value(&format!("{FIELD}: {member}"), "text", other),
        };
        // The registered text of `suffix` has both spellings.
        let base = || match encoding.get("base-encoding").or(encoding.get("base_encoding")) {
            Some(json) => Self::parse(json, depth + 1).map(Box::new),
            None => Ok(Box::new(KeyEncoding::Default { separator: '/' })),
        };
        match encoding.name {
            "default" => {
                encoding.allow_only(&["separator"])?;
                Ok(KeyEncoding::Default { separator: separated('/')? })
            }
            "v2" => {
                encoding.allow_only(&["separator"])?;
                Ok(KeyEncoding::V2 { separator: separated('.')? })
            }
            "suffix" => {
                encoding.allow_only(&["suffix", "base-encoding", "base_encoding"])?;
                Ok(KeyEncoding::Suffix { suffix: text("suffix")?, base: base()? })
            }
            "zarrs.default_suffix" => {
                encoding.allow_only(&["suffix", "separator"])?;
                let base = Box::new(KeyEncoding::Default { separator: separated('/')? });
                Ok(KeyEncoding::Suffix { suffix: text("suffix")?, base })
            }
            "prefix" => {
                encoding.allow_only(&["prefix", "base-encoding", "base_encoding"])?;
                Ok(KeyEncoding::Prefix { prefix: text("prefix")?, base: base()? })
            }
            "fanout" => {
                encoding.allow_only(&["max_children"])?;
                let most = encoding.get("max_children");
                match most.map_or(Some(MAX_CHILDREN), Json::as_integer) {
                    Some(max_children @ 4..) => Ok(KeyEncoding::Fanout { max_children }),
                    _ => unexpected_value(
                        &format!("{FIELD}: max_children"),
                        "an integer greater than 3",
                        most.unwrap_or(&Json::Null),
                    ),
                }
            }
            "template" => {
                // The registered text calls the member `template`, its examples `format`.
                encoding.allow_only(&["template", "format", "separator"])?;
                let template = text(if encoding.get("format").is_some() { "format" } else { "template" })?;
                let separator = match encoding.get("separator").or(beside.as_ref()) {
                    None | Some(Json::Null) => None,
                    Some(Json::String(separator)) => Some(separator.clone()),
                    Some(other) => return unexpected_value(&format!("{FIELD}: separator"), "text", other),
                };
                Ok(KeyEncoding::Template { template, separator })
            }
            name => unsupported!(
                "chunk key encoding \"{name}\" is not supported (supported: default, v2, suffix, prefix, fanout, \
                 template)"
            ),
        }
    }

    /// The metadata.
    pub fn to_json(&self) -> Json {
        match self {
            KeyEncoding::Default { separator } => {
                Json::named("default", [("separator", Json::String((*separator).into()))])
            }
            KeyEncoding::V2 { separator } => {
                Json::named("v2", [("separator", Json::String((*separator).into()))])
            }
            // zarrs, which came first, reads only this spelling.
            KeyEncoding::Suffix { suffix, base } => {
                Json::named("suffix", [("suffix", suffix.as_str().into()), ("base-encoding", base.to_json())])
            }
            KeyEncoding::Prefix { prefix, base } => {
                Json::named("prefix", [("prefix", prefix.as_str().into()), ("base_encoding", base.to_json())])
            }
            KeyEncoding::Fanout { max_children } => {
                Json::named("fanout", [("max_children", (*max_children).into())])
            }
            KeyEncoding::Template { template, separator: None } => {
                Json::named("template", [("template", template.as_str().into())])
            }
            KeyEncoding::Template { template, separator: Some(separator) } => Json::named(
                "template",
                [("template", template.as_str().into()), ("separator", separator.as_str().into())],
            ),
        }
    }

    /// The key of a chunk, relative to the array.
    ///
    /// Fails, with a text, if this encoding does not fit the number of axes.
    pub fn key(&self, chunk: &[u64]) -> Result<String, String> {
        let mut key = String::new();
        KeyPattern::new(self.clone(), chunk.len()).map_err(Problem::text)?.write(chunk, &mut key);
        Ok(key)
    }

    /// The chunk of a key, relative to an array of `rank` axes, or `None` if no chunk has this key.
    ///
    /// Fails like [`KeyEncoding::key`].
    pub fn chunk(&self, key: &str, rank: usize) -> Result<Option<Dims>, String> {
        Ok(KeyPattern::new(self.clone(), rank).map_err(Problem::text)?.parse(key))
    }

    /// The most similar separator for v2 metadata: nested folders stay nested.
    pub fn v2_separator(&self) -> char {
        match self {
            KeyEncoding::Default { separator } | KeyEncoding::V2 { separator } => *separator,
            KeyEncoding::Suffix { base, .. } | KeyEncoding::Prefix { base, .. } => base.v2_separator(),
            KeyEncoding::Fanout { .. } => '/',
            KeyEncoding::Template { template, separator } => {
                let nested = template.contains('/') || separator.as_ref().is_some_and(|s| s.contains('/'));
                if nested { '/' } else { '.' }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn metadata_and_back() {
        for (text, written) in [
            (r#""default""#, r#"{"name": "default", "configuration": {"separator": "/"}}"#),
            (r#"{"name": "v2", "separator": "/"}"#, r#"{"name": "v2", "configuration": {"separator": "/"}}"#),
            (
                r#"{"name": "suffix", "configuration": {"suffix": ".a", "base_encoding": "v2"}}"#,
                r#"{"name": "suffix", "configuration": {"suffix": ".a", "base-encoding": {"name": "v2", "configuration": {"separator": "."}}}}"#,
            ),
            (
                r#"{"name": "zarrs.default_suffix", "configuration": {"suffix": ".a", "separator": "."}}"#,
                r#"{"name": "suffix", "configuration": {"suffix": ".a", "base-encoding": {"name": "default", "configuration": {"separator": "."}}}}"#,
            ),
            (
                r#"{"name": "prefix", "configuration": {"prefix": "x/", "base-encoding": {"name": "fanout"}}}"#,
                r#"{"name": "prefix", "configuration": {"prefix": "x/", "base_encoding": {"name": "fanout", "configuration": {"max_children": 1001}}}}"#,
            ),
            (
                r#"{"name": "template", "configuration": {"format": "{*}", "separator": "_"}}"#,
                r#"{"name": "template", "configuration": {"template": "{*}", "separator": "_"}}"#,
            ),
        ] {
            let encoding = KeyEncoding::from_json(&json(text)).unwrap();
            assert_eq!(encoding.to_json(), json(written), "{text}");
            assert_eq!(KeyEncoding::from_json(&encoding.to_json()).unwrap(), encoding);
        }
    }

    #[test]
    fn what_is_not_known_or_not_valid_is_refused() {
        let mut deep = r#""v2""#.to_owned();
        for _ in 0..9 {
            deep = format!(
                r#"{{"name": "suffix", "configuration": {{"suffix": "a", "base-encoding": {deep}}}}}"#
            );
        }
        for (text, part) in [
            (r#"{"name": "v4"}"#, "\"v4\" is not supported"),
            (r#"{"name": "suffix"}"#, "lacks suffix"),
            (r#"{"name": "suffix", "configuration": {"suffix": 1}}"#, "expected text"),
            (r#"{"name": "suffix", "configuration": {"suffix": "a", "more": 1}}"#, "more"),
            (r#"{"name": "suffix", "configuration": {"suffix": "a", "base-encoding": "b"}}"#, "\"b\""),
            (r#"{"name": "fanout", "configuration": {"max_children": 3}}"#, "greater than 3"),
            (r#"{"name": "fanout", "configuration": {"max_children": "9"}}"#, "greater than 3"),
            (r#"{"name": "template", "configuration": {}}"#, "lacks template"),
            (&deep, "nested encodings, found more"),
        ] {
            let why = KeyEncoding::from_json(&json(text)).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
