//! The page that shows arrays in a browser: `/`, `/view/…`, `/assets/…`.
//!
//! `viewer/` has the source in TypeScript. `assets/` has the built files, which are part of the binary.
//! They hold no data, so they need no token: the page asks `/api` with it.

use crate::answer::{Answer, Asset, Source};
use crate::hierarchy::tag;
use crate::path;
use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderMap};
use hyperslab::Result;

const INDEX: &str = include_str!("../assets/index.html");

/// Name, media type, bytes.
const FILES: [(&str, &str, &[u8]); 2] = [
    ("viewer.js", "text/javascript; charset=utf-8", include_bytes!("../assets/assets/viewer.js")),
    ("viewer.css", "text/css; charset=utf-8", include_bytes!("../assets/assets/viewer.css")),
];

/// The page loads only files and data of this server. Names in files are untrusted, so no script but the
/// page's own may run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'self'; form-action 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Index,
    File(&'static str, &'static [u8]),
}

impl Page {
    /// The file at a path inside the prefix. `None`: the path is no file of the page.
    ///
    /// `/` is the page for browsers. Programs, which do not ask for HTML, get the names as JSON.
    pub(crate) fn at(inside: &str, headers: &HeaderMap) -> Option<Page> {
        if let Some(name) = inside.strip_prefix("/assets/") {
            let file = FILES.iter().find(|(known, _, _)| *known == name)?;
            return Some(Page::File(file.1, file.2));
        }
        let wants_html = || {
            headers
                .get_all(ACCEPT)
                .iter()
                .any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
        };
        let is_page = inside == "/view" || inside.starts_with("/view/");
        (is_page || (matches!(inside, "" | "/") && wants_html())).then_some(Page::Index)
    }

    /// The answer with this file. `prefix`: of all routes of the server, without a slash at the end.
    pub(crate) fn answer(self, prefix: &str, headers: &HeaderMap, head: bool) -> Result<Answer> {
        let (media, bytes) = match self {
            Page::File(media, bytes) => (media, Bytes::from_static(bytes)),
            Page::Index => {
                // The page finds its files and the data from here, at whatever depth its address is.
                let base = format!("<base href=\"{}/\" />", path::encoded(prefix));
                ("text/html; charset=utf-8", Bytes::from(INDEX.replacen("<!-- base -->", &base, 1)))
            }
        };
        let tag = tag(&&bytes[..]);
        let len = bytes.len() as u64;
        let asset = Asset { len, tag: Some(tag), media, source: Source::Memory(bytes) };
        // The address of the page may have a token, which must not reach other sites.
        Ok(Answer::asset(asset, headers, head)?
            .with("content-security-policy", POLICY)
            .with("referrer-policy", "no-referrer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(media: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, media.parse().unwrap())])
    }

    #[test]
    fn pages() {
        let (html, json) = (accepting("text/html,*/*;q=0.8"), accepting("application/json"));
        for inside in ["/view/ocean.nc/sst", "/view/a%2fb/../c", "/view/", "/view"] {
            assert_eq!(Page::at(inside, &json), Some(Page::Index), "{inside}");
        }
        assert_eq!((Page::at("/", &html), Page::at("", &html)), (Some(Page::Index), Some(Page::Index)));
        for inside in ["/", "/viewer", "/assets/", "/assets/other.js", "/assets/../viewer.js", "/api/tree"] {
            assert_eq!(Page::at(inside, &json), None, "{inside}");
        }
        assert!(
            matches!(Page::at("/assets/viewer.js", &json), Some(Page::File(media, _)) if media.contains("javascript"))
        );
    }

    #[test]
    fn index_knows_the_prefix() {
        let read = |prefix: &str| {
            let answer = Page::Index.answer(prefix, &HeaderMap::new(), false).unwrap();
            assert_eq!(answer.status(), 200);
            answer.body_len()
        };
        assert!(INDEX.contains("<!-- base -->"));
        assert_eq!(read("/data") - read(""), 5);
        assert!(
            !INDEX.contains("http://") && !INDEX.contains("https://"),
            "nothing is loaded from elsewhere"
        );
    }

    #[test]
    fn browsers_keep_the_files() {
        let page = Page::at("/assets/viewer.css", &HeaderMap::new()).unwrap();
        let first = page.answer("", &HeaderMap::new(), false).unwrap().into_response(false, None);
        let tag = first.headers().get("etag").unwrap().clone();
        assert!(first.headers().get("content-security-policy").is_some());
        let again = HeaderMap::from_iter([(hyper::header::IF_NONE_MATCH, tag)]);
        assert_eq!(page.answer("", &again, false).unwrap().status(), 304);
    }

    #[test]
    fn files_are_small() {
        let len: usize = FILES.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(len + INDEX.len() < 1 << 20, "{len} bytes");
    }
}
