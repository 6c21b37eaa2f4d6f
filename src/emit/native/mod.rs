//! Exporters that write scores where a backend shows its own: not spans beside the judged ones but
//! annotations and scores on them.
//!
//! Every score is sent under a name that its evaluator and its span give, so that a later revision,
//! or the same evaluation sent twice, takes its place. A backend is a [`NativeBackend`]: the path,
//! the body, and what its answer says of single scores.

pub(super) mod langfuse;
pub(super) mod phoenix;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use super::connection::Connection;
use super::content::{ContentFilter, ShownContent};
use super::counters::{Loss, Seldom};
use super::queue::{Deliver, Delivery, EvaluationBatch, QueueLimits, QueueSettings};
use super::record;
use super::{ExporterStartError, Starting};
use crate::client::retry::{AttemptError, GivenUp, RetrySettings, retry};
use crate::client::{ClientSettings, Compression, JsonClient, Protocol, TlsSettings};
use crate::model::{Evaluation, Outcome};
use crate::settings::{HumanDuration, Node, Secret, SettingsError};

/// Scores in one request.
const SCORES_MAX: usize = 200;

/// Settings of an exporter of native scores.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NativeSettings {
    /// The address of the server, such as `http://localhost:6006`; the path of its interface is
    /// appended.
    pub(crate) endpoint: String,
    /// Headers of every request, such as an authorization; never logged.
    pub(crate) headers: BTreeMap<String, Secret>,
    /// Longest wait for the answer to one request.
    pub(crate) timeout: HumanDuration,
    /// TLS to the server.
    pub(crate) tls: TlsSettings,
    /// How much of what may quote arguments and results leaves the process: `none`, `redacted`
    /// (without personal data and credentials) or `full`; `include_content` is its other name.
    #[serde(alias = "include_content")]
    pub(crate) content: ShownContent,
    /// What waits while the server is slow or away.
    pub(crate) sending_queue: QueueSettings,
    /// How a failed request is tried again.
    pub(crate) retry_on_failure: RetrySettings,
}

impl Default for NativeSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            headers: BTreeMap::new(),
            timeout: HumanDuration::from_secs(10),
            tls: TlsSettings::default(),
            content: ShownContent::None,
            sending_queue: QueueSettings::default(),
            retry_on_failure: RetrySettings::default(),
        }
    }
}

impl NativeSettings {
    fn connection(&self) -> Connection<'_> {
        let Self { endpoint, headers, tls, timeout, .. } = self;
        let (protocol, compression) = (Protocol::HttpJson, Compression::None);
        Connection { protocol, endpoint, headers, compression, timeout: *timeout, tls }
    }

    fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        self.connection().check()?;
        self.sending_queue.check().map_err(|text| ("sending_queue", SettingsError::new(text)))?;
        let text = self.retry_on_failure.check();
        text.map_err(|text| ("retry_on_failure", SettingsError::new(text)))
    }

    /// Reads and checks settings.
    fn read(node: &Node) -> Result<Self, SettingsError> {
        let settings: Self = node.read()?;
        settings.check().map_err(|(key, error)| match node.get(key) {
            Some(value) => error.at(value.place),
            None => error,
        })?;
        Ok(settings)
    }

    /// Starts an exporter to a backend.
    fn start<B: NativeBackend>(
        &self,
        starting: &mut Starting<'_>,
        backend: B,
    ) -> Result<(), ExporterStartError> {
        let failed =
            |error| ExporterStartError::Client { exporter: starting.name().to_owned(), error };
        let client: ClientSettings =
            self.connection().client().map_err(|error| failed(error.to_string()))?;
        let client = JsonClient::new(&client).map_err(failed)?;
        let sender = NativeSender {
            name: starting.name().into(),
            client,
            retry: self.retry_on_failure.clone(),
            content: self.content.is_shown(),
            filter: starting.content_filter(self.content),
            backend,
            trouble: Seldom::new(),
        };
        starting.show(self.content.is_shown(), false);
        starting.queue(QueueLimits::from(&self.sending_queue), sender);
        Ok(())
    }

    fn queue_bytes(&self) -> Option<usize> {
        self.sending_queue.queue_size.filter(|_| self.sending_queue.enabled)
    }
}

/// One score as a backend gets it.
struct NativeScore<'a> {
    evaluation: &'a Evaluation,
    /// `pass`, `fail`, `not_evaluable` or `failed`.
    label: &'a str,
    /// `None` where nothing was scored: neither a pass nor a fail.
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

/// What differs from backend to backend.
trait NativeBackend: Send + Sync + 'static {
    /// The path of the interface, below the endpoint.
    const PATH: &'static str;

    /// The body of one request; `None` where none of the scores can be sent.
    fn body(&self, scores: &[NativeScore<'_>]) -> Json;

    /// How many scores an answer says were refused.
    fn refused(&self, _answer: &[u8]) -> u64 {
        0
    }
}

/// The end of the queue.
struct NativeSender<B> {
    name: Arc<str>,
    client: JsonClient,
    retry: RetrySettings,
    content: bool,
    filter: ContentFilter,
    backend: B,
    trouble: Seldom,
}

impl<B: NativeBackend> NativeSender<B> {
    async fn send(&self, body: String, count: u64) -> Delivery {
        let body = bytes::Bytes::from(body);
        let attempt = || async { AttemptError::of(self.client.post(B::PATH, body.clone()).await) };
        let failed = |error: &str, wait| {
            if self.trouble.may_log() {
                tracing::warn!(exporter = %self.name, error, ?wait,
                    "failed to export scores, trying again");
            }
        };
        let (loss, error) = match retry(&self.retry, attempt, failed).await {
            Ok(answer) => {
                let refused = self.backend.refused(&answer).min(count);
                let lost = if refused > 0 { vec![(Loss::RejectedPartly, refused)] } else { vec![] };
                return Delivery { sent: count - refused, lost };
            }
            Err(GivenUp::Refused(error)) => (Loss::Refused, error),
            Err(GivenUp::Exhausted(error)) => (Loss::RetriesExhausted, error),
        };
        if self.trouble.may_log() {
            tracing::warn!(exporter = %self.name, error, "failed to export scores, gave up");
        }
        Delivery { sent: 0, lost: vec![(loss, count)] }
    }
}

/// The bodies for some evaluations as they may be shown, each with how many scores it holds.
fn requests<'e, B: NativeBackend>(
    backend: &B,
    filter: &ContentFilter,
    content: bool,
    evaluations: impl Iterator<Item = &'e Evaluation>,
) -> Vec<(String, u64)> {
    let all: Vec<_> = evaluations.map(|evaluation| filter.apply(evaluation)).collect();
    let bodies = all.chunks(SCORES_MAX).map(|part| {
        let scores: Vec<_> = part.iter().map(|it| NativeScore::new(it, content)).collect();
        (backend.body(&scores).to_string(), part.len() as u64)
    });
    bodies.collect()
}

impl<B: NativeBackend> Deliver for NativeSender<B> {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let evaluations = batch.iter().flat_map(|part| part.iter());
        let requests = requests(&self.backend, &self.filter, self.content, evaluations);
        let mut delivery = Delivery::default();
        for (body, count) in requests {
            delivery.add(self.send(body, count).await);
        }
        delivery
    }
}

#[cfg(test)]
mod tests;
