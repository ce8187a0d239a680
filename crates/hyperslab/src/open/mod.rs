//! Opening: the one way from a path, a URL or a store to a node.
//!
//! The Python package, its engine for xarray and the command line all come here. A location is
//! divided into a store and a path in it ([`Place`]). The [`Mode`] says what happens to a node that
//! exists, and to one that does not.
//!
//! A Zarr node on the local disk is first looked for without looking at the files around it. If it
//! is there, this takes the fewest system calls.

mod missing;
mod mode;
mod place;

pub use mode::Mode;
pub use place::{Location, Place};

use crate::stores::{Intent, StoreOptions};
use crate::{DataFile, Error, Node, Object, Result};
use hyperslab_zarr::{self as zarr, Consolidation, Format, NodeKind, Wanted, ZarrError};
use missing::{is_missing, missing};

/// How to open a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening<'o> {
    /// `None`: as [`Mode::Change`], but a store that is read-only is opened, too.
    pub mode: Option<Mode>,
    /// The path of the node, relative to the location.
    pub path: &'o str,
    /// Only a Zarr node of this format.
    pub format: Option<Format>,
    /// Only this kind of node.
    pub kind: Option<NodeKind>,
    /// The use of consolidated metadata.
    pub consolidation: Consolidation,
    /// How to open the store.
    pub store: StoreOptions<'o>,
}

/// A place, and the node that is there.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The place of the node. If the node is in a file, the place is in the file.
    pub place: Place,
    /// The node. `None`: it does not exist, and the mode creates it.
    pub node: Option<Object>,
}

impl Opened {
    /// The array or group. Fails if there is none, or if the object is something else.
    pub fn into_node(self) -> Result<Node> {
        match self.node {
            Some(node) => node.into_node(),
            None => {
                let why =
                    format!("there is no array or group at '{}' in {}", self.place.path, self.place.url());
                Err(Error::Missing { kind: None, why, below: Vec::new() })
            }
        }
    }
}

/// Opens the node at a path or URL.
///
/// The path may lead into a Zarr hierarchy, an HDF5 or NetCDF file, an archive, or a document of
/// references. Fails with [`Error::Missing`] if there is no node and the mode does not create one.
pub fn open(location: Location<'_>, opening: &Opening<'_>) -> Result<Opened> {
    if let Some(opened) = open_unseen(location, opening) {
        return Ok(opened);
    }
    let place = Place::reach(location, opening.mode, opening.store)?;
    open_in(place, opening)
}

/// Like [`open`], for a place that is known.
pub fn open_in(place: Place, opening: &Opening<'_>) -> Result<Opened> {
    let place = place.below(opening.path, opening.mode)?;
    match opening.mode {
        Some(Mode::New) => {
            place.check_empty()?;
            return Ok(Opened { place, node: None });
        }
        Some(Mode::Replace) => return Ok(Opened { place, node: None }),
        _ => {}
    }
    let (found, place) = find(place, opening);
    let node = match found {
        Ok(node) => node,
        Err(error) if is_missing(&error) => {
            let requires = opening.consolidation == Consolidation::Require;
            return match opening.mode {
                Some(Mode::Append) if !requires => Ok(Opened { place, node: None }),
                _ => Err(missing(error, &place, opening)),
            };
        }
        Err(error) => return Err(error),
    };
    check_kind(&node, &place, opening.kind)?;
    Ok(Opened { place, node: Some(node) })
}

/// Looks for a Zarr node on the local disk. `None`: it is elsewhere, or there is an error, which
/// the thorough way reports.
fn open_unseen(location: Location<'_>, opening: &Opening<'_>) -> Option<Opened> {
    let keeps = opening.mode.is_none_or(Mode::keeps);
    if !keeps || !opening.store.storage.is_empty() || !location.may_be_directory() {
        return None;
    }
    let reached = location.reach(StoreOptions { intent: Intent::Unseen, ..opening.store }).ok()?;
    let place =
        Place::in_store(reached.store, &reached.path, false).below(opening.path, opening.mode).ok()?;
    let wanted = Wanted { in_directory: true, ..wanted(opening) };
    let node = Object::from(Node::from(zarr::open_with(&place.store, &place.path, wanted).ok()?));
    check_kind(&node, &place, opening.kind).ok()?;
    Some(Opened { place, node: Some(node) })
}

fn wanted(opening: &Opening<'_>) -> Wanted {
    Wanted {
        format: opening.format,
        kind: opening.kind,
        consolidation: opening.consolidation,
        may_be_missing: opening.mode == Some(Mode::Append),
        in_directory: false,
    }
}

/// The node at exactly this place. The caller knows that it is there: an error is the format's own.
pub fn node_at(place: &Place, opening: &Opening<'_>) -> Result<Object> {
    match &place.file {
        Some(file) => node_in_file(file, &place.path, opening),
        None => Ok(Node::from(zarr::open_with(&place.store, &place.path, wanted(opening))?).into()),
    }
}

/// The node at a place. Also returns the place of the node, which may be in a file of the store.
fn find(place: Place, opening: &Opening<'_>) -> (Result<Object>, Place) {
    let found = node_at(&place, opening);
    // A path inside a file may contain names that Zarr refuses.
    let may_be_in_file =
        matches!(&found, Err(Error::Zarr(ZarrError::NotFound { .. } | ZarrError::Path { .. })))
            && matches!(opening.mode, None | Some(Mode::Read))
            && opening.format.is_none()
            && opening.consolidation != Consolidation::Require;
    if !may_be_in_file {
        return (found, place);
    }
    match DataFile::find(&place.store, &place.path) {
        Ok(Some((file, inside))) => {
            let place = Place::in_file(file, &inside);
            (node_at(&place, opening), place)
        }
        Ok(None) => (found, place),
        Err(error) => (Err(error), place),
    }
}

fn node_in_file(file: &DataFile, path: &str, opening: &Opening<'_>) -> Result<Object> {
    let (url, format) = (file.url(), file.format());
    let why = if opening.consolidation == Consolidation::Require {
        format!("{url}: files of {format} have no consolidated metadata")
    } else if opening.format.is_some() {
        format!("there is no Zarr array or group in {url}: it is a file of {format}")
    } else {
        return file.object(path);
    };
    Err(Error::Missing { kind: opening.kind, why, below: Vec::new() })
}

fn check_kind(node: &Object, place: &Place, wanted: Option<NodeKind>) -> Result<()> {
    let (found, wanted) = match (node, wanted) {
        (Object::Group(_), Some(NodeKind::Array)) => ("a group", "an array"),
        (Object::Array(_), Some(NodeKind::Group)) => ("an array", "a group"),
        (Object::Datatype(..), Some(NodeKind::Array)) => ("a committed datatype", "an array"),
        (Object::Datatype(..), Some(NodeKind::Group)) => ("a committed datatype", "a group"),
        _ => return Ok(()),
    };
    Err(Error::NodeKind { name: format!("/{}", place.path), url: place.url(), found, wanted })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
