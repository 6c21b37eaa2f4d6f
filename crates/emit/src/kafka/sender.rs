//! Consumer of the exporter's queue: sends messages until accepted, and counts the outcome.

use std::sync::Arc;

use super::messages::{self, Outgoing};
use super::settings::{KafkaEncoding, KafkaExporterSettings};
use crate::content::ContentFilter;
use crate::counters::{LogLimiter, Loss};
use crate::dead_letters::DeadLetters;
use crate::queue::{Delivery, EvaluationBatch, Parcel, SendRequests};
use spanscore_base::otlp::Signal;
use spanscore_base::panics::Panicked;
use spanscore_kafka::{BrokerState, ProduceError, Producer};
use spanscore_net::backoff::chance;
use spanscore_net::client::retry::{Retries, RetrySettings};

/// Consumer of a `kafka` exporter's queue.
pub(super) struct KafkaSender {
    name: Arc<str>,
    producer: Producer,
    filter: ContentFilter,
    /// Encoding of messages, and true if they show content.
    form: (KafkaEncoding, bool),
    retries: RetrySettings,
    dead_letters: DeadLetters,
    trouble: LogLimiter,
    losses: LogLimiter,
}

/// Messages to retry, and the error if they must wait.
#[derive(Default)]
struct RetryMessages {
    messages: Vec<Outgoing>,
    error: Option<ProduceError>,
}

impl KafkaSender {
    pub(super) fn new(
        name: &str,
        settings: &KafkaExporterSettings,
        producer: Producer,
        filter: ContentFilter,
        dead_letters: DeadLetters,
        retries: RetrySettings,
    ) -> Self {
        Self {
            name: name.into(),
            producer,
            filter,
            form: (settings.encoding, settings.content.is_shown()),
            retries,
            dead_letters,
            trouble: LogLimiter::default(),
            losses: LogLimiter::default(),
        }
    }

    /// Sends messages once. Messages that are too large are halved if possible.
    async fn try_once(&self, messages: Vec<Outgoing>, delivery: &mut Delivery) -> RetryMessages {
        let produced: Vec<_> = messages.iter().map(Outgoing::message).collect();
        let outcomes = self.producer.send_all(&produced).await;
        let mut again = RetryMessages::default();
        for (outgoing, outcome) in messages.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => delivery.sent += u64::from(outgoing.count),
                Err(error) if error.is_transient() => {
                    again.messages.push(outgoing);
                    again.error = Some(error);
                }
                Err(error) => match outgoing.halves() {
                    Some(halves) => again.messages.extend(halves),
                    None => delivery.add(self.give_up(&outgoing, &error).await),
                },
            }
        }
        again
    }

    /// Gives up a permanently refused message: an OTLP one goes to the dead letters.
    async fn give_up(&self, outgoing: &Outgoing, error: &ProduceError) -> Delivery {
        let count = u64::from(outgoing.count);
        self.log_loss(error, count);
        let is_otlp = outgoing.encoding == KafkaEncoding::OtlpProto;
        let is_kept = is_otlp && {
            let reason = error.to_string();
            self.dead_letters.keep(Signal::Logs, &outgoing.payload, &reason).await
        };
        let loss = match error {
            _ if is_kept => Loss::DeadLettered,
            ProduceError::TooLarge { .. } => Loss::TooLarge,
            _ => Loss::Refused,
        };
        Delivery { sent: 0, lost: vec![(loss, count)] }
    }

    fn log_loss(&self, error: &ProduceError, evaluations: u64) {
        if self.losses.may_log() {
            tracing::warn!(exporter = %self.name, %error, evaluations,
                "failed to export evaluations, gave up");
        }
    }
}

impl SendRequests for KafkaSender {
    type Request = Vec<Outgoing>;

    fn is_unreachable(&self) -> bool {
        matches!(self.producer.state(), BrokerState::Away { .. })
    }

    /// Encodes the batch as messages that are sent together.
    async fn requests(&self, batch: &EvaluationBatch) -> Result<Vec<Vec<Outgoing>>, Panicked> {
        let form = self.form;
        let made = self
            .filter
            .make(batch, move |filter, batch| vec![messages::of_batch(filter, batch, form)]);
        made.await
    }

    /// Sends messages until each is accepted, permanently refused, or out of time.
    async fn send(&self, mut messages: Vec<Outgoing>) -> Delivery {
        let mut delivery = Delivery::default();
        let mut retries = Retries::new(&self.retries);
        loop {
            let again = self.try_once(messages, &mut delivery).await;
            if again.messages.is_empty() {
                return delivery;
            }
            messages = again.messages;
            let Some(error) = again.error else { continue };
            let Some(wait) = retries.next(None, chance()) else {
                let lost = messages.iter().map(|it| u64::from(it.count)).sum();
                self.log_loss(&error, lost);
                delivery.add(Delivery { sent: 0, lost: vec![(Loss::RetriesExhausted, lost)] });
                return delivery;
            };
            if self.trouble.may_log() {
                tracing::warn!(exporter = %self.name, %error, ?wait,
                    "failed to export evaluations, trying again");
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn into_parcel(messages: Vec<Outgoing>) -> Parcel {
        messages::pack(&messages)
    }

    fn from_parcel(parcel: &Parcel) -> Option<Vec<Outgoing>> {
        messages::unpack(parcel)
    }
}
