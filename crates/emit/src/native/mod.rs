//! Exporters of native scores: annotations and scores on the judged spans, in the form that a
//! backend displays as its own.
//!
//! Each score has a name or id determined by its evaluator and span, so that a revision or a
//! repetition replaces it. A [`NativeBackend`] builds the requests, and counts the scores that a
//! response refuses.

pub(super) mod langfuse;
pub(super) mod opik;
pub(super) mod phoenix;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::Method;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use smart_default::SmartDefault;

use super::content::{ContentFilter, ShownContent};
use super::counters::{LogLimiter, Loss};
use super::queue::{Delivery, EvaluationBatch, Parcel, QueueSettings, SendRequests};
use super::record;
use super::settings::Exporter;
use super::{ExporterStartError, Starting};
use spanscore_base::model::{Evaluation, Outcome};
use spanscore_base::panics::Panicked;
use spanscore_base::settings::{
    Address, HumanDuration, Node, Secret, SettingsError, schema_of_both,
};
use spanscore_net::client::Connection;
use spanscore_net::client::SendError;
use spanscore_net::client::retry::{RetrySettings, retry};
use spanscore_net::client::{Compression, JsonClient, Protocol, TlsSettings};

/// Limit on scores in one request.
const SCORES_MAX: usize = 200;

/// Delivery settings that all backends with their own API share.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct NativeSending {
    /// Time limit of one request. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    timeout: HumanDuration,
    /// TLS of connections to the server.
    tls: TlsSettings,
    /// Content that may quote arguments and results: `none` (default), `redacted` (without the
    /// personal data and credentials that are found) or `full`. `include_content` is another name
    /// of this setting.
    #[serde(alias = "include_content")]
    #[default(ShownContent::None)]
    content: ShownContent,
    /// Keeps an evaluation in the log below `data_dir`, if the process has one, until the server
    /// acknowledges it. Retries then have no time limit unless `retry_on_failure.max_elapsed_time`
    /// sets one, and the next process sends what a restart interrupts. Default `true`.
    #[default = true]
    must_deliver: bool,
    /// Queue of evaluations for the server.
    sending_queue: QueueSettings,
    /// Retries of failed requests.
    retry_on_failure: RetrySettings,
}

/// Settings of an exporter of native scores.
#[derive(Clone, Debug, PartialEq)]
struct NativeSettings {
    /// Address of the server; the path of its API is appended.
    endpoint: Address,
    /// Headers of every request.
    headers: BTreeMap<String, Secret>,
    sending: NativeSending,
}

/// Account settings of one backend: server and credentials.
trait NativeAccount: DeserializeOwned + JsonSchema {
    /// Returns the address of the server, and the headers of every request.
    ///
    /// # Errors
    /// A missing setting.
    fn server(&self) -> Result<(Address, BTreeMap<String, Secret>), SettingsError>;
}

/// Returns the schema of an exporter: the backend's settings and the shared ones.
fn schema<A: NativeAccount>() -> Schema {
    schema_of_both::<A, NativeSending>()
}

impl NativeSettings {
    fn connection(&self) -> Connection<'_> {
        let Self { endpoint, headers, sending: NativeSending { tls, timeout, .. } } = self;
        let protocol = Protocol::HttpJson;
        let compression = Compression::None;
        Connection { protocol, endpoint, headers, compression, timeout: *timeout, tls }
    }

    fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        self.connection().check()?;
        self.sending.sending_queue.check()?;
        self.sending.retry_on_failure.check()
    }

    /// Reads and checks the shared settings and the backend's.
    fn read<A: NativeAccount>(node: &Node) -> Result<(Self, A), SettingsError> {
        let (account, sending): (A, NativeSending) = node.read_both()?;
        let (endpoint, headers) = account.server()?;
        let settings = Self { endpoint, headers, sending };
        settings.check().map_err(|(key, error)| error.at(node.place_of(key)))?;
        Ok((settings, account))
    }

    /// Starts an exporter for a backend.
    fn start<B: NativeBackend>(
        &self,
        starting: &mut Starting<'_>,
        backend: B,
    ) -> Result<(), ExporterStartError> {
        let client = self.connection().client().map_err(|error| starting.client_error(error))?;
        let client = JsonClient::new(&client).map_err(|error| starting.client_error(error))?;
        let NativeSending { must_deliver, sending_queue, retry_on_failure, .. } = &self.sending;
        let sender = NativeSender {
            name: starting.name().into(),
            client,
            retry: starting.retries(*must_deliver, retry_on_failure),
            content: self.sending.content.is_shown(),
            filter: starting.content_filter(self.sending.content),
            backend: Arc::new(backend),
            trouble: LogLimiter::default(),
        };
        starting.show(self.sending.content.is_shown(), false);
        starting.sending_queue(*must_deliver, sending_queue, sender)
    }
}

/// Exporter for one backend.
#[derive(Debug)]
struct NativeExporter<B> {
    settings: NativeSettings,
    backend: B,
}

impl<B: NativeBackend> Exporter for NativeExporter<B> {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        self.settings.start(starting, self.backend.clone())
    }

    fn queue_bytes(&self) -> Option<usize> {
        let queue = &self.settings.sending.sending_queue;
        queue.queue_size.filter(|_| queue.enabled)
    }
}

/// Reads and checks the settings of an exporter, and builds its backend from its account.
fn exporter<A: NativeAccount, B: NativeBackend>(
    node: &Node,
    backend: impl FnOnce(A) -> B,
) -> Result<Arc<dyn Exporter>, SettingsError> {
    let (settings, account) = NativeSettings::read(node)?;
    Ok(Arc::new(NativeExporter { settings, backend: backend(account) }))
}

/// Score as input of a backend.
struct NativeScore<'a> {
    evaluation: &'a Evaluation,
    /// `pass`, `fail`, `not_evaluable` or `failed`.
    label: &'a str,
    /// Value of the score; `None` without a score, which is neither a pass nor a fail.
    value: Option<f64>,
    explanation: String,
}

impl<'a> NativeScore<'a> {
    fn new(evaluation: &'a Evaluation, content: bool) -> Self {
        let plain = || record::plain_explanation(evaluation);
        let (value, explanation) = match &evaluation.outcome {
            Outcome::Scored(score) if content => {
                (Some(score.value), score.explanation.as_str().to_owned())
            }
            Outcome::Scored(score) => (Some(score.value), plain()),
            Outcome::NotEvaluable { explanation, .. } if content => (None, explanation.clone()),
            _ => (None, plain()),
        };
        let label = evaluation.label().map_or(evaluation.outcome.as_str(), |label| label.as_str());
        Self { evaluation, label, value, explanation }
    }
}

/// Request of a backend's API.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NativeRequest {
    method: Method,
    /// Path below the endpoint.
    path: String,
    body: Bytes,
    /// Number of scores in it.
    count: u32,
}

impl NativeRequest {
    fn new(method: Method, path: &str, body: &Json, count: usize) -> Self {
        // No request holds more than `SCORES_MAX`.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self { method, path: path.to_owned(), body: body.to_string().into(), count }
    }
}

/// API of one backend.
trait NativeBackend: Clone + Debug + Send + Sync + 'static {
    /// Builds requests that together contain all the scores.
    fn requests(&self, scores: &[NativeScore<'_>]) -> Vec<NativeRequest>;

    /// Returns the number of scores that a response reports as refused.
    fn refused(&self, _answer: &[u8]) -> u64 {
        0
    }
}

/// Consumer of the queue, which sends scores to the backend.
struct NativeSender<B> {
    name: Arc<str>,
    client: JsonClient,
    retry: RetrySettings,
    content: bool,
    filter: ContentFilter,
    backend: Arc<B>,
    trouble: LogLimiter,
}

impl<B: NativeBackend> SendRequests for NativeSender<B> {
    type Request = NativeRequest;

    async fn requests(&self, batch: &EvaluationBatch) -> Result<Vec<NativeRequest>, Panicked> {
        let backend = Arc::clone(&self.backend);
        let content = self.content;
        let made = self.filter.make(batch, move |filter, batch| {
            requests(&*backend, filter, content, batch.iter().flat_map(|part| part.iter()))
        });
        made.await
    }

    async fn send(&self, request: NativeRequest) -> Delivery {
        let NativeRequest { method, path, body, count } = request;
        let count = u64::from(count);
        let attempt = || async {
            SendError::unless_unreadable(
                self.client.send(method.clone(), &path, body.clone()).await,
            )
        };
        let failed = |error: &str, wait| {
            if self.trouble.may_log() {
                tracing::warn!(exporter = %self.name, error, ?wait,
                    "failed to export scores, trying again");
            }
        };
        let error = match retry(&self.retry, attempt, failed).await {
            Ok(answer) => {
                let refused = self.backend.refused(&answer).min(count);
                let lost = if refused > 0 { vec![(Loss::RejectedPartly, refused)] } else { vec![] };
                return Delivery { sent: count - refused, lost };
            }
            Err(error) => error,
        };
        let loss = if error.is_refusal() { Loss::Refused } else { Loss::RetriesExhausted };
        let error = error.text();
        if self.trouble.may_log() {
            tracing::warn!(exporter = %self.name, error, "failed to export scores, gave up");
        }
        Delivery { sent: 0, lost: vec![(loss, count)] }
    }

    /// Encodes it for the overflow on disk: a line with method and path, then the body.
    fn into_parcel(request: NativeRequest) -> Parcel {
        let mut payload =
            BytesMut::from(format!("{} {}\n", request.method, request.path).as_bytes());
        payload.extend_from_slice(&request.body);
        Parcel { count: request.count, payload: payload.freeze() }
    }

    /// Decodes it from the overflow on disk; `None` if damaged.
    fn from_parcel(parcel: &Parcel) -> Option<NativeRequest> {
        let end = memchr::memchr(b'\n', &parcel.payload)?;
        let (method, path) = std::str::from_utf8(&parcel.payload[..end]).ok()?.split_once(' ')?;
        let method = method.parse().ok()?;
        let path = path.to_owned();
        Some(NativeRequest {
            method,
            path,
            body: parcel.payload.slice(end + 1..),
            count: parcel.count,
        })
    }
}

/// Builds the requests for some filtered evaluations.
fn requests<'e, B: NativeBackend>(
    backend: &B,
    filter: &ContentFilter,
    content: bool,
    evaluations: impl Iterator<Item = &'e Evaluation>,
) -> Vec<NativeRequest> {
    let all: Vec<_> = evaluations.map(|evaluation| filter.apply(evaluation)).collect();
    let requests = all.chunks(SCORES_MAX).flat_map(|part| {
        let scores: Vec<_> = part.iter().map(|it| NativeScore::new(it, content)).collect();
        backend.requests(&scores)
    });
    requests.collect()
}

#[cfg(test)]
mod tests;
