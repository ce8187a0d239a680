//! Conventions of CF and NetCDF that decide what programs like xarray read.
//!
//! [`crate::meaning`] alone knows the meaning of attributes, dimensions and times. This module asks it,
//! and reports its objections.

use super::Visited;
use super::blame::Blame;
use super::finding::{Finding, Findings, Kind, Level, Severity};
use crate::meaning::{Decoding, Meaning, Number, Numbers, names_without_variable, ome};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Error, Group, Kind as ElementKind, Node, ReadOptions, Result, Variable};
use hyperslab_store::Ask;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Coordinates with more elements are not read. 64 MiB of 64-bit numbers.
const LONGEST: u64 = 8 << 20;

/// A time axis has gaps if few steps are this many times as long as the median one. (Months are 28 to
/// 31 days long, leap years 366.)
const GAP: f64 = 1.5;
/// If more steps are longer, the axis is irregular: 1 in 10.
const FEW: usize = 10;

/// Checks the variables among these arrays.
pub(super) fn check(
    arrays: &[Visited],
    groups: &[(String, Group)],
    findings: &Findings,
    ask: Ask<'_>,
) -> Result<()> {
    let Some(first) = arrays.first() else { return Ok(()) };
    let all = arrays.iter().map(|visited| &visited.array);
    let meaning = match Meaning::of(&Node::Array(first.array.clone()), all) {
        Ok(meaning) => meaning,
        // The structures of the file were checked.
        Err(error) => return Blame::of(&error).map(drop),
    };
    let mut variables: BTreeMap<String, (&Visited, Variable)> = BTreeMap::new();
    for visited in arrays {
        if ask() {
            return Err(Error::Interrupted);
        }
        match meaning.variable(&visited.array) {
            Ok(Some(variable)) => {
                variables.insert(meaning.path(&visited.path), (visited, variable));
            }
            Ok(None) => {}
            Err(error) => {
                let blame = Blame::of(&error)?;
                if !findings.is_blamed(&visited.path, None, None, true) {
                    findings.add(blame.severity, Level::Conventions, blame.kind, &visited.path, blame.why);
                }
            }
        }
    }
    let known: BTreeMap<&str, &Variable> =
        variables.iter().map(|(path, (_, variable))| (path.as_str(), variable)).collect();
    for (path, (visited, variable)) in variables.iter().filter(|(_, (_, variable))| variable.is_variable) {
        if ask() {
            return Err(Error::Interrupted);
        }
        attributes(visited, variable, findings)?;
        for (attribute, name) in names_without_variable(&known, path) {
            let what = format!("attribute {attribute} names '{name}', and there is no such variable");
            findings.add(Severity::Warning, Level::Conventions, Kind::NoVariable, &visited.path, what);
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_coordinate = matches!(
            variable.dimension_names.as_deref(),
            Some([Some(dimension)]) if dimension == name
        );
        if is_coordinate {
            coordinate(visited, findings, ask)?;
        }
    }
    if first.array.as_zarr().is_some() {
        dimensions(&variables, groups, findings);
    }
    Ok(())
}

/// Checks the attributes that say how numbers are decoded.
fn attributes(visited: &Visited, variable: &Variable, findings: &Findings) -> Result<()> {
    let warn = |kind, what: String| {
        findings.add(Severity::Warning, Level::Conventions, kind, &visited.path, what);
    };
    if let Some(json) = variable.missing.other() {
        let what = format!(
            "_FillValue is {}, which is no element of type {}",
            json.brief(),
            visited.array.type_words()
        );
        warn(Kind::FillType, what);
    }
    match Decoding::of(&visited.array) {
        Ok(_) => Ok(()),
        Err(Error::Options(why)) => {
            let name = format!("array '{}': ", visited.array.layout().name());
            warn(Kind::Attribute, why.strip_prefix(&name).unwrap_or(&why).to_owned());
            Ok(())
        }
        Err(error) => Blame::of(&error).map(drop),
    }
}

/// Checks that arrays of a group agree about the lengths of dimensions. xarray refuses others.
fn dimensions(
    variables: &BTreeMap<String, (&Visited, Variable)>,
    groups: &[(String, Group)],
    findings: &Findings,
) {
    // The levels of an image have the same dimensions in different lengths.
    let images: BTreeSet<&str> = groups
        .iter()
        .filter(|(_, group)| {
            group.attributes().is_ok_and(|attributes| !ome::dataset_axes(&attributes).is_empty())
        })
        .map(|(path, _)| path.as_str())
        .collect();
    let mut lengths: BTreeMap<(&str, &str), (u64, &str)> = BTreeMap::new();
    for (path, (_, variable)) in variables.iter().filter(|(_, (_, variable))| variable.is_variable) {
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        if images.contains(group) {
            continue;
        }
        for (name, len) in variable.dimension_names.iter().flatten().zip(&variable.shape) {
            let Some(name) = name else { continue };
            let (known, first) = lengths.entry((group, name)).or_insert((*len, path));
            if known != len {
                let what = format!("dimension '{name}' has {len} elements");
                let made = findings.make(Severity::Warning, Level::Conventions, Kind::Dimension, path, what);
                findings.put(Finding { expected: Some(format!("{known}, as in '/{first}'")), ..made });
            }
        }
    }
}

/// Checks the values of a coordinate.
fn coordinate(visited: &Visited, findings: &Findings, ask: Ask<'_>) -> Result<()> {
    let Visited { path, array, .. } = visited;
    let is_number = matches!(array.dtype().kind(), ElementKind::Int | ElementKind::UInt | ElementKind::Float);
    let plain = array.vlen().is_none() && array.structure().is_none() && array.optional().is_none();
    if !plain || !is_number || array.shape().first().is_none_or(|n| *n < 2 || *n > LONGEST) {
        return Ok(());
    }
    let Ok(decoding) = Decoding::of(array) else { return Ok(()) };
    let numbers = match read(array, &decoding, ask) {
        Ok(numbers) => numbers,
        Err(error) => {
            let blame = Blame::of(&error)?;
            if !findings.is_blamed(path, blame.chunk.as_deref(), blame.key.as_deref(), blame.is_of_array) {
                let made = findings.make(blame.severity, Level::Decode, blame.kind, path, blame.why);
                let chunk = blame.chunk.filter(|_| !blame.is_of_array);
                findings.put(Finding { chunk, key: blame.key, offset: blame.offset, ..made });
            }
            return Ok(());
        }
    };
    let warn = |kind, what: String| findings.add(Severity::Warning, Level::Conventions, kind, path, what);
    let all: Vec<Number> = (0..numbers.len()).map(|at| numbers.get(at)).collect();
    let text = |number: &Number| {
        match &decoding.times {
            Some(times) => times.text(*number),
            None => None,
        }
        .unwrap_or_else(|| show(number))
    };
    if let Some(at) = all.iter().position(|number| *number == Number::Missing) {
        let count = all.iter().filter(|number| **number == Number::Missing).count();
        warn(
            Kind::MissingCoordinate,
            format!("{count} of {} elements are missing; the first is {at}", all.len()),
        );
        return Ok(());
    }
    let pairs = || all.iter().zip(all.iter().skip(1));
    let increases = pairs().all(|(a, b)| compare(a, b) == Ordering::Less);
    if !increases && !pairs().all(|(a, b)| compare(a, b) == Ordering::Greater) {
        let mut sorted: Vec<&Number> = all.iter().collect();
        sorted.sort_by(|a, b| compare(a, b));
        let mut neighbours = sorted.iter().zip(sorted.iter().skip(1));
        match neighbours.find(|(a, b)| compare(a, b) == Ordering::Equal) {
            Some((twice, _)) => {
                warn(Kind::DuplicateCoordinate, format!("the value {} occurs more than once", text(twice)));
            }
            None => {
                let rises = all.first().zip(all.get(1)).is_some_and(|(a, b)| compare(a, b) == Ordering::Less);
                let wrong = if rises { Ordering::Greater } else { Ordering::Less };
                let at = pairs().position(|(a, b)| compare(a, b) == wrong).unwrap_or(0);
                let (a, b) = (all.get(at).map(text), all.get(at + 1).map(text));
                let what = format!(
                    "the values neither rise nor fall: {} is followed by {} (element {})",
                    a.unwrap_or_default(),
                    b.unwrap_or_default(),
                    at + 1
                );
                warn(Kind::UnorderedCoordinate, what);
            }
        }
        return Ok(());
    }
    if decoding.times.is_some() {
        gaps(&all, &text, &warn);
    }
    Ok(())
}

/// Finds gaps in a sorted time axis.
fn gaps(all: &[Number], text: &dyn Fn(&Number) -> String, warn: &dyn Fn(Kind, String)) {
    let steps: Vec<f64> =
        all.iter().zip(all.iter().skip(1)).map(|(a, b)| (double(b) - double(a)).abs()).collect();
    let mut sorted = steps.clone();
    sorted.sort_by(f64::total_cmp);
    let Some(median) = sorted.get(sorted.len() / 2).copied().filter(|_| steps.len() >= 4) else { return };
    let long: Vec<usize> =
        steps.iter().enumerate().filter(|(_, step)| **step > GAP * median).map(|(at, _)| at).collect();
    if long.is_empty() || long.len() > (steps.len() / FEW).max(1) {
        return;
    }
    let Some(at) = long.first().copied() else { return };
    let (Some(before), Some(after)) = (all.get(at), all.get(at + 1)) else { return };
    let missing: f64 =
        long.iter().filter_map(|at| steps.get(*at)).map(|step| (step / median).round() - 1.0).sum();
    let what = format!(
        "{} of {} steps are longer than the others, as if {missing} times were missing; the first is from {} to {} \
         (element {})",
        long.len(),
        steps.len(),
        text(before),
        text(after),
        at + 1
    );
    warn(Kind::TimeGap, what);
}

/// Reads all numbers of an array.
fn read(array: &Array, decoding: &Decoding, ask: Ask<'_>) -> Result<Numbers> {
    let options = ReadOptions { interrupt: Some(ask), ..ReadOptions::default() };
    let stored = array.read(&array.select(&[])?, options)?;
    if array.dtype().order() == ByteOrder::NATIVE {
        return Ok(decoding.numbers(stored.as_slice()));
    }
    let mut stored = stored.as_slice().to_vec();
    swap_bytes(&mut stored, array.dtype().size());
    Ok(decoding.numbers(&stored))
}

fn double(number: &Number) -> f64 {
    match number {
        Number::Missing => f64::NAN,
        Number::Int(number) => *number as f64,
        Number::Float(number) => *number,
    }
}

fn compare(a: &Number, b: &Number) -> Ordering {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(b),
        // Zeros are equal whatever their sign.
        _ => double(a).partial_cmp(&double(b)).unwrap_or(Ordering::Equal),
    }
}

fn show(number: &Number) -> String {
    match number {
        Number::Missing => "missing".into(),
        Number::Int(number) => number.to_string(),
        Number::Float(number) => number.to_string(),
    }
}
