//! Listings, page by page.
//!
//! With each page except the last, a server returns a token for the next one. A server that repeats
//! a token would be listed forever, and so would one that returns empty pages without end.

use crate::client::Client;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Most consecutive empty pages. Servers return some after many deletions.
const EMPTY: u32 = 10_000;

/// Most characters of a token in an error message.
const LONGEST_TOKEN: usize = 80;

/// Why a listing would never end.
#[derive(Clone, Debug)]
pub(crate) enum Endless {
    /// A token was repeated.
    Token(String),
    /// [`EMPTY`] consecutive pages were empty.
    Empty,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endless::Token(token) => {
                let printable: String =
                    token.chars().filter(|c| !c.is_control()).take(LONGEST_TOKEN).collect();
                write!(
                    f,
                    "the listing would never end: the server gave the continuation token '{printable}' twice"
                )
            }
            Endless::Empty => {
                write!(
                    f,
                    "the listing would never end: the server gave {EMPTY} empty pages, one after the other"
                )
            }
        }
    }
}

impl std::error::Error for Endless {}

fn endless_error(why: Endless) -> object_store::Error {
    object_store::Error::Generic { store: "listing", source: Box::new(why) }
}

/// The state of a listing.
struct Pages {
    prefix: Option<String>,
    /// `None` if there is no further page.
    next: Option<Option<String>>,
    /// Hashes of the tokens received. A page has up to 1000 objects.
    tokens: HashSet<u64>,
    hasher: RandomState,
    empty: u32,
}

impl Pages {
    /// Records the token of a page.
    fn turn(&mut self, token: Option<String>, is_empty: bool) -> Result<(), Endless> {
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        self.next = token.filter(|token| !token.is_empty()).map(Some);
        let Some(Some(token)) = &self.next else { return Ok(()) };
        if !self.tokens.insert(self.hasher.hash_one(token)) {
            return Err(Endless::Token(token.clone()));
        }
        if self.empty >= EMPTY { Err(Endless::Empty) } else { Ok(()) }
    }
}

impl Client {
    /// The pages of everything below a prefix, or directly below it. `None` if the server has no
    /// pages.
    fn pages(
        &self,
        prefix: Option<&Path>,
        delimited: bool,
    ) -> Option<BoxStream<'static, Result<ListResult>>> {
        let server = self.pages.clone()?;
        let prefix = prefix.map(Path::as_ref).filter(|prefix| !prefix.is_empty());
        let (next, tokens, hasher) = (Some(None), HashSet::new(), RandomState::new());
        let pages =
            Pages { prefix: prefix.map(|prefix| format!("{prefix}/")), next, tokens, hasher, empty: 0 };
        let turned = stream::try_unfold(pages, move |mut pages| {
            let server = server.clone();
            async move {
                let Some(page_token) = pages.next.take() else { return Ok(None) };
                let delimiter = delimited.then_some("/".into());
                let options =
                    PaginatedListOptions { delimiter, page_token, ..PaginatedListOptions::default() };
                let page = server.list_paginated(pages.prefix.as_deref(), options).await?;
                let is_empty = page.result.objects.is_empty() && page.result.common_prefixes.is_empty();
                pages.turn(page.page_token, is_empty).map_err(endless_error)?;
                Ok(Some((page.result, pages)))
            }
        });
        Some(turned.boxed())
    }

    /// All objects below a prefix.
    pub(crate) fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.pages(prefix, false) {
            Some(pages) => pages.map_ok(|page| stream::iter(page.objects).map(Ok)).try_flatten().boxed(),
            None => self.store.list(prefix),
        }
    }

    /// The prefixes and objects directly below a prefix.
    pub(crate) async fn list_direct(
        &self,
        prefix: Option<&Path>,
    ) -> Result<(BTreeSet<Path>, Vec<ObjectMeta>)> {
        let Some(mut pages) = self.pages(prefix, true) else {
            let found = self.store.list_with_delimiter(prefix).await?;
            return Ok((found.common_prefixes.into_iter().collect(), found.objects));
        };
        let (mut prefixes, mut objects) = (BTreeSet::new(), Vec::new());
        while let Some(page) = pages.try_next().await? {
            prefixes.extend(page.common_prefixes);
            objects.extend(page.objects);
        }
        Ok((prefixes, objects))
    }
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, Endless, Pages};
    use std::collections::HashSet;
    use std::hash::RandomState;

    fn pages() -> Pages {
        let (tokens, hasher) = (HashSet::new(), RandomState::new());
        Pages { prefix: None, next: None, tokens, hasher, empty: 0 }
    }

    #[test]
    fn tokens_that_come_again_end_a_listing() {
        let turn = |pages: &mut Pages, token: &str| pages.turn(Some(token.to_owned()), false);
        let mut listed = pages();
        assert!(["a", "b", "c"].iter().all(|token| turn(&mut listed, token).is_ok()));
        let error = turn(&mut listed, "a").unwrap_err();
        assert!(matches!(&error, Endless::Token(token) if token == "a"));
        assert!(error.to_string().contains("'a' twice"));
        let mut listed = pages();
        for _ in 0..2 {
            // The last page has no token.
            listed.turn(None, true).unwrap();
            listed.turn(Some(String::new()), true).unwrap();
            assert_eq!(listed.next, None);
        }
    }

    #[test]
    fn empty_pages_come_to_an_end() {
        let mut listed = pages();
        let turn = |pages: &mut Pages, n: u32, is_empty| pages.turn(Some(n.to_string()), is_empty);
        assert!((1..EMPTY).all(|n| turn(&mut listed, n, true).is_ok()));
        turn(&mut listed, EMPTY, false).unwrap();
        assert!((1..EMPTY).all(|n| turn(&mut listed, EMPTY + n, true).is_ok()));
        assert!(matches!(turn(&mut listed, 2 * EMPTY, true), Err(Endless::Empty)));
    }
}
