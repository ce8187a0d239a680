//! How elements are stored in a classic file, and the target of their copy.
//!
//! | elements | stored as |
//! |---|---|
//! | numbers of the format | the same, big-endian |
//! | Booleans | byte |
//! | other integers | int, short or byte, as xarray does; a value that does not fit fails |
//! | floats of 16 bits | float |
//! | bytes and text | char, with one more axis. Text is as long as the longest one |

use super::cast::Cast;
use crate::copy::transfer::Job;
use crate::copy::{Copied, Copying, Paths, path_text};
use crate::netcdf::{External, Form, Variable, Version};
use crate::nodes::interface::{ArrayNode, StoredNode};
use crate::{Array, Dims, Error, Format, Json, Result};
use hyperslab_array::{
    self as engine, ArrayError, ArrayLayout, Memory, Ragged, ReadOptions, Selection, Source, WriteOptions,
};
use hyperslab_codec::{ByteOrder, Codec, CodecError, DataType, Kind, VlenKind};
use hyperslab_store::{Ask, Store};
use std::borrow::Cow;
use std::sync::Arc;

/// The elements of a variable.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    /// The type in memory: the source's. For text, bytes.
    pub(super) dtype: DataType,
    pub(super) external: External,
    /// Makes stored numbers of others, if they differ.
    cast: Option<Arc<dyn Codec>>,
    /// The length of the axis of characters, for text and bytes.
    pub(super) characters: Option<u64>,
    /// `true`: the source has text of any length, or UTF-32.
    pub(super) is_text: bool,
}

impl Elements {
    pub(super) fn of(array: &Array, facts: &Copied, path: &str, version: Version) -> Result<Elements> {
        let dtype = array.dtype();
        let refuse = |what: String| Error::Copy {
            array: path_text(path),
            why: format!("its elements are {what}, which NetCDF classic files have not; choose netcdf4"),
        };
        let plain = |external| Elements { dtype, external, cast: None, characters: None, is_text: false };
        if facts.structure.is_some() {
            return Err(refuse("structures".into()));
        }
        if facts.optional.is_some() {
            return Err(refuse("values that may be missing".into()));
        }
        match (facts.vlen, dtype.kind()) {
            (Some(VlenKind::Text), _) | (None, Kind::Text) => {
                return Ok(Elements { is_text: true, ..plain(External::Char) });
            }
            (Some(kind), _) => return Err(refuse(kind.to_string())),
            (None, Kind::Bytes) if dtype.size() == 1 => return Ok(plain(External::Char)),
            (None, Kind::Bytes) => {
                let characters = Some(dtype.size() as u64);
                return Ok(Elements { characters, ..plain(External::Char) });
            }
            (None, Kind::Bool) => return Ok(plain(External::Byte)),
            (None, _) => {}
        }
        let own = External::of_elements(dtype).filter(|external| version.has(*external));
        if let Some(external) = own {
            return Ok(plain(external));
        }
        let external = External::for_elements(dtype, version).ok_or_else(|| refuse(dtype.to_string()))?;
        let cast: Arc<dyn Codec> = Arc::new(Cast { from: dtype, to: external });
        Ok(Elements { cast: Some(cast), ..plain(external) })
    }

    /// Returns `true` if stored numbers have another type.
    pub(super) fn is_cast(&self) -> bool {
        self.cast.is_some()
    }

    /// The same, as texts of this many bytes.
    pub(super) fn with_characters(self, characters: u64) -> Result<Elements> {
        let dtype = usize::try_from(characters)
            .ok()
            .and_then(|size| DataType::new(Kind::Bytes, size, ByteOrder::Big));
        let dtype = dtype.ok_or_else(|| Error::Options(format!("text of {characters} bytes is too long")))?;
        Ok(Elements { dtype, characters: Some(characters), ..self })
    }

    fn form(&self) -> Form {
        // Codecs get elements as they are in memory.
        let order = if self.cast.is_some() { self.dtype.order() } else { ByteOrder::Big };
        let joined = usize::from(self.characters.is_some());
        Form { dtype: self.dtype, order, codecs: self.cast.iter().cloned().collect(), joined }
    }
}

/// An error of the elements of one array, in words for the copy.
pub(super) fn elements_error(job: &Job, error: Error) -> Error {
    match &error {
        Error::Array(ArrayError::Codec { source, .. }) => match &**source {
            CodecError::Encode { why, .. } => Error::Copy { array: job.name.clone(), why: why.clone() },
            _ => error,
        },
        _ => error,
    }
}

/// A variable that is being written, with the elements of its source.
#[derive(Clone, Debug)]
pub(super) struct Target {
    variable: Variable,
    layout: Arc<ArrayLayout>,
    is_text: bool,
}

impl Target {
    pub(super) fn array(variable: Variable, elements: &Elements) -> Result<Array> {
        let layout = variable.layout_in(&elements.form())?;
        Ok(Array::of_format(Arc::new(Target { variable, layout, is_text: elements.is_text })))
    }

    fn no_memory(&self, bytes: u64) -> Error {
        ArrayError::Memory { array: self.layout.name().to_owned(), what: "text", bytes }.into()
    }
}

impl StoredNode for Target {
    fn store(&self) -> &Arc<dyn Store> {
        self.layout.store()
    }

    fn path(&self) -> &str {
        self.variable.name()
    }

    fn format(&self) -> Format {
        Format::NetCdf3
    }

    fn attributes(&self) -> Result<Cow<'_, Json>> {
        Ok(Cow::Owned(Json::object()))
    }
}

impl ArrayNode for Target {
    fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        Ok(None)
    }

    fn chunks_stored(&self, _: Option<Ask<'_>>) -> Result<(u64, u64)> {
        Ok((0, 0))
    }

    fn stored_objects(&self, _: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        Ok(None)
    }

    fn fill_value(&self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn fill(&self) -> Option<&[u8]> {
        // Text is empty.
        if self.is_text { None } else { Some(self.layout.fill().bytes()) }
    }

    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied> {
        Err(copying.refuse("it is being written"))
    }

    fn vlen(&self) -> Option<VlenKind> {
        self.is_text.then_some(VlenKind::Text)
    }

    fn is_writable(&self) -> bool {
        true
    }

    /// Writes texts as rows of characters, with NULs at their ends.
    fn write_ragged(
        &self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        let refuse = |why: String| Error::Copy { array: self.layout.name().to_owned(), why };
        let (size, bytes) = (self.layout.dtype().size(), values.values.as_slice());
        let count = values.offsets.len().saturating_sub(1);
        let all = count.saturating_mul(size);
        let mut rows = Memory::zeroed(all).ok_or_else(|| self.no_memory(all as u64))?;
        let place = |at: &i64| usize::try_from(*at).unwrap_or(usize::MAX);
        let texts = values.offsets.iter().zip(values.offsets.iter().skip(1));
        for (row, (start, end)) in rows.as_mut_slice().chunks_exact_mut(size.max(1)).zip(texts) {
            let text = bytes.get(place(start)..place(end)).unwrap_or_default();
            if text.last() == Some(&0) {
                return Err(refuse(
                    "a text ends with NUL, at which text of NetCDF classic files ends".into(),
                ));
            }
            let front = row.get_mut(..text.len());
            let front = front.ok_or_else(|| refuse("a text became longer while it was copied".into()))?;
            front.copy_from_slice(text);
        }
        let source = Source::dense(rows.as_slice(), &values.shape, size);
        let source = source.ok_or_else(|| refuse("elements of another shape".into()))?;
        Ok(engine::write(&self.layout, selection, &source, options)?)
    }

    fn read_ragged(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged> {
        let rows = engine::read(&self.layout, selection, options)?;
        let texts: Vec<&[u8]> = rows
            .as_slice()
            .chunks_exact(self.layout.dtype().size().max(1))
            .map(|row| row.split_at(row.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)).0)
            .collect();
        let shape = selection.shape();
        Ragged::of(&shape, texts.iter().copied()).ok_or_else(|| self.no_memory(rows.len() as u64))
    }

    fn read_copied(&self, selection: &Selection, options: ReadOptions<'_>, _: &mut Paths) -> Result<Ragged> {
        self.read_ragged(selection, options)
    }
}
