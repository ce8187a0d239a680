//! Creates stores from locations and options, and clients for stores.

use crate::client::{Abilities, Connect, Connected};
use crate::credentials::{self, Web};
use crate::environment::Environment;
use crate::failure::{Cause, NO_CREDENTIALS, Secrets, leaf};
use crate::location::{Location, Provider};
use crate::options::{Options, OptionsError, flag};
use crate::settings::Settings;
use crate::store::{Names, RemoteStore};
use crate::transport::{Service, Transport};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyperslab_store::fork::Mutex;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{HttpRequest, HttpRequestBody, HttpService};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Known regions of buckets. Gated.
static REGIONS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Everything needed to create a client.
pub(crate) struct Server {
    location: Location,
    options: Options,
    transport: Transport,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.location.url).finish_non_exhaustive()
    }
}

impl RemoteStore {
    /// Opens the store at a URL, without any request.
    ///
    /// `options` are storage options, with the names of fsspec, obstore or `object_store`.
    pub fn open(url: &str, options: &[(String, String)]) -> Result<RemoteStore, OptionsError> {
        Self::open_in(url, options, &Environment::of_process())
    }

    pub(crate) fn open_in(
        url: &str,
        options: &[(String, String)],
        environment: &Environment,
    ) -> Result<RemoteStore, OptionsError> {
        let location = Location::parse(url)?;
        let given = options;
        let mut options = Options::new(location.provider, given)?;
        environment.fill(location.provider, &mut options)?;
        match location.provider {
            Provider::S3 => prepare_s3(&mut options)?,
            Provider::Google => prepare_google(&mut options)?,
            Provider::Azure => prepare_azure(&location, &mut options)?,
            Provider::Http => prepare_http(&location, &mut options),
        }
        let mut secrets: Vec<String> = options.secrets().collect();
        secrets.extend(location.query.clone());
        secrets.extend(location.user.iter().map(|(_, password)| password.clone()));
        let secrets = Secrets::new(secrets);
        let transport = Transport {
            attempt: options.settings.attempt,
            headers: options.headers.clone(),
            insecure: options.is("allow_invalid_certificates")?,
            redirects: location.provider == Provider::Http,
            proxy: options.get("proxy_url").map(str::to_owned),
            interval: options.settings.interval,
        };
        let abilities = abilities(location.provider, &options)?;
        let names = Names {
            url: location.url.clone(),
            prefix: location.prefix.clone(),
            identity: identity(&location, &options),
            secrets,
        };
        let settings = options.settings.clone();
        Ok(RemoteStore::new(names, Box::new(Server { location, options, transport }), settings, abilities))
    }
}

/// Identifies a bucket, together with its server.
fn identity(location: &Location, options: &Options) -> String {
    let or = |name: &str| options.get(name).unwrap_or_default().trim_end_matches('/').to_owned();
    let bucket = &location.bucket;
    match location.provider {
        Provider::S3 => format!("s3|{}|{bucket}", or("aws_endpoint")),
        Provider::Google => format!("gs|{}|{bucket}", or("google_base_url")),
        Provider::Azure => {
            format!("az|{}|{}|{bucket}", or("azure_storage_account_name"), or("azure_storage_endpoint"))
        }
        Provider::Http => format!("{bucket}|{}", location.query.as_deref().unwrap_or_default()),
    }
}

fn abilities(provider: Provider, options: &Options) -> Result<Abilities, OptionsError> {
    let anonymous = match provider {
        Provider::S3 => options.is("aws_skip_signature")?,
        Provider::Google => options.is("google_skip_signature")?,
        Provider::Azure => options.is("azure_skip_signature")?,
        Provider::Http => options.headers.is_empty(),
    };
    Ok(Abilities {
        suffixes: provider != Provider::Azure,
        exact_tags: provider != Provider::Http,
        numbered: provider == Provider::Google,
        lists: provider != Provider::Http,
        parts: provider != Provider::Http,
        stores_encoded: provider != Provider::Http,
        anonymous,
    })
}

fn prepare_s3(options: &mut Options) -> Result<(), OptionsError> {
    if let Some(style) = options.get("addressing_style") {
        let hosted = if style == "virtual" { "true" } else { "false" };
        options.default_to("aws_virtual_hosted_style_request", hosted);
    }
    if let Some(verify) = options.get("verify")
        && matches!(flag("verify", verify), Ok(false))
    {
        options.default_to("allow_invalid_certificates", "true");
    }
    // `use_ssl` completes an endpoint without a scheme.
    let ssl = options.get("use_ssl").map_or(Ok(true), |value| flag("use_ssl", value))?;
    if let Some(endpoint) = options.get("aws_endpoint").map(str::to_owned) {
        let endpoint = match (endpoint.contains("://"), ssl) {
            (true, _) => endpoint,
            (false, true) => format!("https://{endpoint}"),
            (false, false) => format!("http://{endpoint}"),
        };
        options.values.insert("aws_endpoint".into(), endpoint.trim_end_matches('/').to_owned());
        options.default_to("aws_region", "us-east-1");
    }
    let credentials = [
        "aws_access_key_id",
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
        "aws_web_identity_token_file",
    ];
    let none = options.credentials.is_none() && credentials.iter().all(|name| options.get(name).is_none());
    if none && options.is("no_metadata")? && !options.is("aws_skip_signature")? {
        return Err(OptionsError::new(format!("no credentials were found. {NO_CREDENTIALS}")));
    }
    Ok(())
}

/// Handles `token` of gcsfs: `anon`, a file, the text of one, or a token to send as it is.
fn prepare_google(options: &mut Options) -> Result<(), OptionsError> {
    if let Some(token) = options.values.remove("token") {
        match token.as_str() {
            "anon" => options.default_to("google_skip_signature", "true"),
            "google_default" | "cloud" | "cache" | "browser" | "" => {}
            token if token.trim_start().starts_with('{') => {
                options.default_to("google_service_account_key", token)
            }
            token if token.ends_with(".json") || std::path::Path::new(token).is_file() => {
                options.default_to("google_application_credentials", token);
            }
            token => options.default_to("google_bearer_token", token),
        }
    }
    if options.is("requester_pays")? {
        let project = options.get("project").map(str::to_owned);
        let project = project
            .ok_or_else(|| OptionsError::new("storage option 'requester_pays': pass 'project' too"))?;
        options.headers.push(("x-goog-user-project".into(), project));
    }
    Ok(())
}

fn prepare_azure(location: &Location, options: &mut Options) -> Result<(), OptionsError> {
    if let Some(account) = &location.account {
        options.default_to("azure_storage_account_name", account);
    }
    if let Some(text) = options.get("connection_string").map(str::to_owned) {
        // Values may contain '=', because keys are padded.
        let parts: BTreeMap<String, &str> = text
            .split(';')
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
            .collect();
        for (part, name) in [
            ("accountname", "azure_storage_account_name"),
            ("accountkey", "azure_storage_account_key"),
            ("sharedaccesssignature", "azure_storage_sas_key"),
            ("blobendpoint", "azure_storage_endpoint"),
        ] {
            if let Some(value) = parts.get(part) {
                options.default_to(name, value);
            }
        }
        if parts.get("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            options.default_to("azure_storage_use_emulator", "true");
        }
    }
    if options.get("azure_storage_account_name").is_none() && !options.is("azure_storage_use_emulator")? {
        return Err(OptionsError::new(
            "Azure needs the name of the account: pass storage_options={\"account_name\": …}, or a URL such as \
             abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        ));
    }
    Ok(())
}

/// Adds the user of a web server, from the options or the URL.
fn prepare_http(location: &Location, options: &mut Options) {
    let given = options
        .get("username")
        .map(|user| (user.to_owned(), options.get("password").unwrap_or_default().to_owned()));
    if let Some((user, password)) = given.or_else(|| location.user.clone()) {
        let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        options.headers.push(("authorization".into(), value));
    }
}

/// Connects to a server that lists in pages, and takes objects in parts.
fn in_pages<S: ObjectStore + PaginatedListStore + MultipartStore>(store: S) -> Connected {
    let store = Arc::new(store);
    Connected { store: store.clone(), pages: Some(store.clone()), multiparts: Some(store) }
}

/// The retry configuration of `object_store`.
///
/// Requests have deadlines of their own, which know of the time in line for tokens.
fn retries(settings: &Settings) -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(50),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: settings.retries, retry_timeout: Duration::MAX }
}

impl Server {
    /// An error about the options, without their values.
    fn options_error(error: &object_store::Error) -> Box<Cause> {
        Cause::new(ErrorKind::InvalidInput, format!("the storage options make no client: {}", leaf(error)))
    }

    async fn s3(&self, service: Service, retries: RetryConfig) -> Result<Connected, Box<Cause>> {
        let bucket = &self.location.bucket;
        let mut builder =
            AmazonS3Builder::new().with_bucket_name(bucket).with_retry(retries).with_allow_http(true);
        // TLS protects bodies, so they are not signed, which is also the default of AWS's own
        // clients. The SHA-256 of everything written would take most of a network thread's time.
        let endpoint = self.options.get("aws_endpoint");
        builder = builder.with_unsigned_payload(endpoint.is_none_or(|url| url.starts_with("https:")));
        for (name, value) in &self.options.values {
            if let Ok(key) = name.parse() {
                builder = builder.with_config(key, value);
            }
        }
        if self.options.get("aws_region").is_none() && self.options.get("aws_default_region").is_none() {
            builder = builder.with_region(region(&service, bucket).await?);
        }
        if let Some(source) = &self.options.credentials {
            // Headers meant for the store must not reach the provider of credentials.
            let transport = Transport {
                headers: Vec::new(),
                insecure: false,
                redirects: false,
                ..self.transport.clone()
            };
            let service = transport.client().map_err(|why| Cause::new(ErrorKind::InvalidInput, why))?;
            let web = Web { service, patience: self.options.settings.attempt };
            builder = builder.with_credentials(Arc::new(credentials::Provider::new(source, web)));
        }
        let store =
            builder.with_http_connector(service).build().map_err(|error| Self::options_error(&error))?;
        Ok(in_pages(store))
    }

    fn google(&self, service: Service, retries: RetryConfig) -> Result<Connected, Box<Cause>> {
        let mut builder =
            GoogleCloudStorageBuilder::new().with_bucket_name(&self.location.bucket).with_retry(retries);
        for (name, value) in &self.options.values {
            if let Ok(key) = name.parse() {
                builder = builder.with_config(key, value);
            }
        }
        let store =
            builder.with_http_connector(service).build().map_err(|error| Self::options_error(&error))?;
        Ok(in_pages(store))
    }

    fn azure(&self, service: Service, retries: RetryConfig) -> Result<Connected, Box<Cause>> {
        let mut builder = MicrosoftAzureBuilder::new()
            .with_container_name(&self.location.bucket)
            .with_retry(retries)
            .with_allow_http(true);
        for (name, value) in &self.options.values {
            if let Ok(key) = name.parse() {
                builder = builder.with_config(key, value);
            }
        }
        let store =
            builder.with_http_connector(service).build().map_err(|error| Self::options_error(&error))?;
        Ok(in_pages(store))
    }

    fn http(&self, service: Service, retries: RetryConfig) -> Result<Connected, Box<Cause>> {
        let query = self.location.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let url = format!("{}/{query}", self.location.bucket);
        let builder = HttpBuilder::new().with_url(url).with_retry(retries).with_http_connector(service);
        let store = builder.build().map_err(|error| Self::options_error(&error))?;
        Ok(Connected { store: Arc::new(store), pages: None, multiparts: None })
    }
}

impl Connect for Server {
    fn connect(&self) -> BoxFuture<'_, Result<Connected, Box<Cause>>> {
        async {
            let service = self.transport.client().map_err(|why| Cause::new(ErrorKind::InvalidInput, why))?;
            let retries = retries(&self.options.settings);
            match self.location.provider {
                Provider::S3 => self.s3(service, retries).await,
                Provider::Google => self.google(service, retries),
                Provider::Azure => self.azure(service, retries),
                Provider::Http => self.http(service, retries),
            }
        }
        .boxed()
    }
}

/// The region of an AWS bucket, which the server tells anybody.
async fn region(service: &Service, bucket: &str) -> Result<String, Box<Cause>> {
    if let Some(region) = REGIONS.lock().get(bucket) {
        return Ok(region.clone());
    }
    // The certificate covers only one level of names.
    let url = match bucket.contains('.') {
        true => format!("https://s3.amazonaws.com/{bucket}"),
        false => format!("https://{bucket}.s3.amazonaws.com"),
    };
    let unknown = |why: String| {
        let mut cause =
            Cause::new(ErrorKind::HostUnreachable, format!("the region of the bucket is unknown: {why}"));
        cause.advice = Some(
            "Pass storage_options={\"region\": …}, or \"endpoint_url\" for a server that is not AWS".into(),
        );
        cause
    };
    let request = http::Request::head(url).body(HttpRequestBody::empty());
    let request: HttpRequest = request.map_err(|_| unknown("the name of the bucket is not valid".into()))?;
    let answer = service.call(request).await.map_err(|error| unknown(leaf(&error)))?;
    let found = answer.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
    match found.filter(|region| region.len() <= 64) {
        Some(region) => {
            REGIONS.lock().insert(bucket.to_owned(), region.to_owned());
            Ok(region.to_owned())
        }
        None if answer.status().as_u16() == 404 => {
            let mut cause = Cause::new(ErrorKind::NotFound, "there is no such bucket");
            cause.status = Some(404);
            Err(cause)
        }
        None => Err(unknown(format!("the server answered with status {}", answer.status().as_u16()))),
    }
}

#[cfg(test)]
mod tests {
    use super::RemoteStore;
    use crate::environment::Environment;
    use hyperslab_store::{Key, Store};

    fn open(url: &str, options: &[(&str, &str)]) -> Result<RemoteStore, String> {
        let options: Vec<_> =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        RemoteStore::open_in(url, &options, &Environment::of(&[])).map_err(|error| error.to_string())
    }

    #[test]
    fn objects_have_one_number_whatever_leads_to_them() {
        let key = |name: &'static str| Key::new(name).unwrap();
        let outer = open("s3://b/x", &[]).unwrap();
        let inner = open("s3a://b/x/y/", &[]).unwrap();
        assert_eq!(outer.lock_id(key("y/z")), inner.lock_id(key("z")));
        assert_ne!(outer.lock_id(key("y/z")), outer.lock_id(key("z")));
        let other = open("s3://b/x", &[("endpoint_url", "http://localhost:1")]).unwrap();
        assert_ne!(outer.lock_id(key("z")), other.lock_id(key("z")));
        assert_eq!(inner.url(), "s3a://b/x/y");
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(open("az://c/x", &[]).unwrap_err().contains("name of the account"));
        assert!(open("az://c/x", &[("connection_string", "AccountName=a;AccountKey=YQ==")]).is_ok());
        assert!(open("gs://b", &[("requester_pays", "true")]).unwrap_err().contains("project"));
        let nowhere = Environment::of(&[("AWS_EC2_METADATA_DISABLED", "true")]);
        let error = RemoteStore::open_in("s3://b", &[], &nowhere).unwrap_err().to_string();
        assert!(error.contains("no credentials") && error.contains("anon"), "{error}");
        assert!(open("s3://b", &[("token_", "x")]).unwrap_err().contains("unknown storage option"));
    }
}
