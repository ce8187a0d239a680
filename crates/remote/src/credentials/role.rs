//! Roles: the security token service gives a role's credentials to those who may take the role.
//!
//! `AssumeRole` is signed with other credentials. `AssumeRoleWithWebIdentity` sends a token, which
//! the platform keeps in a file.
//! Spec: <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html>

use super::web::Answer;
use super::{Given, Refused, Web, time};
use crate::failure::{element, whole_element};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequest;
use std::path::PathBuf;
use url::form_urlencoded;

/// Longest token file to read.
const MOST: u64 = 64 << 10;

/// A role to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(super) profile: String,
    pub(super) arn: String,
    /// Session name, which shows the role's owner who takes it.
    pub(super) session: String,
    pub(super) external_id: Option<String>,
    /// Seconds. `None`: the default of the service.
    pub(super) duration: Option<u64>,
    /// URL of the service, and the region that its requests are signed for.
    pub(super) endpoint: String,
    pub(super) region: String,
}

/// A file with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenFile(pub(super) PathBuf);

impl Role {
    /// Takes the role with the credentials `keys`.
    pub(super) async fn take(&self, web: &Web, keys: &AwsCredential) -> Result<Given, Refused> {
        let body = self.form("AssumeRole", self.external_id.as_deref().map(|id| ("ExternalId", id)));
        let sign = |request: &mut HttpRequest| {
            let signed = AwsAuthorizer::new(keys, "sts", &self.region).try_authorize(request, None);
            signed.map_err(|_| Refused::new("no credentials: the request for a role cannot be signed"))
        };
        self.ask(web, &body, &sign).await
    }

    fn form(&self, action: &str, more: Option<(&str, &str)>) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", "2011-06-15");
        form.append_pair("RoleArn", &self.arn).append_pair("RoleSessionName", &self.session);
        if let Some(seconds) = self.duration {
            form.append_pair("DurationSeconds", &seconds.to_string());
        }
        form.extend_pairs(more).finish()
    }

    async fn ask(
        &self,
        web: &Web,
        body: &str,
        sign: &(dyn Fn(&mut HttpRequest) -> Result<(), Refused> + Send + Sync),
    ) -> Result<Given, Refused> {
        let make = || {
            let request = http::Request::post(&self.endpoint)
                .header("content-type", "application/x-www-form-urlencoded; charset=utf-8");
            let request: Result<HttpRequest, _> = request.body(body.to_owned().into());
            let valid =
                request.ok().filter(|request| matches!(request.uri().scheme_str(), Some("http" | "https")));
            let mut request = valid.ok_or_else(|| {
                Refused::new(format!("no credentials: '{}' is no URL of STS", self.endpoint))
            })?;
            sign(&mut request)?;
            Ok(request)
        };
        let Answer { status, text } = web.ask("the token service (STS)", make).await?;
        if status != 200 {
            let parts = ["Code", "Message"].map(|name| element(&text, name));
            let why = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
            let mut refused = Refused::new(format!(
                "no credentials: profile '{}' may not take role '{}': {why}",
                self.profile, self.arn
            ));
            refused.0.status = Some(status);
            refused.0.request = element(&text, "RequestId");
            return Err(refused);
        }
        let from = "the token service (STS)";
        let part = |name: &str| {
            let missing = || Refused::new(format!("no credentials: {from} gave none: there is no {name}"));
            whole_element(&text, name).ok_or_else(missing)
        };
        let end = time(part("Expiration")?)
            .ok_or_else(|| Refused::new(format!("no credentials: {from} gave an end that is no time")))?;
        let (key, secret, token) = (part("AccessKeyId")?, part("SecretAccessKey")?, part("SessionToken")?);
        Given::new(from, key, secret, Some(token), Some(end))
    }
}

impl TokenFile {
    /// Takes a role with the token in the file.
    pub(super) async fn take(&self, web: &Web, role: &Role) -> Result<Given, Refused> {
        let path = self.0.clone();
        // Read each time, because the platform replaces the file.
        let read = tokio::task::spawn_blocking(move || {
            let found = std::fs::metadata(&path).ok()?;
            (found.is_file() && found.len() <= MOST).then(|| std::fs::read_to_string(&path).ok()).flatten()
        });
        let token = read.await.ok().flatten().ok_or_else(|| {
            let file = self.0.display();
            Refused::new(format!(
                "no credentials: the web identity token of profile '{}' cannot be read from '{file}'",
                role.profile
            ))
        })?;
        let body = role.form("AssumeRoleWithWebIdentity", Some(("WebIdentityToken", token.trim())));
        role.ask(web, &body, &|_| Ok(())).await
    }
}
