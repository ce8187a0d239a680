//! URLs of buckets and of web servers.
//!
//! | URL | means |
//! |---|---|
//! | `s3://BUCKET/PREFIX`, `s3a://…` | S3 and compatible servers |
//! | `gs://BUCKET/PREFIX`, `gcs://…` | Google Cloud Storage |
//! | `az://CONTAINER/PREFIX`, `abfs[s]://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX` | Azure |
//! | `http[s]://HOST/PREFIX` | a web server |
//!
//! Names in buckets are taken literally (as in fsspec). Paths on web servers have percent-escapes.
//! Credentials in a URL (`user:password@`, a signature after `?`) are kept separately: a URL that
//! is shown never contains them.

use crate::options::OptionsError;
use url::Url;

/// A storage protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// S3 and compatible servers.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A web server.
    Http,
}

/// The schemes of URLs and their protocols.
pub const SCHEMES: [(&str, Provider); 9] = [
    ("s3", Provider::S3),
    ("s3a", Provider::S3),
    ("gs", Provider::Google),
    ("gcs", Provider::Google),
    ("az", Provider::Azure),
    ("abfs", Provider::Azure),
    ("abfss", Provider::Azure),
    ("http", Provider::Http),
    ("https", Provider::Http),
];

/// The parts of a URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) provider: Provider,
    /// The bucket. For a web server, its URL without path, query and user.
    pub(crate) bucket: String,
    /// The Azure account, if the URL names it.
    pub(crate) account: Option<String>,
    /// Without leading and trailing slashes.
    pub(crate) prefix: String,
    /// The URL to show to users.
    pub(crate) url: String,
    /// Secret. The query of a web server's URL.
    pub(crate) query: Option<String>,
    /// Secret. User and password of a web server.
    pub(crate) user: Option<(String, String)>,
}

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Location, OptionsError> {
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let scheme = scheme.to_ascii_lowercase();
        let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
        let Some((_, provider)) = known else {
            return Err(OptionsError::new(format!("'{scheme}://' is not the scheme of an object store")));
        };
        match provider {
            Provider::Http => Self::of_server(text),
            provider => Self::of_bucket(*provider, &scheme, rest),
        }
    }

    fn of_bucket(provider: Provider, scheme: &str, rest: &str) -> Result<Location, OptionsError> {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (mut bucket, mut account) = (host, None);
        if let Some((container, host)) = host.rsplit_once('@') {
            if provider != Provider::Azure || container.contains(':') {
                return Err(OptionsError::new(
                    "a URL of a bucket has no user and no password: pass credentials in storage_options",
                ));
            }
            bucket = container;
            account = host.split('.').next().map(str::to_owned);
        }
        if bucket.is_empty() {
            return Err(OptionsError::new(format!("the URL names no bucket: write {scheme}://BUCKET/PATH")));
        }
        let prefix = path.trim_matches('/').to_owned();
        let url = format!("{scheme}://{host}{}{prefix}", if prefix.is_empty() { "" } else { "/" });
        Ok(Location { provider, bucket: bucket.to_owned(), account, prefix, url, query: None, user: None })
    }

    fn of_server(text: &str) -> Result<Location, OptionsError> {
        let no_url = |_| OptionsError::new("it is no valid URL of a web server");
        let mut url = Url::parse(text).map_err(no_url)?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(OptionsError::new("the URL names no host"));
        }
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().map(String::from);
        let no_text = |_| OptionsError::new("its percent-escapes are not UTF-8");
        let prefix = decoded(url.path().trim_matches('/')).map_err(no_text)?;
        let query = url.query().map(str::to_owned);
        let user = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((
                decoded(user).map_err(no_text)?,
                decoded(password.unwrap_or_default()).map_err(no_text)?,
            )),
        };
        url.set_query(None);
        url.set_fragment(None);
        let _ = (url.set_username(""), url.set_password(None));
        let shown = url.as_str().trim_end_matches('/').to_owned();
        url.set_path("");
        let bucket = url.as_str().trim_end_matches('/').to_owned();
        Ok(Location { provider: Provider::Http, bucket, account: None, prefix, url: shown, query, user })
    }
}

/// A location to show to users: without user, password and signature.
pub fn shown(location: &str) -> String {
    let (chain, location) = split_chain(location);
    if !chain.is_empty() {
        return format!("{chain}{}", shown(location));
    }
    if let Ok(found) = Location::parse(location) {
        return found.url;
    }
    let (scheme, rest) = location.split_once("://").unwrap_or(("", location));
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = host.rsplit('@').next().unwrap_or_default();
    let found = format!("{host}{path}");
    let is_web = scheme.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    let found = if is_web { found.split(['?', '#']).next().unwrap_or_default() } else { found.as_str() };
    format!("{scheme}://{found}")
}

/// Returns whether a location contains a user or a signature.
pub fn has_secret(location: &str) -> bool {
    let location = split_chain(location).1;
    Location::parse(location).is_ok_and(|found| found.user.is_some() || found.query.is_some())
}

/// Splits off what precedes the location of an archive (`zip://PATH::`).
fn split_chain(location: &str) -> (&str, &str) {
    let is_chain = location.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("zip://"));
    let end = location.find("::").filter(|_| is_chain).map_or(0, |at| at + 2);
    location.split_at_checked(end).unwrap_or(("", location))
}

/// Adds the user and the signature of another URL.
pub fn with_secret_of(url: &str, other: &str) -> String {
    let (chain, url) = split_chain(url);
    let other = split_chain(other).1;
    if !chain.is_empty() {
        return format!("{chain}{}", with_secret_of(url, other));
    }
    let (Ok(mut found), Ok(other)) = (Url::parse(url), Location::parse(other)) else { return url.to_owned() };
    found.set_query(other.query.as_deref());
    if let Some((user, password)) = &other.user {
        let _ = (found.set_username(user), found.set_password(Some(password)));
    }
    found.into()
}

#[cfg(test)]
mod tests {
    use super::{Location, Provider};

    #[test]
    fn chains() {
        let url = "zip://a/b::https://u:canary@h/x.zip?sig=canary";
        assert!(super::has_secret(url) && !super::has_secret("zip://a::s3://b/x.zip"));
        assert_eq!(super::shown(url), "zip://a/b::https://h/x.zip");
        assert_eq!(super::shown("zip:///a.zip"), "zip:///a.zip");
        assert_eq!(
            super::with_secret_of("zip://::https://h/x.zip", url),
            "zip://::https://u:canary@h/x.zip?sig=canary"
        );
    }

    #[test]
    fn urls() {
        for (text, provider, bucket, prefix, url) in [
            ("s3://b", Provider::S3, "b", "", "s3://b"),
            ("S3A://b/a%20b/c/", Provider::S3, "b", "a%20b/c", "s3a://b/a%20b/c"),
            ("gcs://b/x", Provider::Google, "b", "x", "gcs://b/x"),
            ("az://c/x", Provider::Azure, "c", "x", "az://c/x"),
            (
                "abfss://c@acc.dfs.core.windows.net/x/y",
                Provider::Azure,
                "c",
                "x/y",
                "abfss://c@acc.dfs.core.windows.net/x/y",
            ),
            (
                "http://h:9000/a%20b/c?x=1#y",
                Provider::Http,
                "http://h:9000",
                "a b/c",
                "http://h:9000/a%20b/c",
            ),
            ("https://u:canary@h/a", Provider::Http, "https://h", "a", "https://h/a"),
            ("https://h", Provider::Http, "https://h", "", "https://h"),
        ] {
            let found = Location::parse(text).unwrap();
            assert_eq!(
                (found.provider, &*found.bucket, &*found.prefix, &*found.url),
                (provider, bucket, prefix, url),
                "{text}"
            );
        }
        let found = Location::parse("abfs://c@acc.dfs.core.windows.net/x").unwrap();
        assert_eq!(found.account.as_deref(), Some("acc"));
        let found = Location::parse("https://u:can%20ary@h/a?sig=1").unwrap();
        assert_eq!(found.user, Some(("u".into(), "can ary".into())));
        assert_eq!(found.query.as_deref(), Some("sig=1"));
    }

    #[test]
    fn what_is_shown() {
        for (text, shown) in [
            ("s3://b/x?y", "s3://b/x?y"),
            ("s3://u:canary@b/x", "s3://b/x"),
            ("https://u:canary@h/a?sig=canary#canary", "https://h/a"),
            ("http://u:canary@/a?sig=canary", "http:///a"),
            ("https://u:canary@h:port/%ff?canary", "https://h:port/%ff"),
            ("Https://u:canary@h:port/a?canary#canary", "Https://h:port/a"),
            ("https://u:canary@h:port?canary", "https://h:port"),
        ] {
            assert_eq!(super::shown(text), shown);
        }
        let given = "https://u:p%20w@h/a/x.h5/g?sig=1";
        assert!(
            super::has_secret(given) && !super::has_secret("https://h/a") && !super::has_secret("s3://b/a?b")
        );
        assert_eq!(super::with_secret_of("https://h/a/x.h5", given), "https://u:p%20w@h/a/x.h5?sig=1");
    }

    #[test]
    fn what_is_no_url() {
        for (text, why) in [
            ("s3://", "names no bucket"),
            ("s3:///a", "names no bucket"),
            ("s3://user:canary@b/x", "no user and no password"),
            ("gs://canary@b/x", "no user and no password"),
            ("ftp://b/x", "not the scheme"),
            ("http://", "no valid URL"),
            ("https://h/%ff", "not UTF-8"),
        ] {
            let error = Location::parse(text).err().unwrap().to_string();
            assert!(error.contains(why) && !error.contains("canary"), "{text}: {error}");
        }
    }
}
