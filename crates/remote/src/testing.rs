//! Memory in place of a server.

use crate::client::{Abilities, Connect, Connected};
use crate::failure::{Cause, Secrets};
use crate::settings::Settings;
use crate::store::{Names, RemoteStore};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::memory::InMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
struct Memory(Arc<InMemory>);

impl Connect for Memory {
    fn connect(&self) -> BoxFuture<'_, Result<Connected, Box<Cause>>> {
        async { Ok(Connected { store: self.0.clone(), pages: None, multiparts: Some(self.0.clone()) }) }
            .boxed()
    }
}

/// Creates an empty store in memory.
pub(crate) fn in_memory() -> RemoteStore {
    in_memory_with(Settings::default())
}

/// Like [`in_memory`], with settings. Its requests are small.
pub(crate) fn in_memory_with(settings: Settings) -> RemoteStore {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let names = Names {
        url: format!("mem://{number}/p"),
        prefix: "p".into(),
        identity: format!("mem|{number}"),
        secrets: Secrets::default(),
    };
    let abilities = Abilities {
        suffixes: number.is_multiple_of(2),
        exact_tags: true,
        numbered: false,
        lists: true,
        parts: true,
        stores_encoded: true,
        anonymous: true,
    };
    let settings = Settings { part: 60_000, largest: 50_000, ..settings };
    RemoteStore::new(names, Box::new(Memory(Arc::default())), settings, abilities)
}
