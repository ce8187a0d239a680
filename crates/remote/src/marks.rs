//! Marks in the metadata of objects, which tell which replacements led to the current contents.
//!
//! A conditional replacement gives the object a mark that only its writer knows, in front of the
//! marks that the object had when the writer read it. The marks are in a header, so the bytes are
//! unaffected. A writer whose response was lost looks at the object:
//!
//! 1. If the writer's mark is among the object's marks, its replacement was done. Others may have
//!    replaced the object since.
//! 2. If the writer's mark is missing, but the mark of the contents that it read is there, its
//!    replacement was not done.
//! 3. If both are missing, the outcome is unknown. Others have replaced the object without marks or
//!    more than [`MOST`] times, or the server keeps no metadata.

use crate::client::Contents;
use hyperslab_store::Mark;
use object_store::{Attribute, Attributes};
use std::borrow::Cow;
use std::sync::Arc;

/// The name in the metadata: `x-amz-meta-hyperslab`, `x-goog-meta-hyperslab`, `x-ms-meta-hyperslab`.
const NAME: Attribute = Attribute::Metadata(Cow::Borrowed("hyperslab"));

/// Marks that an object keeps: 1 KB of the 2 KB of metadata that S3 allows. A hundred writers
/// replace an object this often in a few seconds.
const MOST: usize = 128;

/// The concatenated marks of an object, latest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks(Arc<str>);

impl Marks {
    /// Parses marks. `None` if the text is something else, from other software.
    pub(crate) fn parse(text: &str) -> Option<Marks> {
        let len = text.len();
        let fits = len > 0 && len.is_multiple_of(Mark::LEN) && len <= MOST * Mark::LEN;
        (fits && text.bytes().all(Mark::has_letter)).then(|| Marks(text.into()))
    }

    /// The marks in the metadata of a response.
    pub(crate) fn from_attributes(attributes: &Attributes) -> Option<Marks> {
        attributes.get(&NAME).and_then(|text| Marks::parse(text.as_ref()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the write with this mark created the object. A replaced object has other marks.
    pub(crate) fn are_of_new(&self, mark: Mark) -> bool {
        self.0.strip_prefix(mark.as_str()) == Some(History::none().0.as_str())
    }

    fn has(&self, mark: &str) -> bool {
        self.0.as_bytes().chunks(Mark::LEN).any(|one| one == mark.as_bytes())
    }
}

/// The history of an object when its writer read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History(String);

impl History {
    /// The history of a missing object.
    pub(crate) fn none() -> Self {
        History(Mark::of(u64::MAX).as_str().to_owned())
    }

    /// The history of contents without marks: a mark derived from tag and number stands for them.
    fn unmarked(tag: Option<&str>, number: Option<&str>) -> Self {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for text in [tag, number] {
            let text = text.unwrap_or_default();
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let number = hash.finish().as_ref().first_chunk().copied().map_or(0, u64::from_le_bytes);
        History(Mark::of(number).as_str().to_owned())
    }

    /// The history of contents with this tag, number and marks.
    pub(crate) fn of(tag: Option<&str>, number: Option<&str>, marks: Option<&str>) -> Self {
        marks.map_or_else(|| History::unmarked(tag, number), |marks| History(marks.to_owned()))
    }

    /// The metadata of contents that replace the ones in this history.
    pub(crate) fn attributes_with(&self, mark: Mark) -> Attributes {
        let before = self.0.get(..(MOST - 1) * Mark::LEN).unwrap_or(&self.0);
        let mut attributes = Attributes::new();
        attributes.insert(NAME, format!("{}{before}", mark.as_str()).into());
        attributes
    }

    /// The mark of the contents themselves.
    fn last_mark(&self) -> &str {
        self.0.get(..Mark::LEN).unwrap_or_default()
    }

    /// Tells from the current contents whether the replacement with this mark was done.
    pub(crate) fn fate(&self, mark: Mark, now: &Contents) -> Fate {
        match &now.marks {
            Some(marks) if marks.has(mark.as_str()) => Fate::Done,
            Some(marks) if marks.has(self.last_mark()) => Fate::NotDone,
            // The contents had no marks when they were read, and have not changed.
            None if *self == History::unmarked(now.strong_tag(), now.number.as_deref()) => Fate::NotDone,
            _ => Fate::Unknown,
        }
    }
}

/// The outcome of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was done. Others may have replaced the object since.
    Done,
    /// It was not done.
    NotDone,
    /// Unknown: the object does not tell.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::{Fate, History, MOST, Marks, NAME};
    use crate::client::Contents;
    use hyperslab_store::Mark;

    fn contents(tag: &str, marks: Option<&str>) -> Contents {
        let marks = marks.and_then(Marks::parse);
        Contents { size: 1, tag: Some(tag.to_owned()), number: None, modified: 0, marks }
    }

    /// The contents after a replacement.
    fn after(history: &History, mark: Mark, tag: &str) -> Contents {
        let attributes = history.attributes_with(mark);
        contents(tag, attributes.get(&NAME).map(AsRef::as_ref))
    }

    fn read(contents: &Contents) -> History {
        History::of(contents.strong_tag(), None, contents.marks.as_ref().map(Marks::as_str))
    }

    #[test]
    fn an_object_tells_what_became_of_a_replacement() {
        let [mine, theirs] = [Mark::fresh(), Mark::fresh()];
        for (base, was) in [
            (History::none(), None),
            (read(&contents("a", None)), Some(contents("a", None))),
            (read(&contents("a", Some("abcdefgh"))), Some(contents("a", Some("abcdefgh")))),
        ] {
            // Nothing happened; mine was done; mine, then theirs; theirs instead.
            assert!(was.is_none_or(|was| base.fate(mine, &was) == Fate::NotDone));
            let done = after(&base, mine, "b");
            assert_eq!(base.fate(mine, &done), Fate::Done);
            assert_eq!(base.fate(mine, &after(&read(&done), theirs, "c")), Fate::Done);
            assert_eq!(base.fate(mine, &after(&base, theirs, "b")), Fate::NotDone);
            // Another writer without marks, then others.
            let plain = contents("p", None);
            assert_eq!(base.fate(mine, &plain), Fate::Unknown);
            assert_eq!(base.fate(mine, &after(&read(&plain), theirs, "d")), Fate::Unknown);
        }
    }

    #[test]
    fn an_object_tells_who_created_it() {
        let [mine, theirs] = [Mark::fresh(), Mark::fresh()];
        let created = after(&History::none(), mine, "t");
        let are_of_new = |now: &Contents| now.marks.as_ref().is_some_and(|marks| marks.are_of_new(mine));
        assert!(are_of_new(&created));
        // Replaced by others, created by others, replaced by this writer, and written without marks.
        for other in [
            after(&read(&created), theirs, "t"),
            after(&History::none(), theirs, "t"),
            after(&read(&contents("t", None)), mine, "t"),
            after(&read(&contents("t", Some("abcdefgh"))), mine, "t"),
            contents("t", None),
        ] {
            assert!(!are_of_new(&other), "{other:?}");
        }
    }

    #[test]
    fn an_object_keeps_the_last_marks() {
        let base = History::none();
        let mine = Mark::fresh();
        let mut now = after(&base, mine, "t");
        for n in 1..MOST {
            assert_eq!(base.fate(mine, &now), Fate::Done, "{n}");
            now = after(&read(&now), Mark::fresh(), "t");
        }
        assert_eq!(now.marks.as_ref().map(|marks| marks.as_str().len()), Some(MOST * Mark::LEN));
        now = after(&read(&now), Mark::fresh(), "t");
        assert_eq!(base.fate(mine, &now), Fate::Unknown);
    }

    #[test]
    fn metadata_of_others_is_no_mark() {
        for text in ["", "abc", "abcdefg h", "abcdefg!", &"a".repeat(Mark::LEN * (MOST + 1))] {
            assert_eq!(Marks::parse(text), None, "{text}");
        }
    }
}
