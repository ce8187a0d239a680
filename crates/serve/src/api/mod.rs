//! `/api/…`: facts and values.
//!
//! | file | routes |
//! |---|---|
//! | `tree` | `tree` |
//! | `facts` | `info`, `attributes`, `explain`, `describe`, `version` |
//! | `advice` | `advise` |
//! | `chunks` | `chunks`, `bad` |
//! | `download` | `download` |
//! | `elements` | `data`, `point`, `series` |
//! | `labels` | `coordinates`, `table` |
//! | `numbers` | `stats`, `plane`, `histogram` |

mod advice;
mod chunks;
mod download;
mod elements;
mod facts;
mod labels;
mod numbers;
mod tree;

use crate::answer::Answer;
use crate::hierarchy::Hierarchy;
use crate::path;
use crate::roots::{Found, Roots};
use hyper::header::HeaderMap;
use hyperslab::look::Window;
use hyperslab::meaning::{self, Axis, Pyramid};
use hyperslab::{Array, Error, Node, Result, Selection, parse_indices};
use std::sync::Arc;

/// The routes, with what they need.
const ROUTES: [(&str, Route); 17] = [
    ("info", facts::info),
    ("attributes", facts::attributes),
    ("describe", facts::describe),
    ("version", facts::version),
    ("explain", facts::explain),
    ("advise", advice::advise),
    ("chunks", chunks::chunks),
    ("bad", chunks::bad),
    ("data", elements::data),
    ("download", download::download),
    ("point", elements::point),
    ("series", elements::series),
    ("coordinates", labels::coordinates),
    ("table", labels::table),
    ("stats", numbers::stats),
    ("plane", numbers::plane),
    ("histogram", numbers::histogram),
];

/// Answers a question about a node.
type Route = fn(&Place<'_>, &Asked<'_>) -> Result<Answer>;

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

    /// The number of a name in the query.
    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let wrong = |_| Error::Options(format!("{name}: expected a number, found {text:?}"));
        text.parse().map(Some).map_err(wrong)
    }

    /// The selection of an array. A query without one selects everything.
    fn selection(&self, array: &Array) -> Result<Selection> {
        let text = self.value("select").unwrap_or_default();
        array.select(&parse_indices(&text).map_err(Error::Options)?)
    }

    /// The selection as a window: integers and slices, or names of axes.
    fn window(&self, array: &Array) -> Result<Window> {
        let text = self.value("select").unwrap_or_default();
        Window::parse(array, &text)?.map_err(|why| Error::Options(format!("select: {why}")))
    }
}

/// Answers a request below `/api`.
pub(crate) fn answer(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Result<Answer> {
    let no_route = |asked: String| {
        let names: Vec<&str> = std::iter::once("tree").chain(ROUTES.map(|(name, _)| name)).collect();
        Ok(Answer::problem(404, asked, "no route", format!("ask for one of: {}", names.join(", "))))
    };
    let Some((what, parts)) = parts.split_first() else { return no_route("/api".into()) };
    if what == "tree" {
        return tree::tree(roots, parts, asked);
    }
    let Some((_, route)) = ROUTES.iter().find(|(name, _)| name == what) else {
        return no_route(format!("/api/{what}"));
    };
    let missing = |found| Ok(Answer::problem(404, parts.join("/"), found, "list what is there: /api/tree"));
    match roots.find(parts)? {
        Found::Nothing => missing("nothing is there"),
        Found::Folder(_) => missing("a folder, which is no array or group"),
        Found::Inside(hierarchy, inside) => match hierarchy.node(&inside)? {
            None => missing("no array or group"),
            Some(node) => route(&Place { roots, parts, hierarchy, inside, node }, asked),
        },
    }
}

/// A node, and the path that leads to it.
pub(crate) struct Place<'a> {
    pub(crate) roots: &'a Roots,
    /// The path in requests.
    pub(crate) parts: &'a [String],
    pub(crate) hierarchy: Arc<Hierarchy>,
    /// The path in the hierarchy.
    pub(crate) inside: String,
    pub(crate) node: Node,
}

impl Place<'_> {
    pub(crate) fn array(&self) -> Result<Array> {
        self.node.clone().into_array()
    }

    /// The paths of the hierarchy's root: in requests, and in its store or file.
    fn base(&self) -> (String, String) {
        // A variable may have another name than its dataset: compare the groups.
        let group =
            |path: &str| path.trim_matches('/').rsplit_once('/').map_or("", |(above, _)| above).to_owned();
        let (inside, stored) = (group(&self.inside), group(self.node.path()));
        let own = stored.strip_suffix(inside.as_str()).unwrap_or(&stored).trim_end_matches('/').to_owned();
        let depth = if self.inside.is_empty() { 0 } else { self.inside.split('/').count() };
        let above = self.parts.get(..self.parts.len().saturating_sub(depth)).unwrap_or_default();
        // The node is the root itself.
        let own = if self.inside.is_empty() { self.node.path().trim_matches('/').to_owned() } else { own };
        (above.join("/"), own)
    }

    /// The path of a request for another array of the same hierarchy. `None`: it is not in there, so it
    /// is not served.
    fn path_of(&self, array: &Array) -> Option<String> {
        let (above, own) = self.base();
        let path = array.path().trim_matches('/');
        let inside = match own.is_empty() {
            true => path,
            false => {
                path.strip_prefix(own.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))?
            }
        };
        let inside = inside.trim_start_matches('/');
        Some(if inside.is_empty() { above } else { format!("{above}/{inside}") })
    }

    /// The array with the coordinates of an axis, if it is served.
    fn coordinate(&self, array: &Array, name: &str, len: u64) -> Result<Option<Array>> {
        Ok(meaning::coordinate(array, name, len)?.filter(|found| self.path_of(found).is_some()))
    }

    /// The axes of the array, with coordinates that are served.
    pub(crate) fn axes(&self, array: &Array, pyramid: Option<&Pyramid>) -> Result<Vec<Axis>> {
        let mut axes = meaning::axes(array, pyramid)?;
        for axis in &mut axes {
            axis.coordinate.take_if(|array| self.path_of(array).is_none());
        }
        Ok(axes)
    }

    /// Returns `true` if everything around the array in its store or file is served.
    pub(crate) fn is_whole(&self) -> bool {
        self.base().1.is_empty()
    }
}
