//! The description of a new array.

use crate::dtypes::{self, MAX_ELEMENT};
use crate::error::{Problem, invalid, unexpected_value};
use crate::json::Json;
use crate::structure::Structure;
use crate::vlen::{self, Element};
use crate::{AxisChunks, Format, KeyEncoding, chunks, fill, optional};
use hyperslab_array::{Dims, MAX_RANK};
use hyperslab_codec::{Cell, DataType, VlenKind};

/// A setting that has a default.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Choice<T> {
    /// The default.
    #[default]
    Auto,
    /// This value.
    Set(T),
}

/// The place of the index in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexLocation {
    /// After the inner chunks.
    #[default]
    End,
    /// Before the inner chunks.
    Start,
}

/// The description of a new array. [`ArraySpec::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct ArraySpec {
    /// The format.
    pub format: Format,
    /// Elements per axis.
    pub shape: Dims,
    /// The element type. v2 stores its byte order.
    ///
    /// A v3 array always has the machine's byte order in memory; `serializer` decides the stored
    /// order.
    pub dtype: DataType,
    /// The type of elements of variable length; `dtype` is then unused.
    ///
    /// v3 has no arrays as elements. The codec of the elements (`vlen-utf8`, …) is chosen
    /// automatically. In v2 it is the first filter, before `filters`, in v3 the `serializer`.
    pub vlen: Option<VlenKind>,
    /// v3: `true` if elements may be missing.
    ///
    /// Then `dtype` is the type of their values, and `fill` has one more byte: 1, or 0 if elements
    /// never written are missing. The codec of the elements (`zarrs.optional`) is chosen
    /// automatically.
    pub optional: bool,
    /// v2: the first filter for elements of variable length, or `None` for the usual one.
    ///
    /// Given if the filter has settings (`json2`, `msgpack2`), or is another one of its kind
    /// (`categorize` for text).
    pub object_codec: Option<Json>,
    /// The fields of elements; then `dtype` is [`Structure::engine_type`].
    ///
    /// v3 has no fields that are arrays, and stores all fields in the byte order of the
    /// `serializer` (auto: little endian).
    pub structure: Option<Structure>,
    /// Elements of a chunk per axis. `None` chooses by size, so that chunks divide the shards.
    pub chunks: Option<Dims>,
    /// v3: chunks of different lengths, per axis, instead of `chunks` and `shards`.
    pub rectilinear: Option<Vec<AxisChunks>>,
    /// v3: elements of a shard per axis, multiples of `chunks`. v2 has no shards.
    ///
    /// The other codecs are then applied to the chunks in a shard. With `None`, each chunk is an
    /// object. (Shards in shards, or with an index in other codecs, need a `serializer`.)
    pub shards: Option<Dims>,
    /// v3: shards of different lengths, per axis, multiples of `chunks`, instead of `shards`.
    pub rectilinear_shards: Option<Vec<AxisChunks>>,
    /// The place of the index of `shards`.
    pub index_location: IndexLocation,
    /// v3: array-to-array codecs (`transpose`), as v3 objects. v2: filters, as numcodecs objects.
    ///
    /// Auto: no filters.
    pub filters: Choice<Vec<Json>>,
    /// v3: compressors and checksums. v2: at most one compressor.
    ///
    /// Auto: zstd, level 0 (its default level), but no compressor after a `serializer` that makes
    /// shards.
    pub compressors: Choice<Vec<Json>>,
    /// v3: the array-to-bytes codec, `bytes` or `sharding_indexed`. v2 has no serializer.
    ///
    /// Auto: `bytes`, in the machine's byte order.
    pub serializer: Choice<Json>,
    /// One element in `dtype`'s byte order, or its bytes if it has variable length.
    ///
    /// `None` means `null` in v2, and the type's default in v3. Elements that may be missing are
    /// then missing.
    pub fill: Option<Vec<u8>>,
    /// `true` to store chunks with the first axis fastest.
    ///
    /// v3 stores that as a `transpose` codec, and only if `filters` is auto.
    pub fortran_order: bool,
    /// The user's attributes, as an object.
    pub attributes: Json,
    /// Names of the axes. v2 stores them as xarray's attribute `_ARRAY_DIMENSIONS`.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// Keys of chunks. `None` is v3's `default` with `/`, or v2's with `.`.
    pub key_encoding: Option<KeyEncoding>,
}

impl ArraySpec {
    /// An array with defaults for everything else.
    pub fn new(format: Format, shape: &[u64], dtype: DataType) -> Self {
        ArraySpec {
            format,
            shape: shape.into(),
            dtype,
            vlen: None,
            optional: false,
            object_codec: None,
            structure: None,
            chunks: None,
            rectilinear: None,
            shards: None,
            rectilinear_shards: None,
            index_location: IndexLocation::End,
            filters: Choice::Auto,
            compressors: Choice::Auto,
            serializer: Choice::Auto,
            fill: None,
            fortran_order: false,
            attributes: Json::object(),
            dimension_names: None,
            key_encoding: None,
        }
    }

    /// An array of elements of variable length, with defaults for everything else.
    ///
    /// ```
    /// use hyperslab_codec::VlenKind;
    /// use hyperslab_store::MemoryStore;
    /// use hyperslab_zarr::{Array, ArraySpec, Format};
    ///
    /// let spec = ArraySpec::of_vlen(Format::V3, &[1000], VlenKind::Text);
    /// let names = Array::create(std::sync::Arc::new(MemoryStore::new()), "names", spec, false)?;
    /// assert_eq!(names.vlen(), Some(VlenKind::Text));
    /// # Ok::<(), hyperslab_zarr::ZarrError>(())
    /// ```
    pub fn of_vlen(format: Format, shape: &[u64], kind: VlenKind) -> Self {
        ArraySpec { vlen: Some(kind), ..ArraySpec::new(format, shape, DataType::CELL) }
    }

    /// An array of elements that may be missing, with defaults for everything else.
    ///
    /// ```
    /// use hyperslab_store::MemoryStore;
    /// use hyperslab_zarr::{Array, ArraySpec};
    ///
    /// let spec = ArraySpec::of_optional(&[1000], "<f8".parse()?);
    /// let levels = Array::create(std::sync::Arc::new(MemoryStore::new()), "levels", spec, false)?;
    /// assert_eq!(levels.optional(), Some("<f8".parse()?));
    /// assert_eq!(levels.layout().dtype().size(), 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_optional(shape: &[u64], value: DataType) -> Self {
        ArraySpec { optional: true, ..ArraySpec::new(Format::V3, shape, value) }
    }

    /// An array of elements with fields, with defaults for everything else.
    ///
    /// ```
    /// use hyperslab_store::MemoryStore;
    /// use hyperslab_zarr::{Array, ArraySpec, Format, Structure};
    ///
    /// let station = Structure::from_text(r#"[["id", "<i4"], ["level", "<f8"]]"#)?;
    /// let spec = ArraySpec::of_structure(Format::V3, &[1000], station);
    /// let stations = Array::create(std::sync::Arc::new(MemoryStore::new()), "stations", spec, false)?;
    /// assert_eq!(stations.structure().map(|structure| structure.fields().len()), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_structure(format: Format, shape: &[u64], structure: Structure) -> Self {
        let dtype = structure.engine_type();
        ArraySpec { structure: Some(structure), ..ArraySpec::new(format, shape, dtype) }
    }

    /// The kind of elements, with their type.
    pub(crate) fn element(&self) -> Element {
        match self.vlen {
            Some(kind) => Element::Vlen(kind),
            None if self.optional => Element::Optional(self.dtype),
            None => Element::Fixed(self.dtype),
        }
    }

    /// The metadata document of the array (`zarr.json`, `.zarray`), and its attributes.
    ///
    /// The caller checks the document by parsing it.
    pub(crate) fn document(&self) -> Result<(Json, Json), Problem> {
        if self.shape.len() > MAX_RANK {
            return invalid!("shape: expected at most {MAX_RANK} axes, found {}", self.shape.len());
        }
        if !matches!(self.attributes, Json::Object(_)) {
            return unexpected_value("attributes", "an object", &self.attributes);
        }
        // Before the fill value, which has this size, becomes text.
        if self.vlen.is_none() && self.dtype.size() > MAX_ELEMENT {
            dtypes::check_size("dtype", self.dtype)?;
        }
        match self.format {
            Format::V2 => crate::format::v2::document(self),
            Format::V3 => crate::format::v3::document(self),
        }
    }

    /// Chooses `chunks` by size, unless they are given.
    pub fn choose_chunks(&mut self) {
        if self.rectilinear.is_none() && self.rectilinear_shards.is_none() {
            self.chunks = Some(self.chunks.clone().unwrap_or_else(|| self.guess()));
        }
    }

    /// Chooses `shards` by size: as many whole chunks as take up to 64 MiB in memory.
    ///
    /// Also chooses `chunks`, unless they are given. Fails, with a text, if given chunks are not
    /// valid.
    pub fn choose_shards(&mut self) -> Result<(), String> {
        let chunk = match &self.chunks {
            None => chunks::guess(&self.shape, self.size(), chunks::LARGEST_IN_SHARD),
            Some(chunk) => self.check_chunk_shape("chunks", chunk).map_err(Problem::text)?.clone(),
        };
        self.shards = Some(chunks::guess_shards(&self.shape, &chunk, self.size()));
        self.chunks = Some(chunk);
        Ok(())
    }

    /// Bytes of an element in memory. For variable length, bytes of its cell.
    fn size(&self) -> usize {
        self.element().engine_type().size()
    }

    /// Guesses chunks that are objects.
    fn guess(&self) -> Dims {
        match self.vlen {
            None => chunks::guess(&self.shape, self.size(), chunks::LARGEST),
            // zarr-python counts each element as a byte. For the largest arrays that would give
            // more cells than should be in memory at once.
            Some(_) => chunks::guess(&self.shape, 1, chunks::LARGEST / Cell::SIZE as u64),
        }
    }

    /// The shapes of chunks and shards, as in metadata.
    pub(crate) fn grid_json(&self) -> Result<(Json, Option<Json>), Problem> {
        let shards =
            self.shards.as_ref().map(|shards| self.check_chunk_shape("shards", shards)).transpose()?;
        let chunk = match (&self.chunks, shards) {
            (None, None) => self.guess(),
            (None, Some(shards)) => chunks::guess_in_shard(shards, self.size()),
            (Some(chunk), _) => self.check_chunk_shape("chunks", chunk)?.clone(),
        };
        if let Some(shards) = shards
            && shards.iter().zip(&chunk).any(|(shard, chunk)| shard % chunk != 0)
        {
            return invalid!(
                "shards: expected multiples of the chunks {:?}, found {:?}",
                chunk.as_slice(),
                shards.as_slice()
            );
        }
        Ok((chunk.as_slice().into(), shards.map(|shards| shards.as_slice().into())))
    }

    /// The shape of the chunks in shards of different lengths.
    ///
    /// If it is not given, it is chosen so that the chunks divide each shard.
    pub(crate) fn chunk_in(&self, axes: &[AxisChunks]) -> Result<Dims, Problem> {
        match &self.chunks {
            Some(chunk) => self.check_chunk_shape("chunks", chunk).cloned(),
            None => {
                let common = |axis: &AxisChunks| axis.lengths().fold(0, greatest_common_divisor).max(1);
                let common: Dims = axes.iter().map(common).collect();
                Ok(chunks::guess_in_shard(&common, self.size()))
            }
        }
    }

    /// Checks a shape of chunks. Refuses chunks without elements even on axes without elements,
    /// because other readers refuse them.
    fn check_chunk_shape<'a>(&self, field: &str, chunk: &'a Dims) -> Result<&'a Dims, Problem> {
        if chunk.len() != self.shape.len() {
            return invalid!(
                "{field}: expected {} axes as in shape, found {}",
                self.shape.len(),
                chunk.len()
            );
        }
        if chunk.contains(&0) {
            return invalid!("{field}: expected positive integers, found {:?}", chunk.as_slice());
        }
        Ok(chunk)
    }

    /// The fill value. If there is none, zeros in v3 and `None` (`null`) in v2.
    fn fill_or_zeros(&self) -> Option<Vec<u8>> {
        let zeros = (self.format == Format::V3).then(|| vec![0; self.dtype.size()]);
        self.fill.clone().or(zeros)
    }

    pub(crate) fn fill_json(&self) -> Result<Json, Problem> {
        if let (Some(structure), Some(fill)) = (&self.structure, self.fill_or_zeros()) {
            return structure.write_fill(&fill, self.format);
        }
        match (&self.fill, self.element()) {
            (None, _) if self.format == Format::V2 => Ok(Json::Null),
            (None, Element::Fixed(dtype)) => fill::write(dtype, &fill::default(dtype), self.format),
            (Some(bytes), Element::Fixed(dtype)) => fill::write(dtype, bytes, self.format),
            (None, Element::Optional(_)) => Ok(Json::Null),
            (Some(bytes), Element::Optional(value)) => optional::write_fill(value, bytes),
            (fill, Element::Vlen(kind)) => vlen::write_fill(kind, fill.as_deref().unwrap_or_default()),
        }
    }
}

/// The greatest common divisor. If one number is 0, returns the other.
fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}
