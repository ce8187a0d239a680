//! Storage options: names and values that users pass beside a URL.
//!
//! Each option has many names: those in fsspec's file systems (s3fs, gcsfs, adlfs), and those in
//! obstore, which are the names of `object_store` with and without the provider's prefix. All are
//! understood. A nested mapping arrives with dots (`client_kwargs.region_name`). An unknown name is
//! an error that lists the nearest names.

use crate::cache::{Check, Keep};
use crate::credentials::Source;
use crate::location::Provider;
use crate::settings::{Settings, Unconditional, interval_of};
use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why a store cannot be created. The text contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError(String);

impl OptionsError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        OptionsError(why.into())
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

/// Names in s3fs.
const S3: [(&str, &str); 13] = [
    ("key", "aws_access_key_id"),
    ("username", "aws_access_key_id"),
    ("secret", "aws_secret_access_key"),
    ("password", "aws_secret_access_key"),
    ("token", "aws_session_token"),
    ("anon", "aws_skip_signature"),
    ("endpoint_url", "aws_endpoint"),
    ("client_kwargs.endpoint_url", "aws_endpoint"),
    ("client_kwargs.region_name", "aws_region"),
    ("region_name", "aws_region"),
    ("requester_pays", "aws_request_payer"),
    ("client_kwargs.verify", "verify"),
    ("config_kwargs.s3.addressing_style", "addressing_style"),
];

/// Names in gcsfs.
const GOOGLE: [(&str, &str); 5] = [
    ("anon", "google_skip_signature"),
    ("endpoint_url", "google_base_url"),
    ("client_kwargs.endpoint_url", "google_base_url"),
    ("user_project", "project"),
    ("application_credentials", "google_application_credentials"),
];

/// Names in adlfs.
const AZURE: [(&str, &str); 6] = [
    ("anon", "azure_skip_signature"),
    ("account_key", "azure_storage_account_key"),
    ("endpoint_url", "azure_storage_endpoint"),
    ("account_url", "azure_storage_endpoint"),
    ("account", "azure_storage_account_name"),
    ("key", "azure_storage_account_key"),
];

/// Options for every provider, besides [`OWN`].
const SHARED: [&str; 15] = [
    "allow_http",
    "allow_invalid_certificates",
    "cache",
    "cache_check",
    "cache_size",
    "concurrency",
    "coalesce",
    "max_concurrency",
    "max_request_size",
    "max_retries",
    "part_size",
    "proxy_url",
    "requests_per_second",
    "timeout",
    "unconditional",
];

/// Options that this crate handles itself, by provider.
const OWN: [(Provider, &[&str]); 4] = [
    (Provider::S3, &["profile", "use_ssl", "verify", "addressing_style"]),
    (Provider::Google, &["token", "project", "requester_pays"]),
    (Provider::Azure, &["connection_string"]),
    (Provider::Http, &["username", "password"]),
];

/// Settings of fsspec's caches and loops, which have no meaning here.
const IGNORED: [&str; 13] = [
    "asynchronous",
    "use_listings_cache",
    "listings_expiry_time",
    "skip_instance_cache",
    "default_fill_cache",
    "default_cache_type",
    "default_block_size",
    "cache_regions",
    "cache_timeout",
    "consistency",
    "access",
    "location_mode",
    "version_aware",
];

/// Default size of a cache on disk, in bytes.
const FOLDER: u64 = 10 << 30;

/// Parts of the names of options with secret values.
const SECRET: [&str; 18] = [
    "secret",
    "password",
    "token",
    "sas",
    "signature",
    "account_key",
    "master_key",
    "access_key",
    "encryption_key",
    "customer_key",
    "connection_string",
    "service_account_key",
    "proxy_url",
    "header",
    "authorization",
    "credential_blob",
    "cookies",
    "auth",
];

/// Returns whether the value of an option must not be shown or stored.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let file = name.ends_with("_file")
        || name.ends_with("_path")
        || name.ends_with("_url") && !name.contains("proxy");
    // The last part of a nested option (`remote_options.key`).
    let last = name.rsplit('.').next().unwrap_or_default();
    let own = matches!(last, "key" | "username" | "aws_access_key_id" | "access_key_id");
    !file && (own || SECRET.iter().any(|part| name.contains(part)))
}

/// Options by their canonical names, and settings for requests.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) values: BTreeMap<String, String>,
    /// Sent with each request. Secret.
    pub(crate) headers: Vec<(String, String)>,
    /// Source of AWS credentials, if they are not among the values.
    pub(crate) credentials: Option<Source>,
    pub(crate) settings: Settings,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

/// Parses a flag as Python, JSON and the environment write it.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool, OptionsError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" | "none" | "" => Ok(false),
        _ => Err(OptionsError::new(format!("storage option '{name}': expected true or false"))),
    }
}

fn number(name: &str, value: &str) -> Result<u64, OptionsError> {
    let wrong =
        |_| OptionsError::new(format!("storage option '{name}': expected a number that is not negative"));
    value.parse().map_err(wrong)
}

/// Parses a time in seconds: `30`, `0.5`, `30s`.
fn seconds(name: &str, value: &str) -> Result<Duration, OptionsError> {
    let number = value.trim().trim_end_matches('s').trim().parse::<f64>().ok();
    let time =
        number.and_then(|number| Duration::try_from_secs_f64(number).ok()).filter(|time| !time.is_zero());
    time.ok_or_else(|| OptionsError::new(format!("storage option '{name}': expected a time in seconds")))
}

/// Parses a size in bytes: `1000`, `2 GiB`. `None` if the text is not like a size.
fn size(text: &str) -> Option<Result<u64, ()>> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    let long = |number: u64| number.checked_mul(unit).ok_or(());
    (!number.is_empty()).then(|| number.parse().map_err(|_| ()).and_then(long))
}

/// Parses the location of the cache: a size in memory, or a folder of at most `limit` bytes.
fn keep(text: &str, limit: Option<u64>) -> Result<Option<Keep>, OptionsError> {
    let wrong = |why: String| Err(OptionsError::new(format!("storage option 'cache': {why}")));
    if matches!(text.to_ascii_lowercase().as_str(), "" | "none" | "false") {
        return Ok(None);
    }
    match size(text) {
        Some(Ok(_)) if limit.is_some() => {
            wrong("'cache_size' bounds a folder, but this is a size itself".into())
        }
        Some(Ok(size)) => Ok(Some(Keep::Memory(size))),
        Some(Err(())) => wrong("the size is too large".into()),
        None if text.contains("://") => wrong("expected a folder on the local disk, or a size".into()),
        None => {
            let home = text.strip_prefix("~/").zip(std::env::home_dir());
            let folder = home.map_or_else(|| PathBuf::from(text), |(below, home)| home.join(below));
            match std::path::absolute(&folder) {
                Ok(folder) => Ok(Some(Keep::Folder(folder, limit.unwrap_or(FOLDER)))),
                Err(error) => wrong(error.to_string()),
            }
        }
    }
}

/// The canonical name of an `object_store` option, if there is one with this name.
pub(crate) fn native(provider: Provider, name: &str) -> Option<String> {
    match provider {
        Provider::S3 => match name.parse().ok()? {
            AmazonS3ConfigKey::Client(key) => client(key),
            AmazonS3ConfigKey::Bucket => None,
            key => Some(key.as_ref().to_owned()),
        },
        Provider::Google => match name.parse().ok()? {
            GoogleConfigKey::Client(key) => client(key),
            GoogleConfigKey::Bucket => None,
            key => Some(key.as_ref().to_owned()),
        },
        Provider::Azure => match name.parse().ok()? {
            AzureConfigKey::Client(key) => client(key),
            AzureConfigKey::ContainerName => None,
            key => Some(key.as_ref().to_owned()),
        },
        Provider::Http => name.parse().ok().and_then(client),
    }
}

/// Connection settings that have a meaning here.
fn client(key: ClientConfigKey) -> Option<String> {
    let name = match key {
        ClientConfigKey::AllowHttp => "allow_http",
        ClientConfigKey::AllowInvalidCertificates => "allow_invalid_certificates",
        ClientConfigKey::ProxyUrl => "proxy_url",
        ClientConfigKey::Timeout => "timeout",
        _ => return None,
    };
    Some(name.to_owned())
}

impl Options {
    /// Parses the options for a provider.
    pub(crate) fn new(provider: Provider, given: &[(String, String)]) -> Result<Options, OptionsError> {
        let mut options = Options::default();
        let (mut cache, mut cache_size) = (String::new(), None);
        for (given, value) in given {
            let name = given.to_ascii_lowercase();
            let header = ["headers.", "client_kwargs.headers.", "default_headers."]
                .iter()
                .find_map(|start| name.starts_with(start).then(|| given.get(start.len()..)).flatten());
            if let Some(header) = header {
                options.headers.push((header.to_owned(), value.clone()));
            } else if name == "cache" {
                cache.clone_from(value);
            } else if name == "cache_size" {
                let wrong = || {
                    OptionsError::new(format!("storage option '{given}': expected a size, such as '20 GiB'"))
                };
                cache_size = Some(size(value).and_then(Result::ok).ok_or_else(wrong)?);
            } else if !IGNORED.contains(&name.as_str()) {
                let name = one_name(provider, &name).ok_or_else(|| unknown_option(provider, given))?;
                if !options.setting(given, &name, value)? {
                    options.values.insert(name, value.clone());
                }
            }
        }
        options.settings.cache = keep(&cache, cache_size)?;
        Ok(options)
    }

    /// Handles an option for requests. Returns `false` if it is not one.
    fn setting(&mut self, given: &str, name: &str, value: &str) -> Result<bool, OptionsError> {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let settings = &mut self.settings;
        match name {
            "concurrency" | "max_concurrency" => {
                settings.concurrency = size(number(given, value)?).clamp(1, 1024);
                settings.in_all = settings.concurrency;
            }
            "requests_per_second" => {
                let interval = value.trim().parse().ok().and_then(interval_of);
                settings.interval = Some(interval.ok_or_else(|| {
                    OptionsError::new(format!("storage option '{given}': expected a positive number"))
                })?);
            }
            "coalesce" => settings.gap = Some(number(given, value)?),
            "max_request_size" => settings.largest = number(given, value)?.max(1 << 12),
            "part_size" => settings.part = number(given, value)?.max(5 << 20),
            "max_retries" => settings.retries = size(number(given, value)?).min(100),
            "timeout" => {
                settings.deadline = seconds(given, value)?;
                settings.attempt = settings.attempt.min(settings.deadline);
            }
            "unconditional" => {
                settings.unconditional = match value {
                    "warn" => Unconditional::Warn,
                    "refuse" => Unconditional::Refuse,
                    _ => {
                        return Err(OptionsError::new(format!(
                            "storage option '{given}': expected 'warn' or 'refuse'"
                        )));
                    }
                }
            }
            "cache_check" => {
                settings.cache_check = match value {
                    "always" => Check::Always,
                    "never" => Check::Never,
                    _ => {
                        return Err(OptionsError::new(format!(
                            "storage option '{given}': expected 'always' or 'never'"
                        )));
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn is(&self, name: &str) -> Result<bool, OptionsError> {
        self.get(name).map_or(Ok(false), |value| flag(name, value))
    }

    /// Sets an option unless the user, or something that takes precedence, has set it.
    pub(crate) fn default_to(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.values.insert(name.to_owned(), value.to_owned());
        }
    }

    /// The values that must be kept secret.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let values = self.values.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone());
        values.chain(self.headers.iter().map(|(_, value)| value.clone()))
    }
}

/// Names of other software for a provider's options.
fn aliases(provider: Provider) -> &'static [(&'static str, &'static str)] {
    match provider {
        Provider::S3 => &S3,
        Provider::Google => &GOOGLE,
        Provider::Azure => &AZURE,
        Provider::Http => &[],
    }
}

fn own_names(provider: Provider) -> &'static [&'static str] {
    OWN.iter().find(|(of, _)| *of == provider).map_or(&[], |(_, names)| names)
}

/// The canonical name of an option.
fn one_name(provider: Provider, name: &str) -> Option<String> {
    if SHARED.contains(&name) || own_names(provider).contains(&name) {
        return Some(name.to_owned());
    }
    let alias = aliases(provider).iter().find(|(alias, _)| *alias == name);
    alias.map(|(_, name)| (*name).to_owned()).or_else(|| native(provider, name))
}

/// The error for an unknown name.
fn unknown_option(provider: Provider, name: &str) -> OptionsError {
    let native: &[&str] = match provider {
        Provider::S3 => {
            &["access_key_id", "secret_access_key", "session_token", "region", "endpoint", "skip_signature"]
        }
        Provider::Google => {
            &["service_account", "service_account_key", "bearer_token", "skip_signature", "base_url"]
        }
        Provider::Azure => {
            &["account_name", "sas_token", "client_id", "client_secret", "tenant_id", "use_emulator"]
        }
        Provider::Http => &["headers"],
    };
    let all = SHARED.iter().chain(own_names(provider)).chain(native).copied();
    let mut all: Vec<&str> = all.chain(aliases(provider).iter().map(|(alias, _)| *alias)).collect();
    let lower = name.to_ascii_lowercase();
    all.sort_by_key(|other| (distance(&lower, other), *other));
    all.dedup();
    let near: Vec<&str> = all.into_iter().take(4).collect();
    // Users who mistake a value for a name may have passed a secret.
    let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    OptionsError::new(format!("unknown storage option '{shown}'; the nearest are {}", near.join(", ")))
}

/// The edit distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (n, letter) in one.chars().take(64).enumerate() {
        let mut diagonal = n;
        let mut left = n + 1;
        for (cell, target) in row.iter_mut().zip(std::iter::once(None).chain(other.iter().map(Some))) {
            let above = *cell;
            *cell = match target {
                None => n + 1,
                Some(target) => (diagonal + usize::from(*target != letter)).min(above + 1).min(left + 1),
            };
            (diagonal, left) = (above, *cell);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Options, distance, is_secret};
    use crate::cache::{Check, Keep};
    use crate::location::Provider;
    use std::time::Duration;

    fn options(provider: Provider, given: &[(&str, &str)]) -> Result<Options, String> {
        let given: Vec<_> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Options::new(provider, &given).map_err(|error| error.to_string())
    }

    #[test]
    fn one_thing_has_many_names() {
        for name in ["key", "access_key_id", "aws_access_key_id", "AWS_ACCESS_KEY_ID"] {
            let found = options(Provider::S3, &[(name, "canary")]).unwrap();
            assert_eq!(found.get("aws_access_key_id"), Some("canary"), "{name}");
            assert!(!format!("{found:?}").contains("canary"));
        }
        for name in ["anon", "skip_signature"] {
            assert!(options(Provider::S3, &[(name, "True")]).unwrap().is("aws_skip_signature").unwrap());
            assert!(options(Provider::Google, &[(name, "1")]).unwrap().is("google_skip_signature").unwrap());
            assert!(options(Provider::Azure, &[(name, "true")]).unwrap().is("azure_skip_signature").unwrap());
        }
        for name in ["endpoint_url", "client_kwargs.endpoint_url", "endpoint", "aws_endpoint_url"] {
            assert_eq!(
                options(Provider::S3, &[(name, "x")]).unwrap().get("aws_endpoint"),
                Some("x"),
                "{name}"
            );
        }
        let found = options(Provider::Http, &[("headers.X-Key", "canary"), ("timeout", "2.5")]).unwrap();
        assert_eq!(found.headers, [("X-Key".to_owned(), "canary".to_owned())]);
        assert_eq!(found.settings.deadline, Duration::from_millis(2500));
        let found = options(Provider::Http, &[("requests_per_second", "2.5")]).unwrap();
        assert_eq!(found.settings.interval, Some(Duration::from_millis(400)));
        assert!(options(Provider::S3, &[("use_listings_cache", "False")]).unwrap().values.is_empty());
    }

    #[test]
    fn caches() {
        let found = |given: &[(&str, &str)]| options(Provider::S3, given).map(|found| found.settings);
        for (text, bytes) in [("2 GiB", 2 << 30), ("1000", 1000), ("5kb", 5000), ("0", 0)] {
            assert_eq!(found(&[("cache", text)]).unwrap().cache, Some(Keep::Memory(bytes)), "{text}");
        }
        let folder = |path: &str, size| Some(Keep::Folder(path.into(), size));
        assert_eq!(found(&[("cache", "/x/2 GiB of it")]).unwrap().cache, folder("/x/2 GiB of it", 10 << 30));
        let here = std::env::current_dir().unwrap().join("2x");
        let sized = found(&[("cache", "2x"), ("cache_size", "1 TiB"), ("cache_check", "never")]).unwrap();
        assert_eq!(sized.cache, folder(here.to_str().unwrap(), 1 << 40));
        assert_eq!(sized.cache_check, Check::Never);
        assert_eq!(found(&[("cache", "None")]).unwrap().cache, None);
        for given in [
            &[("cache", "9999999999 TiB")][..],
            &[("cache", "1 MiB"), ("cache_size", "2 MiB")],
            &[("cache", "/x"), ("cache_size", "2 apples")],
            &[("cache", "s3://b/x")],
            &[("cache", "/x"), ("cache_check", "often")],
        ] {
            let error = found(given).unwrap_err();
            assert!(error.contains("'cache"), "{error}");
        }
    }

    #[test]
    fn unknown_names_and_values() {
        for (name, near) in
            [("ky", "key"), ("enpoint_url", "endpoint_url"), ("annon", "anon"), ("regoin", "region")]
        {
            let error = options(Provider::S3, &[(name, "canary")]).unwrap_err();
            assert!(error.contains(&format!("'{name}'")) && error.contains(near), "{error}");
            assert!(!error.contains("canary"));
        }
        for (name, value) in
            [("concurrency", "-1"), ("timeout", "0"), ("timeout", "NaN"), ("unconditional", "maybe")]
        {
            assert!(options(Provider::S3, &[(name, value)]).unwrap_err().contains(name));
        }
        for value in ["0", "-1", "NaN", "inf", "1e99", "1e-99", "many"] {
            assert!(options(Provider::S3, &[("requests_per_second", value)]).is_err(), "{value}");
        }
        assert!(options(Provider::Http, &[("anon", "True")]).is_err());
        assert_eq!([distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")], [3, 0, 3]);
    }

    #[test]
    fn secrets_are_known_by_name() {
        for name in [
            "secret",
            "key",
            "remote_options.key",
            "token",
            "aws_secret_access_key",
            "sas_token",
            "account_key",
            "headers.X",
            "proxy_url",
            "connection_string",
            "client_secret",
            "password",
            "service_account_key",
            "aws_session_token",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in
            ["anon", "region", "endpoint_url", "account_name", "profile", "service_account_path", "timeout"]
        {
            assert!(!is_secret(name), "{name}");
        }
    }
}
