//! The scheme `memory`: stores of this process, by name or by the URL that they report.

use super::{Reached, Scheme, StoreOptions};
use crate::{Error, MemoryStore, Result};
use std::sync::Arc;

/// `memory://NAME/PATH` and `memory://NUMBER/PATH`.
#[derive(Debug)]
pub(super) struct Memory;

impl Scheme for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn reach(&self, location: &str, _: StoreOptions<'_>) -> Result<Reached> {
        let rest = location.split_once("://").map_or("", |(_, rest)| rest);
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let store = if is_number(name) { MemoryStore::find(name) } else { Some(MemoryStore::named(name)) };
        match store {
            Some(store) => Ok(Reached::new(Arc::new(store), path.trim_matches('/'))),
            None => Err(Error::Location {
                location: location.to_owned(),
                why: "no memory store of this process has this URL; pass the store itself, a path or a file:// URL"
                    .into(),
            }),
        }
    }
}

/// Returns `true` for the name in the URL of an unnamed store.
/// No store is created for such a name: its user wants the contents of the existing store.
fn is_number(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match name.strip_prefix("mapping-") {
        Some(number) => digits(number),
        None => name.is_empty() || (6..=16).contains(&name.len()) && digits(name),
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::{MemoryStore, Store, stores};
    use std::sync::Arc;

    #[test]
    fn what_a_memory_store_holds_is_opened_by_url() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let at = |path: &str| format!("{}/{path}", store.url());
        Group::create(&at("g"), Format::ZarrV3).unwrap();
        let spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3], "|u1".parse().unwrap());
        Array::create(&at("g/a"), &spec).unwrap().write_slice(&[], &[1u8, 2, 3]).unwrap();
        assert_eq!(Array::open(&at("g/a")).unwrap().read_vec::<u8>(&[]).unwrap(), [1, 2, 3]);
        assert_eq!(open(&at("g")).unwrap().into_group().unwrap().children().unwrap()[0].0, "a");
        assert!(open(&at("none")).is_err());
        let url = at("g");
        drop(store);
        for url in [url.as_str(), "memory://", "memory:///a", "memory://mapping-7f00"] {
            let error = stores::reach(url, Default::default()).unwrap_err().to_string();
            assert!(error.contains("no memory store of this process"), "{error}");
        }
    }

    #[test]
    fn stores_have_names() {
        let spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3], "|u1".parse().unwrap());
        let array = Array::create("memory://a name/g/a", &spec).unwrap();
        array.write_slice(&[], &[1u8, 2, 3]).unwrap();
        assert_eq!(Array::open("memory://a name/g/a").unwrap().read_vec::<u8>(&[]).unwrap(), [1, 2, 3]);
        assert!(Array::open("memory://other/g/a").is_err());
        drop(array);
        assert!(Array::open("memory://a name/g/a").is_err(), "nobody held the store");
    }
}
