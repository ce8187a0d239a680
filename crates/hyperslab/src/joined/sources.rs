//! The sources: opened when they are needed, and closed again.

use crate::open::{self, Location, Mode, Opening};
use crate::stores::{StoreOptions, local_path};
use crate::{Array, Key, Node, Result};
use hyperslab_store::fork::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// Sources that stay open. More would save opening them again for each array; fewer would make
/// threads that read side by side close each other's. 32 files fit the lowest limit of descriptors
/// in use (256, on macOS).
const MOST_OPEN: usize = 32;

/// A source to join.
#[derive(Clone, Debug)]
pub enum JoinSource {
    /// A path or URL, with the options of its server.
    Location(String, Vec<(String, String)>),
    /// A node that stays open.
    Node(Node),
}

impl From<&str> for JoinSource {
    fn from(location: &str) -> Self {
        JoinSource::Location(location.to_owned(), Vec::new())
    }
}

impl From<Node> for JoinSource {
    fn from(node: Node) -> Self {
        JoinSource::Node(node)
    }
}

impl JoinSource {
    pub(super) fn open(&self) -> Result<Node> {
        match self {
            JoinSource::Node(node) => Ok(node.clone()),
            JoinSource::Location(location, storage) => {
                let store = StoreOptions { storage, ..StoreOptions::default() };
                let opening = Opening { mode: Some(Mode::Read), store, ..Opening::default() };
                open::open(Location::Text(location), &opening)?.into_node()
            }
        }
    }

    /// The name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            JoinSource::Location(location, _) => location.clone(),
            JoinSource::Node(node) if node.path().is_empty() => node.url(),
            JoinSource::Node(node) => format!("{}/{}", node.url(), node.path()),
        }
    }

    fn origin(&self) -> Option<PathBuf> {
        match self {
            JoinSource::Location(location, _) => local_path(location).ok()?,
            JoinSource::Node(node) => {
                let file = node.file();
                let key = file.as_ref().map_or(node.path(), |file| file.key());
                let key = (!key.is_empty()).then(|| Key::new(key)).transpose().ok()?;
                node.store().local_path(key)
            }
        }
    }
}

/// All sources of joined arrays.
#[derive(Debug)]
pub(super) struct Sources {
    all: Vec<JoinSource>,
    /// The sources that are open, the one that was used last at the end. Gated.
    open: Mutex<VecDeque<(usize, Arc<OpenSource>)>>,
}

#[derive(Debug)]
struct OpenSource {
    root: Node,
    /// The arrays that were used, by path. Gated.
    arrays: Mutex<HashMap<String, Array>>,
}

impl Sources {
    pub(super) fn new(all: Vec<JoinSource>) -> Self {
        Sources { all, open: Mutex::new(VecDeque::new()) }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The name of a source in messages.
    pub(super) fn name(&self, number: usize) -> String {
        self.all.get(number).map(JoinSource::name).unwrap_or_default()
    }

    pub(super) fn origins(&self) -> Vec<PathBuf> {
        self.all.iter().filter_map(JoinSource::origin).collect()
    }

    /// Opens a source. It does not stay open.
    pub(super) fn open(&self, number: usize) -> Result<Node> {
        match self.all.get(number) {
            Some(source) => source.open(),
            None => Err(crate::Error::Options("a source that is not there".into())),
        }
    }

    /// An array in a source. `""`: the source is an array.
    pub(super) fn array(&self, number: usize, path: &str) -> Result<Array> {
        let source = self.kept(number)?;
        if let Some(array) = source.arrays.lock().get(path) {
            return Ok(array.clone());
        }
        let array = match &source.root {
            Node::Array(array) => array.clone(),
            Node::Group(group) => group.array(path)?,
        };
        source.arrays.lock().insert(path.to_owned(), array.clone());
        Ok(array)
    }

    fn kept(&self, number: usize) -> Result<Arc<OpenSource>> {
        {
            let mut open = self.open.lock();
            if let Some(found) =
                open.iter().position(|(other, _)| *other == number).and_then(|at| open.remove(at))
            {
                let source = found.1.clone();
                open.push_back(found);
                return Ok(source);
            }
        }
        // Two threads may open one source at a time: both are right, and one stays.
        let made = Arc::new(OpenSource { root: self.open(number)?, arrays: Mutex::default() });
        let closed = {
            let mut open = self.open.lock();
            open.push_back((number, made.clone()));
            if open.len() > MOST_OPEN { open.pop_front() } else { None }
        };
        // Closing a file is I/O, which waits until the lock is free.
        drop(closed);
        Ok(made)
    }
}
