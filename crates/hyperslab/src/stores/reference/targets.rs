//! Finds the objects that references lead to, and decides which of them may be read.
//!
//! 1. Complete the URL: a relative one starts at the directory of the document.
//! 2. Check that [`settings::external_files`] allows it; usually it must be below that directory.
//!    Documents are untrusted: they must not read files of this machine, or send this machine's
//!    credentials to a server.
//! 3. For a local file, resolve links and open it. It stays open; at most [`FILES`] do. On a
//!    server, one store serves all objects of a host or bucket.

use super::fsspec::{Remote, Storage};
use crate::Error;
use crate::settings::{self, ExternalFiles};
use crate::stores::{self, Reached, StoreOptions};
use hyperslab_store::fork::{Lazy, Mutex};
use hyperslab_store::{FileStore, HeldObject, Key, Store, StoreError, Unread};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most files to keep open.
const FILES: usize = 128;

/// The place of a document.
#[derive(Debug)]
pub(super) enum DocumentLocation {
    /// A local directory, with links resolved.
    Directory(PathBuf),
    /// A URL without a slash at its end.
    Url(String),
}

impl DocumentLocation {
    /// The place of the object `key` in a store.
    pub(super) fn of(store: &dyn Store, key: &str) -> DocumentLocation {
        let local = Key::new(key).ok().and_then(|key| store.local_path(Some(key)));
        let directory = local.and_then(|path| std::path::absolute(path).ok()?.parent()?.canonicalize().ok());
        let above = key.rsplit_once('/').map_or("", |(above, _)| above);
        let url = || format!("{}/{above}", store.url().trim_end_matches('/'));
        directory.map_or_else(
            || DocumentLocation::Url(url().trim_end_matches('/').to_owned()),
            DocumentLocation::Directory,
        )
    }
}

/// The meaning of a URL in the document.
#[derive(Debug, PartialEq, Eq)]
enum Location {
    /// A local path.
    Path(PathBuf),
    /// Any other URL.
    Url(String),
}

/// A store for all objects of one host or bucket.
#[derive(Debug)]
struct Base {
    /// Scheme and host, or the whole location if it cannot be split.
    location: String,
    store: Arc<dyn Store>,
    /// The prefix of keys in the store.
    path: String,
    next: Next,
}

/// The rest of the list of stores. The list only grows, because open objects may borrow from it.
type Next = Lazy<Box<Base>>;

/// An object that was found.
#[derive(Debug)]
pub(super) enum Found<'t> {
    /// An object that stays open.
    Held(Arc<HeldObject>),
    /// A key in a store.
    Key(&'t Arc<dyn Store>, String),
}

/// The reason why there is no object.
#[derive(Debug)]
pub(super) enum NotFound {
    Unread(Unread),
    Store(StoreError),
}

impl From<StoreError> for NotFound {
    fn from(error: StoreError) -> Self {
        NotFound::Store(error)
    }
}

/// Finds targets.
#[derive(Debug)]
pub(super) struct Targets {
    policy: ExternalFiles,
    place: DocumentLocation,
    /// The document's store and its URL, for targets in the same store.
    own: (Arc<dyn Store>, String),
    /// The options with which the document's server was reached. No other server gets them.
    storage: Storage,
    /// How to reach targets, if the user said so.
    remote: Option<Remote>,
    bases: Next,
    /// Open files by target number. Gated.
    open_objects: Mutex<HashMap<u32, Arc<HeldObject>>>,
}

impl Targets {
    /// Makes the finder for targets of the document `key` in a store.
    /// `storage`: the options with which the store was reached; `remote`: how to reach targets.
    pub(super) fn around(
        store: Arc<dyn Store>,
        key: &str,
        storage: &[(String, String)],
        remote: Option<&Remote>,
    ) -> Targets {
        let (policy, place) = (settings::external_files(), DocumentLocation::of(&*store, key));
        let url = store.url().trim_end_matches('/').to_owned();
        let storage = Storage(storage.to_vec());
        let (own, remote, bases) = ((store, url), remote.cloned(), Next::new());
        Targets { policy, place, own, storage, remote, bases, open_objects: Mutex::default() }
    }

    /// Finds the target with this number and URL.
    pub(super) fn find(&self, number: u32, url: &str) -> Result<Found<'_>, NotFound> {
        if let Some(held) = self.open_objects.lock().get(&number) {
            return Ok(Found::Held(held.clone()));
        }
        let held =
            match self.locate(url).and_then(|location| self.check(location)).map_err(NotFound::Unread)? {
                Location::Path(path) => match FileStore::open(&path)? {
                    Some(store) => {
                        let key = store.key().to_owned();
                        (Arc::new(store) as Arc<dyn Store>, key)
                    }
                    None => return Err(NotFound::Unread(Unread::Missing)),
                },
                Location::Url(url) => {
                    let (store, key) = self.reach(&url)?;
                    // On a server, opening would cost another request.
                    let held =
                        if store.cost().looks_are_cheap() { store.hold(Key::new(&key)?)? } else { None };
                    match held {
                        Some(held) => held,
                        None => return Ok(Found::Key(store, key)),
                    }
                }
            };
        let held = Arc::new(held);
        let mut open = self.open_objects.lock();
        let dropped = if open.len() >= FILES { std::mem::take(&mut *open) } else { HashMap::new() };
        let replaced = open.insert(number, held.clone());
        // Release the lock before closing files.
        drop(open);
        drop((dropped, replaced));
        Ok(Found::Held(held))
    }

    /// A store like the targets' stores, if they are distant, to find out what requests cost.
    /// `url`: the URL of a target.
    pub(super) fn similar_store(&self, url: &str) -> Option<Arc<dyn Store>> {
        match self.locate(url).and_then(|location| self.check(location)).ok()? {
            Location::Path(_) => None,
            Location::Url(url) => self.reach(&url).ok().map(|(store, _)| store.clone()),
        }
    }

    /// Step 1: completes a URL.
    fn locate(&self, url: &str) -> Result<Location, Unread> {
        if url.is_empty() {
            return Err(Unread::Unreachable("it has no name".into()));
        }
        if let Some(url) = self.remote.as_ref().and_then(|remote| remote.url_of(url)) {
            return Ok(Location::Url(url));
        }
        let path = stores::local_path(url).map_err(|error| Unread::Unreachable(error.to_string()))?;
        let Some(path) = path else { return Ok(Location::Url(url.to_owned())) };
        match &self.place {
            _ if path.is_absolute() => Ok(Location::Path(path)),
            DocumentLocation::Directory(directory) => Ok(Location::Path(directory.join(path))),
            DocumentLocation::Url(place) => Ok(Location::Url(join_url(place, url))),
        }
    }

    /// Step 2: checks a location. Resolves links in a returned path.
    fn check(&self, location: Location) -> Result<Location, Unread> {
        let refused = |why: &str| {
            let advice = match self.policy {
                ExternalFiles::Refuse => "",
                _ => "; \"anywhere\" allows it: only for references that you trust",
            };
            let policy = self.policy.name();
            Err(Unread::Refused(format!("{why} (setting external_files = \"{policy}\"{advice})")))
        };
        if self.policy == ExternalFiles::Refuse {
            return refused("other files are not opened");
        }
        let outside = "it is not in the directory of the references, nor below";
        let anywhere = self.policy == ExternalFiles::Anywhere;
        match (location, &self.place) {
            (Location::Path(path), place) => {
                let resolved = match path.canonicalize() {
                    Ok(resolved) => resolved,
                    Err(_) if !anywhere && !is_below(&path, place) => return refused(outside),
                    Err(error) if is_missing(&error) => return Err(Unread::Missing),
                    Err(error) => return Err(Unread::Unreachable(error.to_string())),
                };
                if anywhere || is_below(&resolved, place) {
                    Ok(Location::Path(resolved))
                } else {
                    refused(outside)
                }
            }
            (Location::Url(url), DocumentLocation::Url(place)) => {
                let inside = url.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'));
                if anywhere || inside { Ok(Location::Url(url)) } else { refused(outside) }
            }
            (url, DocumentLocation::Directory(_)) => {
                if anywhere {
                    Ok(url)
                } else {
                    refused(outside)
                }
            }
        }
    }

    /// Step 3 for a URL: the store, and the key in it.
    fn reach(&self, url: &str) -> Result<(&Arc<dyn Store>, String), NotFound> {
        let (own, own_url) = &self.own;
        let given = self.remote.as_ref().and_then(|remote| remote.options_of(url));
        if given.is_none()
            && own.only().is_none()
            && let Some(key) = url.strip_prefix(own_url.as_str()).and_then(|rest| rest.strip_prefix('/'))
        {
            return Ok((own, key.to_owned()));
        }
        let (location, key) = cut(url).unwrap_or((url, String::new()));
        let is_own = matches!(&self.place, DocumentLocation::Url(place) if is_at(place, location));
        let storage = given.unwrap_or(if is_own { self.storage.0.as_slice() } else { &[] });
        let mut next = &self.bases;
        loop {
            let base = match next.get() {
                Some(base) => base,
                None => {
                    let Reached { store, path, .. } =
                        stores::reach_store(location, StoreOptions { storage, ..StoreOptions::default() })
                            .map_err(|error| match error {
                                Error::Store(error) => NotFound::Store(error),
                                error => NotFound::Unread(Unread::Unreachable(error.to_string())),
                            })?;
                    next.put(Box::new(Base { location: location.to_owned(), store, path, next: Next::new() }))
                }
            };
            // Another thread may have added a different store here.
            if base.location == location {
                let key = [base.path.trim_matches('/'), key.as_str()];
                return Ok((&base.store, key.join("/").trim_matches('/').to_owned()));
            }
            next = &base.next;
        }
    }
}

/// Returns `true` if a URL begins with this scheme and host.
fn is_at(url: &str, host: &str) -> bool {
    url.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_below(path: &Path, place: &DocumentLocation) -> bool {
    let climbs = || path.components().any(|part| part == std::path::Component::ParentDir);
    matches!(place, DocumentLocation::Directory(directory) if path.starts_with(directory) && !climbs())
}

/// Returns `true` if the error says that nothing exists there.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Resolves a relative URL from a directory. Steps upwards end at the host.
fn join_url(directory: &str, relative: &str) -> String {
    let (scheme, rest) = directory.split_once("://").unwrap_or(("", directory));
    let mut parts: Vec<&str> = rest.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{scheme}://{}", parts.join("/"))
}

/// Splits a URL into scheme with host, and key.
/// `None`: it is a chain of URLs, or ends in a query.
fn cut(url: &str) -> Option<(&str, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = scheme.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    if url.contains("::") || is_web && rest.contains(['?', '#']) {
        return None;
    }
    let (host, key) = rest.split_once('/')?;
    let key = if is_web { stores::percent_decoded(key)? } else { key.to_owned() };
    Some((url.get(..scheme.len() + 3 + host.len())?, key))
}

/// A URL for messages: without user, password and signature.
pub(super) fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = if scheme.starts_with("abf") { host } else { host.rsplit('@').next().unwrap_or_default() };
    let path =
        if scheme.starts_with("http") { path.split(['?', '#']).next().unwrap_or_default() } else { path };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::{LocalOptions, LocalStore, MemoryStore};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_local_references_may_lead_to() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("data");
        std::fs::create_dir_all(inside.join("below")).unwrap();
        for name in ["secret", "data/a", "data/below/b"] {
            std::fs::write(root.path().join(name), name).unwrap();
        }
        symlink(root.path().join("secret"), inside.join("link")).unwrap();
        symlink("a", inside.join("fine")).unwrap();
        let targets = |policy| {
            let store: Arc<dyn Store> = Arc::new(LocalStore::open(&inside, LocalOptions::default()).unwrap());
            Targets { policy, ..Targets::around(store, "refs.json", &[], None) }
        };
        let find = |policy, url: &str| match targets(policy).find(0, url) {
            Ok(Found::Held(held)) => held.1.clone(),
            Ok(Found::Key(store, key)) => format!("{} {key}", store.url()),
            Err(NotFound::Unread(why)) => why.to_string(),
            Err(NotFound::Store(error)) => error.to_string(),
        };
        let same = |url: &str| find(ExternalFiles::SameDirectory, url);
        let at = |name: &str| root.path().join(name).display().to_string();
        for (url, found) in [
            ("a", "a"),
            ("./below/../a", "a"),
            ("below/b", "b"),
            ("fine", "a"),
            (&at("data/a"), "a"),
            (&format!("file://{}", at("data/a")), "a"),
            ("below", "no such object"),
            ("nothing", "no such object"),
            ("a/b", "no such object"),
            ("", "no name"),
            ("odd://x", "not supported"),
        ] {
            assert!(same(url).contains(found), "{url}: {}", same(url));
        }
        let secret = at("secret");
        let nothing = at("nothing");
        for url in [
            "../secret",
            "link",
            &secret,
            &nothing,
            "../nothing",
            "below/../../secret",
            "/etc/passwd",
            "memory://a name/b",
        ] {
            let error = same(url);
            assert!(
                error.contains("not in the directory of the references") && error.contains("\"anywhere\""),
                "{url}: {error}"
            );
            assert!(find(ExternalFiles::Refuse, url).contains("are not opened"));
        }
        assert!(find(ExternalFiles::Refuse, "a").contains("are not opened"));
        for url in ["../secret", "link", &secret] {
            assert_eq!(find(ExternalFiles::Anywhere, url), "secret");
        }
        assert!(find(ExternalFiles::Anywhere, "../nothing").contains("no such object"));
        let _keep = MemoryStore::named("a name");
        assert!(find(ExternalFiles::Anywhere, "memory://a name/b/c").ends_with(" b/c"));
    }

    #[test]
    fn what_references_elsewhere_may_lead_to() {
        let _keep = (MemoryStore::named("here"), MemoryStore::named("there"));
        let targets = |policy| {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::named("here"));
            Targets {
                policy,
                place: DocumentLocation::Url("memory://here/x".into()),
                ..Targets::around(store, "x/refs.json", &[], None)
            }
        };
        let find = |policy, url: &str| match targets(policy).find(0, url) {
            Ok(Found::Held(held)) => held.1.clone(),
            Ok(Found::Key(_, key)) => key,
            Err(NotFound::Unread(why)) => why.to_string(),
            Err(NotFound::Store(error)) => error.to_string(),
        };
        for (url, key) in [("a", "x/a"), ("b/./c", "x/b/c"), ("b/../c", "x/c"), ("memory://here/x/d", "x/d")]
        {
            assert_eq!(find(ExternalFiles::SameDirectory, url), key);
        }
        for url in
            ["../a", "/x/a", "file:///x/a", "memory://here/xa", "memory://there/x/a", "memory://here/y"]
        {
            let error = find(ExternalFiles::SameDirectory, url);
            assert!(error.contains("not in the directory of the references"), "{url}: {error}");
        }
        // Steps upwards in an absolute URL are not resolved: no key contains one.
        let error = find(ExternalFiles::SameDirectory, "memory://here/x/../y");
        assert!(error.contains("'..' component"), "{error}");
        for (url, key) in [("../a", "a"), ("memory://there/x/a", "x/a"), ("../../../a", "a")] {
            assert_eq!(find(ExternalFiles::Anywhere, url), key);
        }
    }

    #[test]
    fn urls_are_cut() {
        for (url, parts) in [
            ("s3://b/x/y.nc", Some(("s3://b", "x/y.nc"))),
            ("https://h:1/a%20b/c", Some(("https://h:1", "a b/c"))),
            ("s3://b/a%20b?c", Some(("s3://b", "a%20b?c"))),
            ("https://h/x?sig=1", None),
            ("https://h", None),
            ("zip://a::s3://b/x", None),
        ] {
            assert_eq!(cut(url), parts.map(|(base, key)| (base, key.to_owned())), "{url}");
        }
        assert_eq!(redact_url("https://u:canary@h/a?canary"), "https://h/a");
        assert_eq!(redact_url("s3://b/a?b"), "s3://b/a?b");
        assert_eq!(redact_url("abfs://c@account/x"), "abfs://c@account/x");
    }
}
