//! The cost of a validation: requests and bytes.

use super::{Subject, ValidateOptions, shards};
use crate::open::{Mode, Opening, open_in};
use crate::{Json, Node, Object, Result};
use hyperslab_store::Ask;

/// The cost of a validation of one location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The location, as it was given.
    pub location: String,
    /// Arrays and groups, with a document or an object header each.
    pub nodes: u64,
    /// Stored chunks, or shards.
    pub objects: u64,
    /// Requests for the structure: documents, and indexes of shards. Listings come on top.
    pub structure_requests: u64,
    /// Requests for the decoding of all chunks.
    pub decode_requests: u64,
    /// Bytes that the decoding reads.
    pub decode_bytes: u64,
    /// Arrays whose stored chunks are not known without reading them.
    pub unknown: u64,
}

impl Estimate {
    /// As a JSON object.
    pub fn to_json(&self) -> Json {
        Json::from([
            ("location", self.location.as_str().into()),
            ("nodes", self.nodes.into()),
            ("objects", self.objects.into()),
            ("structure_requests", self.structure_requests.into()),
            ("decode_requests", self.decode_requests.into()),
            ("decode_bytes", self.decode_bytes.into()),
            ("unknown", self.unknown.into()),
        ])
    }
}

/// Estimates what [`validate`](super::validate) would read. Opens all nodes, and lists stored chunks.
///
/// Fails if a location cannot be opened. Nodes that cannot be opened are left out.
pub fn explain(subjects: &[Subject], options: &ValidateOptions<'_>) -> Result<Vec<Estimate>> {
    let ask = || options.progress.is_some_and(crate::copy::Progress::cancelled);
    subjects.iter().map(|subject| estimate(subject, options.decode, &ask)).collect()
}

fn estimate(subject: &Subject, decode: bool, ask: Ask<'_>) -> Result<Estimate> {
    let mut found = Estimate { location: subject.name().to_owned(), ..Estimate::default() };
    let opening = Opening { mode: Some(Mode::Read), ..Opening::default() };
    match open_in(subject.place()?, &opening)?.into_node()? {
        Node::Array(array) => found.add(&Node::Array(array), decode, ask)?,
        Node::Group(group) => {
            found.nodes += 1;
            found.structure_requests += 1;
            for below in group.below(None, Some(ask))? {
                if let Ok(node) = group.open_below(&below).and_then(Object::into_node) {
                    found.add(&node, decode, ask)?;
                }
            }
        }
    }
    Ok(found)
}

impl Estimate {
    fn add(&mut self, node: &Node, decode: bool, ask: Ask<'_>) -> Result<()> {
        self.nodes += 1;
        self.structure_requests += 1;
        let Node::Array(array) = node else { return Ok(()) };
        if !array.store().facts().lists {
            self.unknown += 1;
            return Ok(());
        }
        let (objects, bytes) = array.chunks_stored(Some(ask))?;
        self.objects = self.objects.saturating_add(objects);
        let sharded = shards::can_inspect(array);
        if sharded {
            self.structure_requests = self.structure_requests.saturating_add(objects);
        }
        if decode {
            self.decode_requests = self.decode_requests.saturating_add(objects);
            self.decode_bytes = self.decode_bytes.saturating_add(bytes);
        }
        Ok(())
    }
}
