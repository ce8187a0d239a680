//! Requests to services that give credentials.

use super::{Given, Refused};
use crate::failure::leaf;
use crate::transport::Service;
use futures_util::StreamExt;
use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;
use object_store::client::{HttpRequest, HttpResponseBody, HttpService};
use std::time::Duration;

/// Longest response. Credentials have about 2000 bytes.
const MOST: usize = 64 << 10;

/// Retries after the first attempt.
const AGAIN: u32 = 3;

/// Client for services that give credentials.
pub(crate) struct Web {
    pub(crate) service: Service,
    /// The longest time that any operation may take.
    pub(crate) patience: Duration,
}

/// A service's response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Web {
    /// Sends a request, with a few retries if the service fails or cannot be reached.
    ///
    /// `make` creates the request anew each time, because signatures contain the time. `name` is
    /// the service's name for messages.
    pub(super) async fn ask(
        &self,
        name: &str,
        make: impl Fn() -> Result<HttpRequest, Refused>,
    ) -> Result<Answer, Refused> {
        let mut attempt = 0;
        loop {
            let asked = tokio::time::timeout(self.patience, self.once(make()?)).await;
            let why = match asked {
                Ok(Ok(answer)) if attempt == AGAIN || !matches!(answer.status, 429 | 500..) => {
                    return Ok(answer);
                }
                Ok(Ok(answer)) => format!("it answered with status {}", answer.status),
                Ok(Err(why)) => why,
                Err(_) => "it did not answer in time".to_owned(),
            };
            if attempt == AGAIN {
                return Err(Refused::new(format!("no credentials: {name} was not reached: {why}")));
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            attempt += 1;
        }
    }

    async fn once(&self, request: HttpRequest) -> Result<Answer, String> {
        let response = self.service.call(request).await.map_err(|error| leaf(&error))?;
        let status = response.status().as_u16();
        Ok(Answer { status, text: text(response.into_body()).await? })
    }

    /// Requests the credentials of the container or machine that this process runs in.
    pub(super) async fn machine(&self, options: &[(String, String)]) -> Result<Given, Refused> {
        let retries = RetryConfig {
            max_retries: AGAIN as usize,
            retry_timeout: self.patience,
            ..RetryConfig::default()
        };
        let builder = AmazonS3Builder::new().with_bucket_name("none").with_retry(retries);
        let mut builder = builder.with_http_connector(self.service.clone());
        for (name, value) in options {
            if let Ok(key) = name.parse() {
                builder = builder.with_config(key, value);
            }
        }
        let refused = |error: object_store::Error| {
            Refused::new(format!("no credentials: this machine gives none: {}", leaf(&error)))
        };
        let store = builder.build().map_err(refused)?;
        let keys = store.credentials().get_credential().await.map_err(refused)?;
        Ok(Given { keys, end: None })
    }
}

/// Reads a body of limited length.
async fn text(body: HttpResponseBody) -> Result<String, String> {
    let (mut stream, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| leaf(&error))?);
        if bytes.len() > MOST {
            return Err("its answer is too long".into());
        }
    }
    String::from_utf8(bytes).map_err(|_| "its answer is no text".into())
}

/// Makes foreign text safe for a message.
pub(super) fn said(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
