//! A validation by many processes: one checks the structure and makes a plan, the others decode.
//!
//! A part is some blocks of one array. Parts do not depend on each other. Their findings are joined with
//! those about the structure, without faults that were named there.

use super::decode::Decoding;
use super::finding::{Finding, Findings};
use super::parts::{self, Numbers};
use super::{Report, Subject, ValidateOptions, is_readable, validate_with};
use crate::copy::Progress;
use crate::open::{Mode, Opening, Place, open_in};
use crate::{Array, Error, Json, Result, settings};
use std::cell::Cell;
use std::ops::Range;

/// A part of the decoding of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the subject.
    pub subject: usize,
    /// Path of the array in its store or file.
    pub path: String,
    /// Its blocks. Their sizes follow from the array.
    pub blocks: Vec<Range<u64>>,
    /// The number of blocks of the whole array: the array must not change.
    pub of: u64,
    /// Approximate bytes of the elements.
    pub bytes: u64,
}

/// The findings about the structure, and the parts to decode.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The findings without decoding.
    pub report: Report,
    /// The parts.
    pub parts: Vec<Part>,
}

/// The outcome of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of decoded elements.
    pub bytes: u64,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Number of findings that are not listed.
    pub omitted: u64,
}

/// Checks everything but the chunks' contents, and plans their decoding in parts of about `part_bytes`
/// bytes of elements.
///
/// Fails like [`validate`](super::validate).
pub fn plan(subjects: &[Subject], options: &ValidateOptions<'_>, part_bytes: u64) -> Result<Plan> {
    let mut all = Vec::new();
    let report = validate_with(subjects, options, &mut |subject, arrays, _, _| {
        for visited in arrays.iter().filter(|visited| is_readable(&visited.array)) {
            let (path, stored) = (visited.path.as_str(), visited.stored.as_deref());
            let decoding = Decoding::new(&visited.array, path, stored)?;
            for part in parts::cut(&decoding, &decoding.numbers(), part_bytes) {
                let bytes = decoding.block_bytes(part.get(0)).saturating_mul(part.len());
                let (path, of) = (path.to_owned(), decoding.count());
                all.push(Part { subject, path, blocks: part.ranges, of, bytes });
            }
        }
        Ok(0)
    })?;
    Ok(Plan { report, parts: all })
}

/// Decodes a part of a plan. `subject` is the part's, on any machine.
///
/// Fails if the array cannot be opened or is not the one that was planned, and with
/// [`Error::Interrupted`].
pub fn decode_part(
    subject: &Subject,
    part: &Part,
    threads: Option<usize>,
    progress: Option<&dyn Progress>,
) -> Result<Decoded> {
    let array = open_array(&subject.place()?, &part.path)?;
    let decoding = Decoding::new(&array, &part.path, None)?;
    if decoding.count() != part.of {
        let (path, of, found) = (&part.path, part.of, decoding.count());
        return Err(Error::Options(format!(
            "validate: array '/{path}' has changed since the plan was made: expected {of} blocks, found {found}. Make a \
             new plan"
        )));
    }
    let findings = Findings::new(subject.name());
    let threads = threads.filter(|n| *n > 0).unwrap_or_else(settings::threads);
    let numbers = Numbers::joined(part.blocks.iter().cloned());
    let bytes = decoding.run(&numbers, threads, &findings, progress, &Cell::new(u64::MAX))?;
    let (findings, omitted) = findings.take();
    Ok(Decoded { bytes, findings, omitted })
}

fn open_array(place: &Place, path: &str) -> Result<Array> {
    let opening = Opening { mode: Some(Mode::Read), ..Opening::default() };
    if place.file.is_none() {
        let own = Place::in_store(place.store.clone(), path, true);
        match open_in(own, &opening) {
            Ok(opened) => return opened.into_node()?.into_array(),
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    // The subject may lead into a file of its store.
    let file = match &place.file {
        Some(file) => file.clone(),
        None => open_in(place.clone(), &opening)?.place.file.ok_or_else(|| Error::Missing {
            kind: None,
            why: format!("there is no array at '{path}' in {}", place.url()),
            below: Vec::new(),
        })?,
    };
    file.open(path)?.into_array()
}

/// Joins the outcomes of parts with the report of their plan. `report` is [`Report::to_json`]; the
/// outcomes are [`Decoded::to_json`]. `None`: they are something else.
pub fn join(report: &Json, outcomes: &[Json]) -> Option<Json> {
    let mut report = report.clone();
    let known = report.get("findings")?.as_array()?.iter().map(Finding::from_json);
    let known = known.collect::<Option<Vec<_>>>()?;
    let mut omitted: u64 = report.get("omitted")?.as_integer()?;
    let mut locations: Vec<String> = Vec::new();
    for looked in report.get("looked")?.as_array()? {
        let location = looked.get("location")?.as_str()?.to_owned();
        if !locations.contains(&location) {
            locations.push(location);
        }
    }
    let mut bytes = vec![0_u64; locations.len()];
    let all: Vec<Findings> = locations.iter().map(|location| Findings::new(location)).collect();
    let of = |location: &str| locations.iter().position(|other| other == location);
    for finding in known {
        all.get(of(&finding.location)?)?.put(finding);
    }
    for outcome in outcomes {
        let Decoded { bytes: decoded, findings, omitted: more } = Decoded::from_json(outcome)?;
        omitted = omitted.saturating_add(more);
        let at = of(outcome.get("location")?.as_str()?)?;
        let (sum, known) = (bytes.get_mut(at)?, all.get(at)?);
        *sum = sum.saturating_add(decoded);
        findings.into_iter().for_each(|finding| known.put_unblamed(finding));
    }
    let mut findings = Vec::new();
    for found in all {
        let (found, more) = found.take();
        omitted = omitted.saturating_add(more);
        findings.extend(found.iter().map(Finding::to_json));
    }
    report.set("findings", Json::Array(findings));
    report.set("omitted", omitted.into());
    if let Some(Json::Array(looked)) = report.get_mut("looked") {
        for looked in looked {
            let at = looked.get("location").and_then(Json::as_str).and_then(of);
            let decoded = at.and_then(|at| bytes.get_mut(at)).map(std::mem::take);
            looked.set("decoded", decoded.unwrap_or(0).into());
        }
    }
    Some(report)
}

impl Part {
    /// As a JSON object.
    pub fn to_json(&self) -> Json {
        let range = |range: &Range<u64>| Json::Array(vec![range.start.into(), range.end.into()]);
        Json::from([
            ("subject", (self.subject as u64).into()),
            ("path", self.path.as_str().into()),
            ("blocks", Json::Array(self.blocks.iter().map(range).collect())),
            ("of", self.of.into()),
            ("bytes", self.bytes.into()),
        ])
    }

    /// Reads what [`Part::to_json`] made. `None`: it is something else.
    pub fn from_json(json: &Json) -> Option<Part> {
        let number = |name: &str| json.get(name).and_then(Json::as_integer::<u64>);
        let range = |range: &Json| match range.as_array()? {
            [start, end] => Some(start.as_integer()?..end.as_integer()?),
            _ => None,
        };
        let (subject, of, bytes) = (number("subject")?, number("of")?, number("bytes")?);
        let blocks: Vec<Range<u64>> =
            json.get("blocks")?.as_array()?.iter().map(range).collect::<Option<_>>()?;
        let ascend = blocks.iter().all(|range| range.start < range.end && range.end <= of)
            && blocks.windows(2).all(|pair| matches!(pair, [a, b] if a.end < b.start));
        ascend.then_some(Part {
            subject: usize::try_from(subject).ok()?,
            path: json.get("path")?.as_str()?.to_owned(),
            blocks,
            of,
            bytes,
        })
    }
}

impl Decoded {
    /// As a JSON object. `location`: the name of the subject.
    pub fn to_json(&self, location: &str) -> Json {
        Json::from([
            ("location", location.into()),
            ("decoded", self.bytes.into()),
            ("findings", Json::Array(self.findings.iter().map(Finding::to_json).collect())),
            ("omitted", self.omitted.into()),
        ])
    }

    fn from_json(json: &Json) -> Option<Decoded> {
        let findings = json.get("findings")?.as_array()?.iter().map(Finding::from_json);
        Some(Decoded {
            bytes: json.get("decoded")?.as_integer()?,
            findings: findings.collect::<Option<_>>()?,
            omitted: json.get("omitted")?.as_integer()?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    #[test]
    fn parts_are_text() {
        let part = Part { subject: 1, path: "a/b".into(), blocks: vec![0..2, 5..6], of: 9, bytes: 77 };
        assert_eq!(Part::from_json(&part.to_json()), Some(part.clone()));
        for blocks in [vec![0..10], vec![3..4, 0..1], vec![2..2]] {
            assert_eq!(Part::from_json(&Part { blocks, ..part.clone() }.to_json()), None);
        }
    }

    #[test]
    fn omitted_findings_are_counted() {
        let looked = Json::from([("location", "a".into()), ("decoded", 0_u64.into())]);
        let report = Json::from([
            ("findings", Json::Array(Vec::new())),
            ("omitted", 2_u64.into()),
            ("looked", Json::Array(vec![looked])),
        ]);
        let part = |omitted| Decoded { bytes: 5, findings: Vec::new(), omitted }.to_json("a");
        let joined = join(&report, &[part(3), part(4)]).unwrap();
        assert_eq!(joined.get("omitted").and_then(Json::as_integer::<u64>), Some(9));
    }
}
