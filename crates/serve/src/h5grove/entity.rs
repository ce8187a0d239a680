//! Nodes and links at paths.

use super::{Answered, Halt};
use hyperslab::hdf5::{Hdf5Error, LinkTarget, NamedDatatype};
use hyperslab::{Array, Error, Group, Json, Object, Result};
use std::collections::HashSet;

/// The most paths of an answer, and their bytes. Paths of groups deep within each other are long.
const MOST_PATHS: usize = 200_000;
const MOST_BYTES: usize = 32 << 20;

/// Which links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolve {
    None,
    Valid,
    All,
}

/// The node or the link at a path.
#[derive(Debug)]
pub(super) enum Entity {
    Array(Array),
    Group(Group),
    Datatype(NamedDatatype),
    Soft(String),
    External {
        file: String,
        path: String,
    },
    /// A link that only its writer understands, or an object that cannot be read.
    Other,
}

impl From<Object> for Entity {
    fn from(object: Object) -> Self {
        match object {
            Object::Array(array) => Entity::Array(array),
            Object::Group(group) => Entity::Group(group),
            Object::Datatype(_, datatype) => Entity::Datatype(datatype),
        }
    }
}

impl Entity {
    /// Finds a path from the root. `base`: the name of the file, for messages.
    pub(super) fn find(root: &Group, path: &str, base: &str, resolve: Resolve) -> Answered<Entity> {
        let missing = || Halt::Refused(404, format!("{path} is not a valid path in {base}"));
        let inside = path.trim_matches('/');
        if inside.is_empty() {
            return Ok(Entity::Group(root.clone()));
        }
        let (above, name) = inside.rsplit_once('/').unwrap_or(("", inside));
        let above = match above {
            "" => root.clone(),
            above => match found(root.object(above))? {
                Some(Object::Group(group)) => group,
                _ => return Err(missing()),
            },
        };
        match Entity::below(&above, name, resolve) {
            Ok(Some(entity)) => Ok(entity),
            Ok(None) => Err(missing()),
            Err(Halt::Refused(status, link)) => {
                Err(Halt::Refused(status, format!("Cannot resolve {link} at {path} of {base}")))
            }
            Err(halt) => Err(halt),
        }
    }

    /// The entity with a name directly below a group. `None`: there is none.
    ///
    /// Fails with words for the link if [`Resolve::All`] follows it and finds nothing.
    pub(super) fn below(group: &Group, name: &str, resolve: Resolve) -> Answered<Option<Entity>> {
        if group.as_zarr().is_some() {
            return Ok(found(group.object(name))?.map(Entity::from));
        }
        let (entity, words) = match group.link(name)? {
            None => return Ok(None),
            Some(LinkTarget::Hard(_)) => return Ok(Some(group.object(name)?.into())),
            Some(LinkTarget::UserDefined(_)) => return Ok(Some(Entity::Other)),
            Some(LinkTarget::Soft(path)) => {
                let words = format!("<SoftLink to \"{path}\">");
                (Entity::Soft(path), words)
            }
            Some(LinkTarget::External { file, path }) => {
                // h5py leaves out the last bracket.
                let words = format!("<ExternalLink to \"{path}\" in file \"{file}\"");
                (Entity::External { file, path }, words)
            }
        };
        if resolve == Resolve::None {
            return Ok(Some(entity));
        }
        match group.object(name) {
            Ok(object) => Ok(Some(object.into())),
            Err(Error::Interrupted) => Err(Error::Interrupted.into()),
            Err(_) if resolve == Resolve::Valid => Ok(Some(entity)),
            Err(_) => Err(Halt::Refused(404, words)),
        }
    }
}

/// The names directly below a group, in h5py's order.
pub(super) fn names(group: &Group) -> Result<Vec<String>> {
    if group.as_zarr().is_some() {
        return Ok(group.children()?.into_iter().map(|(name, _)| name).collect());
    }
    Ok(group.links()?.into_iter().map(|(name, _)| name).collect())
}

/// The object, or `None` if there is none.
fn found(object: Result<Object>) -> Result<Option<Object>> {
    match object {
        Err(
            Error::Missing { .. }
            | Error::NoVariable { .. }
            | Error::Hdf5(Hdf5Error::NotFound { .. })
            | Error::Zarr(
                hyperslab::zarr::ZarrError::NotFound { .. } | hyperslab::zarr::ZarrError::Path { .. },
            ),
        ) => Ok(None),
        found => found.map(Some),
    }
}

/// The path of a member of a group.
pub(super) fn join(above: &str, name: &str) -> String {
    format!("{}/{name}", above.trim_end_matches('/'))
}

/// All paths below a group, in the order of h5py's `visit_links`: by name. Links are not followed.
pub(super) fn paths(path: &str, group: &Group, ask: &dyn Fn() -> bool) -> Answered<Json> {
    let (mut paths, mut bytes) = (vec![path.to_owned()], 0);
    let mut seen: HashSet<u64> = group.as_hdf5().map(hyperslab::hdf5::Group::address).into_iter().collect();
    // Groups whose members are still to be listed, the next one last.
    let mut waiting = vec![(path.to_owned(), group.clone(), None::<std::vec::IntoIter<String>>)];
    while let Some((above, group, names)) = waiting.last_mut() {
        if ask() {
            return Err(Error::Interrupted.into());
        }
        let names = match names {
            Some(names) => names,
            None => {
                let mut own = self::names(group)?;
                own.sort_unstable();
                names.insert(own.into_iter())
            }
        };
        let Some(name) = names.next() else {
            waiting.pop();
            continue;
        };
        let place = join(above, &name);
        bytes += place.len();
        paths.push(place.clone());
        if paths.len() > MOST_PATHS || bytes > MOST_BYTES {
            let message = format!("{path} has too many paths below; ask for a group in it");
            return Err(Halt::Refused(413, message));
        }
        // A node that cannot be read shows nothing below. Its own page says why.
        if let Ok(Some(Entity::Group(below))) = Entity::below(group, &name, Resolve::None)
            && below.as_hdf5().is_none_or(|below| seen.insert(below.address()))
        {
            waiting.push((place, below, None));
        }
    }
    Ok(Json::Array(paths.iter().map(|path| path.as_str().into()).collect()))
}
