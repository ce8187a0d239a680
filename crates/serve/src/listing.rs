//! Listings of folders: links for browsers and for programs that follow them, or JSON.

use crate::answer::Answer;
use crate::body::Body;
use crate::path::encoded;
use hyper::header::{ACCEPT, HeaderMap};
use hyperslab::Json;
use hyperslab::store::Entry;

/// More entries are not listed: the page would be larger than most browsers show.
const MOST: usize = 100_000;

/// Answers with the entries of a folder. Links are relative, so they hold behind a proxy.
pub(crate) fn answer(title: &str, entries: &[Entry], request: &HeaderMap) -> Answer {
    if entries.len() > MOST {
        let found = format!("{} entries; at most {MOST} are listed", entries.len());
        return Answer::problem(422, "a listing", found, "read the chunks by their keys");
    }
    let name = |entry: &Entry| format!("{}{}", entry.name, if entry.is_prefix { "/" } else { "" });
    let accepts = request.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("json") {
        return Answer::json(&Json::Array(entries.iter().map(|entry| name(entry).as_str().into()).collect()));
    }
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<h1>{0}</h1>\n<ul>\n",
        escaped(title)
    );
    for entry in entries {
        let (link, text) = (encoded(&name(entry)), escaped(&name(entry)));
        page.push_str(&format!("<li><a href=\"./{link}\">{text}</a></li>\n"));
    }
    page.push_str("</ul>\n");
    Answer::new(200, "text/html; charset=utf-8", Body::of(page))
        .with("content-security-policy", "default-src 'none'")
}

/// Text in a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
