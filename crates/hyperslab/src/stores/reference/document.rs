//! JSON documents of references, in versions 0 and 1.
//!
//! The format is [kerchunk's](https://fsspec.github.io/kerchunk/spec.html).
//!
//! ```json
//! {"version": 1,
//!  "templates": {"u": "s3://bucket/ocean.nc"},
//!  "gen": [{"key": "sst/{{i}}.0", "url": "{{u}}", "offset": "{{i * 1000}}", "length": "1000",
//!           "dimensions": {"i": {"stop": 5}}}],
//!  "refs": {".zgroup": "{\"zarr_format\": 2}", "sst/5.0": ["{{u}}", 5000, 1000],
//!           "sst/6.0": ["s3://bucket/whole"], "sst/7.0": "base64:AAEC"}}
//! ```
//!
//! Version 0 is just the contents of `refs`. The parser does not build a tree of the document,
//! because documents often have millions of references.

use super::generate::{Generator, generate};
use super::refs::{Builder, Refs};
use super::template::Scope;
use hyperslab_zarr as zarr;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The reason why a document yields no references.
#[derive(Debug)]
pub(super) enum Failure {
    /// The document is wrong.
    Wrong(String),
    /// The user asked to stop.
    Stopped,
}

/// Parses the references of a document. `None`: it is JSON, but has no references of Zarr.
pub(super) fn parse(text: &[u8]) -> Result<Option<Refs>, Failure> {
    let mut document = Document::default();
    let mut parser = serde_json::Deserializer::from_slice(text);
    let parsed = Members(|key: &str, value: &RawValue| document.member(key, value)).deserialize(&mut parser);
    let parsed = parsed.and_then(|()| parser.end()).map_err(|error| error.to_string());
    let parsed = parsed.and_then(|()| document.generate());
    match parsed {
        Err(_) if document.builders().any(Builder::is_stopped) => Err(Failure::Stopped),
        parsed => parsed.and_then(|()| document.finish()).map_err(Failure::Wrong),
    }
}

/// Text, borrowed from the document unless it has escapes.
#[derive(Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

/// Calls a function with each member of an object while parsing.
struct Members<F>(F);

impl<'de, F: FnMut(&str, &RawValue) -> Result<(), String>> DeserializeSeed<'de> for Members<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&str, &RawValue) -> Result<(), String>> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            (self.0)(&key, value).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The contents of a document before its version is known.
#[derive(Default)]
struct Document {
    version: Option<u64>,
    /// The contents of `refs`.
    refs: Option<Builder>,
    templates: BTreeMap<String, String>,
    generators: Vec<Generator>,
    /// The other members: the references of version 0.
    beside: Builder,
}

impl Document {
    fn member(&mut self, key: &str, value: &RawValue) -> Result<(), String> {
        let text = value.get();
        let within = |error: serde_json::Error| format!("in '{key}': {error}");
        match (key, text.as_bytes().first()) {
            ("version", Some(b'0'..=b'9')) => self.version = serde_json::from_str(text).ok(),
            ("refs", Some(b'{')) => {
                let refs = self.refs.insert(Builder::default());
                let members = Members(|key: &str, value: &RawValue| add(refs, key, value.get()));
                members.deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(within)?;
            }
            ("templates", Some(b'{')) => self.templates = serde_json::from_str(text).map_err(within)?,
            ("gen", Some(b'[')) => self.generators = serde_json::from_str(text).map_err(within)?,
            _ => add(&mut self.beside, key, text)?,
        }
        Ok(())
    }

    fn builders(&self) -> impl Iterator<Item = &Builder> {
        self.refs.iter().chain([&self.beside])
    }

    /// Applies templates and generators.
    fn generate(&mut self) -> Result<(), String> {
        if let (Some(version @ 2..), Some(_)) = (self.version, &self.refs) {
            return Err(format!("it is of version {version}; versions 0 and 1 are supported"));
        }
        if self.version == Some(1) && !self.generators.is_empty() {
            self.refs.get_or_insert_default();
        }
        let Some(refs) = &mut self.refs else { return Ok(()) };
        let scope = Scope::new(std::mem::take(&mut self.templates));
        if !scope.is_empty() {
            refs.change_urls(|url| if url.contains("{{") { scope.render(url) } else { Ok(url.to_owned()) })?;
        }
        generate(refs, &self.generators, &scope)
    }

    fn finish(self) -> Result<Option<Refs>, String> {
        Ok(match self.refs {
            Some(refs) => Some(refs.finish()),
            None if !self.beside.has_metadata() || self.version.is_some_and(|version| version > 1) => None,
            None => Some(self.beside.finish()),
        })
    }
}

/// Adds a reference given as JSON. If it is malformed, its readers get the error.
fn add(refs: &mut Builder, key: &str, json: &str) -> Result<(), String> {
    match json.as_bytes().first() {
        Some(b'"') => match serde_json::from_str(json) {
            Ok(Text(text)) => match text.strip_prefix("base64:") {
                Some(encoded) => match zarr::from_base64(encoded) {
                    Some(bytes) => refs.inline(key, &bytes),
                    None => refs.add_malformed(key, json, "what follows 'base64:' is not base 64"),
                },
                None => refs.inline(key, text.as_bytes()),
            },
            Err(error) => refs.add_malformed(key, json, &error.to_string()),
        },
        // Metadata as JSON instead of text.
        Some(b'{') => refs.inline(key, json.as_bytes()),
        Some(b'[') => match serde_json::from_str::<(Text<'_>, u64, u64)>(json) {
            Ok((Text(url), offset, len)) => refs.target(key, &url, Some((offset, len))),
            Err(_) => match serde_json::from_str::<(Text<'_>,)>(json) {
                Ok((Text(url),)) => refs.target(key, &url, None),
                Err(_) => refs.add_malformed(key, json, "expected [url] or [url, offset, length]"),
            },
        },
        _ => refs.add_malformed(key, json, "expected text, an object, [url] or [url, offset, length]"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::refs::Ref;
    use super::super::template::excerpt;
    use super::*;

    fn some(text: &str) -> Refs {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn version_0() {
        let refs = some(
            r#" {".zgroup": "{\"zarr_format\": 2}", "a/.zarray": {"shape": [1, 2]}, "a/0": ["x.nc", 10, 20],
                "a/1": ["y.nc"], "a/2": "base64:AAEC", "a\/3": "\u00e9", "version": ["z", 1, 2], "a/2": "last"} "#,
        );
        assert_eq!(refs.get(".zgroup"), Some(Ref::Inline(br#"{"zarr_format": 2}"#.into())));
        assert_eq!(refs.get("a/.zarray"), Some(Ref::Inline(br#"{"shape": [1, 2]}"#.into())));
        assert_eq!(refs.get("a/0"), Some(Ref::Part(0, 10, 20)));
        assert_eq!(refs.get("a/1"), Some(Ref::Whole(1)));
        assert_eq!(refs.get("a/2"), Some(Ref::Inline(b"last".into())));
        assert_eq!(refs.get("a/3"), Some(Ref::Inline("é".as_bytes().into())));
        assert_eq!(refs.get("version"), Some(Ref::Part(2, 1, 2)));
        assert_eq!((refs.url(0), refs.url(1)), ("x.nc", "y.nc"));
    }

    /// The example in kerchunk's specification.
    #[test]
    fn version_1() {
        let refs = some(
            r#"{
                "version": 1,
                "templates": {"u": "server.domain/path", "f": "{{c}}"},
                "gen": [{
                    "key": "gen_key{{i}}",
                    "url": "http://{{u}}_{{i}}",
                    "offset": "{{(i + 1) * 1000}}",
                    "length": "1000",
                    "dimensions": {"i": {"stop":  5}}
                }],
                "refs": {
                  "key0": "data",
                  "key1": ["http://target_url", 10000, 100],
                  "key2": ["http://{{u}}", 10000, 100],
                  "key3": ["http://{{f(c='text')}}", 10000, 100],
                  "key4": ["http://target_url"]
                }
            }"#,
        );
        let found = |key: &str| match refs.get(key).unwrap() {
            Ref::Inline(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Ref::Whole(target) => refs.url(target).to_owned(),
            Ref::Part(target, offset, len) => format!("{} {offset} {len}", refs.url(target)),
            Ref::Odd(odd) => format!("{odd:?}"),
        };
        assert_eq!(found("key0"), "data");
        assert_eq!(found("key1"), "http://target_url 10000 100");
        assert_eq!(found("key2"), "http://server.domain/path 10000 100");
        assert_eq!(found("key3"), "http://text 10000 100");
        assert_eq!(found("key4"), "http://target_url");
        assert_eq!(found("gen_key0"), "http://server.domain/path_0 1000 1000");
        assert_eq!(found("gen_key4"), "http://server.domain/path_4 5000 1000");
        assert_eq!(refs.beginning("").len(), 10);

        // Templates may come after their uses. Without templates, braces are plain text.
        let refs = some(r#"{"refs": {"a": ["{{u}}/x"]}, "templates": {"u": "b"}, "version": 1}"#);
        assert_eq!(refs.url(0), "b/x");
        assert_eq!(some(r#"{"version": 1, "refs": {"a": ["{{u}}/x"]}}"#).url(0), "{{u}}/x");
        assert_eq!(some(r#"{"version": 1, "refs": {}}"#).beginning("").len(), 0);
    }

    #[test]
    fn other_json() {
        for text in [
            "{}",
            r#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#,
            r#"{"type": "FeatureCollection", "features": [[[[1, 2]]]]}"#,
            r#"{"version": "1.2", "name": "a package"}"#,
            r#"{"version": 2, "assets": {}}"#,
            r#"{"version": 1, "gen": []}"#,
        ] {
            assert!(parse(text.as_bytes()).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn bad_documents() {
        let deep = format!(r#"{{"version": 1, "refs": {{"a": [{}"x"]}}}}"#, "[".repeat(200_000));
        for (text, why) in [
            ("", "EOF"),
            ("[]", "expected an object"),
            (r#"{"version": 1, "refs": {"a": "b"}"#, "EOF"),
            (r#"{"version": 1, "refs": {"a": "b"}} x"#, "trailing characters"),
            ("{\"\u{0}\": 1}", "control character"),
            (r#"{"version": 2, "refs": {}}"#, "version 2; versions 0 and 1"),
            (r#"{"version": 1, "templates": {"u": 1}, "refs": {}}"#, "in 'templates'"),
            (&deep, ""),
        ] {
            let Err(Failure::Wrong(error)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert!(error.contains(why) && error.len() < 500, "{}: {error}", excerpt(text));
        }
    }

    #[test]
    fn odd_references_do_not_hide_others() {
        for (value, why) in [
            ("5", "expected text"),
            ("null", "expected text"),
            ("true", "expected text"),
            ("[]", "expected [url] or [url, offset, length]"),
            (r#"["x", 1]"#, "expected [url]"),
            (r#"["x", -1, 1]"#, "expected [url]"),
            (r#"["x", 1.5, 1]"#, "expected [url]"),
            (r#"["x", null, null]"#, "expected [url]"),
            (r#"["x", 1, 18446744073709551616]"#, "expected [url]"),
            (r#"["x", 18446744073709551615, 1]"#, "more than 2⁶³ - 1"),
            (r#"["x", 1, 2, 3]"#, "expected [url]"),
            ("[1, 1, 2]", "expected [url]"),
            (r#""base64:é""#, "not base 64"),
            (r#""base64:AAE""#, "not base 64"),
            (r#"["{{v}}"]"#, "there is no 'v'"),
            (r#"["{{v}}", 1, 2]"#, "there is no 'v'"),
        ] {
            for document in [
                format!(
                    r#"{{"version": 1, "templates": {{"u": "x"}}, "refs": {{"a": {value}, "b": ["{{{{u}}}}"]}}}}"#
                ),
                format!(r#"{{".zgroup": "{{}}", "a": {value}, "b": ["x"]}}"#),
            ] {
                if document.contains("zgroup") && value.contains("{{") {
                    continue;
                }
                let refs = some(&document);
                let Some(Ref::Odd(odd)) = refs.get("a") else { panic!("{document}") };
                assert!(odd.why.contains(why) && !odd.text.is_empty(), "{document}: {odd:?}");
                let Some(Ref::Whole(target)) = refs.get("b") else { panic!("{document}") };
                assert_eq!(refs.url(target), "x");
                assert!(refs.beginning("").any(|key| key == "a"));
            }
        }
        // The last reference counts, even if it is malformed.
        assert_eq!(
            some(r#"{"version": 1, "refs": {"a": 5, "a": "b"}}"#).get("a"),
            Some(Ref::Inline(b"b".into()))
        );
        assert!(matches!(some(r#"{"version": 1, "refs": {"a": "b", "a": 5}}"#).get("a"), Some(Ref::Odd(_))));
        // A document without Zarr metadata is not a document of references.
        assert!(parse(br#"{".zgroup": 5, "a": "b"}"#).unwrap().is_none());
    }
}
