//! Opens nodes, and divides places into stores and paths.

use crate::errors::OrRaise;
use crate::nodes::create::format;
use crate::nodes::handles::NodeHandle;
use crate::stores::store::{StoreHandle, prepare_files};
use hyperslab::Error;
use hyperslab::open::{self, Location, Mode, Opened, Opening, Place};
use hyperslab::stores::StoreOptions;
use hyperslab::zarr::{Consolidation, NodeKind};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The place in a call from Python: a store, or a path or URL.
pub(crate) enum Given {
    Store(Place),
    Text(String),
    Path(PathBuf),
}

impl Given {
    /// `base` and `read_only` describe a place in a store that is already open.
    fn new(given: &Bound<'_, PyAny>, base: &str, read_only: bool) -> PyResult<Self> {
        if let Ok(store) = given.cast::<StoreHandle>() {
            return Ok(Given::Store(store.get().place(base, read_only)));
        }
        // A path that is not UTF-8 is not a URL.
        match given.extract::<String>() {
            Ok(text) => Ok(Given::Text(text)),
            Err(_) => Ok(Given::Path(given.extract()?)),
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Opened, Error> {
        match self {
            Given::Store(place) => open::open_in(place.clone(), opening),
            Given::Text(text) => open::open(Location::Text(text), opening),
            Given::Path(path) => open::open(Location::Path(path), opening),
        }
    }

    fn place(&self, path: &str, mode: Option<Mode>, store: StoreOptions<'_>) -> Result<Place, Error> {
        match self {
            Given::Store(place) => Ok(place.clone()),
            Given::Text(text) => Place::reach(Location::Text(text), mode, store),
            Given::Path(path) => Place::reach(Location::Path(path), mode, store),
        }?
        .below(path, mode)
    }

    /// The handle of a place's store. `None`: it is the store that was given.
    fn handle(&self, place: &Place) -> Option<StoreHandle> {
        match self {
            Given::Store(given) => {
                (given.file.is_none() && place.file.is_some()).then(|| StoreHandle::of_place(place, None))
            }
            Given::Text(text) => Some(StoreHandle::of_place(place, Some(text))),
            Given::Path(_) => Some(StoreHandle::of_place(place, None)),
        }
    }
}

fn mode(py: Python<'_>, name: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Mode>> {
    name.map(|name| name.str()?.to_string().parse::<Mode>().or_raise(py)).transpose()
}

fn kind(name: Option<&str>) -> Option<NodeKind> {
    match name {
        Some("array") => Some(NodeKind::Array),
        Some("group") => Some(NodeKind::Group),
        _ => None,
    }
}

/// Consolidated metadata only (true), never (false), or if it exists.
fn consolidation(consolidated: Option<bool>) -> Consolidation {
    match consolidated {
        None => Consolidation::Auto,
        Some(true) => Consolidation::Require,
        Some(false) => Consolidation::Ignore,
    }
}

/// The store, the path in it, and whether it is read-only there.
type FoundPlace = (Option<StoreHandle>, String, bool);

/// Divides a place into a store and a path. Fails if the mode does not fit.
///
/// `given`: a store, with the path `base`; or a path or URL. The store in the result is `None` if
/// it was given.
#[pyfunction]
#[pyo3(signature = (given, base="", read_only=false, path="", mode=None, fsync=false, storage=Vec::new()))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn find_place(
    py: Python<'_>,
    given: &Bound<'_, PyAny>,
    base: &str,
    read_only: bool,
    path: &str,
    mode: Option<&Bound<'_, PyAny>>,
    fsync: bool,
    storage: Vec<(String, String)>,
) -> PyResult<FoundPlace> {
    let (mode, given) = (self::mode(py, mode)?, Given::new(given, base, read_only)?);
    prepare_files();
    let options = StoreOptions { fsync, storage: &storage, ..StoreOptions::default() };
    let place = py.detach(|| given.place(path, mode, options)).or_raise(py)?;
    let handle = given.handle(&place);
    Ok((handle, place.path, place.read_only))
}

/// Opens the node at a place: see `find_place`. The node in the result is `None` if it does not
/// exist and the mode creates it. `kind`: "array" or "group".
#[pyfunction]
#[pyo3(signature = (given, base, read_only, path, mode, fsync, storage, zarr_format, kind, consolidated))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn open_place(
    py: Python<'_>,
    given: &Bound<'_, PyAny>,
    base: &str,
    read_only: bool,
    path: &str,
    mode: Option<&Bound<'_, PyAny>>,
    fsync: bool,
    storage: Vec<(String, String)>,
    zarr_format: Option<u32>,
    kind: Option<&str>,
    consolidated: Option<bool>,
) -> PyResult<(Option<StoreHandle>, String, bool, Option<NodeHandle>)> {
    let (mode, given) = (self::mode(py, mode)?, Given::new(given, base, read_only)?);
    let opening = Opening {
        mode,
        path,
        format: format(zarr_format)?,
        kind: self::kind(kind),
        consolidation: consolidation(consolidated),
        store: StoreOptions { fsync, storage: &storage, ..StoreOptions::default() },
    };
    prepare_files();
    let Opened { place, node } = py.detach(|| given.open(&opening)).or_raise(py)?;
    let handle = given.handle(&place);
    Ok((handle, place.path, place.read_only, node.map(NodeHandle::from)))
}

/// Opens the node that is known to be at a path in a store.
#[pyfunction]
#[pyo3(signature = (store, path, zarr_format=None, consolidated=None))]
pub(crate) fn open_node(
    py: Python<'_>,
    store: &StoreHandle,
    path: &str,
    zarr_format: Option<u32>,
    consolidated: Option<bool>,
) -> PyResult<NodeHandle> {
    let (format, consolidation) = (format(zarr_format)?, consolidation(consolidated));
    let (place, opening) = (store.place(path, true), Opening { format, consolidation, ..Opening::default() });
    NodeHandle::open_found(py, || open::node_at(&place, &opening))
}
