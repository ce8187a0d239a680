//! Zarr arrays and groups.

use crate::copy::{Copied, CopiedCodecs, Copying};
use crate::nodes::interface::{ArrayNode, Below, GroupNode, Missing, Object, ResultOrder, StoredNode};
use crate::nodes::words;
use crate::{Dims, Format, Group, Json, Node, NodeKind, Result};
use hyperslab_array::ArrayLayout;
use hyperslab_codec::registry;
use hyperslab_codec::{ByteOrder, VlenKind};
use hyperslab_store::{Ask, Store};
use hyperslab_zarr::{self as zarr, Consolidation};
use std::borrow::Cow;
use std::sync::Arc;

/// Implements what arrays and groups have in common.
macro_rules! stored {
    ($node:ty) => {
        impl StoredNode for $node {
            fn store(&self) -> &Arc<dyn Store> {
                self.store()
            }

            fn path(&self) -> &str {
                self.path()
            }

            fn format(&self) -> Format {
                self.format().into()
            }

            fn attributes(&self) -> Result<Cow<'_, Json>> {
                Ok(Cow::Borrowed(self.attributes()))
            }
        }
    };
}

stored!(zarr::Array);
stored!(zarr::Group);

impl GroupNode for zarr::Group {
    fn walk(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Below>> {
        let found = zarr::Group::listed(self, max_depth, ask)?;
        let below = found.into_iter().map(|listed| Below {
            path: listed.path.clone(),
            kind: listed.kind.into(),
            id: None,
            listed: Some(listed),
        });
        Ok(below.collect())
    }

    fn object(&self, path: &str) -> Result<Object> {
        Ok(Node::from(self.child(path)?).into())
    }

    fn open_listed(&self, listed: &zarr::Listed) -> Result<Object> {
        Ok(Node::from(zarr::Group::open_listed(self, listed)?).into())
    }

    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>> {
        Ok(zarr::Group::child_kind(self, path)?.map(NodeKind::from))
    }

    fn is_consolidated(&self) -> bool {
        zarr::Group::is_consolidated(self)
    }

    fn as_stored(&self) -> Result<Option<Group>> {
        let format = Some(zarr::Group::format(self));
        let (store, path) = (zarr::Group::store(self), zarr::Group::path(self));
        Ok(Some(zarr::Group::open(store, path, format, Consolidation::Ignore)?.into()))
    }
}

impl ArrayNode for zarr::Array {
    fn layout(&self) -> &Arc<ArrayLayout> {
        self.layout()
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        Ok(self.dimension_names().map(<[_]>::to_vec))
    }

    fn chunks_stored(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64)> {
        Ok(zarr::Array::chunks_stored(self, ask)?)
    }

    fn stored_objects(&self, ask: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        if !self.store().facts().lists {
            return Ok(None);
        }
        Ok(Some(self.stored_places(ask)?))
    }

    fn fill_value(&self) -> Result<Json> {
        Ok(self.to_json().get("fill_value").cloned().unwrap_or(Json::Null))
    }

    fn fill(&self) -> Option<&[u8]> {
        self.fill()
    }

    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied> {
        let (layout, dtype) = (self.layout(), self.layout().dtype());
        Ok(Copied {
            order: if layout.encoding().swap() > 1 { opposite_order(dtype.order()) } else { dtype.order() },
            fill: self.fill().map(<[u8]>::to_vec),
            members: Vec::new(),
            key_encoding: Some(self.key_encoding().clone()),
            fortran_order: self.fortran_order(),
            vlen: self.vlen(),
            optional: self.optional().zip(serializer(self)),
            object_codec: self.object_codec().cloned(),
            structure: self.structure().map(|structure| (**structure).clone()),
            codecs: codecs(self, copying),
            sharding: sharding_codec(self),
            rectilinear: self.rectilinear().map(<[_]>::to_vec),
        })
    }

    fn outer_chunk_shape(&self) -> &[u64] {
        self.chunks()
    }

    fn shard_shape(&self) -> Option<&[u64]> {
        self.shards()
    }

    fn codecs(&self) -> Vec<Json> {
        self.chunk_codecs()
    }

    fn codec_names(&self) -> Vec<String> {
        let codecs = self.layout().encoding().chain().codecs();
        codecs.iter().map(|codec| codec.name().to_owned()).collect()
    }

    fn vlen(&self) -> Option<VlenKind> {
        self.vlen()
    }

    fn vlen_only(&self) -> Option<VlenKind> {
        self.vlen()
    }

    fn type_words(&self) -> String {
        if let Some(value) = self.optional() {
            return format!("optional {}", words::dtype(value));
        }
        match (self.structure(), self.vlen()) {
            (Some(structure), _) => words::structure(structure),
            (None, Some(kind)) => kind.to_string(),
            (None, None) => words::dtype(self.layout().dtype()),
        }
    }

    fn missing(&self) -> Missing {
        Missing::MayBeLost
    }

    /// As in zarr-python.
    fn result_order(&self) -> ResultOrder {
        match zarr::Array::format(self) {
            zarr::Format::V2 => ResultOrder::AsStored,
            zarr::Format::V3 => ResultOrder::AsSet,
        }
    }

    fn checks_text(&self) -> bool {
        true
    }
}

/// The codecs of a copy if the user chose no compressor.
fn codecs(array: &zarr::Array, copying: &Copying<'_>) -> CopiedCodecs {
    let variable = usize::from(array.vlen().is_some());
    let format = array.format();
    if copying.format() != Format::from(format) {
        let codecs = array.layout().encoding().chain().codecs();
        return CopiedCodecs::InOtherWords(codecs.iter().skip(variable).cloned().collect());
    }
    match format {
        zarr::Format::V3 => {
            let after = array.chunk_codecs().into_iter().skip_while(|json| !is_serializer(json)).skip(1);
            CopiedCodecs::AsTheyAre { filters: None, compressors: after.collect() }
        }
        // For elements of variable length, the first filter follows from their kind.
        zarr::Format::V2 => CopiedCodecs::AsTheyAre {
            filters: Some(array.filters().iter().skip(variable).cloned().collect()),
            compressors: array.compressors().to_vec(),
        },
    }
}

/// Returns `true` if a codec in v3 metadata is an array-to-bytes codec.
fn is_serializer(json: &Json) -> bool {
    codec_name(json).is_some_and(registry::makes_bytes)
}

/// The array-to-bytes codec of the innermost chunks.
fn serializer(array: &zarr::Array) -> Option<Json> {
    array.chunk_codecs().into_iter().find(is_serializer)
}

/// The sharding codec, with the codecs before and after it.
fn sharding_codec(array: &zarr::Array) -> Option<(Vec<Json>, Json, Vec<Json>)> {
    let codecs = array.to_json().get("codecs")?.as_array()?;
    let at = codecs.iter().position(|json| codec_name(json) == Some("sharding_indexed"))?;
    Some((codecs[..at].to_vec(), codecs[at].clone(), codecs[at + 1..].to_vec()))
}

/// The name of a codec in v3 metadata.
fn codec_name(json: &Json) -> Option<&str> {
    json.as_str().or_else(|| json.get("name")?.as_str())
}

fn opposite_order(order: ByteOrder) -> ByteOrder {
    match order {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    }
}
