//! Findings: a fault, its place, and advice.

use crate::Json;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing. Nothing is wrong.
    Note,
    /// Programs may read something else than the writer meant, or space is lost.
    Warning,
    /// Data is lost, damaged, or not readable.
    Error,
}

impl Severity {
    /// All severities.
    pub const ALL: &[Severity] = &[Severity::Note, Severity::Warning, Severity::Error];

    /// "note", "warning", "error".
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// The check that found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Metadata, keys, indexes, structures of files.
    Structure,
    /// Conventions of CF and NetCDF.
    Conventions,
    /// Absent chunks.
    Missing,
    /// Decoded chunks.
    Decode,
}

impl Level {
    /// All levels.
    pub const ALL: &[Level] = &[Level::Structure, Level::Conventions, Level::Missing, Level::Decode];

    /// "structure", "conventions", "missing", "decode".
    pub fn name(self) -> &'static str {
        match self {
            Level::Structure => "structure",
            Level::Conventions => "conventions",
            Level::Missing => "missing",
            Level::Decode => "decode",
        }
    }
}

/// Declares the kinds of findings: their names, and what to do about them.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident: $name:literal, $advice:literal;)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The name in reports: words with hyphens. It never changes.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// Advice to the user.
            pub fn advice(self) -> &'static str {
                match self { $(Kind::$kind => $advice,)* }
            }
        }
    };
}

kinds! {
    /// A metadata document, or consolidated metadata, is not valid.
    Metadata: "metadata", "restore the document from a backup, or write it again";
    /// A feature is not supported, so that nothing can be said about the object.
    Unsupported: "unsupported", "read it with the program that wrote it";
    /// The store could not read something.
    Unreadable: "unreadable", "check permissions and the network, and validate again";
    /// A group above a node has no document.
    NoGroup: "no-group", "create the group: readers do not find the node from above";
    /// Documents of Zarr v2 and v3 are mixed.
    Mixed: "mixed-formats", "delete the documents of the format that is not in use";
    /// Consolidated metadata differs from the members.
    Stale: "stale-consolidated", "consolidate the metadata again";
    /// A node is stored inside an array.
    NodeInArray: "node-in-array", "move the node: an array has no members";
    /// A key belongs to no array.
    Unowned: "unowned-key", "delete it if nothing else uses it";
    /// A chunk is outside the grid of its array.
    OutsideGrid: "outside-grid", "delete it: it would come back if the array grows";
    /// A leftover of a killed writer.
    Leftover: "leftover", "delete it if no writer is at work, or run `hyperslab compact`";
    /// An object without bytes.
    Empty: "empty-object", "write the chunk again, or delete it to make it absent";
    /// An object has a size that cannot be right.
    WrongSize: "wrong-size", "write the chunk again, or restore it from a backup";
    /// The index of a shard, or an entry of it, is wrong.
    ShardIndex: "shard-index", "write the chunks again, or restore the shard from a backup";
    /// A shard has bytes that nothing refers to.
    DeadSpace: "dead-space", "run `hyperslab compact`";
    /// A structure of a file is damaged.
    Structure: "damaged-structure", "restore the file from a backup";
    /// A file was not closed by its writer.
    Unclosed: "not-closed", "close its writer; if it was killed, `h5clear -s` marks the file as closed";
    /// A file is shorter than it should be.
    Truncated: "truncated", "transfer the file again, or restore it from a backup";
    /// A range of elements is not inside the file.
    OutOfFile: "out-of-file", "transfer the file again, or restore it from a backup";
    /// Two ranges share bytes.
    Overlap: "overlap", "restore the file from a backup: one of them was overwritten";
    /// A link leads nowhere.
    DanglingLink: "dangling-link", "delete the link, or restore its target";
    /// A reference leads to no object.
    DanglingReference: "dangling-reference", "delete the reference, or restore its target";
    /// Another file that belongs to the data does not exist.
    MissingFile: "missing-file", "put the file beside this one";
    /// A link to another file was not followed.
    NotFollowed: "not-followed", "allow links to other files with `--external-files`";
    /// A group is a member of itself.
    Circle: "circle", "programs that walk the file must remember where they were";
    /// A chunk cannot be decoded.
    Damaged: "damaged-chunk", "write the chunk again, restore it from a backup, or delete it to make it absent";
    /// Chunks are absent.
    Absent: "absent-chunks", "write them, or validate without `--expect-complete` if they are fill value";
    /// Arrays of a group disagree about the length of a dimension.
    Dimension: "dimension-lengths", "give the dimensions different names, or the arrays the same length";
    /// An attribute is not what CF or NetCDF expect.
    Attribute: "attribute", "correct the attribute";
    /// The fill value is not of the element type.
    FillType: "fill-type", "give `_FillValue` the type of the elements";
    /// An attribute names a variable that does not exist.
    NoVariable: "no-variable", "correct the name, or add the variable";
    /// A coordinate has equal values.
    DuplicateCoordinate: "duplicate-coordinate", "remove the repeated elements: selection by value is ambiguous";
    /// A coordinate is not in order.
    UnorderedCoordinate: "unordered-coordinate", "sort along the dimension: selection by ranges fails";
    /// A coordinate has missing values.
    MissingCoordinate: "missing-coordinate", "write all values of the coordinate";
    /// A time axis has gaps.
    TimeGap: "time-gap", "add the missing times, or ignore this if there are none";
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The location that was validated, as it was given.
    pub location: String,
    /// How bad it is.
    pub severity: Severity,
    /// The check that found it.
    pub level: Level,
    /// The kind.
    pub kind: Kind,
    /// Path of the node, with a leading `/`.
    pub path: String,
    /// Index of the chunk per axis.
    pub chunk: Option<Vec<u64>>,
    /// Key of the object in the store.
    pub key: Option<String>,
    /// First byte in the object.
    pub offset: Option<u64>,
    /// The fault, in words.
    pub found: String,
    /// The right state, in words.
    pub expected: Option<String>,
}

impl Finding {
    /// Advice to the user.
    pub fn advice(&self) -> &'static str {
        self.kind.advice()
    }

    /// The place: node, chunk, key, offset.
    pub fn place(&self) -> String {
        let mut place = self.path.clone();
        if let Some(chunk) = &self.chunk {
            place.push_str(&format!(", chunk {chunk:?}"));
        }
        if let Some(key) = &self.key {
            place.push_str(&format!(", key '{key}'"));
        }
        if let Some(offset) = self.offset {
            place.push_str(&format!(", byte {offset}"));
        }
        place
    }

    /// The finding as a JSON object.
    pub fn to_json(&self) -> Json {
        let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        Json::from([
            ("location", self.location.as_str().into()),
            ("severity", self.severity.name().into()),
            ("level", self.level.name().into()),
            ("kind", self.kind.name().into()),
            ("path", self.path.as_str().into()),
            ("chunk", self.chunk.as_deref().map_or(Json::Null, Json::from)),
            ("key", text(&self.key)),
            ("offset", self.offset.map_or(Json::Null, Json::from)),
            ("found", self.found.as_str().into()),
            ("expected", text(&self.expected)),
            ("advice", self.advice().into()),
        ])
    }
}

impl Finding {
    /// Reads what [`Finding::to_json`] made. `None`: it is something else.
    pub fn from_json(json: &Json) -> Option<Finding> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let owned = |name: &str| text(name).map(str::to_owned);
        let chunk = match json.get("chunk")? {
            Json::Null => None,
            chunk => Some(chunk.as_array()?.iter().map(Json::as_integer).collect::<Option<Vec<u64>>>()?),
        };
        Some(Finding {
            location: owned("location")?,
            severity: *Severity::ALL.iter().find(|one| Some(one.name()) == text("severity"))?,
            level: *Level::ALL.iter().find(|one| Some(one.name()) == text("level"))?,
            kind: *Kind::ALL.iter().find(|one| Some(one.name()) == text("kind"))?,
            path: owned("path")?,
            chunk,
            key: owned("key"),
            offset: json.get("offset").and_then(Json::as_integer),
            found: owned("found")?,
            expected: owned("expected"),
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}: {}", self.severity.name(), self.kind.name(), self.place(), self.found)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        write!(f, ". {}", self.advice())
    }
}

/// Findings that are kept. More are only counted: a store may have millions of foreign keys.
const MOST: usize = 10_000;

/// Collects findings from many threads.
#[derive(Debug)]
pub(super) struct Findings {
    pub location: String,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    findings: Vec<Finding>,
    omitted: u64,
    /// The places of errors: path, chunk, and key if the whole object is wrong.
    blamed: HashSet<Place>,
}

type Place = (String, Option<Vec<u64>>, Option<String>);

impl Findings {
    pub fn new(location: &str) -> Self {
        Findings { location: location.to_owned(), kept: Mutex::default() }
    }

    /// Adds a finding about the node at `path`, without a leading slash.
    pub fn add(&self, severity: Severity, level: Level, kind: Kind, path: &str, found: impl Into<String>) {
        self.put(self.make(severity, level, kind, path, found));
    }

    /// Makes a finding, to be completed and [put](Findings::put).
    pub fn make(
        &self,
        severity: Severity,
        level: Level,
        kind: Kind,
        path: &str,
        found: impl Into<String>,
    ) -> Finding {
        Finding {
            location: self.location.clone(),
            severity,
            level,
            kind,
            path: format!("/{}", path.trim_matches('/')),
            chunk: None,
            key: None,
            offset: None,
            found: found.into(),
            expected: None,
        }
    }

    pub fn put(&self, finding: Finding) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if finding.severity == Severity::Error {
            let key = finding.key.clone().filter(|_| finding.chunk.is_none());
            kept.blamed.insert((finding.path.clone(), finding.chunk.clone(), key));
        }
        // Errors are worth more than the notes before them.
        if kept.findings.len() < MOST || finding.severity == Severity::Error && kept.findings.len() < 2 * MOST
        {
            kept.findings.push(finding);
        } else {
            kept.omitted += 1;
        }
    }

    /// Adds a finding of a decoded chunk, unless an error at its place is there.
    pub fn put_unblamed(&self, finding: Finding) {
        let of_array = finding.chunk.is_none() && finding.key.is_none();
        if !self.is_blamed(&finding.path, finding.chunk.as_deref(), finding.key.as_deref(), of_array) {
            self.put(finding);
        }
    }

    /// How many findings there are, for [`Findings::since`].
    pub fn mark(&self) -> (usize, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.findings.len(), kept.omitted)
    }

    /// The findings since a mark. `None`: some were only counted.
    pub fn since(&self, (first, omitted): (usize, u64)) -> Option<Vec<Finding>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.omitted == omitted).then(|| kept.findings.get(first..).unwrap_or_default().to_vec())
    }

    /// Returns `true` if there is an error about a chunk, about its whole object, or with `of_array`,
    /// about its array.
    pub fn is_blamed(&self, path: &str, chunk: Option<&[u64]>, key: Option<&str>, of_array: bool) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let path = format!("/{}", path.trim_matches('/'));
        let has = |chunk: Option<&[u64]>, key: Option<&str>| {
            kept.blamed.contains(&(path.clone(), chunk.map(<[u64]>::to_vec), key.map(str::to_owned)))
        };
        chunk.is_some() && has(chunk, None) || key.is_some() && has(None, key) || of_array && has(None, None)
    }

    /// All findings: the worst first, then by place. Also returns the number of omitted ones.
    pub fn take(self) -> (Vec<Finding>, u64) {
        let Kept { mut findings, omitted, .. } =
            self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        findings.sort_by(|a, b| {
            let place = |finding: &Finding| {
                (
                    finding.path.clone(),
                    finding.level,
                    finding.kind,
                    finding.chunk.clone(),
                    finding.key.clone(),
                )
            };
            b.severity.cmp(&a.severity).then_with(|| place(a).cmp(&place(b)))
        });
        (findings, omitted)
    }
}
