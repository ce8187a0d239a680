//! The report: the contents of each location, and all findings, for people and for programs.

use super::absent::MissingChunks;
use super::finding::{Finding, Severity};
use crate::Json;
use std::fmt::Write;

/// The contents of one location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// The location, as it was given.
    pub location: String,
    /// The format of its nodes: "Zarr v3", "HDF5", … Empty if nothing could be opened.
    pub format: String,
    /// Number of groups.
    pub groups: u64,
    /// Number of arrays.
    pub arrays: u64,
    /// Number of stored objects: keys of a store, objects of a file.
    pub objects: u64,
    /// Bytes of the stored objects.
    pub bytes: u64,
    /// Bytes of elements that were decoded.
    pub decoded: u64,
    /// Absent chunks of each array, if they were looked for.
    pub missing: Vec<MissingChunks>,
}

/// The result of a validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The contents of each location.
    pub looked: Vec<Looked>,
    /// All findings: the worst first, location by location.
    pub findings: Vec<Finding>,
    /// Number of findings beyond the first 10 000 of a location.
    pub omitted: u64,
    /// Locations that could not be looked at, and why.
    pub unreached: Vec<(String, String)>,
}

impl Report {
    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// The worst severity; `None`: nothing was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The exit code of a command: 0, 1 (a finding of this severity or worse), 2 (could not look).
    pub fn exit_code(&self, fails_from: Severity) -> i32 {
        match self.worst() {
            _ if !self.unreached.is_empty() => 2,
            Some(worst) if worst >= fails_from => 1,
            _ => 0,
        }
    }

    /// The report as a JSON object.
    pub fn to_json(&self) -> Json {
        let looked = |looked: &Looked| {
            let missing = looked.missing.iter().map(MissingChunks::to_json).collect();
            Json::from([
                ("location", looked.location.as_str().into()),
                ("format", looked.format.as_str().into()),
                ("groups", looked.groups.into()),
                ("arrays", looked.arrays.into()),
                ("objects", looked.objects.into()),
                ("bytes", looked.bytes.into()),
                ("decoded", looked.decoded.into()),
                ("missing", Json::Array(missing)),
            ])
        };
        let unreached = |(location, why): &(String, String)| {
            Json::from([("location", location.as_str().into()), ("why", why.as_str().into())])
        };
        Json::from([
            ("looked", Json::Array(self.looked.iter().map(looked).collect())),
            ("findings", Json::Array(self.findings.iter().map(Finding::to_json).collect())),
            ("omitted", self.omitted.into()),
            ("unreached", Json::Array(self.unreached.iter().map(unreached).collect())),
        ])
    }

    /// The report in JUnit's XML: a test case for each location, and one for each finding.
    ///
    /// Errors are failures. Warnings are failures, too, if `fails_from` says so.
    pub fn to_junit(&self, fails_from: Severity) -> String {
        let failures = self.findings.iter().filter(|finding| finding.severity >= fails_from).count();
        let tests = self.looked.len() + self.findings.len() + self.unreached.len();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            xml,
            "<testsuites><testsuite name=\"hyperslab validate\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{}\">",
            self.unreached.len()
        );
        for looked in &self.looked {
            let name = escape(&looked.location);
            let _ = writeln!(xml, "<testcase classname=\"{name}\" name=\"looked at\"/>");
        }
        for finding in &self.findings {
            let (class, name) = (escape(&finding.location), escape(&finding.place()));
            let (kind, text) = (finding.kind.name(), escape(&finding.to_string()));
            let inside = match finding.severity >= fails_from {
                true => format!("<failure type=\"{kind}\" message=\"{text}\"/>"),
                false => format!("<system-out>{text}</system-out>"),
            };
            let _ =
                writeln!(xml, "<testcase classname=\"{class}\" name=\"{kind} {name}\">{inside}</testcase>");
        }
        for (location, why) in &self.unreached {
            let (class, why) = (escape(location), escape(why));
            let inside = format!("<error message=\"{why}\"/>");
            let _ =
                writeln!(xml, "<testcase classname=\"{class}\" name=\"could not look\">{inside}</testcase>");
        }
        xml.push_str("</testsuite></testsuites>\n");
        xml
    }
}

/// Text in an attribute of XML. Control characters, which XML forbids, become question marks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::finding::{Findings, Kind, Level};

    fn report() -> Report {
        let findings = Findings::new("a<b>.zarr");
        findings.add(Severity::Warning, Level::Structure, Kind::Unowned, "x", "a \"key\"\n");
        let bad = findings.make(Severity::Error, Level::Decode, Kind::Damaged, "/x/y/", "zstd: truncated");
        findings.put(Finding { chunk: Some(vec![1, 2]), offset: Some(7), ..bad });
        let (findings, omitted) = findings.take();
        Report { findings, omitted, ..Report::default() }
    }

    #[test]
    fn the_worst_comes_first() {
        let report = report();
        let text: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(text[0].starts_with("error: damaged-chunk: /x/y, chunk [1, 2], byte 7: zstd"), "{}", text[0]);
        assert!(text[1].starts_with("warning: unowned-key: /x: "));
        assert_eq!((report.count(Severity::Error), report.worst()), (1, Some(Severity::Error)));
    }

    #[test]
    fn exit_codes() {
        let mut report = report();
        assert_eq!(report.exit_code(Severity::Error), 1);
        report.findings.remove(0);
        assert_eq!([Severity::Error, Severity::Warning].map(|from| report.exit_code(from)), [0, 1]);
        report.unreached.push(("b".into(), "no such file".into()));
        assert_eq!(report.exit_code(Severity::Error), 2);
        assert_eq!(Report::default().exit_code(Severity::Note), 0);
    }

    #[test]
    fn xml_is_well_formed_whatever_names_say() {
        let xml = report().to_junit(Severity::Error);
        assert!(xml.contains("classname=\"a&lt;b&gt;.zarr\""), "{xml}");
        assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{xml}");
        assert!(xml.contains("a &quot;key&quot;?"), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), 2);
    }

    #[test]
    fn names_of_kinds_are_distinct() {
        let names: std::collections::BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| !kind.advice().is_empty()));
    }
}
