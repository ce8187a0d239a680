//! IAM Identity Center ("SSO"): the user signs on in a browser, with `aws sso login`.
//!
//! 1. The login leaves a token in `~/.aws/sso/cache/`, in a file named by the SHA-1 of the
//!    session's name (for profiles without a session: of the start URL).
//! 2. If the token of a session is about to expire, it is exchanged for a new one, which replaces
//!    it in the file, as AWS's own tools do.
//! 3. The portal gives credentials of an account's role in return for the token, valid for an hour
//!    or several.
//!
//! Spec: <https://docs.aws.amazon.com/sdkref/latest/guide/feature-sso-credentials.html>

use super::web::{Answer, said};
use super::{Given, Refused, Web, time};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object_store::client::{HttpRequest, HttpRequestBody};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use url::Url;

/// Longest token file to read.
const MOST: u64 = 256 << 10;

/// A token that expires sooner is exchanged first.
const BEFORE_END: Duration = Duration::from_secs(60);

/// A profile's settings for signing on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignOn {
    pub(super) profile: String,
    /// The token file.
    pub(super) file: PathBuf,
    pub(super) account: String,
    pub(super) role: String,
    /// The URL of the portal.
    pub(super) portal: String,
    /// URL for exchanging tokens. `None` if tokens of this kind of profile cannot be exchanged.
    pub(super) exchange: Option<String>,
}

/// Name of the token file of a session or a start URL.
pub(super) fn file_name(session: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, session.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut name, byte| {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
        name
    }) + ".json"
}

impl SignOn {
    /// Requests the credentials of the role.
    pub(super) async fn ask(&self, web: &Web) -> Result<Given, Refused> {
        let token = self.token(web).await?;
        let make = || {
            let mut url = self.url(&self.portal, "federation/credentials")?;
            url.query_pairs_mut()
                .append_pair("role_name", &self.role)
                .append_pair("account_id", &self.account);
            let request = http::Request::get(url.as_str()).header("x-amz-sso_bearer_token", &token);
            request.body(HttpRequestBody::empty()).map_err(|_| self.login("is damaged"))
        };
        let Answer { status, text } = web.ask("the portal of SSO", make).await?;
        let object: Value = serde_json::from_str(&text).unwrap_or_default();
        if status != 200 {
            let why = object.get("message").and_then(Value::as_str).map(said).unwrap_or_default();
            return Err(match status {
                401 => self.login("was refused"),
                _ => {
                    let mut refused = Refused::new(format!(
                        "no credentials: SSO gives profile '{}' none of role '{}' in account {}: {why}",
                        self.profile, self.role, self.account
                    ));
                    refused.0.status = Some(status);
                    refused
                }
            });
        }
        let keys = object.get("roleCredentials").unwrap_or(&Value::Null);
        let milliseconds = keys.get("expiration").and_then(Value::as_u64);
        let end =
            milliseconds.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time)));
        Given::of("the portal of SSO", keys, ["accessKeyId", "secretAccessKey", "sessionToken"], end)
    }

    /// An error that only the user can resolve.
    fn login(&self, what: &str) -> Refused {
        Refused::new(format!("no credentials: the SSO token of profile '{}' {what}", self.profile))
            .advise(format!("Run `aws sso login --profile {}`", self.profile))
    }

    fn url(&self, base: &str, path: &str) -> Result<Url, Refused> {
        Url::parse(&format!("{}/{path}", base.trim_end_matches('/')))
            .map_err(|_| Refused::new(format!("no credentials: '{base}' is no URL of SSO")))
    }

    /// The token of the last login.
    async fn token(&self, web: &Web) -> Result<String, Refused> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let known = read.ok().flatten().ok_or_else(|| self.login("is not there"))?;
        let text = |name: &str| known.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(token), Some(end)) = (text("accessToken"), text("expiresAt").and_then(time)) else {
            return Err(self.login("is damaged"));
        };
        let now = SystemTime::now();
        if now + BEFORE_END < end {
            return Ok(token.to_owned());
        }
        match self.exchanged(web, &known).await {
            Some(token) => Ok(token),
            None if now < end => Ok(token.to_owned()),
            None => Err(self.login("has expired")),
        }
    }

    /// Exchanges a token that expires. `None` if that fails.
    async fn exchanged(&self, web: &Web, known: &Map<String, Value>) -> Option<String> {
        let base = self.exchange.as_ref()?;
        let text = |name: &str| known.get(name).and_then(Value::as_str);
        if text("registrationExpiresAt").and_then(time).is_some_and(|end| end <= SystemTime::now()) {
            return None;
        }
        let asked = serde_json::json!({
            "clientId": text("clientId")?,
            "clientSecret": text("clientSecret")?,
            "refreshToken": text("refreshToken")?,
            "grantType": "refresh_token",
        });
        let make = || {
            let request = http::Request::post(self.url(base, "token")?.as_str());
            let request = request.header("content-type", "application/json");
            let request: Result<HttpRequest, _> = request.body(asked.to_string().into());
            request.map_err(|_| self.login("is damaged"))
        };
        let answer =
            web.ask("the token service of SSO", make).await.ok().filter(|answer| answer.status == 200)?;
        let given: Value = serde_json::from_str(&answer.text).ok()?;
        let token = given.get("accessToken").and_then(Value::as_str)?;
        let time = Duration::from_secs(given.get("expiresIn").and_then(Value::as_u64)?);
        let end = chrono::DateTime::<chrono::Utc>::from(SystemTime::now().checked_add(time)?);
        let mut next = known.clone();
        next.insert("accessToken".into(), token.into());
        next.insert("expiresAt".into(), end.format("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        if let Some(refresh) = given.get("refreshToken").and_then(Value::as_str) {
            next.insert("refreshToken".into(), refresh.into());
        }
        let file = self.file.clone();
        // If it cannot be saved, only this process has the new token.
        let _ = tokio::task::spawn_blocking(move || keep(&file, &Value::Object(next))).await;
        Some(token.to_owned())
    }
}

/// Reads a token file.
fn read(file: &Path) -> Option<Map<String, Value>> {
    let found = std::fs::metadata(file).ok()?;
    let text = (found.is_file() && found.len() <= MOST).then(|| std::fs::read(file).ok()).flatten()?;
    serde_json::from_slice(&text).ok()
}

/// Replaces a token file atomically, readable by this user only.
fn keep(file: &Path, token: &Value) -> std::io::Result<()> {
    let mut random = [0; 9];
    SystemRandom::new().fill(&mut random).map_err(|_| std::io::Error::other("no random numbers"))?;
    let beside = file.with_extension(format!("{}.tmp", URL_SAFE_NO_PAD.encode(random)));
    let new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    let kept = new.and_then(|mut new| new.write_all(token.to_string().as_bytes()));
    let kept = kept.and_then(|()| std::fs::rename(&beside, file));
    if kept.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{file_name, keep, read};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_of_tokens() {
        // The name that `aws sso login` gives for a session "my-sso".
        assert_eq!(file_name("my-sso"), "0ad374308c5a4e22f723adf10145eafad7c4031c.json");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.json");
        assert_eq!(read(&file), None);
        std::fs::write(&file, "[]").unwrap();
        assert_eq!(read(&file), None);
        let token = serde_json::json!({"accessToken": "canary", "other": 1});
        keep(&file, &token).unwrap();
        assert_eq!(read(&file).as_ref(), token.as_object());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(keep(&folder.path().join("no/x.json"), &token).is_err());
    }
}
