//! AWS credentials that have to be requested and that expire.
//!
//! 1. [`find`] determines the [`Source`] of a profile's credentials, without any request.
//! 2. The first request of a client asks the source. The result is kept for all stores of the
//!    process ([`Shared`]) and for its forked children.
//! 3. Shortly before the credentials expire, the next request asks again: one task asks, the others
//!    wait for it. If that fails while the old credentials are still valid, they stay in use.

mod find;
mod program;
mod role;
mod sign_on;
mod web;

use crate::failure::Cause;
use async_trait::async_trait;
pub(crate) use find::source;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyperslab_store::fork::{self, Mutex};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde_json::Value;
use std::fmt;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
pub(crate) use web::Web;

/// Lead time for renewing credentials. A quarter of their lifetime if that is shorter.
///
/// A long upload signs each part with the credentials of that time.
const BEFORE_END: Duration = Duration::from_secs(300);

/// Pause after a failed renewal while the old credentials are valid.
const PAUSE: Duration = Duration::from_secs(10);

/// Number of sources to keep. A process has one or a few.
const SOURCES: usize = 32;

/// Source of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Known keys.
    Fixed(Arc<AwsCredential>),
    /// A program that prints credentials.
    Program(program::Program),
    /// A sign-on of the user in a browser (IAM Identity Center).
    SignOn(sign_on::SignOn),
    /// A role taken with other credentials.
    Role(Box<Source>, role::Role),
    /// A role taken with a token from a file.
    Token(role::TokenFile, role::Role),
    /// The container or the machine running this process. The options tell where to ask.
    Machine(Vec<(String, String)>),
}

/// Why credentials were refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(crate) Box<Cause>);

impl Refused {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        // Never a kind that is retried: this was not a request to the store.
        Refused(Cause::new(ErrorKind::PermissionDenied, why))
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.why)
    }
}

impl std::error::Error for Refused {}

/// Credentials, and their expiry if they expire.
#[derive(Clone, Debug)]
struct Given {
    keys: Arc<AwsCredential>,
    end: Option<SystemTime>,
}

impl Given {
    /// Reads credentials from a JSON object under these names. `from` names their provider.
    fn of(from: &str, object: &Value, names: [&str; 3], end: Option<SystemTime>) -> Result<Given, Refused> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let [key, secret, token] = names;
        let must = |name: &str| {
            text(name).ok_or_else(|| Refused::new(format!("{from} gave credentials without '{name}'")))
        };
        Given::new(from, must(key)?, must(secret)?, text(token), end)
    }

    fn new(
        from: &str,
        key: &str,
        secret: &str,
        token: Option<&str>,
        end: Option<SystemTime>,
    ) -> Result<Given, Refused> {
        // They become headers.
        if !key
            .bytes()
            .chain(secret.bytes())
            .chain(token.unwrap_or_default().bytes())
            .all(|b| b.is_ascii_graphic())
        {
            return Err(Refused::new(format!(
                "{from} gave credentials with characters that no headers have"
            )));
        }
        if end.is_some_and(|end| end <= SystemTime::now()) {
            return Err(Refused::new(format!("{from} gave credentials that have expired"))
                .advise("Check the clock of this machine"));
        }
        let keys = AwsCredential {
            key_id: key.to_owned(),
            secret_key: secret.to_owned(),
            token: token.map(str::to_owned),
        };
        Ok(Given { keys: Arc::new(keys), end })
    }
}

/// Parses a time as AWS writes it: `2026-01-31T12:00:00Z`. Older programs end it with `UTC`.
fn time(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let text = text.strip_suffix("UTC").map_or_else(|| text.to_owned(), |text| format!("{text}Z"));
    let seconds = chrono::DateTime::parse_from_rfc3339(&text).ok()?.timestamp();
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

impl Source {
    /// Requests credentials.
    fn ask<'s>(&'s self, web: &'s Web) -> BoxFuture<'s, Result<Given, Refused>> {
        async move {
            match self {
                Source::Fixed(keys) => Ok(Given { keys: keys.clone(), end: None }),
                Source::Program(program) => program.run(web.patience).await,
                Source::SignOn(sign_on) => sign_on.ask(web).await,
                Source::Role(source, role) => role.take(web, &source.ask(web).await?.keys).await,
                Source::Token(token, role) => token.take(web, role).await,
                Source::Machine(options) => web.machine(options).await,
            }
        }
        .boxed()
    }
}

/// The known credentials of a source.
#[derive(Clone, Default)]
struct Known {
    given: Option<Given>,
    /// When to renew them.
    renew: Option<SystemTime>,
    /// The last failure and its time.
    failed: Option<(Instant, Refused)>,
}

impl Known {
    /// The credentials, if they need no renewal.
    fn fresh(&self, now: SystemTime) -> Option<Arc<AwsCredential>> {
        let given = self.given.as_ref()?;
        self.renew.is_none_or(|renew| now < renew).then(|| given.keys.clone())
    }

    /// Takes the source's answer. On failure, returns the old credentials if they are still valid.
    fn take(
        &mut self,
        answer: Result<Given, Refused>,
        now: SystemTime,
    ) -> Result<Arc<AwsCredential>, Refused> {
        match answer {
            Ok(given) => {
                self.renew = given.end.map(|end| {
                    let time = end.duration_since(now).unwrap_or_default();
                    end.checked_sub(BEFORE_END.min(time / 4)).unwrap_or(now)
                });
                let keys = given.keys.clone();
                (self.given, self.failed) = (Some(given), None);
                Ok(keys)
            }
            Err(refused) => {
                self.failed = Some((Instant::now(), refused.clone()));
                match &self.given {
                    Some(given) if given.end.is_none_or(|end| now < end) => {
                        let later = now.checked_add(PAUSE);
                        self.renew = later.min(given.end.or(later));
                        Ok(given.keys.clone())
                    }
                    _ => Err(refused),
                }
            }
        }
    }
}

/// The credentials of one source, for all stores of a process.
#[derive(Default)]
struct Shared {
    /// Gated.
    known: Mutex<Known>,
    /// Held by the task that asks.
    turn: tokio::sync::Mutex<()>,
}

/// A source, and its credentials in the process of this generation.
struct SharedSource {
    generation: u64,
    source: Source,
    /// A parent's value is not dropped: a task of the parent may hold its lock.
    shared: ManuallyDrop<Arc<Shared>>,
}

/// Gated.
static SHARED: Mutex<Vec<SharedSource>> = Mutex::new(Vec::new());

impl Shared {
    fn of(source: &Source) -> Arc<Shared> {
        let generation = fork::generation();
        let mut all = SHARED.lock();
        let known = match all.iter_mut().find(|entry| entry.source == *source) {
            Some(entry) if entry.generation == generation => return Arc::clone(&entry.shared),
            Some(entry) => {
                let shared = Arc::new(Shared {
                    known: Mutex::new(entry.shared.known.lock().clone()),
                    ..Shared::default()
                });
                entry.generation = generation;
                entry.shared = ManuallyDrop::new(Arc::clone(&shared));
                return shared;
            }
            None => Arc::<Shared>::default(),
        };
        if all.len() >= SOURCES {
            let old = all.remove(0);
            if old.generation == generation {
                drop(ManuallyDrop::into_inner(old.shared));
            }
        }
        all.push(SharedSource {
            generation,
            source: source.clone(),
            shared: ManuallyDrop::new(Arc::clone(&known)),
        });
        known
    }
}

/// Provides a client with the credentials of a source.
pub(crate) struct Provider {
    source: Source,
    web: Web,
    shared: Arc<Shared>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Provider {
    /// Creates a provider for a client of this process.
    pub(crate) fn new(source: &Source, web: Web) -> Self {
        Provider { shared: Shared::of(source), source: source.clone(), web }
    }

    async fn get(&self) -> Result<Arc<AwsCredential>, Refused> {
        let begun = Instant::now();
        if let Some(keys) = self.shared.known.lock().fresh(SystemTime::now()) {
            return Ok(keys);
        }
        let _turn = self.shared.turn.lock().await;
        {
            let known = self.shared.known.lock();
            if let Some(keys) = known.fresh(SystemTime::now()) {
                return Ok(keys);
            }
            // A task that waited for another's request takes over its failure.
            if let Some((when, refused)) = &known.failed
                && *when >= begun
            {
                return Err(refused.clone());
            }
        }
        let answer = self.source.ask(&self.web).await;
        self.shared.known.lock().take(answer, SystemTime::now())
    }
}

#[async_trait]
impl CredentialProvider for Provider {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let failed = |refused| object_store::Error::Generic { store: "S3", source: Box::new(refused) };
        self.get().await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Given, Known, PAUSE, Refused, Shared, Source, time};
    use crate::credentials::program::Program;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    #[test]
    fn times() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (text, seconds) in [
            ("1970-01-01T00:01:00Z", 60),
            ("2026-11-24T03:00:00UTC", 1_795_489_200),
            ("2026-11-24T05:00:00.5+02:00", 1_795_489_200),
        ] {
            assert_eq!(time(text), Some(at(seconds)), "{text}");
        }
        for text in ["", "UTC", "2026-11-24", "1969-01-01T00:00:00Z", "2026-13-24T03:00:00Z"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    fn given(end: Option<SystemTime>) -> Given {
        Given::new("x", "key", "secret", Some("token"), end).unwrap()
    }

    #[test]
    fn credentials_are_renewed_before_they_end() {
        let now = SystemTime::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut known = Known::default();
        assert!(known.fresh(now).is_none());
        assert!(known.take(Err(Refused::new("none")), now).is_err());
        known.take(Ok(given(None)), now).unwrap();
        assert!(known.fresh(after(1 << 30)).is_some());
        // Valid for an hour, and for two minutes.
        for (time, fresh, old) in [(3600, 3290, 3310), (120, 89, 91)] {
            known.take(Ok(given(Some(after(time)))), now).unwrap();
            assert!(known.fresh(after(fresh)).is_some() && known.fresh(after(old)).is_none());
        }
        // Valid credentials stay in use if renewal fails. They are not renewed again at once, but
        // at the latest when they expire.
        known.take(Err(Refused::new("none")), after(100)).unwrap();
        assert!(known.fresh(after(105)).is_some() && known.fresh(after(100) + PAUSE).is_none());
        known.take(Err(Refused::new("none")), after(115)).unwrap();
        assert!(known.fresh(after(119)).is_some() && known.fresh(after(120)).is_none());
        assert!(known.take(Err(Refused::new("none")), after(121)).is_err());
    }

    #[test]
    fn what_cannot_be_sent_or_has_expired_is_refused() {
        let past = Some(SystemTime::UNIX_EPOCH);
        for (key, secret, token, end, why) in [
            ("k\n", "canary", None, None, "characters"),
            ("k", "canary", Some("canary\u{1}"), None, "characters"),
            ("k", "canary", None, past, "expired"),
        ] {
            let refused = Given::new("it", key, secret, token, end).unwrap_err();
            assert!(refused.to_string().contains(why) && !format!("{refused:?}").contains("canary"));
        }
        assert!(!format!("{:?}", given(None)).contains("secret\""));
    }

    #[test]
    fn stores_share_what_a_source_gives() {
        let source = |profile: &str| Source::Program(Program::new(profile, "true").unwrap());
        let (one, other) = (Shared::of(&source("shared-1")), Shared::of(&source("shared-2")));
        assert!(Arc::ptr_eq(&one, &Shared::of(&source("shared-1"))) && !Arc::ptr_eq(&one, &other));
    }
}
