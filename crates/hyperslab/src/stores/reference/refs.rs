//! The references of a document in little memory: about 50 bytes each, plus the keys.
//!
//! All keys are in one text, one after the other, and so are the bytes from the document. Each URL
//! is stored once. Entries are sorted by key, so the keys with a prefix form a range.

use super::template::excerpt;
use hyperslab_store::{Key, waiting};
use hyperslab_zarr as zarr;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// The meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ref<'r> {
    /// These bytes.
    Inline(Cow<'r, [u8]>),
    /// All of the object with this number.
    Whole(u32),
    /// Offset and length in the object with this number. Their sum is less than 2⁶³.
    Part(u32, u64, u64),
    /// A malformed reference.
    Odd(Odd<'r>),
}

/// A reference that names no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Odd<'r> {
    /// The text in place of a reference.
    pub(super) text: Cow<'r, str>,
    /// The reason why the text is not a reference.
    pub(super) why: Cow<'r, str>,
}

/// As a target: the bytes are in the document.
const INLINE: u32 = u32::MAX;

/// As a target: the reference is malformed.
/// Its text and the reason are among the bytes of the document, separated by a NUL.
const ODD: u32 = u32::MAX - 1;

/// As a length: the whole target.
const WHOLE: u64 = u64::MAX;

/// A range of a text or of bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: u32,
}

impl Span {
    fn range(self) -> Range<usize> {
        self.start..self.start.saturating_add(self.len as usize)
    }
}

#[derive(Clone, Copy, Debug)]
struct KeyReference {
    key: Span,
    target: u32,
    offset: u64,
    len: u64,
}

/// References by key.
#[derive(Debug, Default)]
pub(super) struct Refs {
    keys: String,
    urls: String,
    inline: Vec<u8>,
    targets: Vec<Span>,
    entries: Vec<KeyReference>,
}

impl Refs {
    fn key_of(&self, entry: &KeyReference) -> &str {
        self.keys.get(entry.key.range()).unwrap_or_default()
    }

    fn inline_bytes(&self, start: u64, len: u64) -> &[u8] {
        let (start, len) = (start as usize, len as usize);
        self.inline.get(start..start.saturating_add(len)).unwrap_or_default()
    }

    fn value_of(&self, entry: &KeyReference) -> Ref<'_> {
        match (entry.target, entry.len) {
            (INLINE, len) => Ref::Inline(Cow::Borrowed(self.inline_bytes(entry.offset, len))),
            (ODD, len) => {
                let written = std::str::from_utf8(self.inline_bytes(entry.offset, len)).unwrap_or_default();
                let (text, why) = written.split_once('\0').unwrap_or((written, ""));
                Ref::Odd(Odd { text: text.into(), why: why.into() })
            }
            (target, WHOLE) => Ref::Whole(target),
            (target, len) => Ref::Part(target, entry.offset, len),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Ref<'_>> {
        let at = self.entries.binary_search_by(|entry| self.key_of(entry).cmp(key)).ok()?;
        self.entries.get(at).map(|entry| self.value_of(entry))
    }

    /// The URL of a target, as written.
    pub(super) fn url(&self, target: u32) -> &str {
        let span = self.targets.get(target as usize);
        span.and_then(|span| self.urls.get(span.range())).unwrap_or_default()
    }

    /// The number of targets. Targets are numbered from 0.
    pub(super) fn targets(&self) -> u32 {
        self.targets.len() as u32
    }

    /// The keys that begin with `start`, sorted.
    pub(super) fn beginning(&self, start: &str) -> impl ExactSizeIterator<Item = &str> + use<'_> {
        let first = self.entries.partition_point(|entry| self.key_of(entry) < start);
        let rest = self.entries.get(first..).unwrap_or_default();
        let count = rest.partition_point(|entry| self.key_of(entry).starts_with(start));
        rest.get(..count).unwrap_or_default().iter().map(|entry| self.key_of(entry))
    }

    /// Adds the chunks of scalars whose keys end with a slash.
    /// VirtualiZarr calls the chunk of `s` `s/` instead of `s/0`. Below anything but a scalar, no
    /// store has such a key.
    fn add_scalars(&mut self, mut scalars: Vec<KeyReference>) {
        scalars.retain(|entry| match self.get(&format!("{}/.zarray", self.key_of(entry))) {
            Some(Ref::Inline(text)) => zarr::Json::parse(&text).is_ok_and(|array| {
                array.get("shape").and_then(zarr::Json::as_array).is_some_and(<[_]>::is_empty)
            }),
            _ => false,
        });
        if scalars.is_empty() {
            return;
        }
        // An explicit `s/0` counts before all others, then the last one.
        for mut entry in scalars.into_iter().rev() {
            let name = format!("{}/0", self.key_of(&entry));
            let Ok(len) = short(&name) else { continue };
            entry.key = Span { start: self.keys.len(), len };
            self.keys.push_str(&name);
            self.entries.push(entry);
        }
        let mut entries = std::mem::take(&mut self.entries);
        let ordered = |a: &KeyReference, b: &KeyReference| self.key_of(a).cmp(self.key_of(b));
        entries.sort_by(ordered);
        entries.dedup_by(|later, kept| ordered(later, kept).is_eq());
        self.entries = entries;
    }

    /// Bytes of memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.keys.capacity()
            + self.urls.capacity()
            + self.inline.capacity()
            + self.targets.capacity() * size_of::<Span>()
            + self.entries.capacity() * size_of::<KeyReference>()
    }
}

/// Collects references.
#[derive(Debug, Default)]
pub(super) struct Builder {
    refs: Refs,
    /// Targets by URL.
    numbers: HashMap<Box<str>, u32>,
    /// Entries whose keys end with a slash. The keys here have no slash.
    scalars: Vec<KeyReference>,
    /// `true`: the user asked to stop.
    stopped: bool,
}

/// Number of references between two checks for a stop: about 20 ms.
const ASK: usize = 1 << 14;

impl Builder {
    /// Adds bytes under a key.
    pub(super) fn inline(&mut self, key: &str, bytes: &[u8]) -> Result<(), String> {
        let start = self.refs.inline.len() as u64;
        self.refs.inline.extend_from_slice(bytes);
        self.put(key, INLINE, start, bytes.len() as u64)
    }

    /// Adds malformed text under a key, with the reason. Readers of the key get the error.
    pub(super) fn add_malformed(&mut self, key: &str, text: &str, why: &str) -> Result<(), String> {
        let (start, len) = self.store_malformed(text, why);
        self.put(key, ODD, start, len)
    }

    /// Stores the text and the reason of a malformed reference.
    fn store_malformed(&mut self, text: &str, why: &str) -> (u64, u64) {
        let start = self.refs.inline.len();
        for part in [excerpt(text), "\0", why] {
            self.refs.inline.extend_from_slice(part.as_bytes());
        }
        (start as u64, (self.refs.inline.len() - start) as u64)
    }

    /// Adds an object, or a range of it, under a key. `text` is the object's URL.
    pub(super) fn target(&mut self, key: &str, text: &str, range: Option<(u64, u64)>) -> Result<(), String> {
        if let Some((offset, len)) = range
            && offset.checked_add(len).is_none_or(|end| end >> 63 != 0)
        {
            let why = "its offset and length are together more than 2⁶³ - 1";
            return self.add_malformed(key, &format!("{len} bytes at {offset}"), why);
        }
        let target = self.number(text)?;
        let (offset, len) = range.unwrap_or((0, WHOLE));
        self.put(key, target, offset, len)
    }

    fn number(&mut self, text: &str) -> Result<u32, String> {
        // Chunks of one file usually follow each other.
        if let Some(last) = self.refs.targets().checked_sub(1)
            && self.refs.url(last) == text
        {
            return Ok(last);
        }
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        let number = self.refs.targets();
        if number == ODD - 1 {
            return Err("there are too many different URLs".into());
        }
        self.refs.targets.push(Span { start: self.refs.urls.len(), len: short(text)? });
        self.refs.urls.push_str(text);
        self.numbers.insert(text.into(), number);
        Ok(number)
    }

    fn put(&mut self, key: &str, target: u32, offset: u64, len: u64) -> Result<(), String> {
        if self.refs.entries.len() % ASK == ASK - 1 && waiting::is_over() {
            self.stopped = true;
            return Err("stopped".into());
        }
        let (name, is_scalar) = key.strip_suffix('/').map_or((key, false), |name| (name, true));
        // Skip invalid keys: no caller can ask for them.
        if Key::new(name).is_err() {
            return Ok(());
        }
        let span = Span { start: self.refs.keys.len(), len: short(name)? };
        self.refs.keys.push_str(name);
        let entries = if is_scalar { &mut self.scalars } else { &mut self.refs.entries };
        entries.push(KeyReference { key: span, target, offset, len });
        Ok(())
    }

    /// Returns `true` if the user asked to stop. An error was returned then.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns `true` if any key is Zarr metadata.
    pub(super) fn has_metadata(&self) -> bool {
        let name = |entry| {
            let key: &str = self.refs.key_of(entry);
            key.rsplit_once('/').map_or(key, |(_, name)| name)
        };
        let known = |name| matches!(name, ".zgroup" | ".zarray" | "zarr.json" | ".zmetadata");
        self.refs.entries.iter().any(|entry| entry.target != ODD && known(name(entry)))
    }

    /// Replaces the URL of each target by the result of `change`.
    /// If `change` fails, the references to the target become malformed.
    pub(super) fn change_urls(
        &mut self,
        mut change: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        let old = std::mem::take(&mut self.refs.urls);
        let mut odd: HashMap<u32, (u64, u64)> = HashMap::new();
        for number in 0..self.refs.targets() {
            let Some(span) = self.refs.targets.get(number as usize) else { break };
            let url = old.get(span.range()).unwrap_or_default();
            let new = match change(url) {
                Ok(new) => new,
                Err(why) => {
                    odd.insert(number, self.store_malformed(url, &why));
                    String::new()
                }
            };
            let new_span = Span { start: self.refs.urls.len(), len: short(&new)? };
            if let Some(span) = self.refs.targets.get_mut(number as usize) {
                *span = new_span;
            }
            self.refs.urls.push_str(&new);
        }
        self.numbers.clear();
        if !odd.is_empty() {
            for entry in self.refs.entries.iter_mut().chain(&mut self.scalars) {
                if let Some((start, len)) = odd.get(&entry.target) {
                    (entry.target, entry.offset, entry.len) = (ODD, *start, *len);
                }
            }
        }
        Ok(())
    }

    /// Returns the references. If a key occurs several times, the last one counts, as in Python.
    pub(super) fn finish(self) -> Refs {
        let mut refs = self.refs;
        let mut entries = std::mem::take(&mut refs.entries);
        let ordered = |a: &KeyReference, b: &KeyReference| refs.key_of(a).cmp(refs.key_of(b));
        entries.reverse();
        entries.sort_by(ordered);
        entries.dedup_by(|later, kept| ordered(later, kept).is_eq());
        refs.entries = entries;
        refs.add_scalars(self.scalars);
        let mut entries = std::mem::take(&mut refs.entries);
        entries.shrink_to_fit();
        refs.entries = entries;
        refs.keys.shrink_to_fit();
        refs.urls.shrink_to_fit();
        refs.inline.shrink_to_fit();
        refs.targets.shrink_to_fit();
        refs
    }
}

fn short(text: &str) -> Result<u32, String> {
    u32::try_from(text.len()).map_err(|_| "it is a text of more than 4 GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let mut builder = Builder::default();
        builder.target("b/1", "x", Some((5, 6))).unwrap();
        builder.inline("b!", b"abc").unwrap();
        builder.target("b/0", "y", None).unwrap();
        builder.target("b/1", "x", Some((7, 0))).unwrap();
        builder.inline("a", b"").unwrap();
        builder.target("c", "x", Some((0, u64::MAX >> 1))).unwrap();
        for (n, (offset, len)) in [(1, u64::MAX >> 1), (u64::MAX, 1), (0, u64::MAX)].into_iter().enumerate() {
            builder.target(&format!("d{n}"), "x", Some((offset, len))).unwrap();
        }
        for key in ["", "/", "./q", "../q", "a//b", "/a", "a\0"] {
            builder.inline(key, b"nobody asks").unwrap();
        }
        let refs = builder.finish();
        assert_eq!(refs.beginning("").collect::<Vec<_>>(), ["a", "b!", "b/0", "b/1", "c", "d0", "d1", "d2"]);
        for key in ["d0", "d1", "d2"] {
            let Some(Ref::Odd(odd)) = refs.get(key) else { panic!("{key}") };
            assert!(odd.text.contains("bytes at") && odd.why.contains("more than 2⁶³ - 1"), "{odd:?}");
        }
        assert_eq!(refs.beginning("b/").collect::<Vec<_>>(), ["b/0", "b/1"]);
        assert_eq!(refs.beginning("e").len(), 0);
        assert_eq!(refs.get("a"), Some(Ref::Inline(b"".into())));
        assert_eq!(refs.get("b!"), Some(Ref::Inline(b"abc".into())));
        assert_eq!(refs.get("b/0"), Some(Ref::Whole(1)));
        assert_eq!(refs.get("b/1"), Some(Ref::Part(0, 7, 0)));
        assert_eq!(refs.get("c"), Some(Ref::Part(0, 0, u64::MAX >> 1)));
        assert_eq!((refs.get("b"), refs.get("")), (None, None));
        assert_eq!((refs.url(0), refs.url(1), refs.url(2), refs.targets()), ("x", "y", "", 2));
    }

    #[test]
    fn keys_of_scalars() {
        let mut builder = Builder::default();
        for (name, shape) in [("s", "[]"), ("g/t", "[]"), ("both", "[]"), ("row", "[1]"), ("gone", "5")] {
            builder.inline(&format!("{name}/.zarray"), format!("{{\"shape\": {shape}}}").as_bytes()).unwrap();
            builder.inline(&format!("{name}/"), b"first").unwrap();
            builder.inline(&format!("{name}/"), name.as_bytes()).unwrap();
        }
        builder.inline("both/0", b"itself").unwrap();
        builder.inline("group/", b"").unwrap();
        let refs = builder.finish();
        let found = |key| match refs.get(key) {
            Some(Ref::Inline(bytes)) => String::from_utf8(bytes.into_owned()).unwrap(),
            other => format!("{other:?}"),
        };
        assert_eq!([found("s/0"), found("g/t/0"), found("both/0")], ["s", "g/t", "itself"]);
        assert_eq!([found("row/0"), found("gone/0"), found("group/0")], ["None", "None", "None"]);
        assert_eq!(refs.beginning("").len(), 5 + 3);
    }

    #[test]
    fn a_million_references_are_small() {
        let mut builder = Builder::default();
        for n in 0..1_000_000u64 {
            let url = format!("s3://bucket/directory/file-{:04}.nc", n / 1000);
            builder.target(&format!("temperature/{}.{}", n / 1000, n % 1000), &url, Some((n, 100))).unwrap();
        }
        let refs = builder.finish();
        assert_eq!(refs.get("temperature/17.3"), Some(Ref::Part(17, 17_003, 100)));
        assert!(refs.memory() < 64_000_000, "{}", refs.memory());
    }
}
