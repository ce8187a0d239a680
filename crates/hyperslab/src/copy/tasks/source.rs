//! The source of a copy in tasks, as workers open it.

use super::plan::TaskPlan;
use crate::copy::{JoinSource, Joining, concatenated};
use crate::open::{self, Location, Mode, Opening};
use crate::stores::{StoreOptions, local_path, takes_options};
use crate::{Json, Node, Result};
use hyperslab_zarr::Format;

/// Bytes that a copy reads with one request. Plans count on it (`prices.rs`).
const REQUEST: u64 = 32 << 20;

/// A source that each worker opens.
#[derive(Clone, Debug)]
pub enum TaskSource {
    /// A node that is open.
    Node(Node),
    /// A path or URL.
    Location {
        /// The path or URL.
        location: String,
        /// The Zarr format, if known: it saves looking for documents of others.
        zarr_format: Option<u8>,
        /// Settings of the server.
        storage: Vec<(String, String)>,
    },
    /// Sources that are joined along a dimension.
    Joined {
        /// Their paths or URLs, in their order.
        sources: Vec<String>,
        /// The dimension.
        concat: String,
        /// Their lengths along it.
        lengths: Vec<u64>,
        /// The variables to copy; `None`: all.
        variables: Option<Vec<String>>,
        /// Settings of the server.
        storage: Vec<(String, String)>,
    },
}

/// Settings of a server for a copy: whole chunks are single requests.
///
/// Many chunks are on their way at a time, so reading one of them over several connections gains
/// nothing and costs requests.
pub(super) fn copy_storage(location: &str, storage: &[(String, String)]) -> Vec<(String, String)> {
    const NAME: &str = "max_request_size";
    // An archive on the local disk takes no options.
    let outer = location.strip_prefix("zip://").and_then(|rest| rest.split_once("::"));
    let is_local = outer.is_some_and(|(_, outer)| local_path(outer).is_ok_and(|path| path.is_some()));
    if !takes_options(location) || is_local {
        return Vec::new();
    }
    let mut storage = storage.to_vec();
    if !storage.iter().any(|(name, _)| name == NAME) {
        storage.push((NAME.into(), REQUEST.to_string()));
    }
    storage
}

impl TaskSource {
    /// The source of a plan.
    pub fn of(plan: &TaskPlan, storage: &[(String, String)]) -> TaskSource {
        let storage = storage.to_vec();
        let Some(concat) = plan.concat.clone() else {
            let (location, zarr_format) = (plan.source.clone(), plan.source_format);
            return TaskSource::Location { location, zarr_format, storage };
        };
        let options = Json::parse(plan.options.as_bytes()).unwrap_or(Json::Null);
        let names =
            |names: &[Json]| names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let variables = options.get("variables").and_then(Json::as_array).map(names);
        let (sources, lengths) = (plan.sources.clone(), plan.lengths.clone());
        TaskSource::Joined { sources, concat, lengths, variables, storage }
    }

    /// Opens the source.
    pub(super) fn open(&self) -> Result<Node> {
        match self {
            TaskSource::Node(node) => Ok(node.clone()),
            TaskSource::Location { location, zarr_format, storage } => {
                let format = zarr_format.map(|format| if format == 2 { Format::V2 } else { Format::V3 });
                let storage = copy_storage(location, storage);
                let store = StoreOptions { storage: &storage, ..StoreOptions::default() };
                let opening = Opening { mode: Some(Mode::Read), format, store, ..Opening::default() };
                open::open(Location::Text(location), &opening)?.into_node()
            }
            TaskSource::Joined { sources, concat, lengths, variables, storage } => {
                let source = |location: &String| {
                    JoinSource::Location(location.clone(), copy_storage(location, storage))
                };
                let sources: Vec<JoinSource> = sources.iter().map(source).collect();
                let joining = Joining {
                    variables: variables.as_deref(),
                    compare: false,
                    lens: Some(lengths),
                    ..Joining::along(concat)
                };
                concatenated(&sources, joining, None)
            }
        }
    }
}
