//! Rules of access: tokens, host names, methods, origins.

use crate::answer::Answer;
use crate::options::ServeOptions;
use crate::path;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Uri};
use ring::rand::{SecureRandom, SystemRandom};
use std::net::IpAddr;

/// The rules of a server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    token: Option<String>,
    /// The server is on the loopback address, and everybody on this machine may ask.
    only_here: bool,
    host: IpAddr,
    cors: Option<HeaderValue>,
}

impl Access {
    /// Fails if an option is no value of a header, or if the system has no random numbers.
    pub(crate) fn new(options: &ServeOptions) -> Result<Access, String> {
        let is_open = options.public || options.host.is_loopback();
        let token = match &options.token {
            Some(token) if token.is_empty() => {
                return Err("the token is empty: leave it out to have one made".into());
            }
            Some(token) => Some(token.clone()),
            None if is_open => None,
            None => Some(new_token()?),
        };
        let value = |text: &String| {
            HeaderValue::from_str(text)
                .map_err(|_| format!("{text:?} is no origin: pass one such as https://example.org, or *"))
        };
        let cors = options.cors.as_ref().map(value).transpose()?;
        let only_here = options.host.is_loopback() && !options.public && token.is_none();
        Ok(Access { token, only_here, host: options.host, cors })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(crate) fn cors(&self) -> Option<&HeaderValue> {
        self.cors.as_ref()
    }

    /// Returns the answer for a request that is refused. `has_data`: the answer needs a token, if the
    /// server has one.
    pub(crate) fn refusal(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        has_data: bool,
    ) -> Option<Answer> {
        if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Some(
                Answer::problem(405, format!("method {method}"), "this server only reads", "use GET or HEAD")
                    .with("allow", "GET, HEAD, OPTIONS"),
            );
        }
        if self.only_here && !headers.get(HOST).is_some_and(|host| self.is_here(host)) {
            // A page of another site may have a name that leads to this machine.
            return Some(Answer::problem(
                403,
                "a request for another host name",
                "without a token, this server answers only to localhost and addresses of this machine",
                "use http://localhost, or start the server with --token or --public",
            ));
        }
        // Browsers send no token with the question whether they may ask.
        let wanted = self.token.as_ref().filter(|_| has_data && *method != Method::OPTIONS)?;
        match sent_token(headers, uri.query().unwrap_or_default()) {
            Some(sent) if same(sent.as_bytes(), wanted.as_bytes()) => None,
            Some(_) => Some(unauthorised("another token than the server's")),
            None => Some(unauthorised("no token")),
        }
    }

    fn is_here(&self, host: &HeaderValue) -> bool {
        let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let name = name.trim_end_matches('.');
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || address == self.host)
    }
}

/// The token that a request shows.
fn sent_token(headers: &HeaderMap, query: &str) -> Option<String> {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|text| text.strip_prefix("Bearer ")).map(|token| token.trim().to_owned());
    sent.or_else(|| path::query(query, "token"))
}

fn unauthorised(found: &'static str) -> Answer {
    let advice =
        "send the header Authorization: Bearer TOKEN, or add ?token=TOKEN. The server printed its token";
    Answer::problem(401, "data of a server with a token", found, advice).with("www-authenticate", "Bearer")
}

/// Compares in a time that does not depend on where the texts differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// A token of 128 random bits.
fn new_token() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random numbers for a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(
        options: &ServeOptions,
        method: Method,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Option<u16> {
        let headers = headers
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()));
        let access = Access::new(options).unwrap();
        access.refusal(&method, &uri.parse().unwrap(), &headers.collect(), true).map(|answer| answer.status())
    }

    #[test]
    fn the_loopback_address_answers_to_its_own_names() {
        let options = ServeOptions::default();
        for (host, expected) in [
            ("localhost:8000", None),
            ("127.0.0.1:8000", None),
            ("[::1]:80", None),
            ("LOCALHOST", None),
            ("evil.example", Some(403)),
            ("127.0.0.1.evil.example", Some(403)),
            ("localhost.evil.example:8000", Some(403)),
            ("", Some(403)),
        ] {
            assert_eq!(status(&options, Method::GET, "/", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(status(&options, Method::GET, "/", &[]), Some(403));
        let public = ServeOptions { public: true, ..options };
        assert_eq!(status(&public, Method::GET, "/", &[("host", "evil.example")]), None);
    }

    #[test]
    fn other_addresses_need_a_token() {
        let options = ServeOptions { host: "0.0.0.0".parse().unwrap(), ..ServeOptions::default() };
        let made = Access::new(&options).unwrap();
        assert_eq!(made.token().map(str::len), Some(32));
        let options = ServeOptions { token: Some("s3cret".into()), ..options };
        let asked = |uri: &str, sent: &str| status(&options, Method::GET, uri, &[("authorization", sent)]);
        assert_eq!(asked("/", "Bearer s3cret"), None);
        assert_eq!(asked("/?token=s3cret", "none"), None);
        for (uri, sent) in
            [("/", "Bearer s3cre"), ("/", "Bearer s3cret1"), ("/?token=", "Basic s3cret"), ("/", "")]
        {
            assert_eq!(asked(uri, sent), Some(401), "{uri} {sent}");
        }
        let public =
            ServeOptions { public: true, host: "0.0.0.0".parse().unwrap(), ..ServeOptions::default() };
        assert_eq!(Access::new(&public).unwrap().token(), None);
        assert!(
            Access::new(&ServeOptions { token: Some(String::new()), ..ServeOptions::default() }).is_err()
        );
    }

    #[test]
    fn nothing_is_written() {
        for method in
            [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE, Method::CONNECT]
        {
            assert_eq!(status(&ServeOptions::default(), method, "/", &[("host", "localhost")]), Some(405));
        }
    }
}
