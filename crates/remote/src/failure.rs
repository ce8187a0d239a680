//! Failures of requests, and their messages.
//!
//! Texts from lower layers contain URLs with signatures, and a response body may contain anything.
//! They are therefore never passed on unchanged. A message is assembled from the status, the code
//! and message of an error document, and the innermost cause of a failed connection. At the end,
//! every secret known to the store is removed ([`Secrets`]).

use crate::credentials::Refused;
use crate::pages::Endless;
use crate::transport::Trace;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error;
use std::io::{self, ErrorKind};

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// There is no such object.
    Missing,
    /// The object has another version than requested, or exists although it should not.
    Condition,
    /// The object still has the known version.
    Unchanged,
    /// The range begins past the end.
    BeyondEnd,
    /// The server returns the whole object for a range request.
    NoRanges,
    /// The server or the protocol does not support this.
    Unsupported(Box<Cause>),
    /// Anything else.
    Other(Box<Cause>),
}

impl Failure {
    /// Returns whether a connection ended in a way that says nothing about the next one.
    pub(crate) fn is_transient(&self) -> bool {
        let ended = [
            ErrorKind::ConnectionReset,
            ErrorKind::ConnectionAborted,
            ErrorKind::BrokenPipe,
            ErrorKind::UnexpectedEof,
        ];
        matches!(self, Failure::Other(cause) if cause.status.is_none() && ended.contains(&cause.kind))
    }

    /// Returns whether the server may have carried out the request despite the error.
    pub(crate) fn may_be_done(&self) -> bool {
        let refused = |status| (400..500).contains(&status) && status != 408;
        match self {
            Failure::Other(cause) => {
                !cause.status.is_some_and(refused) && cause.kind != ErrorKind::ConnectionRefused
            }
            _ => false,
        }
    }

    /// Returns whether the outcome of the request is unknown.
    pub(crate) fn is_unanswered(&self) -> bool {
        let late = matches!(self, Failure::Other(cause) if cause.kind == ErrorKind::TimedOut && cause.status.is_none());
        late || self.is_transient()
    }
}

/// Details of a failure, without secrets of lower layers.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) kind: ErrorKind,
    pub(crate) status: Option<u16>,
    pub(crate) request: Option<String>,
    pub(crate) why: String,
    pub(crate) advice: Option<String>,
}

impl Cause {
    pub(crate) fn new(kind: ErrorKind, why: impl Into<String>) -> Box<Self> {
        Box::new(Cause { kind, status: None, request: None, why: why.into(), advice: None })
    }
}

/// The text of the first element with this name in a document.
pub(crate) fn whole_element<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once("</")?;
    (!text.is_empty()).then_some(text)
}

/// The text of an element in an error document of S3, Azure or Google, made safe for a message.
pub(crate) fn element(body: &str, name: &str) -> Option<String> {
    let text: String = whole_element(body, name)?.chars().filter(|c| !c.is_control()).take(300).collect();
    (!text.is_empty()).then_some(text)
}

/// The innermost cause, without the query of any URL.
pub(crate) fn leaf(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    // URLs in texts may contain a signature.
    let text = inner.to_string();
    let words = text.split_whitespace().map(|word| match word.find("://") {
        Some(_) => word.split(['?', '#']).next().unwrap_or_default(),
        None => word,
    });
    words.take(60).collect::<Vec<_>>().join(" ")
}

/// Finds an error of a type in the chain of causes.
fn find<'e, E: Error + 'static>(mut error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    loop {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        error = error.source()?;
    }
}

/// Describes a failed connection by its innermost causes.
fn connection(error: &(dyn Error + 'static), trace: &Trace) -> (ErrorKind, String, Option<String>) {
    if trace.no_metadata {
        return (
            ErrorKind::PermissionDenied,
            "no credentials were found".into(),
            Some(NO_CREDENTIALS.into()),
        );
    }
    let leaf = leaf(error);
    if let Some(tls) = find::<rustls::Error>(error) {
        let advice = "The certificate of the server must be signed by an authority that this system trusts: \
                      set SSL_CERT_FILE to a file with that of a private authority";
        let why = format!("the connection is not secure: {tls}");
        return (ErrorKind::ConnectionRefused, why, Some(advice.into()));
    }
    if let Some(http) = find::<HttpError>(error)
        && http.kind() == HttpErrorKind::Timeout
    {
        return (ErrorKind::TimedOut, "the server did not answer in time".into(), None);
    }
    if let Some(io) = find::<io::Error>(error)
        && io.kind() != ErrorKind::Other
    {
        return (io.kind(), leaf, None);
    }
    if find::<HttpError>(error).is_none() {
        return (ErrorKind::InvalidData, format!("the answer of the server makes no sense: {leaf}"), None);
    }
    let kind =
        if leaf.contains("lookup") { ErrorKind::HostUnreachable } else { ErrorKind::ConnectionAborted };
    (kind, leaf, None)
}

pub(crate) const NO_CREDENTIALS: &str = "Set the environment variables of the provider (such as AWS_ACCESS_KEY_ID \
     and AWS_SECRET_ACCESS_KEY), name a profile, or pass the credentials in storage_options. For public data pass \
     storage_options={\"anon\": True}";

/// Advice about a status.
fn advice(status: u16, code: Option<&str>, trace: &Trace, anonymous: bool) -> Option<String> {
    let region = trace.region.as_ref();
    match (status, code) {
        (301 | 307 | 308, _) | (400, Some("AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")) => {
            Some(match region {
                Some(region) => format!(
                    "The bucket is in region '{region}': pass storage_options={{\"region\": \"{region}\"}}"
                ),
                None => "The bucket is in another region: pass storage_options={\"region\": …}".into(),
            })
        }
        (404, Some("NoSuchBucket" | "ContainerNotFound")) => {
            Some("There is no such bucket: check its name".into())
        }
        (401 | 403, Some("RequestTimeTooSkewed")) => Some("Set the clock of this machine".into()),
        (401 | 403, _) if anonymous => Some(
            "The request was anonymous: the data may need credentials, or not exist. Servers that do not let \
             anybody list a bucket answer so for objects that are missing"
                .into(),
        ),
        (401 | 403, Some("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken")) => {
            Some("Check the credentials".into())
        }
        (401 | 403, _) => Some(
            "Check the permissions of the credentials. For public data pass storage_options={\"anon\": True}"
                .into(),
        ),
        (429 | 503, _) => Some("The server is overloaded: try again later, or with fewer requests at a time".into()),
        _ => None,
    }
}

/// Interprets an error of `object_store`. `anonymous` means that requests are not signed.
pub(crate) fn failure(error: &object_store::Error, trace: &Trace, anonymous: bool) -> Failure {
    // In this case, the trace shows the response of the provider of credentials.
    if let Some(Refused(cause)) = find::<Refused>(error) {
        return Failure::Other(cause.clone());
    }
    if let Some(endless) = find::<Endless>(error) {
        return Failure::Other(Cause::new(ErrorKind::InvalidData, endless.to_string()));
    }
    let body = trace.body.as_deref().unwrap_or_default();
    let code = element(body, "Code");
    let status = trace.status.filter(|status| *status >= 300);
    let no_bucket = matches!(code.as_deref(), Some("NoSuchBucket" | "ContainerNotFound"));
    let by_status = match status {
        Some(404) if !no_bucket => return Failure::Missing,
        Some(412) => return Failure::Condition,
        Some(304) => return Failure::Unchanged,
        Some(416) => return Failure::BeyondEnd,
        Some(status) => {
            let (kind, what) = match status {
                401 | 403 => (ErrorKind::PermissionDenied, "access is denied"),
                404 => (ErrorKind::NotFound, "there is no such bucket"),
                301 | 307 | 308 => (ErrorKind::Other, "the bucket is elsewhere"),
                405 | 501 => (ErrorKind::Unsupported, "the server cannot do this"),
                408 | 504 => (ErrorKind::TimedOut, "the server did not answer in time"),
                429 | 503 => (ErrorKind::ResourceBusy, "the server asks for fewer requests"),
                500.. => (ErrorKind::Other, "the server failed"),
                _ => (ErrorKind::Other, "the server refused"),
            };
            let said = [code.clone(), element(body, "Message")].into_iter().flatten().collect::<Vec<_>>();
            let why = if said.is_empty() { what.to_owned() } else { format!("{what}: {}", said.join(": ")) };
            let request = element(body, "RequestId").or_else(|| trace.request.clone());
            let advice = advice(status, code.as_deref(), trace, anonymous);
            Some(Cause { kind, status: Some(status), request, why, advice })
        }
        None => None,
    };
    if let Some(cause) = by_status {
        let cause = Box::new(cause);
        return match (status, code.as_deref()) {
            (Some(405 | 501), _) | (_, Some("NotImplemented")) => Failure::Unsupported(cause),
            (Some(409), Some("BlobAlreadyExists")) => Failure::Condition,
            _ => Failure::Other(cause),
        };
    }
    match error {
        object_store::Error::NotFound { .. } => Failure::Missing,
        object_store::Error::NotModified { .. } => Failure::Unchanged,
        object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. } => {
            Failure::Condition
        }
        // A web server that does not support ranges returns everything.
        object_store::Error::NotSupported { .. } if trace.status == Some(200) => Failure::NoRanges,
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => {
            Failure::Unsupported(Cause::new(ErrorKind::Unsupported, "the protocol has no such request"))
        }
        error => {
            // The type of this cause is private.
            let text = leaf(error);
            if text.starts_with("Server returned") {
                // A response that begins as a success but contains an error.
                let code = element(&text, "Code").unwrap_or_default();
                return Failure::Other(Cause::new(ErrorKind::Other, format!("the server failed: {code}")));
            }
            // A truncated body cannot be resumed if the server does not support ranges.
            if text.starts_with("Range request not supported") {
                let why = "the server sent fewer bytes than it said";
                return Failure::Other(Cause::new(ErrorKind::UnexpectedEof, why));
            }
            if text.starts_with("Received non-partial response") {
                return Failure::NoRanges;
            }
            // How some servers respond for an object without bytes.
            if text.contains("\"bytes 0--1/0\"") {
                return Failure::BeyondEnd;
            }
            // In tests, memory takes the place of a server.
            if text.contains("range started at") || text.contains("but object was only") {
                return Failure::BeyondEnd;
            }
            let (kind, why, advice) = connection(error, trace);
            Failure::Other(Box::new(Cause {
                kind,
                status: None,
                request: trace.request.clone(),
                why,
                advice,
            }))
        }
    }
}

/// Texts that no message may contain.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Collects secrets. Skips short ones, which could be parts of ordinary words.
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        Secrets(secrets.into_iter().filter(|secret| secret.len() >= 4).collect())
    }

    /// The text with all secrets replaced.
    pub(crate) fn strike(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Secrets, element, leaf};

    #[test]
    fn texts_lose_signatures_and_secrets() {
        let error = std::io::Error::other("error for https://host/a?sig=abc now");
        assert_eq!(leaf(&error), "error for https://host/a now");
        let secrets = Secrets::new(["canary".to_owned(), "ab".to_owned()]);
        assert_eq!(secrets.strike("a canary, about"), "a …, about");
        assert!(!format!("{secrets:?}").contains("canary"));
        let body = "<Error><Code>NoSuchKey</Code><Message>gone\u{1b}[0m</Message></Error>";
        assert_eq!(element(body, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(element(body, "Message").as_deref(), Some("gone[0m"));
        assert_eq!(element(body, "RequestId"), None);
    }
}
