//! Listing directories as prefixes.

use super::{LocalStore, delete::is_missing};
use crate::{Ask, Entry, Key};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// How often one directory may be reached through different links in one listing. A few directories
/// full of links to each other have more paths than could ever be listed.
const MAX_VISITS: u32 = 2000;

/// A listing asks whether to go on once in so many entries: about every millisecond.
const ASKED_EVERY: usize = 1024;

/// What identifies a directory whatever path leads to it: device and inode.
type Identity = (u64, u64);

impl LocalStore {
    /// The children of a prefix (empty: of the root), sorted.
    pub(super) fn children(&self, prefix: &str) -> io::Result<Vec<Entry>> {
        self.children_asking(prefix, None)
    }

    /// Device and inode of the directory of a prefix (empty: of the root); `None` where there is
    /// none.
    pub(super) fn identity_of(&self, prefix: &str) -> io::Result<Option<Identity>> {
        match fs::metadata(self.root.join(prefix)) {
            Ok(found) => Ok(found.is_dir().then(|| (found.dev(), found.ino()))),
            Err(error) if is_missing(&error) || is_link_loop(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn children_asking(&self, prefix: &str, ask: Option<Ask<'_>>) -> io::Result<Vec<Entry>> {
        let listing = match fs::read_dir(self.root.join(prefix)) {
            Ok(listing) => listing,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut children = Vec::new();
        for (number, item) in listing.enumerate() {
            if number % ASKED_EVERY == ASKED_EVERY - 1 && ask.is_some_and(|ask| ask()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let item = item?;
            let Ok(name) = item.file_name().into_string() else { continue };
            if Key::new(&name).is_err() {
                continue;
            }
            let kind = match item.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(item.path()).map(|target| target.file_type()),
                answer => answer,
            };
            match kind {
                Ok(kind) if kind.is_dir() => children.push(Entry { name, is_prefix: true }),
                Ok(kind) if kind.is_file() => children.push(Entry { name, is_prefix: false }),
                Ok(_) => {}
                // Deleted meanwhile, or a link that leads nowhere.
                Err(error) if is_missing(&error) || is_link_loop(&error) => {}
                Err(error) => return Err(error),
            }
        }
        children.sort_unstable();
        // Some file systems show a name twice that is renamed while they list.
        children.dedup();
        Ok(children)
    }

    /// Every key below a prefix (empty: the root), sorted.
    ///
    /// [`io::ErrorKind::Interrupted`]: `ask` answered `true`.
    pub(super) fn keys_below(&self, prefix: &str, ask: Option<Ask<'_>>) -> io::Result<Vec<String>> {
        let mut walk = Walk { store: self, ask, keys: Vec::new(), above: Vec::new(), visits: HashMap::new() };
        walk.visit(prefix)?;
        walk.keys.sort_unstable();
        Ok(walk.keys)
    }
}

struct Walk<'a> {
    store: &'a LocalStore,
    ask: Option<Ask<'a>>,
    keys: Vec<String>,
    /// The directories on the way from the start to here.
    above: Vec<Identity>,
    visits: HashMap<Identity, u32>,
}

impl Walk<'_> {
    /// Recursion is as deep as paths can have components, which the system bounds.
    fn visit(&mut self, prefix: &str) -> io::Result<()> {
        let Some(identity) = self.store.identity_of(prefix)? else { return Ok(()) };
        if self.above.contains(&identity) {
            return Ok(());
        }
        let visits = self.visits.entry(identity).or_default();
        *visits += 1;
        if *visits > MAX_VISITS {
            return Err(Errno::LOOP.into());
        }
        if self.ask.is_some_and(|ask| ask()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.above.push(identity);
        for Entry { name, is_prefix } in self.store.children_asking(prefix, self.ask)? {
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if is_prefix {
                self.visit(&path)?;
            } else {
                self.keys.push(path);
            }
        }
        self.above.pop();
        Ok(())
    }
}

fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
