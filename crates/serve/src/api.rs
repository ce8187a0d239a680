//! `/api/…`: facts and values.

use crate::answer::{Answer, Asset};
use crate::path;
use crate::roots::{Found, Roots};
use crate::values::{self, Form};
use hyper::header::HeaderMap;
use hyperslab::array::ReadOptions;
use hyperslab::meaning::{Decoding, Number};
use hyperslab::statistics::{NumberTypes, StatisticsOptions, number_type, statistics};
use hyperslab::{
    Array, ByteOrder, ChunkMap, Error, Index, Json, Node, Result, Selection, explained, parse_indices,
};

/// The most nodes in a tree.
const MOST_NODES: usize = 10_000;
/// The deepest tree. Each level has two of JSON, whose readers stop at 128.
const MOST_DEPTH: usize = 60;
/// The most chunks that `explain` lists one by one.
const MOST_LISTED: usize = 1000;

/// A request.
pub(crate) struct Asked<'a> {
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) head: bool,
    /// The most bytes of an answer.
    pub(crate) most: u64,
    /// Returns `true` if nobody wants the answer.
    pub(crate) ask: &'a dyn Fn() -> bool,
}

impl Asked<'_> {
    fn value(&self, name: &str) -> Option<String> {
        path::query(self.query, name).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str, default: usize) -> Result<usize> {
        match self.value(name) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| Error::Options(format!("{name}: expected a number, found {text:?}")))
            }
        }
    }

    /// The selection of an array. A query without one selects everything.
    fn selection(&self, array: &Array) -> Result<Selection> {
        let text = self.value("select").unwrap_or_default();
        array.select(&parse_indices(&text).map_err(Error::Options)?)
    }
}

/// Answers a request below `/api`.
pub(crate) fn answer(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Result<Answer> {
    const ROUTES: &str = "tree, info, attributes, data, stats, explain, chunks, point, series";
    let Some((what, parts)) = parts.split_first() else {
        return Ok(Answer::problem(404, "/api", "no route", format!("ask for one of: {ROUTES}")));
    };
    let route: fn(&Place<'_>, &Asked<'_>) -> Result<Answer> = match what.as_str() {
        "tree" => return tree(roots, parts, asked),
        "info" => info,
        "attributes" => |place, _| Ok(Answer::json(&*place.node.attributes()?)),
        "data" => data,
        "stats" => stats,
        "explain" => explain,
        "chunks" => chunks,
        "point" => point,
        "series" => series,
        other => {
            return Ok(Answer::problem(
                404,
                format!("/api/{other}"),
                "no route",
                format!("ask for one of: {ROUTES}"),
            ));
        }
    };
    let missing = |found| Ok(Answer::problem(404, parts.join("/"), found, "list what is there: /api/tree"));
    match roots.find(parts)? {
        Found::Nothing => missing("nothing is there"),
        Found::Folder(_) => missing("a folder, which is no array or group"),
        Found::Inside(hierarchy, inside) => match hierarchy.node(&inside)? {
            None => missing("no array or group"),
            Some(node) => route(&Place { roots, parts, node }, asked),
        },
    }
}

/// A node, and the path that leads to it.
struct Place<'a> {
    roots: &'a Roots,
    parts: &'a [String],
    node: Node,
}

impl Place<'_> {
    fn array(&self) -> Result<Array> {
        self.node.clone().into_array()
    }

    /// The array beside this one that has the values along an axis.
    fn coordinate(&self, name: &str) -> Result<Option<Array>> {
        let Some((_, above)) = self.parts.split_last() else { return Ok(None) };
        let parts = [above, &[name.to_owned()]].concat();
        Ok(match self.roots.find(&parts)? {
            Found::Inside(hierarchy, inside) => match hierarchy.node(&inside)? {
                Some(Node::Array(array)) if array.shape().len() == 1 => Some(array),
                _ => None,
            },
            _ => None,
        })
    }
}

fn tree(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Result<Answer> {
    let depth = asked.number("depth", MOST_DEPTH)?.min(MOST_DEPTH);
    let mut left = MOST_NODES;
    let Some(json) = branch(roots, parts, depth, &mut left, asked.ask)? else {
        let found = "nothing is there";
        return Ok(Answer::problem(404, parts.join("/"), found, "list what is there: /api/tree"));
    };
    Ok(Answer::json(&json))
}

/// The node at a path, and everything below it. `None`: nothing is there.
fn branch(
    roots: &Roots,
    parts: &[String],
    depth: usize,
    left: &mut usize,
    ask: &dyn Fn() -> bool,
) -> Result<Option<Json>> {
    if ask() {
        return Err(Error::Interrupted);
    }
    let (mut members, below): (Vec<(&str, Json)>, Vec<String>) = match roots.find(parts)? {
        Found::Nothing => return Ok(None),
        Found::Folder(entries) => {
            (vec![("kind", "folder".into())], entries.into_iter().map(|entry| entry.name).collect())
        }
        Found::Inside(hierarchy, inside) => match hierarchy.node(&inside)? {
            None => return Ok(None),
            Some(Node::Array(array)) => (described(&array)?, Vec::new()),
            Some(Node::Group(group)) => {
                let kind =
                    vec![("kind", "group".into()), ("format", group.format().to_string().as_str().into())];
                (kind, hierarchy.children(&inside)?)
            }
        },
    };
    if depth > 0 && !below.is_empty() {
        let mut nodes = Vec::new();
        for name in below {
            let Some(rest) = left.checked_sub(1) else {
                members.push(("truncated", true.into()));
                break;
            };
            *left = rest;
            let parts = [parts, std::slice::from_ref(&name)].concat();
            match branch(roots, &parts, depth - 1, left, ask) {
                Ok(Some(node)) => nodes.push((name, node)),
                Ok(None) => {}
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let why = roots.hidden(&error.to_string());
                    let broken = [("kind", "unreadable".into()), ("found", why.as_str().into())];
                    nodes.push((name, Json::from(broken)));
                }
            }
        }
        members.push(("members", Json::Object(nodes)));
    }
    Ok(Some(Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())))
}

/// The facts about an array that cost nothing.
fn described(array: &Array) -> Result<Vec<(&'static str, Json)>> {
    Ok(vec![
        ("kind", "array".into()),
        ("format", array.format().to_string().as_str().into()),
        ("shape", array.shape().into()),
        ("dtype", array.type_words().as_str().into()),
        ("chunks", if array.has_chunks() { array.chunk_shape().into() } else { Json::Null }),
        ("dimension_names", names(array)?),
    ])
}

fn names(array: &Array) -> Result<Json> {
    let name = |name: &Option<String>| name.as_deref().map_or(Json::Null, Json::from);
    Ok(array.dimension_names()?.map_or(Json::Null, |names| Json::Array(names.iter().map(name).collect())))
}

fn info(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let mut json = match &place.node {
        Node::Array(array) => array.info(Some(asked.ask))?.to_json(),
        Node::Group(group) => group.info(Some(asked.ask))?.to_json(),
    };
    json.set("url", place.parts.join("/").as_str().into());
    Ok(Answer::json(&json))
}

fn data(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let (array, form) = (&place.array()?, Form::parse(asked.value("format").as_deref().unwrap_or("json"))?);
    let selection = asked.selection(array)?;
    let shape = selection.shape();
    let made: Asset = values::read(array, &selection, form, asked.most, asked.ask)?;
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let answer = Answer::asset(made, asked.headers, asked.head)?;
    let little = array.dtype().with_order(ByteOrder::Little).numpy();
    Ok(answer
        .with("x-shape", &shape.join(","))
        .with("x-dtype", if array.vlen().is_some() { "text" } else { &little }))
}

fn stats(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let region = match asked.value("select") {
        None => None,
        Some(text) => Some(asked.selection(array)?.ranges().ok_or_else(|| {
            Error::Options(format!(
                "select: {text:?} has steps: statistics are of integers and slices of step 1"
            ))
        })?),
    };
    let raw = asked.value("raw").is_some();
    let stop = Stop(asked.ask);
    let options = StatisticsOptions { region, raw, progress: Some(&stop), ..StatisticsOptions::default() };
    let part = statistics(array, &options)?;
    let is_float = NumberTypes::of(array, raw)?.is_some_and(|types| types.is_float());
    let number = |float: f64, int: i128| match (part.count, is_float) {
        (0, _) => Json::Null,
        (_, true) => Json::float(float),
        _ => int.into(),
    };
    let float = |n: Option<f64>| n.map_or(Json::Null, Json::float);
    Ok(Answer::json(&Json::from([
        ("count", part.count.into()),
        ("missing", part.missing.into()),
        ("min", number(part.min, part.min_int)),
        ("max", number(part.max, part.max_int)),
        ("sum", number(part.sum.value(), part.sum_int)),
        ("mean", float(part.mean())),
        ("std", float(part.std())),
    ])))
}

/// Stops statistics that nobody waits for.
struct Stop<'a>(&'a dyn Fn() -> bool);

impl hyperslab::copy::Progress for Stop<'_> {
    fn cancelled(&self) -> bool {
        (self.0)()
    }
}

fn explain(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let list = asked.number("list", 10)?.min(MOST_LISTED);
    Ok(Answer::json(&explained(&array.explain_read(&asked.selection(array)?, list)?)))
}

/// The chunk map. `format=raw`: the bytes of each unit of the grid in C order, as little-endian
/// integers of 64 bits; 2⁶⁴ − 1 for absent ones.
fn chunks(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let ChunkMap { unit, shape, grid, stored, .. } = place.array()?.chunk_map(Some(asked.ask))?;
    let total = grid.iter().fold(1u64, |n, count| n.saturating_mul(*count));
    let number = |at: &[u64]| at.iter().zip(&grid).fold(0u64, |n, (at, count)| n * count + at);
    match (asked.value("format").as_deref(), stored) {
        (Some("raw"), None) => {
            Err(Error::Options("the store does not list its chunks: nobody knows which are stored".into()))
        }
        (Some("raw"), Some(stored)) => {
            let len = total.checked_mul(8).filter(|len| *len <= asked.most).ok_or_else(|| {
                Error::Options(format!("{total} chunks are too many for format=raw: ask without it"))
            })?;
            let mut bytes = vec![0xff; usize::try_from(len).unwrap_or(0)];
            for (at, len) in &stored {
                let start = usize::try_from(number(at) * 8).unwrap_or(usize::MAX);
                if let Some(cell) = bytes.get_mut(start..start.saturating_add(8)) {
                    cell.copy_from_slice(&len.to_le_bytes());
                }
            }
            Ok(Answer::new(200, "application/octet-stream", crate::body::Body::of(bytes)))
        }
        (None | Some("json"), stored) => {
            let one = |(at, bytes): &(_, u64)| {
                let at: &hyperslab::Dims = at;
                Json::from([number(at), *bytes].as_slice())
            };
            let stored = stored.map_or(Json::Null, |stored| Json::Array(stored.iter().map(one).collect()));
            Ok(Answer::json(&Json::from([
                ("unit", unit.into()),
                ("shape", shape.as_slice().into()),
                ("grid", grid.as_slice().into()),
                ("total", total.into()),
                ("stored", stored),
            ])))
        }
        (Some(other), _) => Err(Error::Options(format!("format: expected json or raw, found {other:?}"))),
    }
}

/// One element, as it is stored and as it is meant, with its coordinates.
fn point(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let text = asked.value("at").unwrap_or_default();
    let indices = parse_indices(&text).map_err(Error::Options)?;
    let at: Option<Vec<i64>> =
        indices.iter().map(|index| if let Index::At(at) = index { Some(*at) } else { None }).collect();
    let at = at.filter(|at| at.len() == array.shape().len()).ok_or_else(|| {
        let rank = array.shape().len();
        Error::Options(format!("at: expected {rank} integers, such as at=0,1, found {text:?}"))
    })?;
    let (stored, meant) = both(array, &array.select(&indices)?, asked)?;
    let mut coordinates = Vec::new();
    let axes = at.iter().zip(array.shape());
    for (name, (index, n)) in array.dimension_names()?.unwrap_or_default().iter().zip(axes) {
        // Coordinates may have more elements than this array: count from the beginning.
        let index = if *index < 0 { index.saturating_add_unsigned(*n) } else { *index };
        let Some(name) = name else { continue };
        if let Some(axis) = place.coordinate(name)? {
            let (_, meant) = both(&axis, &axis.select(&[Index::At(index)])?, asked)?;
            coordinates.push((name.clone(), meant.into_iter().next().unwrap_or(Json::Null)));
        }
    }
    let first = |values: Vec<Json>| values.into_iter().next().unwrap_or(Json::Null);
    Ok(Answer::json(&Json::from([
        ("stored", first(stored)),
        ("value", first(meant)),
        ("coordinates", Json::Object(coordinates)),
    ])))
}

/// The values along one axis, with its coordinates.
fn series(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let selection = asked.selection(array)?;
    let ranges = selection.ranges().unwrap_or_default();
    let along: Vec<usize> = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.end - range.start > 1)
        .map(|(axis, _)| axis)
        .collect();
    let [axis] = along[..] else {
        let text = asked.value("select").unwrap_or_default();
        return Err(Error::Options(format!(
            "select: {text:?} is along {} axes: give one slice of step 1, and integers for the others",
            along.len()
        )));
    };
    let range = ranges.get(axis).cloned().unwrap_or(0..0);
    let name = array.dimension_names()?.and_then(|names| names.get(axis).cloned().flatten());
    let (_, meant) = both(array, &selection, asked)?;
    let coordinate = match name.as_deref().map(|name| place.coordinate(name)).transpose()?.flatten() {
        Some(values) => {
            let bound = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
            let slice = Index::Slice { start: bound(range.start), stop: bound(range.end), step: 1 };
            Json::Array(both(&values, &values.select(&[slice])?, asked)?.1)
        }
        None => Json::Null,
    };
    Ok(Answer::json(&Json::from([
        ("axis", u64::try_from(axis).unwrap_or(0).into()),
        ("name", name.as_deref().map_or(Json::Null, Json::from)),
        ("start", range.start.into()),
        ("coordinate", coordinate),
        ("values", Json::Array(meant)),
    ])))
}

/// The elements of a selection as they are stored, and as the conventions mean them: unpacked, dates in
/// words, missing ones as `null`.
fn both(array: &Array, selection: &Selection, asked: &Asked<'_>) -> Result<(Vec<Json>, Vec<Json>)> {
    let options = ReadOptions { interrupt: Some(asked.ask), ..ReadOptions::default() };
    let stored = values::bounded(array, selection, asked.most / 8)
        .and_then(|()| values::listable(array, &selection.shape(), asked.most))
        .and_then(|()| values::listed(array, selection, options))?;
    if number_type(array).is_none() || array.optional().is_some() {
        return Ok((stored.clone(), stored));
    }
    // Attributes without a meaning are no reason to hide the numbers.
    let Ok(decoding) = Decoding::of(array) else { return Ok((stored.clone(), stored)) };
    let numbers = decoding.numbers(&values::native(array, selection, options)?);
    let meant = (0..numbers.len()).map(|at| match (numbers.get(at), &decoding.times) {
        (Number::Missing, _) => Json::Null,
        (number, Some(times)) => {
            times.text(number).map_or_else(|| plain(number), |text| text.as_str().into())
        }
        (number, None) => plain(number),
    });
    Ok((stored, meant.collect()))
}

fn plain(number: Number) -> Json {
    match number {
        Number::Missing => Json::Null,
        Number::Int(int) => int.into(),
        Number::Float(float) => Json::float(float),
    }
}
