//! A journal of decoded parts, so that a second run goes on.
//!
//! A journal has lines of JSON. The first line names the format. Each other line is a part: its stamp (see
//! `parts`), the bytes of its elements, and its findings. A kill may cut off the last line. Such a line is
//! ignored, and written again.

use super::finding::Finding;
use crate::{Error, Json, Result};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The member of the first line, and the version.
const NAME: &str = "hyperslab validate journal";
const VERSION: u64 = 1;

/// A part that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Bytes of decoded elements.
    pub decoded: u64,
    pub findings: Vec<Finding>,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    known: HashMap<String, Checked>,
    /// The location in findings: the same store may be reached by another name.
    location: String,
}

impl Journal {
    /// Opens a journal, or begins one. Fails if the file is something else.
    pub fn open(path: &Path) -> Result<Journal> {
        let failed = |what, source| Error::Io { what, path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|source| failed("open", source))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| failed("read", source))?;
        let Some((whole, known)) = parse(&bytes) else {
            let other = io::Error::new(io::ErrorKind::InvalidData, "it is no journal of a validation");
            return Err(failed("resume from", other));
        };
        file.set_len(whole as u64).map_err(|source| failed("write", source))?;
        file.seek(SeekFrom::End(0)).map_err(|source| failed("write", source))?;
        let mut journal = Journal { path: path.to_owned(), file, known, location: String::new() };
        if whole == 0 {
            journal.write(&head())?;
        }
        Ok(journal)
    }

    /// Sets the location in the findings that [`Journal::get`] returns.
    pub fn set_location(&mut self, location: &str) {
        location.clone_into(&mut self.location);
    }

    /// The part with this stamp, if it was checked.
    pub fn get(&self, stamp: &str) -> Option<Checked> {
        let mut checked = self.known.get(stamp)?.clone();
        checked.findings.iter_mut().for_each(|finding| self.location.clone_into(&mut finding.location));
        Some(checked)
    }

    /// Records a part.
    pub fn put(&mut self, stamp: String, checked: Checked) -> Result<()> {
        let findings = checked.findings.iter().map(Finding::to_json).collect();
        let line = Json::from([
            ("part", stamp.as_str().into()),
            ("decoded", checked.decoded.into()),
            ("findings", Json::Array(findings)),
        ]);
        self.write(&line.to_text(None))?;
        self.known.insert(stamp, checked);
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let failed = |source| Error::Io { what: "write", path: self.path.clone(), source };
        // One call: a kill cuts a line off, and does not mix lines.
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(failed)
    }
}

/// The first line of a journal.
fn head() -> String {
    Json::from([(NAME, VERSION.into())]).to_text(None)
}

/// The bytes of whole lines, and the parts in them. `None`: it is no journal.
pub(crate) fn parse(bytes: &[u8]) -> Option<(usize, HashMap<String, Checked>)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes.get(..whole)?.split(|byte| *byte == b'\n');
    let begins = |line: &[u8]| {
        let found = Json::parse(line).ok();
        found.and_then(|found| found.get(NAME).and_then(Json::as_integer::<u64>)) == Some(VERSION)
    };
    let cut_head = whole == 0 && head().as_bytes().starts_with(bytes);
    if !cut_head && !lines.next().is_some_and(begins) {
        return None;
    }
    Some((whole, lines.filter_map(|line| of_line(&Json::parse(line).ok()?)).collect()))
}

fn of_line(line: &Json) -> Option<(String, Checked)> {
    let findings = line.get("findings")?.as_array()?.iter().map(Finding::from_json);
    let findings = findings.collect::<Option<Vec<_>>>()?;
    let decoded = line.get("decoded")?.as_integer()?;
    Some((line.get("part")?.as_str()?.to_owned(), Checked { decoded, findings }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::finding::{Findings, Kind, Level, Severity};
    use std::fs;

    #[test]
    fn parts_are_found_again_after_a_kill_at_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let made = Findings::new("a").make(Severity::Error, Level::Decode, Kind::Damaged, "x", "bad");
        let found = Finding { chunk: Some(vec![1, 2]), offset: Some(3), key: Some("k".into()), ..made };
        let checked = Checked { decoded: 7, findings: vec![found] };
        let mut journal = Journal::open(&path).unwrap();
        for stamp in ["one", "two"] {
            journal.put(stamp.into(), checked.clone()).unwrap();
        }
        drop(journal);
        let all = fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..all.len()).filter(|at| all[*at] == b'\n').map(|at| at + 1).collect();
        for len in 0..=all.len() {
            fs::write(&path, &all[..len]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            journal.set_location("a");
            let known = ["one", "two"].map(|stamp| journal.get(stamp).map(|known| known == checked));
            let whole = |n: usize| (len >= ends[n]).then_some(true);
            assert_eq!(known, [whole(1), whole(2)], "{len}");
            journal.put("three".into(), checked.clone()).unwrap();
            let again = Journal::open(&path).unwrap();
            assert!(again.get("three").is_some() && again.get("one").is_some() == whole(1).is_some());
        }
    }

    #[test]
    fn other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.txt");
        for text in ["important", "important\n", "{\"a\": 1}\n"] {
            fs::write(&path, text).unwrap();
            assert!(Journal::open(&path).unwrap_err().to_string().contains("no journal"));
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
        }
    }
}
