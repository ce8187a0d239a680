//! Finds the source of credentials of an AWS profile.
//!
//! A profile can name several sources. Their order is the same as in AWS's own tools: a role, SSO,
//! keys, a program. Spec:
//! <https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>

use super::Source;
use super::program::Program;
use super::role::{Role, TokenFile};
use super::sign_on::{SignOn, file_name};
use crate::environment::Environment;
use crate::options::OptionsError;
use crate::profile::Profile;
use object_store::aws::AwsCredential;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum length of a chain of role profiles.
const DEPTH: usize = 8;

/// Environment variables for machine credentials, and the `object_store` options for them.
const MACHINE: [(&str, &str); 4] = [
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "aws_container_credentials_relative_uri"),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "aws_container_credentials_full_uri"),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "aws_container_authorization_token_file"),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "aws_metadata_endpoint"),
];

/// Search state: the environment and the profiles visited.
struct Finder<'e> {
    environment: &'e Environment,
    /// True if the user named the profile, which then takes precedence over the environment.
    named: bool,
    /// The profiles on the path to here.
    visited: Vec<String>,
}

/// The source of a profile's credentials. `None` if the profile names none.
pub(crate) fn source(
    environment: &Environment,
    name: &str,
    profile: &Profile,
    named: bool,
) -> Result<Option<Source>, OptionsError> {
    Finder { environment, named, visited: Vec::new() }.source(name, profile)
}

/// The keys in a profile or in the environment.
fn fixed<'t>(get: impl Fn(&str) -> Option<&'t str>) -> Option<Source> {
    let (key, secret) = (get("aws_access_key_id")?, get("aws_secret_access_key")?);
    let token = get("aws_session_token").map(str::to_owned);
    Some(Source::Fixed(Arc::new(AwsCredential {
        key_id: key.to_owned(),
        secret_key: secret.to_owned(),
        token,
    })))
}

fn get<'p>(profile: &'p Profile, name: &str) -> Option<&'p str> {
    profile.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

impl Finder<'_> {
    fn source(&mut self, name: &str, profile: &Profile) -> Result<Option<Source>, OptionsError> {
        if let Some(arn) = get(profile, "role_arn")
            && let Some(source) = self.role(name, profile, arn)?
        {
            return Ok(Some(source));
        }
        if let Some(sign_on) = self.sign_on(name, profile)? {
            return Ok(Some(Source::SignOn(sign_on)));
        }
        if let Some(keys) = fixed(|name| get(profile, name)) {
            return Ok(Some(keys));
        }
        let Some(line) = get(profile, "credential_process") else { return Ok(None) };
        let program = Program::new(name, line);
        let wrong = |why| OptionsError::new(format!("profile '{name}': credential_process: {why}"));
        Ok(Some(Source::Program(program.map_err(wrong)?)))
    }

    /// The profile's role. `None` if the profile does not say how to take it.
    fn role(&mut self, name: &str, profile: &Profile, arn: &str) -> Result<Option<Source>, OptionsError> {
        let wrong = |why: String| OptionsError::new(format!("profile '{name}': {why}"));
        let of = |name| get(profile, name);
        let (from, kind, file) =
            (of("source_profile"), of("credential_source"), of("web_identity_token_file"));
        if from.is_none() && kind.is_none() && file.is_none() {
            return Ok(None);
        }
        if from.is_some() && kind.is_some() {
            return Err(wrong("source_profile and credential_source are there both; remove one".into()));
        }
        if (from.is_some() || kind.is_some()) && of("mfa_serial").is_some() {
            return Err(wrong(format!(
                "its role needs a code of a device (mfa_serial), which nothing here asks for: run `aws configure \
                 export-credentials --profile {name} --format env` and set what it prints"
            )));
        }
        let duration = of("duration_seconds").map(str::parse).transpose();
        let region = self.region(profile);
        let role = Role {
            profile: name.to_owned(),
            arn: arn.to_owned(),
            session: of("role_session_name").unwrap_or("hyperslab").to_owned(),
            external_id: of("external_id").map(str::to_owned),
            duration: duration.map_err(|_| wrong("duration_seconds: expected a number".into()))?,
            endpoint: self.endpoint("STS", profile).unwrap_or_else(|| match &region {
                Some(region) => format!("https://sts.{region}.{}", domain(region)),
                None => "https://sts.amazonaws.com".into(),
            }),
            region: region.unwrap_or_else(|| "us-east-1".into()),
        };
        let source = match (from, kind, file) {
            (Some(from), _, _) => self.source_profile(name, profile, from)?,
            (_, Some("Environment"), _) => {
                let keys = fixed(|name| self.environment.get(&name.to_ascii_uppercase()));
                keys.ok_or_else(|| wrong("credential_source = Environment, but AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".into()))?
            }
            (_, Some("EcsContainer" | "Ec2InstanceMetadata"), _) => {
                let container = kind == Some("EcsContainer");
                let given =
                    MACHINE.iter().filter(|(variable, _)| variable.contains("CONTAINER") == container);
                let given = given.filter_map(|(variable, name)| {
                    Some(((*name).to_owned(), self.environment.get(variable)?.to_owned()))
                });
                Source::Machine(given.collect())
            }
            (_, Some(other), _) => {
                return Err(wrong(format!(
                    "credential_source: expected Environment, EcsContainer or Ec2InstanceMetadata, found '{other}'"
                )));
            }
            (_, _, Some(file)) => return Ok(Some(Source::Token(TokenFile(PathBuf::from(file)), role))),
            (None, None, None) => return Ok(None),
        };
        Ok(Some(Source::Role(Box::new(source), role)))
    }

    /// The credentials with which `name` takes its role.
    fn source_profile(&mut self, name: &str, profile: &Profile, from: &str) -> Result<Source, OptionsError> {
        let wrong =
            |why: &str| OptionsError::new(format!("profile '{name}': source_profile = {from}: {why}"));
        if from == name {
            return fixed(|name| get(profile, name))
                .ok_or_else(|| wrong("that profile has no keys of its own"));
        }
        self.visited.push(name.to_owned());
        if self.visited.iter().any(|seen| seen == from) || self.visited.len() > DEPTH {
            return Err(wrong("the profiles lead to each other without an end"));
        }
        let source = self.environment.profile(from, true)?;
        self.source(from, &source)?.ok_or_else(|| wrong("that profile has no credentials"))
    }

    /// The profile's sign-on (SSO), if it has one.
    fn sign_on(&self, name: &str, profile: &Profile) -> Result<Option<SignOn>, OptionsError> {
        let (Some(account), Some(role)) = (get(profile, "sso_account_id"), get(profile, "sso_role_name"))
        else {
            return Ok(None);
        };
        let named = get(profile, "sso_session");
        let session = match named {
            Some(session) => self.environment.session(session).ok_or_else(|| {
                OptionsError::new(format!(
                    "profile '{name}': there is no [sso-session {session}] in ~/.aws/config"
                ))
            })?,
            None => profile.clone(),
        };
        let must = |key: &str| {
            get(&session, key).ok_or_else(|| {
                OptionsError::new(format!("profile '{name}' signs on by SSO, but there is no {key}"))
            })
        };
        let (start, region) = (must("sso_start_url")?, must("sso_region")?);
        let folder = self.environment.get("HOME").map(|home| PathBuf::from(home).join(".aws/sso/cache"));
        let url = |service: &str, host: &str| {
            let given = self.endpoint(service, profile);
            given.unwrap_or_else(|| format!("https://{host}.{region}.{}", domain(region)))
        };
        Ok(Some(SignOn {
            profile: name.to_owned(),
            file: folder.unwrap_or_default().join(file_name(named.unwrap_or(start))),
            account: account.to_owned(),
            role: role.to_owned(),
            portal: url("SSO", "portal.sso"),
            exchange: named.map(|_| url("SSO_OIDC", "oidc")),
        }))
    }

    /// The URL of a service, if it is configured to differ from AWS's own.
    fn endpoint(&self, service: &str, profile: &Profile) -> Option<String> {
        let variable = format!("AWS_ENDPOINT_URL_{service}");
        let of_environment =
            self.environment.get(&variable).or_else(|| self.environment.get("AWS_ENDPOINT_URL"));
        of_environment.or_else(|| get(profile, "endpoint_url")).map(str::to_owned)
    }

    fn region(&self, profile: &Profile) -> Option<String> {
        let environment =
            || self.environment.get("AWS_REGION").or_else(|| self.environment.get("AWS_DEFAULT_REGION"));
        let profile = get(profile, "region");
        let region = if self.named { profile.or_else(environment) } else { environment().or(profile) };
        region.map(str::to_owned)
    }
}

/// The domain of the services in a region.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}
