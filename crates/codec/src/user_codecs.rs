//! Codecs from users. They are found by name after this crate's codecs.
//!
//! A Rust program adds a codec with [`register`]. A front end for another language, whose codecs
//! are only known when a name is looked up, sets a [`Finder`].
//!
//! There are no locks here, so a forked child meets none. Registered codecs stay for ever, in a
//! list that only grows at its front.

use crate::registry::{CODECS, Config, Registration};
use crate::{AnyCodec, CodecError, Context, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Reserved names: the engine uses them for something else, or nobody may read them.
const RESERVED: [&str; 6] = [
    "sharding_indexed",
    "pickle",
    "numcodecs.pickle",
    // numcodecs' codecs that make bytes of Python objects, which Zarr v3 does not have.
    "json2",
    "msgpack2",
    "numcodecs.sharding_indexed",
];

#[derive(Debug)]
struct Node {
    codec: Registration,
    next: Option<&'static Node>,
}

/// The front of the list of registered codecs.
static FIRST: AtomicPtr<Node> = AtomicPtr::new(std::ptr::null_mut());

/// Adds a codec that arrays may name in their metadata.
///
/// Arrays that are opened or created from now on can use it. Fails with [`CodecError::Taken`] if a
/// name is taken, by a codec of this crate, which cannot be replaced, or by one registered before.
///
/// ```
/// use hyperslab_codec::registry::{CODECS, Make, Registration, register};
/// use hyperslab_codec::{Codec, Context, Result, Scratch};
/// use std::sync::Arc;
///
/// /// Flips all bits.
/// #[derive(Debug)]
/// struct Not;
///
/// impl Codec for Not {
///     fn name(&self) -> &'static str {
///         "example.not"
///     }
///
///     fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
///         let room = dst.len() as u64;
///         let too_long = hyperslab_codec::CodecError::Size {
///             codec: self.name(),
///             expected: room,
///             found: src.len() as u64,
///         };
///         let dst = dst.get_mut(..src.len()).ok_or(too_long)?;
///         dst.iter_mut().zip(src).for_each(|(to, from)| *to = !from);
///         Ok(src.len())
///     }
///
///     fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
///         dst.clear();
///         dst.extend(src.iter().map(|byte| !byte));
///         Ok(())
///     }
///
///     fn to_v3(&self) -> Option<serde_json::Value> {
///         Some(serde_json::json!({"name": "example.not"}))
///     }
/// }
///
/// register(Registration {
///     v2: None,
///     v3: &["example.not"],
///     make: Make::BytesToBytes(|_configuration, _array| Ok(Arc::new(Not))),
/// })?;
///
/// let array = Context::of_elements("<i2".parse().unwrap());
/// let not = CODECS.from_v3("example.not", None, &array)?.codec();
/// let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
/// not.encode(&[0, 255], &mut stored, &mut scratch)?;
/// assert_eq!(stored, [255, 0]);
/// # Ok::<(), hyperslab_codec::CodecError>(())
/// ```
pub fn register(codec: Registration) -> Result<()> {
    let mut first = FIRST.load(Ordering::Acquire);
    let mut node = Box::new(Node { codec, next: None });
    loop {
        // SAFETY: the pointer is null, or `Box::into_raw` made it of a node below, which nobody
        // frees or changes.
        node.next = unsafe { first.as_ref() };
        if let Some(name) = names(&codec).find(|name| is_taken(*name, node.next)) {
            return Err(CodecError::Taken { name: name.1.into() });
        }
        let raw = Box::into_raw(node);
        match FIRST.compare_exchange(first, raw, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(now) => {
                // SAFETY: made of a box above, and nobody else has seen it.
                node = unsafe { Box::from_raw(raw) };
                first = now;
            }
        }
    }
}

/// The names of a codec, each with `true` if it is a Zarr v2 name.
fn names(codec: &Registration) -> impl Iterator<Item = (bool, &'static str)> + use<> {
    codec.v2.map(|id| (true, id)).into_iter().chain(codec.v3.iter().map(|name| (false, *name)))
}

fn is_taken(name: (bool, &'static str), first: Option<&'static Node>) -> bool {
    is_reserved(name.1, name.0) || list(first).any(|other| names(other).any(|taken| taken == name))
}

/// `true` if the name belongs to a codec of this crate, or is reserved.
pub fn is_reserved(name: &str, v2: bool) -> bool {
    let named = |line: &Registration| if v2 { line.v2 == Some(name) } else { line.v3.contains(&name) };
    RESERVED.contains(&name) || CODECS.0.iter().any(named)
}

fn list(first: Option<&'static Node>) -> impl Iterator<Item = &'static Registration> {
    std::iter::successors(first, |node| node.next).map(|node| &node.codec)
}

/// The registered codecs, newest first.
pub(crate) fn registrations() -> impl Iterator<Item = &'static Registration> {
    // SAFETY: as in `register`.
    list(unsafe { FIRST.load(Ordering::Acquire).as_ref() })
}

/// Looks up codecs that are not known in advance.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    /// Makes the codec of this name and configuration for the array. Returns `None` if there is no
    /// such codec.
    pub find: fn(&str, Config<'_>, &Context<'_>) -> Option<Result<AnyCodec>>,
    /// Returns `true` if the codec with this Zarr v3 name is an array-to-bytes codec.
    pub makes_bytes: fn(&str) -> bool,
}

static FINDER: OnceLock<Finder> = OnceLock::new();

/// How many codecs the finder has made.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// Sets the finder of codecs that are neither in [`CODECS`] nor registered.
///
/// Only the first call has an effect. Call it before starting threads.
pub fn set_finder(finder: Finder) {
    let _ = FINDER.set(finder);
}

/// How many codecs the finder has made so far.
///
/// If the count changes while metadata is parsed, do not keep the result longer than its array: the
/// name may mean another codec later.
pub fn finder_count() -> u64 {
    FOUND.load(Ordering::Acquire)
}

/// Asks the finder, unless the name is reserved.
pub(crate) fn find(name: &str, config: Config<'_>, array: &Context<'_>) -> Option<Result<AnyCodec>> {
    let finder = FINDER.get().filter(|_| !RESERVED.contains(&name))?;
    let found = (finder.find)(name, config, array)?;
    FOUND.fetch_add(1, Ordering::AcqRel);
    Some(found)
}

/// Returns `true` if the finder's codec with this Zarr v3 name is an array-to-bytes codec.
pub(crate) fn finds_bytes(name: &str) -> bool {
    FINDER.get().is_some_and(|finder| !RESERVED.contains(&name) && (finder.makes_bytes)(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Make, makes_bytes};
    use crate::{Gzip, Lz4};
    use serde_json::json;
    use std::sync::Arc;

    const GZIP: Make = Make::BytesToBytes(|_, _| Ok(Arc::new(Gzip { level: 3 })));
    const LZ4: Make = Make::BytesToBytes(|_, _| Ok(Arc::new(Lz4 { acceleration: 1 })));

    #[test]
    fn registered_codecs_are_found_by_their_names() {
        register(Registration { v2: Some("t.a"), v3: &["t.b", "numcodecs.t.a"], make: GZIP }).unwrap();
        let array = Context::of_elements("<i2".parse().unwrap());
        for name in ["t.b", "numcodecs.t.a"] {
            assert_eq!(CODECS.from_v3(name, None, &array).unwrap().codec().name(), "gzip");
            assert!(!makes_bytes(name));
        }
        assert_eq!(CODECS.from_v2(&json!({"id": "t.a"}), &array).unwrap().codec().name(), "gzip");
        for error in [CODECS.from_v3("t.a", None, &array), CODECS.from_v2(&json!({"id": "t.b"}), &array)] {
            assert!(matches!(error, Err(CodecError::Unknown { .. })));
        }
        let message = CODECS.from_v3("t.z", None, &array).unwrap_err().to_string();
        assert!(message.contains("bytes, packbits") && message.contains("t.b"), "{message}");
    }

    #[test]
    fn taken_names_are_refused_whole() {
        register(Registration { v2: Some("t.one"), v3: &[], make: GZIP }).unwrap();
        let all: [(Option<&str>, &'static [&str]); 8] = [
            (Some("t.one"), &["t.other"]),
            (Some("zlib"), &[]),
            (None, &["t.other", "gzip"]),
            (None, &["numcodecs.zlib"]),
            (None, &["sharding_indexed"]),
            (Some("pickle"), &[]),
            (None, &["numcodecs.pickle"]),
            (Some("json2"), &["t.other"]),
        ];
        for (v2, v3) in all {
            let error = register(Registration { v2, v3, make: LZ4 }).unwrap_err();
            assert!(matches!(error, CodecError::Taken { .. }), "{v2:?} {v3:?}: {error}");
        }
        let array = Context::of_elements("<i2".parse().unwrap());
        assert!(CODECS.from_v3("t.other", None, &array).is_err());
        // In v3 the name is free.
        register(Registration { v2: None, v3: &["t.one"], make: LZ4 }).unwrap();
        assert_eq!(CODECS.from_v3("t.one", None, &array).unwrap().codec().name(), "lz4");
    }

    #[test]
    fn of_threads_that_race_one_gets_the_name() {
        const NAMES: [&str; 4] = ["t.0", "t.1", "t.2", "t.3"];
        let won = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for name in NAMES {
                        let done = register(Registration { v2: Some(name), v3: &[], make: GZIP });
                        won.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), NAMES.len());
    }
}
