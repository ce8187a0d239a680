//! Describes the copy of an array: the source's metadata in the destination's format.

use super::codec_slots::CodecSlots;
use super::region::Window;
use super::structures::{self, Repack};
use super::{Compressors, CopyOptions, Order, Shards, ragged};
use crate::meaning::{DIMENSIONS, Variable, Words};
use crate::nodes::element::swap_bytes;
use crate::{Array, Error, Format, Result};
use hyperslab_array::Dims;
use hyperslab_codec::{ByteOrder, BytesCodec, Codec, DataType, Transpose, VlenKind};
use hyperslab_zarr::{ArraySpec, AxisChunks, Choice, IndexLocation, Json, KeyEncoding, Structure};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Differences from the source that the user did not ask for, with the arrays concerned.
pub(crate) type Notes = BTreeMap<&'static str, Vec<String>>;

const NO_FILL: &str =
    "fill value null in the source, the default one in the copy (absent chunks read the same)";
const NO_NAMES: &str = "dimension names left out, because some are missing, which Zarr v2 cannot say";

const NO_MISSING: &str = "_FillValue left out, which xarray refuses for this element type in Zarr v3";
const LONG_MEANINGS: &str = "names of enumeration values left out, because some have spaces";
const NO_FILTERS: &str =
    "no filters in the copy: they take bytes for other elements, which readers of Zarr v3 do not do alike";
const LISTS: &str =
    "elements are lists of numbers of any length: xarray's engine \"zarr\" refuses a dataset that has them";
const NO_SHARDS: &str = "no shards in the copy, which Zarr v2 has not; each chunk is an object";
const FLAT_SHARDS: &str = "shards of one level, with checksummed index, in place of the source's shards";
const ONE_SHAPE: &str = "chunks of different shapes became chunks of the largest of these shapes";
const SHARDS_OF_ONE_SHAPE: &str = "shards of different shapes became shards of the largest of these shapes";
const LARGER_SHARDS: &str = "larger shards than in the source, so that the chunks divide them";

/// The state while one array or group is described.
pub(crate) struct Copying<'a> {
    /// The array or group, for messages.
    pub(crate) name: &'a str,
    pub(crate) options: &'a CopyOptions<'a>,
    /// The differences to report.
    pub(crate) notes: &'a mut Notes,
}

impl Copying<'_> {
    /// The copy's format.
    pub(crate) fn format(&self) -> Format {
        self.options.format.unwrap_or(Format::ZarrV3)
    }

    pub(crate) fn refuse(&self, why: impl Into<String>) -> Error {
        Error::Copy { array: self.name.to_owned(), why: why.into() }
    }

    pub(crate) fn note(&mut self, note: &'static str) {
        self.notes.entry(note).or_default().push(self.name.to_owned());
    }
}

/// The facts that a copy takes from its source, whatever the source's format.
pub(crate) struct Copied {
    /// The stored byte order.
    pub(crate) order: ByteOrder,
    /// The fill value in memory.
    pub(crate) fill: Option<Vec<u8>>,
    /// The names and values of an enumeration.
    pub(crate) members: Vec<(String, i128)>,
    pub(crate) key_encoding: Option<KeyEncoding>,
    /// The order in the metadata; matters only below two axes, where C and Fortran order agree.
    pub(crate) fortran_order: bool,
    /// The kind of elements of variable length; `None`: all have one size.
    pub(crate) vlen: Option<VlenKind>,
    /// The value type of elements that may be missing, and their codec in v3 metadata.
    pub(crate) optional: Option<(DataType, Json)>,
    /// The Zarr v2 filter that turns objects into bytes.
    pub(crate) object_codec: Option<Json>,
    /// The fields of elements, without gaps, in the source's byte order.
    pub(crate) structure: Option<Structure>,
    /// The codecs, unless the user chooses others.
    pub(crate) codecs: CopiedCodecs,
    /// The sharding codec in v3 metadata, with the codecs before and after it.
    pub(crate) sharding: Option<(Vec<Json>, Json, Vec<Json>)>,
    /// The chunks along each axis if their lengths differ; in a sharded array, the shards.
    pub(crate) rectilinear: Option<Vec<AxisChunks>>,
}

/// The codecs that a copy takes from its source.
pub(crate) enum CopiedCodecs {
    /// Metadata in the copy's format. `filters: None`: keep the filters that are already set.
    AsTheyAre { filters: Option<Vec<Json>>, compressors: Vec<Json> },
    /// Codecs that must be expressed in the copy's format.
    InOtherWords(Vec<Arc<dyn Codec>>),
    /// Replacements.
    Instead(Compressors),
}

/// Describes the copy of `array`, or of a part of it. `shape`: the shape of the copy.
pub(super) fn convert(
    array: &Array,
    variable: &Variable,
    (window, shape): (&Window, &[u64]),
    copying: &mut Copying<'_>,
) -> Result<ArraySpec> {
    let (name, options, format) = (copying.name, copying.options, copying.format());
    let same_format = format == array.format();
    let facts = array.node().collect_copied(copying)?;
    let (dtype, stored) = (array.dtype(), facts.order);

    let vlen = ragged::kind(facts.vlen, name, format)?;
    if !same_format && matches!(vlen, Some(VlenKind::Array(_))) {
        copying.note(LISTS);
    }

    // v2 keeps the stored byte order in the element type, v3 in the serializer.
    let mut spec = ArraySpec::new(format.zarr()?, shape, dtype.with_order(stored));
    let mut endian = dtype.has_order().then_some(stored);
    spec.vlen = vlen;
    spec.object_codec = facts.object_codec.filter(|_| format == Format::ZarrV2);
    let mut repack = None;
    if let Some(mut structure) = facts.structure {
        if format == Format::ZarrV3 {
            structure.check_v3().map_err(|why| copying.refuse(why))?;
            let order = structures::order(&structure);
            endian = structure.has_order().then_some(order);
            structure = structure.with_order(order);
        }
        repack = Repack::new(array, &structure).map_err(|why| copying.refuse(why))?;
        spec.dtype = structure.engine_type();
        spec.structure = Some(structure);
    }
    let mut serializer = Json::from(&BytesCodec::metadata(endian));
    if let Some((value, codec)) = &facts.optional {
        if format != Format::ZarrV3 {
            return Err(copying.refuse("its elements may be missing, which Zarr v2 has no word for"));
        }
        (spec.dtype, spec.optional, serializer) = (*value, true, codec.clone());
    }
    // The element size for codecs, which see elements of variable length as bytes.
    let element = if vlen.is_some() || spec.optional { 1 } else { spec.dtype.size() };
    let (axes, shard_axes) = match array.layout().sharding() {
        None => (facts.rectilinear, None),
        // Chunks in shards have one shape.
        Some(_) => (None, facts.rectilinear),
    };
    let asked = options.chunks_for(array, name, variable.dimension_names.as_deref(), shape);
    match axes {
        Some(axes)
            if same_format
                && window.is_whole(array.shape())
                && asked.is_none()
                && matches!(options.shards, Shards::Keep | Shards::None) =>
        {
            spec.rectilinear = Some(axes);
        }
        other => {
            if other.is_some() {
                copying.note(ONE_SHAPE);
            }
            let kept = || array.has_chunks().then(|| array.chunk_shape().into());
            spec.chunks = asked.map(Dims::from).or_else(kept);
        }
    }
    spec.choose_chunks();
    let absent;
    // Elements beyond the end of the source become fill value.
    let fill = variable.rest(array)?.or(facts.fill);
    if same_format {
        (spec.attributes, spec.dimension_names) = as_they_are(array)?;
        absent = fill;
    } else {
        let words = variable.words(array, fill, format.zarr()?);
        let Words { attributes, dimension_names, fill, loses_missing } = words;
        (spec.attributes, spec.dimension_names, absent) = (attributes, dimension_names, fill);
        if loses_missing {
            copying.note(NO_MISSING);
        }
        if !variable.is_variable {
            flags(&mut spec.attributes, &facts.members, copying);
        }
    }
    spec.fill = absent.map(|mut fill| {
        if vlen.is_none() && stored != dtype.order() {
            swap_bytes(&mut fill, dtype.number_size());
        }
        if let Some(repack) = &repack {
            let len = repack.apply(&mut fill);
            fill.truncate(len);
        }
        fill
    });
    if spec.fill.is_none() && format == Format::ZarrV3 {
        copying.note(NO_FILL);
    }
    if format == Format::ZarrV3 && array.format() == Format::ZarrV2 && spec.dimension_names.is_some() {
        spec.attributes.remove(DIMENSIONS);
    }
    if format == Format::ZarrV2 && spec.dimension_names.as_ref().is_some_and(|names| names.contains(&None)) {
        spec.dimension_names = None;
        copying.note(NO_NAMES);
    }
    spec.key_encoding = match (format, facts.key_encoding) {
        (_, Some(encoding)) if same_format => Some(encoding),
        // Keep nested folders.
        (Format::ZarrV2, Some(encoding)) => Some(KeyEncoding::V2 { separator: encoding.v2_separator() }),
        _ => None,
    };

    let order = order(array, options);
    let identity = order.iter().copied().eq(0..order.len());
    let reversed = order.iter().copied().eq((0..order.len()).rev());
    match format {
        Format::ZarrV2 if identity || reversed => {
            // Below two axes both orders are the same: keep the source's.
            spec.fortran_order = if identity { options.order.is_none() && facts.fortran_order } else { true };
        }
        Format::ZarrV2 => {
            return Err(copying.refuse(format!(
                "its axes are stored in the order {order:?}, which Zarr v2 has not; choose order C or F"
            )));
        }
        _ => {
            let transpose = (!identity).then(|| Json::from(&Transpose::metadata(&order)));
            spec.filters = Choice::Set(transpose.into_iter().collect());
            if vlen.is_none() {
                spec.serializer = Choice::Set(serializer);
            }
        }
    }

    let mut set = |codecs: Vec<Arc<dyn Codec>>, hint| {
        let mut slots = CodecSlots::new(&codecs, format)
            .map_err(|codec| copying.refuse(format!("{format} has no codec {:?}{hint}", codec.name())))?;
        if format == Format::ZarrV3 && !slots.are_of_elements(dtype) {
            copying.note(NO_FILTERS);
            slots = slots.without_filters();
        }
        slots.put(&mut spec, format, stored);
        Ok::<_, Error>(())
    };
    const HINT: &str = "; choose another compressor";
    match (&options.compressors, facts.codecs) {
        (Some(chosen), _) => set(chosen.codecs(element)?, "")?,
        (None, CopiedCodecs::Instead(others)) => set(others.codecs(element)?, HINT)?,
        (None, CopiedCodecs::InOtherWords(codecs)) => set(codecs, HINT)?,
        (None, CopiedCodecs::AsTheyAre { filters, compressors }) => {
            if let Some(filters) = filters {
                spec.filters = Choice::Set(filters);
            }
            spec.compressors = Choice::Set(compressors);
        }
    }
    set_shards(&mut spec, (array, window), facts.sharding, shard_axes, copying)?;
    Ok(spec)
}

/// The attributes and axis names of a Zarr array.
fn as_they_are(array: &Array) -> Result<(Json, Option<Vec<Option<String>>>)> {
    Ok((array.attributes()?.into_owned(), array.dimension_names()?))
}

/// Stores the names of enumeration values as CF flags (CF conventions, section 3.5, "Flags").
pub(super) fn flags(attributes: &mut Json, members: &[(String, i128)], copying: &mut Copying<'_>) {
    let has_flags = ["flag_values", "flag_meanings"].iter().any(|name| attributes.get(name).is_some());
    if members.is_empty() || has_flags {
        return;
    }
    if members.iter().any(|(member, _)| member.contains(char::is_whitespace)) {
        copying.note(LONG_MEANINGS);
        return;
    }
    let values = members.iter().map(|(_, value)| (*value).into()).collect();
    let meanings: Vec<&str> = members.iter().map(|(member, _)| member.as_str()).collect();
    attributes.set("flag_values", Json::Array(values));
    attributes.set("flag_meanings", meanings.join(" ").as_str().into());
}

/// Chooses the shards of the copy. Its chunks are already chosen.
fn set_shards(
    spec: &mut ArraySpec,
    (array, window): (&Array, &Window),
    codec: Option<(Vec<Json>, Json, Vec<Json>)>,
    axes: Option<Vec<AxisChunks>>,
    copying: &mut Copying<'_>,
) -> Result<()> {
    let options = copying.options;
    let v2 = options.format == Some(Format::ZarrV2);
    let chunks = spec.chunks.clone().unwrap_or_default();
    match &options.shards {
        Shards::Shape(shards) if shards.len() == array.shape().len() => {
            let axes = shards.iter().zip(&spec.shape).zip(&chunks);
            let shards: Dims =
                axes.map(|((size, n), chunk)| size.unwrap_or(round_up_to_chunk(*n, *chunk))).collect();
            if v2 {
                return Err(
                    copying.refuse(format!("shards of {:?}: Zarr v2 has no shards", shards.as_slice()))
                );
            }
            if shards.iter().zip(&chunks).any(|(shard, chunk)| shard % chunk != 0) {
                return Err(copying.refuse(format!(
                    "shards of {:?} are no multiples of its chunks {:?}; choose other shards or chunks",
                    shards.as_slice(),
                    chunks.as_slice()
                )));
            }
            spec.shards = Some(shards);
        }
        Shards::Auto if v2 => return Err(copying.refuse("Zarr v2 has no shards")),
        Shards::Auto => spec.choose_shards().map_err(|why| copying.refuse(why))?,
        Shards::None => {}
        Shards::Keep | Shards::Shape(_) => {
            let Some(sharding) = array.layout().sharding() else { return Ok(()) };
            if v2 {
                copying.note(NO_SHARDS);
                return Ok(());
            }
            let same_chunks = chunks.as_slice() == array.chunk_shape();
            let same_shards = axes.is_none() || window.is_whole(array.shape());
            if same_chunks
                && same_shards
                && options.compressors.is_none()
                && options.order.is_none()
                && let Some((before, codec, after)) = codec
            {
                spec.chunks = axes.is_none().then(|| sharding.grid().chunk_shape().into());
                spec.rectilinear = axes;
                spec.filters = Choice::Set(before);
                spec.serializer = Choice::Set(codec);
                spec.compressors = Choice::Set(after);
                return Ok(());
            }
            if sharding.levels().len() > 1 || sharding.levels().iter().any(|level| !level.codecs().is_empty())
            {
                copying.note(FLAT_SHARDS);
            }
            if sharding.levels().first().is_some_and(|level| level.at_start()) {
                spec.index_location = IndexLocation::Start;
            }
            if let Some(axes) = axes {
                if same_chunks && same_shards {
                    spec.rectilinear_shards = Some(axes);
                    return Ok(());
                }
                copying.note(SHARDS_OF_ONE_SHAPE);
            }
            let old = sharding.grid().chunk_shape();
            let shards: Dims =
                old.iter().zip(&chunks).map(|(shard, chunk)| round_up_to_chunk(*shard, *chunk)).collect();
            if shards.as_slice() != old {
                copying.note(LARGER_SHARDS);
            }
            spec.shards = Some(shards);
        }
    }
    Ok(())
}

/// The least multiple of `chunk` that is at least `n`; at least one chunk.
fn round_up_to_chunk(n: u64, chunk: u64) -> u64 {
    n.div_ceil(chunk).max(1).saturating_mul(chunk)
}

/// The order of the axes in the copy's chunks, slowest first.
fn order(array: &Array, options: &CopyOptions<'_>) -> Vec<usize> {
    let rank = array.shape().len();
    match options.order {
        None => array.layout().encoding().order().iter().map(|axis| usize::from(*axis)).collect(),
        Some(Order::C) => (0..rank).collect(),
        Some(Order::F) => (0..rank).rev().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;
    use crate::meaning::Meaning;
    use hyperslab_store::{MemoryStore, Store};
    use hyperslab_zarr as zarr;

    fn stored(format: Format, change: impl FnOnce(&mut ArraySpec)) -> Array {
        let mut spec = ArraySpec::new(format.zarr().unwrap(), &[6, 8], "<f4".parse().unwrap());
        spec.chunks = Some([2, 3].as_slice().into());
        change(&mut spec);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        zarr::Array::create(store, "a", spec, false).unwrap().into()
    }

    fn specified(array: &Array, options: &CopyOptions<'_>, notes: &mut Notes) -> Result<ArraySpec> {
        let variable =
            Meaning::of(&Node::Array(array.clone()), [array].into_iter())?.variable(array)?.unwrap();
        let window = Window::whole(array.shape());
        let copying = &mut Copying { name: "a", options, notes };
        convert(array, &variable, (&window, array.shape()), copying)
    }

    /// The copy's metadata, by creating the copy.
    fn converted(array: &Array, options: &CopyOptions<'_>) -> (Array, Notes) {
        let mut notes = Notes::new();
        let spec = specified(array, options, &mut notes).unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        (zarr::Array::create(store, "a", spec, false).unwrap().into(), notes)
    }

    fn to(format: Format) -> CopyOptions<'static> {
        CopyOptions { format: Some(format), ..CopyOptions::default() }
    }

    #[test]
    fn there_and_back_is_the_same() {
        let blosc = r#"[{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}]"#;
        let attributes = r#"{"units": "m", "huge": 12345678901234567890123, "none": NaN}"#;
        let original = stored(Format::ZarrV2, |spec| {
            spec.dtype = ">i2".parse().unwrap();
            spec.fill = Some(vec![1, 2]);
            spec.fortran_order = true;
            spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
            spec.dimension_names = Some(vec![Some("y".into()), Some("x".into())]);
            spec.compressors =
                Choice::Set(Json::parse(blosc.as_bytes()).unwrap().as_array().unwrap().to_vec());
        });
        let (v3, notes) = converted(&original, &to(Format::ZarrV3));
        assert!(notes.is_empty());
        // In v2 the fill value marks missing elements; in v3 an attribute does.
        let with_missing = attributes.replace('}', r#", "_FillValue": 258}"#);
        assert_eq!(v3.attributes().unwrap().to_text(None), with_missing);
        assert_eq!(v3.dimension_names().unwrap(), original.dimension_names().unwrap());
        assert_eq!(v3.as_zarr().unwrap().to_json().get("fill_value"), Some(&Json::from(0x0102_u32)));
        assert!(v3.as_zarr().unwrap().fortran_order());
        assert_eq!(
            v3.as_zarr().unwrap().serializer().unwrap().to_text(None),
            r#"{"name": "bytes", "configuration": {"endian": "big"}}"#
        );
        let (v2, _) = converted(&v3, &to(Format::ZarrV2));
        for member in ["shape", "chunks", "dtype", "fill_value", "order", "compressor", "filters"] {
            let of =
                |array: &Array| array.as_zarr().unwrap().to_json().get(member).map(|json| json.to_text(None));
            if member == "compressor" {
                // v3 spells out the element size, which blosc took from the v2 array.
                assert!(of(&v2).unwrap().contains(r#""cname": "lz4""#));
            } else {
                assert_eq!(of(&v2), of(&original), "{member}");
            }
        }
        assert_eq!(v2.attributes().unwrap().get(DIMENSIONS).unwrap().to_text(None), r#"["y", "x"]"#);
    }

    #[test]
    fn what_is_asked_for() {
        let array = stored(Format::ZarrV2, |_| {});
        let options = CopyOptions {
            chunks: Some(vec![Some(5), None]),
            order: Some(Order::F),
            compressors: Some("gzip:2".parse().unwrap()),
            ..CopyOptions::default()
        };
        let (copy, _) = converted(&array, &options);
        assert_eq!(copy.format(), Format::ZarrV3);
        assert_eq!(copy.chunk_shape(), [5, 8]);
        assert!(copy.as_zarr().unwrap().fortran_order());
        assert_eq!(copy.layout().encoding().chain().codecs()[0].name(), "gzip");
        // Arrays of another rank keep their chunks.
        let options = CopyOptions { chunks: Some(vec![Some(5)]), ..CopyOptions::default() };
        assert_eq!(converted(&array, &options).0.chunk_shape(), [2, 3]);
    }

    #[test]
    fn shards_are_kept_as_far_as_possible() {
        let inner = r#"{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2], "index_location": "start",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 2}}]}}"#;
        let nested = stored(Format::ZarrV3, |spec| {
            spec.chunks = Some([2, 4].as_slice().into());
            spec.shards = Some([4, 8].as_slice().into());
            spec.serializer = Choice::Set(Json::parse(inner.as_bytes()).unwrap());
        });
        let codecs = |array: &Array| array.as_zarr().unwrap().to_json().get("codecs").unwrap().to_text(None);
        let (copy, notes) = converted(&nested, &to(Format::ZarrV3));
        assert_eq!((codecs(&copy), notes.len()), (codecs(&nested), 0));
        assert_eq!((copy.chunk_shape(), copy.shard_shape()), (&[1, 2][..], Some(&[4, 8][..])));

        // With other chunks there is one level of shards, of the old shape if the chunks divide it.
        let options = CopyOptions { chunks: Some(vec![Some(3), None]), ..to(Format::ZarrV3) };
        let (copy, notes) = converted(&nested, &options);
        assert_eq!((copy.chunk_shape(), copy.shard_shape()), (&[3, 8][..], Some(&[6, 8][..])));
        assert_eq!(copy.layout().encoding().chain().codecs()[0].name(), "gzip");
        assert_eq!(notes.keys().copied().collect::<Vec<_>>(), [LARGER_SHARDS, FLAT_SHARDS]);

        let (copy, notes) = converted(&nested, &to(Format::ZarrV2));
        assert_eq!((copy.chunk_shape(), copy.shard_shape()), (&[1, 2][..], None));
        assert_eq!(notes[NO_SHARDS], ["a"]);
        let none = CopyOptions { shards: Shards::None, ..to(Format::ZarrV3) };
        let (copy, notes) = converted(&nested, &none);
        assert_eq!((copy.chunk_shape(), copy.shard_shape(), notes.len()), (&[1, 2][..], None, 0));
    }

    #[test]
    fn shards_that_are_asked_for() {
        let array = stored(Format::ZarrV2, |_| {});
        let shards = |shards| CopyOptions { shards, ..to(Format::ZarrV3) };
        let shape = |sizes: &[Option<u64>]| shards(Shards::Shape(sizes.to_vec()));
        let (copy, _) = converted(&array, &shape(&[Some(4), None]));
        assert_eq!((copy.chunk_shape(), copy.shard_shape()), (&[2, 3][..], Some(&[4, 9][..])));
        let (copy, _) = converted(&array, &shards(Shards::Auto));
        assert_eq!((copy.chunk_shape(), copy.shard_shape()), (&[2, 3][..], Some(&[8, 12][..])));
        // Arrays of another rank keep their layout.
        assert_eq!(converted(&array, &shape(&[Some(4)])).0.shard_shape(), None);
        let refused = |options| specified(&array, &options, &mut Notes::new()).unwrap_err().to_string();
        assert!(
            refused(shape(&[Some(5), None]))
                .contains("shards of [5, 9] are no multiples of its chunks [2, 3]")
        );
        for shards in [Shards::Auto, Shards::Shape(vec![Some(4), None])] {
            assert!(refused(CopyOptions { shards, ..to(Format::ZarrV2) }).contains("Zarr v2 has no shards"));
        }
    }

    #[test]
    fn null_fill_values() {
        let array = stored(Format::ZarrV2, |spec| spec.fill = None);
        let (copy, notes) = converted(&array, &to(Format::ZarrV3));
        assert_eq!(copy.as_zarr().unwrap().fill(), Some(&[0; 4][..]));
        assert_eq!(notes[NO_FILL], ["a"]);
        let (copy, notes) = converted(&array, &to(Format::ZarrV2));
        assert_eq!((copy.as_zarr().unwrap().fill(), notes.len()), (None, 0));
    }

    #[test]
    fn what_v2_has_not() {
        let transpose = r#"{"name": "transpose", "configuration": {"order": [1, 2, 0]}}"#;
        let array = stored(Format::ZarrV3, |spec| {
            spec.shape = [2, 3, 4].as_slice().into();
            spec.chunks = None;
            spec.filters = Choice::Set(vec![Json::parse(transpose.as_bytes()).unwrap()]);
            spec.dimension_names = Some(vec![Some("z".into()), None, None]);
        });
        let mut notes = Notes::new();
        let error = specified(&array, &to(Format::ZarrV2), &mut notes).unwrap_err().to_string();
        assert!(error.contains("order [1, 2, 0]"), "{error}");
        assert_eq!(notes[NO_NAMES], ["a"]);
        let (copy, _) = converted(&array, &to(Format::ZarrV3));
        assert_eq!(copy.layout().encoding().order(), array.layout().encoding().order());
        let options = CopyOptions { order: Some(Order::C), ..to(Format::ZarrV2) };
        assert!(!converted(&array, &options).0.as_zarr().unwrap().fortran_order());
    }
}
