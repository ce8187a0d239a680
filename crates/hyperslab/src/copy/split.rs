//! Many copies of one source: cut along a dimension, one copy for each part.

use super::{CopyOptions, CopyReport, Region, copy, is_file_url};
use crate::meaning::Meaning;
use crate::stores::{self, Intent, StoreOptions, local_path, reach};
use crate::{Array, Error, Node, NodeKind, Result};
use hyperslab_zarr as zarr;
use std::collections::BTreeSet;

/// The most parts. More are a slip, as `--split time=1` of a long dimension without need.
const MOST_PARTS: u64 = 1 << 20;

/// One of the copies that a source is cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitPart {
    /// The place of the copy.
    pub destination: String,
    /// The range along the dimension.
    pub range: std::ops::Range<u64>,
}

/// Cuts a source along a dimension into parts of `len` steps; the last one may be shorter.
///
/// `pattern`: the destination of each part. `{}` in it becomes the number of the part, from 0, with as
/// many digits as the last one has; `{start}` and `{stop}` become the range of the part. Writes
/// nothing. Fails with [`Error::Options`] if two parts would have one name, or if no array has the
/// dimension.
pub fn split_parts(source: &Node, dimension: &str, len: u64, pattern: &str) -> Result<Vec<SplitPart>> {
    let refuse = |why: String| Error::Options(format!("split: {why}"));
    if len == 0 {
        return Err(refuse("a part has at least 1 step".into()));
    }
    let all = dimension_len(source, dimension)?;
    let count = all.div_ceil(len).max(1);
    if count > MOST_PARTS {
        return Err(refuse(format!("{count} parts are more than {MOST_PARTS}; choose longer ones")));
    }
    let digits = |n: u64| n.to_string().len();
    let (of_number, of_place) = (digits(count - 1), digits(all));
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for number in 0..count {
        let range = number * len..((number + 1).saturating_mul(len)).min(all);
        let destination = pattern
            .replace("{}", &format!("{number:0of_number$}"))
            .replace("{start}", &format!("{:0of_place$}", range.start))
            .replace("{stop}", &format!("{:0of_place$}", range.end));
        if !seen.insert(destination.clone()) {
            return Err(refuse(format!(
                "{count} parts need names of their own: put {{}}, {{start}} or {{stop}} into {pattern:?}"
            )));
        }
        parts.push(SplitPart { destination, range });
    }
    Ok(parts)
}

/// Copies parts of a source along a dimension, one after the other. Each copy is complete, or absent.
///
/// Fails before anything is written if one of them exists and [`CopyOptions::overwrite`] is not set.
/// `done` is called after each part, with its report.
pub fn split(
    source: &Node,
    dimension: &str,
    parts: &[SplitPart],
    options: &CopyOptions<'_>,
    done: &mut dyn FnMut(&SplitPart, &CopyReport),
) -> Result<()> {
    if let Some(region) = &options.region {
        let is_cut = match region {
            Region::Axes(_) => true,
            Region::Named(bounds) => bounds.iter().any(|(name, _)| name == dimension),
        };
        if is_cut {
            return Err(Error::Options(format!(
                "region: the source is split along '{dimension}'; a region may name other dimensions"
            )));
        }
    }
    if !options.overwrite {
        check_split(parts, &options.storage)?;
    }
    for part in parts {
        options.check()?;
        let bounds = [part.range.start, part.range.end].map(|at| Some(at.cast_signed()));
        let mut named = vec![(dimension.to_owned(), (bounds[0], bounds[1]))];
        if let Some(Region::Named(others)) = &options.region {
            named.extend(others.iter().cloned());
        }
        let options = CopyOptions { region: Some(Region::Named(named)), ..options.clone() };
        done(part, &copy(source, &part.destination, &options)?);
    }
    Ok(())
}

/// Fails with [`Error::Destination`] if something is at the place of a part. `storage`: options of the
/// server that gets the parts.
pub fn check_split(parts: &[SplitPart], storage: &[(String, String)]) -> Result<()> {
    parts.iter().try_for_each(|part| refuse_existing(&part.destination, storage))
}

fn refuse_existing(destination: &str, storage: &[(String, String)]) -> Result<()> {
    let refuse = || Error::Destination {
        path: destination.into(),
        why: "it exists already; set overwrite to replace it".into(),
    };
    if let Some(path) = local_path(destination)? {
        return if path.symlink_metadata().is_ok() { Err(refuse()) } else { Ok(()) };
    }
    if is_file_url(destination) {
        return stores::new_object(destination, storage, true).map(drop);
    }
    let wanted = StoreOptions { intent: Intent::Open, storage, ..StoreOptions::default() };
    let Ok(reached) = reach(destination, wanted) else { return Ok(()) };
    match zarr::open(&reached.store, &reached.path, None) {
        Ok(_) => Err(refuse()),
        Err(_) => Ok(()),
    }
}

/// The length of a dimension of the source.
fn dimension_len(source: &Node, dimension: &str) -> Result<u64> {
    let arrays: Vec<Array> = match source {
        Node::Array(array) => vec![array.clone()],
        Node::Group(group) => {
            let mut arrays = Vec::new();
            for below in group.below(None, None)? {
                if below.kind == NodeKind::Array {
                    arrays.push(group.open_below(&below)?.into_node()?.into_array()?);
                }
            }
            arrays
        }
    };
    let meaning = Meaning::of(source, arrays.iter())?;
    let mut found: Option<u64> = None;
    let mut names = BTreeSet::new();
    for array in arrays.iter().filter(|array| !array.has_no_shape()) {
        let Some(variable) = meaning.variable(array)? else { continue };
        for (name, len) in variable.dimension_names.iter().flatten().zip(&variable.shape) {
            let Some(name) = name else { continue };
            names.insert(name.clone());
            match found {
                _ if name != dimension => {}
                Some(before) if before != *len => {
                    return Err(Error::Options(format!(
                        "split: '{dimension}' is {before} long in one array, and {len} in '{}'",
                        array.name()
                    )));
                }
                _ => found = Some(*len),
            }
        }
    }
    found.ok_or_else(|| {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let names =
            if names.is_empty() { "axes have no names".to_owned() } else { format!("there are {names}") };
        Error::Options(format!("split: no array has a dimension named '{dimension}'; {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::{MemoryStore, Store};
    use hyperslab_zarr::{ArraySpec, Format};
    use std::sync::Arc;

    fn source(len: u64) -> Node {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut spec = ArraySpec::new(Format::V3, &[len, 2], "|u1".parse().unwrap());
        spec.dimension_names = Some(vec![Some("time".into()), Some("x".into())]);
        Node::Array(zarr::Array::create(store, "a", spec, false).unwrap().into())
    }

    #[test]
    fn names_of_parts() {
        let parts = |len, pattern: &str| split_parts(&source(23), "time", len, pattern);
        let names = |len, pattern: &str| {
            parts(len, pattern).unwrap().into_iter().map(|part| part.destination).collect::<Vec<_>>()
        };
        assert_eq!(names(10, "o-{}.nc"), ["o-0.nc", "o-1.nc", "o-2.nc"]);
        assert_eq!(names(2, "{}")[9..], ["09", "10", "11"]);
        assert_eq!(names(10, "{start}-{stop}"), ["00-10", "10-20", "20-23"]);
        assert_eq!(names(99, "one"), ["one"]);
        assert_eq!(parts(10, "{}").unwrap()[2].range, 20..23);
        let error = |found: Result<Vec<SplitPart>>| found.unwrap_err().to_string();
        assert!(error(parts(10, "same")).contains("put {}, {start} or {stop} into \"same\""));
        assert!(error(parts(0, "{}")).contains("at least 1 step"));
        let unknown = error(split_parts(&source(1), "tim", 1, "{}"));
        assert!(unknown.contains("no array has a dimension named 'tim'; there are time, x"), "{unknown}");
        assert_eq!(split_parts(&source(0), "time", 5, "{}").unwrap().len(), 1);
    }
}
