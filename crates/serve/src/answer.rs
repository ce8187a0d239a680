//! Answers: status, headers, body; parts of objects; problems as JSON.

use crate::body::{Body, PIECE, Readable};
use bytes::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use hyperslab::Json;
use std::sync::Arc;

/// An answer to a request.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
    /// The length that `HEAD` tells, although nothing is sent.
    len: u64,
}

/// An object that can be sent as a whole or in part.
pub(crate) struct Asset {
    pub(crate) len: u64,
    /// A text that changes when the bytes change. `None`: not known.
    pub(crate) tag: Option<String>,
    pub(crate) media: &'static str,
    pub(crate) source: Source,
}

/// The bytes of an [`Asset`].
pub(crate) enum Source {
    Memory(Bytes),
    /// They are read in pieces while they are sent.
    Stored(Arc<dyn Readable>),
}

/// The bytes that a `Range` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedRange {
    All,
    /// First byte, and bytes.
    Range(u64, u64),
    /// The object has no such bytes.
    Outside,
}

impl Answer {
    pub(crate) fn new(status: u16, media: &'static str, body: Body) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        // Names in files are untrusted. Browsers must not take data for a page.
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Answer { len: body.len(), status, headers, body }
    }

    pub(crate) fn json(json: &Json) -> Answer {
        let text = if is_strict(json) { json.to_text(None) } else { strict(json).to_text(None) };
        Answer::new(200, "application/json", Body::of(text + "\n"))
    }

    /// An error: the request, the reason, and advice.
    pub(crate) fn problem(
        status: u16,
        asked: impl AsRef<str>,
        found: impl AsRef<str>,
        advice: impl AsRef<str>,
    ) -> Answer {
        let json = Json::from([
            ("status", u64::from(status).into()),
            ("asked", asked.as_ref().into()),
            ("found", found.as_ref().into()),
            ("advice", advice.as_ref().into()),
        ]);
        Answer::new(status, "application/json", Body::of(json.to_text(None) + "\n"))
    }

    /// Answers with an object, or the part of it that the request wants. `head`: without its bytes.
    ///
    /// Fails if the bytes cannot be read.
    pub(crate) fn asset(asset: Asset, request: &HeaderMap, head: bool) -> hyperslab::Result<Answer> {
        let Asset { len, tag, media, source } = asset;
        let tag = tag.and_then(|tag| HeaderValue::from_str(&format!("\"{tag}\"")).ok());
        let is_known =
            |name: &HeaderName| has_tag(request, name, tag.as_ref()?.to_str().ok()?.trim_matches('"'));
        let part = match is_known(&IF_RANGE) {
            None if request.contains_key(IF_RANGE) => AskedRange::All,
            Some(false) => AskedRange::All,
            _ => part(request.get(RANGE).and_then(|value| value.to_str().ok()), len),
        };
        let (status, offset, wanted) = match part {
            _ if is_known(&IF_NONE_MATCH) == Some(true) => (304, 0, 0),
            AskedRange::All => (200, 0, len),
            AskedRange::Range(offset, wanted) => (206, offset, wanted),
            AskedRange::Outside => {
                let found = format!("the object has {len} bytes");
                let answer = Answer::problem(416, "a range of bytes", found, "ask for bytes inside");
                return Ok(answer.with("content-range", &format!("bytes */{len}")));
            }
        };
        let slice = |bytes: Bytes| {
            let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
            let part = bytes.slice(at(offset)..at(offset.saturating_add(wanted)));
            // A slice would hold all bytes, and only its own are counted.
            Body::of(if part.len() < bytes.len() { Bytes::copy_from_slice(&part) } else { part })
        };
        let body = match source {
            _ if wanted == 0 || head => Body::of(Bytes::new()),
            // One hand-over between threads less.
            Source::Stored(source) if wanted <= PIECE => Body::of(source.read(offset, wanted)?),
            Source::Stored(source) => Body::pieces(source, offset, wanted),
            Source::Memory(bytes) => slice(bytes),
        };
        let mut answer = Answer::new(status, media, body);
        answer.len = wanted;
        answer.headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(tag) = tag {
            answer.headers.insert(ETAG, tag);
        }
        if status == 206 {
            let last = offset.saturating_add(wanted).saturating_sub(1);
            return Ok(answer.with("content-range", &format!("bytes {offset}-{last}/{len}")));
        }
        Ok(answer)
    }

    /// Adds a header. A value that is none is left out.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Answer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(crate) fn body_len(&self) -> u64 {
        self.body.len()
    }

    pub(crate) fn in_memory(&self) -> u64 {
        self.body.in_memory()
    }

    pub(crate) fn map_body(mut self, change: impl FnOnce(Body) -> Body) -> Answer {
        self.body = change(self.body);
        self
    }

    /// The answer as hyper sends it. `head`: without its body.
    pub(crate) fn into_response(mut self, head: bool, cors: Option<&HeaderValue>) -> Response<Body> {
        if let Some(origin) = cors {
            self.headers.insert("access-control-allow-origin", origin.clone());
            self = self
                .with("access-control-allow-methods", "GET, HEAD, OPTIONS")
                .with("access-control-allow-headers", "Range, Authorization, If-None-Match, If-Range")
                .with(
                    "access-control-expose-headers",
                    "ETag, Content-Range, Content-Length, Accept-Ranges, X-Shape, X-Dtype, X-Select, X-Level, \
                     X-Missing, Server-Timing, Content-Disposition, Retry-After",
                )
                .with("vary", "Origin");
        }
        if head {
            self.body = Body::of(Bytes::new());
        }
        if self.status != StatusCode::NOT_MODIFIED && self.status != StatusCode::NO_CONTENT {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(self.len));
        }
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Returns `false` if there are numbers that JSON does not have: NaN and infinite ones.
fn is_strict(json: &Json) -> bool {
    match json {
        Json::Number(text) => !text.ends_with(['N', 'y']),
        Json::Array(all) => all.iter().all(is_strict),
        Json::Object(members) => members.iter().all(|(_, value)| is_strict(value)),
        _ => true,
    }
}

/// The same, with text for numbers that JSON does not have. Web pages refuse documents that have them.
fn strict(json: &Json) -> Json {
    match json {
        Json::Number(text) if text.ends_with(['N', 'y']) => Json::String(text.to_string()),
        Json::Array(all) => Json::Array(all.iter().map(strict).collect()),
        Json::Object(members) => {
            Json::Object(members.iter().map(|(name, value)| (name.clone(), strict(value))).collect())
        }
        other => other.clone(),
    }
}

/// Returns `true` if the request says that the client has the object with this tag.
pub(crate) fn is_known(request: &HeaderMap, tag: &str) -> bool {
    has_tag(request, &IF_NONE_MATCH, tag) == Some(true)
}

/// Looks for a tag in a header. `None`: there is no such header.
fn has_tag(request: &HeaderMap, name: &HeaderName, tag: &str) -> Option<bool> {
    let sent = request.get(name)?.to_str().ok()?;
    let is_tag = |one: &str| {
        let one = one.trim();
        one == "*" || one.trim_start_matches("W/").trim_matches('"') == tag
    };
    Some(sent.split(',').any(is_tag))
}

/// Parses a `Range` header. Several ranges, and other units, are answered with the whole object.
fn part(header: Option<&str>, len: u64) -> AskedRange {
    let Some((unit, range)) = header.and_then(|text| text.split_once('=')) else { return AskedRange::All };
    let Some((first, last)) =
        range.split_once('-').filter(|_| unit.trim() == "bytes" && !range.contains(','))
    else {
        return AskedRange::All;
    };
    // Numbers that fit in no integer are larger than every object.
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Some(text.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            let last: u64 = last.unwrap_or(u64::MAX);
            if last < first {
                return AskedRange::All;
            }
            match first < len {
                true => AskedRange::Range(first, last.min(len - 1) - first + 1),
                false => AskedRange::Outside,
            }
        }
        (Some(None), Some(Some(count))) if len > 0 && count > 0 => {
            AskedRange::Range(len - count.min(len), count.min(len))
        }
        (Some(None), Some(Some(_))) => AskedRange::Outside,
        _ => AskedRange::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (header, expected) in [
            ("bytes=0-4", AskedRange::Range(0, 5)),
            ("bytes=2-", AskedRange::Range(2, 8)),
            ("bytes=-3", AskedRange::Range(7, 3)),
            ("bytes=-30", AskedRange::Range(0, 10)),
            ("bytes=8-99999999999999999999999", AskedRange::Range(8, 2)),
            ("bytes=10-", AskedRange::Outside),
            ("bytes=99999999999999999999999-", AskedRange::Outside),
            ("bytes=-0", AskedRange::Outside),
            ("bytes=5-2", AskedRange::All),
            ("bytes=0-1,3-4", AskedRange::All),
            ("bytes=a-b", AskedRange::All),
            ("bytes=-", AskedRange::All),
            ("bytes", AskedRange::All),
            ("lines=0-1", AskedRange::All),
            ("bytes=+1-2", AskedRange::All),
        ] {
            assert_eq!(part(Some(header), 10), expected, "{header}");
        }
        assert_eq!(
            (part(None, 10), part(Some("bytes=0-"), 0), part(Some("bytes=-1"), 0)),
            (AskedRange::All, AskedRange::Outside, AskedRange::Outside)
        );
    }

    #[test]
    fn numbers_that_json_has_not_are_text() {
        let json = Json::from([
            ("a", Json::Array(vec![Json::float(f64::NAN), Json::float(1.5)])),
            ("b", Json::float(f64::NEG_INFINITY)),
            ("c", "NaN".into()),
        ]);
        assert!(!is_strict(&json) && is_strict(&strict(&json)));
        assert_eq!(strict(&json).to_text(None), r#"{"a": ["NaN", 1.5], "b": "-Infinity", "c": "NaN"}"#);
    }

    fn asked(headers: &[(&'static str, &str)]) -> (u16, u64, Option<String>) {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let asset = Asset {
            len: 10,
            tag: Some("t".into()),
            media: "application/octet-stream",
            source: Source::Memory(Bytes::from_static(b"0123456789")),
        };
        let answer = Answer::asset(asset, &headers.collect(), false).unwrap();
        let range = answer.headers.get("content-range").map(|value| value.to_str().unwrap().to_owned());
        (answer.status(), answer.body_len(), range)
    }

    #[test]
    fn conditions() {
        assert_eq!(asked(&[]), (200, 10, None));
        assert_eq!(asked(&[("range", "bytes=2-3")]), (206, 2, Some("bytes 2-3/10".into())));
        assert_eq!(asked(&[("if-none-match", "\"x\", W/\"t\"")]), (304, 0, None));
        assert_eq!(asked(&[("if-none-match", "\"x\"")]), (200, 10, None));
        assert_eq!(asked(&[("if-range", "\"x\""), ("range", "bytes=2-3")]), (200, 10, None));
        assert_eq!(asked(&[("if-range", "\"t\""), ("range", "bytes=2-3")]).0, 206);
        assert_eq!(asked(&[("range", "bytes=20-")]).0, 416);
    }
}
