//! Credentials and servers from environment variables and files in the home directory.
//!
//! Options from the user take precedence, then the environment, then the AWS profile. A profile
//! that the user names takes precedence over the environment. AWS's key, secret and token always
//! come from one place: with a token of another key, every signature would be wrong. Instead of
//! keys, a profile may name a source of credentials, which is asked later ([`crate::credentials`]).
//! If nothing is found, `object_store` asks the machine's cloud.

use crate::credentials::{Source, source};
use crate::location::Provider;
use crate::options::{Options, OptionsError, native};
use crate::profile::{self, Profile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest profile file to read.
const MOST: u64 = 1 << 20;

const KEY: &str = "aws_access_key_id";
const SECRET: &str = "aws_secret_access_key";
const TOKEN: &str = "aws_session_token";

/// Environment variables.
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process.
    pub(crate) fn of_process() -> Self {
        let text = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Environment(text.collect())
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        Environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Fills in options that the user has not passed.
    pub(crate) fn fill(&self, provider: Provider, options: &mut Options) -> Result<(), OptionsError> {
        match provider {
            Provider::S3 => self.fill_s3(options),
            Provider::Google => {
                self.fill_native(provider, &["GOOGLE_"], options);
                if let Some(host) = self.get("STORAGE_EMULATOR_HOST") {
                    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
                    options.default_to("google_base_url", &url);
                }
                Ok(())
            }
            Provider::Azure => {
                for (variable, name) in [
                    ("AZURE_STORAGE_CONNECTION_STRING", "connection_string"),
                    ("AZURE_STORAGE_ACCOUNT", "azure_storage_account_name"),
                    ("AZURE_STORAGE_KEY", "azure_storage_account_key"),
                ] {
                    if let Some(value) = self.get(variable) {
                        options.default_to(name, value);
                    }
                }
                self.fill_native(provider, &["AZURE_", "MSI_", "IDENTITY_"], options);
                Ok(())
            }
            Provider::Http => Ok(()),
        }
    }

    /// Adds variables named like `object_store` options.
    fn fill_native(&self, provider: Provider, starts: &[&str], options: &mut Options) {
        for (variable, value) in &self.0 {
            if starts.iter().any(|start| variable.starts_with(start))
                && !value.is_empty()
                && let Some(name) = native(provider, &variable.to_ascii_lowercase())
                && ![KEY, SECRET, TOKEN].contains(&name.as_str())
            {
                options.default_to(&name, value);
            }
        }
    }

    fn fill_s3(&self, options: &mut Options) -> Result<(), OptionsError> {
        let named = options.get("profile").map(str::to_owned);
        let chosen = named.as_deref().or_else(|| self.get("AWS_PROFILE")).unwrap_or("default");
        let profile = self.profile(chosen, named.is_some())?;
        let own = [
            KEY,
            "aws_container_credentials_relative_uri",
            "aws_container_credentials_full_uri",
            "aws_web_identity_token_file",
        ];
        let given = own.iter().any(|name| options.get(name).is_some());
        if !given && !options.is("aws_skip_signature")? {
            self.fill_credentials(options, chosen, &profile, named.is_some())?;
        }
        let from_profile = |options: &mut Options| {
            for (from, name) in [
                ("region", "aws_region"),
                ("endpoint_url", "aws_endpoint"),
                ("s3.endpoint_url", "aws_endpoint"),
                ("s3.addressing_style", "addressing_style"),
            ] {
                if let Some(value) = profile.get(from) {
                    options.default_to(name, value);
                }
            }
        };
        if named.is_some() {
            from_profile(options);
        }
        // The endpoint for S3 is more specific than the one for all services.
        if let Some(endpoint) = self.get("AWS_ENDPOINT_URL_S3") {
            options.default_to("aws_endpoint", endpoint);
        }
        if let Some(region) = self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION")) {
            options.default_to("aws_region", region);
        }
        self.fill_native(Provider::S3, &["AWS_"], options);
        from_profile(options);
        if self.get("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
            options.default_to("no_metadata", "true");
        }
        Ok(())
    }

    /// Finds credentials if the user has passed none.
    fn fill_credentials(
        &self,
        options: &mut Options,
        chosen: &str,
        profile: &Profile,
        named: bool,
    ) -> Result<(), OptionsError> {
        let of_environment: Vec<(&str, &str)> =
            [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", TOKEN)]
                .into_iter()
                .filter_map(|(variable, name)| Some((name, self.get(variable)?)))
                .collect();
        let has_key = of_environment.iter().any(|(name, _)| *name == KEY);
        let found = if has_key && !named { None } else { source(self, chosen, profile, named)? };
        // A role from the platform takes precedence over keys in a profile, but not over a role in
        // one.
        let platform =
            self.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() && self.get("AWS_ROLE_ARN").is_some();
        match found {
            Some(Source::Role(..) | Source::Token(..)) => options.credentials = found,
            _ if platform && !named && !has_key => {}
            Some(Source::Fixed(keys)) => {
                options.default_to(KEY, &keys.key_id);
                options.default_to(SECRET, &keys.secret_key);
                keys.token.iter().for_each(|token| options.default_to(TOKEN, token));
            }
            Some(source) => options.credentials = Some(source),
            None => of_environment.into_iter().for_each(|(name, value)| options.default_to(name, value)),
        }
        Ok(())
    }

    /// Reads a profile. With `must`, it has to exist.
    pub(crate) fn profile(&self, name: &str, must: bool) -> Result<Profile, OptionsError> {
        let (mut profile, mut found) = (Profile::new(), false);
        let files =
            [self.file("AWS_CONFIG_FILE", "config"), self.file("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
        // The credentials file takes precedence, so it is read last.
        for path in files.into_iter().flatten() {
            if let Some(text) = read(&path) {
                found |= profile::read(&text, &profile::sections(name), &mut profile);
            }
        }
        if must && !found {
            return Err(OptionsError::new(format!(
                "there is no profile '{name}' in ~/.aws/config or ~/.aws/credentials"
            )));
        }
        Ok(profile)
    }

    /// Reads an SSO session, if there is one with this name.
    pub(crate) fn session(&self, name: &str) -> Option<Profile> {
        let (text, mut session) = (read(&self.file("AWS_CONFIG_FILE", "config")?)?, Profile::new());
        profile::read(&text, &[format!("sso-session {name}")], &mut session).then_some(session)
    }

    /// The file named by a variable, or the one with this name in `~/.aws`.
    fn file(&self, variable: &str, name: &str) -> Option<PathBuf> {
        let home = || Some(PathBuf::from(self.get("HOME")?).join(".aws").join(name));
        self.get(variable).map(PathBuf::from).or_else(home)
    }
}

/// The text of a small file. `None` if it cannot be read.
fn read(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    (found.is_file() && found.len() <= MOST).then(|| std::fs::read_to_string(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Environment, Options, Provider};

    fn filled(environment: &[(&str, &str)], given: &[(&str, &str)]) -> Result<Options, String> {
        let given: Vec<_> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut options = Options::new(Provider::S3, &given).unwrap();
        let done = Environment::of(environment).fill(Provider::S3, &mut options);
        done.map(|()| options).map_err(|error| error.to_string())
    }

    type Pairs<'p> = &'p [(&'p str, &'p str)];

    #[test]
    fn credentials_come_from_one_place() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".aws");
        std::fs::create_dir(&directory).unwrap();
        let config = "[default]\nregion = eu-west-1\n[profile far]\nregion=us-east-2\nendpoint_url=http://far\n\
                      [profile sso]\nsso_session = x\nsso_account_id = 1\nsso_role_name = r\n\
                      [sso-session x]\nsso_start_url = http://x\nsso_region = cn-north-1\n";
        std::fs::write(directory.join("config"), config).unwrap();
        let credentials = "[default]\naws_access_key_id=DK\naws_secret_access_key=DS\n[far]\naws_access_key_id=FK\n\
                           aws_secret_access_key=FS\naws_session_token=FT\n";
        std::fs::write(directory.join("credentials"), credentials).unwrap();
        let home = ("HOME", home.path().to_str().unwrap());
        let variables =
            [home, ("AWS_ACCESS_KEY_ID", "EK"), ("AWS_SECRET_ACCESS_KEY", "ES"), ("AWS_SESSION_TOKEN", "ET")];
        let of = |options: &Options| {
            ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint"]
                .map(|name| options.get(name).unwrap_or("-").to_owned())
                .join(" ")
        };
        let cases: [(Pairs<'_>, Pairs<'_>, &str); 6] = [
            (&[home], &[], "DK DS - eu-west-1 -"),
            (&variables, &[], "EK ES ET eu-west-1 -"),
            (&variables, &[("key", "K"), ("secret", "S")], "K S - eu-west-1 -"),
            (&variables, &[("profile", "far")], "FK FS FT us-east-2 http://far"),
            (&[home, ("AWS_PROFILE", "far"), ("AWS_REGION", "x")], &[], "FK FS FT x http://far"),
            (&variables, &[("anon", "True"), ("region", "y")], "- - - y -"),
        ];
        for (environment, given, expected) in cases {
            assert_eq!(of(&filled(environment, given).unwrap()), expected, "{given:?}");
        }
        assert!(filled(&[home], &[("profile", "none")]).unwrap_err().contains("no profile 'none'"));
        let found = filled(&[home], &[("profile", "sso")]).unwrap();
        assert_eq!(of(&found), "- - - - -");
        let source = format!("{:?}", found.credentials);
        assert!(source.contains("https://portal.sso.cn-north-1.amazonaws.com.cn"), "{source}");
        assert!(filled(&[home, ("AWS_PROFILE", "sso")], &[("anon", "1")]).unwrap().credentials.is_none());
        let platform = [home, ("AWS_ROLE_ARN", "r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "f")];
        let found = filled(&platform, &[]).unwrap();
        assert_eq!((of(&found).as_str(), found.credentials), ("- - - eu-west-1 -", None));
        assert_eq!(of(&filled(&[], &[]).unwrap()), "- - - - -");
        let found =
            filled(&[("AWS_ENDPOINT_URL", "a"), ("AWS_ENDPOINT_URL_S3", "b"), ("AWS_BUCKET", "c")], &[])
                .unwrap();
        assert_eq!((found.get("aws_endpoint"), found.get("aws_bucket")), (Some("b"), None));
    }
}
