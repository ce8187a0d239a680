//! Joined arrays and groups.

use super::facts::ArrayFacts;
use super::sources::Sources;
use super::{Joined, ragged};
use crate::copy::{Copied, Copying, Paths};
use crate::meaning::{Retiming, value_beyond_end};
use crate::nodes::interface::{ArrayNode, Below, GroupNode, Object, StoredNode};
use crate::{Array, Dims, Error, Format, Group, Json, NodeKind, Result};
use hyperslab_array::{
    ArrayLayout, Blocks, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, ConvertElements, FillValue,
    Found, LocateError, Mosaic, MosaicSource, Pattern, Piece as Tile, Ragged, ReadOptions, Selection,
    SourceArray,
};
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_store::{Ask, Store};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of a cell of a joined array without chunks: a few MiB, as in virtual datasets.
const CELL: u64 = 4 << 20;

/// The part of a joined array that is in one source.
#[derive(Clone, Debug)]
pub(super) struct JoinedPiece {
    /// The number of the source.
    pub(super) source: usize,
    /// Its first element along the joined axis.
    pub(super) start: u64,
    /// Elements per axis, as stored.
    pub(super) shape: Dims,
    /// The change of its elements.
    pub(super) retiming: Option<Arc<Retiming>>,
}

/// An array of one piece of each source, or an array of the first source.
#[derive(Debug)]
pub(crate) struct JoinedArray {
    joined: Arc<Joined>,
    /// The path of the variable.
    path: String,
    stored_path: String,
    /// The array of the first source. A copy takes over how it is stored.
    template: Array,
    layout: Arc<ArrayLayout>,
    /// The joined axis and the pieces along it. `None`: the array of the first source.
    pieces: Option<(usize, Vec<JoinedPiece>)>,
    /// The value of elements that no piece has: text of any length.
    rest: Vec<u8>,
    chunks: (u64, u64),
}

impl JoinedArray {
    pub(super) fn new(
        joined: &Arc<Joined>,
        facts: ArrayFacts,
        shape: Dims,
        pieces: Option<(usize, Vec<JoinedPiece>)>,
        chunks: (u64, u64),
    ) -> Result<Self> {
        let ArrayFacts { path, stored_path, array: template, .. } = facts;
        let mut made = JoinedArray {
            joined: joined.clone(),
            path,
            stored_path,
            layout: template.layout().clone(),
            template,
            pieces,
            rest: Vec::new(),
            chunks,
        };
        if made.pieces.is_some() {
            made.layout = Arc::new(made.mosaic(shape)?);
        }
        Ok(made)
    }

    fn mosaic(&mut self, shape: Dims) -> Result<ArrayLayout> {
        let refuse = |why: String| Error::Copy { array: format!("/{}", self.path), why };
        let Some((axis, pieces)) = &self.pieces else { return Err(refuse("it has no pieces".into())) };
        let old = self.template.layout();
        let dtype = old.dtype();
        let sources = &self.joined.sources;
        let mut tiles = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.shape.contains(&0)) {
            let run = |(at, len): (usize, &u64)| Blocks::run(if at == *axis { piece.start } else { 0 }, *len);
            let target: Vec<Blocks> = piece.shape.iter().enumerate().map(run).collect();
            let source: Vec<Blocks> = piece.shape.iter().map(|len| Blocks::run(0, *len)).collect();
            let array = Arc::new(SourcePiece {
                sources: sources.clone(),
                number: piece.source,
                path: self.stored_path.clone(),
                shape: piece.shape.clone(),
                dtype,
                retiming: piece.retiming.clone(),
            });
            let tile = Pattern::regular(&target)
                .and_then(|target| Tile::new(target, Pattern::regular(&source)?, array));
            tiles.push(tile.map_err(refuse)?);
        }
        let mut fill = old.fill().clone();
        let covered = pieces.iter().all(|piece| {
            let mut others = piece.shape.iter().zip(&shape).enumerate().filter(|(at, _)| at != axis);
            others.all(|(_, (own, all))| own == all)
        });
        let along: u64 = pieces.iter().filter_map(|piece| piece.shape.get(*axis)).sum();
        let whole = covered && Some(&along) == shape.get(*axis);
        if let Some(value) = value_beyond_end(&self.template)?.filter(|_| !whole) {
            match self.template.vlen() {
                Some(_) => self.rest = value,
                None => fill = FillValue::new(&value),
            }
        }
        let chunk = self.cell(&shape, dtype.size());
        let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], Vec::new()).map_err(refuse)?;
        let grid = ChunkGrid::regular(chunk).ok_or_else(|| refuse("its chunks have no elements".into()))?;
        let (name, store) = (format!("/{}", self.path), old.store().clone());
        let layout = ArrayLayout::new(name, shape, dtype, grid, encoding, fill, Arc::new(NoChunks), store)?;
        Ok(layout.with_mosaic(Mosaic::new(tiles))?)
    }

    /// How much to read at a time: the chunks of the first source, or a few MiB of a piece.
    fn cell(&self, shape: &[u64], size: usize) -> Dims {
        if self.template.has_chunks() {
            return self.template.chunk_shape().into();
        }
        let stored = self.template.shape().iter().zip(shape);
        let mut cell: Dims = stored.map(|(own, all)| (*own).min(*all).max(1)).collect();
        for axis in 0..cell.len() {
            let bytes = cell.iter().fold(size as u64, |bytes, len| bytes.saturating_mul(*len));
            if let Some(len) = cell.get_mut(axis) {
                *len = (*len / bytes.div_ceil(CELL).max(1)).max(1);
            }
        }
        cell
    }

    pub(crate) fn joined(&self) -> &Arc<Joined> {
        &self.joined
    }

    fn open(&self, piece: &JoinedPiece) -> Result<Array> {
        let array = self.joined.sources.array(piece.source, &self.stored_path)?;
        check_unchanged(&array, &piece.shape, &self.joined.sources.name(piece.source))?;
        Ok(array)
    }
}

/// Fails if an array has another shape than when the sources were joined.
fn check_unchanged(array: &Array, shape: &[u64], source: &str) -> Result<()> {
    if array.shape() == shape {
        return Ok(());
    }
    let why = format!(
        "in {source} it has the shape {:?}, and had {shape:?} when the sources were joined: somebody changes it",
        array.shape()
    );
    Err(Error::Copy { array: array.name(), why })
}

/// An array in a source. It is opened when it is read.
#[derive(Debug)]
struct SourcePiece {
    sources: Arc<Sources>,
    number: usize,
    path: String,
    shape: Dims,
    dtype: DataType,
    retiming: Option<Arc<Retiming>>,
}

impl MosaicSource for SourcePiece {
    fn open(&self) -> Result<Option<SourceArray>, LocateError> {
        let array = self.sources.array(self.number, &self.path)?;
        let source = self.sources.name(self.number);
        check_unchanged(&array, &self.shape, &source)?;
        let (found, wanted) = (array.dtype(), self.dtype);
        if (found.kind(), found.size()) != (wanted.kind(), wanted.size()) {
            let why = format!("in {source} its elements are {found}, and were {wanted}: somebody changes it");
            return Err(Error::Copy { array: array.name(), why }.into());
        }
        let convert = self.retiming.clone().map(|change| change as Arc<dyn ConvertElements>);
        Ok(Some(SourceArray { layout: array.layout().clone(), convert }))
    }
}

/// A mosaic has no chunks of its own.
#[derive(Debug)]
struct NoChunks;

impl ChunkLocator for NoChunks {
    fn locate(&self, _: ChunkList<'_>, _: &mut Found) -> Result<(), LocateError> {
        Err("an array of joined sources has no chunks of its own".into())
    }
}

impl StoredNode for JoinedArray {
    fn store(&self) -> &Arc<dyn Store> {
        self.template.store()
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn format(&self) -> Format {
        self.template.format()
    }

    fn attributes(&self) -> Result<Cow<'_, Json>> {
        self.template.attributes()
    }
}

impl ArrayNode for JoinedArray {
    fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    fn template(&self) -> Option<&Array> {
        Some(&self.template)
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        Ok(self.joined.variable(&self.path).and_then(|variable| variable.dimension_names.clone()))
    }

    fn chunks_stored(&self, _: Option<Ask<'_>>) -> Result<(u64, u64)> {
        Ok(self.chunks)
    }

    fn stored_objects(&self, ask: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        if self.pieces.is_some() { Ok(None) } else { self.template.node().stored_objects(ask) }
    }

    fn fill_value(&self) -> Result<Json> {
        self.template.node().fill_value()
    }

    fn fill(&self) -> Option<&[u8]> {
        self.template.fill()
    }

    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied> {
        self.template.node().collect_copied(copying)
    }

    fn has_chunks(&self) -> bool {
        self.template.has_chunks()
    }

    fn codecs(&self) -> Vec<Json> {
        self.template.node().codecs()
    }

    fn codec_names(&self) -> Vec<String> {
        self.template.codec_names()
    }

    fn storage(&self) -> Option<&'static str> {
        Some("in several sources")
    }

    fn vlen(&self) -> Option<VlenKind> {
        self.template.vlen()
    }

    fn vlen_only(&self) -> Option<VlenKind> {
        self.template.vlen()
    }

    fn type_words(&self) -> String {
        self.template.type_words()
    }

    fn read_ragged(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged> {
        self.read_copied(selection, options, &mut Paths::new())
    }

    fn read_copied(
        &self,
        selection: &Selection,
        options: ReadOptions<'_>,
        paths: &mut Paths,
    ) -> Result<Ragged> {
        match &self.pieces {
            None => self.template.node().read_copied(selection, options, paths),
            Some((axis, pieces)) => {
                let open = |piece: &JoinedPiece| self.open(piece);
                ragged::read(
                    self.layout.name(),
                    (*axis, pieces),
                    &open,
                    selection,
                    options,
                    &self.rest,
                    // Addresses of objects differ from file to file.
                    &mut Paths::new(),
                )
            }
        }
    }

    fn absent_text(&self) -> Result<Option<Vec<u8>>> {
        self.template.node().absent_text()
    }

    fn checks_text(&self) -> bool {
        self.template.node().checks_text()
    }

    fn copies_absent(&self) -> bool {
        self.template.node().copies_absent()
    }
}

/// A group of joined arrays, with the groups of the first source.
#[derive(Debug)]
pub(crate) struct JoinedGroup {
    joined: Arc<Joined>,
    /// The group of the first source.
    template: Group,
    /// The groups below by path, with their attributes; the group itself is `""`.
    groups: Arc<Vec<(String, Json)>>,
    arrays: Arc<Vec<(String, Array)>>,
    path: String,
}

impl JoinedGroup {
    pub(super) fn new(
        joined: &Arc<Joined>,
        template: Group,
        groups: Vec<(String, Json)>,
        arrays: Vec<(String, JoinedArray)>,
    ) -> Self {
        let arrays = arrays.into_iter().map(|(path, array)| (path, Array::of_format(Arc::new(array))));
        JoinedGroup {
            joined: joined.clone(),
            template,
            groups: Arc::new(groups),
            arrays: Arc::new(arrays.collect()),
            path: String::new(),
        }
    }

    pub(crate) fn joined(&self) -> &Arc<Joined> {
        &self.joined
    }

    /// The path below this group. `None`: it is elsewhere.
    fn relative<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.path.is_empty() {
            return Some(path).filter(|path| !path.is_empty());
        }
        path.strip_prefix(self.path.as_str())?.strip_prefix('/')
    }

    fn full(&self, path: &str) -> String {
        let path = path.trim_matches('/');
        if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) }
    }
}

impl StoredNode for JoinedGroup {
    fn store(&self) -> &Arc<dyn Store> {
        self.template.store()
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn format(&self) -> Format {
        self.template.format()
    }

    fn attributes(&self) -> Result<Cow<'_, Json>> {
        let own = self.groups.iter().find(|(path, _)| *path == self.path);
        Ok(own.map_or_else(|| Cow::Owned(Json::object()), |(_, attributes)| Cow::Borrowed(attributes)))
    }
}

impl GroupNode for JoinedGroup {
    fn walk(&self, max_depth: Option<usize>, _: Option<Ask<'_>>) -> Result<Vec<Below>> {
        let groups = self.groups.iter().map(|(path, _)| (path, NodeKind::Group));
        let arrays = self.arrays.iter().map(|(path, _)| (path, NodeKind::Array));
        let mut below: Vec<Below> = groups
            .chain(arrays)
            .filter_map(|(path, kind)| {
                let path = self.relative(path)?.to_owned();
                Some(Below { path, kind, id: None, listed: None })
            })
            .filter(|below| max_depth.is_none_or(|most| below.path.matches('/').count() < most))
            .collect();
        below.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        Ok(below)
    }

    fn object(&self, path: &str) -> Result<Object> {
        let path = self.full(path);
        if let Some((_, array)) = self.arrays.iter().find(|(found, _)| *found == path) {
            return Ok(Object::Array(array.clone()));
        }
        if !self.groups.iter().any(|(found, _)| *found == path) {
            let why = format!("the joined sources have no array or group '/{path}'");
            return Err(Error::Missing { kind: None, why, below: Vec::new() });
        }
        let (joined, template) = (self.joined.clone(), self.template.clone());
        let (groups, arrays) = (self.groups.clone(), self.arrays.clone());
        Ok(Object::Group(Group::of_format(Arc::new(JoinedGroup { joined, template, groups, arrays, path }))))
    }

    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>> {
        let path = self.full(path);
        if self.arrays.iter().any(|(found, _)| *found == path) {
            return Ok(Some(NodeKind::Array));
        }
        Ok(self.groups.iter().any(|(found, _)| *found == path).then_some(NodeKind::Group))
    }
}
