//! The coordinate of the dimension: sorts sources by it, and finds out whether it is monotone.

use super::facts::Facts;
use super::sources::JoinSource;
use super::{Joining, on_threads};
use crate::meaning::{Retiming, time_scale};
use crate::nodes::element::swap_bytes;
use crate::{Array, Error, Node, ReadOptions, Result, Selection};
use hyperslab_array::ConvertElements;
use hyperslab_codec::{ByteOrder, Kind};
use hyperslab_store::Ask;
use std::cmp::Ordering;
use std::sync::Arc;

/// A stored number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i128),
    Float(f64),
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(one), Number::Whole(other)) => one.partial_cmp(other),
            (Number::Float(one), Number::Float(other)) => one.partial_cmp(other),
            _ => None,
        }
    }
}

/// The ends of the coordinate in one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    first: Number,
    last: Number,
    /// The direction from each element to the next; `None`: not the same everywhere. Equal: there is
    /// one element.
    direction: Option<Ordering>,
}

impl Ends {
    /// The ends of the coordinate in a source. `None`: there is none, or it has no elements.
    /// `retiming`: the change of its times.
    pub(super) fn of(
        facts: &Facts,
        joining: Joining<'_>,
        retiming: Option<&Arc<Retiming>>,
    ) -> Result<Option<Ends>> {
        let coordinate = facts.array(joining.dimension).filter(|array| array.axis == Some(0));
        let Some(found) = coordinate.filter(|_| joining.compare || joining.sort) else { return Ok(None) };
        if found.array.shape().len() != 1 || found.array.vlen().is_some() {
            return Ok(None);
        }
        Ok(Ends::of_numbers(&numbers(&found.array, retiming)?))
    }

    fn of_numbers(numbers: &[Number]) -> Option<Ends> {
        let (first, last) = (*numbers.first()?, *numbers.last()?);
        let mut steps = numbers.windows(2).map(|pair| pair.first().partial_cmp(&pair.last()));
        let direction = match steps.next() {
            None => Some(Ordering::Equal),
            Some(step) => {
                step.filter(|step| *step != Ordering::Equal && steps.all(|other| other == Some(*step)))
            }
        };
        Some(Ends { first, last, direction })
    }
}

/// The elements of an array of numbers; nothing for other elements.
fn numbers(array: &Array, retiming: Option<&Arc<Retiming>>) -> Result<Vec<Number>> {
    let mut dtype = array.dtype();
    let kind = dtype.kind();
    if !matches!(kind, Kind::Int | Kind::UInt | Kind::Float | Kind::DateTime(_) | Kind::TimeDelta(_)) {
        return Ok(Vec::new());
    }
    // Several threads do this side by side.
    let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
    let read = array.read(&Selection::all(array.shape()), options)?;
    let mut bytes = read.as_slice().to_vec();
    if let Some(retiming) = retiming {
        retiming.convert(read.as_slice(), &mut bytes);
        dtype = retiming.target();
    }
    if dtype.order() != ByteOrder::Little {
        swap_bytes(&mut bytes, dtype.number_size());
    }
    let one = |bytes: &[u8]| {
        let mut wide = [0; 16];
        let negative = kind != Kind::UInt && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        wide.fill(if negative { 0xff } else { 0 });
        wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        match (kind, bytes.len()) {
            (Kind::Float, 4) => Some(Number::Float(f32::from_le_bytes(bytes.try_into().ok()?).into())),
            (Kind::Float, 8) => Some(Number::Float(f64::from_le_bytes(bytes.try_into().ok()?))),
            (Kind::Float, _) => None,
            _ => Some(Number::Whole(i128::from_le_bytes(wide))),
        }
    };
    Ok(bytes.chunks_exact(dtype.size().max(1)).filter_map(one).collect())
}

/// The source at which the coordinate changes its direction. `None`: it rises or falls all the way, or
/// there is no coordinate.
pub(super) fn first_turn(ends: &[Option<&Ends>]) -> Option<usize> {
    let mut way: Option<Ordering> = None;
    let mut before: Option<Number> = None;
    for (number, ends) in ends.iter().enumerate() {
        let Some(ends) = ends else { continue };
        let between = before.map(|last| last.partial_cmp(&ends.first));
        let inside = (ends.direction != Some(Ordering::Equal)).then_some(ends.direction);
        for step in [between, inside].into_iter().flatten() {
            match step {
                Some(step) if step != Ordering::Equal && way.is_none_or(|way| way == step) => {
                    way = Some(step)
                }
                _ => return Some(number),
            }
        }
        before = Some(ends.last);
    }
    None
}

/// The sources in the order of the first value of the coordinate. Sources without elements come first.
pub(super) fn sorted(
    sources: Vec<JoinSource>,
    joining: Joining<'_>,
    ask: Option<Ask<'_>>,
) -> Result<Vec<JoinSource>> {
    let refuse = |why: String| Error::Join { dimension: joining.dimension.to_owned(), why };
    let mut keyed = on_threads(sources, joining.threads, ask, &|source: JoinSource| {
        let root = source.open()?;
        if matches!(root, Node::Array(_)) {
            return Err(refuse("arrays cannot be sorted by a coordinate".into()));
        }
        let facts = Facts::of(&root, Joining { variables: None, ..joining })?;
        let Some(found) = facts.array(joining.dimension).filter(|found| found.array.vlen().is_none()) else {
            let (name, dimension) = (source.name(), joining.dimension);
            return Err(refuse(format!("{name} has no coordinate named '{dimension}' by which to sort")));
        };
        let first =
            numbers(&found.array, None)?.first().map(|first| match (time_scale(&found.variable), *first) {
                (None, first) => first,
                (Some((unit, date)), Number::Whole(n)) => {
                    Number::Whole(n.saturating_mul(unit).saturating_add(date))
                }
                // Exact enough for the order of files.
                (Some((unit, date)), Number::Float(n)) => {
                    Number::Whole(((n * unit as f64) as i128).saturating_add(date))
                }
            });
        Ok((first, source))
    })?;
    keyed.sort_by(|(one, _), (other, _)| match (one, other) {
        (Some(one), Some(other)) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
        (one, other) => one.is_some().cmp(&other.is_some()),
    });
    Ok(keyed.into_iter().map(|(_, source)| source).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(numbers: &[i128]) -> Option<Ends> {
        Ends::of_numbers(&numbers.iter().map(|n| Number::Whole(*n)).collect::<Vec<_>>())
    }

    fn turn(sources: &[&[i128]]) -> Option<usize> {
        let all: Vec<Option<Ends>> = sources.iter().map(|numbers| ends(numbers)).collect();
        first_turn(&all.iter().map(Option::as_ref).collect::<Vec<_>>())
    }

    #[test]
    fn turns_of_a_coordinate() {
        for (sources, expected) in [
            (&[&[1, 2][..], &[3], &[4, 5]][..], None),
            (&[&[9, 8], &[], &[7]], None),
            (&[&[1, 2], &[2, 3]], Some(1)),
            (&[&[1, 3, 2], &[4]], Some(0)),
            (&[&[3], &[4], &[1, 2]], Some(2)),
            (&[&[5], &[4], &[6]], Some(2)),
            (&[&[], &[7]], None),
            (&[&[7, 7]], Some(0)),
        ] {
            assert_eq!(turn(sources), expected, "{sources:?}");
        }
    }
}
