//! The three kinds of codecs, in Zarr v3's words, and what they are made with.
//!
//! | kind | encodes | to | examples |
//! |---|---|---|---|
//! | array → array | elements | elements | `transpose` |
//! | array → bytes | elements | bytes | `bytes`, `vlen-utf8` |
//! | bytes → bytes | bytes | bytes | `zstd`, `crc32c` |
//!
//! A list of codecs has any number of the first, exactly one of the second, any number of the
//! third. Codecs of all kinds run on plain buffers: each is a [`Codec`]. Two things need not run,
//! because the engine does them while it moves elements: an order of axes
//! ([`ArrayToArray::axes`]) and a byte order ([`ArrayToBytes::byte_order`]). [`ArrayCodecs`] takes
//! them out of a list.

use crate::{ByteOrder, Codec, CodecError, DataType, Result, Vlen, VlenKind, optional};
use std::borrow::Cow;
use std::sync::Arc;

/// The array that a codec gets to encode: one chunk of it.
///
/// For codecs from bytes to bytes it is the array that their bytes were made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// The elements and their byte order in the buffer. [`DataType::CELL`] if they have variable
    /// length.
    pub dtype: DataType,
    /// What elements of variable length are.
    pub vlen: Option<VlenKind>,
    /// What the values of elements are that may be missing: then `dtype` is
    /// [`DataType::optional`] of it.
    pub optional: Option<DataType>,
    /// Elements of a chunk per axis, slowest first.
    pub shape: Cow<'a, [u64]>,
    /// The first axis is the fastest instead (`"order": "F"` of Zarr v2).
    pub fortran: bool,
    /// `true` if elements go to the next codec by value. They then have the byte order of `dtype`,
    /// also if that codec's configuration names the other one. Zarr v3 does this up to the first
    /// filter of numcodecs. A codec of Zarr v2, or behind such a filter, takes bytes for elements
    /// of the type that its configuration names.
    pub by_value: bool,
    /// The fill value: one element in `dtype`'s byte order. If elements have variable length: its
    /// bytes.
    pub fill: Cow<'a, [u8]>,
}

impl Context<'_> {
    /// A chunk on one axis of elements that all are zero. For codecs that look at no more than
    /// the size of elements.
    pub fn of_elements(dtype: DataType) -> Self {
        let fill = vec![0; dtype.size()].into();
        let shape = Cow::Owned(vec![1]);
        Context { dtype, vlen: None, optional: None, shape, fortran: false, by_value: false, fill }
    }

    /// Bytes that compressors take for one element: 1 if elements have variable length, as in
    /// zarr-python, or may be missing.
    pub fn element_size(&self) -> usize {
        if self.vlen.is_some() || self.optional.is_some() { 1 } else { self.dtype.size() }
    }

    /// Bytes of a decoded chunk; `None`: more than memory can hold.
    pub fn decoded_size(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.size(), |size, n| size.checked_mul(usize::try_from(*n).ok()?))
    }
}

/// A codec from array to array.
pub trait ArrayToArray: Codec {
    /// The array that it makes of the one it was made for. The default: one like it.
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        array.clone()
    }

    /// For codecs that only reorder axes: `axes[k]` is the axis that becomes the k-th, slowest
    /// first. The engine then copies elements with other strides, and the codec does not run.
    fn axes(&self) -> Option<&[usize]> {
        None
    }

    /// Whether the codec only gives the array another shape: its bytes stay what they are, and it
    /// need not run.
    fn keeps_bytes(&self) -> bool {
        false
    }
}

/// A codec from array to bytes.
pub trait ArrayToBytes: Codec {
    /// For codecs that only choose a byte order. The engine then swaps bytes while it copies, and
    /// the codec does not run.
    fn byte_order(&self) -> Option<ByteOrder> {
        None
    }

    /// For codecs that encode any bytes, too: the same codec, from bytes to bytes. Zarr v2 does not
    /// tell of which kind a codec is.
    fn of_bytes(&self) -> Option<Arc<dyn Codec>> {
        None
    }

    /// Whether it encodes elements that may be missing, and no others.
    fn takes_optional(&self) -> bool {
        false
    }

    /// The codec of elements of variable length, if it is that. The engine then moves cells, whose
    /// bytes are in a heap.
    fn vlen(&self) -> Option<&Vlen> {
        None
    }
}

/// A codec, by its kind.
#[derive(Clone, Debug)]
pub enum AnyCodec {
    /// Array to array.
    ArrayToArray(Arc<dyn ArrayToArray>),
    /// Array to bytes.
    ArrayToBytes(Arc<dyn ArrayToBytes>),
    /// Bytes to bytes: compressors and checksums.
    BytesToBytes(Arc<dyn Codec>),
}

impl AnyCodec {
    /// The codec, as it runs on buffers.
    pub fn codec(self) -> Arc<dyn Codec> {
        match self {
            AnyCodec::ArrayToArray(codec) => codec,
            AnyCodec::ArrayToBytes(codec) => codec,
            AnyCodec::BytesToBytes(codec) => codec,
        }
    }
}

/// The codecs from array to array at the front of a list, as they are read from it.
#[derive(Clone, Debug)]
pub struct ArrayCodecs<'a> {
    /// `order[k]`: the axis of the array that is the k-th of the chunk that the first codec that
    /// runs gets, slowest first.
    pub order: Vec<usize>,
    /// The array that they make.
    pub array: Context<'a>,
    /// The byte order of the elements before the first codec.
    memory: ByteOrder,
    /// Those that change elements or shapes, in the order of encoding.
    changing: Vec<Arc<dyn ArrayToArray>>,
}

impl<'a> ArrayCodecs<'a> {
    /// No codecs yet, before an array with the axes `order`.
    pub fn new(order: Vec<usize>, array: Context<'a>) -> Self {
        ArrayCodecs { order, memory: array.dtype.order(), array, changing: Vec::new() }
    }

    /// Adds the next codec, which was made for [`ArrayCodecs::array`].
    pub fn push(&mut self, codec: Arc<dyn ArrayToArray>) -> Result<()> {
        self.array = codec.encoded(&self.array);
        match codec.axes() {
            Some(axes) if self.changing.is_empty() => {
                let composed = axes.iter().map(|axis| self.order.get(*axis).copied());
                self.order = composed.collect::<Option<_>>().ok_or_else(|| CodecError::Unfit {
                    why: format!("{:?}: there are no axes {axes:?}", codec.name()),
                })?;
            }
            _ if self.array.vlen.is_some() => {
                let why = format!("{:?} cannot encode elements of variable length", codec.name());
                return Err(CodecError::Unfit { why });
            }
            _ if self.array.optional.is_some() => return Err(optional::unfit(codec.name())),
            _ => self.changing.push(codec),
        }
        Ok(())
    }

    /// The first codec that changes elements or shapes; `None`: they only reorder axes.
    pub fn first(&self) -> Option<&Arc<dyn ArrayToArray>> {
        self.changing.first()
    }

    /// Completes the list with a codec from array to bytes, which was made for
    /// [`ArrayCodecs::array`], and the codecs from bytes to bytes. Fails with
    /// [`CodecError::Unfit`] if it encodes elements of variable length and the array has others, or
    /// the other way round.
    pub fn complete(
        self,
        serializer: Arc<dyn ArrayToBytes>,
        bytes_to_bytes: Vec<Arc<dyn Codec>>,
    ) -> Result<ChunkCodecs> {
        let ArrayCodecs { order, array, memory, changing } = self;
        let running = changing.into_iter().filter(|codec| !codec.keeps_bytes());
        let mut codecs: Vec<Arc<dyn Codec>> = running.map(|codec| codec as Arc<dyn Codec>).collect();
        let vlen = serializer.vlen().cloned();
        if vlen.as_ref().map(Vlen::kind) != array.vlen {
            let (expected, elements) = match array.vlen {
                None => ("bytes", array.dtype.to_string()),
                Some(kind) => (kind.codec_name(), kind.to_string()),
            };
            let found = serializer.name();
            let why = format!("expected {expected:?} for elements of type {elements}, found {found:?}");
            return Err(CodecError::Unfit { why });
        }
        if array.optional.is_some() && !serializer.takes_optional() {
            return Err(optional::unfit(serializer.name()));
        }
        let stored = match serializer.byte_order() {
            Some(stored) if codecs.is_empty() => stored,
            Some(stored) if stored == array.dtype.order() => memory,
            _ => {
                codecs.extend(vlen.is_none().then_some(serializer as Arc<dyn Codec>));
                memory
            }
        };
        codecs.extend(bytes_to_bytes);
        Ok(ChunkCodecs { order, stored, vlen, codecs })
    }
}

/// The codecs of a chunk, taken apart: what the engine does while it moves elements, and what runs.
#[derive(Clone, Debug)]
pub struct ChunkCodecs {
    /// Which axis of the array is the k-th of a decoded chunk, slowest first.
    pub order: Vec<usize>,
    /// The byte order of the elements of a decoded chunk.
    pub stored: ByteOrder,
    /// The codec of elements of variable length, which runs before all others.
    pub vlen: Option<Vlen>,
    /// What runs, in the order of encoding.
    pub codecs: Vec<Arc<dyn Codec>>,
}
