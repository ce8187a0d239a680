//! The three kinds of codecs, named as in Zarr v3, and the context that they are made with.
//!
//! | kind | encodes | to | examples |
//! |---|---|---|---|
//! | array → array | elements | elements | `transpose` |
//! | array → bytes | elements | bytes | `bytes`, `vlen-utf8` |
//! | bytes → bytes | bytes | bytes | `zstd`, `crc32c` |
//!
//! A list of codecs has any number of the first kind, exactly one of the second, and any number of
//! the third. Codecs of all kinds run on plain buffers: each is a [`Codec`]. Two kinds of change
//! need no run, because the engine makes them while it moves elements: an order of axes
//! ([`ArrayToArray::axes`]) and a byte order ([`ArrayToBytes::byte_order`]). [`ArrayCodecs`] takes
//! them out of a list.

use crate::{ByteOrder, Codec, CodecError, DataType, Result, Vlen, VlenKind, optional};
use std::borrow::Cow;
use std::sync::Arc;

/// The array that a codec encodes: one chunk of it.
///
/// For bytes-to-bytes codecs, it is the array that the bytes were made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// The elements and their byte order in the buffer. [`DataType::CELL`] if they have variable
    /// length.
    pub dtype: DataType,
    /// The type of elements of variable length.
    pub vlen: Option<VlenKind>,
    /// The type of values if elements may be missing: `dtype` is then its [`DataType::optional`].
    pub optional: Option<DataType>,
    /// Elements of a chunk per axis, slowest first.
    pub shape: Cow<'a, [u64]>,
    /// The first axis is the fastest instead (`"order": "F"` of Zarr v2).
    pub fortran: bool,
    /// `true` if elements go to the next codec by value. They then have the byte order of `dtype`,
    /// even if that codec's configuration names the other one. Zarr v3 does this up to the first
    /// numcodecs filter. A codec in Zarr v2, or after such a filter, reads bytes as elements of the
    /// type in its configuration.
    pub by_value: bool,
    /// The fill value: one element in `dtype`'s byte order, or its bytes if elements have variable
    /// length.
    pub fill: Cow<'a, [u8]>,
}

impl Context<'_> {
    /// A chunk with one axis, whose elements are all zero. For codecs that need only the size of
    /// elements.
    pub fn of_elements(dtype: DataType) -> Self {
        let fill = vec![0; dtype.size()].into();
        let shape = Cow::Owned(vec![1]);
        Context { dtype, vlen: None, optional: None, shape, fortran: false, by_value: false, fill }
    }

    /// Bytes that compressors treat as one element.
    ///
    /// 1 if elements have variable length, as in zarr-python, or may be missing.
    pub fn element_size(&self) -> usize {
        if self.vlen.is_some() || self.optional.is_some() { 1 } else { self.dtype.size() }
    }

    /// Bytes of a decoded chunk, or `None` if memory cannot hold them.
    pub fn decoded_size(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.size(), |size, n| size.checked_mul(usize::try_from(*n).ok()?))
    }
}

/// A codec from array to array.
pub trait ArrayToArray: Codec {
    /// The array that the codec makes from `array`. By default it is like `array`.
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        array.clone()
    }

    /// The new order of axes, for codecs that only reorder axes.
    ///
    /// `axes[k]` is the axis that becomes the k-th, slowest first. The engine then copies elements
    /// with other strides, and the codec does not run.
    fn axes(&self) -> Option<&[usize]> {
        None
    }

    /// `true` if the codec only changes the array's shape: the bytes stay, so it need not run.
    fn keeps_bytes(&self) -> bool {
        false
    }
}

/// A codec from array to bytes.
pub trait ArrayToBytes: Codec {
    /// The byte order, for codecs that only choose one.
    ///
    /// The engine then swaps bytes while it copies, and the codec does not run.
    fn byte_order(&self) -> Option<ByteOrder> {
        None
    }

    /// The same codec as a bytes-to-bytes codec, if it can encode any bytes.
    ///
    /// Zarr v2 does not give the kind of a codec.
    fn of_bytes(&self) -> Option<Arc<dyn Codec>> {
        None
    }

    /// `true` if the codec encodes elements that may be missing, and no others.
    fn takes_optional(&self) -> bool {
        false
    }

    /// The codec itself, if it encodes elements of variable length.
    ///
    /// The engine then moves cells, whose bytes are in a heap.
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

/// The array-to-array codecs at the front of a list, collected while it is read.
#[derive(Clone, Debug)]
pub struct ArrayCodecs<'a> {
    /// Maps axes for the first codec that runs: its chunk's k-th axis, slowest first, is the
    /// array's axis `order[k]`.
    pub order: Vec<usize>,
    /// The array that these codecs make.
    pub array: Context<'a>,
    /// The byte order of the elements before the first codec.
    memory: ByteOrder,
    /// The codecs that change elements or shapes, in the order of encoding.
    changing: Vec<Arc<dyn ArrayToArray>>,
}

impl<'a> ArrayCodecs<'a> {
    /// An empty list for an array with the axes `order`.
    pub fn new(order: Vec<usize>, array: Context<'a>) -> Self {
        ArrayCodecs { order, memory: array.dtype.order(), array, changing: Vec::new() }
    }

    /// Adds the next codec, which must have been made for [`ArrayCodecs::array`].
    pub fn push(&mut self, codec: Arc<dyn ArrayToArray>) -> Result<()> {
        self.array = codec.encoded(&self.array);
        match codec.axes() {
            Some(axes) if self.changing.is_empty() => {
                let composed = axes.iter().map(|axis| self.order.get(*axis).copied());
                self.order = composed.collect::<Option<_>>().ok_or_else(|| CodecError::Unfit {
                    why: format!("{:?}: expected axes of the array, found axes {axes:?}", codec.name()),
                })?;
            }
            _ if self.array.vlen.is_some() => {
                let why = format!("{:?} cannot encode elements of variable length", codec.name());
                return Err(CodecError::Unfit { why });
            }
            _ if self.array.optional.is_some() => {
                return Err(optional::unsupported_codec_error(codec.name()));
            }
            _ => self.changing.push(codec),
        }
        Ok(())
    }

    /// The first codec that changes elements or shapes, or `None` if all only reorder axes.
    pub fn first(&self) -> Option<&Arc<dyn ArrayToArray>> {
        self.changing.first()
    }

    /// Completes the list with an array-to-bytes codec and the bytes-to-bytes codecs.
    ///
    /// The array-to-bytes codec must have been made for [`ArrayCodecs::array`]. Fails with
    /// [`CodecError::Unfit`] if only one of codec and array has elements of variable length.
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
            return Err(optional::unsupported_codec_error(serializer.name()));
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

/// A chunk's codecs, split into the engine's work while it moves elements and the codecs that run.
#[derive(Clone, Debug)]
pub struct ChunkCodecs {
    /// `order[k]` is the array's axis that is the k-th axis of a decoded chunk, slowest first.
    pub order: Vec<usize>,
    /// The byte order of the elements of a decoded chunk.
    pub stored: ByteOrder,
    /// The codec of elements of variable length, which runs before all others.
    pub vlen: Option<Vlen>,
    /// The codecs that run, in the order of encoding.
    pub codecs: Vec<Arc<dyn Codec>>,
}
