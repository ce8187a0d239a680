//! Constraints: which variables, and which parts of them. `sst[0:1:11][3],lat`.

use super::types::identifier;
use super::{Member, Wanted};
use hyperslab::Index;

/// A part of a variable.
pub(super) struct Projection<'d> {
    pub(super) member: &'d Member,
    /// First element, step, last element along each axis.
    pub(super) axes: Vec<(u64, u64, u64)>,
}

impl Projection<'_> {
    /// Elements along each axis.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.axes
            .iter()
            .map(|(first, step, last)| (last + 1).saturating_sub(*first).div_ceil(*step))
            .collect()
    }

    pub(super) fn indices(&self) -> Vec<Index<'static>> {
        let bound = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let index = |(first, step, last): &(u64, u64, u64)| Index::Slice {
            start: Some(bound(*first)),
            stop: Some(bound(last + 1)),
            step: bound(*step),
        };
        self.axes.iter().map(index).collect()
    }
}

/// The parts that a constraint selects; without one, everything.
pub(super) fn parts<'d>(members: &'d [Member], constraint: &str) -> Result<Wanted<'d>, String> {
    let (projection, selection) = constraint.split_once('&').unwrap_or((constraint, ""));
    // A token for the server is no selection.
    if let Some(clause) =
        selection.split('&').find(|clause| !clause.is_empty() && !clause.starts_with("token="))
    {
        return Err(format!(
            "constraint '&{clause}': only variables and parts can be selected, such as sst[0:9][3]"
        ));
    }
    if projection.is_empty() || projection.starts_with("token=") {
        return members.iter().map(|member| part(member, "")).collect();
    }
    projection
        .split(',')
        .map(|wanted| {
            let (name, slices) = wanted.split_at(wanted.find('[').unwrap_or(wanted.len()));
            let found = members.iter().find(|member| member.name == name || identifier(&member.name) == name);
            part(
                found.ok_or_else(|| {
                    format!("constraint '{wanted}': there is no variable '{name}'; ask for .dds")
                })?,
                slices,
            )
        })
        .collect()
}

/// A part of a variable, from `[0:1:11][3]`.
fn part<'d>(member: &'d Member, slices: &str) -> Result<Projection<'d>, String> {
    let shape = &member.variable.shape;
    let wrong = |why: &str| {
        format!("constraint '{}{slices}': {why}; its shape is {:?}", member.name, shape.as_slice())
    };
    if slices.is_empty() {
        let axes = shape.iter().map(|n| (0, 1, n.wrapping_sub(1))).collect::<Vec<_>>();
        // An axis without elements: its last element is before the first.
        let axes = axes
            .into_iter()
            .map(|(first, step, last)| if last == u64::MAX { (1, step, 0) } else { (first, step, last) });
        return Ok(Projection { member, axes: axes.collect() });
    }
    let inner = slices
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .ok_or_else(|| wrong("a bracket is missing"))?;
    let items: Vec<&str> = inner.split("][").collect();
    if items.len() != shape.len() {
        return Err(wrong(&format!("{} parts for {} axes", items.len(), shape.len())));
    }
    let axis = |(item, n): (&&str, &u64)| {
        let numbers: Option<Vec<u64>> = item.split(':').map(|text| text.trim().parse().ok()).collect();
        let (first, step, last) = match numbers.as_deref() {
            Some([at]) => (*at, 1, *at),
            Some([first, last]) => (*first, 1, *last),
            Some([first, step, last]) => (*first, *step, *last),
            _ => return Err(wrong(&format!("'{item}' is no part: FIRST, FIRST:LAST or FIRST:STEP:LAST"))),
        };
        match step > 0 && first <= last && last < *n {
            true => Ok((first, step, last)),
            false => Err(wrong(&format!("'{item}' is not inside"))),
        }
    };
    Ok(Projection { member, axes: items.iter().zip(shape).map(axis).collect::<Result<_, _>>()? })
}
