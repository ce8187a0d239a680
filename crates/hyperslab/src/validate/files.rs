//! HDF5 and NetCDF files: their structures.

use super::Visited;
use super::blame::Blame;
use super::finding::{Finding, Findings, Kind, Level, Severity};
use crate::{Array, DataFile, Error, Format, Group, Node, NodeKind, Object, Result, with_causes};
use hyperslab_hdf5::check::{CheckedKind, Fault, FaultKind, check};
use hyperslab_store::{Ask, Key};

/// The contents of a file.
pub(super) struct InFile {
    pub arrays: Vec<Visited>,
    pub groups: Vec<(String, Group)>,
    pub objects: u64,
    pub bytes: u64,
}

/// Looks at all objects of a file that are at a path or below.
pub(super) fn look(file: &DataFile, path: &str, findings: &Findings, ask: Ask<'_>) -> Result<InFile> {
    let size = file.store().size(Key::new(file.key())?)?.unwrap_or(0);
    let mut found = InFile { arrays: Vec::new(), groups: Vec::new(), objects: 0, bytes: size };
    match file.as_hdf5() {
        Some(hdf5) => {
            let checked = match check(hdf5) {
                Err(hyperslab_hdf5::Hdf5Error::Interrupted { .. }) => return Err(Error::Interrupted),
                checked => checked?,
            };
            for fault in &checked.faults {
                findings.put(of_fault(findings, file, fault));
            }
            found.objects = checked.objects.len() as u64;
            for object in checked.objects.iter().filter(|object| is_within(&object.path, path)) {
                if ask() {
                    return Err(Error::Interrupted);
                }
                if object.kind == CheckedKind::Datatype {
                    continue;
                }
                match file.open_at(object.address, &object.path) {
                    Ok(Node::Array(array)) => found.arrays.push(visited(&object.path, array)),
                    Ok(Node::Group(group)) => found.groups.push((object.path.clone(), group)),
                    Err(error) => blame(findings, &object.path, &error)?,
                }
            }
        }
        None => {
            let Node::Group(root) = file.open("")? else { return Ok(found) };
            for below in root.below(None, Some(ask))? {
                found.objects += 1;
                if below.kind != NodeKind::Array || !is_within(&below.path, path) {
                    continue;
                }
                match root.open_below(&below).and_then(Object::into_node) {
                    Ok(Node::Array(array)) => {
                        end(&array, &below.path, size, findings);
                        found.arrays.push(visited(&below.path, array));
                    }
                    Ok(Node::Group(_)) => {}
                    Err(error) => blame(findings, &below.path, &error)?,
                }
            }
            found.groups.push((String::new(), root));
        }
    }
    Ok(found)
}

/// Checks that the file reaches to the end of a variable of a classic file.
fn end(array: &Array, path: &str, size: u64, findings: &Findings) {
    let layout = array.layout();
    let counts = layout.grid().counts(layout.shape());
    if counts.contains(&0) {
        return;
    }
    let last: Vec<u64> = counts.iter().map(|count| count - 1).collect();
    // The place of a chunk is found by arithmetic. It is refused only if it is behind the end.
    if let Err(error) = layout.locate(&last, &mut String::new()) {
        let what = format!("the file has {size} bytes: {}", with_causes(&error));
        findings.add(Severity::Error, Level::Structure, Kind::Truncated, path, what);
    }
}

/// The array, with its stored chunks.
fn visited(path: &str, array: Array) -> Visited {
    let stored = match array.has_chunks() {
        // A damaged index was reported by the check.
        true => array.node().stored_objects(None).unwrap_or_default(),
        false => None,
    };
    Visited { path: path.to_owned(), array, stored }
}

fn blame(findings: &Findings, path: &str, error: &Error) -> Result<()> {
    let blame = Blame::of(error)?;
    // The check has said it, in most cases.
    if !findings.is_blamed(path, None, None, true) {
        let made = findings.make(blame.severity, Level::Structure, blame.kind, path, blame.why);
        findings.put(Finding { offset: blame.offset, ..made });
    }
    Ok(())
}

fn is_within(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn of_fault(findings: &Findings, file: &DataFile, fault: &Fault) -> Finding {
    let (severity, kind) = match fault.kind {
        FaultKind::Structure => (Severity::Error, Kind::Structure),
        FaultKind::Unsupported => (Severity::Note, Kind::Unsupported),
        FaultKind::Unreadable => (Severity::Error, Kind::Unreadable),
        FaultKind::OutOfFile => (Severity::Error, Kind::OutOfFile),
        FaultKind::Overlap => (Severity::Error, Kind::Overlap),
        FaultKind::Unreferenced => (Severity::Note, Kind::DeadSpace),
        FaultKind::DanglingLink => (Severity::Warning, Kind::DanglingLink),
        FaultKind::DanglingReference => (Severity::Warning, Kind::DanglingReference),
        FaultKind::MissingFile => (Severity::Warning, Kind::MissingFile),
        FaultKind::NotFollowed => (Severity::Note, Kind::NotFollowed),
        FaultKind::Circle => (Severity::Note, Kind::Circle),
    };
    let made = findings.make(severity, Level::Structure, kind, &fault.path, fault.why.as_str());
    Finding {
        chunk: fault.chunk.clone(),
        key: fault.chunk.as_ref().map(|_| file.key().to_owned()),
        offset: fault.address,
        ..made
    }
}

/// The finding about a file that cannot be opened. `None`: the error is not about its contents.
pub(super) fn of_opening(findings: &Findings, error: &Error) -> Result<Option<Finding>> {
    let blame = Blame::of(error)?;
    let is_damage = matches!(
        blame.kind,
        Kind::Structure | Kind::Unclosed | Kind::Truncated | Kind::OutOfFile | Kind::Metadata | Kind::Damaged
    );
    let is_other = matches!(
        error,
        Error::NotData { .. }
            | Error::Hdf5(
                hyperslab_hdf5::Hdf5Error::NotHdf5 { .. } | hyperslab_hdf5::Hdf5Error::NotFound { .. }
            )
    );
    if !is_damage || is_other {
        return Ok(None);
    }
    let made = findings.make(Severity::Error, Level::Structure, blame.kind, "", blame.why);
    Ok(Some(Finding { offset: blame.offset, key: blame.key, ..made }))
}

/// The name of a file's format.
pub(super) fn format_name(file: &DataFile) -> &'static str {
    match file.format() {
        Format::NetCdf3 => "NetCDF-3",
        _ => "HDF5",
    }
}
