//! Replacements that a server refuses again and again.
//!
//! A writer whose condition is not met reads the object again and tries again. That ends once it is
//! faster than all others, if the server's answers agree with each other. A server that contradicts
//! itself about the version of an object would keep the writer for ever. A cache before the server
//! may give old contents, or the version is another in each answer.

use crate::client::Contents;
use hyperslab_store::fork::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often the version that was read is refused. With the pauses it takes about 6 s: some caches
/// are as old as that.
const SAME: u32 = 12;

/// How often any version is refused. A writer among a hundred has lost that often to all others
/// with a probability below 10⁻⁴⁰.
const ANY: u32 = 10_000;

/// Objects that are remembered. Few are changed at the same time.
const OBJECTS: usize = 256;

/// The number of a version of an object. `None`: there is no object.
pub(crate) fn version(tag: Option<&str>, number: Option<&str>, marks: Option<&str>) -> u64 {
    let mut hash = DefaultHasher::new();
    (tag, number, marks).hash(&mut hash);
    hash.finish()
}

/// Refusals of one object since it was last replaced.
#[derive(Debug, Default)]
struct Refused {
    /// The version that was refused last.
    version: u64,
    /// True: the server has said since that the object has this version.
    seen: bool,
    same: u32,
    all: u32,
}

/// Refusals of a store.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Whether there are any: most stores never have one.
    any: AtomicBool,
    /// Gated. By path.
    objects: Mutex<BTreeMap<String, Refused>>,
}

impl Refusals {
    /// Notes what the server says is there.
    pub(crate) fn saw(&self, path: &str, contents: Option<&Contents>) {
        if !self.any.load(Relaxed) {
            return;
        }
        let now = contents.map_or(version(None, None, None), |contents| {
            let marks = contents.marks.as_ref().map(|marks| marks.as_str());
            version(contents.strong(), contents.number.as_deref(), marks)
        });
        if let Some(refused) = self.objects.lock().get_mut(path) {
            refused.seen |= refused.version == now;
        }
    }

    /// Notes that a version was refused. `Err`: the server contradicts itself; how often it did.
    pub(crate) fn refused(&self, path: &str, version: u64) -> Result<(), u32> {
        self.any.store(true, Relaxed);
        let mut objects = self.objects.lock();
        if objects.len() >= OBJECTS && !objects.contains_key(path) {
            objects.pop_first();
        }
        let refused = objects.entry(path.to_owned()).or_default();
        refused.same = if refused.seen && refused.version == version { refused.same + 1 } else { 0 };
        refused.all += 1;
        (refused.version, refused.seen) = (version, false);
        let often = if refused.same >= SAME { refused.same } else { refused.all };
        let over = refused.same >= SAME || refused.all >= ANY;
        if over {
            objects.remove(path);
        }
        if over { Err(often) } else { Ok(()) }
    }

    /// Notes that an object was replaced.
    pub(crate) fn met(&self, path: &str) {
        if self.any.load(Relaxed) {
            self.objects.lock().remove(path);
        }
    }

    /// How long to wait before an object is replaced: a version that was just refused may come from a
    /// cache.
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
            assert_eq!(refusals.refused("x", a), if n < SAME { Ok(()) } else { Err(SAME) }, "{n}");
            refusals.saw("x", Some(&contents("a")));
        }
        // Also of an object that is said to be missing, and there.
        let none = version(None, None, None);
        let found = (0..=SAME).find_map(|_| {
            let over = refusals.refused("y", none).err();
            refusals.saw("y", None);
            over
        });
        assert_eq!(found, Some(SAME));
        // Others were faster: the version is another each time. Nobody was faster ANY times.
        let over = (0..).find(|n| {
            let over = refusals.refused("z", u64::from(*n)).is_err();
            refusals.saw("z", Some(&contents("b")));
            over
        });
        assert_eq!(over, Some(ANY - 1));
        // Threads that create one object at the same time do not look again.
        assert!((0..100).all(|_| refusals.refused("w", none).is_ok()));
        refusals.met("w");
        assert!(refusals.pause("w").is_zero());
    }
}
