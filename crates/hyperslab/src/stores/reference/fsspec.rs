//! The scheme `reference://` of fsspec.
//! Storage options say where the references are, how to reach them, and how to reach their targets.
//!
//! | option | meaning |
//! |---|---|
//! | `fo` | the document, or the folder of Parquet files |
//! | `target_protocol`, `target_options` | scheme of `fo` if it names none; options of its server |
//! | `remote_protocol`, `remote_options` | the scheme of targets that name none; options of their servers |

use super::{in_document, in_folder_with};
use crate::stores::{Intent, Reached, Scheme, StoreOptions, reach_store, takes_options};
use crate::{Error, Result};
use std::fmt;

/// The scheme `reference`.
#[derive(Debug)]
pub(in crate::stores) struct Reference;

/// Options of fsspec that do not affect the data: how it caches, joins ranges and waits.
const WITHOUT_MEANING: [&str; 9] = [
    "asynchronous",
    "auto_mkdir",
    "cache_size",
    "lazy",
    "max_block",
    "max_gap",
    "simple_templates",
    "skip_instance_cache",
    "use_listings_cache",
];

/// Options of a server. They may be secret.
#[derive(Clone, Default)]
pub(super) struct Storage(pub(super) Vec<(String, String)>);

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storage")
    }
}

/// How to reach targets.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    /// The scheme of targets that name none.
    protocol: String,
    /// The options for all targets of this scheme.
    options: Storage,
}

/// Maps schemes for the same servers to one name.
fn kind(scheme: &str) -> &str {
    match scheme {
        "s3a" => "s3",
        "gcs" => "gs",
        "https" => "http",
        "abfs" | "abfss" => "az",
        "local" => "file",
        scheme => scheme,
    }
}

impl Remote {
    /// The options for a target, if its scheme matches.
    pub(super) fn options_of(&self, url: &str) -> Option<&[(String, String)]> {
        let (scheme, _) = url.split_once("://")?;
        (kind(scheme) == kind(&self.protocol)).then_some(self.options.0.as_slice())
    }

    /// The URL of a target; `None` if the target needs no scheme.
    pub(super) fn url_of(&self, target: &str) -> Option<String> {
        let whole = target.contains("://") || kind(&self.protocol) == "file";
        (!whole).then(|| format!("{}://{}", self.protocol, target.trim_start_matches('/')))
    }
}

/// The parsed options.
#[derive(Default)]
struct Spelled {
    fo: Option<String>,
    target_protocol: Option<String>,
    target: Vec<(String, String)>,
    remote_protocol: Option<String>,
    remote: Vec<(String, String)>,
}

impl Spelled {
    fn parse(options: &[(String, String)]) -> Result<Spelled, String> {
        let mut spelled = Spelled::default();
        for (name, value) in options {
            let (first, inner) = name.split_once('.').unwrap_or((name, ""));
            let known = !WITHOUT_MEANING.contains(&inner);
            match first {
                "fo" if inner.is_empty() => spelled.fo = Some(value.clone()),
                "fo" => return Err("'fo' is a mapping: write it to a file, and give its name".into()),
                "target_protocol" => spelled.target_protocol = Some(value.clone()),
                "remote_protocol" => spelled.remote_protocol = Some(value.clone()),
                "target_options" if known => spelled.target.push((inner.to_owned(), value.clone())),
                "remote_options" if known => spelled.remote.push((inner.to_owned(), value.clone())),
                "target_options" | "remote_options" => {}
                name if WITHOUT_MEANING.contains(&name) => {}
                name => {
                    return Err(format!(
                        "unknown storage option '{name}': those of references are fo, target_protocol, \
                         target_options, remote_protocol, remote_options"
                    ));
                }
            }
        }
        Ok(spelled)
    }

    fn remote(&self) -> Result<Option<Remote>, String> {
        let Some(protocol) = self.remote_protocol.clone() else {
            return match self.remote.is_empty() {
                true => Ok(None),
                false => Err("remote_options without remote_protocol: say which servers they are for".into()),
            };
        };
        match kind(&protocol) {
            "file" if self.remote.is_empty() => {}
            "file" => return Err("files take no remote_options".into()),
            _ if takes_options(&format!("{protocol}://x")) && protocol != "reference" => {}
            _ => return Err(format!("unknown remote_protocol '{protocol}'")),
        }
        Ok(Some(Remote { protocol, options: Storage(self.remote.clone()) }))
    }
}

impl Scheme for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn takes_options(&self) -> bool {
        true
    }

    fn reach(&self, location: &str, options: StoreOptions<'_>) -> Result<Reached> {
        let refuse = |why: String| Error::Location { location: location.to_owned(), why };
        if options.intent == Intent::Create {
            return Err(refuse("references are read only".into()));
        }
        let spelled = Spelled::parse(options.storage).map_err(refuse)?;
        let remote = spelled.remote().map_err(refuse)?;
        let Some(fo) = &spelled.fo else {
            let example = "storage_options={\"fo\": \"refs.json\"}";
            return Err(refuse(format!("say where the references are: {example}")));
        };
        let scheme = spelled.target_protocol.as_deref().filter(|_| !fo.contains("://"));
        let fo = match scheme {
            Some(scheme) if kind(scheme) != "file" => format!("{scheme}://{}", fo.trim_start_matches('/')),
            _ => fo.clone(),
        };
        let inside = location.split_once("://").map_or("", |(_, inside)| inside).trim_matches('/');
        let whole = format!("{}/{inside}", fo.trim_end_matches('/'));
        let (whole, around) =
            (whole.trim_end_matches('/'), StoreOptions { storage: &spelled.target, ..options });
        if let Some(found) = in_folder_with(whole, around, remote.as_ref())? {
            return Ok(found);
        }
        in_document(&reach_store(whole, around)?, around, remote.as_ref())?.ok_or_else(|| {
            let names = "a name that ends in .json, or a folder that ends in .parq or .parquet";
            refuse(format!("there are no references at fo = '{fo}': expected {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Remote, Spelled, Storage};

    fn parse(options: &[(&str, &str)]) -> Result<Option<Remote>, String> {
        let options: Vec<_> = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Spelled::parse(&options)?.remote()
    }

    #[test]
    fn options_are_for_one_kind_of_server() {
        let given =
            [("remote_protocol", "s3"), ("remote_options.key", "k"), ("remote_options.asynchronous", "true")];
        let remote = parse(&given).unwrap().unwrap();
        assert_eq!(remote.options_of("s3a://b/x"), Some(&[("key".into(), "k".into())][..]));
        assert_eq!(remote.options_of("gs://b/x"), None);
        assert_eq!(remote.url_of("b/x"), Some("s3://b/x".into()));
        assert_eq!(remote.url_of("gs://b/x"), None);
        assert!(!format!("{:?} {remote:?}", Storage(vec![("a".into(), "SECRET".into())])).contains("SECRET"));
        for (given, why) in [
            (&[("remote_options.key", "k")][..], "without remote_protocol"),
            (&[("remote_protocol", "ftp")], "unknown remote_protocol 'ftp'"),
            (&[("remote_protocol", "file"), ("remote_options.key", "k")], "files take no"),
            (&[("fo.refs", "x")], "write it to a file"),
            (&[("template_overrides.a", "x")], "unknown storage option 'template_overrides'"),
        ] {
            let error = parse(given).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
