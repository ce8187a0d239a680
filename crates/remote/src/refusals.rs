//! Replacements that a server refuses again and again.
//!
//! A writer whose condition fails reads the object again and retries. That ends once the writer is
//! faster than all others, provided that the server's responses are consistent. A server that
//! contradicts itself about the version of an object would keep the writer busy forever. For
//! example, a cache in front of the server may return old contents, or the version differs in each
//! response.

use crate::client::Contents;
use hyperslab_store::fork::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often the version that was read may be refused. With the pauses this takes about 6 s: some
/// caches lag behind that much.
const SAME: u32 = 12;

/// How often any versions may be refused. One of a hundred writers loses this often to the others
/// with a probability below 10⁻⁴⁰.
const ANY: u32 = 10_000;

/// Number of objects to remember. Few change at the same time.
const OBJECTS: usize = 256;

/// A hash of an object's version. `None` everywhere stands for a missing object.
pub(crate) fn version(tag: Option<&str>, number: Option<&str>, marks: Option<&str>) -> u64 {
    let mut hash = DefaultHasher::new();
    (tag, number, marks).hash(&mut hash);
    hash.finish()
}

/// Refusals for one object since it was last replaced.
#[derive(Debug, Default)]
struct Refused {
    /// The last refused version.
    version: u64,
    /// True if the server has since reported that the object has this version.
    confirmed: bool,
    same: u32,
    all: u32,
}

/// Refusals in one store.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// True if there are any. Most stores never have one.
    any: AtomicBool,
    /// Gated. By path.
    objects: Mutex<BTreeMap<String, Refused>>,
}

impl Refusals {
    /// Notes the contents that the server reports.
    pub(crate) fn note_contents(&self, path: &str, contents: Option<&Contents>) {
        if !self.any.load(Relaxed) {
            return;
        }
        let now = contents.map_or(version(None, None, None), |contents| {
            let marks = contents.marks.as_ref().map(|marks| marks.as_str());
            version(contents.strong_tag(), contents.number.as_deref(), marks)
        });
        if let Some(refused) = self.objects.lock().get_mut(path) {
            refused.confirmed |= refused.version == now;
        }
    }

    /// Notes a refused version. If the server contradicts itself, fails with the number of
    /// refusals.
    pub(crate) fn note_refusal(&self, path: &str, version: u64) -> Result<(), u32> {
        self.any.store(true, Relaxed);
        let mut objects = self.objects.lock();
        if objects.len() >= OBJECTS && !objects.contains_key(path) {
            objects.pop_first();
        }
        let refused = objects.entry(path.to_owned()).or_default();
        refused.same = if refused.confirmed && refused.version == version { refused.same + 1 } else { 0 };
        refused.all += 1;
        (refused.version, refused.confirmed) = (version, false);
        let often = if refused.same >= SAME { refused.same } else { refused.all };
        let over = refused.same >= SAME || refused.all >= ANY;
        if over {
            objects.remove(path);
        }
        if over { Err(often) } else { Ok(()) }
    }

    /// Notes that an object was replaced.
    pub(crate) fn note_replacement(&self, path: &str) {
        if self.any.load(Relaxed) {
            self.objects.lock().remove(path);
        }
    }

    /// The pause before replacing an object. A version that was just refused may come from a cache.
    pub(crate) fn pause(&self, path: &str) -> Duration {
        if !self.any.load(Relaxed) {
            return Duration::ZERO;
        }
        let same = self.objects.lock().get(path).map_or(0, |refused| refused.same);
        if same == 0 { Duration::ZERO } else { Duration::from_millis((10 << same.min(7)).min(1000)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ANY, Refusals, SAME, version};
    use crate::client::Contents;

    fn contents(tag: &str) -> Contents {
        Contents { size: 1, tag: Some(tag.into()), number: None, modified: 0, marks: None }
    }

    #[test]
    fn a_server_that_contradicts_itself_is_found_out() {
        let refusals = Refusals::default();
        let a = version(Some("a"), None, None);
        for n in 0..=SAME {
            assert_eq!(refusals.note_refusal("x", a), if n < SAME { Ok(()) } else { Err(SAME) }, "{n}");
            refusals.note_contents("x", Some(&contents("a")));
        }
        // The same for an object that is reported missing although creating it is refused.
        let none = version(None, None, None);
        let found = (0..=SAME).find_map(|_| {
            let over = refusals.note_refusal("y", none).err();
            refusals.note_contents("y", None);
            over
        });
        assert_eq!(found, Some(SAME));
        // Others were faster, and the version differs each time. `ANY` refusals are too many.
        let over = (0..).find(|n| {
            let over = refusals.note_refusal("z", u64::from(*n)).is_err();
            refusals.note_contents("z", Some(&contents("b")));
            over
        });
        assert_eq!(over, Some(ANY - 1));
        // Threads that create the same object at the same time do not look again.
        assert!((0..100).all(|_| refusals.note_refusal("w", none).is_ok()));
        refusals.note_replacement("w");
        assert!(refusals.pause("w").is_zero());
    }
}
