//! Times of a source that count from another date than the first source's.

use super::Joining;
use super::compare::on_one_thread;
use super::facts::{ArrayFacts, Facts};
use crate::meaning::{OF_TIMES, Retiming};
use crate::{Json, Result, Selection};
use std::collections::HashMap;
use std::sync::Arc;

/// Attributes that name variables whose times have the units of the variable that names them.
const BOUNDS: [&str; 2] = ["bounds", "climatology"];

/// The most bytes of times in a source that are looked at to find out whether they have exact numbers.
const MOST_CHECKED: u64 = 256 << 20;

/// The changes of times, by the path of the variable.
#[derive(Debug, Default)]
pub(super) struct Retimed(HashMap<String, Arc<Retiming>>);

impl Retimed {
    /// Finds the variables with other dates. Times without an exact change are left out.
    pub(super) fn new(first: &Facts, facts: &Facts, joining: Joining<'_>) -> Result<Retimed> {
        let mut all = Retimed::default();
        let differ = |one: &ArrayFacts, other: &ArrayFacts| {
            let differs =
                |name: &&str| one.variable.attributes.get(name) != other.variable.attributes.get(name);
            OF_TIMES.iter().any(differs) && one.array.shape().len() == other.array.shape().len()
        };
        for expected in first.arrays.iter().filter(|array| array.axis.is_some()) {
            let found = facts.array(&expected.path).filter(|found| differ(expected, found));
            let Some(found) = found else { continue };
            let (own, wanted) = ((&found.variable, &found.array), (&expected.variable, &expected.array));
            let Some(change) = Retiming::between(own, wanted) else { continue };
            if !is_exact(&change, found, joining)? {
                continue;
            }
            let (mut fits, mut bounds) = (true, Vec::new());
            let attributes = &expected.variable.attributes;
            for name in BOUNDS.iter().filter_map(|name| attributes.get(name)).filter_map(Json::as_str) {
                let path = sibling(&expected.path, name);
                let (Some(own), Some(template)) = (facts.array(&path), first.array(&path)) else { continue };
                let has_units = |array: &ArrayFacts| array.variable.attributes.get("units").is_some();
                if has_units(own) || has_units(template) {
                    continue;
                }
                match change.also_of(&own.variable, &own.array, &template.array) {
                    Some(change) if is_exact(&change, own, joining)? => bounds.push((path, Arc::new(change))),
                    _ => fits = false,
                }
            }
            if fits {
                all.0.extend(bounds);
                all.0.insert(expected.path.clone(), Arc::new(change));
            }
        }
        Ok(all)
    }

    /// The change of a variable. `None`: its numbers stay.
    pub(super) fn of(&self, path: &str) -> Option<&Arc<Retiming>> {
        self.0.get(path)
    }
}

/// The path of a variable in the same group.
fn sibling(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((group, _)) => format!("{group}/{name}"),
        None => name.to_owned(),
    }
}

/// Returns `true` if all times of an array have exact numbers.
fn is_exact(change: &Retiming, found: &ArrayFacts, joining: Joining<'_>) -> Result<bool> {
    if change.is_none() || !joining.compare {
        return Ok(true);
    }
    let size = found.array.dtype().size() as u64;
    if found.array.shape().iter().fold(size, |bytes, n| bytes.saturating_mul(*n)) > MOST_CHECKED {
        return Ok(false);
    }
    let read = found.array.read(&Selection::all(found.array.shape()), on_one_thread())?;
    Ok(change.is_exact(read.as_slice()))
}
