//! Checks that several stores make.

use crate::{Ask, Key, Result, Store, StoreError, turns};

/// Takes the object's turn among threads of this process ([`turns`]).
///
/// Fails with [`StoreError::Busy`] if this thread already has it, and with
/// [`StoreError::Interrupted`] if `ask` returns `true`.
pub fn turn<S: Store + ?Sized>(store: &S, key: Key<'_>, ask: Option<Ask<'_>>) -> Result<turns::Turn> {
    turns::take(store.lock_id(key), ask).map_err(|refused| StoreError::refused(refused, store, key.as_str()))
}

/// Fails with [`StoreError::Interrupted`] if `ask` returns `true`.
pub(crate) fn check_ask<S: Store + ?Sized>(
    store: &S,
    prefix: Option<Key<'_>>,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    match ask {
        Some(ask) if ask() => Err(StoreError::Interrupted {
            key: prefix.map_or("", |prefix| prefix.as_str()).to_owned(),
            url: store.url(),
        }),
        _ => Ok(()),
    }
}

/// Fails with [`StoreError::WrongSize`] if `size` is given and differs from `found`.
pub(crate) fn check_size<S: Store + ?Sized>(
    store: &S,
    key: Key<'_>,
    size: Option<u64>,
    found: u64,
) -> Result<()> {
    match size {
        Some(expected) if expected != found => {
            let (key, url) = (key.as_str().to_owned(), store.url());
            Err(StoreError::WrongSize { key, url, expected, found })
        }
        _ => Ok(()),
    }
}
